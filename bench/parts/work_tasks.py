"""Applications whose one task does nothing, for workers that are measured.

The task is called alike in all of them, because what promises it is filled in without them. The
telling ones return when they began, by the machine's clock: so the store itself keeps how late
each run was started.
"""

from __future__ import annotations

import duly
from bench.stores.places import CLOCK

coroutines = duly.App(name="bench")
functions = duly.App(name="bench")
telling_coroutines = duly.App(name="bench")
telling_functions = duly.App(name="bench")


@coroutines.task(name="ping")
async def ping_in_loop() -> None:
    """Do nothing."""


@functions.task(name="ping")
def ping_in_thread() -> None:
    """Do nothing."""


@telling_coroutines.task(name="ping")
async def tell_in_loop() -> int:
    """Return when it began."""
    return CLOCK.now_us()


@telling_functions.task(name="ping")
def tell_in_thread() -> int:
    """Return when it began."""
    return CLOCK.now_us()
