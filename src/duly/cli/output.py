"""What commands print with: tables on a terminal, whole lines in a pipe, JSON on request."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

PIPE_WIDTH = 400
"""Wide enough that nothing is cut or folded when a program reads along."""

COLUMN_DISTANCE = 3
FACT_WIDTH_MIN = 30


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Leave it to the command, which knows that a reader may have seen enough."""
        raise BrokenPipeError


def console(*, error: bool = False) -> Console:
    """Return a console for standard output or standard error."""
    stream = sys.stderr if error else sys.stdout
    width = None if stream.isatty() else PIPE_WIDTH
    return _Console(file=stream, width=width, highlight=False)


def print_line(*parts: str | tuple[str, str]) -> None:
    """Print a line: a terminal gets it broken between words, a pipe gets it whole."""
    console().print(Text.assemble(*parts), soft_wrap=not sys.stdout.isatty())


def print_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print columns as wide as they need to be; a terminal gets lines cut, a pipe whole."""
    table = [headings, *rows]
    widths = [max(len(row[column]) for row in table) for column in range(len(headings))]
    out = console()
    for number, row in enumerate(table):
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        line = Text((" " * COLUMN_DISTANCE).join(cells).rstrip(), style="" if number else "dim")
        if sys.stdout.isatty():
            line.truncate(out.width, overflow="ellipsis")  # what is folded can't be read as a table
        out.print(line, soft_wrap=True)


def print_facts(facts: Sequence[tuple[str, str]]) -> None:
    """Print what is known about one thing: names, and facts that fold beside them."""
    width = max((len(name) for name, _ in facts), default=0) + COLUMN_DISTANCE
    out = console()
    room = max(out.width - width, FACT_WIDTH_MIN)
    for name, fact in facts:
        lines = Text(fact).wrap(out, room) if sys.stdout.isatty() else [Text(fact)]
        for number, line in enumerate(lines):
            label = "" if number else name
            out.print(Text.assemble((label.ljust(width), "dim"), line), soft_wrap=True)


def print_json(value: Any) -> None:  # noqa: ANN401 - whatever JSON can hold
    """Print one JSON document."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False, indent=2) + "\n")


def json_line(value: Any) -> str:  # noqa: ANN401 - as above
    """Return one JSON document on a line of its own: for streams."""
    return json.dumps(value, ensure_ascii=False) + "\n"


def print_error(message: str, *, as_json: bool, **details: str) -> None:
    """Print one error to standard error, as a line or as JSON."""
    if as_json:
        sys.stderr.write(json_line({"error": message, **details}))
        return
    line = Text.assemble(("error: ", "bold red"), message)
    console(error=True).print(line, soft_wrap=not sys.stderr.isatty())
