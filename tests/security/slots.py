"""Every place of the API that takes a text: parts of paths, fields of queries and bodies, headers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from msgspec import structs

from duly.api.app import ROUTES
from tests.api.examples import BODIES, NAMED, QUERIES, SHARED
from tests.security.raw_requests import encoded, query

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duly.api.route import Route
    from tests.client.tenant_walk import Things
    from tests.security.raw_requests import RawAsker, Reply

HEADERS = ("idempotency-key", "if-match", "duly-tenant", "accept", "duly-csrf", "cookie", "origin",
           "host", "authorization", "content-type", "content-encoding", "last-event-id")  # fmt: skip
NOT_TEXTS = {"bool", "int", "float", "int | None", "bool | None", "float | None"}
ASKED = [route for route in ROUTES if not route.is_stream]
_PART = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class Slot:
    """One place, and how a request looks that has a text there."""

    route: Route
    where: str
    """`path`, `query`, `body` or `header`."""
    name: str

    def __str__(self) -> str:
        return f"{self.route.operation_id}:{self.where}:{self.name}"

    def throw(self, asker: RawAsker, text: str, of: Things) -> Reply:
        """Send the text there, in a request that is as it should be otherwise."""
        route, options = self.route, dict[str, Any]()
        said: Any = _filled(BODIES.get(route.operation_id, {}), of)
        asked: Any = _filled(QUERIES.get(route.operation_id, {}), of)
        match self.where:
            case "query":
                asked[self.name] = text
            case "body":
                said = {**said, self.name: {"note": text} if self.name == "arguments" else text}
            case "header":
                value = text.encode("utf-8", "surrogatepass")
                options["headers"] = [(self.name.encode(), value)]
        if route.body is not None:
            options["json"] = said
        options["query"] = query(**asked)
        return asker.ask(route.method, self._path(text, of), **options)

    def _path(self, text: str, of: Things) -> str:
        def value(found: re.Match[str]) -> str:
            name = found[1]
            if self.where == "path" and name == self.name:
                return encoded(text)
            return encoded(str(getattr(of, NAMED[name][0])) if name in NAMED else SHARED[name])

        return _PART.sub(value, self.route.path)


def slots() -> Iterator[Slot]:
    """Yield all of them."""
    for route in ASKED:
        for name in _PART.findall(route.path):
            yield Slot(route, "path", name)
        for where, kind in (("query", route.query), ("body", route.body)):
            for one in structs.fields(kind) if kind is not None else ():
                if _spelled(one.type) not in NOT_TEXTS:
                    yield Slot(route, where, one.encode_name)
    for number, name in enumerate(HEADERS):
        yield from (Slot(route, "header", name) for route in ASKED[number :: len(HEADERS)])


def _spelled(kind: object) -> str:
    return kind.__name__ if isinstance(kind, type) else str(kind)


def _filled(said: dict[str, Any], of: Things) -> dict[str, Any]:
    return {
        name: str(getattr(of, found[1]))
        if isinstance(value, str) and (found := _PART.fullmatch(value))
        else value
        for name, value in said.items()
    }
