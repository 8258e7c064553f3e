"""The door of the console: a token or a one-time code begins a session, and signing out ends it.

The address that a server prints holds its code behind a `#`, which no browser sends: the page's own
script puts it into the form. A cookie of ours is not sent along when a link on another site leads
here; `/enter/known` lets the page find out that somebody has a session all the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from starlette.responses import RedirectResponse, Response

from duly import DulyError, Unauthenticated
from duly.api.problems import problem_of, refuse
from duly.api.security import CSRF_HEADER, check_csrf
from duly_web.addresses import local_path
from duly_web.forms import read_form
from duly_web.moments import Clocks
from duly_web.rendering import Here, Printed, render

if TYPE_CHECKING:
    from starlette.requests import Request

    from duly.api.door import Door
    from duly.api.front import Front

SPENT = (
    "This code has been used, or is older than 15 minutes. Start again for a new one, or sign in"
    " with a token: duly token create me --role operator."
)
HTML = "text/html; charset=utf-8"


@dataclass(frozen=True, slots=True)
class EnterModel:
    """The page at the door."""

    next: str
    error: str | None = None


class Entrance:
    """Lets people in and out."""

    def __init__(self, front: Front) -> None:
        self._front = front

    async def answer(self, request: Request, parts: list[str]) -> Response:
        """Answer what is asked at the door."""
        match request.method, parts[1:]:
            case "GET", []:
                return self._page(request, EnterModel(_next(request.query_params.get("next"))))
            case "POST", []:
                return await self._enter(request)
            case "GET", ["known"]:
                await self._front.in_thread(self._front.door_for(request).visitor, request.headers)
                return Response(status_code=204)
            case "POST", ["leave"]:
                return await self._leave(request)
            case _:
                raise refuse(404, "not-found", "there is no such page", "go to the overview")

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
            return self._page(request, EnterModel(to, told), problem.status)
        response = RedirectResponse(request.scope.get("root_path", "") + to, status_code=303)
        response.headers["Set-Cookie"] = self._front.door.cookie(begun)
        return response

    def _begin(self, door: Door, shown: str) -> str:
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

    def _page(self, request: Request, model: EnterModel, status: int = 200) -> Response:
        root = request.scope.get("root_path", "")
        now = self._front.clock.now()
        here = Here(root=root, path="/enter", query=(), now=now, clocks=Clocks())
        printed = Printed(here=here, title="Sign in", model=model)
        return Response(render("enter.html", printed), status_code=status, media_type=HTML)


def _is_token(shown: str) -> bool:
    return shown.startswith("duly_")


def _next(text: str | None) -> str:
    return local_path(text) or "/"
