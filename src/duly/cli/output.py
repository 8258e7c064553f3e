"""Prints tables, JSON, progress and errors; imports no timetables, so that help is quick."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Event
from typing import TYPE_CHECKING, Any, Protocol

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from duly.clock import SystemClock
from duly.errors import UsageError
from duly.timetable.instants import duration_microseconds

if TYPE_CHECKING:
    from rich.status import Status

PIPE_WIDTH = 400
"""Wide enough that nothing is cut or folded when a program reads along."""

COLUMN_DISTANCE = 3
FACT_WIDTH_MIN = 30
WIDE_VARIABLE = "DULY_WIDE"
"""Set for aligned tables in whole lines, also into a pipe; --wide does it for one command."""


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Leave it to the command, which knows that a reader may have seen enough."""
        raise BrokenPipeError


def console(*, error: bool = False) -> Console:
    """Return a console for standard output or standard error."""
    stream = sys.stderr if error else sys.stdout
    width = None if stream.isatty() else PIPE_WIDTH
    return _Console(file=stream, width=width, highlight=False)


def neutral(text: str) -> str:
    """Spell out what a terminal would obey instead of showing: escapes, bells, reversed writing.

    Whatever a task wrote or somebody typed may hold such characters.
    """
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else _spelled(one) for one in text.expandtabs(4))


def _spelled(character: str) -> str:
    return ascii(character)[1:-1]


def print_line(*parts: str | tuple[str, str]) -> None:
    """Print a line: a terminal gets it broken between words, a pipe gets it whole."""
    shown = [neutral(one) if isinstance(one, str) else (neutral(one[0]), one[1]) for one in parts]
    console().print(Text.assemble(*shown), soft_wrap=not sys.stdout.isatty())


def print_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table: columns cut where a terminal ends, and whole cells with tabs into a pipe."""
    is_terminal, is_wide = sys.stdout.isatty(), bool(os.environ.get(WIDE_VARIABLE))
    if not (is_terminal or is_wide):
        for row in (headings, *rows):
            sys.stdout.write("\t".join(map(neutral, row)) + "\n")
        return
    out = console()
    for line in table_lines(headings, rows):
        if not is_wide:
            line.truncate(out.width, overflow="ellipsis")  # what is folded can't be read as a table
        out.print(line, soft_wrap=True)


def table_lines(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[Text]:
    """Return columns as wide as they need to be, line by line."""
    table = [[neutral(cell) for cell in row] for row in (headings, *rows)]
    widths = [max(cell_len(row[column]) for row in table) for column in range(len(headings))]
    lines: list[Text] = []
    for number, row in enumerate(table):
        cells = [
            cell + " " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=True)
        ]
        whole = (" " * COLUMN_DISTANCE).join(cells).rstrip()
        lines.append(Text(whole, style="" if number else "dim"))
    return lines


def print_facts(facts: Sequence[tuple[str, str]]) -> None:
    """Print what is known about one thing: names, and facts that fold beside them."""
    width = max((len(name) for name, _ in facts), default=0) + COLUMN_DISTANCE
    out = console()
    room = max(out.width - width, FACT_WIDTH_MIN)
    for name, fact in facts:
        text = Text(neutral(fact))
        lines = text.wrap(out, room) if sys.stdout.isatty() else [text]
        for number, line in enumerate(lines):
            label = "" if number else name
            out.print(Text.assemble((label.ljust(width), "dim"), line), soft_wrap=True)


def print_block(text: str, indent: int = 2) -> None:
    """Print a text of several lines as it is, moved to the right: a traceback, a result."""
    out = console()
    for line in text.splitlines():
        out.print(Text(" " * indent + neutral(line)), soft_wrap=True)


def print_json(value: Any) -> None:  # noqa: ANN401 - whatever JSON can hold
    """Print one JSON document."""
    sys.stdout.write(_escaped(json.dumps(value, ensure_ascii=False, indent=2)) + "\n")


class JsonItem(Protocol):
    """An item of a list that a command prints."""

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        ...


def print_empty_or_json(found: Sequence[JsonItem], nothing: str, *, as_json: bool) -> bool:
    """Print a list as JSON, or that there is nothing to list; say whether that was one of both."""
    if as_json:
        print_json([one.to_json() for one in found])
    elif not found:
        print_line(nothing)
    return as_json or not found


def json_line(value: Any) -> str:  # noqa: ANN401 - as above
    """Return one JSON document on a line of its own: for streams."""
    return _escaped(json.dumps(value, ensure_ascii=False)) + "\n"


def print_json_line(value: Any) -> None:  # noqa: ANN401 - as above
    """Print one JSON document of a stream, at once."""
    sys.stdout.write(json_line(value))
    sys.stdout.flush()


def _escaped(document: str) -> str:
    """Escape what JSON lets through and a terminal would obey; it reads back as the same."""
    if document.isascii() and "\x7f" not in document:
        return document
    return "".join(
        one if one.isprintable() or one == "\n" else _json_escape(one) for one in document
    )


def _json_escape(character: str) -> str:
    return json.dumps(character)[1:-1] if character != "\x7f" else "\\u007f"


def print_aside(word: str, message: str, *, as_json: bool) -> None:
    """Print a note or a warning to standard error, so that the answer stays what it is."""
    if as_json:
        sys.stderr.write(json_line({word: message}))
        return
    line = Text.assemble((f"{word}: ", "bold yellow"), neutral(message))
    console(error=True).print(line, soft_wrap=not sys.stderr.isatty())


def print_error(message: str, *, as_json: bool, **details: str) -> None:
    """Print one error to standard error, as a line with its code or as JSON."""
    if as_json:
        sys.stderr.write(json_line({"error": message, **details}))
        return
    code = f" [{details['code']}]" if "code" in details else ""
    line = Text.assemble(("error: ", "bold red"), neutral(message), (code, "dim"))
    console(error=True).print(line, soft_wrap=not sys.stderr.isatty())


TIMED_OUT = 124
"""The exit code for "not over yet", as of timeout(1): it is no failure of what was waited for."""
PAUSE_FIRST_S = 0.05
PAUSE_MAX_S = 1.0
INTERVAL_MIN_US = 100_000
_SECOND_US = 1_000_000


def read_interval(text: str) -> float:
    """Read how often to look, in seconds."""
    interval_us = duration_microseconds(text, "interval")
    if interval_us < INTERVAL_MIN_US:
        raise UsageError("interval", text, "is too short", "give 100ms or more")
    return interval_us / _SECOND_US


class PollTimer:
    """Waits between two polls, longer each time, until a time limit has passed."""

    def __init__(self, limit: str | None) -> None:
        self._clock = SystemClock()
        self._pause_s = PAUSE_FIRST_S
        self._ends_us = None
        if limit is not None:
            limit_us = duration_microseconds(limit, "--timeout")
            self._ends_us = self._clock.monotonic_us() + limit_us

    def wait(self) -> bool:
        """Wait a while; False, at once, when the limit has passed."""
        pause_s = self._pause_s
        self._pause_s = min(2 * pause_s, PAUSE_MAX_S)
        if self._ends_us is not None:
            left_us = self._ends_us - self._clock.monotonic_us()
            if left_us <= 0:
                return False
            pause_s = min(pause_s, left_us / _SECOND_US)
        Event().wait(pause_s)
        return True

    def renew(self) -> None:
        """Look again soon: something has just happened."""
        self._pause_s = PAUSE_FIRST_S


class Ticker:
    """One line on a terminal's standard error that says how far it is; silent in a pipe."""

    def __init__(self, status: Status | None) -> None:
        self._status = status

    def tell(self, text: str) -> None:
        """Say what is being waited for now."""
        if self._status is not None:
            self._status.update(neutral(text))
            self._status.start()

    def counting(self, what: str) -> Callable[[int], None]:
        """Return what is told how many are done so far."""
        return lambda number: self.tell(f"{number:,} {what}")

    def wipe(self) -> None:
        """Take the line away until there is more to tell, so that something else can be printed."""
        if self._status is not None:
            self._status.stop()


@contextmanager
def ticker(*, is_wanted: bool = True) -> Iterator[Ticker]:
    """Lend a line of progress, which is wiped afterwards."""
    if not (is_wanted and sys.stderr.isatty()):
        yield Ticker(None)
        return
    with console(error=True).status("waiting") as status:
        yield Ticker(status)
