"""Promises out of the memory store and into it, all of them at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from duly.store.exporting import PAGED, Exporting
from duly.store.importing import GATE, KEY, NAME, PENDING, THERE, Importing
from duly.store.memory.moved_rows import read_tables
from duly.store.memory.ownership import seems_alive
from duly.store.memory.taken_rows import write_row, write_schedule
from duly.store.ports.transfer import IMPORTED, PAGE, Exported

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.domain.audit import AuditSubject
    from duly.domain.ids import RunId
    from duly.store.memory.tables import Journal
    from duly.store.ports.dispatch import TimerKind
    from duly.store.ports.transfer import ImportPromises, Part, PartRow, Value


def export_promises(journal: Journal, *, has_history: bool) -> Exported:
    """Return all that is promised; it is read at once, as all of it is in memory anyway."""
    tables = journal.tables
    alive = sum(seems_alive(journal, member.id) for member in tables.members.values())
    bundles = list(MemoryExporting(journal, has_history=has_history).bundles())
    return Exported(journal.now, tables.cluster["program_min"], alive, iter(bundles))


class MemoryExporting(Exporting):
    """Reads the tables as rows."""

    def __init__(self, journal: Journal, *, has_history: bool) -> None:
        super().__init__(has_history=has_history, as_of=journal.now)
        self._rows = read_tables(journal)
        self._closed = {row["run_id"] for row in self._rows.get("outcomes", ())}
        self._by_owner: dict[tuple[str, str], dict[Value, list[PartRow]]] = {}

    def page(self, part: Part, after: PartRow | None, condition: str | None) -> list[PartRow]:
        """Return the next rows of a part."""
        found = [
            row
            for row in self._sorted(part)
            if (condition is None or row["id"] not in self._closed)
            and (after is None or _key(part, row) > _key(part, after))
        ]
        return found[:PAGE] if part.name in PAGED else found

    def belonging(self, part: Part, column: str, keys: Sequence[Value]) -> list[PartRow]:
        """Return the rows of a part that belong to some heads."""
        known = self._by_owner.get((part.name, column))
        if known is None:
            known = self._by_owner[part.name, column] = {}
            for row in self._sorted(part):
                known.setdefault(row[column], []).append(row)
        return [row for key in keys for row in known.get(key, ())]

    def _sorted(self, part: Part) -> list[PartRow]:
        return sorted(self._rows.get(part.name, ()), key=lambda row: _key(part, row))


class MemoryImporting(Importing):
    """Writes into the tables, through one journal."""

    def __init__(self, journal: Journal, command: ImportPromises) -> None:
        super().__init__(command, now=journal.now, shards=journal.tables.shards)
        self._journal = journal
        self._tables = journal.tables
        self._schedules: dict[Value, PartRow] = {}
        self._states: dict[Value, PartRow] = {}
        self._tried: list[RunId] = []

    def is_known(self) -> bool:
        """Say whether this export was imported before."""
        entries = self._tables.audit.values()
        return any((one.action, one.subject_id) == (IMPORTED, self._command.id) for one in entries)

    def problems(self, part: str, rows: Sequence[PartRow]) -> list[str | None]:
        """Say what is in the way of each row."""
        return [self._problem(part, row) for row in rows]

    def _problem(self, part: str, row: PartRow) -> str | None:  # noqa: PLR0911 - by part
        tables = self._tables
        identity, tenant = row.get("id"), row.get("tenant")
        match part:
            case "schedules":
                if identity in tables.schedules:
                    return THERE
                is_taken = (tenant, row["name"]) in tables.names
                return NAME if row["status"] != "deleted" and is_taken else None
            case "delayed":
                if identity in tables.delayed or identity in tables.runs:
                    return THERE
                return KEY if (tenant, row["key"]) in tables.keys else None
            case "runs":
                if identity in tables.runs:
                    return THERE
                return PENDING if identity in tables.delayed else None
            case "held_gates":
                return GATE if row["gate"] in tables.held_gates.values() else None
            case _:
                return THERE if identity in tables.backfills else None

    def write(self, part: str, rows: Sequence[PartRow]) -> int:
        """Write rows, unless they are there."""
        if part == "schedules":
            # Written once their state and their definitions have come.
            self._schedules = {row["id"]: row for row in rows}
            return len(rows)
        if part == "schedule_state":
            self._states = {row["schedule_id"]: row for row in rows}
            return len(rows)
        if part == "retry_slots":
            rows = [row for row in rows if row["task"] not in self._tables.retry_slots]
        written = sum(write_row(self._journal, part, row) for row in rows)
        if part == "schedule_definitions":
            for schedule_id, schedule in self._schedules.items():
                write_schedule(self._journal, schedule, self._states[schedule_id])
        if part == "runs":
            self._tried += [cast("RunId", row["id"]) for row in rows]
        if part == "limits" and written:
            version = self._tables.cluster["limits_version"] + 1
            self._journal.put(self._tables.cluster, "limits_version", version)
        return written

    def write_holders(self, rows: Sequence[PartRow]) -> None:
        """Write workers that hold claims as members whose time is over."""
        for row in rows:
            self._journal.remove(self._tables.workers, cast("int", row["id"]))
            write_row(self._journal, "members", row)

    def announce(self, kind: str, timers: Sequence[tuple[bytes, int, int]]) -> None:
        """Tell dispatchers of timers that fall due soon."""
        for ref, due_at, _ in timers:
            self._journal.announce(cast("TimerKind", kind), ref, due_at)

    def finish(self, subject: AuditSubject) -> None:
        """Write the oldest program that may go on, and the audit entry."""
        for run_id in self._tried:
            count_unbegun(self._journal, run_id)
        cluster = self._tables.cluster
        raised = max(cluster["program_min"], self._command.program_min)
        self._journal.put(cluster, "program_min", raised)
        self._journal.record_about(self._command.actor, IMPORTED, subject)


def count_unbegun(journal: Journal, run_id: RunId) -> None:
    """Note how many claims of a run are on no record: all that were put off before it began."""
    tables = journal.tables
    outcome, claim = tables.outcomes.get(run_id), tables.claims.get(run_id)
    if outcome is not None:
        fence, holds = outcome.tries.fence, outcome.claim is not None
    elif claim is not None:
        fence, holds = claim.tries.fence, True
    else:
        places = (tables.ready, tables.waiting, tables.dead, tables.in_doubt, tables.blocked)
        fence, holds = (
            next(place[run_id].tries.fence for place in places if run_id in place),
            False,
        )
    ended = sum(known == run_id for known, _ in tables.attempts) if fence else 0
    if fence > ended + holds:
        journal.put(tables.unbegun, run_id, fence - ended - holds)


def _key(part: Part, row: PartRow) -> tuple[Value, ...]:
    return tuple(row[name] for name in part.key)
