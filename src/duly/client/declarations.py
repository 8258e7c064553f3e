"""Schedules that are declared, in code or in a file: read whole before any of them is written."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from duly.client.alert_declarations import read_alert_tables
from duly.client.definitions import POLICIES, read_definition, read_timetable
from duly.client.reading import read_name, read_owner
from duly.client.schedule_orders import NewSchedule
from duly.client.tasks import BoundCall, Tasks, named_call
from duly.domain.timetable.stored import timetable_from_json
from duly.errors import Conflict, DulyError, NotFound, UsageError, require_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from duly.client.alert_declarations import DeclaredTerm
    from duly.domain.timetable.timetable import Timetable

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
    alerts = read_alert_tables(file.name, source, parsed.pop("alerts", {}))
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
        from duly.client.spoken import Spoken, spoken_timetable

        said = {key: table[key] for key in _SPOKEN if key in table}
        return spoken_timetable(Spoken(when=table["when"], seed=name, **said))
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
