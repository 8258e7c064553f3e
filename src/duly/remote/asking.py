"""Asking a server: an operation, what is said with it, and the answer as a value."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, urlencode
from uuid import UUID

import msgspec

from duly.domain.durations import duration_text
from duly.domain.instants import iso_utc, to_microseconds
from duly.errors import StoreError, UsageError
from duly.remote.exchange import Ask
from duly.remote.operation import GET
from duly.remote.own_trace import trace_headers
from duly.remote.refusals import error_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from duly.draws import Draws
    from duly.remote.exchange import Exchange, Reply
    from duly.remote.operation import Operation
    from duly.wire.shapes import Page

T = TypeVar("T")
Item = TypeVar("Item")
Instant = datetime | str
Delay = timedelta | str
PREFIX = "/api/v1"
PAGE_LIMIT_MAX = 1000
_KEY_BYTES = 16
_MICROSECOND = timedelta(microseconds=1)


class Asking:
    """Carries operations out as somebody; every part of a `Remote` shares it."""

    def __init__(self, exchange: Exchange, token: str, tenant: str | None, draws: Draws) -> None:
        self.exchange = exchange
        self._draws = draws
        self._known = {"Authorization": f"Bearer {token}"}
        if tenant is not None:
            self._known["Duly-Tenant"] = _tenant_header(tenant)

    def ask(
        self,
        operation: Operation[T],
        *path: object,
        query: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
        version: int | None = None,
    ) -> T:
        """Carry an operation out and return its answer; parts of the path come in their order."""
        headers = self.headers("application/json")
        written = None
        if body is not None:
            headers["Content-Type"] = "application/json"
            written = msgspec.json.encode(body)
        if version is not None:
            headers["If-Match"] = f'"{version}"'
        if operation.is_keyed:
            headers["Idempotency-Key"] = self._draws.draw(_KEY_BYTES).hex()
        reply = self.exchange.ask(
            Ask(
                method=operation.method,
                target=self.target(operation.path, path, query),
                body=written,
                headers=headers,
                is_repeatable=operation.is_repeatable,
            )
        )
        return self._read(operation, reply)

    def items(
        self,
        operation: Operation[Page[Item]],
        *path: object,
        query: Mapping[str, Any] | None = None,
        limit: int | None = None,
    ) -> list[Item]:
        """Return a list, page after page; up to `limit`, if one is given."""
        found: list[Item] = []
        for page in self._pages(operation, path, dict(query or {}), limit):
            found += page.items
            if limit is not None and len(found) >= limit:
                return found[:limit]
        return found

    def headers(self, accepted: str) -> dict[str, str]:
        """Return the headers of every request."""
        return {"Accept": accepted, "User-Agent": "duly", **trace_headers(), **self._known}

    def target(
        self, pattern: str, path: tuple[object, ...], query: Mapping[str, Any] | None
    ) -> str:
        """Return path and query as they are sent; a name may hold anything, a slash too."""
        given = iter(path)
        parts = [
            _part(part[1:-1], next(given)) if part.startswith("{") else part
            for part in pattern.split("/")
        ]
        text = f"{self.exchange.address.root}{PREFIX}{'/'.join(parts)}"
        said = {name: _query_text(name, value) for name, value in (query or {}).items()}
        return f"{text}?{urlencode(said, doseq=True)}" if said else text

    def _pages(
        self,
        operation: Operation[Page[Item]],
        path: tuple[object, ...],
        query: dict[str, Any],
        limit: int | None,
    ) -> Iterator[Page[Item]]:
        if limit is not None:
            _require_limit(limit)
            query["limit"] = min(limit, PAGE_LIMIT_MAX)
        while True:
            page = self.ask(operation, *path, query=query)
            yield page
            if page.next_cursor is None:
                return
            query["cursor"] = page.next_cursor

    def _read(self, operation: Operation[T], reply: Reply) -> T:
        url = self.exchange.address.url
        if not 200 <= reply.status < 300:
            raise error_of(reply, url)
        try:
            return msgspec.json.decode(reply.body, type=operation.answer)
        except msgspec.MsgspecError as error:
            problem = f"answered {operation.id} in words that are not known here ({error})"
            is_order = operation.method != GET
            remedy = "see whether it is older or newer than this program"
            remedy += "; the order was carried out" if is_order else ""
            raise StoreError(url, problem, remedy) from error


def said(kind: type[msgspec.Struct], /, **terms: Any) -> dict[str, Any]:  # noqa: ANN401 - of its fields
    """Return the terms that are given as they are written; refuse one that nobody knows."""
    names = kind.__struct_fields__
    for name, value in terms.items():
        if name not in names:
            remedy = f"known are {', '.join(names)}"
            raise UsageError(name, value, "is not known here", remedy)
    lists = _lists(kind)
    return {
        name: _listed(value) if name in lists else written(name, value)
        for name, value in terms.items()
        if value is not None
    }


@cache
def _lists(kind: type[msgspec.Struct]) -> frozenset[str]:
    """Return which terms may be several."""
    every = msgspec.structs.fields(kind)
    return frozenset(one.name for one in every if "list[" in str(one.type))


def _listed(value: object) -> list[object]:
    """Return one or several as a list, as callers of the library may give either."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        return [value]
    # The same set is the same order under a key, in whatever order it comes.
    return sorted(value, key=str) if isinstance(value, set | frozenset) else list(value)


def written(field: str, value: object) -> object:
    """Return a value as it goes over the wire: an instant with its offset, a duration in words."""
    match value:
        case datetime():
            to_microseconds(value, field)  # refuses one that has no offset
            return iso_utc(value)
        case timedelta():
            return duration_text(value // _MICROSECOND)
        case UUID():
            return str(value)
        case _:
            return value


def _part(name: str, value: object) -> str:
    text = str(value)
    if not text:
        raise UsageError(name, value, "is empty", "say which one is meant")
    try:
        return quote(text, safe="")
    except UnicodeEncodeError as error:
        remedy = "give text that UTF-8 can write"
        raise UsageError(name, value, "holds half a character", remedy) from error


def _query_text(name: str, value: object) -> object:
    if value == []:
        # Left out of the address, it would mean all of them.
        raise UsageError(name, value, "names none", "name one, or leave it out")
    if isinstance(value, bool):
        return "true" if value else "false"
    return value


def _require_limit(limit: object) -> None:
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
        raise UsageError("limit", limit, "is not a limit", "give a whole number from 1 on")


def _tenant_header(tenant: object) -> str:
    text = str(tenant)
    if not (text and text.isascii() and text.isprintable()):
        raise UsageError("tenant", tenant, "is not a tenant's name", "give its name")
    return text
