"""Fair shares between tenants, as a part of the statement that claims (`domain/admission.py`).

For each priority of a queue the tenants are looked for along the index, one after the other and
only as they are wanted: what a queue holds is not counted. Their shares are divided at a row of
each one's line: up to it the line is taken in the first round, beyond it in the second, so that no
row is picked twice, whatever others hold. Whom the claim could not name, because there are more of
them than it may take runs, comes after that.
"""

from __future__ import annotations

from typing import NamedTuple

FIRST_ROW = (1 - (1 << 63), "00000000-0000-0000-0000-000000000000")
LAST_ROW = ((1 << 63) - 1, "ffffffff-ffff-ffff-ffff-ffffffffffff")
"""What comes before all ranks and runs, and what after."""


class Terms(NamedTuple):
    """What a claim wants, apart from how much of which queues."""

    first: str
    """The parameter with the priority that it begins with."""
    without: str | None
    """That with the tasks whose runs it passes over, if there are any."""
    is_newest: bool
    """Whether it wants the newest of the first priority alone."""


# From name to name along the index, and round, from wherever it is to begin.
_RING = """
WITH RECURSIVE up(name) AS (
    (SELECT r.{name} FROM duly.ready r WHERE {line} AND r.{name} >= {begin}
    ORDER BY r.{name} LIMIT 1)
    UNION ALL
    SELECT (SELECT r.{name} FROM duly.ready r WHERE {line} AND r.{name} > f.name
    ORDER BY r.{name} LIMIT 1)
    FROM up f WHERE f.name IS NOT NULL),
round(name) AS (
    (SELECT r.{name} FROM duly.ready r WHERE {line} AND r.{name} < {begin}
    ORDER BY r.{name} LIMIT 1)
    UNION ALL
    SELECT (SELECT r.{name} FROM duly.ready r WHERE {line} AND r.{name} > f.name
        AND r.{name} < {begin}
    ORDER BY r.{name} LIMIT 1)
    FROM round f WHERE f.name IS NOT NULL)"""
_ALONG = """
    SELECT f.name FROM up f WHERE f.name IS NOT NULL
    UNION ALL
    SELECT f.name FROM round f WHERE f.name IS NOT NULL"""

# Who has a line to himself has no need of shares, and nothing of it is read ahead.
_LINES = """
ring AS MATERIALIZED ({along}),
named AS MATERIALIZED (
    SELECT t.name, count(*) OVER () AS many, (
        SELECT count(*) = 1 FROM (SELECT FROM ring LIMIT 2) two) AS is_alone
    FROM (SELECT name FROM ring LIMIT q.most) t),
divided AS MATERIALIZED (
    SELECT t.name, t.is_alone, d.rank, d.run_id FROM named t LEFT JOIN LATERAL (
        SELECT r.rank, r.run_id FROM duly.ready r
        WHERE t.many > 1 AND r.queue = q.name AND r.priority = b.name AND r.tenant = t.name{known}
        ORDER BY {order} OFFSET q.most / t.many - 1 LIMIT 1) d ON true)
SELECT name, is_alone, {shares} FROM divided
UNION ALL
SELECT name, is_alone, {rests} FROM divided WHERE rank IS NOT NULL
UNION ALL
SELECT name, false, {all} FROM (SELECT name FROM ring OFFSET q.most) others"""

_OF_LINES = """
SELECT p.* FROM ({priorities}) b
CROSS JOIN LATERAL ({lines}) l(tenant, is_alone, from_rank, from_run, to_rank, to_run)
CROSS JOIN LATERAL (
    SELECT {columns}, l.is_alone FROM duly.ready r
    WHERE r.queue = q.name AND r.priority = b.name AND r.tenant = l.tenant
        AND (r.rank, r.run_id) {above} (l.from_rank, l.from_run)
        AND (r.rank, r.run_id) {below} (l.to_rank, l.to_run){known}
    ORDER BY {order} LIMIT q.most FOR UPDATE OF r SKIP LOCKED) p"""

# Runs of tasks that the worker is to do without are passed over before they are locked.
IS_KNOWN = """
            AND (SELECT k.task FROM duly.runs k WHERE k.id = r.run_id) <> ALL({}::text[])"""


def shares(columns: str, terms: Terms) -> str:
    """Return what picks rows of the queue `q`, which has a name, how many, and where to begin."""
    first_row, last_row = (f"{rank}::int8, '{run}'::uuid" for rank, run in (FIRST_ROW, LAST_ROW))
    here = "rank, run_id"
    there = f"coalesce(rank, {LAST_ROW[0]}::int8), coalesce(run_id, '{LAST_ROW[1]}'::uuid)"
    from_here = f"coalesce(rank, {FIRST_ROW[0]}::int8), coalesce(run_id, '{FIRST_ROW[1]}'::uuid)"
    known = "" if terms.without is None else IS_KNOWN.format(terms.without)
    order = "r.rank DESC, r.run_id DESC" if terms.is_newest else "r.rank, r.run_id"
    begin = f"{terms.first}::int4"
    priorities = _RING.format(name="priority", line="r.queue = q.name", begin=begin) + _ALONG
    line = "r.queue = q.name AND r.priority = b.name"
    lines = _LINES.format(
        along=_ALONG,
        known=known,
        order=order,
        shares=f"{from_here}, {last_row}" if terms.is_newest else f"{first_row}, {there}",
        rests=f"{first_row}, {here}" if terms.is_newest else f"{here}, {last_row}",
        all=f"{first_row}, {last_row}",
    )
    return _OF_LINES.format(
        priorities=f"({priorities}) LIMIT 1" if terms.is_newest else priorities,
        lines=f"{_RING.format(name='tenant', line=line, begin='q.begin')},{lines}",
        columns=columns,
        above=">=" if terms.is_newest else ">",
        below="<" if terms.is_newest else "<=",
        known=known,
        order=order,
    )
