"""How an order is taken back: a command that can be typed as it is, on the same store."""

from __future__ import annotations

import re
import shlex
import sys

from duly.cli.output import print_line

UNSAID = "…"
"""Where the next person says why."""
_PLACE_OPTIONS = ("--url", "--app")
_TENANT = "--tenant"
_PASSWORD = re.compile(r"(?<=://)([^:/@]*):[^@/]*(?=@)")
_PASSWORD_PART = re.compile(r"[?&]password=[^&]*")


def undo_text(*words: str) -> str:
    """Return the command that takes back an order, with the store and the program of this one."""
    typed = sys.argv[1:]
    return shlex.join(("duly", *tenant_words(typed), *words, *place_words(typed)))


def tenant_words(typed: list[str]) -> list[str]:
    """Return whose things somebody said are meant: before the command, as it is typed again."""
    for number, word in enumerate(typed):
        name, separator, value = word.partition("=")
        if not word.startswith("--"):
            if number == 0 or typed[number - 1] not in (*_PLACE_OPTIONS, _TENANT):
                return []  # the command: what follows is its own
        elif name == _TENANT:
            return [_TENANT, *((value,) if separator else typed[number + 1 : number + 2])]
    return []


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
