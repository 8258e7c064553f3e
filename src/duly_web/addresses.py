"""Addresses that others hand in: a way back is a path of ours, or it is none."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlencode, urlsplit

if TYPE_CHECKING:
    from starlette.requests import Request

LENGTH_MAX = 2000


def local_path(text: str | None) -> str | None:
    """Return a path with its query if it can't lead anywhere else, or None."""
    if not text or len(text) > LENGTH_MAX or not text.isprintable() or "\\" in text:
        return None
    try:
        split = urlsplit(text)
    except ValueError:
        return None
    if split.scheme or split.netloc or not text.startswith("/") or text.startswith("//"):
        return None
    return text


def came_from(request: Request) -> str | None:
    """Return the page of ours that somebody came from, as far as the browser says it."""
    split = urlsplit(request.headers.get("referer") or "")
    if split.netloc != request.url.netloc:
        return None
    root = request.scope.get("root_path", "")
    return local_path(split.path.removeprefix(root) + (f"?{split.query}" if split.query else ""))


def way_back(request: Request) -> str:
    """Return the query by which the door knows where somebody wanted to go."""
    root = request.scope.get("root_path", "")
    wanted = request.url.path
    query = request.url.query
    said = request.headers.get("hx-current-url") or request.headers.get("referer")
    if "hx-request" in request.headers or request.method != "GET":
        split = urlsplit(said or "")
        wanted, query = split.path, split.query
    path = local_path(wanted.removeprefix(root) + (f"?{query}" if query else ""))
    return "" if path in {None, "/"} else "?" + urlencode({"next": path})
