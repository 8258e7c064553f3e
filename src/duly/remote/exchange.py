"""Requests and replies: sent, and sent again when the connection is lost, within bounds.

An order goes out under an Idempotency-Key that is drawn once, so that the server carries it out
once however often it comes. What has no key is sent again only where twice is the same as once.
"""

from __future__ import annotations

import http.client
import ssl
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from duly.errors import StoreError, StoreUnavailable, UsageError
from duly.remote.refusals import LATER, STILL_RUNNING, read_problem

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from duly.draws import Draws
    from duly.remote.address import Address

ANSWER_BYTES_MAX = 64 * 1024 * 1024
IDLE_MAX = 8
"""How many connections are kept for the next request."""
_DRAWN = 2**16


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long to wait for a server, and how often to try."""

    timeout_seconds: float = 35
    """For a connection, and for each part of an answer; a server gives up after 30."""
    tries_max: int = 5
    pause_seconds: float = 0.2
    """Before the second try, up to so long; each pause is longer than the one before."""
    pause_seconds_max: float = 5

    def __post_init__(self) -> None:
        for name in ("timeout_seconds", "tries_max", "pause_seconds", "pause_seconds_max"):
            if not getattr(self, name) > 0:
                raise UsageError(name, getattr(self, name), "is not above 0", "give more")

    def pause(self, number: int, draw: float, wanted: float | None = None) -> float:
        """Return how long to wait after a try; all who lost a server come back spread out."""
        longest: float = min(self.pause_seconds * 2**number, self.pause_seconds_max)
        least = 0.0 if wanted is None else min(wanted, self.pause_seconds_max)
        return max(least, longest * (0.5 + draw / 2))


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A request, ready to be sent as often as needed."""

    method: str
    target: str
    """Path and query."""
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    is_repeatable: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a server has answered, whole."""

    status: int
    headers: Mapping[str, str]
    """Names in small letters."""
    body: bytes

    @property
    def media_type(self) -> str:
        """What the body says it is."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def retry_seconds(self) -> float | None:
        """After how long the server wants to be asked again."""
        said = self.headers.get("retry-after", "")
        return float(said) if said.isascii() and said.isdecimal() and len(said) < 6 else None


class Lost(Exception):  # noqa: N818 - what happened
    """A connection was lost: before the request was out, or with the reply."""

    def __init__(self, cause: Exception, *, is_sent: bool) -> None:
        super().__init__(str(cause))
        self.is_sent = is_sent
        self.words = str(cause) or type(cause).__name__


class Exchange:
    """Connections to one server; threads may share it."""

    def __init__(  # noqa: PLR0913 - each may be another in a test
        self,
        address: Address,
        patience: Patience,
        draws: Draws,
        *,
        rest: Callable[[float], object] | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.address = address
        self.patience = patience
        self._draws = draws
        self._rest = threading.Event().wait if rest is None else rest
        self._tls = _trusted(tls) if address.is_secure else None
        self._lock = threading.Lock()
        self._idle: list[http.client.HTTPConnection] = []

    def ask(self, ask: Ask) -> Reply:
        """Send a request until it is answered, within bounds; raise if it never was."""
        for number in range(self.patience.tries_max):
            is_last = number + 1 == self.patience.tries_max
            try:
                reply = self._once(ask)
            except Lost as lost:
                if is_last or (lost.is_sent and not ask.is_repeatable):
                    raise self._unreachable(ask, lost) from lost
                self.pause(number)
                continue
            if is_last or not (ask.is_repeatable and _is_for_later(reply)):
                return reply
            self.pause(number, reply.retry_seconds)
        raise AssertionError("the last try returns or raises")

    def pause(self, number: int, wanted: float | None = None) -> None:
        """Wait before the next try."""
        draw = int.from_bytes(self._draws.draw(2), "big") / _DRAWN
        self._rest(self.patience.pause(number, draw, wanted))

    def connect(self, timeout_seconds: float | None = None) -> http.client.HTTPConnection:
        """Return a new connection, which is opened by the first request."""
        host, port = self.address.host, self.address.port
        seconds = self.patience.timeout_seconds if timeout_seconds is None else timeout_seconds
        if self._tls is None:
            return http.client.HTTPConnection(host, port, timeout=seconds)
        return http.client.HTTPSConnection(host, port, timeout=seconds, context=self._tls)

    def close(self) -> None:
        """Let go of connections that wait for the next request."""
        with self._lock:
            idle, self._idle = self._idle, []
        for one in idle:
            one.close()

    def _once(self, ask: Ask) -> Reply:
        connection = self._lent(is_fresh=not ask.is_repeatable)
        is_sent = False
        try:
            if connection.sock is None:
                connection.connect()
            is_sent = True  # from here on some of it may have arrived
            connection.request(ask.method, ask.target, ask.body, dict(ask.headers))
            response = connection.getresponse()
            body = response.read(ANSWER_BYTES_MAX + 1)
        except ssl.SSLCertVerificationError as error:
            connection.close()
            problem = f"shows a certificate that is not trusted ({error.verify_message})"
            remedy = "see whether it is the right server; give tls= to trust another authority"
            raise StoreError(self.address.url, problem, remedy) from error
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise Lost(error, is_sent=is_sent) from error
        except BaseException:
            connection.close()
            raise
        if len(body) > ANSWER_BYTES_MAX:
            connection.close()
            problem = f"answered more than {ANSWER_BYTES_MAX:,} bytes"
            raise StoreError(self.address.url, problem, "ask for less at once")
        headers = {name.lower(): value for name, value in response.getheaders()}
        self._give_back(connection, is_open=not response.will_close)
        return Reply(status=response.status, headers=headers, body=body)

    def _lent(self, *, is_fresh: bool) -> http.client.HTTPConnection:
        """Return a connection; what can't be sent twice does not go out on one that may be gone."""
        with self._lock:
            if self._idle and not is_fresh:
                return self._idle.pop()
        return self.connect()

    def _give_back(self, connection: http.client.HTTPConnection, *, is_open: bool) -> None:
        with self._lock:
            if is_open and len(self._idle) < IDLE_MAX:
                self._idle.append(connection)
                return
        connection.close()

    def _unreachable(self, ask: Ask, lost: Lost) -> StoreUnavailable:
        if ask.method == "GET" or not lost.is_sent:
            problem = f"can't be reached ({lost.words})"
            return StoreUnavailable(self.address.url, problem, "see whether it runs, and try again")
        problem = (
            f"gave no answer ({lost.words}): it is not known whether the order was carried out"
        )
        return StoreUnavailable(self.address.url, problem, "look before you give it again")


def _is_for_later(reply: Reply) -> bool:
    """Say whether the same request may well be carried out in a moment."""
    if reply.status not in LATER and reply.status != 409:
        return False
    problem = read_problem(reply)
    if reply.status == 409:
        return problem is not None and problem.code == STILL_RUNNING
    # A quota and a schema stay as they are for longer than anybody waits.
    return problem is None or problem.code not in {"over-quota", "schema-mismatch"}


def _trusted(tls: ssl.SSLContext | None) -> ssl.SSLContext:
    """Return how a server proves who it is; whoever does without sends its token to anybody."""
    if tls is None:
        return ssl.create_default_context()
    if tls.verify_mode is not ssl.CERT_REQUIRED or not tls.check_hostname:
        remedy = "use ssl.create_default_context(cafile=…) to trust an authority of your own"
        raise UsageError("tls", tls, "does not verify who answers", remedy)
    return tls
