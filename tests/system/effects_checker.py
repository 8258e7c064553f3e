"""The checker of effects: a pure function from evidence to violations (INV-6, INV-7, INV-11, E2-E4).

It compares witnesses that know nothing of each other: the bank's book, what tasks' code wrote down,
and the store's records. Whether a run must be in doubt is worked out from the outside alone: from
what its code was permitted and said, and where harm came to it. Only where nobody outside can know
(its worker died while the permission was on the way) the store's own note is taken, and counted.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tests.system.bank import PAID, RECOGNISED
from tests.system.effects_harm import ANSWERED, KILL, STOP
from tests.system.effects_tasks import ASKED, GRANTED, NOT_DONE, RECORDED, WHOLE
from tests.system.work_checker import work_violations
from tests.system.work_evidence import END

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.system.effects_evidence import Decision, Doubt, EffectsEvidence
    from tests.system.work_evidence import Attempt, Fate, Mark, WorkEvidence

UNSAFE, TRANSACTIONAL, PURE = "unsafe", "transactional", "pure"
HAPPENED = frozenset({PAID, RECOGNISED})
ENDS = frozenset({"succeeded", "failed", "cancelled", "skipped", "dead"})
"""From here nothing leads on; from being in doubt a decision does."""
EFFECT_UNKNOWN = "effect-unknown"


def effects_violations(evidence: EffectsEvidence) -> list[str]:
    """Return what must never happen and did, in words; nothing, if all is well."""
    found = work_violations(_sighted(evidence))
    for case in _cases(evidence).values():
        found += case.violations()
    found += _paid_twice(evidence)
    found += _against_the_ledger(evidence)
    found += _repeated_though_recorded(evidence)
    found += _rows(evidence)
    return [*found, *_reopened(evidence)]


def _sighted(evidence: EffectsEvidence) -> WorkEvidence:
    """Return the runs whose code knows which run it is: only they leave marks of their starts."""
    work, blind = evidence.work, set(evidence.names.values())
    return replace(
        work,
        fates=[one for one in work.fates if one.run not in blind],
        attempts=[one for one in work.attempts if one.run not in blind],
        told=[one for one in work.told if one.run not in blind],
    )


def count_doubts(evidence: EffectsEvidence) -> tuple[int, int]:
    """Return how many attempts must have left doubt, and of how many only the store can know."""
    cases = _cases(evidence).values()
    expected = [one for case in cases for one in case.doubtful()]
    alone = sum(case.is_unwitnessed(one) for case in cases for one in case.doubtful())
    return len(expected), alone


@dataclass
class _Case:
    """One run of an unsafe task, and all that is known of it."""

    fate: Fate
    evidence: EffectsEvidence
    attempts: list[Attempt] = field(default_factory=list)
    marks: dict[int, list[Mark]] = field(default_factory=lambda: defaultdict(list))
    doubts: list[Doubt] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)

    def violations(self) -> Iterable[str]:
        """Judge it."""
        told = Counter(one.fence for one in self.doubts)
        expected = Counter(one.fence for one in self.doubtful())
        for fence in sorted(told.keys() | expected.keys()):
            if told[fence] < expected[fence]:
                yield f"not in doubt: {self._name}, claim {fence} ended unheard after its effects"
            elif told[fence] > expected[fence]:
                yield f"needless doubt: {self._name}, claim {fence} had begun nothing"
        yield from self._tried_again()
        is_open = self.fate.state == "ambiguous"
        if len(self.doubts) != len(self.decisions) + is_open:
            counts = f"{len(self.doubts)} doubts and {len(self.decisions)} decisions"
            yield f"left doubt by itself: {self._name} is {self.fate.state} after {counts}"

    def doubtful(self) -> list[Attempt]:
        """Return the attempts that must have left their run in doubt."""
        return [one for one in self.attempts if self._leaves_doubt(one)]

    def _leaves_doubt(self, attempt: Attempt) -> bool:
        if attempt.reason == EFFECT_UNKNOWN:
            return True
        if attempt.state in {"succeeded", "running"}:
            return False
        if attempt.state == "failed" and self._said(attempt) == NOT_DONE:
            return False
        if self._was_permitted(attempt):
            return True
        return self.is_unwitnessed(attempt)

    def _said(self, attempt: Attempt) -> str | None:
        said = [one.said for one in self.marks[attempt.fence] if one.kind == END]
        return said[-1] if said else None

    def _was_permitted(self, attempt: Attempt) -> bool:
        """Say whether the outside knows that it was."""
        return any(
            one.kind == GRANTED or (one.kind in {KILL, STOP} and one.said == ANSWERED)
            for one in self.marks[attempt.fence]
        )

    def is_unwitnessed(self, attempt: Attempt) -> bool:
        """Say whether it asked, nobody outside knows the answer, and the store says it was let."""
        has_asked = any(one.kind == ASKED for one in self.marks[attempt.fence])
        is_noted = self.evidence.begun.get((self.fate.run, attempt.fence)) is not None
        may_have_asked = has_asked or self._is_blind
        return may_have_asked and is_noted and not self._was_permitted(attempt)

    @property
    def _is_blind(self) -> bool:
        return self.fate.run in self.evidence.names.values()

    def _tried_again(self) -> Iterable[str]:
        for doubt in self.doubts:
            for attempt in self.attempts:
                if attempt.fence <= doubt.fence:
                    continue
                if not any(
                    one.goes_on and doubt.at <= one.at <= attempt.claimed_at
                    for one in self.decisions
                ):
                    yield f"tried again: {self._name}, claim {attempt.fence} came after doubt"

    @property
    def _name(self) -> str:
        return f"{self.fate.task} {self.fate.run}"


def _cases(evidence: EffectsEvidence) -> dict[str, _Case]:
    """Return the runs that may not be repeated."""
    cases = {
        fate.run: _Case(fate, evidence)
        for fate in evidence.work.fates
        if evidence.classes[fate.task] == UNSAFE
    }
    for attempt in sorted(evidence.work.attempts, key=lambda one: one.fence):
        if attempt.run in cases:
            cases[attempt.run].attempts.append(attempt)
    for mark in evidence.marks:
        if mark.run in cases:
            cases[mark.run].marks[mark.fence].append(mark)
    for doubt in evidence.doubts:
        if doubt.run in cases:
            cases[doubt.run].doubts.append(doubt)
    for decision in evidence.decisions:
        if decision.run in cases:
            cases[decision.run].decisions.append(decision)
    return cases


def _tasks(evidence: EffectsEvidence) -> dict[str, str]:
    return {fate.run: fate.task for fate in evidence.work.fates}


def _paid_twice(evidence: EffectsEvidence) -> Iterable[str]:
    """Find what happened though nobody had permitted it, or more often than it was."""
    tasks = _tasks(evidence)
    times: Counter[tuple[str, str]] = Counter()
    for entry in evidence.book:
        run = evidence.names.get(entry.line, entry.run)
        effects = evidence.classes.get(tasks.get(run, ""), "")
        if not effects:
            yield f"stranger: {entry.line} {entry.key} was paid for a run that is not there"
        elif effects == PURE:
            yield f"contradiction: {run} is pure, and was paid"
        if effects != UNSAFE or entry.kind not in HAPPENED:
            continue
        times[entry.line, entry.key] += 1
        # One that is blind does not know its fence: any of its run's must have been permitted.
        is_blind = entry.line in evidence.names
        held = (hold for hold in evidence.begun if hold[0] == run) if is_blind else ()
        begun = [evidence.begun.get(hold) for hold in (*held, (run, entry.fence))]
        if not any(at is not None and at <= entry.at for at in begun):
            yield f"unpermitted: {tasks[run]} {run}, claim {entry.fence} was paid {entry.key}"
    for (line, key), count in times.items():
        if count > 1:
            yield f"twice: {line} was paid {key} {count} times"


def _against_the_ledger(evidence: EffectsEvidence) -> Iterable[str]:
    """Compare what the store knows of each effect with the bank's book."""
    happened = {(one.line, one.key) for one in evidence.book if one.kind in HAPPENED}
    roots = {line.replace("-", ""): line for line, _ in happened}
    kept = {(roots.get(root, root), key): state for (root, key), state in evidence.ledger.items()}
    for (line, key), state in kept.items():
        if state == "done" and (line, key) not in happened:
            yield f"invented: {line} {key} is on record as done, and the bank knows nothing of it"
    tasks = _tasks(evidence)
    keyed = {task for task, effects in evidence.classes.items() if effects == UNSAFE}
    for entry in evidence.book:
        is_keyed = tasks.get(entry.run) in keyed and entry.key != WHOLE
        if is_keyed and entry.kind in HAPPENED and (entry.line, entry.key) not in kept:
            yield f"forgotten: {entry.line} {entry.key} was paid, and is not on record"
        root = evidence.roots.get(entry.run)
        if root is not None and entry.line.replace("-", "") != root:
            yield f"unrecognisable: {entry.run} was paid under {entry.line}, not under {root}"


def _repeated_though_recorded(evidence: EffectsEvidence) -> Iterable[str]:
    """Find effects that were begun again though they were on record as done."""
    recorded: dict[tuple[str, str], set[tuple[str, int]]] = defaultdict(set)
    for mark in evidence.marks:
        if mark.kind == RECORDED:
            recorded[evidence.roots.get(mark.run, mark.run), mark.said].add((mark.run, mark.fence))
    for entry in evidence.book:
        root = evidence.roots.get(entry.run, entry.run)
        for run, fence in recorded.get((root, entry.key), ()):
            is_later = entry.fence > fence if entry.run == run else run == root
            if is_later:
                yield f"repeated: {entry.run} {entry.key} was on record, and was asked for again"


def _rows(evidence: EffectsEvidence) -> Iterable[str]:
    """A task that commits with its run has one row for a success, and else none."""
    for fate in evidence.work.fates:
        if evidence.classes[fate.task] == TRANSACTIONAL:
            count, expected = evidence.rows[fate.run], int(fate.state == "succeeded")
            if count != expected:
                yield f"rows: {fate.task} {fate.run} is {fate.state}, and has {count} rows"


def _reopened(evidence: EffectsEvidence) -> Iterable[str]:
    """Find runs that were over and are no longer (INV-6)."""
    last: dict[str, str] = {}
    for run, state in evidence.seen:
        before = last.get(run)
        if before in ENDS and before != state:
            yield f"reopened: {run} was {before}, and then {state}"
        last[run] = state
