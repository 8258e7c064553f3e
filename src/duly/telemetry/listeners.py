"""Who listens to events: nobody, or a log with a line for each."""

from __future__ import annotations

import logging
from dataclasses import fields
from typing import TYPE_CHECKING, Protocol

from duly.errors import printable
from duly.telemetry.work_events import RunLogged

if TYPE_CHECKING:
    from duly.telemetry.events import Event


class Telemetry(Protocol):
    """Whoever listens."""

    def emit(self, event: Event) -> None:
        """Tell about an event. Never raises, never waits."""
        ...


def is_heard(telemetry: Telemetry, kind: type[Event]) -> bool:
    """Say whether anybody listens to events of a kind; who does not say listens to all.

    Asked where events are so many that making them for nobody would cost.
    """
    hears = getattr(telemetry, "hears", None)
    return hears is None or bool(hears(kind))


class NullTelemetry:
    """Tells nobody."""

    def hears(self, _kind: type[Event]) -> bool:
        """Say that nobody listens."""
        return False

    def emit(self, event: Event) -> None:
        """Let it go."""


class LogTelemetry:
    """Writes each event as one line of key=value to the logger `duly`."""

    def __init__(self, logger: logging.Logger | None = None) -> None:
        self._logger = logger or logging.getLogger("duly")

    def hears(self, kind: type[Event]) -> bool:
        """Say whether an event of this kind would be written; what was logged once is not again."""
        return not issubclass(kind, RunLogged) and self._logger.isEnabledFor(kind.level)

    def emit(self, event: Event) -> None:
        """Write one line, at the event's own level."""
        if self.hears(type(event)):
            self._logger.log(event.level, "%s", event_line(event))


def event_line(event: Event) -> str:
    """Return an event as one line: its name, then key=value."""
    parts = (f"{one.name}={_shown(getattr(event, one.name))}" for one in fields(event))
    return " ".join((event.name, *parts))


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(str(one) for one in value) or "-"
    text = printable(str(value))
    # Quoted where a reader could not tell where the value ends.
    return f'"{text}"' if not text or any(mark in text for mark in ' "=') else text
