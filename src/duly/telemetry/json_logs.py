"""Log lines as JSON: one object on each line, whatever a text in it holds (V2, L4).

The first fields are the same on every line and in this order: time, level, event, then the ids that
join a line with a schedule, a run, an attempt and a trace. What there is none of is left out.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

IDS = ("schedule_id", "schedule", "run_id", "attempt_id", "trace_id", "span_id")
LOGGED = "log"
"""The event of a line that a program has logged by itself."""
_USUAL = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "task", *IDS}


def json_log_line(at: datetime, level: int, facts: Mapping[str, Any]) -> str:
    """Return one line, without its end.

    All that is not ASCII is escaped: a text can neither break its line nor move a terminal's
    cursor.
    """
    told = {"time": _written(at), "level": logging.getLevelName(level).lower()}
    first = {name: facts[name] for name in ("event", *IDS) if facts.get(name)}
    return json.dumps({**told, **first, **{k: v for k, v in facts.items() if k not in IDS}})


def current_trace() -> tuple[str, str]:
    """Return the ids of the current span and its trace; empty where there is none.

    A program that has not loaded OpenTelemetry has no span, and does not load it for this.
    """
    opentelemetry = sys.modules.get("opentelemetry.trace")
    if opentelemetry is None:
        return "", ""
    context = opentelemetry.get_current_span().get_span_context()
    if not context.is_valid:
        return "", ""
    return f"{context.trace_id:032x}", f"{context.span_id:016x}"


class JsonLogFormatter(logging.Formatter):
    """Writes each record as one JSON object: for handlers of a program's own.

    With `duly.RunLogFilter` on the same handler, a record of a task's code has the ids of its run.
    What was given as `extra` is written, too.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return one line."""
        facts: dict[str, Any] = {"event": LOGGED, "logger": record.name}
        facts |= {name: getattr(record, name, "") for name in ("task", *IDS)}
        if not facts["task"]:
            del facts["task"]
        facts["message"] = record.getMessage()
        if record.exc_info:
            facts["error"] = self.formatException(record.exc_info)
        more = {name: value for name, value in vars(record).items() if name not in _USUAL}
        facts |= {name: _plain(value) for name, value in more.items() if name not in facts}
        return json_log_line(datetime.fromtimestamp(record.created, UTC), record.levelno, facts)


def _written(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _plain(value: object) -> object:
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)
