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
    """Print columns as wide as they need to be, and not a space more: programs read along."""
    table = [headings, *rows]
    widths = [max(len(row[column]) for row in table) for column in range(len(headings))]
    out = console()
    for number, row in enumerate(table):
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        style = "" if number else "dim"
        out.print(Text((" " * COLUMN_DISTANCE).join(cells).rstrip(), style=style), soft_wrap=True)


def print_json(value: Any) -> None:  # noqa: ANN401 - whatever JSON can hold
    """Print one JSON document."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False, indent=2) + "\n")


def print_error(message: str, *, as_json: bool, **details: str) -> None:
    """Print one error to standard error, as a line or as JSON."""
    if as_json:
        sys.stderr.write(json.dumps({"error": message, **details}, ensure_ascii=False) + "\n")
        return
    line = Text.assemble(("error: ", "bold red"), message)
    console(error=True).print(line, soft_wrap=not sys.stderr.isatty())
