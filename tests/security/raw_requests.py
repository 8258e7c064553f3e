"""Requests as bytes, given to an API in this process: also such as no client library would send."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import quote, urlencode

HOST = (b"host", b"localhost")
JSON = (b"content-type", b"application/json")


@dataclass(frozen=True)
class Reply:
    """What was answered, byte by byte."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes

    def header(self, name: str) -> str:
        """Return a header, which may be there once."""
        (found,) = [value for one, value in self.headers if one.lower() == name.lower().encode()]
        return found.decode("latin-1")

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class RawAsker:
    """Whoever says to an ASGI application whatever they please."""

    def __init__(self, api: Any, *headers: tuple[bytes, bytes]) -> None:
        self._runner = asyncio.Runner()
        self._api = api
        self._headers = headers
        self.path = "/unread"
        """As a server would have decoded it; what is read is the path as it was sent."""

    def ask(self, method: str, path: str, **options: Any) -> Reply:
        """Ask for a path below the prefix, which is sent as it stands."""
        return self._runner.run(self._ask(method, path.encode("utf-8", "surrogatepass"), options))

    async def _ask(self, method: str, raw_path: bytes, options: dict[str, Any]) -> Reply:
        body = options.get("content", b"")
        headers = [HOST, *self._headers]
        if "json" in options:
            body = json.dumps(options["json"]).encode()
        if body:
            headers += [JSON, (b"content-length", str(len(body)).encode())]
        said = options.get("headers", [])
        names = {name for name, _ in said}
        headers = [one for one in headers if one[0] not in names] + said
        scope = {
            "type": "http",
            "asgi": {"spec_version": "2.4"},
            "method": method,
            "path": self.path,
            "raw_path": b"/api/v1" + raw_path,
            "query_string": options.get("query", b""),
            "headers": headers,
        }
        told: list[Any] = []
        messages = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> Any:
            return messages.pop() if messages else await asyncio.Event().wait()

        async def send(message: Any) -> None:
            told.append(message)

        await self._api(scope, receive, options.get("send", send))
        content = b"".join(one.get("body", b"") for one in told[1:])
        return Reply(told[0]["status"], list(told[0]["headers"]), content)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._runner.close()


def encoded(text: str) -> str:
    """Write a text as one part of a path."""
    return quote(text, safe="")


def query(**fields: str) -> bytes:
    """Write fields as a query."""
    return urlencode(fields).encode()
