"""Runs the HTTP server in this process: listen addresses, TLS, start and end.

`Server` uses granian's embedded server: one event loop, with requests carried out in threads beside
it. It listens on a socket of its own, which no other process can share, and lends it to granian. A
fleet runs several processes of `duly server` behind a proxy.
"""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import socket
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Protocol

from duly.api.app import Api
from duly.api.connections import PASS_SECONDS, ConnectionGuard, ConnectionLimits
from duly.api.middleware import LOOPBACK, ApiSettings, is_proxy, read_proxies
from duly.errors import UsageError, require_text

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from granian.server.embed import Server as GranianServer
    from starlette.types import ASGIApp, Receive, Scope, Send

    from duly.app import App


HOST_DEFAULT = "127.0.0.1"
PORT_DEFAULT = 8420
PORT_VARIABLE = "DULY_PORT"
PORT_MAX = 65_535
HOST_LENGTH_MAX = 253
_LOCALHOST = "localhost"
_PORTS = f"give 1 to {PORT_MAX}, or 0 for any free port"
_TERMS = "give --tls-cert and --tls-key, or --behind-proxy for a proxy that brings TLS"


def chosen_port(port: int | None) -> int:
    """Return the port that is given, else that of $DULY_PORT, else the default."""
    if port is not None:
        return port
    text = os.environ.get(PORT_VARIABLE) or str(PORT_DEFAULT)
    if not (text.isascii() and text.isdecimal() and int(text[:6]) <= PORT_MAX):
        raise UsageError(PORT_VARIABLE, text, "is not a port", _PORTS)
    return int(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class BindAddress:
    """An address, and what protects what goes over it."""

    host: str = HOST_DEFAULT
    port: int = PORT_DEFAULT
    """0: any free port, which `Server.url` tells once it is bound."""
    is_behind_proxy: bool = False
    """Whether a proxy in front of it brings TLS."""
    tls_cert: Path | None = None
    tls_key: Path | None = None
    allow_hosts: tuple[str, ...] = ()
    """Names besides its own by which it may be asked for."""
    trust_proxies: tuple[str, ...] = ()
    """Addresses and networks of proxies that say from where callers come."""

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        if self.host == _LOCALHOST:
            return True
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def has_tls(self) -> bool:
        """Whether it brings TLS itself."""
        return self.tls_cert is not None

    @property
    def url(self) -> str:
        """Where it is found."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.has_tls else 'http'}://{host}:{self.port}"

    def checked(self, *, has_token: bool) -> BindAddress:
        """Return it if it is safe to listen like this; `has_token`: whether any token is live."""
        require_text("host", self.host, HOST_LENGTH_MAX)
        if not 0 <= self.port <= PORT_MAX:
            raise UsageError("port", self.port, "is not a port", _PORTS)
        if (self.tls_cert is None) != (self.tls_key is None):
            field = "tls_key" if self.tls_key is None else "tls_cert"
            raise UsageError(field, None, "is missing", "give --tls-cert and --tls-key together")
        for field in ("tls_cert", "tls_key"):
            path: Path | None = getattr(self, field)
            if path is not None and not path.is_file():
                raise UsageError(field, str(path), "is not a file", "give a PEM file")
        read_proxies(self.trust_proxies)
        if self.is_loopback:
            return self
        if not (self.has_tls or self.is_behind_proxy):
            problem = "can be reached from other machines, and tokens would go over the wire"
            raise UsageError("host", self.host, problem, _TERMS)
        if not has_token:
            problem = "can be reached from other machines, and nobody has a token yet"
            remedy = "make one first: duly token create NAME --role admin"
            raise UsageError("host", self.host, problem, remedy)
        if self._is_every_address and not self.allow_hosts:
            problem = "stands for every address, and says no name to be asked for"
            raise UsageError("host", self.host, problem, "give --allow-host duly.example.com")
        return self

    def settings(self, settings: ApiSettings | None = None) -> ApiSettings:
        """Return what the API is to allow when it is served like this."""
        own = () if self._is_every_address else (self.host,)
        names = (*LOOPBACK, *own, *self.allow_hosts)
        hosts = tuple(dict.fromkeys(_bracketed(name.lower()) for name in names))
        given = settings or ApiSettings()
        return replace(
            given,
            hosts=hosts,
            proxies=(*given.proxies, *read_proxies(self.trust_proxies)),
            is_secure=self.has_tls or self.is_behind_proxy,
        )

    @property
    def _is_every_address(self) -> bool:
        try:
            return ip_address(self.host).is_unspecified
        except ValueError:
            return False


def _bracketed(name: str) -> str:
    """Write an address of the sixth version as it stands in a URL."""
    return f"[{name}]" if ":" in name and not name.startswith("[") else name


STOP_SECONDS = 5
"""How long requests may go on once it is to stop."""
READY_SECONDS_MAX = 1.0
"""How long a beginning may wait for what the first who ask would wait for."""
BACKLOG = 1_024
"""How many connections may wait to be accepted."""
HEADER_MILLISECONDS = 10_000
HEADERS_BYTES_MAX = 64 * 1024
_LOGGER = logging.getLogger("duly.api")


class ServerAddress(Protocol):
    """What can be served: the API, or the console with the API in it."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection, as ASGI has it."""
        ...

    @property
    def is_at_work(self) -> bool:
        """Whether something is carried out that nobody waits for any more."""
        ...

    def make_ready(self) -> None:
        """Make what the first who ask would wait for: connections, pages. It may fail."""
        ...

    def end_streams(self) -> None:
        """Let those go who follow: the server stops."""
        ...


class Server:
    """A server, from beginning to end."""

    def __init__(
        self,
        app: App,
        listening: BindAddress,
        settings: ApiSettings | None = None,
        *,
        make: Callable[[App, ApiSettings], ServerAddress] = Api,
    ) -> None:
        self._listening = listening
        self._settings = listening.settings(settings)
        self._api = make(app, self._settings)
        self._own: socket.socket | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_ready = asyncio.Event()
        self._stopped = False
        self.is_cut_short = False
        """Whether it has stopped while requests were still being carried out."""

    @property
    def url(self) -> str:
        """Where it is found; where any free port will do, known once it can be reached."""
        return self._listening.url

    def claim(self) -> None:
        """Listen from now on, and serve later; UsageError if the address is taken."""
        if self._own is None:
            self._own = _listener(self._listening)
            self._listening = replace(self._listening, port=self._own.getsockname()[1])

    def run(self, on_ready: Callable[[], None] | None = None) -> None:
        """Serve until `stop` is called, from a signal handler or another thread."""
        self.claim()
        assert self._own is not None, "just claimed"
        with self._own:
            asyncio.run(self._serve(self._own, on_ready))
        # Also of those who were told long ago that it took too long.
        self.is_cut_short = self.is_cut_short or self._api.is_at_work

    def stop(self) -> None:
        """Have it stop; what is being carried out may be finished."""
        self._stopped = True
        if self._loop is not None:
            with suppress(RuntimeError):  # it has ended by itself
                self._loop.call_soon_threadsafe(self._end)

    async def _serve(self, own: socket.socket, on_ready: Callable[[], None] | None) -> None:
        self._loop = asyncio.get_running_loop()
        places = _places(self._settings)
        guard = ConnectionGuard(
            self._api,
            self._listening.port,
            ConnectionLimits(
                total=places - places // 4,  # the rest is for those that come meanwhile
                of_one=min(self._settings.connections_of_one_max, places // 2),
                is_shared=partial(is_proxy, proxies=self._settings.proxies),
            ),
        )
        self._server = _granian(guard, own, self._listening, places)
        await self._get_ready(self._loop)
        if self._stopped:
            return
        _end_silent_later(self._loop, guard)
        # A client that connects from now on waits in the backlog for the moment that is left.
        telling = asyncio.ensure_future(asyncio.to_thread(on_ready or _say_nothing))
        try:
            await self._server.serve()
        except TimeoutError:
            # Some are not done in time: they are left to themselves, and their threads to whoever
            # ends the program (`Store.interrupt`).
            self.is_cut_short = True
            self._loop.set_exception_handler(_pass_over)
        finally:
            telling.cancel()

    async def _get_ready(self, loop: asyncio.AbstractEventLoop) -> None:
        """Wait for what the first who ask would wait for; what takes longer is made meanwhile.

        In a thread that keeps no process: a store that does not answer is no reason not to begin.
        """

        def make() -> None:
            try:
                self._api.make_ready()
            except Exception as error:  # noqa: BLE001 - whatever it is, the first who asks is told
                _LOGGER.debug("not all was made in advance: %s", error)
            with suppress(RuntimeError):  # it has ended meanwhile
                loop.call_soon_threadsafe(self._is_ready.set)

        threading.Thread(target=make, name="duly-ready", daemon=True).start()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._is_ready.wait(), READY_SECONDS_MAX)

    def _end(self) -> None:
        self._is_ready.set()
        self._api.end_streams()
        self._server.stop()  # type: ignore[no-untyped-call]


def _pass_over(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Say nothing of what the server's library finds too late: nobody waits for it any more."""
    if not isinstance(context.get("exception"), asyncio.InvalidStateError):
        loop.default_exception_handler(context)


def _say_nothing() -> None:
    """Stand in for a caller that need not know when the server can be reached."""


def _end_silent_later(loop: asyncio.AbstractEventLoop, guard: ConnectionGuard) -> None:
    """Have silent connections ended, again and again, for as long as the loop runs."""

    def end() -> None:
        try:
            guard.end_silent()
        finally:
            loop.call_later(PASS_SECONDS, end)

    loop.call_later(PASS_SECONDS, end)


def _places(settings: ApiSettings) -> int:
    """Return how many connections are accepted: of requests and streams, as descriptors allow."""
    wanted = settings.connections_max + settings.streams_max
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return wanted if allowed == resource.RLIM_INFINITY else min(wanted, allowed // 2)


def _granian(
    application: ASGIApp, own: socket.socket, listening: BindAddress, places: int
) -> GranianServer:
    """Return the library's server, which accepts connections from our socket."""
    # A program that only asks has no need of a server's library.
    from granian._granian import SocketHolder
    from granian.constants import HTTPModes, Interfaces
    from granian.http import HTTP1Settings
    from granian.server.embed import Server as GranianServer

    class LentSocketServer(GranianServer):
        """Takes a socket that listens, where the library's own would share its port."""

        def _init_shared_socket(self) -> None:
            hold: Callable[..., Any] = SocketHolder  # its stub leaves out what it takes
            of_socket: list[int] = [own.detach(), False]
            if sys.platform.startswith(("linux", "freebsd")):
                of_socket.append(BACKLOG)
            self._shd = hold(*of_socket)

    server = LentSocketServer(
        application,
        address=listening.host,
        port=listening.port,
        interface=Interfaces.ASGI,
        # With both versions on one port, a connection that says nothing is waited for for ever.
        http=HTTPModes.http1,
        http1_settings=HTTP1Settings(
            header_read_timeout=HEADER_MILLISECONDS, max_buffer_size=HEADERS_BYTES_MAX
        ),
        backpressure=places,
        websockets=False,
        log_enabled=False,
        ssl_cert=listening.tls_cert,
        ssl_key=listening.tls_key,
    )
    server.workers_kill_timeout = STOP_SECONDS
    return server


def require_free(listening: BindAddress) -> None:
    """Refuse an address that can't be listened on, by a sentence and not in the middle."""
    _listener(listening).close()


def _listener(listening: BindAddress) -> socket.socket:
    """Return a socket that listens, and that no other process can share (no SO_REUSEPORT)."""
    family = socket.AF_INET6 if ":" in listening.host else socket.AF_INET
    own = socket.socket(family, socket.SOCK_STREAM)
    try:
        own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        own.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        own.bind((listening.host, listening.port))
        own.listen(BACKLOG)
    except OSError as error:
        own.close()
        problem = f"can't be listened on ({error.strerror})"
        place = f"{listening.host}:{listening.port}"
        raise UsageError("port", place, problem, "choose another with --port") from error
    return own
