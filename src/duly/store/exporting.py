"""Exporting: how every database walks through what is promised, a page at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, cast

from duly.domain.enums import Origin
from duly.domain.runs import MAKING_GOOD
from duly.store.ports.transfer import KINDS, LEDGER, PAGE, PARTS, PLACES, ColumnKind, TransferUnit

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from duly.store.ports.transfer import Kind, Part, PartRow, Value
    from duly.store.records import Row

PAGED = ("schedules", "delayed", "runs", "backfills", "backfill_slots")
"""What may be many; of anything else there are as many as somebody has set up."""
OPEN_RUNS = "NOT EXISTS (SELECT 1 FROM duly_outcomes o WHERE o.run_id = duly_runs.id)"


class Exporting(ABC):
    """A snapshot of a database, from which rows are read by part."""

    def __init__(self, *, has_history: bool, as_of: int) -> None:
        self._has_history = has_history
        self._as_of = as_of

    @abstractmethod
    def page(self, part: Part, after: PartRow | None, condition: str | None) -> list[PartRow]:
        """Return the next rows of a part by its key, those of a condition; of a small part all."""

    @abstractmethod
    def belonging(self, part: Part, column: str, keys: Sequence[Value]) -> list[PartRow]:
        """Return the rows of a part that belong to some heads, in the order of its key."""

    def bundles(self) -> Iterator[TransferUnit]:
        """Return all there is, in the order in which it is moved."""
        for kind in KINDS:
            yield from self._of_kind(kind)

    def _of_kind(self, kind: Kind) -> Iterator[TransferUnit]:
        part = PARTS[kind.head]
        is_bounded = kind.head == "runs" and not self._has_history
        condition = OPEN_RUNS if is_bounded else None
        after: PartRow | None = None
        while heads := self.page(part, after, condition):
            yield from self._bundles(kind, heads)
            if kind.head not in PAGED or len(heads) < PAGE:
                return
            after = heads[-1]

    def _bundles(self, kind: Kind, heads: list[PartRow]) -> list[TransferUnit]:
        key = PARTS[kind.head].key[0]
        found = [TransferUnit(kind, {kind.head: [head]}) for head in heads]
        owners: dict[Value, list[TransferUnit]] = {}
        lines: dict[Value, list[TransferUnit]] = {}
        for bundle in found:
            owners.setdefault(bundle.head[key], []).append(bundle)
            if kind.head == "runs":
                lines.setdefault(_line(bundle.head), []).append(bundle)
        for name, column in kind.children.items():
            theirs = lines if name in LEDGER else owners
            for row in self.belonging(PARTS[name], column, list(theirs)):
                for bundle in theirs[row[column]]:
                    cast("dict[str, list[PartRow]]", bundle.rows).setdefault(name, []).append(row)
        return [self._told(bundle) for bundle in found]

    def _told(self, bundle: TransferUnit) -> TransferUnit:
        if bundle.kind.head == "runs":
            return with_place(bundle)
        if bundle.kind.head == "schedules" and not self._has_history:
            return without_history(bundle, self._as_of)
        return bundle


def with_place(bundle: TransferUnit) -> TransferUnit:
    """Return an open run with its place in the queue, where the queue was not asked for it."""
    if any(place in bundle.rows for place in ("outcomes", *PLACES)):
        return bundle
    run = bundle.head
    place: PartRow = {
        "run_id": run["id"],
        "priority": None,
        "rank": run["not_before"],
        "fired_at": run["fired_at"],
        "not_before": run["not_before"],
        "fence": 0,
        "attempt": 0,
        "charged": 0,
        "begun_at": None,
    }
    return TransferUnit(bundle.kind, {**bundle.rows, "ready": [place]})


def without_history(bundle: TransferUnit, as_of: int) -> TransferUnit:
    """Return a schedule of which nobody is told what has become of what is over."""
    rows = {name: found for name, found in bundle.rows.items() if name != "skips"}
    state = dict(bundle.rows["schedule_state"][0])
    if state["fires"] or "skips" in bundle.rows:
        pending = state["next_for"] if state["next_for"] is not None else state["held_for"]
        until = as_of if pending is None else cast("int", pending) - 1
        state["pruned_through"] = max(until, cast("int", state["pruned_through"] or until))
    return TransferUnit(bundle.kind, {**rows, "schedule_state": [state]})


def part_row(part: Part, row: Row) -> PartRow:
    """Return a row as it is moved, from the columns of its part in their order."""
    return {
        column.name: bool(value) if column.kind is ColumnKind.FLAG and value is not None else value
        for column, value in zip(part.columns, row, strict=True)
    }


def _line(run: PartRow) -> Value:
    root = run["root"]
    return root if root is not None and Origin(str(run["origin"])) in MAKING_GOOD else run["id"]
