"""The console beside something else: `app.run()` and `duly dev` serve it while they run.

It is found by its name and not imported by them: an application does without it where what serves
is not installed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from duly import UsageError
from duly.api.listening import Listening, chosen_port
from duly.api.serving import Serving, require_free
from duly_web.console import Console

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duly import App

Tell = Callable[[str, dict[str, object]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """Where the console is served, and who says so."""

    tell: Tell
    warn: Tell | None = None
    """Says what somebody should see to; else `tell` does."""
    port: int | None = None
    """None: that of $DULY_PORT, else the default, if it is free. 0: any free one."""
    on_ready: Callable[[str], None] | None = None
    """Is told the address, and says what is to be said; else `tell` does."""


@contextmanager
def console_beside(app: App, where: Beside) -> Iterator[None]:
    """Serve the console on this machine alone, for the length of a block."""
    listening = Listening(port=chosen_port(where.port)).checked(has_token=True)
    try:
        require_free(listening)
    except UsageError:
        if where.port is not None:
            raise
        text = (
            f"no console here: port {listening.port} is taken (by another duly dev?); give this"
            f" one its own: duly dev --port {listening.port + 1}"
        )
        (where.warn or where.tell)(text, {"event": "no-console", "port": listening.port})
        yield
        return
    serving = Serving(app, listening, make=Console)

    def ready() -> None:
        if where.on_ready is not None:
            where.on_ready(serving.url)
        else:
            tell_console(app, where.tell, serving.url)

    thread = threading.Thread(target=serving.run, args=(ready,), name="duly-console")
    thread.start()
    try:
        yield
    finally:
        serving.stop()
        thread.join()
        if serving.is_cut_short:
            # Whoever still reads keeps a thread, and a thread keeps the process. Else a program may
            # go on with its store when `app.run()` has returned.
            app.store.interrupt()


def tell_console(app: App, tell: Tell, url: str) -> None:
    """Say where the console is; while nobody has a token, with a code that opens it once."""
    if app.store.has_live_token():
        text = f"console at {url}, API at {url}/api/v1; sign in with a token"
        tell(text, {"event": "serving", "url": url})
        return
    code = app.doorkeeper().make_code()
    # What stands behind the # is never sent, and so in nobody's log.
    address = f"{url}/enter#{code}"
    text = f"console at {address} (opens once, within 15 minutes); API at {url}/api/v1"
    tell(text, {"event": "serving", "url": url, "code": code, "enter": address})
