"""Somebody who visits a console that lives in this process: a browser without eyes."""

from __future__ import annotations

import asyncio
import re
from base64 import urlsafe_b64decode
from html import unescape
from typing import TYPE_CHECKING, Any, Self

import httpx

from duly.api.requests import csrf_token
from duly.web import Console

if TYPE_CHECKING:
    import duly
    from duly.api.middleware import ApiSettings
    from duly.testing import VirtualClock

BASE = "http://localhost"


class Visitor:
    """A client with cookies; `enter` begins a session as somebody."""

    def __init__(self, app: duly.App, settings: ApiSettings | None = None, **options: Any) -> None:
        self.app = app
        self._runner = asyncio.Runner()
        self.console = Console(app, settings, **options)
        transport = httpx.ASGITransport(app=self.console)
        self._client = httpx.AsyncClient(transport=transport, base_url=BASE)
        self.secret = ""
        self.clock: VirtualClock | None = None
        """Of an application in virtual time."""

    def enter(self, role: str = "admin", tenant: str = "*", name: str = "anna") -> Self:
        """Sign in with a new token."""
        self.leave()
        made = self.app.tokens.create(name, role=role, tenant=tenant)
        answer = self.post("/enter", {"secret": made.text})
        assert 303 == answer.status_code, answer.text
        self.secret = self._client.cookies["duly_session"]
        return self

    def leave(self) -> None:
        """Forget the session, as closing the browser would."""
        self._client.cookies.clear()
        self.secret = ""

    def be_in(self, zone: str) -> None:
        """Have a browser that is in a time zone."""
        self._client.cookies.set("duly_zone", zone)

    def said(self) -> str:
        """Return what the next page would say was done, as the cookie has it."""
        text = self._client.cookies.get("duly_said") or ""
        return urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode()

    def get(self, path: str, **options: Any) -> httpx.Response:
        return self._runner.run(self._client.get(path, **options))

    def whole(self, path: str) -> str:
        """Return a page with the parts that a script would take in, each in its room."""
        text = self.get(path).text
        for address in re.findall(r'hx-get="([^"]+)" hx-trigger="load"', text):
            part = self.get(unescape(address), headers={"HX-Request": "true"})
            assert 200 == part.status_code, part.text
            room = text.index(f'hx-get="{address}"')
            text = text[:room] + part.text + text[room:]
        return text

    def post(
        self, path: str, fields: dict[str, Any] | None = None, **options: Any
    ) -> httpx.Response:
        """Send a form, with the token of the session."""
        given = {"csrf": csrf_token(self.secret)} if self.secret else {}
        return self._runner.run(self._client.post(path, data=given | (fields or {}), **options))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._runner.run(self._client.aclose())
        self._runner.close()
