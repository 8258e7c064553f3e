"""The scope of runs: what is expected, and which items are done."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.domain.ids import RunId
from duly.domain.verification import MISSING_SHOWN_MAX, Scope
from duly.store.postgres.arrays import Texts, Uuids
from duly.store.postgres.effects import LEDGER, ledger_of, ledgers_of
from duly.store.postgres.session import one, uid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.domain.verification import ItemReport
    from duly.store.ports.execution import ClaimRef
    from duly.store.postgres.session import Session
    from duly.store.postgres.work import Work

EXPECT = """
INSERT INTO duly.scopes (root, expected) VALUES ($1::uuid, $2::int8)
ON CONFLICT (root) DO UPDATE SET expected = excluded.expected"""
EXPECT_NAMES = """
INSERT INTO duly.scope_items (root, item, is_expected, times)
SELECT $1::uuid, item, true, 0 FROM pg_catalog.unnest($2::text[]) item
ON CONFLICT (root, item) DO UPDATE SET is_expected = true WHERE NOT scope_items.is_expected"""
# The same attempt saying it again is a lost answer, and no second time.
DO_ITEMS = """
INSERT INTO duly.scope_items (root, item, is_expected, times, run_id, fence, at)
SELECT $1::uuid, item, false, 1, $3::uuid, $4::int4, $5::int8
FROM pg_catalog.unnest($2::text[]) item
ON CONFLICT (root, item) DO UPDATE
SET times = scope_items.times + 1, run_id = excluded.run_id, fence = excluded.fence,
    at = excluded.at
WHERE (scope_items.run_id, scope_items.fence) IS DISTINCT FROM (excluded.run_id, excluded.fence)"""
# One attempt has reported them more than once: told again, this changes nothing. Their rows are
# locked already, in order, as those of items done.
REPEAT_ITEMS = """
UPDATE duly.scope_items SET times = 2
WHERE root = $1::uuid AND item = ANY($2::text[]) AND times < 2"""
READ_SCOPE = """
SELECT (SELECT expected FROM duly.scopes WHERE root = $1::uuid),
    count(*) FILTER (WHERE times > 0), count(*) FILTER (WHERE times > 1)
FROM duly.scope_items WHERE root = $1::uuid"""
LIST_MISSING = """
SELECT item FROM duly.scope_items WHERE root = $1::uuid AND is_expected AND times = 0
ORDER BY item LIMIT $2::int8"""
_ROOTS = f"""
FROM (SELECT r.id, {LEDGER} AS root FROM duly.runs r WHERE r.id = ANY($1::uuid[])) l"""  # noqa: S608 - columns of ours
READ_SCOPES = f"""
SELECT uuid_send(l.id), s.expected, i.done, i.repeated {_ROOTS}
LEFT JOIN duly.scopes s ON s.root = l.root
CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE times > 0) AS done, count(*) FILTER (WHERE times > 1) AS repeated
    FROM duly.scope_items WHERE root = l.root) i"""  # noqa: S608 - columns of ours
LIST_MANY_MISSING = f"""
SELECT uuid_send(l.id), m.item {_ROOTS}
CROSS JOIN LATERAL (
    SELECT item FROM duly.scope_items WHERE root = l.root AND is_expected AND times = 0
    ORDER BY item LIMIT $2::int8) m
ORDER BY l.id, m.item"""  # noqa: S608 - columns of ours
LIST_DONE = """
SELECT item FROM duly.scope_items WHERE root = $1::uuid AND item = ANY($2::text[]) AND times > 0"""


def write_scopes(work: Work, told: Sequence[tuple[ClaimRef, ItemReport | None]]) -> None:
    """Keep what attempts that are ours say about their scopes."""
    reports = [(hold, report) for hold, report in told if report is not None]
    if not reports:
        return
    roots = ledgers_of(work.session, [hold.run_id for hold, _ in reports])
    # Lines, and within them items, in an order that everybody keeps.
    for hold, report in sorted(reports, key=lambda pair: roots[pair[0].run_id]):
        _write(work, roots[hold.run_id], hold, report)


def _write(work: Work, root: RunId, hold: ClaimRef, report: ItemReport) -> None:
    session, of = work.session, uid(root)
    if report.expected is not None:
        session.run(EXPECT, (of, report.expected))
    if report.names:
        session.run(EXPECT_NAMES, (of, Texts(sorted(set(report.names)))))
    if report.done:
        values = (of, Texts(sorted(set(report.done))), uid(hold.run_id), hold.fence, work.now)
        session.run(DO_ITEMS, values)
    if report.repeated:
        session.run(REPEAT_ITEMS, (of, Texts(sorted(set(report.repeated)))))


def get_scope(session: Session, run_id: RunId) -> Scope:
    """Return what is known of a run's scope."""
    root = ledger_of(session, run_id)
    if root is None:
        return Scope()
    expected, done, repeated = one(session, READ_SCOPE, (uid(root),))
    missing = session.rows(LIST_MISSING, (uid(root), MISSING_SHOWN_MAX))
    return Scope(expected, done, repeated, tuple(item for (item,) in missing))


def get_scopes(session: Session, run_ids: Sequence[RunId]) -> dict[RunId, Scope]:
    """Return what is known of the scopes of those runs that there are."""
    ids = Uuids(run_ids)
    missing: dict[bytes, list[str]] = {}
    for of, item in session.rows(LIST_MANY_MISSING, (ids, MISSING_SHOWN_MAX)):
        missing.setdefault(of, []).append(item)
    return {
        RunId(of): Scope(expected, done, repeated, tuple(missing.get(of, ())))
        for of, expected, done, repeated in session.rows(READ_SCOPES, (ids,))
    }


def list_done(session: Session, run_id: RunId, items: Sequence[str]) -> frozenset[str]:
    """Return those of some items that are done."""
    root = ledger_of(session, run_id)
    if root is None:
        return frozenset()
    found = session.rows(LIST_DONE, (uid(root), Texts(list(items))))
    return frozenset(item for (item,) in found)
