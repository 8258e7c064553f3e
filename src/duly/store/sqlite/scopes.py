"""The scope of runs in the file: what is expected, and which items are done."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from duly.domain.verification import MISSING_SHOWN_MAX, Scope
from duly.store.sqlite.effects import find_ledger
from duly.store.sqlite.rows import one

if TYPE_CHECKING:
    from collections.abc import Sequence

    import apsw

    from duly.domain.ids import RunId
    from duly.domain.verification import ItemReport
    from duly.store.ports.execution import ClaimRef
    from duly.store.sqlite.work import Look, Work

EXPECT = """
INSERT INTO duly_scopes (root, expected) VALUES (?, ?)
ON CONFLICT (root) DO UPDATE SET expected = excluded.expected"""
NAME_ITEM = """
INSERT INTO duly_scope_items (root, item, is_expected, times) VALUES (?, ?, 1, 0)
ON CONFLICT (root, item) DO UPDATE SET is_expected = 1"""
# The same attempt saying it again is a lost answer, and no second time.
DO_ITEM = """
INSERT INTO duly_scope_items (root, item, is_expected, times, run_id, fence, at)
VALUES (?, ?, 0, 1, ?, ?, ?)
ON CONFLICT (root, item) DO UPDATE
SET times = times + 1, run_id = excluded.run_id, fence = excluded.fence, at = excluded.at
WHERE run_id IS NOT excluded.run_id OR fence IS NOT excluded.fence"""
# One attempt has reported it more than once: told again, this changes nothing.
REPEAT_ITEM = "UPDATE duly_scope_items SET times = 2 WHERE root = ? AND item = ? AND times < 2"
READ_EXPECTED = "SELECT expected FROM duly_scopes WHERE root = ?"
COUNT_ITEMS = """
SELECT count(*) FILTER (WHERE times > 0), count(*) FILTER (WHERE times > 1)
FROM duly_scope_items WHERE root = ?"""
LIST_MISSING = """
SELECT item FROM duly_scope_items WHERE root = ? AND is_expected AND times = 0
ORDER BY item LIMIT ?"""
LIST_DONE = """
SELECT i.item FROM json_each(?2) wanted
JOIN duly_scope_items i ON i.root = ?1 AND i.item = wanted.value WHERE i.times > 0"""


def write_scope(work: Work, hold: ClaimRef, report: ItemReport) -> None:
    """Keep what an attempt that is ours says about its scope."""
    connection, root = work.connection, find_ledger(work.connection, hold.run_id)
    if report.expected is not None:
        connection.execute(EXPECT, (root, report.expected))
    connection.executemany(NAME_ITEM, [(root, item) for item in report.names])
    connection.executemany(DO_ITEM, [(root, item, *hold, work.now) for item in report.done])
    connection.executemany(REPEAT_ITEM, [(root, item) for item in report.repeated])


def get_scope(look: Look, run_id: RunId) -> Scope:
    """Return what is known of a run's scope."""
    return read_scope(look.connection, run_id)


def read_scope(connection: apsw.Connection, run_id: RunId) -> Scope:
    """Read what is known of a run's scope."""
    root = find_ledger(connection, run_id)
    if root is None:
        return Scope()
    expected = connection.execute(READ_EXPECTED, (root,)).fetchone()
    done, repeated = one(connection, COUNT_ITEMS, (root,))
    missing = connection.execute(LIST_MISSING, (root, MISSING_SHOWN_MAX))
    names = tuple(item for (item,) in missing)
    return Scope(None if expected is None else expected[0], done, repeated, names)


def list_done(look: Look, run_id: RunId, items: Sequence[str]) -> frozenset[str]:
    """Return those of some items that are done."""
    connection, root = look.connection, find_ledger(look.connection, run_id)
    if root is None:
        return frozenset()
    found = connection.execute(LIST_DONE, (root, json.dumps(list(items))))
    return frozenset(item for (item,) in found)
