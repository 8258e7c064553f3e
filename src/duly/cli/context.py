"""--app/--url/--tenant: application, store or server; rules and calls as typed."""

from __future__ import annotations

import getpass
import json
import os
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date, datetime
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated, Any, cast

from cyclopts import Parameter

import duly
from duly.cli.output import WIDE_VARIABLE, print_aside, print_line
from duly.cli.times import read_moment
from duly.clock import SystemClock
from duly.errors import UsageError
from duly.remote.address import is_address, read_address
from duly.timetable.business_calendar import read_calendar
from duly.timetable.combinators import Between, BetweenDates, zone_of
from duly.timetable.cron import Cron
from duly.timetable.instants import as_day
from duly.timetable.language.detect import local_date, recognise
from duly.timetable.local_time import Fold, Gap
from duly.timetable.monthly import BUSINESS_DAY, Monthly
from duly.timetable.preview import zoned_leaves
from duly.timetable.rrule import RRule
from duly.timetable.serialization import timetable_from_json
from duly.timetable.timetable import Timetable
from duly.timetable.zones import default_zones

if TYPE_CHECKING:
    from duly import App
    from duly.client.tasks import BoundCall

_NAMES_SHOWN_MAX = 5


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class ArgumentOptions:
    """What a task is called with."""

    arguments: str | None = None
    """All arguments as one JSON map, such as '{"class_id": 42}'."""
    argument: Annotated[
        tuple[str, ...], Parameter(name=["--argument", "-a"], show_default=False)
    ] = ()
    """One argument as key=value; the value is JSON (-a class_id=42), else text (-a city=Berlin)."""

    @property
    def is_given(self) -> bool:
        """Whether any is."""
        return self.arguments is not None or bool(self.argument)


def read_call(app: App, task: str, options: ArgumentOptions) -> BoundCall:
    """Read a call of a task that the application, or a program before it, has made known."""
    arguments = read_arguments(options)
    if app.tasks.find(task) is None and task not in (known := app.store.list_tasks()):
        raise _unknown_task(task, sorted({*app.tasks.names(), *known}))
    try:
        return app.call(task, arguments)
    except UsageError as error:
        raise _as_text(app, task, (arguments, options), error) from error


def _as_text(
    app: App,
    task: str,
    given: tuple[Mapping[str, Any], ArgumentOptions],
    error: UsageError,
) -> UsageError:
    """Show how to give what is JSON by its looks as text, where the task takes text."""
    arguments, options = given
    for key, _, text in (one.partition("=") for one in options.argument):
        if error.field != f"{task}({key})" or isinstance(arguments[key], str):
            continue
        try:
            app.call(task, {**arguments, key: text})
        except UsageError as other:
            if other.field == error.field:
                break
        quoted = shlex.quote(json.dumps(text, ensure_ascii=False))
        remedy = f"give it as text: -a {key}={quoted}"
        return UsageError(error.field, error.value, error.problem, remedy)
    return error


def note_unchecked(app: App, task: str) -> None:
    """Say that nobody has looked at the arguments, if no application here knows the task."""
    if app.tasks.find(task) is None:
        print_line(("note: ", "bold yellow"), "the arguments are not checked without --app")


def read_arguments(options: ArgumentOptions) -> Mapping[str, Any]:
    """Read arguments; each may be given once."""
    from duly.client.arguments import read_json_map

    found: dict[str, Any] = {}
    if options.arguments is not None:
        found |= read_json_map("arguments", options.arguments)
    for text in options.argument:
        key, separator, value = text.partition("=")
        if not (key and separator):
            raise UsageError("argument", text, "is not key=value", "give -a class_id=42")
        if key in found:
            raise UsageError("argument", text, "is given twice", "give each argument once")
        found[key] = _value(value)
    return found


def _value(text: str) -> Any:  # noqa: ANN401 - JSON values
    from duly.client.json_values import RepeatedKeyError, unique_pairs

    try:
        return json.loads(text, object_pairs_hook=unique_pairs)
    except RepeatedKeyError as error:
        raise UsageError("argument", text, str(error), "give each key once") from error
    except (ValueError, RecursionError):
        return text


def _unknown_task(task: str, names: list[str]) -> UsageError:
    close = get_close_matches(task, names, n=_NAMES_SHOWN_MAX, cutoff=0.5)
    own = "name the program that has it with --app module:attribute"
    if close:
        remedy = f"did you mean {' or '.join(close)}? Or {own}"
    elif names:
        more = ", …" if len(names) > _NAMES_SHOWN_MAX else ""
        remedy = f"known are {', '.join(names[:_NAMES_SHOWN_MAX])}{more}; or {own}"
    else:
        remedy = f"{own}; no program has made a task known here yet"
    return UsageError("task", task, "is not a task that is known here", remedy)


ZONE_DEFAULT = "UTC"


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class RuleOptions:
    """When a schedule runs."""

    when: str | None = None
    """Such as "0 2 * * *", "FREQ=WEEKLY;BYDAY=MO", "Mon..Fri 9:00", "15m", "every weekday at 9"."""
    tz: str | None = None
    """The zone that wall times are meant in, by its IANA name; UTC unless given."""
    gap: Gap | None = None
    """What becomes of a wall time that clocks jump over: next (the default), shift or skip."""
    fold: Fold | None = None
    """Which, when a wall time comes twice: first (the default), second or both."""
    calendar: str | None = None
    """Whose business days count: a country (US), one of its states (DE-BY), an exchange (XNYS)."""
    dtstart: str | None = None
    """Where an RRULE starts counting; today unless given."""
    start: Annotated[str | None, Parameter(name="--from", allow_leading_hyphen=True)] = None
    """From when on it is valid: a date, whose day counts whole, or an instant."""
    end: Annotated[str | None, Parameter(name="--until", allow_leading_hyphen=True)] = None
    """Until when it is valid, that included: a date, whose day counts whole, or an instant."""

    @property
    def is_given(self) -> bool:
        """Whether any of them is."""
        parts = (self.when, self.tz, self.gap, self.fold, self.calendar, self.dtstart)
        return any(part is not None for part in (*parts, self.start, self.end))


def read_rule(
    options: RuleOptions, name: str, now: datetime, current: Timetable | None = None
) -> Timetable:
    """Read the rule of a schedule; its name spreads a cron expression's H.

    What is not given stays as it is in the current one, the zone above all.
    """
    if options.when is None:
        remedy = "say when it runs, such as --when 'every weekday at 9' --tz Europe/Paris"
        raise UsageError("when", None, "is missing", remedy)
    kept = {} if current is None else current.to_json()
    tz = options.tz or (zone_of(current) if current else None) or ZONE_DEFAULT
    default_zones().zone(tz)
    policies: dict[str, Any] = {
        "gap": options.gap or kept.get("gap", "next"),
        "fold": options.fold or kept.get("fold", "first"),
    }
    first = options.dtstart or f"{local_date(now, tz).isoformat()}T00:00:00"
    timetable = recognise(options.when, tz=tz, dtstart=first, seed=name, **policies)
    given = {"gap": options.gap, "fold": options.fold, "dtstart": options.dtstart}
    refuse_idle(given, timetable)
    if options.calendar is not None:
        timetable = with_calendar(timetable, options.calendar, tz)
    return _bounded(timetable, options, tz, current)


def _bounded(
    timetable: Timetable, options: RuleOptions, tz: str, current: Timetable | None
) -> Timetable:
    """Limit a rule to its validity; a bound that is not given is that of the current rule."""
    start, end = (
        None if text is None else _bound(field, text, tz)
        for field, text in (("from", options.start), ("until", options.end))
    )
    if isinstance(current, (Between, BetweenDates)):
        start, end = start or current.start, end or current.end
    if start is None and end is None:
        return timetable
    try:
        return timetable.between(start, end, tz=tz)
    except UsageError as error:
        field = {"start": "from", "end": "until"}.get(error.field, error.field)
        raise UsageError(field, error.value, error.problem, error.remedy) from error


def _bound(field: str, text: str, tz: str) -> date | datetime:
    return as_day(text) or read_moment(text, tz, SystemClock(), field)


def edited_rule(current: Timetable, options: RuleOptions, name: str, now: datetime) -> Timetable:
    """Read an edit of a rule: a new one, or the old one in another zone or by other policies."""
    if options.when is not None:
        return read_rule(options, name, now, current)
    whole = {"dtstart": options.dtstart, "calendar": options.calendar}
    for field, value in (whole | {"from": options.start, "until": options.end}).items():
        if value is not None:
            remedy = "give the whole rule with --when as well"
            raise UsageError(field, value, "can't be changed alone", remedy)
    refuse_idle({"gap": options.gap, "fold": options.fold}, current)
    if options.tz is not None and zone_of(current) is None:
        problem = f"says nothing about {current.describe()!r}"
        raise UsageError("tz", options.tz, problem, "leave --tz out, or give --when too")
    parts = {"tz": options.tz, "gap": options.gap, "fold": options.fold}
    wanted = {key: value for key, value in parts.items() if value is not None}
    return timetable_from_json(_with_parts(current.to_json(), wanted))


def refuse_idle(options: dict[str, str | None], timetable: Timetable) -> None:
    """Refuse an option that says something about another kind of rule: it would be ignored."""
    leaves = list(zoned_leaves(timetable))
    uses = {
        "gap": bool(leaves),
        "fold": bool(leaves),
        "dtstart": any(isinstance(leaf, RRule) for leaf in leaves),
        "seed": any(isinstance(leaf, Cron) and "H" in leaf.expression.upper() for leaf in leaves),
    }
    for option, value in options.items():
        if value is not None and not uses[option]:
            remedy = f"leave --{option} out"
            raise UsageError(option, value, f"says nothing about {timetable.describe()!r}", remedy)


def with_calendar(timetable: Timetable, calendar: str, tz: str) -> Timetable:
    """Let business days be those of a calendar; a rule that names none keeps to them."""
    business_days = read_calendar(calendar)
    if isinstance(timetable, Monthly) and timetable.month_day.unit == BUSINESS_DAY:
        return replace(timetable, calendar=business_days)
    return timetable.on_business_days(business_days, tz=zone_of(timetable) or tz)


def spoken_parts(timetable: Timetable, name: str) -> dict[str, str] | None:
    """Return the options that give a rule again; None for one that takes more than options."""
    from duly.client.declarations import TypedTimetable, spoken_timetable

    stored = timetable.to_json()
    text_key = {"every": "period", "at": "when"}.get(stored["kind"], "expression")
    text = stored.get("words") or stored.get(text_key)
    if not isinstance(text, str):
        return None
    keys = ("tz", "gap", "fold", "calendar", "dtstart")
    parts = {key: stored[key] for key in keys if isinstance(stored.get(key), str)}
    try:
        again = spoken_timetable(TypedTimetable(when=text, seed=name, **parts)).to_json()
    except UsageError:
        return None
    if "seed" not in stored:
        again.pop("seed", None)  # where nothing is spread, it says nothing
    return {"when": text, **parts} if again == stored else None


def _with_parts(stored: Any, parts: dict[str, str]) -> Any:  # noqa: ANN401 - JSON values
    """Return a stored timetable with its zone or policies changed, wherever it holds them."""
    if isinstance(stored, list):
        return [_with_parts(one, parts) for one in stored]
    if not isinstance(stored, dict):
        return stored
    changed = {
        key: parts[key] if key in parts else _with_parts(value, parts)
        for key, value in stored.items()
    }
    if any(changed.get(key) != stored.get(key) for key in parts):
        changed.pop("words", None)  # what a person typed may name the old zone
    return changed


APP_VARIABLE = "DULY_APP"
URL_VARIABLE = "DULY_URL"
TENANT_VARIABLE = "DULY_TENANT"
"""Whose things commands are about; `duly --tenant NAME …` says it for one."""
SOURCE = "cli"


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Options of every command that needs a store."""

    url: str | None = None
    """The store: sqlite:///promises.db, postgresql://user@host/database. Else the application's
    own, $DULY_URL, sqlite:///duly.db. Or a server: https://host:8420, with $DULY_TOKEN."""
    app: str | None = None
    """The application that knows the tasks, as module:attribute or path.py:attribute;
    $DULY_APP unless given."""
    tenant: str | None = None
    """Whose promises are meant; $DULY_TENANT, else the application's own tenant."""
    json: bool = False
    """Print JSON."""
    wide: bool = False
    """Print tables aligned and whole. Else a terminal cuts them, and a pipe gets tabs between
    cells."""


@contextmanager
def open_app(
    target: Target,
    *,
    makes_store: bool = True,
    needs_store: bool = False,
    is_rehearsal: bool = False,
) -> Iterator[App]:
    """Lend the application that a command works on, acting for the person at the keyboard.

    A dry run makes no store either: where there is none, it looks at an empty one.
    A command that looks, or changes what must be there already, makes no store. One that needs the
    store itself refuses the URL of a server; any other is given the server in its place.
    """
    _note(target)
    url = target.url or os.environ.get(URL_VARIABLE)
    if needs_store:
        refuse_server(target)
    if is_address(url):
        with _server(url, target) as remote:
            yield remote
        return
    if target.url is not None:
        os.environ[URL_VARIABLE] = target.url  # also for an application that names no store itself
    place = os.environ.get(APP_VARIABLE) if target.app is None else target.app
    app = _load_app(place) if place else duly.App(target.url)
    if place and target.url is not None:
        _require_store_of(app, place, target.url)
    if place and target.url is None:
        _warn_if_ignored(os.environ.get(URL_VARIABLE), app, place, as_json=target.json)
    if not place:
        app.declarations.sources.clear()  # no program, so there is no code that declares anything
    if is_rehearsal:
        app = app.rehearsing()
    elif not makes_store:
        app.require_store()
    with app.acting_as(person(), SOURCE, named_tenant(target), is_operator=True) as acting:
        yield acting


def _require_store_of(app: App, place: str, url: str) -> None:
    """Refuse a URL of another store than the application names itself."""
    if app.is_at(url):
        return
    asked = duly.App(url).url
    problem = f"is not the store of {place}, which names {_told_apart(app.url, asked)}"
    remedy = (
        "leave --url out, use no application (--app ''), or make the application with duly.App()"
        " and no URL"
    )
    raise UsageError("url", asked, problem, remedy)


def _load_app(place: str) -> App:
    from duly.app.loading import load_app  # a command about rules alone needs none

    return load_app(place)


def _note(target: Target) -> None:
    """Have what was said hold for tables, and for what is told of how to undo an order, as well."""
    if target.wide:
        os.environ[WIDE_VARIABLE] = "1"
    if target.tenant:
        os.environ[TENANT_VARIABLE] = target.tenant


@contextmanager
def _server(url: str | None, target: Target) -> Iterator[App]:
    """Lend a server in place of an application; the token comes from where nobody else looks."""
    from duly.cli.remote.application import RemoteApp
    from duly.remote.connecting import connect

    address = read_address(url)
    place = os.environ.get(APP_VARIABLE) if target.app is None else target.app
    os.environ.pop(URL_VARIABLE, None)  # it is no store's, which the program may look for
    tasks = _load_app(place).tasks if place else None
    with connect(address.url, tenant=named_tenant(target)) as remote:
        yield cast("App", RemoteApp(remote, tasks))


def refuse_server(target: Target) -> None:
    """Refuse the URL of a server: for a command that needs the store itself."""
    url = target.url or os.environ.get(URL_VARIABLE)
    if is_address(url):
        from duly.cli.remote.application import refused

        raise refused(read_address(url).url)


def of_all_tenants(target: Target) -> Target:
    """Refuse a tenant: for a command about the whole store, or a process that serves all of it."""
    if target.tenant:
        problem, remedy = "can't be chosen: this is about every tenant", "leave --tenant out"
        raise UsageError("tenant", target.tenant, problem, remedy)
    return replace(target, tenant="")  # $DULY_TENANT says whose things other commands are about


def named_tenant(target: Target) -> str | None:
    """Return whose things are meant, if that was said; else the application's or the token's."""
    named = os.environ.get(TENANT_VARIABLE) if target.tenant is None else target.tenant
    return named or None


def is_server(app: App) -> bool:
    """Say whether a command works on a server, which tells less than the store itself."""
    return hasattr(app, "remote")


def _warn_if_ignored(url: str | None, app: App, place: str, *, as_json: bool) -> None:
    """Say that $DULY_URL is not what is used, if the application names another store itself."""
    if not url or app.is_at(url):
        return
    try:
        named = duly.App(url).url
    except UsageError:
        named = "no store that is known"
    print_aside(
        "warning",
        f"${URL_VARIABLE} names {named}, but {place} names {_told_apart(app.url, named)} itself,"
        " which is used; to choose by the variable, make the application with duly.App() and no"
        " URL",
        as_json=as_json,
    )


def _told_apart(url: str, other: str) -> str:
    """Return a URL for people; users and parameters are not shown, so that they differ is said."""
    return f"{url} with another user or other parameters" if url == other else url


def person() -> str:
    """Return who is at the keyboard, as far as the system says."""
    try:
        return getpass.getuser()
    except (ImportError, KeyError, OSError):
        return "unknown"
