"""Who may come in: the part of the contract about tokens, sessions and codes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from duly.domain.access import (
    EVERY_TENANT,
    USE_NOTED_US,
    Expiry,
    PrincipalKind,
    Refusal,
    Role,
    TokenId,
    TokenRecord,
    secret_hash,
)
from duly.domain.identity import schedule_id
from duly.errors import Conflict, NotFound, UsageError
from duly.store.access import (
    CODE_US,
    SESSION_US,
    AddSession,
    AddToken,
    NoteRefusals,
    RevokeToken,
)
from duly.testing.conformance.steps import audit
from duly.testing.factories import ADA, DAY_US, HOUR_US

if TYPE_CHECKING:
    from duly.store.access import SessionRecord
    from duly.store.protocol import Store
    from duly.testing.manual_clock import ManualClock

SECRET = secret_hash("open sesame")


class Tokens:
    """What tokens promise."""

    def test_a_token_is_found_by_its_prefix(self, store: Store, clock: ManualClock) -> None:
        """L1: as it was made, with its hash, at the store's time."""
        made = add(store, name="ci", tenant="acme", role=Role.ADMIN, expiry=Expiry(after_us=5))
        clock.advance(3)

        found = store.find_token(made.prefix)

        assert found is not None
        assert made == found.record
        assert (made.created_at + 5, made.created_at + 3) == (made.expires_at, found.now)
        assert ("ci", "acme", Role.ADMIN, "ada") == (
            made.name,
            made.tenant,
            made.role,
            made.created_by,
        )
        assert store.find_token("zzzzzzzz") is None

    def test_a_prefix_is_given_once(self, store: Store) -> None:
        """L1: also if its token is revoked."""
        made = add(store)
        revoke(store, made)

        with pytest.raises(Conflict, match="is the prefix of another token"):
            store.add_token(replace(order(2), prefix=made.prefix))

        assert [made.id] == [one.id for one in store.list_tokens(None)]

    def test_a_token_that_would_have_expired_is_not_made(self, store: Store) -> None:
        """L6: by the store's clock."""
        with pytest.raises(UsageError, match="expires"):
            add(store, expiry=Expiry(at=store.now()))

        assert [] == store.list_tokens(None)
        assert [] == audit(store)

    def test_tokens_are_listed_by_tenant_newest_first(
        self, store: Store, clock: ManualClock
    ) -> None:
        """L1, L2: those that open nothing are listed too."""
        old = add(store, 1, tenant="acme", expiry=Expiry(after_us=1))
        clock.advance(1)
        new = add(store, 2, tenant="acme", expiry=Expiry())
        everywhere = add(store, 3, tenant=EVERY_TENANT)

        assert [new, old] == store.list_tokens("acme")
        assert [everywhere] == store.list_tokens(EVERY_TENANT)
        assert [] == store.list_tokens("globex")
        assert {new.id, old.id, everywhere.id} == {one.id for one in store.list_tokens(None)}

    def test_a_token_is_revoked_once_and_for_good(self, store: Store, clock: ManualClock) -> None:
        """L1: whoever revokes it again finds who was first."""
        made = add(store)
        clock.advance(7)
        first = revoke(store, made)
        clock.advance(1)

        again = store.revoke_token(RevokeToken(id=made.id, tenant=None, actor=other("bob")))

        found = store.find_token(made.prefix)
        assert found is not None
        assert first == again == found.record
        assert (made.created_at + 7, "ada") == (first.revoked_at, first.revoked_by)

    def test_a_token_of_another_tenant_is_not_there(self, store: Store) -> None:
        """L2: exactly as one that does not exist."""
        made = add(store, tenant="acme")
        for missing in (made.id, TokenId(bytes(16))):
            with pytest.raises(NotFound) as caught:
                store.revoke_token(RevokeToken(id=missing, tenant="globex", actor=ADA))
            assert "token" == caught.value.what

        assert [made] == store.list_tokens("acme")
        assert ["token.created"] == [entry.action for entry in audit(store)]

    def test_orders_about_tokens_are_on_record_without_their_secret(self, store: Store) -> None:
        """A2, L1: by whom, which, and what it may do."""
        made = add(store, name="ci", tenant="acme", expiry=Expiry())
        revoke(store, made)
        revoke(store, made)

        ended, began = audit(store)

        assert ("token.created", "token.revoked") == (began.action, ended.action)
        for entry in (began, ended):
            assert (ADA, "acme", "ci", made.id) == (
                entry.actor,
                entry.tenant,
                entry.subject,
                entry.subject_id,
            )
        assert {"prefix": made.prefix, "role": "operator", "expires_at": None} == began.after
        assert {"prefix": made.prefix, "role": "operator"} == ended.before

    def test_a_use_is_noted_to_the_minute(self, store: Store, clock: ManualClock) -> None:
        """L1: a token that is used all the time is not written all the time."""
        made = add(store)
        clock.advance(10)
        store.use_token(made.id)
        first = last_used(store, made)
        clock.advance(USE_NOTED_US - 1)
        store.use_token(made.id)
        second = last_used(store, made)
        clock.advance(1)
        store.use_token(made.id)

        assert first == second == made.created_at + 10
        assert made.created_at + 10 + USE_NOTED_US == last_used(store, made)
        store.use_token(TokenId(bytes(16)))

    def test_it_is_known_whether_anybody_can_come_in(
        self, store: Store, clock: ManualClock
    ) -> None:
        """L1: by a token that is neither revoked nor expired."""
        assert not store.has_live_token()
        brief = add(store, 1, expiry=Expiry(after_us=5))
        assert store.has_live_token()
        clock.advance(5)
        assert not store.has_live_token()
        lasting = add(store, 2, expiry=Expiry())
        assert store.has_live_token()
        revoke(store, lasting)
        revoke(store, brief)

        assert not store.has_live_token()

    def test_refusals_are_on_record_together(self, store: Store) -> None:
        """L1, A2: how many of each kind, in one entry."""
        counts = {Refusal.UNKNOWN: 3, Refusal.EXPIRED: 1, Refusal.REVOKED: 0}
        store.note_refusals(NoteRefusals(counts, {}, ADA))

        (entry,) = audit(store)

        assert ("access.refused", "", "credentials") == (entry.action, entry.tenant, entry.subject)
        assert {"unknown": 3, "expired": 1} == entry.after

    def test_refusals_tell_from_where_they_came(self, store: Store) -> None:
        """L1, A2: as far as that is known."""
        places = {"192.0.2.1": 2, "2001:db8::1": 1}
        store.note_refusals(NoteRefusals({Refusal.UNKNOWN: 3}, places, ADA))

        (entry,) = audit(store)

        assert {"unknown": 3, "from": places} == entry.after


class Sessions:
    """What sessions and codes promise."""

    def test_a_session_is_found_by_the_hash_of_its_secret(self, store: Store) -> None:
        """L1."""
        begun = begin(store)

        assert begun == store.find_session(SECRET)
        assert ("acme", "ada", Role.OPERATOR, PrincipalKind.SESSION) == (
            begun.principal.tenant,
            begun.principal.name,
            begun.principal.role,
            begun.principal.kind,
        )
        assert store.find_session(secret_hash("open barley")) is None

    def test_a_session_is_over_when_it_expires(self, store: Store, clock: ManualClock) -> None:
        """L1: at the very edge."""
        begin(store)
        clock.advance(SESSION_US - 1)
        assert store.find_session(SECRET) is not None
        clock.advance(1)

        assert store.find_session(SECRET) is None

    def test_a_session_is_over_when_it_is_ended(self, store: Store) -> None:
        """L1, A2: and both ends of it are on record."""
        begin(store)

        assert store.end_session(SECRET, ADA)
        assert not store.end_session(SECRET, ADA)
        assert store.find_session(SECRET) is None
        ended, begun = audit(store)
        assert ("session.begun", "session.ended") == (begun.action, ended.action)
        assert ("acme", "ada") == (ended.tenant, ended.subject)

    @pytest.mark.parametrize("end", ["revoked", "expired", "forgotten"])
    def test_a_session_ends_with_the_token_it_was_begun_with(
        self, store: Store, clock: ManualClock, end: str
    ) -> None:
        """L1: whoever revokes a token shuts out who came in by it."""
        token = add(store, expiry=Expiry(after_us=HOUR_US) if end == "expired" else Expiry())
        missing = TokenId(bytes(16))
        begin(store, token_id=missing if end == "forgotten" else token.id)
        if end != "forgotten":
            assert store.find_session(SECRET) is not None
        if end == "revoked":
            revoke(store, token)
        if end == "expired":
            clock.advance(HOUR_US)

        assert store.find_session(SECRET) is None

    def test_a_code_is_spent_once(self, store: Store) -> None:
        """L1."""
        store.add_code(SECRET)

        assert not store.spend_code(secret_hash("open barley"))
        assert store.spend_code(SECRET)
        assert not store.spend_code(SECRET)

    def test_a_code_can_not_be_spent_when_it_has_expired(
        self, store: Store, clock: ManualClock
    ) -> None:
        """L1."""
        store.add_code(SECRET)
        store.add_code(secret_hash("later"), 2 * CODE_US)
        clock.advance(CODE_US)

        assert not store.spend_code(SECRET)
        assert store.spend_code(secret_hash("later"))


def order(number: int, **parts: Any) -> AddToken:
    """Return the order to make a token."""
    given: dict[str, Any] = {
        "id": TokenId(schedule_id(0, number.to_bytes(10))),
        "name": "ci",
        "tenant": "acme",
        "role": Role.OPERATOR,
        "prefix": f"prefix{number:02}",
        "hash": secret_hash(f"secret {number}"),
        "expiry": Expiry(after_us=90 * DAY_US),
        "actor": ADA,
    }
    return AddToken(**given | parts)


def add(store: Store, number: int = 1, **parts: Any) -> TokenRecord:
    """Make a token."""
    return store.add_token(order(number, **parts))


def revoke(store: Store, token: TokenRecord) -> TokenRecord:
    """Revoke a token."""
    return store.revoke_token(RevokeToken(id=token.id, tenant=None, actor=ADA))


def last_used(store: Store, token: TokenRecord) -> int | None:
    """Return when a token was last used, as far as it is noted."""
    found = store.find_token(token.prefix)
    assert found is not None
    return found.record.last_used_at


def begin(
    store: Store, words: str = "open sesame", token_id: TokenId | None = None
) -> SessionRecord:
    """Begin a session."""
    command = AddSession(
        hash=secret_hash(words),
        id=schedule_id(1, bytes(10)),
        tenant="acme",
        name="ada",
        role=Role.OPERATOR,
        token_id=token_id,
        actor=ADA,
    )
    return store.add_session(command)


def other(name: str) -> Any:
    """Return somebody else."""
    return replace(ADA, name=name)
