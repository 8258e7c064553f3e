"""What every store must do about tokens, sessions, tenants and stored answers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from duly.domain.auth import (
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
from duly.domain.enums import Missed, Origin, ScheduleStatus
from duly.domain.ids import RunId, schedule_id
from duly.domain.schedule_changes import decide_pause
from duly.errors import Conflict, NotFound, UsageError
from duly.store.ports.auth import (
    ANSWER_AWAITED_US,
    ANSWER_KEPT_US,
    CODE_US,
    FROZEN_SETS_MAX,
    FROZEN_US,
    SESSION_US,
    TOKENS_KEPT_US,
    AddSession,
    AddToken,
    BeginRequest,
    CreateSelection,
    FinishAnswer,
    IdempotencyCheck,
    IdempotencyKey,
    IdempotencyStatus,
    NoteRefusals,
    RevokeToken,
    StoredResponse,
)
from duly.store.ports.effects import Rerun
from duly.store.ports.maintenance import PruneKind
from duly.store.ports.queries import OpenCounts, OwnQueue, TenantCounts
from duly.store.ports.schedules import Stale
from duly_conformance import alerts, steps
from duly_conformance import steps as work
from duly_conformance.effects import in_doubt
from duly_conformance.kit import (
    ADA,
    DAY_US,
    HOUR_US,
    add_runs,
    change_of,
    new_run,
    new_schedule,
    snapshot,
    staying,
)
from duly_conformance.steps import audit
from duly_conformance.vitals import KEEP, prune

if TYPE_CHECKING:
    from duly.engine.manual_clock import ManualClock
    from duly.store.ports import Store
    from duly.store.ports.auth import SessionRecord


SECRET = secret_hash("open sesame")


class Tokens:
    """What tokens promise."""

    def test_a_token_is_found_by_its_prefix(self, store: Store, clock: ManualClock) -> None:
        """As it was made, with its hash, at the store's time."""
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
        """Also if its token is revoked."""
        made = add(store)
        revoke(store, made)

        with pytest.raises(Conflict, match="is the prefix of another token"):
            store.add_token(replace(order(2), prefix=made.prefix))

        assert [made.id] == [one.id for one in store.list_tokens(None)]

    def test_a_token_that_would_have_expired_is_not_made(self, store: Store) -> None:
        """By the store's clock."""
        with pytest.raises(UsageError, match="expires"):
            add(store, expiry=Expiry(at=store.now()))

        assert [] == store.list_tokens(None)
        assert [] == audit(store)

    def test_tokens_are_listed_by_tenant_newest_first(
        self, store: Store, clock: ManualClock
    ) -> None:
        """Those that open nothing are listed too."""
        old = add(store, 1, tenant="acme", expiry=Expiry(after_us=1))
        clock.advance(1)
        new = add(store, 2, tenant="acme", expiry=Expiry())
        everywhere = add(store, 3, tenant=EVERY_TENANT)

        assert [new, old] == store.list_tokens("acme")
        assert [everywhere] == store.list_tokens(EVERY_TENANT)
        assert [] == store.list_tokens("globex")
        assert {new.id, old.id, everywhere.id} == {one.id for one in store.list_tokens(None)}

    def test_a_token_is_revoked_once_and_for_good(self, store: Store, clock: ManualClock) -> None:
        """Whoever revokes it again finds who was first."""
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
        """Exactly as one that does not exist."""
        made = add(store, tenant="acme")
        for missing in (made.id, TokenId(bytes(16))):
            with pytest.raises(NotFound) as caught:
                store.revoke_token(RevokeToken(id=missing, tenant="globex", actor=ADA))
            assert "token" == caught.value.what

        assert [made] == store.list_tokens("acme")
        assert ["token.created"] == [entry.action for entry in audit(store)]

    def test_orders_about_tokens_are_on_record_without_their_secret(self, store: Store) -> None:
        """By whom, which, and what it may do."""
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
        """A token that is used all the time is not written all the time."""
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
        """By a token that is neither revoked nor expired."""
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
        """How many of each kind, in one entry."""
        counts = {Refusal.UNKNOWN: 3, Refusal.EXPIRED: 1, Refusal.REVOKED: 0}
        store.note_refusals(NoteRefusals(counts, {}, ADA))

        (entry,) = audit(store)

        assert ("access.refused", "", "credentials") == (entry.action, entry.tenant, entry.subject)
        assert {"unknown": 3, "expired": 1} == entry.after

    def test_refusals_tell_from_where_they_came(self, store: Store) -> None:
        """As far as that is known."""
        places = {"192.0.2.1": 2, "2001:db8::1": 1}
        store.note_refusals(NoteRefusals({Refusal.UNKNOWN: 3}, places, ADA))

        (entry,) = audit(store)

        assert {"unknown": 3, "from": places} == entry.after


class Sessions:
    """What sessions and codes promise."""

    def test_a_session_is_found_by_the_hash_of_its_secret(self, store: Store) -> None:
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
        """At the very edge."""
        begin(store)
        clock.advance(SESSION_US - 1)
        assert store.find_session(SECRET) is not None
        clock.advance(1)

        assert store.find_session(SECRET) is None

    def test_a_session_is_over_when_it_is_ended(self, store: Store) -> None:
        """And both ends of it are on record."""
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
        """Whoever revokes a token shuts out who came in by it."""
        token = add(store, expiry=Expiry(after_us=HOUR_US) if end == "expired" else Expiry())
        missing = TokenId(bytes(16))
        begin(store, token_id=missing if end == "forgotten" else token.id)
        if end != "forgotten":
            found = store.find_session(SECRET)
            assert found is not None
            assert token.id == found.principal.token_id == found.principal.counted_as
        if end == "revoked":
            revoke(store, token)
        if end == "expired":
            clock.advance(HOUR_US)

        assert store.find_session(SECRET) is None

    def test_a_code_is_spent_once(self, store: Store) -> None:
        store.add_code(SECRET)

        assert not store.spend_code(secret_hash("open barley"))
        assert store.spend_code(SECRET)
        assert not store.spend_code(SECRET)

    def test_a_code_can_not_be_spent_when_it_has_expired(
        self, store: Store, clock: ManualClock
    ) -> None:
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


ORDER = IdempotencyKey(tenant="acme", principal=bytes(range(16)), key="k1")
ANSWER = StoredResponse(status=201, headers={"ETag": '"1"'}, body=b'{"id": "\xc3\xa9"}\x00')


class KeptAnswers:
    """What makes an order safe to repeat."""

    def test_an_order_is_begun_once_and_then_answered_alike(self, store: Store) -> None:
        """INV-17: who repeats it gets the same answer, byte for byte."""
        now = store.now()
        first = announce(store)
        meanwhile = announce(store)
        assert store.finish_answer(finish(first))

        assert IdempotencyCheck(IdempotencyStatus.BEGUN, 1, now) == first
        assert IdempotencyCheck(IdempotencyStatus.RUNNING) == meanwhile
        assert IdempotencyCheck(IdempotencyStatus.ANSWERED, answer=ANSWER) == announce(store)

    def test_a_key_is_for_one_order(self, store: Store) -> None:
        """Another one under it is told apart, running or answered."""
        first = announce(store)
        running = announce(store, request=b"other")
        store.finish_answer(finish(first))

        assert IdempotencyStatus.DIFFERENT is running.standing
        assert IdempotencyStatus.DIFFERENT is announce(store, request=b"other").standing

    @pytest.mark.parametrize("part", ["tenant", "principal", "key"])
    def test_keys_of_others_have_nothing_to_do_with_it(self, store: Store, part: str) -> None:
        """Neither of another tenant, nor of another token of it."""
        store.finish_answer(finish(announce(store)))
        others: dict[str, Any] = {"tenant": "globex", "principal": bytes(16), "key": "k2"}
        elsewhere = replace(ORDER, **{part: others[part]})

        assert IdempotencyStatus.BEGUN is announce(store, key=elsewhere).standing

    def test_an_order_of_which_nothing_was_done_may_come_again(self, store: Store) -> None:
        """Even another one, under the same key; under a fence of its own."""
        first = announce(store)
        store.forget_answer(ORDER, first.fence)
        second = announce(store, request=b"other")
        store.forget_answer(ORDER, first.fence)

        assert (IdempotencyStatus.BEGUN, first.fence + 1) == (second.standing, second.fence)
        assert IdempotencyStatus.RUNNING is announce(store, request=b"other").standing
        assert not store.finish_answer(finish(first))
        assert store.finish_answer(finish(second))
        store.forget_answer(ORDER, second.fence)
        assert IdempotencyStatus.ANSWERED is announce(store, request=b"other").standing

    def test_what_somebody_began_and_died_over_is_begun_again(
        self, store: Store, clock: ManualClock
    ) -> None:
        """A minute later, under a higher fence, and with the same begin for its ids."""
        first = announce(store)
        clock.advance(ANSWER_AWAITED_US - 1)
        assert IdempotencyStatus.RUNNING is announce(store).standing
        clock.advance(1)
        second = announce(store)

        taken_over = IdempotencyCheck(
            IdempotencyStatus.BEGUN, first.fence + 1, first.begun_at, is_taken_over=True
        )
        assert taken_over == second
        assert not store.finish_answer(finish(first))
        assert store.finish_answer(finish(second))

    def test_an_answer_is_kept_for_a_day(self, store: Store, clock: ManualClock) -> None:
        store.finish_answer(finish(announce(store)))
        clock.advance(ANSWER_KEPT_US - 1)
        assert IdempotencyStatus.ANSWERED is announce(store).standing
        clock.advance(1)

        assert IdempotencyStatus.BEGUN is announce(store, request=b"other").standing


class FrozenSets:
    """What a set of runs that was chosen promises, and what is forgotten of access."""

    def test_a_set_stays_as_it_was_chosen(self, store: Store) -> None:
        ids = tuple(RunId(number.to_bytes(16)) for number in (3, 1, 2))
        kept = store.freeze(frozen(1, ids=ids))

        assert kept == store.find_frozen(kept.id, "acme")
        assert (ids, '{"state":"dead"}', 5) == (kept.ids, kept.chosen_by, kept.as_of)
        empty = store.freeze(frozen(2))
        assert empty == store.find_frozen(empty.id, "acme")

    def test_a_set_is_the_tenants_own_and_expires(self, store: Store, clock: ManualClock) -> None:
        kept = store.freeze(frozen(1))
        assert store.find_frozen(kept.id, "globex") is None
        clock.advance(FROZEN_US)

        assert store.find_frozen(kept.id, "acme") is None

    def test_who_makes_many_sets_keeps_the_newest(self, store: Store) -> None:
        """And nobody else's make room for them."""
        others = store.freeze(replace(frozen(1), made_by="bob"))
        kept = [store.freeze(frozen(number)) for number in range(2, FROZEN_SETS_MAX + 3)]

        assert store.find_frozen(kept[0].id, "acme") is None
        assert all(store.find_frozen(one.id, "acme") for one in kept[1:])
        assert store.find_frozen(others.id, "acme")

    def test_what_has_expired_is_forgotten(self, store: Store, clock: ManualClock) -> None:
        """And what has not is kept."""
        begin(store)
        store.add_code(SECRET)
        announce(store)
        store.freeze(frozen(1))
        token = add(store, expiry=Expiry(after_us=DAY_US))
        lasting = add(store, 2, expiry=Expiry())
        assert 0 == prune(store, KEEP).counts[PruneKind.ACCESS]
        clock.advance(DAY_US)
        begin(store, "another")
        key = replace(ORDER, key="k2")
        announce(store, key=key)

        assert 4 == prune(store, KEEP).counts[PruneKind.ACCESS]
        assert 0 == prune(store, KEEP).counts[PruneKind.ACCESS]
        assert store.find_session(secret_hash("another"))
        assert IdempotencyStatus.RUNNING is announce(store, key=key).standing
        clock.advance(TOKENS_KEPT_US - 1)
        assert 2 == prune(store, KEEP).counts[PruneKind.ACCESS]
        assert store.find_token(token.prefix)
        clock.advance(1)
        assert 1 == prune(store, KEEP).counts[PruneKind.ACCESS]
        assert [lasting] == store.list_tokens(None)


def announce(
    store: Store, *, key: IdempotencyKey = ORDER, request: bytes = b"order"
) -> IdempotencyCheck:
    """Announce an order."""
    return store.begin_answer(BeginRequest(key=key, request_hash=request))


def finish(announced: IdempotencyCheck) -> FinishAnswer:
    """Return the answer to an order that was begun."""
    assert IdempotencyStatus.BEGUN is announced.standing
    return FinishAnswer(key=ORDER, fence=announced.fence, answer=ANSWER)


def frozen(number: int, ids: tuple[RunId, ...] = ()) -> CreateSelection:
    """Return the order to keep a set of runs."""
    return CreateSelection(
        id=schedule_id(0, number.to_bytes(10)),
        tenant="acme",
        made_by="ada",
        chosen_by='{"state":"dead"}',
        ids=ids,
        as_of=5,
    )


OURS = "ours"
THEIRS = "theirs"
BOTH = (OURS, THEIRS)
NOTHING = TenantCounts(
    schedules={},
    delayed=0,
    owed=0,
    overdue=0,
    oldest_due_at=None,
    next_due_at=None,
    retrying=0,
    dead=0,
    ambiguous=0,
    queues={},
    held={},
)


class Tenancy:
    """What every order and every count promises about tenants; each order has tests of its own."""

    def test_another_tenants_schedule_is_changed_as_little_as_one_that_is_not_there(
        self, store: Store
    ) -> None:
        """INV-20: decided where it is written, and not only where it was looked up."""
        record = steps.create(store, tenant=THEIRS)
        change = decide_pause(record, reason=None, until=None, missed=Missed.SKIP)
        order = replace(change_of(record, change), tenant=OURS)
        before = snapshot(store, BOTH)

        with pytest.raises(NotFound, match="schedule"):
            store.change_schedule(order)

        assert before == snapshot(store, BOTH)

    def test_who_names_a_tenant_finds_that_tenants_things_and_no_others(
        self, store: Store, clock: ManualClock
    ) -> None:
        """Whatever is looked up by its id; what is another's is not read at all."""
        schedule = steps.create(store, tenant=THEIRS)
        delayed = steps.delay(store, clock.now_us() + HOUR_US, tenant=THEIRS)
        run = work.queue(store, "a", tenant=THEIRS)
        token = add(store, tenant=THEIRS)
        alerts.look(store, alerts.watch(store), alerts.condition(tenant=THEIRS))
        (alert,) = alerts.listed(store)

        def found(tenant: str | None) -> list[bool]:
            looks = (
                store.get_schedule(schedule.id, tenant),
                store.get_delayed(delayed.id, tenant),
                store.get_run(run, tenant),
                store.find_token(token.prefix, tenant),
                store.get_alert(alert.id, tenant),
            )
            return [one is not None for one in looks]

        assert ([True] * 5, [True] * 5, [False] * 5) == (found(None), found(THEIRS), found(OURS))

    @pytest.mark.parametrize("tenant", [THEIRS, None])
    def test_its_own_tenant_and_the_system_change_it(
        self, store: Store, tenant: str | None
    ) -> None:
        """The system's own orders are about any."""
        record = steps.create(store, tenant=THEIRS)
        changed = store.change_schedule(
            replace(change_of(record, staying(record, name="another")), tenant=tenant)
        )

        assert not isinstance(changed, Stale)
        assert ("another", THEIRS) == (changed.name, changed.tenant)

    def test_nobody_runs_another_tenants_schedule(self, store: Store) -> None:
        """Its arguments would be another's, and so would its gate."""
        record = steps.create(store, tenant=THEIRS)
        new = new_run(
            None,
            tenant=OURS,
            origin=Origin.MANUAL,
            schedule_id=record.id,
            definition_number=1,
        )
        before = snapshot(store, BOTH)

        with pytest.raises(NotFound, match="schedule"):
            store.add_runs(add_runs(new))

        assert before == snapshot(store, BOTH)

    def test_an_id_that_another_tenant_has_used_is_taken_and_no_more_is_told(
        self, store: Store
    ) -> None:
        """Neither what it was used for, nor what has become of that."""
        record = steps.create(store, tenant=THEIRS)
        order = new_schedule(store.now(), "mine", id=record.id, tenant=OURS)
        before = snapshot(store, BOTH)

        taken = "is that of another request; give every request an id of its own"
        with pytest.raises(Conflict, match=taken):
            store.create_schedule(order)

        assert before == snapshot(store, BOTH)

    def test_another_tenants_run_is_not_taken_for_one_that_repeats_ours(self, store: Store) -> None:
        """Nothing of it is told."""
        dead = work.make_dead(store, "dead", tenant=OURS)
        theirs = work.queue(store, "theirs", tenant=THEIRS)
        before = snapshot(store, BOTH)

        with pytest.raises(Conflict, match="is that of another request"):
            store.rerun_run(Rerun(tenant=OURS, id=dead, new_id=theirs, actor=ADA))

        assert before == snapshot(store, BOTH)

    @pytest.mark.parametrize("tenant", [OURS, THEIRS])
    def test_no_order_takes_the_id_of_a_delayed_run(
        self, store: Store, clock: ManualClock, tenant: str
    ) -> None:
        """Neither a run nor a rerun: what is pending keeps its id, and fires under it."""
        dead = work.make_dead(store, "dead", tenant=OURS)
        pending = steps.delay(store, clock.now_us() + HOUR_US, tenant=tenant)
        order = new_run(store.now(), "mine", id=pending.id, tenant=OURS)
        before = snapshot(store, BOTH)

        for take in (
            lambda: store.add_runs(add_runs(order)),
            lambda: store.rerun_run(Rerun(tenant=OURS, id=dead, new_id=pending.id, actor=ADA)),
        ):
            with pytest.raises(Conflict, match="is that of another request"):
                take()

        assert before == snapshot(store, BOTH)

    def test_what_is_a_tenants_is_counted_and_nothing_else(
        self, store: Store, clock: ManualClock
    ) -> None:
        """INV-20."""
        record = steps.create(store, tenant=THEIRS)
        steps.pause(store, steps.create(store, "paused", tenant=THEIRS))
        pending = steps.delay(store, clock.now_us() + 2 * HOUR_US, tenant=THEIRS)
        dead = work.make_dead(store, "dead", tenant=THEIRS)
        worker, _ = work.queue_and_take(store, "running", tenant=THEIRS, queue="mail")
        work.queue(store, "queued", tenant=THEIRS, queue="mail")
        assert record.pending is not None

        counts = store.count_tenant(THEIRS)

        assert dead
        assert counts == replace(
            NOTHING,
            schedules={ScheduleStatus.ACTIVE: 1, ScheduleStatus.PAUSED: 1},
            delayed=1,
            next_due_at=min(record.pending.due_at, pending.due_at),
            dead=1,
            queues={"mail": OwnQueue(1, clock.now_us(), 1)},
            held={worker: 1},
        )
        assert NOTHING == store.count_tenant(OURS)
        clock.set(pending.due_at)
        counts = store.count_tenant(THEIRS)
        overdue = record.pending.due_at, pending.due_at
        assert (2, min(overdue), None) == (
            counts.overdue,
            counts.oldest_due_at,
            counts.next_due_at,
        )

    def test_retries_and_debts_are_counted_for_whom_they_are(self, store: Store) -> None:
        """Those of the tenant that most stores have only."""
        work.make_waiting(store)

        assert (1, 0) == (store.count_tenant("default").retrying, store.count_tenant(OURS).retrying)

    def test_one_tenant_counts_alone_as_it_does_beside_others(self, store: Store) -> None:
        """What is quicker in a store of one tenant says the same."""
        work.make_waiting(store)
        work.make_dead(store, "dead")
        in_doubt(store, "doubt")
        work.queue_and_take(store, "running", queue="mail")
        work.queue(store, "queued", queue="mail")
        alone, open_runs = store.count_tenant("default"), store.count_tenants()["default"]
        work.queue(store, "theirs", tenant=THEIRS, queue="mail")

        assert (1, 1, 1) == (alone.retrying, alone.dead, alone.ambiguous)
        assert (1, 1) == (alone.queues["mail"].queued, alone.queues["mail"].running)
        assert alone == store.count_tenant("default")
        assert open_runs == store.count_tenants()["default"]

    def test_open_runs_are_counted_by_tenant_for_whoever_sees_all(self, store: Store) -> None:
        """What waits for somebody is found, whosever it is."""
        assert {} == store.count_tenants()
        work.make_waiting(store)
        in_doubt(store, "doubt")
        work.make_dead(store, "dead", tenant=THEIRS)
        work.queue_and_take(store, "running", tenant=THEIRS, queue="mail")
        work.queue(store, "queued", tenant=OURS, queue="mail")

        assert {
            "default": OpenCounts(retrying=1, ambiguous=1),
            OURS: OpenCounts(queued=1),
            THEIRS: OpenCounts(running=1, dead=1),
        } == store.count_tenants()
