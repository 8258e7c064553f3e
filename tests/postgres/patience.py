"""Waiting for what another process does, with a generous end."""

from __future__ import annotations

from threading import Event
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

LOOKS_MAX = 6000
PAUSE_SECONDS = 0.02


def comes_true(condition: Callable[[], object]) -> bool:
    """Look until a condition holds, for two minutes at least; tell whether it did."""
    pause = Event()
    for _ in range(LOOKS_MAX):
        if condition():
            return True
        pause.wait(PAUSE_SECONDS)
    return False
