"""The scope of runs on the memory store: what is expected, and which items are done."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.domain.verification import MISSING_SHOWN_MAX, Scope
from duly.store.memory.effects import ledger_of
from duly.store.memory.tables import ScopeItem

if TYPE_CHECKING:
    from collections.abc import Iterable

    from duly.domain.ids import RunId
    from duly.domain.verification import ItemReport
    from duly.store.memory.tables import Journal
    from duly.store.ports.execution import ClaimRef

_NEW = ScopeItem()


def write_scope(journal: Journal, hold: ClaimRef, report: ItemReport | None) -> None:
    """Keep what an attempt that is ours says about its scope."""
    if report is None:
        return
    tables, root = journal.tables, ledger_of(journal, hold.run_id)
    if report.expected is not None:
        journal.put(tables.scopes, root, report.expected)
    for name in report.names:
        known = tables.scope_items.get((root, name), _NEW)
        journal.put(tables.scope_items, (root, name), known._replace(is_expected=True))
    for name in report.done:
        known = tables.scope_items.get((root, name), _NEW)
        # The same attempt saying it again is a lost answer, and no second time.
        if known.by != hold:
            done = known._replace(times=known.times + 1, by=hold, at=journal.now)
            journal.put(tables.scope_items, (root, name), done)
    for name in report.repeated:
        known = tables.scope_items[root, name]
        journal.put(tables.scope_items, (root, name), known._replace(times=max(known.times, 2)))


def get_scope(journal: Journal, run_id: RunId) -> Scope:
    """Return what is known of a run's scope."""
    tables = journal.tables
    if run_id not in tables.runs:
        return Scope()
    root = ledger_of(journal, run_id)
    items = {name: item for (known, name), item in tables.scope_items.items() if known == root}
    missing = sorted(name for name, item in items.items() if item.is_expected and not item.times)
    return Scope(
        tables.scopes.get(root),
        sum(item.times > 0 for item in items.values()),
        sum(item.times > 1 for item in items.values()),
        tuple(missing[:MISSING_SHOWN_MAX]),
    )


def list_done(journal: Journal, run_id: RunId, items: Iterable[str]) -> frozenset[str]:
    """Return those of some items that are done."""
    tables = journal.tables
    if run_id not in tables.runs:
        return frozenset()
    root = ledger_of(journal, run_id)
    return frozenset(one for one in items if tables.scope_items.get((root, one), _NEW).times)
