"""Searching: the part of the contract about pages of runs, attempts and audit entries."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from duly.domain.advice import Choice
from duly.domain.attempts import Reason
from duly.domain.concluding import Failed, Succeeded
from duly.domain.literals import AttemptState, Lane, Origin, Overlap, RunState
from duly.domain.schedules import TENANT_DEFAULT
from duly.store.execution import FinishResult
from duly.store.reading import AuditFilter, RunFilter
from duly.store.searching import AttemptFilter
from duly.testing.conformance import steps
from duly.testing.conformance import work_steps as work
from duly.testing.conformance.doubts import rerun, settle
from duly.testing.conformance.effects import in_doubt
from duly.testing.conformance.overlap_steps import fired, runs_of
from duly.testing.factories import (
    ADA,
    HOUR_US,
    add_runs,
    cancel,
    cancel_run,
    move,
    new_run,
    order_runs,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duly.domain.attempts import AttemptRecord
    from duly.domain.audit import AuditEntry
    from duly.domain.identity import RunId
    from duly.domain.runs import RunRecord
    from duly.store.protocol import Store
    from duly.store.searching import SearchStore
    from duly.testing.manual_clock import ManualClock

PAGE = 4
THEIRS = "theirs"


class SearchingRuns:
    """What `search_runs` promises."""

    def test_every_filter_finds_exactly_the_runs_that_fit(
        self, store: Store, clock: ManualClock
    ) -> None:
        """A4, L2: by schedule, state, time, tenant, key, error and all others, alone and together.

        Whatever the pages are cut into, each run comes once, and newest first.
        """
        everything = settle_a_town(store, clock)
        wrong = {
            str(wanted): (names, expected)
            for wanted in wanted_runs(clock, everything)
            if (names := [run.id.hex() for run in runs_by_pages(store, wanted)])
            != (expected := [run.id.hex() for run in everything if run_fits(run, wanted)])
        }

        assert {} == wrong

    def test_a_list_has_what_the_pages_have(self, store: Store) -> None:
        """A4: however long it is."""
        for text in "abcdef":
            work.make_dead(store, text)
        dead = RunFilter(tenant=TENANT_DEFAULT, states=frozenset({RunState.DEAD}))

        assert 6 == len(runs_by_pages(store, dead))
        assert runs_by_pages(store, dead) == store.list_runs(dead)
        assert runs_by_pages(store, dead)[:1] == store.list_runs(replace(dead, limit=1))

    def test_a_run_that_goes_elsewhere_is_found_there(self, store: Store) -> None:
        """A4: and no longer where it was."""
        target = work.make_dead(store, "a")
        dead = RunFilter(tenant=TENANT_DEFAULT, states=frozenset({RunState.DEAD}))
        failing = RunFilter(tenant=TENANT_DEFAULT, error="no use")
        before = [ids_of(store, one) for one in (dead, failing)]
        store.retry_runs(order_runs(target))
        worker = work.join(store)
        assert FinishResult.ACCEPTED == work.end(
            store, worker, work.take_one(store, worker), Succeeded()
        )

        assert [[target], [target]] == before
        assert [[], []] == [ids_of(store, one) for one in (dead, failing)]


class SearchingAttempts:
    """What `search_attempts` promises."""

    def test_every_filter_finds_exactly_the_attempts_that_fit(
        self, store: Store, clock: ManualClock
    ) -> None:
        """A4, R2, L2: alive and ended, by worker, state, reason and error."""
        runs = settle_a_town(store, clock)
        everything = [
            attempt
            for run in runs
            if run.tenant == TENANT_DEFAULT
            for attempt in reversed(store.list_attempts(run.id))
        ]
        wrong = {
            str(wanted): (found, expected)
            for wanted in wanted_attempts(everything)
            if (found := [place(one) for one in attempts_by_pages(store, wanted)])
            != (expected := [place(one) for one in everything if attempt_fits(one, wanted)])
        }

        assert {} == wrong

    def test_a_run_of_many_attempts_is_paged_within(self, store: Store, clock: ManualClock) -> None:
        """A4: by fence, the last first."""
        target = work.queue(store)
        worker = work.join(store, ttl_us=100 * HOUR_US)
        for number in range(5):
            claimed = work.take_one(store, worker)
            work.end(store, worker, claimed, Failed(f"error {number}", after_us=1_000_000))
            work.fire_retries(store, clock)
        wanted = AttemptFilter(tenant=TENANT_DEFAULT)

        assert [(target, fence) for fence in (5, 4, 3, 2, 1)] == [
            (one.run_id, one.fence) for one in attempts_by_pages(store, wanted)
        ]


class SearchingAudit:
    """What `search_audit` promises."""

    def test_every_filter_finds_exactly_the_entries_that_fit(
        self, store: Store, clock: ManualClock
    ) -> None:
        """A2, A4: by tenant, subject, action, actor and time."""
        settle_a_town(store, clock)
        everything = store.list_audit(AuditFilter())
        wrong = {
            str(wanted): (found, expected)
            for wanted in wanted_entries(everything)
            if (found := [one.number for one in entries_by_pages(store, wanted)])
            != (expected := [one.number for one in everything if entry_fits(one, wanted)])
        }

        assert {} == wrong


def settle_a_town(store: Store, clock: ManualClock) -> list[RunRecord]:
    """Make runs of every sort, in every place; return them all, newest first."""
    worker = work.join(store, ttl_us=1000 * HOUR_US)
    known = [work.queue(store, text) for text in ("held", "well")]
    held, well = sorted(work.take(store, worker), key=lambda one: known.index(one.run_id))
    assert FinishResult.ACCEPTED == work.end(store, worker, well, Succeeded("7"))
    known += [
        _tried_twice(store, clock),
        work.make_waiting(store, "waiting"),
        work.make_dead(store, "dead"),
        work.make_dead(store, "gone"),
        work.make_dead(store, "their dead", tenant=THEIRS),
        in_doubt(store, "doubtful").run_id,
    ]
    store.discard_runs(order_runs(known[5]))
    reconciled = in_doubt(store, "reconciled").run_id
    settle(store, reconciled, Choice.RECONCILE, is_done=True, evidence="seen")
    known += [reconciled, rerun(store, known[1]).id, *_by_schedule(store, clock)]
    known += _delayed(store, clock)
    known.append(work.queue(store, "queued"))
    known.append(work.queue(store, "own lane", lane=Lane.CATCH_UP, queue="mail", task="send"))
    known.append(work.queue(store, "their queued", tenant=THEIRS))
    known.append(_keyed(store, "keyed"))
    cancelled = work.queue(store, "cancelled")
    store.cancel_run(cancel_run(cancelled))
    known.append(cancelled)
    assert [held.run_id, well.run_id] == known[:2]
    assert len(known) == len(set(known))
    return sorted((work.look(store, one) for one in known), key=lambda run: run.id, reverse=True)


def wanted_runs(clock: ManualClock, everything: list[RunRecord]) -> Iterator[RunFilter]:
    """Return every filter by itself, and some together."""
    schedule = next(run.schedule_id for run in everything if run.schedule_id is not None)
    now = clock.now_us()
    alone: list[dict[str, Any]] = [
        {},
        {"key": "k"},
        {"schedule_id": schedule},
        {"task": "send"},
        {"queue": "mail"},
        {"lane": Lane.CATCH_UP},
        {"error": "no use"},
        {"error": "No Use"},
        {"error": "try"},
        {"error": ""},
        {"error": "100%_'?"},
        *({"states": frozenset({state})} for state in RunState),
        {"states": frozenset(RunState)},
        {"states": frozenset({RunState.QUEUED, RunState.DEAD, RunState.DISCARDED})},
        *({"origins": frozenset({origin})} for origin in Origin),
        *({"reason": reason} for reason in {run.state_reason for run in everything} if reason),
        *({"root": run.root} for run in everything if run.root != run.id),
        {"root": everything[0].id},
        *({"worker": worker} for worker in {run.worker for run in everything} if worker),
    ]
    spans: list[dict[str, Any]] = [
        {},
        {"since": everything[len(everything) // 2].scheduled_for},
        {"until": everything[len(everything) // 2].scheduled_for},
        {"since": now - 3 * HOUR_US, "until": now + 1},
        {"since": now + 1},
        {"until": -1},
    ]
    for terms in alone:
        yield replace(RunFilter(tenant=TENANT_DEFAULT), **terms)
    for terms in alone[:20:2]:
        yield replace(RunFilter(tenant=THEIRS), **terms)
    for span in spans:
        for terms in (
            {},
            {"schedule_id": schedule},
            {"states": frozenset({RunState.DEAD, RunState.QUEUED, RunState.CANCELLED})},
            {"error": "no use"},
            {"key": "k"},
        ):
            yield replace(RunFilter(tenant=TENANT_DEFAULT), **terms, **span)
    together: dict[str, Any] = {
        "states": frozenset({RunState.DEAD}),
        "reason": Reason.NOT_RETRYABLE,
    }
    yield replace(RunFilter(tenant=TENANT_DEFAULT), **together, error="use", task="remind")
    yield RunFilter(tenant="nobody's")


def run_fits(run: RunRecord, wanted: RunFilter) -> bool:
    """Say whether a run is one of those that are looked for."""
    return (
        run.tenant == wanted.tenant
        and wanted.schedule_id in (None, run.schedule_id)
        and wanted.key in (None, run.key)
        and wanted.task in (None, run.call.task)
        and wanted.queue in (None, run.call.queue)
        and wanted.reason in (None, run.state_reason)
        and wanted.lane in (None, run.lane)
        and wanted.root in (None, run.root)
        and wanted.worker in (None, run.worker)
        and (wanted.error is None or (run.error is not None and wanted.error in run.error))
        and (wanted.states is None or run.state in wanted.states)
        and (wanted.origins is None or run.origin in wanted.origins)
        and (wanted.since is None or wanted.since <= run.scheduled_for)
        and (wanted.until is None or run.scheduled_for < wanted.until)
    )


def runs_by_pages(store: SearchStore, wanted: RunFilter) -> list[RunRecord]:
    """Return all that is found, page by page."""
    found: list[RunRecord] = []
    wanted = replace(wanted, limit=PAGE)
    while True:
        page = store.search_runs(wanted)
        assert len(page.records) <= PAGE
        found += page.records
        if page.next is None:
            return found
        assert wanted.before_id is None or page.next < wanted.before_id
        wanted = replace(wanted, before_id=page.next)


def ids_of(store: Store, wanted: RunFilter) -> list[RunId]:
    """Return the ids of what is found."""
    return [run.id for run in runs_by_pages(store, wanted)]


def wanted_attempts(everything: list[AttemptRecord]) -> Iterator[AttemptFilter]:
    """Return every filter by itself, and some together."""
    plain = AttemptFilter(tenant=TENANT_DEFAULT)
    yield plain
    for state in AttemptState:
        yield replace(plain, states=frozenset({state}))
        yield replace(plain, states=frozenset({state}), error="")
    for worker in {one.worker for one in everything}:
        yield replace(plain, worker=worker)
        yield replace(plain, worker=worker, states=frozenset({AttemptState.FAILED}))
    for reason in {one.reason for one in everything if one.reason is not None}:
        yield replace(plain, reason=reason)
    for error in ("no use", "try", "", "nowhere"):
        yield replace(plain, error=error)
    yield replace(plain, worker=1 << 60)
    yield replace(plain, tenant="nobody's")


def attempt_fits(attempt: AttemptRecord, wanted: AttemptFilter) -> bool:
    """Say whether an attempt of the default tenant is one of those that are looked for."""
    return (
        wanted.tenant == TENANT_DEFAULT
        and wanted.worker in (None, attempt.worker)
        and wanted.reason in (None, attempt.reason)
        and (wanted.states is None or attempt.state in wanted.states)
        and (wanted.error is None or (attempt.error is not None and wanted.error in attempt.error))
    )


def attempts_by_pages(store: SearchStore, wanted: AttemptFilter) -> list[AttemptRecord]:
    """Return all that is found, page by page."""
    found: list[AttemptRecord] = []
    wanted = replace(wanted, limit=PAGE)
    while True:
        page = store.search_attempts(wanted)
        assert len(page.records) <= PAGE
        found += page.records
        if page.next is None:
            return found
        assert wanted.before is None or page.next < wanted.before
        wanted = replace(wanted, before=page.next)


def place(attempt: AttemptRecord) -> tuple[str, int, str]:
    """Return which attempt it is, and its state."""
    return attempt.run_id.hex(), attempt.fence, str(attempt.state)


def wanted_entries(everything: list[AuditEntry]) -> Iterator[AuditFilter]:
    """Return every filter by itself, and some together."""
    yield AuditFilter()
    for entry in everything[::5]:
        yield AuditFilter(subject_id=entry.subject_id, action=entry.action)
        yield AuditFilter(subject=entry.subject, tenant=entry.tenant)
    for name in {entry.action for entry in everything}:
        yield AuditFilter(action=name)
        yield AuditFilter(action=name, actor=ADA.name)
    for name in {entry.actor.name for entry in everything}:
        yield AuditFilter(actor=name)
        yield AuditFilter(actor=name, tenant=THEIRS)
    for at in sorted({entry.at for entry in everything}):
        yield AuditFilter(since=at)
        yield AuditFilter(until=at)
        yield AuditFilter(since=at, until=at + 1, tenant=TENANT_DEFAULT)
    yield AuditFilter(tenant="nobody's")


def entry_fits(entry: AuditEntry, wanted: AuditFilter) -> bool:
    """Say whether an entry is one of those that are looked for."""
    return (
        wanted.tenant in (None, entry.tenant)
        and wanted.subject_id in (None, entry.subject_id)
        and wanted.subject in (None, entry.subject)
        and wanted.action in (None, entry.action)
        and wanted.actor in (None, entry.actor.name)
        and (wanted.since is None or wanted.since <= entry.at)
        and (wanted.until is None or entry.at < wanted.until)
    )


def entries_by_pages(store: SearchStore, wanted: AuditFilter) -> list[AuditEntry]:
    """Return all that is found, page by page."""
    found: list[AuditEntry] = []
    wanted = replace(wanted, limit=PAGE)
    while True:
        page = store.search_audit(wanted)
        assert len(page.entries) <= PAGE
        found += page.entries
        if page.next is None:
            return found
        wanted = replace(wanted, before_number=page.next)


def _tried_twice(store: Store, clock: ManualClock) -> RunId:
    """Return a run whose second attempt went well: its error is no more."""
    target = work.make_waiting(store, "later well", after_us=1_000_000)
    work.fire_retries(store, clock)
    worker = work.join(store)
    claimed = work.take_one(store, worker)
    assert FinishResult.ACCEPTED == work.end(store, worker, claimed, Succeeded())
    store.leave(worker)
    return target


def _keyed(store: Store, text: str) -> RunId:
    (added,) = store.add_runs(add_runs(new_run(None, text, key="k")))
    return added.id


def _by_schedule(store: Store, clock: ManualClock) -> list[RunId]:
    """Return an occurrence that is queued, and one that waits for it."""
    record = fired(store, clock, Overlap.QUEUE_ALL, times=2)
    return [run.id for run in runs_of(store, record)]


def _delayed(store: Store, clock: ManualClock) -> list[RunId]:
    """Return one that was cancelled, one that was moved far away, and one of another tenant."""
    now = clock.now_us()
    cancelled = steps.delay(store, now + HOUR_US, "cancelled late").id
    store.cancel_delayed(cancel(cancelled))
    moved = steps.delay(store, now + 100 * HOUR_US, "moved").id
    store.move_delayed(move(moved, now + 1))
    theirs = steps.delay(store, now + 2, "their delayed", tenant=THEIRS).id
    for one in (moved, theirs):
        steps.fire_delayed(store, clock, one)
    return [cancelled, moved, theirs]
