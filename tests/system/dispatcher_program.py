"""`duly dispatcher` with a chosen lease; on SIGUSR1 it stops itself before its next fire.

python -m tests.system.dispatcher_program SECONDS dispatcher --url …
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import duly
from duly.cli.main import main
from duly.engine.dispatcher.settings import DispatcherSettings
from tests.system.stop_signal import stop_before

if TYPE_CHECKING:
    from duly.engine.dispatcher.dispatcher import Dispatcher

PROGRAM = "tests.system.dispatcher_program"
_dispatcher = duly.App.dispatcher


def with_lease(app: duly.App, ttl_us: int, **parts: Any) -> Dispatcher:
    """Return a dispatcher as it always is, and another lease."""
    return _dispatcher(app, DispatcherSettings(ttl_us=ttl_us), **parts)


if __name__ == "__main__":
    ttl = int(float(sys.argv.pop(1)) * 1_000_000)
    duly.App.dispatcher = lambda app, **parts: with_lease(app, ttl, **parts)  # type: ignore[method-assign]
    stop_before("fire_timers")
    main()
