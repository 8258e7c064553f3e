"""Frozen sets: what somebody has looked at, as it was then, so that an order means just that (A1).

A set keeps which things were chosen and a mark of each. Whoever orders something about the set
touches what still bears its mark; all else is told, one by one, with the reason.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from uuid import UUID

from duly.domain.identity import RunId, read_identity, schedule_id
from duly.domain.instants import from_microseconds, iso_utc
from duly.domain.schedules import canonical_json
from duly.errors import Conflict, NotFound, UsageError
from duly.store.access import Freeze

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from duly.client.caller import Caller
    from duly.client.run_view import Run
    from duly.client.schedule_view import Schedule
    from duly.store.access import FrozenSet

Item = TypeVar("Item", bound="Run | Schedule")
CONFIRMED_ABOVE = 100
"""More things than this are ordered about only by whoever types how many they are."""
ONE_BY_ONE_MAX = 1_000
"""So many are ordered about by one order that is a transaction for each."""
SAMPLE_MAX = FIRST_SHOWN = 20
LEFT_SHOWN_MAX = 100
RUNS, SCHEDULES = "runs", "schedules"
GONE = "is no longer there"
_DRAW_BYTES = 10
_DIGEST_BYTES = 16


@dataclass(frozen=True, slots=True)
class Mark:
    """How one of a set was when it was chosen."""

    state: str
    number: int
    """A run's fence, a schedule's version: whatever happens to it raises that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """What somebody has chosen, before it is frozen."""

    of: str
    items: Sequence[tuple[bytes, Mark]]
    terms: Mapping[str, Any]
    as_of: int
    """When they began to look, by the store's clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A frozen set as the store keeps it, read."""

    id: bytes
    of: str
    ids: tuple[bytes, ...]
    marks: tuple[Mark, ...] | None
    """None of a set that a program without marks has frozen."""
    chosen_by: dict[str, Any]
    digest: str
    made_by: str
    as_of: int
    expires_at: int

    def marked(self) -> list[tuple[bytes, Mark]]:
        """Return each id with its mark."""
        if self.marks is None:
            problem = "was frozen by an older program, which did not keep how each was"
            remedy = f"choose the {self.of} anew"
            raise Conflict("selection", str(UUID(bytes=self.id)), problem, remedy)
        return list(zip(self.ids, self.marks, strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class Frozen(Generic[Item]):
    """What a filter found: what an order about it touches, and nothing else."""

    id: UUID
    ids: tuple[UUID, ...]
    """Runs newest first, schedules in order of name."""
    sample: tuple[Item, ...]
    """The first of them, as they are now."""
    chosen_by: dict[str, Any]
    """The filter."""
    digest: str
    """The same for the same runs in the same state, or schedules at the same versions."""
    made_by: str
    as_of: datetime
    """When they were chosen."""
    expires_at: datetime

    def __len__(self) -> int:
        return len(self.ids)

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "id": str(self.id),
            "count": len(self.ids),
            "sample": [one.to_json() for one in self.sample],
            "chosen_by": self.chosen_by,
            "digest": self.digest,
            "made_by": self.made_by,
            "as_of": iso_utc(self.as_of),
            "expires_at": iso_utc(self.expires_at),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviewedItem:
    """One of a set, and what an order would do about it."""

    id: UUID
    name: str
    """A schedule's name, a run's label; its id where it is no longer there."""
    state: str | None
    """What it is now."""
    why: str | None
    """Why it would be left alone; None for what would be touched."""

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {"id": str(self.id), "name": self.name, "state": self.state, "why": self.why}


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderPreview:
    """What an order about a frozen set would do, if it were given now."""

    id: UUID
    """The set's: the order names it."""
    of: str
    """runs or schedules."""
    order: str
    digest: str
    """The same for the same things in the same state."""
    count: int
    touched: int
    first: tuple[PreviewedItem, ...]
    """The first of those that would be touched."""
    left_alone: tuple[PreviewedItem, ...]
    """The first of those that would not."""
    left_by: dict[str, int]
    """Why, and how many of them."""
    chosen_by: dict[str, Any]
    made_by: str
    as_of: datetime
    expires_at: datetime

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "id": str(self.id),
            "of": self.of,
            "order": self.order,
            "digest": self.digest,
            "count": self.count,
            "touched": self.touched,
            "first": [one.to_json() for one in self.first],
            "left_alone": [one.to_json() for one in self.left_alone],
            "left_by": self.left_by,
            "chosen_by": self.chosen_by,
            "made_by": self.made_by,
            "as_of": iso_utc(self.as_of),
            "expires_at": iso_utc(self.expires_at),
        }


@dataclass(frozen=True, slots=True)
class Judged:
    """One of a set with its state now, and why an order leaves it alone."""

    id: UUID
    state: str | None
    why: str | None


def freeze_set(caller: Caller, chosen: Chosen) -> Kept:
    """Keep which things were chosen, by which terms, and how each was."""
    said = {name: _plain(value) for name, value in chosen.terms.items() if value is not None}
    marks = [f"{mark.state}:{mark.number}" for _, mark in chosen.items]
    command = Freeze(
        id=bytes(schedule_id(chosen.as_of, caller.draws.draw(_DRAW_BYTES))),
        tenant=caller.tenant,
        made_by=caller.actor,
        chosen_by=canonical_json({"of": chosen.of, "by": said, "marks": marks}),
        ids=tuple(RunId(one) for one, _ in chosen.items),
        as_of=chosen.as_of,
    )
    return _read(caller.store.freeze(command))


def find_set(caller: Caller, of: str, selection: UUID | str) -> Kept:
    """Return a set by its id; one of other things is not there."""
    identity = read_identity(selection, "selection")
    frozen = caller.store.find_frozen(identity, caller.tenant)
    kept = None if frozen is None else _read(frozen)
    if kept is None or kept.of != of:
        remedy = f"choose the {of} anew: a selection is kept for a quarter of an hour"
        raise NotFound("selection", str(selection), remedy)
    return kept


def frozen_view(kept: Kept, found: Sequence[Item]) -> Frozen[Item]:
    """Show a set, with as many of those that were found as are shown."""
    return Frozen(
        id=UUID(bytes=kept.id),
        ids=tuple(UUID(bytes=one) for one in kept.ids),
        sample=tuple(found[:SAMPLE_MAX]),
        chosen_by=kept.chosen_by,
        digest=kept.digest,
        made_by=kept.made_by,
        as_of=from_microseconds(kept.as_of),
        expires_at=from_microseconds(kept.expires_at),
    )


def require_confirmed(kept: Kept, confirm: int | None) -> None:
    """Refuse an order about many, unless it says how many they are."""
    count, name = len(kept.ids), str(UUID(bytes=kept.id))
    if confirm is None and count > CONFIRMED_ABOVE:
        problem = f"is missing: this order is about {count:,} {kept.of}"
        raise UsageError("confirm", confirm, problem, f"say how many they are: {count}")
    if confirm not in (None, count):
        problem = f"holds {count:,} {kept.of}, not {confirm}"
        remedy = "look at it again, and confirm as many as it has"
        raise Conflict("selection", name, problem, remedy)


def require_few(kept: Kept, verb: str) -> None:
    """Refuse more than one order goes through one by one."""
    count = len(kept.ids)
    if count > ONE_BY_ONE_MAX:
        problem, remedy = f"are too many to {verb}", f"choose fewer: {ONE_BY_ONE_MAX:,} at a time"
        raise UsageError("selection", f"{count:,} {kept.of}", problem, remedy)


def preview_of(
    kept: Kept, order: str, judged: Sequence[Judged], shown: Mapping[UUID, str]
) -> OrderPreview:
    """Return a preview of what was judged; `shown` has the names of those that are listed."""
    first, left = shown_of(judged)
    return OrderPreview(
        id=UUID(bytes=kept.id),
        of=kept.of,
        order=order,
        digest=kept.digest,
        count=len(judged),
        touched=sum(one.why is None for one in judged),
        first=tuple(_item(one, shown) for one in first),
        left_alone=tuple(_item(one, shown) for one in left),
        left_by=dict(Counter(one.why for one in judged if one.why is not None).most_common()),
        chosen_by=kept.chosen_by,
        made_by=kept.made_by,
        as_of=from_microseconds(kept.as_of),
        expires_at=from_microseconds(kept.expires_at),
    )


def shown_of(judged: Sequence[Judged]) -> tuple[list[Judged], list[Judged]]:
    """Return which are listed one by one: of those that are touched, and of those that are not."""
    touched = [one for one in judged if one.why is None]
    left = [one for one in judged if one.why is not None]
    return touched[:FIRST_SHOWN], left[:LEFT_SHOWN_MAX]


def _item(judged: Judged, shown: Mapping[UUID, str]) -> PreviewedItem:
    name = shown.get(judged.id, str(judged.id))
    return PreviewedItem(id=judged.id, name=name, state=judged.state, why=judged.why)


def _read(frozen: FrozenSet) -> Kept:
    told: dict[str, Any] = json.loads(frozen.chosen_by)
    marks: tuple[Mark, ...] | None = None
    of, chosen_by = RUNS, told
    if "marks" in told:
        of, chosen_by = told["of"], told["by"]
        marks = tuple(_mark(one) for one in told["marks"])
        assert len(marks) == len(frozen.ids), "each has a mark"
    return Kept(
        id=frozen.id,
        of=of,
        ids=frozen.ids,
        marks=marks,
        chosen_by=chosen_by,
        digest=_digest(of, frozen.ids, marks or ()),
        made_by=frozen.made_by,
        as_of=frozen.as_of,
        expires_at=frozen.expires_at,
    )


def _mark(text: str) -> Mark:
    state, _, number = text.rpartition(":")
    return Mark(state, int(number))


def _digest(of: str, ids: Sequence[bytes], marks: Sequence[Mark]) -> str:
    told = [of, [one.hex() for one in ids], [(mark.state, mark.number) for mark in marks]]
    return blake2b(json.dumps(told).encode(), digest_size=_DIGEST_BYTES).hexdigest()


def _plain(value: object) -> object:
    """Return a filter as it is shown: words and lists of them."""
    if isinstance(value, set | frozenset | list | tuple):
        return sorted(str(one) for one in value)
    return value if isinstance(value, int | str) else str(value)
