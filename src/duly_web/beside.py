"""The console beside something else: `app.run()` and `duly dev` serve it while they run.

It is found by its name and not imported by them: an application does without it where what serves
is not installed.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from duly import UsageError
from duly.api.listening import PORT_DEFAULT, Listening
from duly.api.serving import Serving, require_free
from duly_web.console import Console

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from duly import App

    Tell = Callable[[str, dict[str, object]], None]


@contextmanager
def console_beside(app: App, tell: Tell, port: int | None = None) -> Iterator[None]:
    """Serve the console on this machine alone; without a port at the usual one, if it is free."""
    listening = Listening(port=port or PORT_DEFAULT).checked(has_token=True)
    try:
        require_free(listening)
    except UsageError:
        if port is not None:
            raise
        text = f"no console: port {listening.port} is taken; another shows it with --port"
        tell(text, {"event": "no-console", "port": listening.port})
        yield
        return
    serving = Serving(app, listening, make=Console)

    def ready() -> None:
        tell_console(app, tell, listening.url)

    thread = threading.Thread(target=serving.run, args=(ready,), name="duly-console")
    thread.start()
    try:
        yield
    finally:
        serving.stop()
        thread.join()


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
