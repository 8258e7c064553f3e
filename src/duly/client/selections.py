"""Selections in a program's hands: runs that a filter found, kept as they were chosen (A1).

Who orders something about many runs looks first. What was looked at is frozen in the store under an
id, so that the order touches these runs and no others, whatever has happened between the two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

from duly.client.chosen_runs import ONE_BY_ONE, ChosenRuns
from duly.client.frozen_sets import (
    RUNS,
    SAMPLE_MAX,
    Chosen,
    Mark,
    find_set,
    freeze_set,
    frozen_view,
    preview_of,
    require_confirmed,
    require_few,
    shown_of,
)
from duly.client.reading import one_or_several, read_limit, require_reason
from duly.client.run_orders import OrderedRun, cancel_each
from duly.client.runs import run_views
from duly.domain.identity import RunId
from duly.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.client.caller import Caller
    from duly.client.frozen_sets import Frozen, Kept, OrderPreview
    from duly.client.run_view import Run
    from duly.client.runs import Runs


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
    ) -> Frozen[Run]:
        """Find runs by the filters of `app.runs.list`, dead ones unless told, and keep which.

        Nothing is done to them. With `limit` the newest so many; without it more than one order
        takes are refused: nobody shall believe that these were all. With `ids` it is these runs,
        whatever else is said.
        """
        now = self._caller.store.now()
        if ids is None:
            found = self._found({"state": state} | filters, limit)
            terms = {"state": state, "limit": limit} | filters
        else:
            found = self._named(ids)
            terms = {"ids": len(found)}
        items = [(run.id.bytes, Mark(run.state, run.fence)) for run in found]
        chosen = Chosen(of=RUNS, items=items, terms=terms, as_of=now)
        return frozen_view(freeze_set(self._caller, chosen), found)

    def _found(self, filters: dict[str, Any], limit: int | None) -> list[Run]:
        most = self._caller.settings.runs_per_order_max
        if limit is not None:
            return self._runs.list(limit=read_limit(limit, most), **filters)
        found = self._runs.list(limit=most + 1, **filters)
        if len(found) > most:
            remedy = "narrow the filter, or give a limit: the newest so many are taken then"
            raise UsageError("limit", None, f"is needed: there are more than {most:,} runs", remedy)
        return found

    def _named(self, ids: object) -> list[Run]:
        """Return runs by their ids, newest first; one that is not there is told."""
        most, named = self._caller.settings.runs_per_order_max, one_or_several(ids)
        if len(named) > most:
            remedy = f"split them: {most:,} at a time"
            raise UsageError("ids", f"{len(named):,} runs", "are more than one order takes", remedy)
        known = {one.id: one for one in map(self._runs.get, named)}
        return sorted(known.values(), key=lambda one: one.id, reverse=True)

    def get(self, selection: UUID | str) -> Frozen[Run]:
        """Return a selection by its id, with the newest of its runs as they are now."""
        kept = self._find(selection)
        return frozen_view(kept, self._seen(kept.ids[:SAMPLE_MAX]))

    def _seen(self, ids: Sequence[bytes]) -> list[Run]:
        """Return those runs that are still there, as they are now."""
        asked = [RunId(one) for one in ids]
        there = self._caller.store.get_runs(asked)
        return run_views(self._caller, [there[one] for one in asked if one in there])

    def preview(self, selection: UUID | str, order: str) -> OrderPreview:
        """Say what an order would do to each of its runs, if it were given now.

        The order is retry, discard, cancel, skip, rerun, or repair for a rerun in repair mode.
        """
        kept = self._find(selection)
        if order in ONE_BY_ONE:
            require_few(kept, order)
        judged = ChosenRuns(self._caller, kept).judge(order)
        shown = self._seen([one.id.bytes for part in shown_of(judged) for one in part])
        return preview_of(kept, order, judged, {run.id: run.label for run in shown})

    def retry(
        self, selection: UUID | str, *, reason: str | None = None, confirm: int | None = None
    ) -> list[OrderedRun]:
        """Queue its dead runs again with a fresh budget, and at once those that wait."""
        return self._runs.retry(_ids(self._meant(selection, confirm)), reason=reason)

    def discard(
        self, selection: UUID | str, *, reason: str | None = None, confirm: int | None = None
    ) -> list[OrderedRun]:
        """Close its dead runs for good."""
        return self._runs.discard(_ids(self._meant(selection, confirm)), reason=reason)

    def cancel(
        self, selection: UUID | str, *, reason: str | None = None, confirm: int | None = None
    ) -> list[OrderedRun]:
        """Stop its runs: at once where nobody runs them, by asking where somebody does."""
        kept = self._meant(selection, confirm)
        require_few(kept, "cancel")
        return cancel_each(self._caller, [RunId(one) for one in kept.ids], reason)

    def rerun(
        self,
        selection: UUID | str,
        *,
        reason: str,
        repair: bool = False,
        confirm: int | None = None,
    ) -> list[OrderedRun]:
        """Run once more, each as another run, what its runs were to do.

        Those that are no longer as they were seen are left alone and told, and so are those that
        may do something a second time: they are rerun one by one. Given again about the same
        selection, it repeats no run a second time.
        """
        kept = self._meant(selection, confirm)
        require_reason(reason)
        require_few(kept, "rerun")
        chosen = ChosenRuns(self._caller, kept)
        return chosen.rerun(repair=repair, reason=reason)

    def skip(
        self, selection: UUID | str, *, reason: str, confirm: int | None = None
    ) -> list[OrderedRun]:
        """Leave its runs that are in doubt as they are, and record that nobody does more."""
        kept = self._meant(selection, confirm)
        require_reason(reason)
        require_few(kept, "skip")
        return ChosenRuns(self._caller, kept).skip(reason=reason)

    def _meant(self, selection: UUID | str, confirm: int | None) -> Kept:
        """Return which runs an order is about; many of them only if they are confirmed."""
        kept = self._find(selection)
        require_confirmed(kept, confirm)
        return kept

    def _find(self, selection: UUID | str) -> Kept:
        return find_set(self._caller, RUNS, selection)


def _ids(kept: Kept) -> list[UUID]:
    return [UUID(bytes=one) for one in kept.ids]
