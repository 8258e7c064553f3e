"""Somebody who asks an API that lives in this process: no port, no server, plain calls."""

from __future__ import annotations

import asyncio
from functools import partialmethod
from typing import Any, Self

import httpx

BASE = "http://localhost/api/v1"


class Asker:
    """A client of an ASGI application, whose every call returns when it is answered."""

    def __init__(
        self,
        api: Any,
        headers: dict[str, str],
        address: str = "127.0.0.1",
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self._runner = asyncio.Runner(loop_factory=None if loop is None else lambda: loop)
        self._client = httpx.AsyncClient(
            transport=httpx.ASGITransport(app=api, client=(address, 50_000)),
            base_url=BASE,
            headers=headers,
        )

    def ask(self, method: str, path: str, **options: Any) -> httpx.Response:
        return self._runner.run(self._client.request(method, path, **options))

    get = partialmethod(ask, "GET")
    post = partialmethod(ask, "POST")
    patch = partialmethod(ask, "PATCH")
    put = partialmethod(ask, "PUT")
    delete = partialmethod(ask, "DELETE")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._runner.run(self._client.aclose())
        self._runner.close()
