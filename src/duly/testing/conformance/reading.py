"""Looking at promises: the part of the contract about filters, order, pages and verdicts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from duly.domain.identity import occurrence_run_id
from duly.domain.literals import Origin, RunState, ScheduleStatus, SkipReason
from duly.domain.misfire import Misfire
from duly.domain.planning import decide_skip_next
from duly.domain.schedules import TENANT_DEFAULT
from duly.store.reading import RunFilter, ScheduleFilter
from duly.testing.conformance import steps
from duly.testing.conformance.fired_runs import fire_late
from duly.testing.factories import (
    HOUR_US,
    add_runs,
    cancel,
    new_run,
    run_id,
    staying,
    template_of,
)

if TYPE_CHECKING:
    from typing import Any

    from duly.domain.audit import AuditEntry
    from duly.domain.runs import RunRecord
    from duly.domain.schedules import ScheduleRecord
    from duly.store.protocol import Store
    from duly.testing.manual_clock import ManualClock


class ReadingSchedules:
    """What lists and searches of schedules promise."""

    def test_the_store_tells_its_time(self, store: Store, clock: ManualClock) -> None:
        """F1: one clock rules."""
        clock.advance(12_345)

        assert clock.now_us() == store.now()
        assert clock.now_us() == store.status().now

    def test_what_is_not_there_is_none(self, store: Store) -> None:
        """L6."""
        nobody = run_id("nobody")

        assert store.get_schedule(nobody) is None  # type: ignore[arg-type]
        assert store.find_schedule(TENANT_DEFAULT, "nobody") is None
        assert store.get_definition(nobody, 1) is None  # type: ignore[arg-type]
        assert store.get_run(nobody) is None
        assert store.get_delayed(nobody) is None
        assert store.find_delayed(TENANT_DEFAULT, "nobody") is None

    def test_schedules_come_in_order_of_name(self, store: Store) -> None:
        """A4: as bytes sort, so that every store pages alike."""
        for name in ("b", "a", "é", "B", "a-2", "a1"):
            steps.create(store, name)

        assert ["B", "a", "a-2", "a1", "b", "é"] == names(store)

    def test_pages_follow_each_other(self, store: Store) -> None:
        """A4: with no schedule twice and none left out."""
        made = [steps.create(store, f"s{number}", tenant="ab"[number % 2]) for number in range(7)]
        found: list[ScheduleRecord] = []
        after = None
        while page := store.list_schedules(ScheduleFilter(tenant=None, after=after, limit=2)):
            assert len(page) <= 2
            found += page
            after = (page[-1].tenant, page[-1].name, page[-1].id)

        assert sorted(made, key=lambda one: (one.tenant, one.name)) == found

    def test_deleted_schedules_are_shown_only_when_asked_for(self, store: Store) -> None:
        """S3."""
        steps.create(store, "kept")
        steps.delete(store, steps.create(store, "deleted"))

        assert ["kept"] == names(store)
        assert ["deleted"] == names(store, statuses=frozenset({ScheduleStatus.DELETED}))

    @pytest.mark.parametrize(
        ("wanted", "found"),
        [
            ({"statuses": frozenset({ScheduleStatus.PAUSED})}, ["paused"]),
            ({"task": "other"}, ["task"]),
            ({"owner": "bob"}, ["owner"]),
            ({"declared_by": "code:app"}, ["declared"]),
            ({"name_prefix": "pa"}, ["paused"]),
            ({"name_prefix": "%"}, ["%"]),
            ({"name_prefix": "_"}, []),
            ({"tenant": "theirs"}, ["theirs"]),
            ({"limit": 2}, ["%", "declared"]),
        ],
        ids=str,
    )
    def test_a_filter_finds_what_it_names(
        self, store: Store, wanted: dict[str, Any], found: list[str]
    ) -> None:
        """A4, L2: and nothing else."""
        steps.pause(store, steps.create(store, "paused"))
        steps.create(store, "task", task="other")
        steps.create(store, "owner", owner="bob")
        steps.create(store, "declared", declared_by="code:app")
        steps.create(store, "%")
        steps.create(store, "theirs", tenant="theirs")

        assert found == names(store, **wanted)

    def test_several_names_find_exactly_those(self, store: Store) -> None:
        """U3, L2: of one tenant, deleted ones only when asked for; no name finds nothing."""
        for name in ("%", "first", "second", "others"):
            steps.create(store, name)
        steps.create(store, "first", tenant="theirs")
        steps.delete(store, steps.create(store, "deleted"))
        wanted = frozenset({"second", "%", "first", "deleted", "nobody's"})

        assert ["%", "first", "second"] == names(store, names=wanted)
        assert [] == names(store, names=frozenset())

    def test_a_name_finds_the_living_one(self, store: Store, clock: ManualClock) -> None:
        """S3: however many of that name were deleted."""
        steps.delete(store, steps.create(store))
        clock.advance(1000)
        living = steps.create(store)

        found = store.find_schedule(TENANT_DEFAULT, "nightly")

        assert found is not None
        assert (living, clock.now_us()) == (found.record, found.now)

    def test_a_name_finds_the_last_deleted_one_if_no_other_has_it(
        self, store: Store, clock: ManualClock
    ) -> None:
        """S3: so that it can be restored by name."""
        first = steps.create(store)
        steps.delete(store, first)
        clock.advance(1000)
        second = steps.delete(store, steps.create(store))

        found = store.find_schedule(TENANT_DEFAULT, "nightly")

        assert found is not None
        assert second == found.record

    def test_paused_schedules_whose_time_has_come_are_named(
        self, store: Store, clock: ManualClock
    ) -> None:
        """M1: at the instant itself, by the store's clock, the earliest first."""
        until = clock.now_us() + HOUR_US
        second = steps.pause(store, steps.create(store, "second"), until)
        first = steps.pause(store, steps.create(store, "first"), until - 5)
        steps.pause(store, steps.create(store, "third"), until + 1)
        steps.pause(store, steps.create(store, "for good"))

        clock.set(until - 6)
        assert [] == store.due_resumes(10)
        clock.set(until)
        assert [first.id, second.id] == store.due_resumes(10)
        assert [first.id] == store.due_resumes(1)


class ReadingRuns:
    """What lists of runs, delayed runs and audit entries promise."""

    def test_runs_come_newest_first_in_pages(self, store: Store, clock: ManualClock) -> None:
        """A4: by id, and so by time."""
        record = steps.create(store)
        for _ in range(5):
            record = steps.fire_due(store, clock, record)
        found: list[RunRecord] = []
        before = None
        while page := store.list_runs(RunFilter(tenant=TENANT_DEFAULT, before_id=before, limit=2)):
            found += page
            before = page[-1].id

        instants = [record.created_at + hours * HOUR_US for hours in (5, 4, 3, 2, 1)]
        assert instants == [run.scheduled_for for run in found]
        assert [occurrence_run_id(record.id, instant) for instant in instants] == [
            run.id for run in found
        ]

    @pytest.mark.parametrize(
        ("wanted", "found"),
        [
            ({}, ["cancelled", "queued", "task"]),
            ({"key": "k"}, ["queued"]),
            ({"task": "other"}, ["task"]),
            ({"states": frozenset({RunState.CANCELLED})}, ["cancelled"]),
            ({"states": frozenset({RunState.QUEUED})}, ["queued", "task"]),
            ({"origins": frozenset({Origin.DELAY})}, ["cancelled"]),
            ({"queue": "default"}, ["cancelled", "queued", "task"]),
            ({"queue": "mail"}, []),
            ({"tenant": "theirs"}, ["theirs"]),
        ],
        ids=str,
    )
    def test_a_filter_finds_the_runs_it_names(
        self, store: Store, clock: ManualClock, wanted: dict[str, Any], found: list[str]
    ) -> None:
        """A4, L2: and no other."""
        other = template_of(steps.create(store, task="other")).definition.call
        store.add_runs(
            add_runs(
                new_run(None, "queued", key="k"),
                new_run(None, "task", call=other),
                new_run(None, "theirs", tenant="theirs"),
                new_run(clock.now_us() + HOUR_US, "cancelled"),
            )
        )
        store.cancel_delayed(cancel(run_id("cancelled", clock.now_us() + HOUR_US)))
        known = {run_id(text): text for text in ("queued", "task", "theirs")}

        runs = store.list_runs(replace(RunFilter(tenant=TENANT_DEFAULT), **wanted))

        assert found == sorted(known.get(run.id, "cancelled") for run in runs)

    def test_runs_are_found_by_schedule_and_by_a_span_of_time(
        self, store: Store, clock: ManualClock
    ) -> None:
        """A4: the beginning is in it, the end is not."""
        record, other = steps.create(store), steps.create(store, "other")
        for _ in range(4):
            record = steps.fire_due(store, clock, record)
        first = record.created_at + HOUR_US
        wanted = RunFilter(
            tenant=TENANT_DEFAULT,
            schedule_id=record.id,
            since=first + HOUR_US,
            until=first + 3 * HOUR_US,
        )

        assert [first + 2 * HOUR_US, first + HOUR_US] == [
            run.scheduled_for for run in store.list_runs(wanted)
        ]
        assert [] == store.list_runs(RunFilter(tenant=TENANT_DEFAULT, schedule_id=other.id))

    def test_delayed_runs_come_in_order_of_due(self, store: Store, clock: ManualClock) -> None:
        """S2, L2."""
        now = clock.now_us()
        third, first, second = (steps.delay(store, now + due, f"{due}") for due in (30, 10, 20))
        steps.delay(store, now + 5, "theirs", tenant="theirs")

        assert [first, second, third] == store.list_delayed(TENANT_DEFAULT, 10)
        assert [first, second] == store.list_delayed(TENANT_DEFAULT, 2)

    def test_delayed_runs_are_listed_from_a_place_on(
        self, store: Store, clock: ManualClock
    ) -> None:
        """S2: pages leave none out and show none twice, also of those that are due together."""
        now = clock.now_us()
        for key in range(5):
            steps.delay(store, now + 10 + key // 2, f"{key}")
        whole = store.list_delayed(TENANT_DEFAULT, 10)
        pages = [store.list_delayed(TENANT_DEFAULT, 2)]
        while len(pages[-1]) == 2:
            last = pages[-1][-1]
            pages.append(store.list_delayed(TENANT_DEFAULT, 2, (last.due_at, last.id)))

        assert whole == [one for page in pages for one in page]

    def test_skips_come_newest_first(self, store: Store, clock: ManualClock) -> None:
        """M1."""
        record = steps.create(store)
        for _ in range(3):
            record = steps.apply(store, record, decide_skip_next(record, None))

        found = store.list_skips(record.id, 2)

        hours = (3, 2)
        assert [record.created_at + hour * HOUR_US for hour in hours] == [
            skip.first_for for skip in found
        ]

    def test_audit_entries_come_newest_first_in_pages(
        self, store: Store, clock: ManualClock
    ) -> None:
        """A2: none twice, none left out, numbered as they were written."""
        for number in range(5):
            steps.create(store, f"{number}")
        found: list[AuditEntry] = []
        before = None
        while page := steps.audit(store, before_number=before, limit=2):
            found += page
            before = page[-1].number

        assert ["4", "3", "2", "1", "0"] == [entry.subject for entry in found]
        numbers = [entry.number for entry in found]
        assert sorted(set(numbers), reverse=True) == numbers

    @pytest.mark.parametrize(
        ("wanted", "count"),
        [
            ({"subject": "nightly"}, 2),
            ({"action": "schedule.paused"}, 1),
            ({"actor": "ada"}, 3),
            ({"actor": "bob"}, 0),
            ({"tenant": "theirs"}, 1),
        ],
        ids=str,
    )
    def test_the_audit_trail_can_be_searched(
        self, store: Store, wanted: dict[str, Any], count: int
    ) -> None:
        """A2."""
        steps.pause(store, steps.create(store))
        steps.create(store, "other", tenant="theirs")

        assert count == len(steps.audit(store, **wanted))

    def test_registered_tasks_are_listed_in_order_and_once(self, store: Store) -> None:
        """S6."""
        store.register_tasks(["remind", "bill"])
        store.register_tasks(["bill", "close"])

        assert ["bill", "close", "remind"] == store.list_tasks()


class Verdicts:
    """What `judge` promises: one verdict for each expected occurrence (M1, D6)."""

    def test_an_occurrence_is_run_or_pending(self, store: Store, clock: ManualClock) -> None:
        """M1: in the order asked for, with the run's id."""
        record = steps.fire_due(store, clock, steps.create(store))
        first = record.created_at + HOUR_US

        pending, run = store.judge(record.id, (first + HOUR_US, first))

        assert ("pending", first + HOUR_US, None) == (
            pending.kind,
            pending.scheduled_for,
            pending.run_id,
        )
        assert ("run", first, occurrence_run_id(record.id, first)) == (
            run.kind,
            run.scheduled_for,
            run.run_id,
        )

    def test_a_skipped_occurrence_says_why(self, store: Store) -> None:
        """M1."""
        record = steps.create(store)
        steps.apply(store, record, decide_skip_next(record, None))

        (verdict,) = store.judge(record.id, (record.created_at + HOUR_US,))

        assert ("skipped", SkipReason.SKIPPED) == (verdict.kind, verdict.reason)

    def test_a_coalesced_occurrence_names_the_run_that_stands_for_it(
        self, store: Store, clock: ManualClock
    ) -> None:
        """M1."""
        record = steps.create(store)
        clock.advance("3h30m")
        fired = fire_late(store, clock, record)
        first = record.created_at + HOUR_US

        verdicts = store.judge(record.id, (first, first + HOUR_US, first + 2 * HOUR_US))

        assert ["skipped", "skipped", "run"] == [verdict.kind for verdict in verdicts]
        assert {fired.last_run} == {verdict.run_id for verdict in verdicts}

    def test_both_ends_of_a_range_are_in_it(self, store: Store, clock: ManualClock) -> None:
        """M1, F8."""
        record = steps.create(store, misfire=Misfire("all"))
        clock.advance("3h30m")
        fire_late(store, clock, record)
        first = record.created_at + HOUR_US

        verdicts = store.judge(record.id, [first + hours * HOUR_US for hours in range(4)])

        assert ["owed", "owed", "owed", "pending"] == [verdict.kind for verdict in verdicts]

    def test_while_it_rests_what_is_held_is_pending(self, store: Store) -> None:
        """S3: resuming decides."""
        record = steps.pause(store, steps.create(store))

        (verdict,) = store.judge(record.id, (record.created_at + HOUR_US,))

        assert "pending" == verdict.kind

    def test_a_hole_is_called_missing(self, store: Store) -> None:
        """INV-2: nothing of ours makes one; if something did, it would show."""
        record = steps.create(store)
        jumped = template_of(record).pending(record.created_at + 3 * HOUR_US)
        steps.apply(store, record, staying(record, pending=jumped))

        instants = [record.created_at + hours * HOUR_US for hours in (1, 2, 3)]
        verdicts = store.judge(record.id, instants)

        assert ["missing", "missing", "pending"] == [verdict.kind for verdict in verdicts]


class StatusOnOneScreen:
    """What `status` promises."""

    def test_an_empty_store_shows_zeros(self, store: Store) -> None:
        """V1."""
        status = store.status()

        assert (0, 0, 0, 0, 0) == (
            status.delayed,
            status.queued,
            status.owed,
            status.overdue,
            status.early_fires,
        )
        assert (0, None, None) == (
            sum(status.schedules.values()),
            status.oldest_due_at,
            status.next_due_at,
        )
        assert ((), {}) == (status.members, dict(status.queues))
        assert {None} == {lease.owner for lease in status.leases}

    def test_what_is_there_is_counted(self, store: Store, clock: ManualClock) -> None:
        """V1."""
        steps.create(store, "active")
        steps.pause(store, steps.create(store, "paused"))
        steps.delete(store, steps.create(store, "deleted"))
        steps.delay(store, clock.now_us() + 1)
        store.add_runs(add_runs(new_run(None, "now")))
        status = store.status()

        assert {"active": 1, "paused": 1, "deleted": 1} == {
            str(one): count for one, count in status.schedules.items() if count
        }
        assert (1, 1, {"default": 1}) == (status.delayed, status.queued, dict(status.queues))

    def test_what_is_overdue_is_told_from_what_comes(
        self, store: Store, clock: ManualClock
    ) -> None:
        """V1: due at this very instant is overdue."""
        now = clock.now_us()
        for due in (10, 20, 30):
            steps.delay(store, now + due, f"{due}")
        record = steps.create(store)
        assert record.pending is not None
        clock.set(now + 20)
        status = store.status()

        assert (2, now + 10, now + 30) == (
            status.overdue,
            status.oldest_due_at,
            status.next_due_at,
        )


def names(store: Store, **wanted: Any) -> list[str]:
    """Return the names of the schedules that a filter finds."""
    command = replace(ScheduleFilter(tenant=TENANT_DEFAULT), **wanted)
    return [record.name for record in store.list_schedules(command)]
