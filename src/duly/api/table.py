"""The table of routes as it is searched: part by part, each part decoded by itself.

A name may hold a slash. Servers decode a path before they hand it over, and with it the difference
between `a%2Fb` and `a/b`; so the raw path is read where there is one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar
from urllib.parse import quote, unquote

from duly.api.problems import refuse
from duly.api.route import PREFIX

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PATH_LENGTH_MAX = 8000


class Found(Protocol):
    """What can be found: a route of the API, or a page of the console."""

    @property
    def method(self) -> str:
        """The method by which it is asked for."""
        ...

    @property
    def path(self) -> str:
        """Where it is, with its named parts in braces."""
        ...


R = TypeVar("R", bound=Found)


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
            raise refuse(405, "method-not-allowed", problem, f"use {names}", Allow=names)
        problem = "there is no such path"
        raise refuse(404, "not-found", problem, f"see {PREFIX}/openapi.json for those there are")


def path_parts(scope: Mapping[str, Any]) -> list[str]:
    """Return the parts of a request's path below where the application is mounted, decoded."""
    raw = scope.get("raw_path")
    text = quote(scope["path"]) if raw is None else raw.decode("latin-1").partition("?")[0]
    if len(text) > PATH_LENGTH_MAX:
        problem = "the path is too long"
        raise refuse(414, "path-too-long", problem, f"at most {PATH_LENGTH_MAX:,} characters")
    root = quote(scope.get("root_path", ""))
    if root and text.startswith(root):
        text = text[len(root) :]
    try:
        return [unquote(part, errors="strict") for part in _parts(text)]
    except UnicodeDecodeError as error:
        problem = "the path is not text"
        raise refuse(400, "unreadable-path", problem, "percent-encode it as UTF-8") from error


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
