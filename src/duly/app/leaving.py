"""Leaving: ends a worker's process, whatever its tasks have left running in it.

Python's own way out waits for every thread that is no daemon, such as those of a pool or of
`asyncio.to_thread`. One that hangs in there would keep a process alive that is no worker any more.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from contextlib import suppress
from typing import NoReturn

TIDY_SECONDS_MAX = 5.0
"""How long whatever is to be done at the end of a program may take."""


def leave(status: int) -> NoReturn:
    """End this process with a status, once what is registered for a program's end was done."""
    tidying = threading.Thread(target=_tidy_up, name="duly-leaving", daemon=True)
    tidying.start()
    tidying.join(TIDY_SECONDS_MAX)
    os._exit(status)


def _tidy_up() -> None:
    atexit._run_exitfuncs()  # noqa: SLF001 - logs and telemetry of tasks are flushed there
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
