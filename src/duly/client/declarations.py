"""Schedules, alert rules and channels that code or a file declares, and their reconciliation.

Reconciliation keeps what a person did. A schedule, an alert rule or a channel that was made by hand
is not taken over. A pause is kept, and a deletion is not undone. An alert rule or a channel that is
no longer declared stays until a person removes it.

Every step is idempotent and is compared with the stored state when it is applied, so two processes
that start at once arrive at the same result.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from duly.client.caller import DECLARATION
from duly.client.parameters import read_name, read_owner
from duly.client.schedule_orders import (
    POLICIES,
    NewSchedule,
    ScheduleOrder,
    ScheduleSpec,
    apply_order,
    create_schedule,
    decide_new,
    list_records,
    read_definition,
    read_timetable,
)
from duly.client.tasks import BoundCall, Tasks, named_call
from duly.domain.enums import ScheduleStatus
from duly.domain.ids import schedule_id
from duly.domain.schedule_changes import decide_delete, decide_restore, first_pending
from duly.errors import Conflict, DulyError, NotFound, UsageError, require_text
from duly.store.ports.queries import AuditFilter, ScheduleFilter, ScheduleSnapshot
from duly.timetable.business_calendar import read_calendar
from duly.timetable.combinators import zone_of
from duly.timetable.monthly import BUSINESS_DAY, Monthly
from duly.timetable.serialization import timetable_from_json

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import date, datetime

    from duly.client.caller import Caller
    from duly.client.declared_alerts import DeclaredTerm
    from duly.domain.schedule_changes import ScheduleChange
    from duly.domain.schedules import ScheduleRecord
    from duly.timetable.timetable import Timetable


FILE_BYTES_MAX = 1_000_000
DECLARED_MAX = 10_000
PATH_LENGTH_MAX = 1000
APP_DEFAULT = "app"
"""What an application is called that was given no name of its own."""
_SPOKEN = ("tz", "gap", "fold", "calendar", "dtstart")
_KEYS = ("task", "arguments", "when", "timetable", *_SPOKEN, *POLICIES, "owner")


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """One declared schedule; its task may be defined later than it."""

    name: str
    source: str
    """Where it is declared: `code:app`, `file:app:schedules.toml`."""
    timetable: Timetable
    task: str
    arguments: Mapping[str, Any]
    policies: Mapping[str, Any]
    owner: str | None
    call: BoundCall | None = None
    """The call, when code has bound it already."""

    def resolved(self, tasks: Tasks, known: list[str]) -> NewSchedule:
        """Return the schedule to be made, its arguments checked by its task."""
        try:
            call = self.call or named_call(tasks, self.task, self.arguments, known)
            definition = read_definition(call, self.timetable, self.policies, self.name)
        except UsageError as error:
            field = f"{self.source}, {self.name}, {error.field}"
            raise UsageError(field, error.value, error.problem, error.remedy) from error
        except NotFound as error:
            what = f"{self.source}, {self.name}, {error.what}"
            raise NotFound(what, error.name, error.remedy) from error
        return NewSchedule(
            name=self.name, definition=definition, owner=self.owner, declared_by=self.source
        )


class Declarations:
    """All that one application declares, by name."""

    def __init__(self, app: str) -> None:
        self.app = app
        self.code = f"code:{app}"
        self.sources = [self.code]
        """What this application may speak for."""
        self._by_name: dict[str, Declaration] = {}
        self.alerts: list[DeclaredTerm] = []
        """Rules and channels of alerts."""

    @property
    def compared(self) -> list[str]:
        """The sources whose earlier declarations are looked for: what was not said is not missed.

        An application without a name of its own, and without a declaration in its code, is not
        known to be the one that declared something under the same default name.
        """
        declaring = {one.source for one in self._by_name.values()}
        is_silent = self.app == APP_DEFAULT and self.code not in declaring
        return [one for one in self.sources if one != self.code or not is_silent]

    def add(self, *declared: Declaration) -> None:
        """Add declarations, all or none; a name is declared once."""
        taken = dict(self._by_name)
        for one in declared:
            other = taken.get(one.name)
            if other is not None:
                problem = f"is declared twice: in {other.source} and in {one.source}"
                raise Conflict("schedule", one.name, problem, "give one of them another name")
            taken[one.name] = one
        if len(taken) > DECLARED_MAX:
            remedy = "make them with app.schedules.create()"
            problem = "are more schedules than an application declares"
            raise UsageError("schedules", f"{len(taken):,}", problem, remedy)
        self._by_name = taken

    def add_file(self, path: str | Path) -> list[str]:
        """Add what a TOML file declares; return the names."""
        file = _read_path(path)
        # Two programs may each have a schedules.toml: neither may prune what is the other's.
        source = f"file:{self.app}:{file.as_posix()}"
        if source in self.sources:
            raise Conflict("file", str(file), "is declared already", "declare each file once")
        declared, alerts = read_file(file, source)
        self._refuse_twice(alerts)
        self.add(*declared)
        self.alerts += alerts
        self.sources.append(source)
        return [one.name for one in declared]

    def _refuse_twice(self, alerts: list[DeclaredTerm]) -> None:
        taken = {one.title: one.source for one in self.alerts}
        for one in alerts:
            if one.title in taken:
                problem = f"is declared twice: in {taken[one.title]} and in {one.source}"
                remedy = "give one of them another name"
                raise Conflict(f"alert {one.sort}", one.name, problem, remedy)

    def resolved(self, tasks: Tasks, known: list[str]) -> list[NewSchedule]:
        """Return every schedule to be made; refuse all when one can't be read."""
        return [one.resolved(tasks, known) for one in self._by_name.values()]

    def by_name(self) -> dict[str, Declaration]:
        """Return the declarations."""
        return dict(self._by_name)


def read_file(file: Path, source: str) -> tuple[list[Declaration], list[DeclaredTerm]]:
    """Read a TOML file of `[schedules.NAME]` tables, and of rules and channels of alerts."""
    parsed = _parsed(file)
    tables = parsed.pop("schedules", {})
    alerts: list[DeclaredTerm] = []
    if "alerts" in parsed:
        from duly.client.declared_alerts import read_alert_tables

        alerts = read_alert_tables(file.name, source, parsed.pop("alerts"))
    if parsed:
        key = min(parsed)
        remedy = "write [schedules.NAME] and [alerts.…] tables alone"
        raise UsageError(f"{file.name}, {key}", parsed[key], "is not known", remedy)
    if not isinstance(tables, dict):
        remedy = "write [schedules.NAME] tables"
        raise UsageError(f"{file.name}, schedules", tables, "is not a table", remedy)
    return [_read_one(file.name, source, name, table) for name, table in tables.items()], alerts


def _read_path(path: object) -> Path:
    remedy = "give the path of a TOML file"
    if not isinstance(path, str | PathLike):
        raise UsageError("file", path, "is not a path", remedy)
    try:
        file = Path(path)
    except TypeError as error:  # a path in bytes
        raise UsageError("file", path, "is not a path", remedy) from error
    require_text("file", str(file), PATH_LENGTH_MAX)
    if not str(file).isprintable():
        raise UsageError("file", str(file), "is not a path", remedy)
    return file


def _parsed(file: Path) -> dict[str, Any]:
    remedy = "give a TOML file of [schedules.NAME] tables"
    try:
        content = file.read_bytes()
    except FileNotFoundError as error:
        raise NotFound("file", str(file), remedy) from error
    except OSError as error:
        raise UsageError("file", str(file), f"can't be read ({error.strerror})", remedy) from error
    if len(content) > FILE_BYTES_MAX:
        raise UsageError(
            "file", str(file), "is too large", f"give at most {FILE_BYTES_MAX:,} bytes"
        )
    try:
        return tomllib.loads(content.decode())
    except (ValueError, RecursionError) as error:
        raise UsageError("file", str(file), f"is not TOML ({error})", remedy) from error


def _read_one(file: str, source: str, name: str, table: object) -> Declaration:
    place = f"{file}, {name}"
    if not isinstance(table, dict):
        remedy = f"write [schedules.{name}] and its keys below"
        raise UsageError(place, table, "is not a table", remedy)
    unknown = sorted(set(table) - set(_KEYS))
    if unknown:
        remedy = f"use {', '.join(_KEYS)}"
        raise UsageError(f"{place}, {unknown[0]}", table[unknown[0]], "is not known", remedy)
    if not isinstance(table.get("task"), str):
        raise UsageError(f"{place}, task", table.get("task"), "is not a text", "name a task")
    try:
        return Declaration(
            name=read_name(name),
            source=source,
            timetable=_timetable(name, table),
            task=table["task"],
            arguments=table.get("arguments", {}),
            policies={key: table[key] for key in POLICIES if key in table},
            owner=read_owner(table.get("owner")),
        )
    except UsageError as error:
        field = f"{place}, {error.field}"
        raise UsageError(field, error.value, error.problem, error.remedy) from error


def _timetable(name: str, table: Mapping[str, Any]) -> Timetable:
    if ("when" in table) == ("timetable" in table):
        remedy = 'give `when`, such as "every weekday at 9", or `timetable`, as to_json() has it'
        raise UsageError("when", table.get("when"), "is one of two ways to say it", remedy)
    if "when" in table:
        # A program without a file has no need of the language.

        said = {key: table[key] for key in _SPOKEN if key in table}
        return spoken_timetable(TypedTimetable(when=table["when"], seed=name, **said))
    idle = [key for key in _SPOKEN if key in table]
    if idle:
        remedy = "write it in the timetable itself"
        raise UsageError(idle[0], table[idle[0]], "says nothing about a whole timetable", remedy)
    return timetable_from_json(table["timetable"])


def code_declaration(
    source: str, name: str, call: BoundCall, said: tuple[object, Mapping[str, Any]]
) -> Declaration:
    """Return what `@app.schedule(…)` declares, checked where it stands in the code."""
    timetable, options = said
    policies = {key: value for key, value in options.items() if key != "owner"}
    known_as = read_name(name)
    read_definition(call, timetable, policies, known_as)
    return Declaration(
        name=known_as,
        source=source,
        timetable=read_timetable(timetable),
        task=call.task,
        arguments={},
        policies=policies,
        owner=read_owner(options.get("owner")),
        call=call,
    )


def problem_of(error: DulyError) -> str:
    """Return what an error says about one schedule, for a report that goes on with the next."""
    if isinstance(error, UsageError | Conflict):
        return f"{error.problem}; {error.remedy}"
    return str(error)


NO_LONGER_DECLARED = "no longer declared"
_DONE = ("created", "changed", "revived", "deleted")
_WOULD_DO = ("would create", "would change", "would revive", "would delete")
_ID_BYTES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciliation:
    """What a reconciliation did and found; each schedule is named once."""

    created: tuple[str, ...] = ()
    changed: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """What differed, by name of the schedule."""
    unchanged: tuple[str, ...] = ()
    revived: tuple[str, ...] = ()
    """Pruned earlier for not being declared, and declared again."""
    kept_deleted: tuple[str, ...] = ()
    """Declared, but a person deleted them; restoring them is a person's choice too."""
    orphaned: tuple[str, ...] = ()
    """Declared by the same source earlier, and no longer."""
    pruned: tuple[str, ...] = ()
    """Orphans that were deleted, because that was asked for."""
    conflicts: dict[str, str] = field(default_factory=dict)
    """Declared, but not made so, and why."""
    is_dry: bool = False
    """Whether this is what would be done; then nothing was."""

    @property
    def is_clean(self) -> bool:
        """Whether everything that is declared is so."""
        return not self.conflicts

    def lines(self) -> list[str]:
        """Say in sentences what was done and found; what is as it was goes without saying."""
        create, change, revive, delete = _WOULD_DO if self.is_dry else _DONE
        lines = [f"{create} {name}" for name in self.created]
        lines += [
            f"{change} {name}: {', '.join(differing)}" for name, differing in self.changed.items()
        ]
        lines += [f"{revive} {name}: it is declared again" for name in self.revived]
        lines += [f"{delete} {name}: {NO_LONGER_DECLARED}" for name in self.pruned]
        lines += [
            f"{name} is declared, but was deleted by hand: restore it or remove its declaration"
            for name in self.kept_deleted
        ]
        lines += [
            f"{name} is {NO_LONGER_DECLARED} and goes on: delete it, or reconcile with prune"
            for name in self.orphaned
        ]
        lines += [f"{name}: {problem}" for name, problem in self.conflicts.items()]
        count = len(self.unchanged)
        if count:
            lines.append(f"{count} unchanged")
        return lines or ["nothing is declared"]

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "created": list(self.created),
            "changed": {name: list(differing) for name, differing in self.changed.items()},
            "unchanged": list(self.unchanged),
            "revived": list(self.revived),
            "kept_deleted": list(self.kept_deleted),
            "orphaned": list(self.orphaned),
            "pruned": list(self.pruned),
            "conflicts": self.conflicts,
        }


class _Report:
    """What has been done so far, or would have been."""

    def __init__(self, *, is_dry: bool) -> None:
        self.is_dry = is_dry
        self.names: dict[str, list[str]] = {}
        self.changed: dict[str, tuple[str, ...]] = {}
        self.conflicts: dict[str, str] = {}

    def note(self, what: str, name: str) -> None:
        self.names.setdefault(what, []).append(name)

    def note_alert(self, what: str, name: str, problem: str) -> None:
        if what == "conflicts":
            self.conflicts[name] = problem
        elif what == "changed":
            self.changed[name] = ("terms",)
        else:
            self.note(what, name)

    def done(self) -> Reconciliation:
        names = {what: tuple(found) for what, found in self.names.items()}
        return Reconciliation(
            changed=self.changed, conflicts=self.conflicts, is_dry=self.is_dry, **names
        )


def reconcile(
    caller: Caller, declared: Declarations, *, prune: bool, dry_run: bool = False
) -> Reconciliation:
    """Make, change, revive and report; with `prune`, delete what is no longer declared.

    With `dry_run` everything is looked at and decided as it would be, and nothing is written.
    """
    caller.require_operator("make what is stored agree with what is declared")
    caller = replace(caller, source=DECLARATION)
    store = caller.store
    wanted = declared.resolved(caller.tasks, store.list_tasks())
    names = caller.tasks.names()
    if names and not dry_run:
        store.register_tasks(names)
        store.register_policies(caller.tasks.policies())
    report = _Report(is_dry=dry_run)
    for new in wanted:
        try:
            _reconcile_one(caller, new, declared.sources, report)
        except (Conflict, UsageError) as error:
            # One schedule that can't be made so is reported; the others are not kept waiting.
            report.conflicts[new.name] = problem_of(error)
    taken = {new.name for new in wanted}
    for source in declared.compared:
        for record in _declared_by(caller, source):
            if record.name not in taken:
                _orphan(caller, record, report, prune=prune)
    if declared.alerts:
        from duly.client.declared_alerts import reconcile_alerts

        sources = declared.sources
        for told in reconcile_alerts(caller, declared.alerts, sources, dry_run=dry_run):
            report.note_alert(*told)
    return report.done()


def _reconcile_one(caller: Caller, new: NewSchedule, sources: list[str], report: _Report) -> None:
    seen = caller.store.find_schedule(caller.tenant, new.name)
    if seen is None or _is_nobodys(seen.record, sources):
        is_new = _try_new(caller, new) if report.is_dry else create_schedule(caller, new).is_new
        report.note("created" if is_new else "unchanged", new.name)
        return
    if seen.record.declared_by not in sources:
        whose = seen.record.declared_by or "hand"
        problem = f"is declared, but one of that name was made by {whose}"
        remedy = "give one of them another name, or delete that one"
        raise Conflict("schedule", new.name, problem, remedy)
    if seen.record.status is ScheduleStatus.DELETED:
        if not _was_pruned(caller, seen.record):
            report.note("kept_deleted", new.name)
            return
        if not report.is_dry:
            _revive(caller, seen, new)
        report.note("revived", new.name)
        return
    differing = _differing(seen.record, new)
    if report.is_dry:
        decide_new(caller, seen.record, _wanted(new), seen.now)
    else:
        _change(caller, seen, new)
    if differing:
        report.changed[new.name] = differing
    else:
        report.note("unchanged", new.name)


def _is_nobodys(record: ScheduleRecord, sources: list[str]) -> bool:
    """Say whether a name is free: what is deleted holds none, unless we declared it."""
    return record.status is ScheduleStatus.DELETED and record.declared_by not in sources


def _try_new(caller: Caller, new: NewSchedule) -> bool:
    """Decide what making it would decide; what has no occurrence to come is refused."""
    now = caller.store.now()
    first_pending(schedule_id(now, caller.draws.draw(_ID_BYTES)), new.definition, now)
    return True


def _wanted(new: NewSchedule) -> ScheduleSpec:
    return ScheduleSpec(new.definition, owner=new.owner, declared_by=new.declared_by)


def _change(caller: Caller, seen: ScheduleSnapshot, new: NewSchedule) -> None:
    wanted = _wanted(new)

    def decide(record: ScheduleRecord, now: int) -> ScheduleChange | None:
        return decide_new(caller, record, wanted, now)

    apply_order(caller, seen, decide, ScheduleOrder())


def _revive(caller: Caller, seen: ScheduleSnapshot, new: NewSchedule) -> None:
    """Restore what only a reconciliation has deleted, then make it as it is declared."""

    def decide(record: ScheduleRecord, now: int) -> ScheduleChange | None:
        if record.status is not ScheduleStatus.DELETED:
            return None  # another process was faster
        return decide_restore(record, now, None)

    record = apply_order(caller, seen, decide, ScheduleOrder(reason="declared again"))
    _change(caller, ScheduleSnapshot(record, caller.store.now()), new)


def _orphan(caller: Caller, record: ScheduleRecord, report: _Report, *, prune: bool) -> None:
    if not prune:
        report.note("orphaned", record.name)
        return

    def decide(found: ScheduleRecord, _now: int) -> ScheduleChange | None:
        if found.status is ScheduleStatus.DELETED:
            return None
        return decide_delete(found, NO_LONGER_DECLARED)

    if not report.is_dry:
        order = ScheduleOrder(reason=NO_LONGER_DECLARED)
        apply_order(caller, ScheduleSnapshot(record, caller.store.now()), decide, order)
    report.note("pruned", record.name)


def _was_pruned(caller: Caller, record: ScheduleRecord) -> bool:
    """Say whether a reconciliation deleted it, and not a person."""
    command = AuditFilter(
        tenant=record.tenant, subject_id=record.id, action="schedule.deleted", limit=1
    )
    return [entry.actor.source for entry in caller.store.list_audit(command)] == [DECLARATION]


def _declared_by(caller: Caller, source: str) -> list[ScheduleRecord]:
    return list_records(caller, ScheduleFilter(tenant=caller.tenant, declared_by=source))


def _differing(record: ScheduleRecord, new: NewSchedule) -> tuple[str, ...]:
    """Return what a declaration changes, by the names that people use for it."""
    stored, declared = record.definition.to_json(), new.definition.to_json()
    differing = [key for key in declared | stored if stored.get(key) != declared.get(key)]
    if new.owner not in (None, record.owner):
        differing.append("owner")
    if new.declared_by != record.declared_by:
        differing.append("declared_by")
    return tuple(differing)


@dataclass(frozen=True, slots=True, kw_only=True)
class TypedTimetable:
    """What a person typed, and what they said beside it."""

    when: str
    tz: str = "UTC"
    gap: Any = "next"
    fold: Any = "first"
    calendar: str | None = None
    """Whose business days count: a country (US), one of its states (DE-BY), or an exchange."""
    dtstart: datetime | date | str | None = None
    seed: str | None = None
    """What cron's H is spread by; the schedule's name."""


def spoken_timetable(spoken: TypedTimetable) -> Timetable:
    """Read it."""
    from duly.timetable.language.detect import recognise

    timetable = recognise(
        spoken.when,
        tz=spoken.tz,
        gap=spoken.gap,
        fold=spoken.fold,
        seed=spoken.seed,
        dtstart=spoken.dtstart,
    )
    if spoken.calendar is None:
        return timetable
    business_days = read_calendar(spoken.calendar)
    if isinstance(timetable, Monthly) and timetable.month_day.unit == BUSINESS_DAY:
        return replace(timetable, calendar=business_days)
    return timetable.on_business_days(business_days, tz=zone_of(timetable) or spoken.tz)
