"""The ASGI console: pages, login, the API below /api/v1, and the console beside app.run().

`Login` begins and ends sessions. The address that a server prints holds its code behind a `#`,
which no browser sends: the page's own script puts the code into the form. A browser does not send
our cookie when a link on another site leads here; through `/enter/known` the page finds out that
the visitor has a session all the same.

`Console` checks in a fixed order: host and origin, session, rate and permission, page and its
scope. Only then does it read a form, with the session's own token. A visitor without a session is
sent to the login page and returns to the requested page.

`console_beside` serves the console on loopback. `duly.app.services` finds this module by its name
and does not import it, so an application works without the packages that serve the console.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import RedirectResponse, Response

from duly import Conflict, DulyError, Unauthenticated, UsageError
from duly.api.app import Api, Table, path_parts
from duly.api.requests import (
    CSRF_HEADER,
    answer_headers,
    api_error,
    check_csrf,
    csrf_token,
    headers_of,
    problem_of,
    read_fields,
    read_pairs,
)
from duly.api.server import BindAddress, Server, chosen_port
from duly.web.formatting import TimeFormatter, read_choice, read_zone
from duly.web.pages import PAGES
from duly.web.rendering import (
    PageContext,
    RenderedPage,
    TtlCache,
    UpdateStream,
    came_from,
    compile_templates,
    load_all,
    local_path,
    make_shell,
    manifest,
    render,
    safe_return_path,
)
from duly.web.requests import NAME as FLASH_COOKIE
from duly.web.requests import (
    SECONDS,
    ConsoleUser,
    PageRequest,
    Redirect,
    RefusalModel,
    Rendered,
    heading,
    read_form,
    read_said,
    write_said,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.types import Receive, Scope, Send

    from duly import App
    from duly.api.middleware import ApiSettings, Authenticator, Middleware
    from duly.api.views import Clock, Principal
    from duly.web.requests import Page


SPENT = (
    "This code has been used, or is older than 15 minutes. Start again for a new one, or sign in"
    " with a token: duly token create me --role operator."
)
HTML = "text/html; charset=utf-8"


@dataclass(frozen=True, slots=True)
class LoginPage:
    """The page at the door."""

    next: str
    error: str | None = None


class Login:
    """Lets people in and out."""

    def __init__(self, front: Middleware) -> None:
        self._front = front

    async def answer(self, request: Request, parts: list[str]) -> Response:
        """Answer what is asked at the door."""
        match request.method, parts[1:]:
            case "GET", []:
                return self._page(request, LoginPage(_next(request.query_params.get("next"))))
            case "POST", []:
                return await self._enter(request)
            case "GET", ["known"]:
                await self._front.in_thread(self._front.door_for(request).visitor, request.headers)
                return Response(status_code=204)
            case "POST", ["leave"]:
                return await self._leave(request)
            case _:
                raise api_error(404, "not-found", "there is no such page", "go to the overview")

    async def _enter(self, request: Request) -> Response:
        form = await read_form(request, self._front.settings)
        shown = form.get("secret", [""])[-1].strip()
        to = _next(form.get("next", [""])[-1])
        try:
            begun = await self._front.in_thread(self._begin, self._front.door_for(request), shown)
        except DulyError as error:
            problem = problem_of(error)
            is_code = isinstance(error, Unauthenticated) and not _is_token(shown)
            told = SPENT if is_code else problem.detail
            return self._page(request, LoginPage(to, told), problem.status)
        response = RedirectResponse(request.scope.get("root_path", "") + to, status_code=303)
        response.headers["Set-Cookie"] = self._front.door.cookie(begun)
        return response

    def _begin(self, door: Authenticator, shown: str) -> str:
        """Begin a session by whichever of the two was pasted."""
        if _is_token(shown):
            return door.begin(code=None, token=shown).secret
        return door.begin(code=shown, token=None).secret

    async def _leave(self, request: Request) -> Response:
        door = self._front.door_for(request)
        principal, secret = await self._front.in_thread(door.visitor, request.headers)
        form = await read_form(request, self._front.settings)
        check_csrf(request.method, {CSRF_HEADER: form.get("csrf", [""])[-1]}, secret)
        await self._front.in_thread(door.end, principal, request.headers)
        response = RedirectResponse(request.scope.get("root_path", "") + "/enter", 303)
        response.headers["Set-Cookie"] = door.cookie(None)
        return response

    def _page(self, request: Request, model: LoginPage, status: int = 200) -> Response:
        root = request.scope.get("root_path", "")
        now = self._front.clock.now()
        here = PageContext(root=root, path="/enter", query=(), now=now, clocks=TimeFormatter())
        printed = RenderedPage(here=here, title="Sign in", model=model)
        return Response(render("enter.html", printed), status_code=status, media_type=HTML)


def _is_token(shown: str) -> bool:
    return shown.startswith("duly_")


def _next(text: str | None) -> str:
    return local_path(text) or "/"


SOURCE = "console"
CHOICE_COOKIE, ZONE_COOKIE, TENANT_COOKIE = "duly_tz", "duly_zone", "duly_tenant"
YEAR_SECONDS = 31_536_000
API_PARTS = frozenset({"api", "metrics", "healthz", "readyz"})
POLICY = (
    "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'; "
    "object-src 'none'"
)
FIRST = ("/", "/overview/timeline", "/overview/sides", "/overview/lateness", "/overview/load")
"""What somebody who comes looks at first."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LOGGER = logging.getLogger("duly.console")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleSession:
    """A request of somebody who is known."""

    request: Request
    visitor: ConsoleUser
    app: App
    clocks: TimeFormatter
    pairs: dict[str, list[str]]
    """The query, without what every page understands."""


class Console:
    """The application; mounted below a prefix, all its addresses follow."""

    def __init__(
        self, app: App, settings: ApiSettings | None = None, *, clock: Clock | None = None
    ) -> None:
        self._api = Api(app, settings, clock=clock)
        self._front = self._api.front
        self._table = Table(PAGES)
        self._entrance = Login(self._front)
        self._pulses = UpdateStream(self._front)
        self._kept = TtlCache(self._front.clock)
        # A browser that may tell nobody where it is says "null" of its own forms' origin.
        own = {"Content-Security-Policy": POLICY, "Referrer-Policy": "same-origin"}
        self._always = answer_headers(self._front.settings) | own

    @property
    def is_at_work(self) -> bool:
        """Whether something is carried out that nobody waits for any more."""
        return self._api.is_at_work

    def make_ready(self) -> None:
        """Look at the first pages as a visitor would, and have every template compiled."""
        try:
            self._api.make_ready()
            for path in FIRST:
                visit = self._nobodys_visit(path)
                page, named = self._table.find("GET", path_parts(visit.request.scope))
                self._carry_out(visit, page, named, None)
        finally:
            compile_templates()

    def end_streams(self) -> None:
        """Let those go who follow: the server stops. For the event loop's own thread."""
        self._api.end_streams()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection, as ASGI has it."""
        if scope["type"] != "http" or _is_for_api(scope):
            await self._api(scope, receive, send)
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
        except Unauthenticated:
            return to_the_door(request)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is told
            return await self._front.in_thread(self._failed, request, error)

    async def _answer(self, request: Request) -> Response:
        self._front.check(request)
        parts = path_parts(request.scope)
        if parts[0] == "static":
            return _static(parts)
        if parts[0] == "enter":
            return await self._entrance.answer(request, parts)
        door = self._front.door_for(request)
        principal, secret = await self._front.in_thread(door.visitor, request.headers)
        self._front.admit(principal, "read")
        visit = self._visit(request, principal, secret)
        if parts == ["live"] and request.method == "GET":
            return await self._pulses.answer(visit.app, principal, request)
        page, named = self._table.find(request.method, parts)
        self._front.admit(principal, page.scope)
        form = None
        if page.method == "POST":
            given = await read_form(request, self._front.settings)
            token = given.pop("csrf", [request.headers.get(CSRF_HEADER, "")])[-1]
            check_csrf(request.method, {CSRF_HEADER: token}, secret)
            _check_tenant(visit.visitor, given.pop("within", [""])[-1])
            form = None if page.form is None else read_fields(page.form, given)
        return await self._front.in_thread(
            self._carry_out, visit, page, named, form, principal=principal
        )

    def _visit(self, request: Request, principal: Principal, secret: str) -> ConsoleSession:
        pairs = read_pairs(request.scope.get("query_string", b""))
        asked = pairs.pop("tz", [request.cookies.get(CHOICE_COOKIE, "")])[-1]
        named = pairs.pop("tenant", [request.cookies.get(TENANT_COOKIE, "")])[-1]
        tenant = (named or None) if principal.is_everywhere else None
        app = self._front.acting(request, principal, tenant, SOURCE)
        visitor = ConsoleUser(
            name=principal.name,
            role=str(principal.role),
            scopes=frozenset(str(one) for one in principal.scopes),
            tenant=app.tenant,
            is_everywhere=principal.is_everywhere,
            csrf=csrf_token(secret),
        )
        return ConsoleSession(
            request=request,
            visitor=visitor,
            app=app,
            clocks=TimeFormatter(read_choice(asked), read_zone(request.cookies.get(ZONE_COOKIE))),
            # A form by GET sends fields that nobody filled in, too.
            pairs={name: kept for name, all_ in pairs.items() if (kept := [v for v in all_ if v])},
        )

    def _nobodys_visit(self, path: str) -> ConsoleSession:
        """Return a visit that the server makes itself; what it is shown, nobody is sent."""
        app = self._front.app
        scope = {"type": "http", "method": "GET", "path": path, "query_string": b"", "headers": []}
        nobody = ConsoleUser(
            name="", role="", scopes=frozenset(), tenant=app.tenant, is_everywhere=True, csrf=""
        )
        return ConsoleSession(
            request=Request(scope), visitor=nobody, app=app, clocks=TimeFormatter(), pairs={}
        )

    def _carry_out(
        self,
        visit: ConsoleSession,
        page: Page,
        named: dict[str, str],
        form: Any,  # noqa: ANN401 - of the type that the page has
    ) -> Response:
        # Before the page is made: what changes while it is made is news.
        everywhere = visit.visitor.is_everywhere
        mark = self._pulses.mark
        pulse = mark(visit.app, is_everywhere=everywhere) if page.method == "GET" else ""
        asked = PageRequest(
            app=visit.app,
            visitor=visit.visitor,
            now=_EPOCH + timedelta(microseconds=visit.app.store.now()),
            clocks=visit.clocks,
            kept=self._kept.of(visit.app.tenant),
            pulse=pulse,
            path=named,
            query=None if page.query is None else read_fields(page.query, visit.pairs),
            form=form,
        )
        try:
            found = page.handler(asked)
        finally:
            if page.method == "POST":
                asked.kept.forget()
        if isinstance(found, Redirect):
            return self._moved(visit.request, found)
        if found.part is not None and "hx-request" in visit.request.headers:
            found = replace(found, template=found.part, is_part=True)
        return self._shown(visit, asked, found, pulse)

    def _moved(self, request: Request, moved: Redirect) -> Response:
        """Send somebody on after an order; a script is told so that it goes there itself."""
        to = request.scope.get("root_path", "") + (local_path(moved.to) or "/")
        if "hx-request" in request.headers:
            response = Response(status_code=204, headers={"HX-Redirect": to})
        else:
            response = RedirectResponse(to, status_code=303)
        text = None if moved.said is None else write_said(moved.said)
        if text is not None:
            self._set(response, FLASH_COOKIE, text, SECONDS)
        return response

    def _shown(
        self, visit: ConsoleSession, asked: PageRequest, found: Rendered, pulse: str
    ) -> Response:
        request, shell = visit.request, None
        if not found.is_part:
            shell = make_shell(visit.app, visit.clocks, found.looked or load_all(asked))
        printed = RenderedPage(
            here=here_of(request, visit.clocks, asked.now),
            title=found.title,
            model=found.model,
            shell=shell,
            visitor=visit.visitor,
            said=None if found.is_part else read_said(request.cookies),
            pulse=pulse,
        )
        text = render(found.template, printed)
        response = Response(text, status_code=found.status, media_type=HTML)
        if found.is_part:
            return response
        if FLASH_COOKIE in request.cookies:
            self._set(response, FLASH_COOKIE, "", 0)
        for cookie, name in ((CHOICE_COOKIE, "tz"), (TENANT_COOKIE, "tenant")):
            if name in request.query_params:
                value = visit.clocks.choice if name == "tz" else visit.visitor.tenant
                self._set(response, cookie, value, YEAR_SECONDS)
        return response

    def _failed(self, request: Request, error: Exception) -> Response:
        """Print what went wrong: which field, which value, and what to do."""
        problem = problem_of(error)
        if problem.status == 500:
            _LOGGER.error("%s %r failed", request.method, request.scope["path"], exc_info=error)
        is_part = "hx-request" in request.headers
        here = here_of(request, TimeFormatter(), self._front.clock.now())
        model = RefusalModel(problem=problem, back=came_from(request))
        printed = RenderedPage(here=here, title=heading(problem), model=model)
        text = render("problem_part.html" if is_part else "problem.html", printed)
        return Response(
            text, status_code=problem.status, headers=headers_of(error), media_type=HTML
        )

    def _set(self, response: Response, name: str, value: str, seconds: int) -> None:
        is_secure = self._front.settings.is_secure
        response.set_cookie(
            name, value, max_age=seconds, secure=is_secure, httponly=True, samesite="strict"
        )


def here_of(request: Request, clocks: TimeFormatter, now: datetime) -> PageContext:
    """Return where a page stands."""
    root = request.scope.get("root_path", "")
    return PageContext(
        root=root,
        path=request.scope["path"].removeprefix(root) or "/",
        query=tuple((name, value) for name, value in request.query_params.multi_items() if value),
        now=now,
        clocks=clocks,
    )


def to_the_door(request: Request) -> Response:
    """Send a stranger to the door, from where they come back to what they wanted to see."""
    root = request.scope.get("root_path", "")
    to = f"{root}/enter{safe_return_path(request)}"
    if "hx-request" in request.headers:
        return Response(status_code=401, headers={"HX-Redirect": to})
    if "text/event-stream" in request.headers.get("accept", ""):
        return Response(status_code=401)
    return RedirectResponse(to, status_code=303)


def _is_for_api(scope: Scope) -> bool:
    root = scope.get("root_path", "")
    return scope["path"].removeprefix(root).strip("/").partition("/")[0] in API_PARTS


def _check_tenant(visitor: ConsoleUser, shown: str) -> None:
    """Refuse an order from a page of another tenant: somebody has switched in another window.

    A form may name things by what they are called, which is somebody else's there.
    """
    if shown and shown != visitor.tenant:
        problem = f"is whose page this is, and you have switched to {visitor.tenant} since"
        remedy = "nothing was done: switch back, or look at the page again"
        raise Conflict("tenant", shown, problem, remedy)


def _static(parts: list[str]) -> Response:
    found = manifest().find(parts[1]) if len(parts) == 2 else None
    if found is None:
        raise api_error(404, "not-found", "there is no such file", "load the page again")
    headers = {"Cache-Control": f"public, max-age={YEAR_SECONDS}, immutable"}
    return Response(found.content, media_type=found.media_type, headers=headers)


Tell = Callable[[str, dict[str, object]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedConsole:
    """Where the console is served, and who says so."""

    tell: Tell
    warn: Tell | None = None
    """Says what somebody should see to; else `tell` does."""
    port: int | None = None
    """None: that of $DULY_PORT, else the default, if it is free. 0: any free one."""
    on_ready: Callable[[str], None] | None = None
    """Is told the address, and says what is to be said; else `tell` does."""


@contextmanager
def console_beside(app: App, where: EmbeddedConsole) -> Iterator[None]:
    """Serve the console on this machine alone, for the length of a block."""
    listening = BindAddress(port=chosen_port(where.port)).checked(has_token=True)
    serving = Server(app, listening, make=Console)
    try:
        serving.claim()
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
