"""What happens on a server, as it happens; a lost connection goes on where it was."""

from __future__ import annotations

import http.client
import ssl
from contextlib import closing
from typing import TYPE_CHECKING

import msgspec

from duly.errors import StoreError, StoreUnavailable, UsageError
from duly.interface.audit import EventsAsked
from duly.interface.schedules import Entry
from duly.remote.operation import look
from duly.remote.transport import ANSWER_BYTES_MAX, Reply, error_of, said

if TYPE_CHECKING:
    from collections.abc import Generator
    from http.client import HTTPResponse

    from duly.remote.transport import Transport

FOLLOW = look("follow_events", "/events", Entry)
SILENCE_SECONDS = 45
"""Three heartbeats of a server: who is silent for longer is gone."""
LINE_BYTES_MAX = 1024 * 1024


class Events:
    """Follows a server's trail."""

    def __init__(self, asking: Transport) -> None:
        self._asking = asking

    def __call__(
        self, after: int | None = None, *, all_tenants: bool = False
    ) -> Generator[Entry, None, None]:
        """Tell what happens after a number, each thing once and in order; from now on unless given.

        With `all_tenants`, to every tenant: for a token of every tenant. It goes on for ever. A
        lost connection is made again, within bounds, and nothing is left out: the number of the
        last thing seen is sent along.
        """
        if after is not None and (isinstance(after, bool) or after < 0):
            raise UsageError("after", after, "is not the number of an event", "give 0 or more")
        exchange = self._asking.exchange
        last, failures = after, 0
        while True:
            try:
                with closing(self.stream(last, all_tenants=all_tenants)) as stream:
                    for number, entry in stream:
                        failures = 0
                        is_new = entry is not None and (last is None or number > last)
                        last = number if last is None else max(number, last)
                        if is_new and entry is not None:
                            yield entry
            except StoreUnavailable:
                if failures + 1 >= exchange.patience.tries_max:
                    raise
            exchange.pause(failures)
            failures += 1

    def stream(
        self, last: int | None, *, all_tenants: bool = False
    ) -> Generator[tuple[int, Entry | None], None, None]:
        """Tell the numbers that one connection brings, with what happened, until it ends."""
        exchange = self._asking.exchange
        headers = self._asking.headers("text/event-stream")
        if last is not None:
            headers["Last-Event-ID"] = str(last)
        query = said(EventsAsked, all_tenants=all_tenants or None)
        target = self._asking.target(FOLLOW.path, (), query)
        with closing(exchange.connect(SILENCE_SECONDS)) as connection:
            try:
                connection.request("GET", target, None, headers)
                response = connection.getresponse()
                if response.status != 200:
                    raise error_of(_whole(response), exchange.address.url)
                yield from _read(response)
            except ssl.SSLCertVerificationError as error:
                problem = f"shows a certificate that is not trusted ({error.verify_message})"
                remedy = "see whether it is the right server"
                raise StoreError(exchange.address.url, problem, remedy) from error
            except (OSError, http.client.HTTPException, ValueError) as error:
                problem = f"was lost while events were followed ({error})"
                raise StoreUnavailable(exchange.address.url, problem, "follow again") from error


def _read(response: HTTPResponse) -> Generator[tuple[int, Entry | None], None, None]:
    """Read server-sent events: an id, and what happened, if anything did."""
    number: int | None = None
    told = b""
    while line := response.readline(LINE_BYTES_MAX):
        text = line.rstrip(b"\r\n")
        if text.startswith(b"id: "):
            number = int(text[4:])
        elif text.startswith(b"data: "):
            told = text[6:]
        elif not text and number is not None:
            yield number, msgspec.json.decode(told, type=Entry) if told else None
            told = b""


def _whole(response: HTTPResponse) -> Reply:
    headers = {name.lower(): value for name, value in response.getheaders()}
    return Reply(status=response.status, headers=headers, body=response.read(ANSWER_BYTES_MAX))
