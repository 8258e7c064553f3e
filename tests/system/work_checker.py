"""The checker of workers: a pure function from evidence to violations, as the other one is.

It compares three witnesses that know nothing of each other: the lines that tasks' code wrote, the
store's records of attempts, and what workers were answered.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.system.work_evidence import DONE, START

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tests.system.work_evidence import Attempt, Fate, Mark, Told, WorkEvidence

OVER = frozenset({"succeeded", "failed", "cancelled", "dead"})
GIVEN_BACK = "given-back"
TAKEN = frozenset({"lost", "timed-out"})
"""Attempts that others have ended: their code may go on, and nobody listens."""
TOLD_ENDS = frozenset({"run-succeeded", "run-failed", "run-cancelled", "attempt-failed"})
REFUSED = "completion-refused"
OUTAGE_US = 15_000_000
"""For so long after an outage a lease may have run out because of it."""


def work_violations(evidence: WorkEvidence) -> list[str]:
    """Return what must never happen and did, in words; nothing, if all is well."""
    cases = _cases(evidence)
    found = [f"unsound: {one}" for one in evidence.findings]
    found += [f"stranger: {one.run} was started, and is not there" for one in _strange(evidence)]
    for case in cases.values():
        found += case.violations()
    return [*found, *_evicted(evidence), *_charged_for_leaving(evidence)]


def count_overlaps(evidence: WorkEvidence) -> int:
    """Return how often two attempts of one run were executed at the same time."""
    return sum(1 for case in _cases(evidence).values() for _ in case.overlaps())


@dataclass
class _Case:
    """One run: what its code wrote, what the store recorded, what workers were told."""

    fate: Fate
    evidence: WorkEvidence
    starts: list[Mark] = field(default_factory=list)
    ends: dict[int, Mark] = field(default_factory=dict)
    attempts: list[Attempt] = field(default_factory=list)
    """In the order of their fences."""
    told: list[Told] = field(default_factory=list)
    refused: list[int] = field(default_factory=list)

    def violations(self) -> Iterable[str]:
        """Judge it."""
        yield from self._lost()
        yield from self._unrecorded()
        yield from self._misnumbered()
        yield from self._beyond_budget()
        yield from self._early()
        yield from self._at_once()
        yield from self._done_by_nobody()
        yield from self._against_what_was_told()

    def _lost(self) -> Iterable[str]:
        fate = self.fate
        may_doubt = fate.state == "ambiguous" and fate.task in self.evidence.doubtful
        if fate.state not in OVER and not may_doubt and fate.run not in self.evidence.decided:
            yield f"unsettled: {self._name} is {fate.state}, long after everything was quiet"
        if fate.state == "dead" and not fate.reason:
            yield f"unsettled: {self._name} is dead without a cause"
        if fate.places != 1:
            yield f"twice: {self._name} is in {fate.places} places"
        for attempt in self.attempts:
            if attempt.ended_at is None:
                yield f"unsettled: {self._name}, claim {attempt.fence} has not ended"

    def _unrecorded(self) -> Iterable[str]:
        records = Counter(one.fence for one in self.attempts)
        for fence, count in records.items():
            if count > 1:
                yield f"twice: {self._name} has {count} records of claim {fence}"
        numbers = {one.fence: one.number for one in self.attempts}
        for fence, count in Counter(one.fence for one in self.starts).items():
            if count > 1:
                yield f"twice: {self._name} was started {count} times as claim {fence}"
        for start in self.starts:
            if start.fence not in numbers:
                yield f"unrecorded: {self._name}, a start as claim {start.fence}"
            elif numbers[start.fence] != start.attempt:
                said, kept = start.attempt, numbers[start.fence]
                yield f"misnumbered: {self._name} was started as attempt {said}, recorded as {kept}"

    def _misnumbered(self) -> Iterable[str]:
        numbers = [one.number for one in self.attempts if one.number is not None]
        if numbers != list(range(1, len(numbers) + 1)):
            yield f"misnumbered: {self._name} has attempts {numbers}"

    def _beyond_budget(self) -> Iterable[str]:
        if self.fate.run in self.evidence.decided:
            return
        budget, charged = self.evidence.budgets[self.fate.task], len(self._charged())
        if charged > budget:
            yield f"beyond its budget: {self._name} has {charged} charged attempts of {budget}"
        if self.fate.charged != charged:
            told = self.fate.charged
            yield f"mischarged: {self._name} is charged {told} attempts for {charged}"
        if self.fate.state == "dead" and self.fate.reason == "budget" and charged < budget:
            yield f"mischarged: {self._name} died of its budget after {charged} of {budget}"
        free = sum(one.state == GIVEN_BACK and one.number is not None for one in self.attempts)
        if len(self.starts) - free > budget:
            yield f"beyond its budget: {self._name} was started {len(self.starts)} times"

    def _early(self) -> Iterable[str]:
        for start in self.starts:
            if start.at < self.fate.due_at:
                early_us = self.fate.due_at - start.at
                yield f"early: {self._name} was started {early_us} µs before it was due"
        starts = {one.fence: one.at for one in self.starts}
        for ended, following in zip(self.attempts, self.attempts[1:], strict=False):
            if ended.ended_at is None:
                continue
            due_at = max(ended.ended_at + self._wait_us(ended), self._asked_until(ended))
            if min(following.claimed_at, starts.get(following.fence, due_at)) < due_at:
                yield f"early: {self._name}, claim {following.fence} came before its wait was over"

    def _wait_us(self, ended: Attempt) -> int:
        """Return how long the run waits after an attempt, by what its code asked or its backoff."""
        end = self.ends.get(ended.fence)
        if end is not None and end.wait_us and ended.state not in TAKEN:
            return end.wait_us
        if ended.state == GIVEN_BACK:
            return 0
        number = sum(one.fence <= ended.fence for one in self._charged())
        return self.evidence.waits.get((self.fate.run, number), 0)

    def _asked_until(self, ended: Attempt) -> int:
        """Return until when its code asked to be left alone, by its own clock."""
        end = self.ends.get(ended.fence)
        has_listener = end is not None and ended.state not in TAKEN
        return end.at + end.wait_us if has_listener and end is not None else 0

    def _at_once(self) -> Iterable[str]:
        states = {one.fence: one.state for one in self.attempts}
        for earlier, later in self.overlaps():
            state = states.get(earlier.fence)
            if state not in TAKEN:
                both = f"claims {earlier.fence} and {later.fence}"
                yield f"at once: {self._name}, {both}, and the first is recorded as {state}"

    def overlaps(self) -> Iterable[tuple[Mark, Mark]]:
        """Return pairs of attempts that were executed at the same time, the earlier claim first.

        Also an earlier claim that began after a later one: it should not have begun any more.
        """
        ordered = sorted(self.starts, key=lambda start: start.fence)
        for place, earlier in enumerate(ordered):
            end = self.ends.get(earlier.fence)
            last = earlier.at if end is None else max(earlier.at, end.at)
            for later in ordered[place + 1 :]:
                if last > later.at:
                    yield earlier, later

    def _done_by_nobody(self) -> Iterable[str]:
        done = [one for one in self.attempts if one.state == "succeeded"]
        if len(done) > 1:
            yield f"twice: {self._name} has succeeded {len(done)} times"
        is_decided = self.fate.run in self.evidence.decided
        if (self.fate.state == "succeeded") != bool(done) and not is_decided:
            yield f"contradiction: {self._name} is {self.fate.state}, its attempts say otherwise"
        for attempt in done:
            end = self.ends.get(attempt.fence)
            if end is None or end.said != DONE:
                yield f"invented: {self._name} succeeded as claim {attempt.fence}; its code did not"

    def _against_what_was_told(self) -> Iterable[str]:
        if sum(one.event == "run-succeeded" for one in self.told) > 1:
            yield f"twice: two workers were told that {self._name} is done"
        by_number: dict[int | None, list[Attempt]] = defaultdict(list)
        for attempt in self.attempts:
            by_number[attempt.number].append(attempt)
        for told in self.told:
            records = by_number[told.number]
            if told.event in TOLD_ENDS and told.state not in {one.state for one in records}:
                yield f"forgotten: {self._name}, attempt {told.number} was acknowledged {told.state}"
            if told.event == REFUSED and not self._is_on_record(records + by_number[None]):
                yield f"unrecorded: {self._name}, a refused word about attempt {told.number}"

    def _is_on_record(self, attempts: Sequence[Attempt]) -> bool:
        return any(one.late_state or one.fence in self.refused for one in attempts)

    def _charged(self) -> list[Attempt]:
        return [one for one in self.attempts if one.number is not None and one.state != GIVEN_BACK]

    @property
    def _name(self) -> str:
        return f"{self.fate.task} {self.fate.run}"


def _cases(evidence: WorkEvidence) -> dict[str, _Case]:
    cases = {fate.run: _Case(fate, evidence) for fate in evidence.fates}
    for mark in evidence.marks:
        case = cases.get(mark.run)
        if case is not None and mark.kind == START:
            case.starts.append(mark)
        elif case is not None:
            case.ends[mark.fence] = mark
    for attempt in sorted(evidence.attempts, key=lambda one: one.fence):
        cases[attempt.run].attempts.append(attempt)
    for told in evidence.told:
        cases[told.run].told.append(told)
    for run, fence in evidence.refused:
        if run in cases:
            cases[run].refused.append(fence)
    return cases


def _strange(evidence: WorkEvidence) -> list[Mark]:
    known = {fate.run for fate in evidence.fates}
    return [mark for mark in evidence.marks if mark.kind == START and mark.run not in known]


def _evicted(evidence: WorkEvidence) -> Iterable[str]:
    """Find workers that were declared dead though nothing had been done to them."""
    for one in evidence.evictions:
        is_explained = one.process in evidence.harmed or any(
            begin <= one.at <= end + OUTAGE_US for begin, end in evidence.outages
        )
        if not is_explained:
            yield f"evicted: worker process {one.process} was alive and was declared dead"


def _charged_for_leaving(evidence: WorkEvidence) -> Iterable[str]:
    """Find attempts that a worker left behind though it was stopped in good order."""
    left = {one.process: one.at for one in evidence.left}
    for attempt in evidence.attempts:
        at = None if attempt.process is None else left.get(attempt.process)
        if at is not None and attempt.state == "lost" and (attempt.ended_at or at) >= at:
            yield f"mischarged: {attempt.run}, claim {attempt.fence} was lost by a worker that left"
