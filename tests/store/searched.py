"""A town of runs that is searched within narrow bounds: the same must be found, in more pages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duly.domain.schedules import TENANT_DEFAULT
from duly.store.ports.queries import AuditFilter, Bounds
from duly_conformance import reading

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.engine.manual_clock import ManualClock
    from duly.store.ports import Store
    from duly.store.search_steps import Search

FEW = Bounds(looked_at=3, texts=2, gathered=4)


def missed_within(
    store: Store, clock: ManualClock, search: Callable[..., Search]
) -> dict[str, tuple[list[Any], list[Any]]]:
    """Return what narrow bounds let a search miss or find twice, by what it was for."""
    runs = reading.settle_a_town(store, clock)
    attempts = [
        attempt
        for run in runs
        if run.tenant == TENANT_DEFAULT
        for attempt in reversed(store.list_attempts(run.id))
    ]
    entries = store.list_audit(AuditFilter())
    asked: list[tuple[object, list[Any], list[Any]]] = []
    with store._connections.read() as look:  # type: ignore[attr-defined]  # noqa: SLF001 - how it is read is private
        narrow = search(look, FEW)
        for wanted in reading.wanted_runs(clock, runs):
            expected = [run.id for run in runs if reading.run_fits(run, wanted)]
            found = [run.id for run in reading.runs_by_pages(narrow, wanted)]
            asked.append((wanted, expected, found))
        for tried in reading.wanted_attempts(attempts):
            fences = [one.fence for one in attempts if reading.attempt_fits(one, tried)]
            ends = [one.fence for one in reading.attempts_by_pages(narrow, tried)]
            asked.append((tried, fences, ends))
        for noted in reading.wanted_entries(entries):
            numbers = [one.number for one in entries if reading.entry_fits(one, noted)]
            read = [one.number for one in reading.entries_by_pages(narrow, noted)]
            asked.append((noted, numbers, read))
    return {str(one): (due, got) for one, due, got in asked if due != got}
