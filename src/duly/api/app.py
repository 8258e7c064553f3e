"""The ASGI application of the HTTP API: finds the route of a request and answers it.

`ROUTES` is the one table of routes. Requests are served from it. The OpenAPI document, the tests of
access and the documentation are generated from it. Each resource in `duly.api.handlers` brings its
own part.

`path_parts` reads the raw path where the server gives one. A name may contain a slash, and servers
decode a path before they pass it on, which loses the difference between `a%2Fb` and `a/b`.

`Api` checks in a fixed order: host and origin, route, token or session, rate and scope, headers,
body. For a route with a scope, it reads no body and calls no handler before it knows the caller and
has checked the scope.

`Api` runs under `duly server`, under any ASGI server, or mounted in another application.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar
from urllib.parse import quote, unquote

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from duly.api.handlers import (
    alerts,
    attempts,
    backfills,
    delayed,
    describing,
    events,
    inbox,
    limits,
    looking,
    members,
    owners,
    proofs,
    queues,
    run_orders,
    runs,
    schedule_selections,
    schedules,
    selections,
    sessions,
    tasks,
    tokens,
    vitals,
)
from duly.api.handlers.events import follow_events
from duly.api.middleware import EventSubscription, Middleware, read_raw
from duly.api.repeating import KEY_HEADER, KeyedRequest, carry_out, read_key, request_hash
from duly.api.requests import (
    EVENT_STREAM,
    JSON,
    MEDIA_TYPE,
    answer_headers,
    api_error,
    check_accept,
    check_body_headers,
    headers_of,
    is_any_version,
    problem_of,
    read_body,
    read_query,
    read_version,
    version_tag,
)
from duly.api.route import PREFIX, ApiRequest, ApiResponse
from duly.app.metrics import measure
from duly.domain.auth import Scope
from duly.errors import Forbidden, shown
from duly.store.ports.auth import StoredResponse as KeptAnswer
from duly.telemetry.prometheus import MEDIA_TYPE as METRICS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from starlette.types import Receive, Send
    from starlette.types import Scope as Connection

    from duly.api.middleware import ApiSettings
    from duly.api.ordering import IdempotentOrder
    from duly.api.route import Route
    from duly.app import App
    from duly.client.access import TokenAuthenticator
    from duly.clock import Clock
    from duly.domain.auth import Principal

    T = TypeVar("T")


ROUTES: tuple[Route, ...] = (
    *schedules.ROUTES,
    *schedule_selections.ROUTES,
    *delayed.ROUTES,
    *runs.ROUTES,
    *run_orders.ROUTES,
    *selections.ROUTES,
    *attempts.ROUTES,
    *inbox.ROUTES,
    *backfills.ROUTES,
    *queues.ROUTES,
    *limits.ROUTES,
    *tasks.ROUTES,
    *members.ROUTES,
    *owners.ROUTES,
    *alerts.ROUTES,
    *proofs.ROUTES,
    *vitals.ROUTES,
    *looking.ROUTES,
    *events.ROUTES,
    *tokens.ROUTES,
    *sessions.ROUTES,
    *describing.ROUTES,
)


PATH_LENGTH_MAX = 8000


class Match(Protocol):
    """What can be found: a route of the API, or a page of the console."""

    @property
    def method(self) -> str:
        """The method by which it is asked for."""
        ...

    @property
    def path(self) -> str:
        """Where it is, with its named parts in braces."""
        ...


R = TypeVar("R", bound=Match)


class Table(Generic[R]):
    """Finds the route of a request."""

    def __init__(self, routes: Sequence[R], prefix: str = "") -> None:
        self._routes = [(_parts(prefix + route.path), route) for route in routes]
        # A word that stands there comes before one that may be anything.
        self._routes.sort(key=lambda one: [part.startswith("{") for part in one[0]])

    def find(self, method: str, parts: Sequence[str]) -> tuple[R, dict[str, str]]:
        """Return the route and the named parts of its path; refuse what there is not."""
        allowed: list[str] = []
        for pattern, route in self._routes:
            named = _match(pattern, parts)
            if named is None:
                continue
            if route.method == method:
                return route, named
            allowed.append(route.method)
        if allowed:
            names = ", ".join(sorted(set(allowed)))
            problem = f"{method} is not what can be done here"
            raise api_error(405, "method-not-allowed", problem, f"use {names}", Allow=names)
        problem = "there is no such path"
        raise api_error(404, "not-found", problem, f"see {PREFIX}/openapi.json for those there are")


def path_parts(scope: Mapping[str, Any]) -> list[str]:
    """Return the parts of a request's path below where the application is mounted, decoded."""
    raw = scope.get("raw_path")
    text = quote(scope["path"]) if raw is None else raw.decode("latin-1").partition("?")[0]
    if len(text) > PATH_LENGTH_MAX:
        problem = "the path is too long"
        raise api_error(414, "path-too-long", problem, f"at most {PATH_LENGTH_MAX:,} characters")
    root = quote(scope.get("root_path", ""))
    if root and text.startswith(root):
        text = text[len(root) :]
    try:
        return [unquote(part, errors="strict") for part in _parts(text)]
    except UnicodeDecodeError as error:
        problem = "the path is not text"
        raise api_error(400, "unreadable-path", problem, "percent-encode it as UTF-8") from error


def _parts(path: str) -> list[str]:
    return path.split("/")[1:]


def _match(pattern: Sequence[str], parts: Sequence[str]) -> dict[str, str] | None:
    if len(pattern) != len(parts):
        return None
    named: dict[str, str] = {}
    for wanted, part in zip(pattern, parts, strict=True):
        if wanted.startswith("{") and part:
            named[wanted[1:-1]] = part
        elif wanted != part:
            return None
    return named


TENANT_HEADER = "duly-tenant"
HEALTH_PATHS = (["healthz"], ["readyz"])
METRICS_PATH = ["metrics"]
_LOGGER = logging.getLogger("duly.api")


class Api:
    """The application. One instance serves all requests of a process."""

    def __init__(
        self,
        app: App,
        settings: ApiSettings | None = None,
        *,
        keeper: TokenAuthenticator | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._app = app
        self.front = Middleware(app, settings, keeper=keeper, clock=clock)
        self._settings = self.front.settings
        self._table = Table(ROUTES, PREFIX)
        self._always = answer_headers(self._settings)

    @property
    def is_at_work(self) -> bool:
        """Whether something is carried out that nobody waits for any more."""
        return self.front.is_at_work

    def make_ready(self) -> None:
        """Have a connection to the store, whose schema was looked at."""
        self._app.store.has_live_token()

    def end_streams(self) -> None:
        """Let those go who follow events: the server stops. For the event loop's own thread."""
        self.front.streams.end()

    async def __call__(self, scope: Connection, receive: Receive, send: Send) -> None:
        """Serve one connection, as ASGI has it."""
        if scope["type"] != "http":
            await _serve_other(scope, receive, send)
            if scope["type"] == "lifespan":
                await self.front.in_thread(self.front.keeper.close)
            return
        response = await self._respond(Request(scope, receive))
        for name, value in self._always.items():
            response.headers.setdefault(name, value)
        await response(scope, receive, send)

    async def _respond(self, request: Request) -> Response:
        try:
            return await self._answer(request)
        except ClientDisconnect:
            return Response(status_code=400)  # nobody is there to read it
        except Exception as error:
            problem = problem_of(error)
            if problem.status == 500:
                # Where it was sent to is somebody's own words: quoted, they stay on their line.
                _LOGGER.exception("%s %s failed", request.method, shown(request.scope["path"]))
            return Response(
                msgspec.json.encode(problem),
                status_code=problem.status,
                headers=headers_of(error),
                media_type=MEDIA_TYPE,
            )

    async def _answer(self, request: Request) -> Response:
        parts = path_parts(request.scope)
        if parts in HEALTH_PATHS and request.method == "GET":
            return await self._health(parts[0])
        front = self.front
        front.check(request)
        if parts == METRICS_PATH and request.method == "GET":
            return await self._metrics(request)
        route, named = self._table.find(request.method, parts)
        known, door = None, front.door_for(request)
        if route.scope is not None:
            known = await front.in_thread(door.who, request.method, request.headers)
            front.admit(known, route.scope)
        check_accept(request.headers, EVENT_STREAM if route.is_stream else JSON)
        check_body_headers(route, request.headers, self._settings)
        raw = await read_raw(request, self._settings)
        match = request.headers.get("if-match")
        received = ApiRequest(
            app=self._app if known is None else self._acting(request, known),
            known=known,
            door=door,
            headers=request.headers,
            path=named,
            query=read_query(route, request.scope.get("query_string", b"")),
            body=read_body(route, raw),
            version=read_version(match) if route.has_version else None,
            is_any_version=is_any_version(match),
        )
        if route.is_stream:
            return await self._stream(received, request)
        order = _order_of(route, received, raw, request)
        do = _do if self._app.traces.tracing is None else _do_heard
        answered = await front.in_thread(do, route, received, order, principal=known)
        return Response(answered.body, status_code=answered.status, headers=dict(answered.headers))

    def _acting(self, request: Request, principal: Principal) -> App:
        """Return the application as it acts for whoever asks, in the tenant that they name."""
        return self.front.acting(request, principal, request.headers.get(TENANT_HEADER))

    async def _stream(self, received: ApiRequest, request: Request) -> Response:
        """Answer with events as they happen, for as long as whoever asks may see them."""
        front = self.front
        first = await front.in_thread(follow_events, received, principal=received.known)
        recheck = partial(front.door_for(request).who, request.method, request.headers)
        is_of_all: bool = received.query.all_tenants
        watching = EventSubscription(
            received.app, received.principal, first.value, recheck, is_of_all
        )
        return front.stream(watching)

    async def _metrics(self, request: Request) -> Response:
        """Answer with the numbers of the whole store, to a token of every tenant."""
        door = self.front.door_for(request)
        known = await self.front.in_thread(door.who, request.method, request.headers)
        self.front.admit(known, Scope.READ)
        if not known.is_everywhere:
            remedy = (
                "use a token of every tenant: duly token create NAME --role viewer --tenant '*'"
            )
            raise Forbidden("metrics", "is not for a token of one tenant", remedy)
        acting = self._acting(request, known)
        measured = await self.front.in_thread(measure, acting, principal=known)
        return Response(measured.text().encode(), media_type=METRICS)

    async def _health(self, which: str) -> Response:
        """Say that the process lives, or that its store answers; to anybody, and no more."""
        status = 200
        if which == "readyz":
            try:
                # A question that the tables answer: a file's clock is only this process's own.
                await self.front.in_thread(self._app.store.has_live_token)
            except Exception:  # noqa: BLE001 - whatever it is, it is not ready
                status = 503
        return Response(b"ok\n" if status == 200 else b"not ready\n", status_code=status)


def _do(route: Route, received: ApiRequest, order: KeyedRequest | None) -> KeptAnswer:
    """Carry a request out; an order under a key once only."""
    if order is None:
        return _written(route, route.handler(received))

    def once(ordered: IdempotentOrder) -> KeptAnswer:
        return _written(route, route.handler(replace(received, ordered=ordered)))

    return carry_out(received.app.store, order, once)


def _do_heard(route: Route, received: ApiRequest, order: KeyedRequest | None) -> KeptAnswer:
    """Carry a request out, below the span that whoever asks tells of."""
    from duly.telemetry.otel import heard_from

    with heard_from(received.headers):
        return _do(route, received, order)


def _order_of(
    route: Route, received: ApiRequest, raw: bytes, request: Request
) -> KeyedRequest | None:
    """Return what makes a request an order that may be given again, if it has a key."""
    key = request.headers.get(KEY_HEADER)
    if key is None or not route.is_idempotent:
        return None
    said = request.headers.get("if-match", "")
    path = "/".join(path_parts(request.scope)).encode("utf-8", "surrogatepass")
    parts = (request.method.encode(), path, request.scope.get("query_string", b""))
    return KeyedRequest(
        tenant=received.app.tenant,
        principal=received.principal,
        key=read_key(key),
        request_hash=request_hash(*parts, said.encode(), raw),
        is_once_only=route.is_once_only,
    )


def _written(route: Route, answered: msgspec.Struct | ApiResponse) -> KeptAnswer:
    """Write an answer as it is sent."""
    answer = answered if isinstance(answered, ApiResponse) else ApiResponse(value=answered)
    headers = dict(answer.headers)
    if answer.version is not None:
        headers["ETag"] = version_tag(answer.version)
    body = b""
    if answer.value is not None:
        headers["Content-Type"] = JSON
        body = msgspec.json.encode(answer.value)
    return KeptAnswer(status=answer.status or route.status, headers=headers, body=body)


async def _serve_other(scope: Connection, receive: Receive, send: Send) -> None:
    """Answer what is not a request: the beginning and end of a server's life, and web sockets."""
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008})
        return
    while True:
        message: Any = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
