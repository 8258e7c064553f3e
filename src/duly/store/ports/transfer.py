"""The transfer port: exports a store's promises as one snapshot, and imports them into another.

A bundle is the unit of transfer: rows that are moved together or not at all, such as a schedule
with its definitions, or a run with its attempts and its ledger. Bundles are the same for every
store, and their columns have the names that the databases use. Derived data (shards, tallies,
places in the queue) is not moved but computed anew.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from contextlib import AbstractContextManager

    from duly.domain.audit import Actor

PAGE = 500
"""How many bundles are read, and written, at a time."""
IMPORTED = "promises.imported"
"""The audit entry of an import; by it the same file is recognised."""

Value = str | int | bool | bytes | None
PartRow = dict[str, Value]


class ColumnKind(StrEnum):
    """What a column holds."""

    TEXT = ""
    ID = "@"
    NUMBER = "#"
    FLAG = "!"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a part."""

    name: str
    kind: ColumnKind
    is_optional: bool


@dataclass(frozen=True, slots=True)
class Part:
    """A table of which rows are moved."""

    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    """By which its rows are ordered."""


def _part(name: str, key: str, columns: str) -> Part:
    """Read a part: `id@ owner? due_at# is_open!` are an id, an optional text, a number, a flag."""
    found: list[Column] = []
    for word in columns.split():
        stem = word.removesuffix("?")
        kind = next((one for one in ColumnKind if one and stem.endswith(one)), ColumnKind.TEXT)
        found.append(Column(stem.removesuffix(kind), kind, is_optional=word.endswith("?")))
    return Part(name, tuple(found), tuple(key.split()))


_TRIES = "fence# attempt# charged# begun_at#?"
_PROGRESS = "progress_done#? progress_total#? progress_note? progress_at#?"
_LATE = "late_state? late_at#? late_error? late_result?"

_ALL = (
    _part(
        "workers",
        "id",
        "id# host process# started_at# renewed_at# expires_at# ended_at#?",
    ),
    _part("tasks", "name", "name policy? timeout_us#?"),
    _part("retry_slots", "task first_at", "task first_at# last_at#"),
    _part("task_orders", "task", "task is_suspended! is_blocked!"),
    _part("queues", "name", "name paused_at# paused_by reason?"),
    _part(
        "limits",
        "scope source",
        "scope source running#? rate? running_by? set_at# set_by reason?",
    ),
    _part(
        "quotas",
        "scope tenant counted",
        "scope tenant counted most#? version# updated_at# updated_by",
    ),
    _part(
        "alert_terms",
        "sort name",
        "sort name tenant terms until#? set_at# set_by reason?",
    ),
    _part("paces", "place", "place promised_at# begun_at# again_at#"),
    _part(
        "breakers",
        "destination",
        """destination state counted_from# succeeded# failed# opened_at#? retry_at#? pause_us#
        probe@? epoch# updated_at#""",
    ),
    _part(
        "schedules",
        "id",
        """id@ tenant name owner? declared_by? status reason? resume_at#? resume_missed?
        status_before? created_at# updated_at# updated_by""",
    ),
    _part(
        "schedule_state",
        "schedule_id",
        """schedule_id@ version# definition_number# next_for#? next_due#? last_for#? last_run@?
        last_fired_at#? fires# held_for#? pruned_through#? active_run@? overlaps#""",
    ),
    _part(
        "schedule_definitions",
        "schedule_id number",
        "schedule_id@ number# definition made_at# made_by",
    ),
    _part(
        "owed",
        "schedule_id first_for",
        "schedule_id@ first_for# last_for# definition_number# created_at#",
    ),
    _part(
        "skips",
        "schedule_id first_for",
        "schedule_id@ first_for# last_for# count#? reason into_run@? at#",
    ),
    _part(
        "delayed",
        "id",
        """id@ tenant key? task arguments queue priority# origin lane schedule_id@?
        definition_number#? due_at# generation# fingerprint created_at#""",
    ),
    _part(
        "runs",
        "id",
        """id@ tenant schedule_id@? definition_number#? key? task arguments? queue priority#
        origin lane root@? scheduled_for# not_before# window_from#? created_at# fired_at#?""",
    ),
    _part("ready", "run_id", f"run_id@ priority#? rank# fired_at# not_before# {_TRIES}"),
    _part(
        "claims",
        "run_id",
        f"""run_id@ worker# {_TRIES} claimed_at# deadline_at#? started_at#? cancel_asked_at#?
        {_PROGRESS} lines# replaced_by@? effects_at#? is_unsafe!?""",
    ),
    _part("waiting", "run_id", f"run_id@ due_at# {_TRIES} reason?"),
    _part("dead", "run_id", f"run_id@ {_TRIES} reason died_at#"),
    _part("ambiguous", "run_id", f"run_id@ {_TRIES} reason since#"),
    _part("blocked", "run_id", f"run_id@ gate priority# number# since# {_TRIES}"),
    _part(
        "outcomes",
        "run_id",
        f"""run_id@ state reason? finished_at# {_TRIES} worker#? claimed_at#? started_at#?
        cancel_asked_at#? {_PROGRESS} error? result? {_LATE} into_run@? effects_at#?""",
    ),
    _part(
        "attempts",
        "run_id fence",
        f"""run_id@ fence# number#? worker# state reason? claimed_at# started_at#?
        cancel_asked_at#? ended_at# {_PROGRESS} error? {_LATE} effects_at#?""",
    ),
    _part("checkpoints", "run_id partition", "run_id@ partition fence# state at#"),
    _part("progress", "run_id number", "run_id@ number# fence# at# done# total#? note?"),
    _part("lines", "run_id number", "run_id@ number# fence# at# level text"),
    _part(
        "verdicts",
        "run_id number",
        "run_id@ number# at# finding evidence? by doubt#?",
    ),
    _part("held_gates", "run_id", "run_id@ gate"),
    _part("held_places", "run_id place", "run_id@ place fence#"),
    _part("turns", "run_id", "run_id@ at#"),
    _part(
        "effects",
        "root key",
        "root@ key state run_id@ fence# begun_at# done_at#? result? tries#",
    ),
    _part("scopes", "root", "root@ expected#"),
    _part(
        "scope_items",
        "root item",
        "root@ item is_expected! times# run_id@? fence#? at#?",
    ),
    _part(
        "backfills",
        "id",
        """id@ tenant schedule_id@ definition_number# since# until# mode order classes per_minute#
        concurrency# status version# cursor#? total# looked_at# made# reason? created_at#
        created_by updated_at#""",
    ),
    _part(
        "backfill_slots",
        "backfill_id scheduled_for",
        "backfill_id@ scheduled_for# kind run_id@? is_open!",
    ),
)
PARTS: dict[str, Part] = {part.name: part for part in _ALL}

PLACES = ("ready", "claims", "waiting", "dead", "ambiguous", "blocked")
"""Where an open run is: in one of them."""
LEDGER = ("effects", "scopes", "scope_items")
"""What a line of runs has in common, under its first run."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of bundle: the part that there is one row of, and those that belong to it."""

    name: str
    head: str
    children: dict[str, str] = field(default_factory=dict)
    """By name of the part: the column that says to which head a row belongs."""

    @property
    def parts(self) -> tuple[str, ...]:
        """Return the names of all its parts."""
        return (self.head, *self.children)


_OF_RUNS = (
    "outcomes",
    *PLACES,
    "attempts",
    "checkpoints",
    "progress",
    "lines",
    "verdicts",
    "held_gates",
    "held_places",
    "turns",
)
_PARTS_OF_RUNS: dict[str, str] = dict.fromkeys(_OF_RUNS, "run_id")
KINDS: tuple[Kind, ...] = (
    Kind("worker", "workers"),
    Kind("task", "tasks", {"retry_slots": "task"}),
    Kind("task-order", "task_orders"),
    Kind("queue", "queues"),
    Kind("limit", "limits"),
    Kind("quota", "quotas"),
    Kind("alert-term", "alert_terms"),
    Kind("pace", "paces"),
    Kind("breaker", "breakers"),
    Kind(
        "schedule",
        "schedules",
        {
            "schedule_state": "schedule_id",
            "schedule_definitions": "schedule_id",
            "owed": "schedule_id",
            "skips": "schedule_id",
        },
    ),
    Kind("delayed", "delayed"),
    Kind("run", "runs", _PARTS_OF_RUNS | dict.fromkeys(LEDGER, "root")),
    Kind("backfill", "backfills"),
    Kind("slot", "backfill_slots"),
)
"""In the order in which they are moved: nothing comes before what it refers to."""
KINDS_BY_NAME = {kind.name: kind for kind in KINDS}


@dataclass(frozen=True, slots=True)
class TransferUnit:
    """What is moved together, or not at all."""

    kind: Kind
    rows: Mapping[str, list[PartRow]]
    """By part; of the head there is one."""

    @property
    def head(self) -> PartRow:
        """Return the row that the others belong to."""
        return self.rows[self.kind.head][0]


@dataclass(frozen=True, slots=True)
class Exported:
    """A store as it was at one moment."""

    as_of: int
    """By the store's clock."""
    program_min: int
    """The oldest schema that a program must know to be trusted with these promises."""
    alive: int
    """How many dispatchers and workers were members then."""
    bundles: Iterator[TransferUnit]


class OnConflict(StrEnum):
    """What becomes of a bundle in whose place there is something else."""

    FAIL = "fail"
    """Nothing at all is imported."""
    SKIP = "skip"
    """It is left out, with all that refers to it; what is there stays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportPromises:
    """Take promises in, in one transaction."""

    id: bytes
    """What tells this export from any other: 16 bytes of its checksum."""
    source: str
    as_of: int
    program_min: int
    bundles: Iterable[TransferUnit]
    on_conflict: OnConflict
    actor: Actor
    is_dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Imported:
    """What has become of an import."""

    taken: Mapping[str, int]
    """How many of each kind were written."""
    skipped: Mapping[str, int]
    """How many of each kind were left out, because something else is in their place."""
    is_repeated: bool = False
    """Whether the same export was imported before: then nothing was done."""


class MovingStore(Protocol):
    """What moves promises between stores."""

    def export_promises(self, *, has_history: bool) -> AbstractContextManager[Exported]:
        """Open one snapshot and hand out all that is promised in it, a page at a time.

        Open runs come with their attempts, what they have done and where they wait; closed ones,
        and what was skipped, only with their history. Without it occurrences that are over are told
        as unknown. Tokens, members, leases and the audit trail stay where they are.
        """
        ...

    def import_promises(self, command: ImportPromises) -> Imported:
        """Write all of an export, or nothing: one transaction, audited as `promises.imported`.

        What was due meanwhile is late then, and is settled as in any outage. Runs that were claimed
        are claimed by nobody who lives: they are settled as lost, by the rules for effects. The
        same export again changes nothing. Conflict when something else is in the place of a promise
        (by default), and when the store's clock is behind the moment of the export: what was fired
        by then would be early here.
        """
        ...
