"""The lifeline: by it a worker's process notices that whoever supervises it is gone, and ends too.

A supervisor holds the one end of a pipe that nobody writes to; its death closes it. On Linux the
kernel kills the process besides, also one that is too busy to look.
"""

from __future__ import annotations

import os
import signal
import threading
from contextlib import suppress

from duly.engine.executors.guard import die_with

VARIABLE = "DULY_LIFELINE"


def lifeline_variables(descriptor: int) -> dict[str, str]:
    """Return what a supervised process is told about its lifeline."""
    return {VARIABLE: f"{descriptor}:{os.getpid()}"}


def hold_lifeline() -> bool:
    """End with one's supervisor, if there is one; say whether there is.

    What this process starts in turn has lifelines of its own.
    """
    text = os.environ.pop(VARIABLE, None)
    if text is None:
        return False
    descriptor, _, parent = text.partition(":")
    die_with(int(parent))
    threading.Thread(
        target=_end_with, args=(int(descriptor),), name="duly-lifeline", daemon=True
    ).start()
    return True


def _end_with(descriptor: int) -> None:
    os.set_inheritable(descriptor, False)  # noqa: FBT003 - as the library has it
    with suppress(OSError):
        while os.read(descriptor, 1):
            pass
    os.kill(os.getpid(), signal.SIGKILL)
