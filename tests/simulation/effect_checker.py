"""The checker of effects: holds permissions, ends and decisions against a ledger of its own.

It is written from commands and answers, as the other ledgers are, and from what was seen outside.
What it says of doubt follows SPEC E2 and E3 word by word and shares nothing with shipped decisions.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from duly.domain.effects import Choice, EffectState, Grant
from duly.domain.enums import AttemptState, Effects, Finding, RunState
from duly.domain.outcomes import Close, MarkAmbiguous
from duly.domain.runs import Reason
from tests.simulation.effecting import WHOLE
from tests.simulation.work_ledger import RunNote
from tests.simulation.world import Violation

if TYPE_CHECKING:
    from duly.domain.ids import RunId
    from duly.domain.outcomes import Conclusion
    from duly.domain.runs import RunRecord
    from duly.store.ports.effects import (
        AddVerdict,
        BeginEffect,
        EndEffect,
        Rerun,
        ResolveAmbiguousRun,
    )
    from duly.store.ports.execution import ClaimRef
    from tests.simulation.effecting import Outside
    from tests.simulation.work_checker import WorkChecker
    from tests.simulation.world import Executed

EFFECTS_MAX = 100
SPOKEN = frozenset((Reason.SNOOZED, Reason.ASKED, Reason.GAVE_UP))
"""Ends by which the code itself says what becomes of its run."""
TO_END = frozenset((RunState.BLOCKED, RunState.QUEUED, RunState.RUNNING, RunState.RETRYING))
OPEN = TO_END | {RunState.AMBIGUOUS}


@dataclass(eq=False, slots=True)
class Entry:
    """What is known of one effect."""

    state: EffectState
    hold: ClaimRef
    """Of the claim that was last permitted to do it."""
    tries: int = 1


class EffectChecker:
    """Sees every executed call about effects and doubt; one method for each operation."""

    def __init__(self, work: WorkChecker, outside: Outside) -> None:
        self._work = work
        self._outside = outside
        self._entries: dict[tuple[RunId, str], Entry] = {}
        """By the first run of a line, and key."""
        self._granted: set[tuple[RunId, int]] = set()
        self._permissions: Counter[tuple[RunId, str]] = Counter()
        self._allowed: Counter[tuple[RunId, str]] = Counter()
        """How often somebody who may has said that an effect was not done."""
        self._begun_anew: Counter[RunId] = Counter()
        """How often code has asked to be run once more after its effects had begun."""
        self._finishing: dict[object, Executed] = {}
        """By transaction that is open: the end of a run in it."""

    # Permissions

    def begin_effect(self, executed: Executed) -> None:
        """Who holds the run is permitted, durably, what may be done once more."""
        command: BeginEffect = executed.call.arguments[0]
        hold, grant = command.hold, executed.result.grant
        note = self._work.runs[hold.run_id]
        is_held = note.is_held(command.worker, hold.fence)
        if (grant is Grant.GONE) == is_held:
            raise Violation("INV-5: a stale permission was given, or a good one refused")
        self._work.counts[f"permission: {grant}"] += 1
        if command.key is not None:
            self._see_entry(command, grant)
        if grant is not Grant.GRANTED:
            return
        if note.is_cancel_asked:
            raise Violation("E2: an effect was permitted to a run that is to stop")
        self._granted.add((hold.run_id, hold.fence))
        self._outside.lines[hold.run_id] = note.line
        self._outside.permitted.add((hold.run_id, hold.fence, command.key or WHOLE))

    def _see_entry(self, command: BeginEffect, grant: Grant) -> None:
        assert command.key is not None
        hold = command.hold
        place = (self._work.runs[hold.run_id].line, command.key)
        known = self._entries.get(place)
        is_own = known is not None and (known.state, known.hold) == (EffectState.INTENDED, hold)
        is_done = known is not None and known.state is EffectState.DONE
        if (grant is Grant.DONE) != (is_done and grant is not Grant.GONE):
            raise Violation("E3: whether an effect is done was answered wrongly")
        is_unsafe = command.effects is Effects.UNSAFE
        if grant is Grant.UNKNOWN and (known is None or is_own or not is_unsafe):
            raise Violation("E3: an effect that may be begun was refused as unknown")
        if grant is not Grant.GRANTED or is_own:
            return
        if known is not None and is_unsafe:
            raise Violation("INV-11: an unsafe effect was permitted again, and nobody knows of it")
        tries = 1 if known is None else known.tries + 1
        self._entries[place] = Entry(EffectState.INTENDED, hold, tries)
        self._permissions[place] += 1

    def end_effect(self, executed: Executed) -> None:
        """Only who intends an effect can say what became of it."""
        command: EndEffect = executed.call.arguments[0]
        hold, note = command.hold, self._work.runs[command.hold.run_id]
        place = (note.line, command.key)
        known = self._entries.get(place)
        is_held = note.is_held(command.worker, hold.fence)
        if executed.result and not is_held:
            raise Violation("INV-5: a stale word about an effect was taken")
        if not executed.result:
            self._work.counts["words about effects refused"] += 1
            if is_held and known is not None and known.hold == hold:
                raise Violation("E3: the word about an effect of its own claim was refused")
            return
        if known is None or known.state is EffectState.DONE:
            return
        if command.is_done:
            known.state = EffectState.DONE
        elif known.tries > 1:
            known.state = EffectState.UNKNOWN
        else:
            del self._entries[place]
            self._allowed[place] += 1
            self._work.counts["effects withdrawn"] += 1

    # Ends of claims

    def end(self, note: RunNote, conclusion: Conclusion) -> None:
        """Whoever ends unheard beyond his boundary leaves doubt, and nobody else (INV-11)."""
        claim = (note.id, note.fence)
        is_doubt = isinstance(conclusion.next, MarkAmbiguous)
        is_unsafe = self._work.policy(note.task).effects is Effects.UNSAFE
        is_over = isinstance(conclusion.next, Close) and self._has_spoken(note, conclusion)
        if is_unsafe and self._is_beyond(note, conclusion) and not is_doubt and not is_over:
            if not self._has_spoken(note, conclusion):
                raise Violation("INV-11: a run whose effects had begun goes on by itself")
            self._begun_anew[note.id] += 1
        may_doubt = claim in self._granted or claim in self._outside.asked
        if is_doubt and not (is_unsafe and may_doubt):
            raise Violation("INV-11: a run is in doubt that has begun nothing")
        for entry in self._entries.values():
            if entry.state is EffectState.INTENDED and entry.hold == claim:
                entry.state = EffectState.UNKNOWN
                self._work.counts["effects unknown"] += 1

    def _is_beyond(self, note: RunNote, conclusion: Conclusion) -> bool:
        """Say whether an effect may be under way: its code began one, or is lost and was let."""
        claim = (note.id, note.fence)
        is_lost = conclusion.attempt_state is AttemptState.LOST
        return claim in self._outside.entered or (is_lost and claim in self._granted)

    def _has_spoken(self, note: RunNote, conclusion: Conclusion) -> bool:
        if conclusion.attempt_state is AttemptState.SUCCEEDED or conclusion.reason in SPOKEN:
            return True
        seen = self._work.observer.executions.get((note.id, note.fence))
        is_undone = seen is not None and seen.word == "EffectNotDone"
        return is_undone and conclusion.attempt_state is AttemptState.FAILED

    # Transactions of tasks

    def finish_within(self, executed: Executed) -> None:
        """The end of a run waits for the commit of what was written with it."""
        self._finishing[executed.call.arguments[0]] = executed

    def commit(self, executed: Executed, *, is_done: bool) -> None:
        """Rows of a task and its run's success are there together, or neither is."""
        within = executed.call.arguments[0].transaction
        finishing = self._finishing.pop(within, None)
        run_id = self._outside.written.pop(within, None)
        if not is_done:
            self._work.counts["commits refused"] += finishing is not None
            return
        if run_id is None:
            return
        self._outside.rows[run_id] += 1
        if finishing is None:
            raise Violation("E4: a task's rows were committed without its run's end")
        _, worker, finish = finishing.call.arguments
        note = self._work.runs[run_id]
        if not note.is_held(worker, finish.hold.fence):
            raise Violation("INV-5: a task's rows were committed by a stale claim")
        self._work.counts["commits with rows"] += 1
        self._work.end_claim(executed, note, finish.conclusion)
        self._work.follow(executed, note, finish)

    # What people and checks decide

    def settle_doubt(self, executed: Executed) -> None:
        """Only what is in doubt is settled, and goes where the person says."""
        command: ResolveAmbiguousRun = executed.call.arguments[0]
        note = self._doubtful(command.id, "settled")
        if command.doubt != note.fence:
            raise Violation("INV-11: a doubt was settled by what was known of an earlier one")
        self._work.counts[f"settled: {command.choice}"] += 1
        if command.choice in (Choice.RETRY, Choice.RESUME):
            if command.choice is Choice.RETRY:
                note.checkpoints.clear()
            self._take_as(note.line, dict(command.effects), otherwise=False)
            note.begin_anew(executed.at)
            return
        done = RunState.SUCCEEDED if command.is_done else RunState.FAILED
        note.state = done if command.choice is Choice.RECONCILE else RunState.SKIPPED
        if command.choice is Choice.RECONCILE:
            otherwise = True if command.is_done else None
            self._take_as(note.line, dict(command.effects), otherwise=otherwise)
        self._close(note, executed.at)

    def add_verdict(self, executed: Executed) -> None:
        """What a check finds settles the doubt that it answers."""
        command: AddVerdict = executed.call.arguments[0]
        note = self._work.runs[command.run_id]
        if note.state is not RunState.AMBIGUOUS:
            return
        if command.doubt != note.fence:
            self._work.counts["found out too late"] += 1
            return
        self._work.counts[f"found: {command.finding}"] += 1
        if command.finding is Finding.PRESENT:
            note.state = RunState.SUCCEEDED
            self._take_as(note.line, {}, otherwise=True)
            self._close(note, executed.at)
        elif command.finding is Finding.ABSENT:
            self._take_as(note.line, {}, otherwise=False)
            note.begin_anew(executed.at)

    def rerun_run(self, executed: Executed) -> None:
        """What is over is run once more as another run, which says of which it is (INV-6)."""
        command: Rerun = executed.call.arguments[0]
        made: RunRecord = executed.result
        if command.new_id in self._work.runs:
            self._work.counts["reruns asked again"] += 1
            return
        old = self._work.runs.get(command.id, RunNote(command.id, state=RunState.CANCELLED))
        if old.state in TO_END or (old.state is RunState.AMBIGUOUS and not command.is_repair):
            raise Violation(f"INV-6: a run that is {old.state} was run beside itself")
        if command.is_repair:
            self._see_repair(old)
            self._take_as(old.line, dict(command.effects), otherwise=None)
        if old.state is RunState.AMBIGUOUS:
            old.state = RunState.FAILED
            self._close(old, executed.at)
        note = RunNote(command.new_id, made.call.task, made.call.queue, queued_at=executed.at)
        note.first = old.line if command.is_repair else None
        if (made.id, made.root) != (note.id, note.first or made.root):
            raise Violation("INV-7: a repair does not say what it repairs")
        self._work.order(note, executed.at)
        self._work.counts["repairs" if command.is_repair else "reruns"] += 1

    def _see_repair(self, old: RunNote) -> None:
        others = (one for one in self._work.runs.values() if one is not old)
        if any(one.line == old.line and one.state in OPEN for one in others):
            raise Violation("E3: a run was repaired beside another one of its line that is open")

    def _doubtful(self, run_id: RunId, what: str) -> RunNote:
        note = self._work.runs[run_id]
        if note.state is not RunState.AMBIGUOUS:
            raise Violation(f"INV-6: a run that is {note.state} was {what}")
        return note

    def _close(self, note: RunNote, now: int) -> None:
        if self._work.gates is not None:
            self._work.gates.give_back(note, now)

    def _take_as(self, line: RunId, known: dict[str, bool], *, otherwise: bool | None) -> None:
        """Take unknown effects as they are named, and others as said; None leaves them unknown."""
        for place, entry in list(self._entries.items()):
            if place[0] != line or entry.state is not EffectState.UNKNOWN:
                continue
            is_done = known.get(place[1], otherwise)
            if is_done:
                entry.state = EffectState.DONE
            elif is_done is not None:
                del self._entries[place]
                self._allowed[place] += 1

    # In the end

    def reckon(self, store: Any) -> None:
        """Doubt and effects are as the ledger and the outside say (INV-11: count = count)."""
        notes = self._work.runs
        doubts = {one.run.id for one in store.list_doubts(None, 10_000)}
        expected = {one.id for one in notes.values() if one.state is RunState.AMBIGUOUS}
        if doubts != expected:
            raise Violation(f"INV-11: {len(doubts)} runs are in doubt, not {len(expected)}")
        by_line: dict[RunId, dict[str, EffectState]] = {}
        for (line, key), entry in self._entries.items():
            by_line.setdefault(line, {})[key] = entry.state
        seen = self._seen_by_line()
        lines = {line for line, _ in (*self._entries, *seen)}
        for note in notes.values():
            if note.line in lines:
                expects = by_line.get(note.line, {})
                kept = {one.key: one.state for one in store.list_effects(note.id, EFFECTS_MAX)}
                if kept != expects:
                    raise Violation(f"E3: effects are kept as {kept}, not {expects}")
        for (line, key), count in seen.items():
            self._reckon_seen(line, key, count)
        for note in notes.values():
            self._reckon_rows(note)

    def _reckon_rows(self, note: RunNote) -> None:
        """A task that commits with its run has one row for a success, and else none."""
        if self._work.policy(note.task).effects is not Effects.TRANSACTIONAL:
            return
        expected = int(note.state is RunState.SUCCEEDED)
        if self._outside.rows[note.id] != expected:
            raise Violation(
                f"E4: a run that is {note.state} has {self._outside.rows[note.id]} rows"
            )

    def _seen_by_line(self) -> Counter[tuple[RunId, str]]:
        seen: Counter[tuple[RunId, str]] = Counter()
        for (run_id, key), by_fence in self._outside.took_place.items():
            seen[self._work.runs[run_id].line, key] += by_fence.total()
        return seen

    def _reckon_seen(self, line: RunId, key: str, count: int) -> None:
        """What took place was permitted, is on record, and was not repeated by itself."""
        runs = [one for one in self._work.runs.values() if one.line == line]
        place = (line, key)
        is_unsafe = self._work.policy(runs[0].task).effects is Effects.UNSAFE
        if key == WHOLE:
            # A person who has it repaired, where nothing has a name, has all of it done again.
            most = sum(1 + one.retried + self._begun_anew[one.id] for one in runs)
        else:
            most = self._permissions[place]
            if place not in self._entries and not self._allowed[place]:
                raise Violation("E3: an effect took place, and nothing is on record of it")
            if is_unsafe and most > 1 + self._allowed[place]:
                raise Violation("INV-11: an unsafe effect was permitted again by itself")
        if is_unsafe and count > most:
            raise Violation(f"INV-11: an unsafe effect took place {count} times")
