"""Answering "it is there already" as durably as if it were written now.

After a crash a server may show what it has committed and no standby has yet. Who finds it there and
only reads would acknowledge it without waiting for a standby: it could still be lost. A row that is
locked leaves a mark in the log, and the commit of that waits like any other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.store.postgres.arrays import Uuids

if TYPE_CHECKING:
    from collections.abc import Collection

    from duly.store.postgres.work import Work

HOLD_RUNS = "SELECT 1 FROM duly.runs WHERE id = ANY($1::uuid[]) ORDER BY id FOR KEY SHARE"
HOLD_DELAYED = "SELECT 1 FROM duly.delayed WHERE id = ANY($1::uuid[]) ORDER BY id FOR KEY SHARE"
HOLD_SCHEDULES = "SELECT 1 FROM duly.schedules WHERE id = ANY($1::uuid[]) ORDER BY id FOR KEY SHARE"


def confirm_runs(work: Work, ids: Collection[bytes]) -> None:
    """Confirm runs that are there already, fired or pending."""
    if ids:
        work.session.run(HOLD_DELAYED, (Uuids([*ids]),))
        work.session.run(HOLD_RUNS, (Uuids([*ids]),))


def confirm_schedule(work: Work, schedule_id: bytes) -> None:
    """Confirm a schedule that is there already."""
    work.session.run(HOLD_SCHEDULES, (Uuids([schedule_id]),))
