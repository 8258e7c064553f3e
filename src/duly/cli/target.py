"""Which application and which store a command works on, and under whose name."""

from __future__ import annotations

import getpass
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from cyclopts import Parameter

from duly.app import App
from duly.errors import DulyError, UsageError, require_text

APP_VARIABLE = "DULY_APP"
URL_VARIABLE = "DULY_URL"
SOURCE = "cli"
_PLACE_LENGTH_MAX = 500


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Options of every command that needs a store."""

    url: str | None = None
    """The store: sqlite:///promises.db, postgresql://user@host/database. Else the application's
    own, $DULY_URL, sqlite:///duly.db."""
    app: str | None = None
    """The application that knows the tasks, as module:attribute; $DULY_APP unless given."""
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


def load_app(place: str) -> App:
    """Import the application that `module:attribute` names; the current folder counts."""
    require_text("app", place, _PLACE_LENGTH_MAX)
    remedy = "give module:attribute, such as tasks:app for `app = duly.App()` in tasks.py"
    module_name, separator, attribute = place.partition(":")
    if not (separator and module_name and attribute):
        raise UsageError("app", place, "names no attribute of a module", remedy)
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found: object = import_module(module_name)
        for name in attribute.split("."):
            found = getattr(found, name)
    except DulyError:
        raise
    except AttributeError as error:
        raise UsageError("app", place, f"can't be loaded ({error})", remedy) from error
    except ModuleNotFoundError as error:
        is_itself = f"{module_name}.".startswith(f"{error.name}.")
        if is_itself:
            remedy += "; start the command in the folder that holds it"
        else:
            remedy = f"install what it imports, then try python -c 'import {module_name}'"
        raise UsageError("app", place, f"can't be loaded ({error})", remedy) from error
    except Exception as error:
        problem = f"fails as it is imported ({type(error).__name__}: {error})"
        raise UsageError("app", place, problem, f"try python -c 'import {module_name}'") from error
    if not isinstance(found, App):
        kind = type(found).__name__
        raise UsageError("app", place, f"is a {kind}, not a duly.App", remedy)
    return found


def person() -> str:
    """Return who is at the keyboard, as far as the system says."""
    try:
        return getpass.getuser()
    except (ImportError, KeyError, OSError):
        return "unknown"
