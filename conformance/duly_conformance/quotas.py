"""What every store must do about quotas and circuit breakers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from duly.domain.admission import FAILURES_MIN, PAUSE_FIRST_US, AdmissionRoute, BreakerState
from duly.domain.enums import Missed, RunState
from duly.domain.outcomes import Failed, Succeeded
from duly.domain.quotas import (
    ALL,
    EACH_OWNER,
    EACH_TENANT,
    OWNED_DEFAULT,
    WINDOW_US,
    Counted,
    Quota,
    QuotaKey,
)
from duly.domain.schedule_changes import decide_restore, decide_resume
from duly.errors import NotFound, OverQuota
from duly.store.ports.execution import WORKER_TTL_US, FinishResult
from duly.store.ports.operations import SetQuotas
from duly_conformance import kit, steps
from duly_conformance import steps as work
from duly_conformance.kit import (
    ADA,
    HOUR_US,
    SECOND_US,
    add_runs,
    new_run,
    new_schedule,
    snapshot,
    staying,
)
from duly_conformance.steps import (
    API,
    ask,
    end_all,
    fail_often,
    join_limited_worker,
    known,
    limit,
    probing,
    queue_many,
    ways,
)

if TYPE_CHECKING:
    from duly.domain.schedules import ScheduleRecord
    from duly.engine.manual_clock import ManualClock
    from duly.store.ports import Store


class Breakers:
    """A destination that keeps failing is left alone."""

    def test_it_opens_when_enough_has_failed(self, store: Store) -> None:
        """What is due is put off, with no attempt used, and says why."""
        worker = fail_often(store)
        record = known(store)
        assert BreakerState.OPEN == record.breaker.state
        run_id = work.queue(store, "next")

        (verdict,) = ask(store, worker, work.take_one(store, worker), destination=API)

        assert (AdmissionRoute.LATER, f"breaker {API}") == (verdict.way, verdict.why)
        assert verdict.at is not None
        assert store.now() + PAUSE_FIRST_US <= verdict.at < store.now() + 2 * PAUSE_FIRST_US
        run = work.get_run(store, run_id)
        assert (RunState.RETRYING, verdict.why, verdict.at) == (
            run.state,
            run.state_reason,
            run.next_at,
        )
        assert (0, 0) == (run.tries.attempt, run.tries.charged)
        assert (FAILURES_MIN, 1) == (known(store).breaker.failed, known(store).waiting)
        assert [] == store.check()

    def test_what_the_other_side_refuses_is_no_failure_of_its(self, store: Store) -> None:
        """It has answered; and what tells nothing counts for nothing."""
        worker = join_limited_worker(store)
        for number in range(2 * FAILURES_MIN):
            work.queue(store, f"run {number}")
            claimed = work.take_one(store, worker)
            assert [AdmissionRoute.GOES] == ways(store, worker, claimed, destination=API)
            answered = True if number % 2 else None
            work.end(store, worker, claimed, work.FATAL, is_answered=answered)

        assert BreakerState.CLOSED == known(store).breaker.state
        assert (FAILURES_MIN, 0) == (known(store).breaker.succeeded, known(store).breaker.failed)

    def test_nothing_is_known_before_an_end_tells_something(self, store: Store) -> None:
        """Of one that is spoken to for the first time, or was left without a word."""
        worker = join_limited_worker(store)
        work.queue(store, "first")
        claimed = work.take_one(store, worker)
        assert [AdmissionRoute.GOES] == ways(store, worker, claimed, destination=API)
        assert [] == store.list_breakers()

        work.end(store, worker, claimed, work.FATAL, is_answered=None)

        assert [] == store.list_breakers()
        with pytest.raises(NotFound):
            store.reset_breaker(API, ADA)

    def test_ends_that_come_together_count_together(self, store: Store) -> None:
        ids, worker = queue_many(store, FAILURES_MIN), join_limited_worker(store)
        claimed = work.take(store, worker)
        ways(store, worker, *claimed, destination=API)
        assert [("destination:" + API, len(ids), 0, None)] == store.list_places()

        ends = [kit.finish(one, work.FATAL, is_answered=False) for one in claimed]
        store.finish_runs(worker, ends)

        assert BreakerState.OPEN == known(store).breaker.state
        assert [] == store.list_places()
        assert [] == store.check()

    @pytest.mark.parametrize("is_repeated", [False, True])
    def test_a_batch_of_ends_is_judged_as_a_whole(self, store: Store, is_repeated: bool) -> None:  # noqa: FBT001
        """Whatever comes first in it, and though some of it is told twice or refused."""
        queue_many(store, 2 * FAILURES_MIN + 2)
        worker = join_limited_worker(store)
        *claimed, last = work.take(store, worker)
        ways(store, worker, *claimed, last, destination=API)
        ends = [
            kit.finish(one, work.FATAL, is_answered=number >= FAILURES_MIN)
            for number, one in enumerate(claimed)
        ]
        if is_repeated:
            stale = last.hold._replace(fence=last.fence + 1)
            ends.insert(FAILURES_MIN, ends[0])
            ends.insert(FAILURES_MIN + 1, replace(ends[0], hold=stale))
        results = store.finish_runs(worker, ends).results

        assert is_repeated == (FinishResult.REFUSED in results)
        breaker = known(store).breaker
        assert (BreakerState.CLOSED, FAILURES_MIN, FAILURES_MIN + 1) == (
            breaker.state,
            breaker.failed,
            breaker.succeeded,
        )
        work.end(store, worker, last, work.FATAL, is_answered=False)
        assert BreakerState.OPEN == known(store).breaker.state

    def test_one_probe_goes_and_the_others_wait_for_it(
        self, store: Store, clock: ManualClock
    ) -> None:
        """Whoever asks, and together or not."""
        fail_often(store)
        ids = queue_many(store, 3)
        clock.advance(PAUSE_FIRST_US)
        one, other = join_limited_worker(store), join_limited_worker(store)
        first, second = work.take(store, one, 2)
        third = work.take_one(store, other)

        assert [AdmissionRoute.GOES, AdmissionRoute.LATER] == ways(
            store, one, first, second, destination=API
        )
        assert [AdmissionRoute.LATER] == ways(store, other, third, destination=API)
        assert [AdmissionRoute.GOES] == ways(store, one, first, destination=API)
        record = known(store)
        assert (BreakerState.HALF_OPEN, ids[0], 1) == (
            record.breaker.state,
            record.breaker.probe,
            record.running,
        )

    def test_a_probe_that_succeeds_closes_it(self, store: Store, clock: ManualClock) -> None:
        """What was put off comes spread out, and goes."""
        worker, probe = probing(store, clock)

        end_all(store, worker, probe, is_answered=True)

        assert BreakerState.CLOSED == known(store).breaker.state
        work.queue(store, "next")
        assert [AdmissionRoute.GOES] == ways(
            store, worker, work.take_one(store, worker), destination=API
        )

    def test_a_probe_that_fails_doubles_the_pause(self, store: Store, clock: ManualClock) -> None:
        """INV-23."""
        worker, probe = probing(store, clock)

        work.end(store, worker, probe, work.FATAL, is_answered=False)

        breaker = known(store).breaker
        assert (BreakerState.OPEN, 2 * PAUSE_FIRST_US) == (breaker.state, breaker.pause_us)
        assert store.now() + 2 * PAUSE_FIRST_US == breaker.retry_at

    @pytest.mark.parametrize("is_retried", [True, False])
    def test_a_probe_that_is_asked_to_wait_is_followed_after_that(
        self,
        store: Store,
        clock: ManualClock,
        is_retried: bool,  # noqa: FBT001
    ) -> None:
        """Whatever becomes of its run."""
        worker, probe = probing(store, clock)
        asked_us = 4 * SECOND_US

        how = Failed("429", after_us=asked_us) if is_retried else work.FATAL
        work.end(store, worker, probe, how, is_answered=False, wait_us=asked_us)

        breaker = known(store).breaker
        assert (BreakerState.OPEN, store.now() + asked_us) == (breaker.state, breaker.retry_at)
        assert FAILURES_MIN + 1 == breaker.failed

    def test_a_probe_that_is_lost_with_its_worker_is_followed_by_another(
        self, store: Store, clock: ManualClock
    ) -> None:
        """It has told nothing."""
        lost, probe = probing(store, clock, is_lasting=False)
        clock.advance(WORKER_TTL_US)

        work.settle_lost(store, work.maintain(store), *work.lost_claims(store))

        assert BreakerState.OPEN == known(store).breaker.state
        worker = join_limited_worker(store)
        work.queue(store, "next")
        claimed = work.take_one(store, worker)
        assert [AdmissionRoute.GOES] == ways(store, worker, claimed, destination=API)
        assert claimed.run_id == known(store).breaker.probe
        assert FinishResult.REFUSED == work.end(store, lost, probe, Succeeded(), is_answered=True)
        assert BreakerState.HALF_OPEN == known(store).breaker.state
        assert [] == store.check()

    def test_one_that_can_not_begin_is_no_probe(self, store: Store, clock: ManualClock) -> None:
        """Who stands at a cap is not waited for."""
        limit(store, running=1)
        worker = fail_often(store)
        work.queue(store, "in the way")
        assert [AdmissionRoute.GOES] == ways(store, worker, work.take_one(store, worker))
        clock.advance(PAUSE_FIRST_US)
        work.queue(store, "next")

        assert [AdmissionRoute.STANDS] == ways(
            store, worker, work.take_one(store, worker), destination=API
        )
        assert BreakerState.OPEN == known(store).breaker.state

    def test_a_person_can_take_it_for_well(self, store: Store) -> None:
        """On record."""
        worker = fail_often(store)
        waits = work.queue(store, "put off")
        assert [AdmissionRoute.LATER] == ways(
            store, worker, work.take_one(store, worker), destination=API
        )

        reset = store.reset_breaker(API, ADA)

        assert BreakerState.CLOSED == reset.breaker.state == known(store).breaker.state
        assert (0, 0) == (known(store).breaker.failed, known(store).waiting)
        assert store.now() == work.get_run(store, waits).next_at
        work.queue(store, "next")
        assert [AdmissionRoute.GOES] == ways(
            store, worker, work.take_one(store, worker), destination=API
        )
        (entry,) = [one for one in steps.audit(store) if one.action == "breaker.reset"]
        assert (API, ADA) == (entry.subject, entry.actor)
        with pytest.raises(NotFound, match="nobody"):
            store.reset_breaker("nobody", ADA)

    def test_other_destinations_are_left_in_peace(self, store: Store) -> None:
        worker = fail_often(store)
        work.queue(store, "next")

        claimed = work.take_one(store, worker)

        assert [AdmissionRoute.GOES] == ways(
            store, worker, claimed, destination="other.example.com"
        )


ACME = QuotaKey("tenant:acme")
HERS = QuotaKey("owner:anna", "default")


class BoundedSchedules:
    """What a quota of active schedules promises."""

    def test_an_end_user_has_ten_schedules_unless_told(self, store: Store) -> None:
        """One more is refused, by name, count and remedy; and nothing of it is left."""
        make_some(store, OWNED_DEFAULT, owner="anna")
        before = snapshot(store)

        with pytest.raises(OverQuota, match=r"'owner:anna' has 10 .* and 10 is the most; .*") as no:
            steps.create(store, "one more", owner="anna")

        assert (10, 10) == (no.value.most, no.value.count)
        assert before == snapshot(store)
        steps.create(store, "another's", owner="bob")
        steps.create(store, "elsewhere", owner="anna", tenant="acme")

    def test_nobodys_and_declared_schedules_are_not_an_end_users(self, store: Store) -> None:
        """What the operator's own program declares is not bounded by whom it names."""
        some = range(OWNED_DEFAULT + 1)

        assert all(is_made(store, f"{n}") for n in some)
        assert all(
            is_made(store, f"declared {n}", owner="anna", declared_by="code:app") for n in some
        )
        assert is_made(store, "hers", owner="anna")

    def test_the_default_of_end_users_does_not_bind_an_operator(self, store: Store) -> None:
        """What was set does; and what an operator made counts for the next order of the owner."""
        operator = replace(ADA, is_operator=True)
        make_some(store, OWNED_DEFAULT, owner="anna")

        steps.create(store, "by hand", owner="anna", actor=operator)
        with pytest.raises(OverQuota, match="has 11 active schedules"):
            steps.create(store, "one more", owner="anna")
        allow(store, HERS, schedules=OWNED_DEFAULT + 1)
        with pytest.raises(OverQuota, match="and 11 is the most"):
            steps.create(store, "by hand, too", owner="anna", actor=operator)

    def test_the_same_request_again_is_no_second_schedule(self, store: Store) -> None:
        """INV-17: who sends it again at the limit gets what is there."""
        made = make_some(store, OWNED_DEFAULT, owner="anna")
        order = new_schedule(store.now(), "owned 0", owner="anna")

        again = store.create_schedule(order)

        assert (False, made[0]) == (again.is_new, again.record)

    def test_what_is_said_by_name_holds_instead(self, store: Store) -> None:
        """Of one owner, or of each; no bound is a bound that was lifted."""
        allow(store, QuotaKey(EACH_OWNER), schedules=1)
        allow(store, HERS, schedules=2)
        make_some(store, 2, owner="anna")
        make_some(store, 1, "bob's", owner="bob")
        with pytest.raises(OverQuota):
            steps.create(store, "one more", owner="anna")
        with pytest.raises(OverQuota):
            steps.create(store, "one more", owner="bob")
        allow(store, HERS, schedules=None)

        make_some(store, OWNED_DEFAULT, "many", owner="anna")

    @pytest.mark.parametrize("scope", [ACME, QuotaKey(EACH_TENANT)])
    def test_a_tenant_has_so_many_schedules(self, store: Store, scope: QuotaKey) -> None:
        """Whoever owns them; each tenant by itself."""
        allow(store, scope, schedules=2)
        steps.create(store, "first", tenant="acme", owner="anna")
        steps.create(store, "declared", tenant="acme", declared_by="code:app")

        with pytest.raises(OverQuota, match="'tenant:acme' has 2 active schedules, and 2 is"):
            steps.create(store, "third", tenant="acme")

        steps.create(store, "third", tenant="another")

    def test_what_rests_makes_room_until_it_is_to_go_on(self, store: Store) -> None:
        """Paused or deleted, a schedule is not active; bringing it back is one more."""
        allow(store, HERS, schedules=2)
        first, second = make_some(store, 2, owner="anna")
        paused, deleted = steps.pause(store, first), steps.delete(store, second)
        make_some(store, 2, "instead", owner="anna")
        before = snapshot(store)

        with pytest.raises(OverQuota):
            resume(store, paused)
        with pytest.raises(OverQuota):
            steps.apply(store, deleted, decide_restore(deleted, store.now(), "wanted after all"))

        assert before == snapshot(store)

    def test_what_resumes_by_itself_counts_all_the_while(
        self, store: Store, clock: ManualClock
    ) -> None:
        """A promise to resume is kept, and nobody gets more by it."""
        allow(store, HERS, schedules=1)
        record = steps.create(store, owner="anna")
        paused = steps.pause(store, record, until=clock.now_us() + HOUR_US)
        with pytest.raises(OverQuota):
            steps.create(store, "instead", owner="anna")
        clock.advance(HOUR_US)

        resume(store, paused)

    def test_a_schedule_that_changes_hands_counts_for_who_gets_it(self, store: Store) -> None:
        """And an edit that leaves the owner is never refused, whatever the quota is now."""
        allow(store, HERS, schedules=1)
        hers, his = (steps.create(store, who, owner=who) for who in ("anna", "bob"))
        with pytest.raises(OverQuota):
            steps.apply(store, his, staying(his, owner="anna"))
        allow(store, HERS, schedules=0)

        changed = steps.apply(store, hers, staying(hers, name="renamed"))

        assert "renamed" == changed.name

    def test_a_quota_holds_within_a_lent_transaction(self, store: Store) -> None:
        """The order is refused, and the caller goes on."""
        allow(store, HERS, schedules=1)
        with store.transaction(SECOND_US) as lent:
            store.joined(lent).create_schedule(new_schedule(store.now(), "a", owner="anna"))
            with pytest.raises(OverQuota):
                store.joined(lent).create_schedule(new_schedule(store.now(), "b", owner="anna"))
            store.joined(lent).create_schedule(new_schedule(store.now(), "c"))

        assert store.find_schedule("default", "a") is not None
        assert store.find_schedule("default", "b") is None
        assert store.find_schedule("default", "c") is not None


class BoundedOrders:
    """What quotas of creations in a minute and of pending runs promise, and how they are set."""

    @pytest.mark.parametrize("scope", [QuotaKey(ALL), ACME, QuotaKey(EACH_TENANT)])
    def test_so_many_schedules_are_made_in_a_minute(
        self, store: Store, clock: ManualClock, scope: QuotaKey
    ) -> None:
        """In any minute, and it is said when there is room again."""
        allow(store, scope, creations=2)
        steps.create(store, "first", tenant="acme")
        clock.advance(WINDOW_US // 2)
        steps.create(store, "second", tenant="acme")
        clock.advance(WINDOW_US // 2 - SECOND_US)

        with pytest.raises(OverQuota, match=r"2 schedules made .* try again in 1 s, or raise it"):
            steps.create(store, "third", tenant="acme")

        clock.advance(SECOND_US)
        steps.create(store, "third", tenant="acme")

    def test_each_tenant_has_its_own_minute(self, store: Store) -> None:
        """And `all` is for all together; what was deleted was made all the same."""
        allow(store, QuotaKey(EACH_TENANT), creations=1)
        steps.delete(store, steps.create(store, "a", tenant="acme"))
        steps.create(store, "b", tenant="another")
        with pytest.raises(OverQuota, match="'tenant:acme'"):
            steps.create(store, "c", tenant="acme")
        allow(store, QuotaKey(ALL), creations=2)

        with pytest.raises(OverQuota, match="'all'"):
            steps.create(store, "d", tenant="a third")

    @pytest.mark.parametrize("way", ["one by one", "all at once", "alike"])
    def test_so_many_runs_of_a_tenant_are_pending(
        self, store: Store, clock: ManualClock, way: str
    ) -> None:
        """All of an order or nothing; what runs at once is not pending, nor is another's."""
        allow(store, ACME, pending=3)
        due_at = clock.now_us() + HOUR_US
        parts: dict[str, Any] = {"is_drawn": True, "fingerprint": ""} if way == "alike" else {}
        asked = [new_run(due_at, f"{n}", tenant="acme", **parts) for n in range(5)]
        if way == "one by one":
            for one in asked[:3]:
                store.add_runs(add_runs(one))
        else:
            store.add_runs(add_runs(*asked[:3]))
        before = snapshot(store, ("acme",))

        with pytest.raises(OverQuota, match="has 3 delayed runs pending and asks for 2 more, and"):
            store.add_runs(add_runs(*asked[3:]))

        assert before == snapshot(store, ("acme",))
        again = store.add_runs(add_runs(*asked[:3]))
        assert [False] * 3 == [one.is_new for one in again]
        now = [new_run(None, f"now {n}", tenant="acme") for n in range(5)]
        assert all(one.is_new for one in store.add_runs(add_runs(*now)))
        steps.delay(store, due_at, "another's")

    def test_replacing_what_is_pending_takes_no_place(
        self, store: Store, clock: ManualClock
    ) -> None:
        allow(store, QuotaKey(EACH_TENANT), pending=1)
        steps.delay(store, clock.now_us() + HOUR_US, "first", key="class:42")

        later = clock.now_us() + 2 * HOUR_US
        steps.delay(store, later, "second", key="class:42", replaces=True)

        assert 1 == store.status().delayed

    def test_quotas_are_on_record_with_who_set_them(self, store: Store, clock: ManualClock) -> None:
        """What is not named stays; what is the same again changes nothing."""
        first = allow(store, ACME, schedules=5, pending=100)
        clock.advance(1)
        second = allow(store, ACME, schedules=6)
        allow(store, ACME, schedules=6)

        expected = Quota(
            key=ACME,
            counted=Counted.SCHEDULES,
            most=6,
            version=2,
            updated_at=clock.now_us(),
            updated_by=ADA.name,
        )
        assert [first[0], expected] == second == store.list_quotas()
        trail = steps.audit(store, action="quota.set")
        assert [
            ("tenant:acme", {"pending": 100, "schedules": 5}, {"pending": 100, "schedules": 6}),
            ("tenant:acme", None, {"pending": 100, "schedules": 5}),
        ] == [(one.subject, one.before, one.after) for one in trail]

    def test_a_quota_that_is_taken_back_holds_no_longer(self, store: Store) -> None:
        """And what is said about each holds again."""
        allow(store, HERS, schedules=0)
        store.remove_quotas(HERS, ADA)

        assert [] == store.list_quotas()
        steps.create(store, owner="anna")
        (entry,) = steps.audit(store, action="quota.removed")
        assert ("owner:anna", {"schedules": 0}, None) == (entry.subject, entry.before, entry.after)
        with pytest.raises(NotFound):
            store.remove_quotas(HERS, ADA)


def allow(store: Store, key: QuotaKey, **most: int | None) -> list[Quota]:
    """Set quotas."""
    given = {Counted(counted): number for counted, number in most.items()}
    return store.set_quotas(SetQuotas(key=key, most=given, actor=ADA))


def make_some(store: Store, count: int, name: str = "owned", **parts: Any) -> list[ScheduleRecord]:
    """Make schedules of somebody's."""
    return [steps.create(store, f"{name} {number}", **parts) for number in range(count)]


def is_made(store: Store, name: str, **parts: Any) -> bool:
    """Make a schedule, and say whether there was room for it."""
    try:
        steps.create(store, name, **parts)
    except OverQuota:
        return False
    return True


def resume(store: Store, record: ScheduleRecord) -> ScheduleRecord:
    """Resume a schedule from now on."""
    change = decide_resume(record, store.now(), Missed.SKIP, "rested")
    return steps.apply(store, record, change)
