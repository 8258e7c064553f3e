"""`duly dispatcher` with a long lease: where nobody may be declared dead, no busy machine is to blame.

python -m tests.system.long_lease_dispatcher dispatcher --url …
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import duly
from duly.cli.main import main
from duly.engine.settings import DispatcherSettings

if TYPE_CHECKING:
    from duly.engine.dispatcher import Dispatcher

LEASE_SECONDS = 12.0
PROGRAM = "tests.system.long_lease_dispatcher"
_dispatcher = duly.App.dispatcher


def patient(app: duly.App, **parts: Any) -> Dispatcher:
    """Return a dispatcher as it always is, and a long lease."""
    settings = DispatcherSettings(ttl_us=int(LEASE_SECONDS * 1_000_000))
    return _dispatcher(app, settings, **parts)


if __name__ == "__main__":
    duly.App.dispatcher = patient  # type: ignore[assignment, method-assign]
    main()
