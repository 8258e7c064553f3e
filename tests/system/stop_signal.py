"""Lets a test stop a process in the middle of a store operation, instead of at a random moment.

On SIGUSR1 the process stops itself at its next call of a chosen store method, before anything of that
call is sent. SIGCONT lets it go on with the call.
"""

from __future__ import annotations

import signal
import threading
from contextlib import nullcontext
from functools import wraps
from typing import TYPE_CHECKING, Any

from duly.store.postgres.store import PostgresStore
from duly.store.sqlite.store import SqliteStore

if TYPE_CHECKING:
    from collections.abc import Callable


def stop_before(*names: str) -> None:
    """Install the signal for calls of these methods of both stores."""
    asked = threading.Event()
    signal.signal(signal.SIGUSR1, lambda *_: asked.set())
    for store in (SqliteStore, PostgresStore):
        for name in names:
            if hasattr(store, name):
                setattr(store, name, _stopping(getattr(store, name), asked))


def _stopping(method: Callable[..., Any], asked: threading.Event) -> Callable[..., Any]:
    @wraps(method)
    def stopping(store: Any, *arguments: Any) -> Any:
        if asked.is_set():
            asked.clear()
            _stop_here(store)
        return method(store, *arguments)

    return stopping


def _stop_here(store: Any) -> None:
    """Stop this process while none of its threads holds the lock of a whole SQLite file."""
    is_file = isinstance(store, SqliteStore)
    lock = store._connections._lock if is_file else nullcontext()  # noqa: SLF001 - not public
    with lock:
        # Sent to this very thread: another one would receive it a moment later.
        signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)
