"""Which application and which store a command works on, and under whose name."""

from __future__ import annotations

import getpass
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from cyclopts import Parameter

from duly.app import App
from duly.app.loading import load_app
from duly.errors import UsageError

APP_VARIABLE = "DULY_APP"
URL_VARIABLE = "DULY_URL"
SOURCE = "cli"


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Options of every command that needs a store."""

    url: str | None = None
    """The store: sqlite:///promises.db, postgresql://user@host/database. Else the application's
    own, $DULY_URL, sqlite:///duly.db."""
    app: str | None = None
    """The application that knows the tasks, as module:attribute or path.py:attribute;
    $DULY_APP unless given."""
    json: bool = False
    """Print JSON."""


@contextmanager
def opened(target: Target, *, makes_store: bool = True) -> Iterator[App]:
    """Lend the application that a command works on, acting for the person at the keyboard.

    A command that looks, or changes what must be there already, makes no store.
    """
    if target.url is not None:
        os.environ[URL_VARIABLE] = target.url  # also for an application that names no store itself
    place = os.environ.get(APP_VARIABLE) if target.app is None else target.app
    app = load_app(place) if place else App(target.url)
    if place and target.url is not None and app.url != (asked := App(target.url).url):
        problem = f"is not the store of {place}, which names {app.url}"
        raise UsageError("url", asked, problem, "leave --url out, or let it read $DULY_URL")
    if not place:
        app.declarations.sources.clear()  # no program, so there is no code that declares anything
    if not makes_store:
        app.require_store()
    with app.acting_as(person(), SOURCE) as acting:
        yield acting


def person() -> str:
    """Return who is at the keyboard, as far as the system says."""
    try:
        return getpass.getuser()
    except (ImportError, KeyError, OSError):
        return "unknown"
