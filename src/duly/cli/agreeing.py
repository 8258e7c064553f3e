"""Asking before something that can't be undone, or that touches many; a script says --yes."""

from __future__ import annotations

import sys

from duly.errors import UsageError

TYPED_ABOVE = 100
"""Above so many, a y is not enough: the number is typed."""


def is_agreed(verb: str, count: int, noun: str = "runs") -> bool:
    """Ask the person at the terminal; where nobody can be asked, --yes is missing."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        remedy = "give --yes where nobody can be asked, or look first with --dry-run"
        problem = f"is missing; {count:,} {noun if count != 1 else noun[:-1]} would be touched"
        raise UsageError("yes", None, problem, remedy)
    try:
        if count > TYPED_ABOVE:
            question = f"{verb} {count:,} {noun}? Type the number to go on: "
            return input(question).strip().replace(",", "") == str(count)
        what = f"{count:,} {noun}" if count != 1 else f"this {noun[:-1]}"
        return input(f"{verb} {what}? [y/N] ").strip().lower() in ("y", "yes")
    except (EOFError, KeyboardInterrupt):
        return False
