"""Sealing the audit trail in a file: whatever is there is settled, for one writes at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.domain.audit import make_seal
from duly.domain.enums import Lane
from duly.store import records
from duly.store.ports.audit import TALLY, TrailMarks, read_seal, seal_row
from duly.store.sqlite import rows
from duly.store.sqlite.leases import held_shards

if TYPE_CHECKING:
    from duly.domain.audit import AuditEntry, Seal
    from duly.store.ports.audit import SealAudit
    from duly.store.sqlite.work import Look, Work

_SEAL = "SELECT number, after, through, format, entries, hash, sealed_at, sealed_by FROM duly_seals"
LAST = f"{_SEAL} ORDER BY number DESC LIMIT 1"
AFTER = f"{_SEAL} WHERE number > ? ORDER BY number LIMIT ?"
INSERT = """
INSERT INTO duly_seals (number, after, through, format, entries, hash, sealed_at, sealed_by)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)"""
SEALED = "SELECT count FROM duly_tallies WHERE name = ?"
DRAWN = "SELECT seq FROM sqlite_sequence WHERE name = 'duly_audit'"
NOTE = """
INSERT INTO duly_tallies (name, count) VALUES (?, ?)
ON CONFLICT (name) DO UPDATE SET count = excluded.count"""
ENTRIES_AFTER = f"{rows.AUDIT} WHERE number > ? ORDER BY number LIMIT ?"


def seal_audit(work: Work, command: SealAudit) -> Seal | None:
    """Write the next seal, if the maintenance lease is ours."""
    held, _ = held_shards(work, command.fence, Lane.BACKFILL)
    if 0 not in held:
        return None
    row = work.connection.execute(LAST).fetchone()
    last = None if row is None else read_seal(row)
    entries = read_trail(work, 0 if last is None else last.through, command.limit)
    if not entries:
        return None
    made = work.connection.execute(SEALED, (TALLY,)).get or 0
    seal = make_seal(last, entries, now=work.now, by=command.fence.member, made=made)
    work.connection.execute(INSERT, seal_row(seal))
    work.connection.execute(NOTE, (TALLY, seal.number))
    return seal


def trail_marks(look: Look) -> TrailMarks:
    """Return the highest numbers of entries and seals, as noted apart from them.

    A transaction that is rolled back gives its numbers back.
    """
    sealed = look.connection.execute(SEALED, (TALLY,)).get
    drawn = look.connection.execute(DRAWN).get
    return TrailMarks(sealed=sealed, drawn=drawn or 0, is_gapless=True)


def list_seals(look: Look, after: int, limit: int) -> list[Seal]:
    """Return seals of higher numbers."""
    return [read_seal(row) for row in look.connection.execute(AFTER, (after, limit))]


def read_trail(look: Look | Work, after: int, limit: int) -> list[AuditEntry]:
    """Return entries of higher numbers."""
    found = look.connection.execute(ENTRIES_AFTER, (after, limit))
    return [records.audit_entry(row) for row in found]
