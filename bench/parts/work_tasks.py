"""Applications whose one task does nothing, for workers that are measured.

The task is called alike in all of them, because what promises it is filled in without them.
"""

from __future__ import annotations

import duly

coroutines = duly.App(name="bench")
functions = duly.App(name="bench")


@coroutines.task(name="ping")
async def ping_in_loop(number: int = 0) -> None:
    """Do nothing."""


@functions.task(name="ping")
def ping_in_thread(number: int = 0) -> None:
    """Do nothing."""
