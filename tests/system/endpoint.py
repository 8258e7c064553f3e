"""An endpoint that webhooks call, which can be dead and come back, and counts who called when."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from typing import TYPE_CHECKING, Self

from duly.clock import SystemClock

if TYPE_CHECKING:
    from types import TracebackType

ANSWER = b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
ID = "webhook-id"
CLOSE_SECONDS = 120.0


class Endpoint:
    """Listens on a port of this machine; dead, it hangs up on whoever connects."""

    def __init__(self) -> None:
        self.is_alive = False
        self.calls: list[int] = []
        """When somebody connected, in microseconds since 1970."""
        self.delivered: Counter[str] = Counter()
        """How often each message was accepted."""
        self._clock = SystemClock()
        self._loop = asyncio.new_event_loop()
        self._listens = threading.Event()
        self._is_over = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="endpoint", daemon=True)
        self.port = 0

    @property
    def place(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"http://{self.place}/hook"

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._listens.wait(CLOSE_SECONDS)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._loop.call_soon_threadsafe(self._is_over.set)
        self._thread.join(CLOSE_SECONDS)

    def calls_between(self, begin: int, end: int) -> list[int]:
        """Return who called from one instant to another."""
        return [at for at in tuple(self.calls) if begin <= at < end]

    def _run(self) -> None:
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._answer, "127.0.0.1", 0, backlog=1024)
        self.port = server.sockets[0].getsockname()[1]
        self._listens.set()
        async with server:
            await self._is_over.wait()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.calls.append(self._clock.now_us())
        try:
            if self.is_alive:
                self.delivered[await _read_id(reader)] += 1
                writer.write(ANSWER)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError, ValueError):
            pass  # whoever calls may have been killed meanwhile
        finally:
            writer.close()


async def _read_id(reader: asyncio.StreamReader) -> str:
    """Read a whole request; return which message it is."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    lines = (line.partition(":") for line in head.split("\r\n")[1:] if ":" in line)
    headers = {name.lower(): value.strip() for name, _, value in lines}
    await reader.readexactly(int(headers.get("content-length", "0")))
    return headers[ID]
