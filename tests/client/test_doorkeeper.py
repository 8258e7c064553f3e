"""At the door: who is let in, for how long that is remembered, and what is told of the others."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

import duly
from duly import StoreUnavailable, Unauthenticated
from duly.client.access import (
    ADDRESSES_MAX,
    REMEMBERED_MAX,
    REMEMBERED_US,
    TOLD_US,
    TokenAuthenticator,
)
from duly.domain.auth import DRAWN_BYTES, PrincipalKind, Role, make_token, read_token
from duly.store.memory import MemoryStore
from duly.store.ports.queries import AuditFilter
from duly.testing import SeededDraws


@pytest.fixture
def door(app):
    return app.doorkeeper()


@pytest.fixture
def token(app):
    return app.tokens.create("ci", role="operator", tenant="acme")


def refused(call, *values):
    with pytest.raises(Unauthenticated) as caught:
        call(*values)
    return caught.value.problem


def refusals(app):
    return [entry.after for entry in app.store.list_audit(AuditFilter(action="access.refused"))]


def test_who_comes_with_a_token_is_its_principal(app, door, token):
    """With its tenant and its role."""
    principal = door.authenticate(token.text)

    assert ("acme", "ci", Role.OPERATOR, PrincipalKind.TOKEN, token.token.id.bytes) == (
        principal.tenant,
        principal.name,
        principal.role,
        principal.kind,
        principal.id,
    )


@pytest.mark.parametrize("text", [None, "", "duly", "x" * 100_000, "Bearer duly_x", "\ud800"])
def test_what_is_no_token_opens_nothing(door, text):
    assert refused(door.authenticate, text) in {"no token was sent", "that is not a token"}


def test_a_token_of_another_store_opens_nothing(door):
    strange = make_token(SeededDraws(9).draw(DRAWN_BYTES))

    assert "the token is not known here" == refused(door.authenticate, strange.text)


def test_a_prefix_alone_opens_nothing(door, token):
    """With another secret and its right checksum, it is like any unknown one."""
    other = make_token(SeededDraws(9).draw(DRAWN_BYTES))._replace(prefix=token.token.prefix)

    assert "the token is not known here" == refused(door.authenticate, other.text)


def test_a_token_that_has_expired_opens_nothing(app, door, clock):
    brief = app.tokens.create("ci", expires="1h")
    assert door.authenticate(brief.text)
    clock.advance("1h")

    assert "the token has expired" == refused(door.authenticate, brief.text)


def test_a_revoked_token_opens_nothing_within_a_second_wherever_it_is_shown(app, token, clock):
    """Whoever let it in a moment ago asks again half a second later."""
    doors = [app.doorkeeper() for _ in range(2)]
    for door in doors:
        assert door.authenticate(token.text)
    app.tokens.revoke(token.token.id)
    clock.advance(REMEMBERED_US)

    for door in doors:
        assert "the token was revoked" == refused(door.authenticate, token.text)
    assert REMEMBERED_US < 1_000_000


class CountingStore(MemoryStore):
    """Counts what it is asked."""

    def __init__(self, clock):
        super().__init__(clock)
        self.asked: Counter[str] = Counter()
        self.is_away = False

    def find_token(self, prefix, tenant=None):
        self.asked["find_token"] += 1
        return super().find_token(prefix, tenant)

    def use_token(self, token):
        self.asked["use_token"] += 1
        self._be_away()
        super().use_token(token)

    def note_refusals(self, command):
        self.asked["note_refusals"] += 1
        self._be_away()
        super().note_refusals(command)

    def _be_away(self):
        if self.is_away:
            raise StoreUnavailable(self.name, "is full", "make room")


class TestCosts:
    """What a crowd at the door costs the store."""

    @pytest.fixture
    def store(self, clock):
        return CountingStore(clock)

    def test_a_good_answer_is_remembered_for_half_a_second(self, store, door, token, clock):
        for _ in range(100):
            door.authenticate(token.text)
        clock.advance(REMEMBERED_US - 1)
        door.authenticate(token.text)
        assert 1 == store.asked["find_token"]
        clock.advance(1)
        door.authenticate(token.text)

        assert 2 == store.asked["find_token"]

    def test_a_refusal_is_never_remembered(self, store, app, door):
        """Who has a token made comes in at once."""
        strange = make_token(SeededDraws(9).draw(DRAWN_BYTES))
        for _ in range(3):
            refused(door.authenticate, strange.text)

        assert 3 == store.asked["find_token"]

    def test_what_can_not_be_a_token_does_not_reach_the_store(self, store, door, token):
        refused(door.authenticate, token.text[:-1] + "a")

        assert 0 == store.asked["find_token"]

    def test_no_more_are_remembered_than_a_limit(self, app, door):
        for _ in range(REMEMBERED_MAX + 5):
            door.authenticate(app.tokens.create("ci").text)

        assert len(door._known) <= REMEMBERED_MAX  # noqa: SLF001 - what nobody sees grows

    def test_a_use_is_written_once_in_a_minute(self, store, app, door, token, clock):
        """Also when it is used all the time."""
        for _ in range(120):
            door.authenticate(token.text)
            clock.advance("1s")

        assert 2 == store.asked["use_token"]
        assert app.tokens.get(token.token.id).last_used_at is not None

    def test_a_store_that_can_not_write_lets_in_all_the_same(self, store, door, token):
        store.is_away = True

        assert door.authenticate(token.text)
        assert 1 == store.asked["use_token"]

    def test_refusals_are_told_together_once_in_a_minute(self, store, app, door, clock):
        """A million tries are a few entries, and none is forgotten."""
        strange = make_token(SeededDraws(9).draw(DRAWN_BYTES)).text
        for _ in range(50):
            refused(door.authenticate, strange)
            refused(door.authenticate, "nonsense")
        assert [{"unknown": 1}] == refusals(app)
        clock.advance(TOLD_US)
        refused(door.authenticate, strange)
        assert {"unknown": 50, "malformed": 50} == refusals(app)[0]
        refused(door.authenticate, "nonsense")
        door.close()
        door.close()

        assert [{"malformed": 1}, {"unknown": 50, "malformed": 50}, {"unknown": 1}] == refusals(app)

    def test_refusals_are_told_with_the_addresses_they_came_from(self, app, door, clock):
        """Who tries, from where, and how often."""
        refused(door.authenticate, "nonsense", "192.0.2.1")
        for address in ("192.0.2.1", "192.0.2.1", "2001:db8::7", None):
            refused(door.session, "nonsense", address)
        refused(door.spend_code, "nonsense", "192.0.2.9")
        door.close()

        told, first = refusals(app)
        assert {"malformed": 1, "from": {"192.0.2.1": 1}} == first
        assert {"192.0.2.1": 2, "192.0.2.9": 1, "2001:db8::7": 1} == told["from"]

    def test_a_crowd_of_addresses_is_told_in_one_bounded_entry(self, store, app, door):
        """A flood of bad tokens, from wherever, fills neither memory nor store; none is lost."""
        store.is_away = True
        for number in range(ADDRESSES_MAX + 500):
            refused(door.authenticate, "nonsense", f"198.51.{number // 250}.{number % 250}")
        store.is_away = False
        door.close()

        (told,) = refusals(app)
        assert ADDRESSES_MAX + 1 == len(told["from"])
        assert (ADDRESSES_MAX + 500, 500) == (told["malformed"], told["from"]["others"])
        assert told["malformed"] == sum(told["from"].values())

    def test_who_brings_nothing_is_not_worth_a_word(self, app, door):
        refused(door.authenticate, None)
        refused(door.session, "")
        door.close()

        assert [] == refusals(app)

    def test_refusals_wait_for_a_store_that_can_not_write(self, store, app, door):
        store.is_away = True
        refused(door.authenticate, "nonsense")
        store.is_away = False
        refused(door.authenticate, "nonsense")

        assert [{"malformed": 2}] == refusals(app)

    def test_many_may_come_at_once(self, app, door, token):
        with ThreadPoolExecutor(8) as threads:
            let_in = list(threads.map(door.authenticate, 100 * [token.text]))
            turned_away = list(
                threads.map(lambda text: refused(door.authenticate, text), 100 * ["nonsense"])
            )
        door.close()

        assert {token.token.id.bytes} == {one.id for one in let_in}
        assert 100 == len(turned_away)
        assert 100 == sum(entry["malformed"] for entry in refusals(app))


def test_a_session_is_begun_with_a_token_and_ends_with_it(app, door, token, clock):
    begun = door.begin_session(token.text)
    principal = door.session(begun.secret)

    assert ("acme", "ci", Role.OPERATOR, PrincipalKind.SESSION) == (
        principal.tenant,
        principal.name,
        principal.role,
        principal.kind,
    )
    assert begun.secret not in repr(begun)
    app.tokens.revoke(token.token.id)
    clock.advance(REMEMBERED_US)
    assert refused(door.session, begun.secret)


def test_a_session_is_over_at_once_when_its_browser_ends_it(door, token):
    """What was remembered of it is forgotten."""
    begun = door.begin_session(token.text)
    assert door.session(begun.secret)

    assert door.end_session(begun.secret)
    assert refused(door.session, begun.secret)
    assert not door.end_session(begun.secret)


def test_a_session_is_on_record_with_address_and_token(app, door, token):
    """Who began and ended it, by what, and from where."""
    begun = door.begin_session(token.text, "192.0.2.1")
    principal = door.session(begun.secret)
    door.end_session(begun.secret, "192.0.2.2")
    door.spend_code(door.make_code(), "192.0.2.3")

    told = [
        (entry.action, entry.actor.address, entry.actor.credential)
        for entry in app.store.list_audit(AuditFilter())
        if entry.action.startswith("session.")
    ]
    assert [
        ("session.begun", "192.0.2.3", None),
        ("session.ended", "192.0.2.2", principal.credential),
        ("session.begun", "192.0.2.1", f"token:{token.token.id}"),
    ] == told


def test_a_token_is_no_session_and_a_session_no_token(door, token):
    begun = door.begin_session(token.text)
    door.authenticate(token.text)

    assert refused(door.session, token.text)
    assert refused(door.authenticate, begun.secret)


def test_a_code_begins_one_session_of_an_admin(door):
    """The first way in, before there is any token."""
    code = door.make_code()
    principal = door.session(door.spend_code(code).secret)

    assert ("*", Role.ADMIN, "console") == (principal.tenant, principal.role, principal.name)
    assert refused(door.spend_code, code)
    assert refused(door.spend_code, "")
    assert refused(door.spend_code, "x" * 10_000)


def test_a_code_is_worth_nothing_a_while_later(door, clock):
    code = door.make_code()
    clock.advance("15m")

    assert refused(door.spend_code, code)


def test_two_browsers_never_share_a_session(door, token):
    first, second = (door.begin_session(token.text) for _ in range(2))

    assert first.secret != second.secret
    assert first.record.principal.id != second.record.principal.id


def test_a_doorkeeper_is_asked_through_the_application(app):
    assert isinstance(app.doorkeeper(), TokenAuthenticator)


def test_no_secret_is_anywhere_in_a_stores_files(tmp_path, clock):
    """Neither of a token, nor of a session, nor of a code; in what was written or left over."""
    folder = tmp_path / "store"
    folder.mkdir()
    app = duly.App(f"sqlite:///{folder}/duly.db", clock=clock)
    door = app.doorkeeper()
    made = app.tokens.create("ci")
    begun = door.begin_session(made.text)
    code = door.make_code()
    app.tokens.revoke(made.token.id)
    clock.advance(REMEMBERED_US)
    refused(door.authenticate, made.text)
    written = b"".join(file.read_bytes() for file in folder.iterdir())
    app.close()

    assert made.token.prefix.encode() in written
    token = read_token(made.text)
    assert token is not None
    for secret in (token.secret, begun.secret, code):
        assert secret.encode() not in written
