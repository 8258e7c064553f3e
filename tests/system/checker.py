"""The checker: a pure function from evidence to violations. It knows nothing of how Duly works.

Occurrences are worked out anew from what was asked for: a period counts from 1970. Runs are counted
twice, once by their identity and once blindly: sorted by when they were seen, the k-th run of a
schedule must not stand before its k-th occurrence, whatever the runs say about themselves.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from tests.system.evidence import Evidence, Order, Sight, Span, Standing

CANCELLED = "cancelled"
DELETED = "deleted"
T = TypeVar("T")
K = TypeVar("K")


def violations(evidence: Evidence) -> list[str]:
    """Return what must never happen and did, in words; nothing, if all is well."""
    by_subject = _grouped(evidence.orders, lambda order: order.subject)
    runs_by_key = _grouped(evidence.kept, lambda run: run.key)
    files = _Files(
        runs=_grouped(evidence.kept, lambda run: run.schedule),
        sights=_grouped(evidence.sights, lambda sight: sight.schedule),
        skips=_grouped(evidence.skips, lambda span: span.schedule),
        owed=_grouped(evidence.owed, lambda span: span.schedule),
        standings={one.name: one for one in evidence.schedules},
    )
    found = [*_defects(evidence), *_contradictions(evidence)]
    for subject, orders in by_subject.items():
        if orders[0].kind == "create":
            found += _ScheduleCase(files, orders, evidence.until).violations()
        else:
            found += _delayed(evidence, orders, runs_by_key.get(subject, []))
    return found + _strangers(evidence, by_subject)


@dataclass(frozen=True)
class _Files:
    """The evidence by schedule."""

    runs: Mapping[str | None, list[Sight]]
    sights: Mapping[str | None, list[Sight]]
    skips: Mapping[str, list[Span]]
    owed: Mapping[str, list[Span]]
    standings: Mapping[str, Standing]


def _grouped(things: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    groups: dict[K, list[T]] = defaultdict(list)
    for thing in things:
        groups[key(thing)].append(thing)
    return dict(groups)


def _defects(evidence: Evidence) -> Iterable[str]:
    """Find errors that no fault explains: whatever happens to a store, they must not occur."""
    for problem in evidence.unforeseen:
        yield f"defect: {problem}"
    for order in evidence.orders:
        if order.answer is not None and "defect" in order.answer:
            yield f"defect: {order.kind} {order.subject}: {order.answer}"


def _contradictions(evidence: Evidence) -> Iterable[str]:
    """Compare what the observer saw with what the file says in the end: history holds still."""
    kept = {run.id: run for run in evidence.kept}
    seen: dict[str, Sight] = {}
    for sight in evidence.sights:
        if sight.id in seen:
            yield f"seen twice: run {sight.id}"
        seen[sight.id] = sight
        if sight.fired_at is not None and sight.seen_at < sight.scheduled_for:
            early_us = sight.scheduled_for - sight.seen_at
            yield f"early: {_name(sight)} was seen {early_us} µs before its time"
        final = kept.get(sight.id)
        if final is None:
            yield f"unmade: {_name(sight)} was seen, and is gone"
        elif (final.scheduled_for, final.fired_at) != (sight.scheduled_for, sight.fired_at):
            yield f"rewritten: {_name(sight)} is not what it was"
    for run in evidence.kept:
        if run.id not in seen:
            yield f"unseen: {_name(run)} is in the file, and the observer never saw it"
        if run.fired_at is not None and run.fired_at < run.scheduled_for:
            yield f"early: {_name(run)} fired {run.scheduled_for - run.fired_at} µs before its time"


def _strangers(evidence: Evidence, asked: Mapping[str, object]) -> list[str]:
    """Find what nobody asked for."""
    found = [
        f"stranger: schedule {one.name}" for one in evidence.schedules if one.name not in asked
    ]
    keys = {run.key for run in evidence.kept if run.key is not None} | set(evidence.pending_keys)
    return found + [f"stranger: delayed run {key}" for key in sorted(keys) if key not in asked]


class _ScheduleCase:
    """One schedule: what was asked about it, and all that became of it."""

    def __init__(self, files: _Files, orders: Sequence[Order], until: int) -> None:
        self.name = orders[0].subject
        self.orders = orders
        self.until = until
        self.standing = files.standings.get(self.name)
        mine = "" if self.standing is None else self.standing.id
        self.runs = files.runs.get(mine, [])
        self.seen = files.sights.get(mine, [])
        self.skips = files.skips.get(mine, [])
        self.owed = files.owed.get(mine, [])

    def violations(self) -> Iterable[str]:
        """Judge it."""
        created = self.orders[0]
        if self.standing is None:
            if created.is_done:
                yield f"lost: schedule {self.name} was acknowledged, and is not there"
            return
        allowed, sure = self._expected(created)
        yield from self._by_identity(allowed, sure)
        yield from self._blindly(allowed)
        yield from self._against_orders()

    def _expected(self, created: Order) -> tuple[list[int], list[int]]:
        """Return the occurrences that may have been, and of those the ones that must."""
        assert self.standing is not None, "there is one"
        heard_at = created.answered_at if created.is_done else self.standing.created_at
        deleted = [order for order in self.orders if order.kind == "delete"]
        ends = min((order.asked_at for order in deleted), default=self.until)
        last = max((run.scheduled_for for run in self.runs), default=ends)
        allowed = _occurrences(created.period_us, created.asked_at, max(last, ends))
        return allowed, [at for at in allowed if (heard_at or 0) < at <= min(ends, self.until)]

    def _by_identity(self, allowed: list[int], sure: list[int]) -> Iterable[str]:
        counts: dict[int, int] = defaultdict(int)
        for run in self.runs:
            counts[run.scheduled_for] += 1
        known = set(allowed)
        for at, count in counts.items():
            if count > 1:
                yield f"twice: {self.name} at {at} has {count} runs"
            if at not in known:
                yield f"stranger: {self.name} at {at} is no occurrence"
            if _covers(self.skips, at):
                yield f"twice: {self.name} at {at} was run and skipped"
        for at in sure:
            if at in counts or _covers(self.skips, at):
                continue
            is_open = self._is_open(at)
            if is_open and self.standing is not None and self.standing.status == DELETED:
                continue  # overdue when it was deleted: a restoration begins there
            kind = "unsettled" if is_open else "hole"
            yield f"{kind}: {self.name} at {at} has no run and no skip"

    def _is_open(self, at: int) -> bool:
        """Say whether it is still to come: late, then, but not lost."""
        assert self.standing is not None, "there is one"
        next_for = self.standing.next_for
        return _covers(self.owed, at) or (next_for is not None and next_for <= at)

    def _blindly(self, allowed: list[int]) -> Iterable[str]:
        """Count windows: by any moment there were no more runs than occurrences."""
        for what, moments in (
            ("fired", [run.fired_at for run in self.runs if run.fired_at is not None]),
            ("seen", [one.seen_at for one in self.seen if one.fired_at is not None]),
        ):
            if len(moments) > len(allowed):
                yield f"twice: {self.name} {what} {len(moments)} times for {len(allowed)}"
            for moment, at in zip(sorted(moments), allowed, strict=False):
                if moment < at:
                    yield f"early: {self.name} {what} more often by {moment} than fell due"
                    break

    def _against_orders(self) -> Iterable[str]:
        """Find runs of a time when it was paused or deleted, for sure."""
        for place, order in enumerate(self.orders):
            if order.kind not in ("pause", "delete") or not order.is_done:
                continue
            later = [one.asked_at for one in self.orders[place + 1 :]]
            through = min(later, default=self.until)
            for run in self.runs:
                if run.fired_at and (order.answered_at or 0) < run.fired_at < through:
                    yield f"unwanted: {self.name} fired while it was {order.kind}d"


def _delayed(evidence: Evidence, orders: Sequence[Order], runs: list[Sight]) -> Iterable[str]:
    """Judge one delayed run: what it may have become, and what it has become."""
    key = orders[0].subject
    fired = [run for run in runs if run.fired_at is not None]
    if len(runs) > 1:
        yield f"twice: {key} has {len(runs)} runs"
    if any(order.kind == "cancel" and order.is_done for order in orders):
        if fired:
            yield f"unwanted: {key} fired, and was cancelled"
        if [CANCELLED] != [run.state for run in runs]:
            yield f"lost: {key} was cancelled, and has no record of it"
        return
    dues = _dues(orders)
    for run in fired:
        if run.scheduled_for not in dues:
            yield f"stranger: {key} fired for {run.scheduled_for}, which nobody asked for"
        if (run.fired_at or 0) < min(dues, default=0):
            yield f"early: {key} fired before any instant that it was promised for"
    is_cancelled = bool(runs) and any(order.kind == "cancel" for order in orders)
    if orders[0].is_done and not fired and not is_cancelled:
        is_due, is_pending = max(dues) <= evidence.until, key in evidence.pending_keys
        if is_due or not is_pending:
            kind = "unsettled" if is_pending else "lost"
            yield f"{kind}: {key} was acknowledged, and has no run"


def _dues(orders: Sequence[Order]) -> set[int]:
    """Return the instants that a delayed run may be due at, after all that was said about it."""
    dues: set[int] = set()
    for order in orders:
        if order.kind != "cancel" and order.is_done:
            dues = {order.due_at}
        elif order.kind != "cancel" and order.is_unknown:
            dues.add(order.due_at)
    return dues


def _occurrences(period_us: int, after: int, through: int) -> list[int]:
    first = (after // period_us + 1) * period_us
    return list(range(first, through + 1, period_us))


def _covers(spans: Sequence[Span], at: int) -> bool:
    return any(span.first_for <= at <= span.last_for for span in spans)


def _name(run: Sight) -> str:
    return f"{run.key or run.schedule} at {run.scheduled_for}"
