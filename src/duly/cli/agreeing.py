"""Asking before something that can't be undone, or that touches many; a script says --yes."""

from __future__ import annotations

import sys

from duly.errors import UsageError

TYPED_ABOVE = 100
"""Above so many, a y is not enough: the number is typed."""


def require_answer(count: int, looking: str = "--dry-run") -> None:
    """Refuse to go on where nobody can be asked, before anything is shown."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        remedy = f"give it to go on, or look first with {looking}"
        runs = "run" if count == 1 else "runs"
        problem = f"{runs} would be touched, and nobody can be asked here"
        raise UsageError("--yes", count, problem, remedy)


def is_agreed(verb: str, count: int) -> bool:
    """Ask the person at the terminal."""
    try:
        if count > TYPED_ABOVE:
            question = f"{verb} {_runs(count)}? Type the number to go on: "
            return input(question).strip().replace(",", "") == str(count)
        return input(f"{verb} {_runs(count)}? [y/N] ").strip().lower() in ("y", "yes")
    except (EOFError, KeyboardInterrupt):
        return False


def _runs(count: int) -> str:
    return "1 run" if count == 1 else f"{count:,} runs"
