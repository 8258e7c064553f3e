"""`duly server`: serves the console and the HTTP API, until it is told to stop."""

from __future__ import annotations

import importlib.util
import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from duly.app import App
from duly.app.running import seldom_tidied
from duly.app.short_turns import short_turns
from duly.app.stores import require_shared
from duly.app.watching import watching
from duly.cli.event_lines import LineTelemetry
from duly.cli.observing import Observed
from duly.cli.retaining import note_retention
from duly.cli.target import Target, of_all_tenants, opened
from duly.clock import SystemClock
from duly.errors import UsageError

if TYPE_CHECKING:
    from duly.api.listening import Listening

TARGET = Target()
OBSERVED = Observed()
HOST_DEFAULT = "127.0.0.1"
END_SECONDS_MAX = 30
"""How long an end may take: requests are waited for, and then the watch, for seconds each."""
STOPPED = "stopped in good order"
CUT_SHORT = "stopped; requests that took too long were broken off"
_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_NEEDED = ("granian", "jinja2", "starlette")


def server(  # noqa: PLR0913 - each option of the command is an argument
    *,
    host: str = HOST_DEFAULT,
    port: int | None = None,
    behind_proxy: bool = False,
    tls_cert: Path | None = None,
    tls_key: Path | None = None,
    allow_host: tuple[str, ...] = (),
    trust_proxy: tuple[str, ...] = (),
    console: bool = True,
    retain: tuple[str, ...] = (),
    observed: Observed = OBSERVED,
    target: Target = TARGET,
) -> None:
    """Serve console and HTTP API until SIGTERM or Ctrl-C; on this machine alone, unless told.

    Whoever asks shows a token (duly token create). While nobody has one, a code is printed that
    begins one session of a browser. The API describes itself at /api/v1/openapi.json.

    Parameters
    ----------
    host
        The address to listen on. One that other machines can reach needs TLS, and a live token.
    port
        The port; $DULY_PORT unless given, else 8420. With 0 a free one is chosen, and told.
    behind_proxy
        A proxy in front of it brings TLS.
    tls_cert
        The certificate, a PEM file, for TLS of its own.
    tls_key
        Its key, a PEM file.
    allow_host
        A name by which it may be asked for besides its own, such as duly.example.com; may be given
        several times.
    trust_proxy
        An address or network of proxies, such as 10.0.8.0/24, whose X-Forwarded-For is believed:
        then the audit trail tells callers' own addresses. May be given several times.
    console
        Serve the console at / too, and not the API alone.
    retain
        How long the dispatchers keep history, as `duly dispatcher --retain` was told, to say so on
        pages. $DULY_RETENTION says the same.
    """
    note_retention(retain)
    require_server_library()
    from duly.api.listening import Listening, chosen_port

    listening = Listening(
        host=host,
        port=chosen_port(port),
        is_behind_proxy=behind_proxy,
        tls_cert=tls_cert,
        tls_key=tls_key,
        allow_hosts=allow_host,
        trust_proxies=trust_proxy,
    )
    telling = LineTelemetry(SystemClock(), level=logging.INFO, style=observed.style(target))
    with opened(of_all_tenants(target), needs_store=True) as app:
        require_shared(app.url)
        observed.begin("server", app, telling)
        listening.checked(has_token=app.store.has_live_token())
        _serve(app, listening, telling, has_console=console)


def _serve(app: App, listening: Listening, telling: LineTelemetry, *, has_console: bool) -> None:
    """Serve until a signal ends it."""
    from duly.api.asgi import Api
    from duly.api.serving import Serving
    from duly_web import Console

    serving = Serving(app, listening, make=Console if has_console else Api)

    def ready() -> None:
        url = serving.url
        facts: dict[str, object] = {"event": "started", "store": app.url, "url": url}
        telling.tell(f"serving {app.url} at {url}; Ctrl-C ends it", facts=facts)
        tell_code(app, telling, url, has_console=has_console)

    # Also without any dispatcher somebody is told that nothing fires.
    with (
        watching(app, telling),
        seldom_tidied(),
        short_turns(),
        _ended_by_signal(serving.stop, telling),
    ):
        try:
            serving.run(ready)
        finally:
            # Whoever still reads keeps a thread, and a thread keeps the process.
            app.store.interrupt()
    telling.tell(CUT_SHORT if serving.is_cut_short else STOPPED, facts={"event": "stopped"})


@contextmanager
def served(
    app: App,
    port: int | None,
    telling: LineTelemetry,
    on_ready: Callable[[str], None] | None = None,
) -> Iterator[None]:
    """Serve the console and the API beside something else, on this machine alone.

    Without a port: at the usual one, if what serves is installed and the port is free. `on_ready`
    is told the address once it can be reached, and says what is to be said of it.
    """
    if port is None and not has_server_library():
        yield
        return
    require_server_library()
    from duly_web.beside import Beside, console_beside

    def tell(text: str, facts: dict[str, object]) -> None:
        telling.tell(text, facts=facts)

    def warn(text: str, facts: dict[str, object]) -> None:
        telling.tell(f"warning: {text}", level=logging.WARNING, facts=facts)

    with console_beside(app, Beside(tell=tell, warn=warn, port=port, on_ready=on_ready)):
        yield


def tell_code(app: App, telling: LineTelemetry, url: str, *, has_console: bool = False) -> None:
    """While nobody has a token, say how the first one comes in: by a code that opens once."""
    if app.store.has_live_token():
        return
    code = app.doorkeeper().make_code()
    # What stands behind the # is never sent, and so in nobody's log.
    way = f"open {url}/enter#{code}" if has_console else f"POST {url}/api/v1/session"
    telling.tell(
        f"nobody has a token yet: the code {code} begins one session within 15 minutes"
        f" ({way}), or: duly token create NAME --role admin",
        facts={"event": "code", "code": code},
    )


def has_server_library() -> bool:
    """Say whether what serves is installed."""
    return not _missing()


def require_server_library() -> None:
    """Refuse to begin without what serves."""
    missing = _missing()
    if missing:
        remedy = "install it again: pip install --force-reinstall duly"
        raise UsageError("server", missing[0], "is not installed", remedy)


def _missing() -> list[str]:
    return [name for name in _NEEDED if importlib.util.find_spec(name) is None]


def _end_at_last(telling: LineTelemetry) -> None:
    """End the process whatever its threads do, if it has not ended by itself.

    That loses nothing: what was acknowledged is in the store, as after any crash.
    """

    def end() -> None:
        threading.Event().wait(END_SECONDS_MAX)
        problem = f"not ended within {END_SECONDS_MAX} seconds: ended all the same"
        telling.tell_between(problem, {"event": "cut-off"})
        os._exit(1)

    threading.Thread(target=end, name="duly-end", daemon=True).start()


@contextmanager
def _ended_by_signal(stop: Callable[[], None], telling: LineTelemetry) -> Iterator[None]:
    """Let the first signal end it in good order, and a second one the process."""

    def heard(_number: int, _frame: FrameType | None) -> None:
        for one in _SIGNALS:
            signal.signal(one, signal.SIG_DFL)
        telling.tell_between("stopping; a second signal ends it at once", {"event": "stopping"})
        _end_at_last(telling)
        stop()

    before = [(one, signal.signal(one, heard)) for one in _SIGNALS]
    try:
        yield
    finally:
        for one, handler in before:
            signal.signal(one, handler)
