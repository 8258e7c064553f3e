"""How many bytes a row takes in PostgreSQL, table by table, with its indexes: for docs/scaling.md.

    .venv/bin/python -m bench.parts.widths [--rows 100000] [--runs 20000]

Schedules and delayed runs are filled in as everywhere; some of the latter are due and are run to
their end, so that there are runs and outcomes, too.
"""

from __future__ import annotations

import argparse

from bench import tables
from bench.parts.processes import wait
from bench.parts.work_cost import at_work
from bench.stores.database import Database, boot
from bench.stores.places import CLOCK, SECOND_US, Promise, far_away, number

SIZES = """
SELECT c.relname, sum(pg_relation_size(p.relid)), sum(pg_indexes_size(p.relid))
FROM pg_class c CROSS JOIN LATERAL pg_partition_tree(c.oid) p
WHERE c.relnamespace = 'duly'::regnamespace AND c.relname = '{table}' AND p.isleaf
GROUP BY 1"""
WHOLE = """
SELECT c.relname, pg_relation_size(c.oid), pg_indexes_size(c.oid) FROM pg_class c
WHERE c.relnamespace = 'duly'::regnamespace AND c.relname = '{table}' AND c.relkind = 'r'"""
TABLES = ("schedules", "schedule_definitions", "schedule_state", "delayed", "runs", "outcomes")
FINISHED = "SELECT count(*) FROM duly.outcomes"
SLOTS = 500


def widths(rows: int, runs: int) -> list[str]:
    """Fill a database, run some of it, and weigh every table."""
    lines = tables.header("table", "rows", "bytes a row", "bytes of its indexes", "together")
    with boot() as server:
        place = Database(server)
        due_at = CLOCK.now_us() + 3 * SECOND_US
        place.fill(
            far_away(rows), [*far_away(rows), *(Promise(due_at=due_at) for _ in range(runs))]
        )
        _weigh(place, TABLES[:4], lines)
        with at_work(place.url, SLOTS):
            wait(lambda: number(place, FINISHED) >= runs)
        _weigh(place, TABLES[4:], lines)
        place.remove()
    return lines


def _weigh(place: Database, names: tuple[str, ...], lines: list[str]) -> None:
    for table in names:
        count = number(place, f"SELECT count(*) FROM duly.{table}")  # noqa: S608
        found = place.rows(WHOLE.format(table=table)) or place.rows(SIZES.format(table=table))
        ((_, heap, indexes),) = found
        each = [f"{int(size) / count:,.0f}" for size in (heap, indexes, heap + indexes)]
        lines.append(tables.row(table, f"{count:,}", *each))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=20_000)
    options = parser.parse_args()
    print("\n".join(widths(options.rows, options.runs)))


if __name__ == "__main__":
    main()
