"""Which application and which store a command works on, and under whose name."""

from __future__ import annotations

import getpass
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from cyclopts import Parameter

from duly.app import App
from duly.app.loading import load_app
from duly.cli.output import WIDE_VARIABLE, print_aside
from duly.errors import UsageError
from duly.remote.address import is_address, read_address

APP_VARIABLE = "DULY_APP"
URL_VARIABLE = "DULY_URL"
TENANT_VARIABLE = "DULY_TENANT"
"""Whose things commands are about; `duly --tenant NAME …` says it for one."""
SOURCE = "cli"
_SQLITE = "sqlite:///"


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
    """Do not cut tables where the terminal ends; into a pipe they never are."""


@contextmanager
def opened(
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
    app = load_app(place) if place else App(target.url)
    if place and target.url is not None and app.url != (asked := App(target.url).url):
        problem = f"is not the store of {place}, which names {app.url}"
        remedy = "leave --url out, or make the application with duly.App() and no URL"
        raise UsageError("url", asked, problem, remedy)
    if place and target.url is None:
        _warn_if_ignored(os.environ.get(URL_VARIABLE), app, place, as_json=target.json)
    if not place:
        app.declarations.sources.clear()  # no program, so there is no code that declares anything
    if is_rehearsal:
        app = app.rehearsing()
    elif not makes_store:
        app.require_store()
    with app.acting_as(person(), SOURCE, named_tenant(target)) as acting:
        yield acting


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
    tasks = load_app(place).tasks if place else None
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
    if not url:
        return
    try:
        named = App(url).url
    except UsageError:
        named = "no store that is known"
    if _file(named) != _file(app.url):
        print_aside(
            "warning",
            f"${URL_VARIABLE} names {named}, but {place} names {app.url} itself, which is used;"
            " to choose by the variable, make the application with duly.App() and no URL",
            as_json=as_json,
        )


def _file(url: str) -> str:
    """Return a URL by which two ways of writing the path of one file are the same."""
    path = url.removeprefix(_SQLITE)
    return url if path == url else str(Path(path).resolve())


def person() -> str:
    """Return who is at the keyboard, as far as the system says."""
    try:
        return getpass.getuser()
    except (ImportError, KeyError, OSError):
        return "unknown"
