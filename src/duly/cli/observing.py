"""How the long-running commands are observed: the shape of their log lines, and traces (V2)."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Literal

from cyclopts import Parameter

from duly.app import App
from duly.app.tracing import begin_tracing
from duly.cli.event_lines import LineTelemetry, Style
from duly.cli.target import Target
from duly.errors import UsageError
from duly.telemetry.json_logs import JsonLogFormatter


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """Options of every command that runs until it is stopped."""

    log_format: Literal["text", "json"] = "text"
    """How log lines are written to standard error: sentences for people, or a JSON object on each
    line, with the ids of schedule, run, attempt and trace; what runs log is told then, too."""
    traces: bool = False
    """Tell spans through OpenTelemetry, as its variables say; also on if OTEL_TRACES_EXPORTER is
    set."""

    def style(self, target: Target) -> Style:
        """Return how lines are written."""
        if self.log_format == "text":
            return Style.DOCUMENTS if target.json else Style.SENTENCES
        if target.json:
            remedy = "give one of the two: --json tells events to a program, on standard output"
            raise UsageError("log-format", self.log_format, "contradicts --json", remedy)
        # What is logged outside of any run, and heard by nobody else, has the same shape.
        last = logging.StreamHandler()
        last.setLevel(logging.WARNING)
        last.setFormatter(JsonLogFormatter())
        logging.lastResort = last
        return Style.LOG

    def arguments(self) -> list[str]:
        """Return it as arguments of `duly worker`."""
        return [f"--log-format={self.log_format}", *(["--traces"] if self.traces else [])]

    def begin(self, role: str, app: App, telling: LineTelemetry) -> None:
        """Switch traces on if they are asked for, and let lines say which trace they are of."""
        begin_tracing(role, app, is_asked=self.traces)
        telling.has_traces = app.traces.tracing is not None
