"""How an order is taken back: a command that can be typed as it is, on the same store."""

from __future__ import annotations

import os
import re
import shlex
import sys

from duly.cli.output import print_line
from duly.cli.target import TENANT_VARIABLE

UNSAID = "…"
"""Where the next person says why."""
_PLACE_OPTIONS = ("--url", "--app")
_PASSWORD = re.compile(r"(?<=://)([^:/@]*):[^@/]*(?=@)")
_PASSWORD_PART = re.compile(r"[?&]password=[^&]*")


def undo_text(*words: str) -> str:
    """Return the command that takes back an order, with the store and the program of this one."""
    tenant = os.environ.get(TENANT_VARIABLE)
    whose = ("--tenant", tenant) if tenant else ()
    return shlex.join(("duly", *whose, *words, *place_words(sys.argv[1:])))


def place_words(typed: list[str]) -> list[str]:
    """Return which store and program somebody typed, to be typed again; but no password."""
    found: dict[str, str] = {}
    for number, word in enumerate(typed):
        name, separator, value = word.partition("=")
        if name in _PLACE_OPTIONS and separator:
            found[name] = value
        elif word in _PLACE_OPTIONS and number + 1 < len(typed):
            found[name] = typed[number + 1]
    return [part for name, value in found.items() for part in (name, _without_password(value))]


def print_undo(command: str) -> None:
    """Print how to undo what was done."""
    print_line(("undo: ", "dim"), command)


def _without_password(url: str) -> str:
    return _PASSWORD_PART.sub("", _PASSWORD.sub(r"\1", url))
