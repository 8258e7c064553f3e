"""`duly config show`: what holds here, and where each of it was said; secrets are not among it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

from cyclopts import App

from duly.app import App as Application
from duly.app.stores import URL_DEFAULT
from duly.app.worker_options import ALLOW_COMMANDS_VARIABLE, read_allowed
from duly.cli.output import print_json, print_table
from duly.cli.target import APP_VARIABLE, TENANT_VARIABLE, URL_VARIABLE, Target, opened, person
from duly.config import Settings
from duly.engine.retention import RETENTION_VARIABLE, retention_terms, split_terms

TARGET = Target()
DEFAULT = "default"

app = App(name="config", help="See which settings hold, and where they come from.")


@dataclass(frozen=True, slots=True)
class _Setting:
    name: str
    value: Any
    source: str


@app.command
def show(*, target: Target = TARGET) -> None:
    """Show which settings hold here, and where each was said: by whom, a variable, a program."""
    with opened(target, needs_store=True) as application:
        found = [*_surroundings(application, target), *_settings(application)]
        found += _retention(application)
    if target.json:
        print_json([{"name": one.name, "value": one.value, "source": one.source} for one in found])
        return
    rows = [(one.name, _text(one.value), one.source) for one in found]
    print_table(("setting", "value", "said by"), rows)


def _surroundings(application: Application, target: Target) -> Iterator[_Setting]:
    place = target.app or os.environ.get(APP_VARIABLE) or None
    yield _Setting("app", place, _said(target.app, APP_VARIABLE))
    yield _Setting("url", application.url, _url_source(application, target, place))
    whose = _said(target.tenant, TENANT_VARIABLE)
    if whose == DEFAULT and place:
        whose = "the application"
    yield _Setting("tenant", application.tenant, whose)
    yield _Setting("actor", person(), "the system: who is logged in")
    allowed = read_allowed(os.environ.get(ALLOW_COMMANDS_VARIABLE, ""))
    commands = "all" if allowed is None else sorted(allowed)
    yield _Setting("allow-commands", commands, _said(None, ALLOW_COMMANDS_VARIABLE))


def _url_source(application: Application, target: Target, place: str | None) -> str:
    said = target.url or os.environ.get(URL_VARIABLE)
    if place and application.url != Application(said or URL_DEFAULT).url:
        return f"the application, {place}"
    return _said(target.url, URL_VARIABLE)


def _settings(application: Application) -> Iterator[_Setting]:
    usual = Settings()
    for one in fields(Settings):
        if one.name == "retention":
            continue  # told term by term
        value = getattr(application.settings, one.name)
        is_usual = value == getattr(usual, one.name)
        yield _Setting(one.name, _plain(value), DEFAULT if is_usual else "the application")


def _retention(application: Application) -> Iterator[_Setting]:
    """Say how long each kind of history is kept, and who says so."""
    said = {
        "the application": application.settings.retention,
        f"${RETENTION_VARIABLE}": split_terms(os.environ.get(RETENTION_VARIABLE, "")),
    }
    sources = {
        term.partition("=")[0].strip(): source for source, terms in said.items() for term in terms
    }
    for name, kept in retention_terms(application.retention).items():
        yield _Setting(f"retention.{name}", kept, sources.get(name, DEFAULT))


def _said(option: str | None, variable: str) -> str:
    if option is not None:
        return "the command line"
    return f"${variable}" if os.environ.get(variable) else DEFAULT


def _plain(value: object) -> Any:  # noqa: ANN401 - what JSON can hold
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    return list(value) if isinstance(value, tuple) else str(value)


def _text(value: object) -> str:
    if value is None or value == []:
        return "-"
    if isinstance(value, list):
        return ", ".join(str(one) for one in value)
    return f"{value:,}" if isinstance(value, int) else str(value)
