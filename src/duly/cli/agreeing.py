"""Asking before something that can't be undone, or that touches many; a script says --yes."""

from __future__ import annotations

import sys

from duly.errors import UsageError

TYPED_ABOVE = 100
"""Above so many, a y is not enough: the number is typed."""


def require_answer(count: int, looking: str = "--dry-run", noun: str = "run") -> None:
    """Refuse to go on where nobody can be asked, before anything is shown."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        remedy = f"give it to go on, or look first with {looking}"
        things = noun if count == 1 else f"{noun}s"
        problem = f"{things} would be touched, and nobody can be asked here"
        raise UsageError("--yes", count, problem, remedy)


def is_agreed(verb: str, count: int, noun: str = "run") -> bool:
    """Ask the person at the terminal."""
    try:
        if count > TYPED_ABOVE:
            question = f"{verb} {counted(count, noun)}? Type the number to go on: "
            return input(question).strip().replace(",", "") == str(count)
        return input(f"{verb} {counted(count, noun)}? [y/N] ").strip().lower() in ("y", "yes")
    except (EOFError, KeyboardInterrupt):
        return False


def counted(count: int, noun: str) -> str:
    """Say how many there are: "1 run", "1,200 runs"."""
    return f"1 {noun}" if count == 1 else f"{count:,} {noun}s"
