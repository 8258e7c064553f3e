"""Short turns: how long one thread may keep the interpreter while another waits for it.

A process of ours that fires or claims has other threads beside it: one that looks for trouble,
tasks in threads, an event loop. Whoever comes back from the database has to have the interpreter
again, several times for each statement; by default whoever has it may keep it for 5 ms each time.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

TURN_SECONDS = 0.0005


@contextmanager
def short_turns() -> Iterator[None]:
    """Let threads of this process change over sooner, while a block lasts.

    Only for processes that are ours: it is the same for all threads of one.
    """
    before = sys.getswitchinterval()
    sys.setswitchinterval(min(before, TURN_SECONDS))
    try:
        yield
    finally:
        sys.setswitchinterval(before)
