"""The checker of limits: holds admissions, ends and starts against a ledger of its own (INV-23).

What may reach a destination that is open: its probes, and what had been let go before it opened and
was not begun yet, each once. No worker decides for itself, so there is nothing else to allow for.
What may run above a cap: code whose claim is over, which nobody can stop; and of a limit that a
person has set, what a worker begins that has not read of it yet.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from duly.domain.admission import AdmissionRoute
from duly.domain.enums import AttemptState, RunState
from duly.domain.limits import LimitSource, keyed_place, why_of
from duly.domain.outcomes import RetryLater, not_begun
from duly.domain.runs import Reason
from tests.simulation.limit_ledger import BreakerNote, LimitTable, RateNote
from tests.simulation.recipe import SECOND
from tests.simulation.scripts import scripted_tasks
from tests.simulation.users import TENANT
from tests.simulation.world import Violation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from duly.domain.ids import RunId
    from duly.domain.limits import Limit
    from duly.domain.outcomes import Conclusion
    from duly.domain.runs import RunRecord
    from duly.store.ports.execution import ClaimedRun, FinishAttempt
    from duly.store.ports.limits import Request
    from tests.simulation.work_checker import WorkChecker
    from tests.simulation.work_ledger import RunNote
    from tests.simulation.world import Executed, World

LET_GO = 0
"""In place of a fence: of one that was let go at a cap, or ran before there was a limit."""
TRIED = frozenset((AttemptState.FAILED, AttemptState.TIMED_OUT, AttemptState.LOST))
UNFINISHED = frozenset((RunState.QUEUED, RunState.RUNNING, RunState.RETRYING, RunState.BLOCKED))
BACKOFFS_MIN = 15
SPREAD_MIN = 0.3
"""Of so many waits drawn evenly the longest and the shortest lie further apart than that."""
STANDS_OLD_US = 15 * SECOND
"""Whoever tends the store lets go who stands for a place that is free, and does so more often."""


class LimitChecker:
    """Sees every executed call about limits, every end, and every start; one method for each."""

    def __init__(self, work: WorkChecker, world: World) -> None:
        self._work = work
        self._world = world
        self._tasks = scripted_tasks(world.recipe)
        self._table = LimitTable()
        self._held: defaultdict[str, dict[RunId, int]] = defaultdict(dict)
        """By place: who holds it, and under which fence."""
        self._standing: dict[RunId, str] = {}
        self._turns: dict[RunId, int] = {}
        """Turns at rates that were given, and not used yet."""
        self._rates: dict[str, RateNote] = {}
        self._breakers: dict[str, BreakerNote] = {}
        self._admitted: dict[tuple[RunId, int], tuple[str, ...]] = {}
        """Claims that may begin, with the places that they took."""
        self._answers: dict[RunId, bool | None] = {}
        """What a worker says of whom its attempt has called, until that has ended."""
        self._told: defaultdict[str, list[tuple[RunId, bool | None]]] = defaultdict(list)
        """By destination: how attempts have ended, until all of a call are there."""
        self._shares: list[float] = []
        """Waits after attempts, each as a share of the longest that its policy allows."""
        self._keyed: dict[str, tuple[str, str]] = {}
        """Of places with one value of a parameter: the task, and which parameter."""
        self._free_since: dict[str, int] = {}

    # What people and code say

    def declare_limits(self, executed: Executed) -> None:
        """Take over what code says."""
        said: Mapping[str, Limit | None] = executed.call.arguments[0]
        for scope, limit in said.items():
            self._say(scope, LimitSource.CODE, limit)

    def set_limit(self, executed: Executed) -> None:
        """Take over what a person says."""
        command = executed.call.arguments[0]
        self._say(command.scope, LimitSource.PERSON, command.limit)
        self._world.counts["limits set"] += 1

    def remove_limit(self, executed: Executed) -> None:
        """Forget what a person said."""
        self._say(executed.call.arguments[0], LimitSource.PERSON, None)

    def _say(self, scope: str, source: LimitSource, limit: Limit | None) -> None:
        known_limit = self._table.said.get((scope, source))
        if known_limit == limit and (limit is None or source is LimitSource.CODE):
            return  # nothing new
        self._table.say(scope, source, limit)
        rate, known = self._table.rate(scope), self._rates.get(scope)
        if rate is None:
            self._rates.pop(scope, None)
        elif known is None or known.rate != rate:
            self._rates[scope] = RateNote(rate)
        for note in self._work.runs.values():
            if note.state is RunState.RUNNING:
                for place in self._scopes(note.task, None):
                    if self._is_limited(place):
                        self._held[place].setdefault(note.id, LET_GO)
        self._read_waits()

    def reset_breaker(self, executed: Executed) -> None:
        """A person takes a destination for well."""
        self._breaker(executed.call.arguments[0]).reset(executed.at)
        self._world.counts["breakers reset"] += 1
        self._read_waits()

    def _read_waits(self) -> None:
        """Who waits for a limit may have been given another moment."""
        for run_id, row in self._world.store.tables.waiting.items():
            if why_of(row.reason) is not None:
                self._work.runs[run_id].due_at = row.due_at
        self._turns.update(self._world.store.tables.turns)

    # Admission

    def admit(self, executed: Executed) -> None:
        """Who asks goes, waits or stands, and exactly who must (INV-5, INV-23)."""
        worker, requests = executed.call.arguments
        asked = list(zip(requests, executed.result.verdicts, strict=True))
        for request, verdict in asked:
            note = self._work.runs[request.hold.run_id]
            is_held = note.is_held(worker, request.hold.fence)
            has_begun = bool(self._admitted.get(request.hold))
            is_gone = not is_held or (note.is_cancel_asked and not has_begun)
            if (verdict.way is AdmissionRoute.GONE) != is_gone:
                raise Violation("INV-5: a stale claim was admitted, or a good one was not")
            if verdict.way is AdmissionRoute.GONE and is_held:
                self._work.end_claim(executed, note, not_begun(Reason.NOT_STARTED))
                self._world.counts["cancelled before they began"] += 1
        self._take_in(executed.at)
        for request, verdict in asked:
            note = self._work.runs[request.hold.run_id]
            self._world.counts[f"admission: {verdict.way}"] += 1
            match verdict.way:
                case AdmissionRoute.GOES:
                    self._go(request, note, executed.at)
                case AdmissionRoute.LATER:
                    self._put_off(request, note, verdict.why, verdict.at, executed.at)
                case AdmissionRoute.STANDS:
                    self._stand(request, note, verdict.why)

    def _go(self, request: Request, note: RunNote, now: int) -> None:
        claim = (note.id, note.fence)
        if self._admitted.get(claim):
            self._world.counts["admissions asked again"] += 1
            return
        caps, rates = self._caps(request), self._rates_of(request)
        for place, most in caps.items():
            if self._count_running(place, note) >= most:
                raise Violation(f"INV-23: one more began at {place} than the {most} that may")
        for place in rates:
            self._rates[place].go(place, now)
        places = {*caps, *rates}
        if request.destination is not None:
            places.add(f"destination:{request.destination}")
            probe_us = self._probe_us(note, now)
            went = self._breaker(request.destination).go(note.id, now, probe_us)
            self._world.counts[f"let go: {went}"] += 1
        self._leave(note.id)
        for place in places:
            self._held[place][note.id] = note.fence
        self._turns.pop(note.id, None)
        self._admitted[claim] = tuple(sorted(places))

    def _put_off(self, request: Request, note: RunNote, why: str | None, at: int, now: int) -> None:
        found = why_of(why)
        assert found is not None
        reason, which = found
        self._world.counts[f"put off: {reason}"] += 1
        if reason == "breaker":
            self._breaker(which).put_off(note.id, now, at)
        else:
            if at <= now:
                raise Violation("INV-23: a turn was given that has passed")
            is_turn = self._turns.get(note.id, now + 1) <= now
            if is_turn and all(self._rates[one].has_room(now) for one in self._rates_of(request)):
                raise Violation(f"INV-23: a run was put off at its turn at {which}")
            self._turns[note.id] = at
        self._end_unbegun(note)
        note.state, note.due_at = RunState.RETRYING, at

    def _stand(self, request: Request, note: RunNote, why: str | None) -> None:
        found = why_of(why)
        assert found is not None
        place = found[1]
        most = self._caps(request).get(place)
        if any(note.id in holders for holders in self._held.values()):
            # He was let go himself: only those that run are in his way.
            taken = self._count_running(place, note)
        else:
            taken = len(self._held[place])
            taken += sum(one == place for one in self._standing.values())
        if most is None or taken < most:
            raise Violation(f"INV-23: a run stands for {place}, where there is a place")
        self._world.counts["stood for a place"] += 1
        self._end_unbegun(note)
        note.state = RunState.BLOCKED
        self._standing[note.id] = place

    def _count_running(self, place: str, but: RunNote) -> int:
        """Return how many others are at a place whose runs somebody has claimed."""
        others = (self._work.runs[run_id] for run_id in self._held[place] if run_id != but.id)
        return sum(one.state is RunState.RUNNING for one in others)

    def _end_unbegun(self, note: RunNote) -> None:
        """Let a claim be as if it had never been, but for its fence: nothing is used up."""
        if self._admitted.pop((note.id, note.fence), None):
            raise Violation("INV-23: a claim that had been let go was put off")
        if (note.id, note.fence) in self._work.observer.executions:
            raise Violation("INV-23: a run was put off after its code had begun")
        self._leave(note.id)
        self._work.release(note)
        note.attempt -= 1
        if not note.attempt:
            note.begun_at = None
        del note.orders[note.fence]

    # Starts and ends

    def begin(self, claimed: ClaimedRun) -> None:
        """Code that is limited begins when it was let go, under that very claim (INV-23)."""
        run_id, task = claimed.record.id, claimed.task
        destination = self._destination(task)
        claim = (run_id, claimed.fence)
        if claim not in self._admitted:
            if destination is not None or self._table.is_of_code(f"task:{task}"):
                raise Violation("INV-23: code began that nobody had let begin")
            limited = any(self._is_limited(one) for one in self._scopes(task, None))
            self._world.counts["begun unheard of a limit"] += limited
        if destination is not None:
            breaker = self._breaker(destination)
            is_other = breaker.is_open and breaker.probe != run_id
            self._world.counts["calls let go before it opened"] += is_other

    def finish(self, executed: Executed, note: RunNote, finish: FinishAttempt) -> None:
        """What a worker says of whom it has called is what was seen there."""
        seen = self._work.observer.executions.get((note.id, note.fence))
        # What was said after it had been settled, while the end was on its way, is no word of its.
        word = None if seen is None or seen.is_given_up else seen.word
        state = finish.conclusion.attempt_state
        is_calling = self._destination(note.task) is not None
        if finish.is_answered is True and (word != "succeeded" or not is_calling):
            raise Violation("B2: a call that was not answered counts as answered")
        if finish.is_answered is False and word == "succeeded":
            raise Violation("B2: a call that was answered counts as failed")
        if word == "Unreachable" and state is AttemptState.FAILED and finish.is_answered is None:
            raise Violation("B2: a call that failed does not count")
        self._answers[note.id] = finish.is_answered

    def end(self, executed: Executed, note: RunNote, conclusion: Conclusion) -> None:
        """Whoever ends gives back all that it held, and tells how its destination did."""
        is_answered = self._answers.pop(note.id, None)
        places = self._leave(note.id)
        is_lost = conclusion.attempt_state is AttemptState.LOST
        self._world.counts["places of the lost"] += is_lost and any(map(self._running, places))
        for place in places:
            kind, _, name = place.partition(":")
            if kind != "destination":
                continue
            breaker = self._breaker(name)
            self._world.counts["probes lost"] += is_lost and breaker.probe == note.id
            self._told[name].append((note.id, is_answered))
        if isinstance(conclusion.next, RetryLater) and conclusion.attempt_state in TRIED:
            self._see_backoff(note, conclusion)

    def _take_in(self, now: int) -> None:
        """Judge destinations by all that was told at once."""
        for name, ends in self._told.items():
            self._world.counts.update(self._breaker(name).take_in(ends, now))
        self._told.clear()

    def _see_backoff(self, note: RunNote, conclusion: Conclusion) -> None:
        """A wait lies below the doubling bound of its policy."""
        assert isinstance(conclusion.next, RetryLater)
        if conclusion.reason is Reason.ASKED:
            return
        retry = self._work.policy(note.task).retry
        bound_us = min(retry.cap_us, retry.base_us * 2**note.charged)
        if not 0 <= conclusion.next.delay_us <= bound_us:
            raise Violation("INV-23: a run waits longer than its policy says")
        self._shares.append(conclusion.next.delay_us / bound_us)
        self._world.counts["backoffs"] += 1

    # Who is let go

    def look(self, now: int) -> None:
        """Notice who was let go from where it stood, and who has left without an end."""
        self._take_in(now)
        runs = self._work.runs
        for holders in self._held.values():
            for run_id, fence in list(holders.items()):
                state = runs[run_id].state
                is_let_go = fence == LET_GO and state is RunState.QUEUED
                if state is not RunState.RUNNING and not is_let_go:
                    del holders[run_id]
        blocked = self._world.store.tables.blocked
        for run_id, place in list(self._standing.items()):
            note = runs[run_id]
            if run_id in blocked and note.state is RunState.BLOCKED:
                continue
            del self._standing[run_id]
            if note.state is not RunState.BLOCKED:
                continue
            most = self._running(place)
            if most is not None and len(self._held[place]) >= most:
                raise Violation(f"INV-23: one more was let go at {place} than the {most} that may")
            self._held[place][run_id] = LET_GO
            note.queue_again(now)
            self._world.counts["let go at a cap"] += 1
        self._see_free(now)

    def _see_free(self, now: int) -> None:
        """Nobody stands for long where there is a place."""
        free = {
            place
            for place in set(self._standing.values())
            if len(self._held[place]) < (self._running(place) or len(self._held[place]) + 1)
        }
        self._free_since = {place: self._free_since.get(place, now) for place in free}
        is_calm = self._world.weather.is_calm
        for place, since in self._free_since.items():
            calm_at = self._world.recipe.start_at + self._world.recipe.seconds * SECOND
            if is_calm and now - max(since, calm_at) > STANDS_OLD_US:
                raise Violation(f"INV-23: a place at {place} stays free, and somebody stands there")

    # In the end

    def reckon(self, runs: list[RunRecord]) -> None:
        """All that was asked for before the quiet is over; waits differ (INV-23, INV-26)."""
        calm_at = self._world.recipe.start_at + self._world.recipe.seconds * SECOND
        for run in runs:
            task = self._tasks.get(run.call.task)
            # What has to keep to a slow rate may go on for longer.
            is_bound = task is not None and task.limits.limit.rate is None
            # One that was let go into a queue that is paused since then keeps the place it stood for.
            is_bound = is_bound and run.call.queue not in self._work.paused
            is_bound = is_bound and not (run.state is RunState.BLOCKED and self._work.paused)
            if is_bound and run.created_at < calm_at and run.state in UNFINISHED:
                raise Violation(f"INV-26: a run is {run.state} after the quiet")
        shares = self._shares
        if len(shares) >= BACKOFFS_MIN and max(shares) - min(shares) < SPREAD_MIN:
            raise Violation("INV-23: all waits after a failure are alike")
        tables = self._world.store.tables
        kept = {(place, run_id) for run_id, place in tables.held_places}
        held = {(place, run_id) for place, holders in self._held.items() for run_id in holders}
        if kept != held:
            raise Violation(f"INV-23: places are held otherwise than was told: {kept ^ held}")
        for name, breaker in self._breakers.items():
            stored = tables.breakers.get(name)
            is_open = stored is not None and stored[0].state != "closed"
            if is_open != breaker.is_open:
                raise Violation(f"INV-23: {name} is kept as {stored and stored[0].state}")

    # What a run falls under

    def _destination(self, task: str) -> str | None:
        """Return whom a task calls; None also for one that nobody has the code of."""
        known = self._tasks.get(task)
        return None if known is None else known.limits.destination

    def _scopes(self, task: str, destination: str | None) -> list[str]:
        scopes = [f"task:{task}", f"tenant:{TENANT}"]
        return scopes if destination is None else [*scopes, f"destination:{destination}"]

    def _caps(self, request: Request) -> dict[str, int]:
        scopes = self._scopes(request.task, request.destination)
        caps = {one: most for one in scopes if (most := self._table.running(one)) is not None}
        by = self._table.running_by(scopes[0])
        for name, value in request.keys:
            if name in by:
                place = keyed_place(request.task, TENANT, name, value)
                self._keyed[place] = (request.task, name)
                caps[place] = by[name]
        return caps

    def _rates_of(self, request: Request) -> list[str]:
        scopes = self._scopes(request.task, request.destination)
        return [one for one in scopes if one in self._rates]

    def _running(self, place: str) -> int | None:
        """Return how many may be at a place."""
        if not place.startswith("key:"):
            return self._table.running(place)
        task, name = self._keyed[place]
        return self._table.running_by(f"task:{task}").get(name)

    def _is_limited(self, place: str) -> bool:
        return self._table.running(place) is not None or place in self._rates

    def _breaker(self, name: str) -> BreakerNote:
        return self._breakers.setdefault(name, BreakerNote(name))

    def _probe_us(self, note: RunNote, now: int) -> int:
        timeout_us = self._work.policy(note.task).timeout_us
        assert timeout_us is not None, "every task of a world has one"
        return note.claimed_at + timeout_us - now

    def _leave(self, run_id: RunId) -> list[str]:
        places = [place for place, holders in self._held.items() if run_id in holders]
        for place in places:
            del self._held[place][run_id]
        return places
