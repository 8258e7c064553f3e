"""Selections in a program's hands: runs that a filter found, kept as they were chosen (A1).

Who orders something about many runs looks first. What was looked at is frozen in the store under an
id, so that the order touches these runs and no others, whatever has happened between the two.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from duly.client.reading import read_limit
from duly.client.run_orders import OrderedRun, cancel_each
from duly.client.runs import run_views
from duly.domain.identity import RunId, read_identity, schedule_id
from duly.domain.instants import from_microseconds, iso_utc
from duly.domain.schedules import canonical_json
from duly.errors import Conflict, NotFound, UsageError
from duly.store.access import Freeze

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from duly.client.caller import Caller
    from duly.client.run_view import Run
    from duly.client.runs import Runs
    from duly.store.access import FrozenSet

SAMPLE_MAX = 20
CONFIRMED_ABOVE = 100
"""More runs than this are ordered about only by whoever types how many they are."""
CANCELLED_MAX = 1_000
"""So many are cancelled by one order: each is a transaction of its own."""
_DRAW_BYTES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class FrozenRuns:
    """The runs that a filter found: what an order about them touches, and nothing else."""

    id: UUID
    ids: tuple[UUID, ...]
    """Newest first."""
    sample: tuple[Run, ...]
    """The newest of them, as they are now."""
    chosen_by: dict[str, Any]
    """The filter."""
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
            "sample": [run.to_json() for run in self.sample],
            "chosen_by": self.chosen_by,
            "made_by": self.made_by,
            "as_of": iso_utc(self.as_of),
            "expires_at": iso_utc(self.expires_at),
        }


class Selections:
    """The selections of an application, kept for a quarter of an hour."""

    def __init__(self, caller: Caller, runs: Runs) -> None:
        self._caller = caller
        self._runs = runs

    def freeze(
        self,
        *,
        state: str | Sequence[str] | None = "dead",
        limit: int | None = None,
        ids: Sequence[UUID | str] | None = None,
        **filters: Any,  # noqa: ANN401 - as `app.runs.list` has them
    ) -> FrozenRuns:
        """Find runs by the filters of `app.runs.list`, dead ones unless told, and keep which.

        Nothing is done to them. With `limit` the newest so many; without it more than one order
        takes are refused: nobody shall believe that these were all. With `ids` it is these runs,
        whatever else is said.
        """
        caller = self._caller
        now = caller.store.now()
        if ids is None:
            found = self._found({"state": state} | filters, limit)
            given = {"state": state, "limit": limit} | filters
        else:
            found = self._named(ids)
            given = {"ids": len(found)}
        said = {name: _plain(value) for name, value in given.items() if value is not None}
        command = Freeze(
            id=bytes(schedule_id(now, caller.draws.draw(_DRAW_BYTES))),
            tenant=caller.tenant,
            made_by=caller.actor,
            chosen_by=canonical_json(said),
            ids=tuple(RunId(run.id.bytes) for run in found),
            as_of=now,
        )
        return _view(caller.store.freeze(command), found[:SAMPLE_MAX])

    def _found(self, filters: dict[str, Any], limit: int | None) -> list[Run]:
        most = self._caller.settings.runs_per_order_max
        if limit is not None:
            return self._runs.list(limit=read_limit(limit, most), **filters)
        found = self._runs.list(limit=most + 1, **filters)
        if len(found) > most:
            remedy = "narrow the filter, or give a limit: the newest so many are taken then"
            raise UsageError("limit", None, f"is needed: there are more than {most:,} runs", remedy)
        return found

    def _named(self, ids: Sequence[UUID | str]) -> list[Run]:
        """Return runs by their ids, newest first; one that is not there is told."""
        most = self._caller.settings.runs_per_order_max
        if len(ids) > most:
            remedy = f"split them: {most:,} at a time"
            raise UsageError("ids", f"{len(ids):,} runs", "are more than one order takes", remedy)
        known = {one.id: one for one in map(self._runs.get, ids)}
        return sorted(known.values(), key=lambda one: one.id, reverse=True)

    def get(self, selection: UUID | str) -> FrozenRuns:
        """Return a selection by its id, with the newest of its runs as they are now."""
        frozen = self._find(selection)
        newest = frozen.ids[:SAMPLE_MAX]
        there = self._caller.store.get_runs(newest)
        return _view(
            frozen, run_views(self._caller, [there[one] for one in newest if one in there])
        )

    def retry(
        self, selection: UUID | str, *, reason: str | None = None, confirm: int | None = None
    ) -> list[OrderedRun]:
        """Queue its dead runs again with a fresh budget, and at once those that wait."""
        return self._runs.retry(self._meant(selection, confirm), reason=reason)

    def discard(
        self, selection: UUID | str, *, reason: str | None = None, confirm: int | None = None
    ) -> list[OrderedRun]:
        """Close its dead runs for good."""
        return self._runs.discard(self._meant(selection, confirm), reason=reason)

    def cancel(
        self, selection: UUID | str, *, reason: str | None = None, confirm: int | None = None
    ) -> list[OrderedRun]:
        """Stop its runs: at once where nobody runs them, by asking where somebody does."""
        meant = self._meant(selection, confirm)
        if len(meant) > CANCELLED_MAX:
            remedy = f"choose fewer: {CANCELLED_MAX:,} at a time"
            raise UsageError("selection", f"{len(meant):,} runs", "are too many to cancel", remedy)
        return cancel_each(self._caller, [RunId(one.bytes) for one in meant], reason)

    def _meant(self, selection: UUID | str, confirm: int | None) -> list[UUID]:
        """Return which runs an order is about; many of them only if they are confirmed."""
        frozen = self._find(selection)
        count = len(frozen.ids)
        if confirm is None and count > CONFIRMED_ABOVE:
            problem = f"is missing: this order is about {count:,} runs"
            raise UsageError("confirm", confirm, problem, f"say how many they are: {count}")
        if confirm not in (None, count):
            problem = f"holds {count:,} runs, not {confirm}"
            remedy = "look at it again, and confirm as many as it has"
            raise Conflict("selection", str(selection), problem, remedy)
        return [UUID(bytes=one) for one in frozen.ids]

    def _find(self, selection: UUID | str) -> FrozenSet:
        identity = read_identity(selection, "selection")
        frozen = self._caller.store.find_frozen(identity, self._caller.tenant)
        if frozen is None:
            remedy = "choose the runs anew: a selection is kept for a quarter of an hour"
            raise NotFound("selection", str(selection), remedy)
        return frozen


def _plain(value: object) -> object:
    """Return a filter as it is shown: words and lists of them."""
    if isinstance(value, set | frozenset | list | tuple):
        return sorted(str(one) for one in value)
    return value if isinstance(value, int | str) else str(value)


def _view(frozen: FrozenSet, sample: Sequence[Run]) -> FrozenRuns:
    return FrozenRuns(
        id=UUID(bytes=frozen.id),
        ids=tuple(UUID(bytes=one) for one in frozen.ids),
        sample=tuple(sample),
        chosen_by=json.loads(frozen.chosen_by),
        made_by=frozen.made_by,
        as_of=from_microseconds(frozen.as_of),
        expires_at=from_microseconds(frozen.expires_at),
    )
