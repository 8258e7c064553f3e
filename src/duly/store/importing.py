"""Importing: what every store does with promises that come from another one.

All of it happens in one transaction, so that nothing fires, is claimed or is settled by halves, and
whoever dies in the middle has changed nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from hashlib import blake2b
from itertools import groupby, islice
from typing import TYPE_CHECKING, cast

from duly.domain.audit import AuditSubject
from duly.domain.enums import Lane
from duly.domain.ids import ScheduleId, identity_text, shard_of
from duly.domain.policies import gate_of
from duly.errors import Conflict
from duly.store.gathering import LANE_OFFSETS, share_of
from duly.store.ports.transfer import LEDGER, PAGE, PARTS, Imported, OnConflict, TransferUnit
from duly.store.records import read_definition, stored_arguments

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from duly.store.ports.transfer import ImportPromises, PartRow, Value

ARGUMENTS_MAX = 200
"""Longer ones are not copied to where they are at hand."""
SHOWN_MAX = 5
THERE, NAME, KEY, GATE, PENDING = "there", "name", "key", "gate", "pending"

# With `h` for the row that comes, so that both databases can ask.
PROBLEMS = {
    "schedules": """CASE WHEN EXISTS (SELECT 1 FROM duly_schedules t WHERE t.id = h.id) THEN 'there'
        WHEN h.status <> 'deleted' AND EXISTS (SELECT 1 FROM duly_schedules t
            WHERE t.tenant = h.tenant AND t.name = h.name AND t.status <> 'deleted')
            THEN 'name' END""",
    "delayed": """CASE WHEN EXISTS (SELECT 1 FROM duly_delayed t WHERE t.id = h.id)
            OR EXISTS (SELECT 1 FROM duly_runs t WHERE t.id = h.id) THEN 'there'
        WHEN EXISTS (SELECT 1 FROM duly_delayed t WHERE t.tenant = h.tenant AND t.key = h.key)
            THEN 'key' END""",
    "runs": """CASE WHEN EXISTS (SELECT 1 FROM duly_runs t WHERE t.id = h.id) THEN 'there'
        WHEN EXISTS (SELECT 1 FROM duly_delayed t WHERE t.id = h.id) THEN 'pending' END""",
    "held_gates": """CASE WHEN EXISTS (SELECT 1 FROM duly_held_gates t WHERE t.gate = h.gate)
        THEN 'gate' END""",
    "backfills": """CASE WHEN EXISTS (SELECT 1 FROM duly_backfills t WHERE t.id = h.id)
        THEN 'there' END""",
}
"""What is in the way of a row, as an expression; NULL for nothing."""
_SAID = {
    THERE: "is there already",
    NAME: "is the name of another schedule there",
    KEY: "is the key of another delayed run there",
    GATE: "goes through a gate that another run holds there",
    PENDING: "is still pending there",
}
SHARED = frozenset(
    (
        "workers",
        "tasks",
        "retry_slots",
        "task_orders",
        "queues",
        "limits",
        "quotas",
        "alert_terms",
        "paces",
        "breakers",
        *LEDGER,
    )
)
"""What may be there already: set by somebody here, or brought by another run of the same line. Then
that holds. Anything else is new, or in nobody's way."""
_TALLIED = {"delayed": "delayed", "waiting": "retrying", "dead": "dead"}


class _NotMeantError(Exception):
    """Ends the transaction of an import that was only to be tried."""

    def __init__(self, imported: Imported) -> None:
        self.imported = imported
        super().__init__("a trial")


def tried(carry_out: Callable[[], Imported]) -> Imported:
    """Carry an import out in a transaction of its own; of a trial nothing is left."""
    try:
        return carry_out()
    except _NotMeantError as trial:
        return trial.imported


class Importing(ABC):
    """An import while it is carried out, in the transaction of a store."""

    def __init__(self, command: ImportPromises, *, now: int, shards: int) -> None:
        self._command = command
        self._now = now
        self._shards = shards
        self._taken: Counter[str] = Counter()
        self._skipped: Counter[str] = Counter()
        self._left_out: set[Value] = set()
        """Schedules and backfills that were left out: what refers to them is, too."""
        self._workers: dict[int, PartRow] = {}
        self._holders: set[int] = set()
        self._conflicts: list[str] = []
        self.tallies: Counter[str] = Counter()
        """How much more there is of what is counted."""

    @abstractmethod
    def is_known(self) -> bool:
        """Say whether this export was imported before."""

    @abstractmethod
    def problems(self, part: str, rows: Sequence[PartRow]) -> list[str | None]:
        """Say what is in the way of each row, by PROBLEMS."""

    @abstractmethod
    def write(self, part: str, rows: Sequence[PartRow]) -> int:
        """Write rows; of a part that is SHARED those that are not there. Return how many."""

    @abstractmethod
    def write_holders(self, rows: Sequence[PartRow]) -> None:
        """Write workers that hold claims as members whose time is over."""

    @abstractmethod
    def announce(self, kind: str, timers: Sequence[tuple[bytes, int, int]]) -> None:
        """Tell dispatchers of timers (ref, due, shard) that fall due soon."""

    @abstractmethod
    def finish(self, subject: AuditSubject) -> None:
        """Write tallies, the oldest program that may go on, and the audit entry."""

    def carry_out(self) -> Imported:
        """Write everything that is not there."""
        command = self._command
        if self.is_known():
            return Imported({}, {}, is_repeated=True)
        if self._now < command.as_of:
            problem = "is behind the clock of the store that was exported"
            remedy = f"set it right, or wait {-(-(command.as_of - self._now) // 1_000_000)} s"
            raise Conflict("clock", "of this store", problem, remedy)
        for _, group in groupby(command.bundles, key=lambda bundle: bundle.kind.name):
            while page := list(islice(group, PAGE)):
                self._take(page)
        if self._conflicts:
            raise self._conflict()
        after = {"source": command.source, "as_of": command.as_of, **self._taken}
        self.finish(AuditSubject(name=command.source, id=command.id, after=after))
        imported = Imported(dict(self._taken), dict(self._skipped))
        if command.is_dry_run:
            raise _NotMeantError(imported)
        return imported

    def _conflict(self) -> Conflict:
        count = self._skipped.total()
        problem = f"{count:,} promises can't be taken in: {'; '.join(self._conflicts)}"
        remedy = "import into an empty store, or give --on-conflict skip to leave them out"
        return Conflict("import", self._command.source, problem, remedy)

    def _take(self, page: list[TransferUnit]) -> None:
        kind = page[0].kind
        if kind.head == "workers":
            self._take_workers(page)
            return
        new = [bundle for bundle in self._without_conflicts(page) if self._is_wanted(bundle)]
        parts: dict[str, list[PartRow]] = {}
        for bundle in new:
            for name, rows in completed(bundle, self._shards).items():
                parts.setdefault(name, []).extend(rows)
        written = 0
        for name, rows in parts.items():
            self._meet_workers(name, rows)
            count = self.write(name, rows)
            self._count(name, rows, count)
            written += count if name == kind.head else 0
        self._tell(parts)
        self._taken[kind.name] += written

    def _without_conflicts(self, page: list[TransferUnit]) -> list[TransferUnit]:
        """Return those bundles in whose way there is nothing."""
        in_the_way: dict[int, str] = {}
        for name in page[0].kind.parts:
            if name in PROBLEMS:
                found = [
                    (place, row)
                    for place, bundle in enumerate(page)
                    for row in bundle.rows.get(name, ())
                ]
                if found:
                    said = self.problems(name, [row for _, row in found])
                    for (place, _), problem in zip(found, said, strict=True):
                        if problem is not None:
                            in_the_way.setdefault(place, problem)
        for place, problem in in_the_way.items():
            self._leave_out(page[place])
            if self._command.on_conflict is OnConflict.FAIL and len(self._conflicts) < SHOWN_MAX:
                self._conflicts.append(f"{label(page[place])} {_SAID[problem]}")
        return [bundle for place, bundle in enumerate(page) if place not in in_the_way]

    def _is_wanted(self, bundle: TransferUnit) -> bool:
        """Say whether what a bundle refers to was taken in."""
        owner = bundle.head.get("backfill_id") or bundle.head.get("schedule_id")
        if owner is None or owner not in self._left_out:
            return True
        self._leave_out(bundle)
        return False

    def _leave_out(self, bundle: TransferUnit) -> None:
        self._skipped[bundle.kind.name] += 1
        if bundle.kind.head in {"schedules", "backfills"}:
            self._left_out.add(bundle.head["id"])

    def _take_workers(self, page: list[TransferUnit]) -> None:
        for bundle in page:
            row = dict(bundle.head)
            known = cast("int", row["id"])
            row["id"] = foreign_worker(self._command.id, known)
            row["ended_at"] = row["ended_at"] or self._command.as_of
            row["expires_at"] = min(cast("int", row["expires_at"]), self._command.as_of)
            self._workers[known] = row
        rows = [self._workers[cast("int", one.head["id"])] for one in page]
        self._taken["worker"] += self.write("workers", rows)

    def _meet_workers(self, part: str, rows: list[PartRow]) -> None:
        """Give the workers of another store names that nobody has here."""
        if part not in {"claims", "attempts", "outcomes"}:
            return
        holders: list[PartRow] = []
        for row in rows:
            known = cast("int | None", row["worker"])
            if known is None:
                continue
            row["worker"] = foreign_worker(self._command.id, known)
            if part == "claims" and known not in self._holders:
                self._holders.add(known)
                holders.append(self._workers.get(known) or self._stranger(known))
        if holders:
            self.write_holders(holders)

    def _stranger(self, known: int) -> PartRow:
        at = self._command.as_of
        own = foreign_worker(self._command.id, known)
        names = ("started_at", "renewed_at", "expires_at", "ended_at")
        row: PartRow = {"id": own, "host": "", "process": 0}
        return {**row, **dict.fromkeys(names, at)}

    def _count(self, part: str, rows: list[PartRow], count: int) -> None:
        if part == "schedules":
            self.tallies.update(str(row["status"]) for row in rows)
        elif part in _TALLIED:
            self.tallies[_TALLIED[part]] += count

    def _tell(self, parts: dict[str, list[PartRow]]) -> None:
        for part, kind, due, ref in (
            ("schedule_state", "schedule", "next_due", "schedule_id"),
            ("delayed", "delayed", "due_at", "id"),
            ("waiting", "retry", "due_at", "run_id"),
        ):
            timers = [
                cast("tuple[bytes, int, int]", (row[ref], row[due], row["shard"]))
                for row in parts.get(part, ())
                if row[due] is not None
            ]
            if timers:
                self.announce(kind, timers)


def completed(bundle: TransferUnit, shards: int) -> dict[str, list[PartRow]]:
    """Return the rows of a bundle with what follows from others, under the names of columns."""
    rows = {name: [dict(row) for row in found] for name, found in bundle.rows.items()}
    if bundle.kind.head == "schedules":
        _complete_schedule(rows, shards)
    if bundle.kind.head == "runs":
        _complete_run(rows)
    for name, ref in (("owed", "schedule_id"), ("delayed", "id"), ("waiting", "run_id")):
        for row in rows.get(name, ()):
            row["shard"] = shard_of(cast("bytes", row[ref]), shards)
    return rows


def _complete_schedule(rows: dict[str, list[PartRow]], shards: int) -> None:
    (schedule,), (state,) = rows["schedules"], rows["schedule_state"]
    number = state["definition_number"]
    text = next(
        str(row["definition"]) for row in rows["schedule_definitions"] if row["number"] == number
    )
    definition = read_definition(text)
    arguments = stored_arguments(text)
    identity = ScheduleId(cast("bytes", schedule["id"]))
    tenant = str(schedule["tenant"])
    gate = gate_of(definition.overlap, tenant, identity, definition.serialize_by)
    state |= {
        "shard": shard_of(identity, shards),
        "tenant": tenant,
        "task": definition.call.task,
        "queue": definition.call.queue,
        "priority": definition.call.priority,
        "overlap": str(definition.overlap),
        "gate": gate,
        "name": schedule["name"],
        "arguments": arguments if len(arguments) <= ARGUMENTS_MAX else None,
    }


def _complete_run(rows: dict[str, list[PartRow]]) -> None:
    (run,) = rows["runs"]
    is_gated = bool(rows.get("held_gates") or rows.get("held_places"))
    for row in rows.get("ready", ()):
        offset = LANE_OFFSETS[Lane(str(run["lane"]))]
        own = cast("int", run["priority"]) + offset
        row["priority"] = own if row["priority"] is None else row["priority"]
        row["queue"], row["tenant"] = run["queue"], share_of(str(run["tenant"]))
        row["is_gated"] = is_gated
    for row in rows.get("claims", ()):
        row["is_gated"] = True  # its end is looked at by itself, whatever it holds


def label(bundle: TransferUnit) -> str:
    """Return how a message calls a bundle."""
    head = bundle.head
    name = str(head.get("name") or head.get("key") or "")
    if not name:
        keys = [head[key] for key in PARTS[bundle.kind.head].key]
        name = " ".join(identity_text(key) if isinstance(key, bytes) else str(key) for key in keys)
    return f"{bundle.kind.name} {name}"


def foreign_worker(export: bytes, worker: int) -> int:
    """Return the id of another store's worker here: below zero, where members never are."""
    digest = blake2b(export + worker.to_bytes(8, signed=True), digest_size=8).digest()
    return -1 - (int.from_bytes(digest) >> 2)
