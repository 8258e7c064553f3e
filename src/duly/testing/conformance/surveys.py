"""Surveys: the part of the contract about asking for many at once; each answers as one would."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.domain.concluding import Succeeded
from duly.domain.identity import RunId, ScheduleId
from duly.domain.literals import Finding, Missed
from duly.domain.planning import decide_resume
from duly.domain.scope import Scope, ScopeReport
from duly.domain.timetable.interval import every
from duly.store.execution import SaveCheckpoint
from duly.store.surveys import EFFECTS_MAX, Evidence, Findings, Judged
from duly.testing import factories
from duly.testing.conformance import steps
from duly.testing.conformance import work_steps as work
from duly.testing.conformance.effects import begin, done, in_doubt, taken
from duly.testing.conformance.last_ends import FAILS, ended, verify
from duly.testing.conformance.lines_of_runs import ALL, repaired, tell
from duly.testing.factories import HOUR_US

if TYPE_CHECKING:
    from duly.store.protocol import Store
    from duly.testing.manual_clock import ManualClock

NOBODY = ScheduleId(bytes(16))
NO_RUN = RunId(bytes(16))


class Surveying:
    """What reading about many at once promises."""

    def test_occurrences_of_many_are_judged_as_those_of_each(
        self, store: Store, clock: ManualClock
    ) -> None:
        """M1: run, skipped, pending and unknown ones, each in its place, asked in any order."""
        first = steps.create(store, "first", timetable=every("1h"))
        begun_at = clock.now_us()
        first = steps.fire_due(store, clock, first)
        first = steps.pause(store, first)
        clock.advance("3h")
        first = steps.apply(store, first, decide_resume(first, store.now(), Missed.SKIP, None))
        second = steps.create(store, "second", timetable=every("1h"))
        hours = [begun_at + number * HOUR_US for number in range(-1, 7)]
        assert first.last_for is not None
        asked = [
            Judged(second.id, hours[::-1]),
            Judged(NOBODY, hours[:2]),
            Judged(first.id, [first.last_for, *hours]),
            Judged(second.id, []),
        ]

        found = store.judge_many(asked)

        assert [store.judge(*one) for one in asked] == found
        kinds = {str(one.kind) for verdicts in found for one in verdicts}
        assert {"run", "skipped", "pending", "unknown"} <= kinds
        assert [] == store.judge_many([])

    def test_schedules_and_their_templates_are_found_by_id(self, store: Store) -> None:
        """V1, S4: the newest versions first, and of each as many as are asked for; deleted too."""
        first = steps.create(store, "first")
        for hours in ("2h", "3h"):
            definition = factories.definition(timetable=every(hours))
            first = steps.edit(store, first, definition)
        second = steps.delete(store, steps.create(store, "second"))
        ids = [second.id, NOBODY, first.id]

        assert {first.id: first, second.id: second} == store.get_schedules(ids)
        assert {} == store.get_schedules([])
        assert {
            first.id: store.list_definitions(first.id, 2),
            second.id: store.list_definitions(second.id, 2),
        } == store.list_many_definitions(ids, 2)
        assert [3, 2] == [one.number for one in store.list_many_definitions(ids, 2)[first.id]]
        assert {} == store.list_many_definitions([], 2)

    def test_the_newest_runs_of_each_are_found(self, store: Store, clock: ManualClock) -> None:
        """U3: whatever has become of them, and of nobody else's."""
        first = steps.create(store, "first", timetable=every("1m"))
        second = steps.create(store, "second", timetable=every("1m"))
        none = steps.create(store, "none", timetable=every("1m"))
        runs = []
        for how in (Succeeded(), FAILS, work.FATAL):
            first, run = ended(store, clock, first, how)
            runs.append(run)
        second, other = ended(store, clock, second, Succeeded())
        work.queue(store)

        found = store.list_newest_runs([second.id, NOBODY, none.id, first.id], 2)

        assert {first.id: runs[:0:-1], second.id: [other]} == found
        ids = [other.id, NO_RUN, runs[0].id]
        assert {other.id: other, runs[0].id: runs[0]} == store.get_runs(ids)
        assert {} == store.get_runs([])
        assert {} == store.list_newest_runs([], 2)

    def test_what_is_on_record_about_runs_is_read_together(self, store: Store) -> None:
        """E5: attempts, effects, checks and checkpoints are of the run that they are told of."""
        worker, claimed = taken(store)
        done(store, worker, claimed, "first")
        begin(store, worker, claimed, "second")
        store.save_checkpoint(
            SaveCheckpoint(worker=worker, hold=claimed.hold, partition="", state="1")
        )
        doubted = in_doubt(store, "other")
        verify(store, work.look(store, doubted.run_id), Finding.PARTIAL)
        untouched = work.queue(store, "untouched")
        ids = [untouched, claimed.run_id, NO_RUN, doubted.run_id]

        found = store.read_evidence(ids)

        assert {
            one: Evidence(
                attempt=next(iter(store.list_attempts(one)[-1:]), None),
                effects=tuple(store.list_effects(one, EFFECTS_MAX)),
                verdicts=tuple(store.list_verdicts(one)),
                has_checkpoint=bool(store.get_checkpoints(one)),
            )
            for one in ids
        } == found
        assert ["first", "second"] == [one.key for one in found[claimed.run_id].effects]
        assert found[claimed.run_id].has_checkpoint
        assert not found[doubted.run_id].has_checkpoint
        assert [Finding.PARTIAL] == [one.finding for one in found[doubted.run_id].verdicts]
        assert found[doubted.run_id].attempt is not None
        assert Evidence() == found[NO_RUN] == found[untouched]
        assert {} == store.read_evidence([])

    def test_what_runs_brought_about_is_read_together(self, store: Store) -> None:
        """E6: checks are of the run that was checked, and a repair shares the scope of its line."""
        worker, claimed = work.queue_and_take(store)
        tell(store, worker, claimed, ALL)
        work.end(store, worker, claimed, Succeeded())
        again = repaired(store, worker, claimed.run_id)
        tell(store, worker, again, ScopeReport(done=("a",)))
        doubted = in_doubt(store, "other")
        verify(store, work.look(store, doubted.run_id), Finding.PARTIAL)
        untouched = work.queue(store, "untouched")
        ids = [untouched, again.run_id, NO_RUN, doubted.run_id, claimed.run_id]

        found = store.read_findings(ids)

        assert {
            one: Findings(tuple(store.list_verdicts(one)), store.get_scope(one)) for one in ids
        } == found
        assert Scope(3, 2, 1, ("c",)) == found[again.run_id].scope == found[claimed.run_id].scope
        assert [Finding.PARTIAL] == [one.finding for one in found[doubted.run_id].verdicts]
        assert Findings() == found[NO_RUN] == found[untouched]
        assert {} == store.read_findings([])
