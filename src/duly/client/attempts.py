"""Attempts of all runs in a program's hands, for looking for them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from duly.client.attempt_view import Attempt, attempt_view
from duly.client.paging import PAGE_DEFAULT, Page, read_cursor, read_page_limit, write_cursor
from duly.client.reading import read_choices, read_looked_for, read_number
from duly.domain.identity import ID_BYTES, RunId
from duly.domain.literals import AttemptState
from duly.store.searching import AttemptFilter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.client.caller import Caller

_FENCE_BYTES = 4


class Attempts:
    """The attempts of an application's runs."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def page(  # noqa: PLR0913 - each filter is an argument
        self,
        *,
        worker: int | None = None,
        state: str | Sequence[str] | None = None,
        reason: str | None = None,
        error: str | None = None,
        limit: int = PAGE_DEFAULT,
        cursor: str | None = None,
    ) -> Page[Attempt]:
        """Return a page of attempts: those of the newest runs first, and of a run the last first.

        By the number of their worker, by state (one or several), by the reason code why they ended
        so, and by a text that their error holds.
        """
        command = AttemptFilter(
            tenant=self._caller.tenant,
            worker=None if worker is None else read_number("worker", worker),
            states=None if state is None else read_choices("state", state, AttemptState),
            reason=read_looked_for("reason", reason),
            error=read_looked_for("error", error),
            limit=read_page_limit(limit),
        )
        position = read_cursor(command, cursor, ID_BYTES + _FENCE_BYTES)
        if position is not None:
            before = RunId(position[:ID_BYTES]), int.from_bytes(position[ID_BYTES:])
            command = replace(command, before=before)
        found = self._caller.store.search_attempts(command)
        goes_on = None
        if found.next is not None:
            run_id, fence = found.next
            goes_on = run_id + fence.to_bytes(_FENCE_BYTES)
        items = [attempt_view(one) for one in found.records]
        return Page(items, write_cursor(command, goes_on))
