"""What handlers share: how routes are written, references, lists, terms that were left out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

from msgspec.structs import fields

from duly.api.route import Route
from duly.interface.shapes import Page, Shown

if TYPE_CHECKING:
    from collections.abc import Iterable

    from msgspec import Struct

    from duly.api.route import Handler, Method
    from duly.interface.shapes import View

Shape = TypeVar("Shape", bound=Shown)


def look(
    path: str,
    handler: Handler,
    answer: object,
    query: type[Struct] | None = None,
    **more: Any,  # noqa: ANN401 - fields of the route
) -> Route:
    """Return the route of something to look at; its handler's name and words are its own."""
    may_miss = "{" in path or query is not None
    terms: dict[str, Any] = {"answer": answer, "query": query}
    terms["errors"] = frozenset({404}) if may_miss else frozenset[int]()
    return _route("GET", path, handler, terms | more)


def order(
    path: str,
    handler: Handler,
    body: type[Struct] | None,
    answer: object,
    **more: Any,  # noqa: ANN401 - as above
) -> Route:
    """Return the route of an order: about something, which may not be there or be otherwise."""
    method: Method = more.pop("method", "POST")
    terms = {
        "scope": "edit",
        "body": body,
        "is_body_optional": body is not None and not any(one.required for one in fields(body)),
        "answer": answer,
        "errors": frozenset({404, 409}),
        "is_idempotent": method == "POST",
    }
    return _route(method, path, handler, terms | more)


def _route(method: Method, path: str, handler: Handler, terms: dict[str, Any]) -> Route:
    words = (handler.__doc__ or handler.__name__).partition("\n")[0]
    rest: dict[str, Any] = {"scope": "read"}
    rest |= terms
    return Route(
        method=method,
        path=path,
        operation_id=handler.__name__,
        summary=words.removesuffix("."),
        handler=handler,
        **rest,
    )


def reference_of(text: str) -> UUID | str:
    """Return an id where a text is one, and the text itself, a name or a label, where not."""
    try:
        return UUID(text)
    except ValueError:
        return text


def whole(shape: type[Shape], views: Iterable[View]) -> Page[Shape]:
    """Return a list that has one page."""
    return Page(items=[shape.from_view(one) for one in views], next_cursor=None)


def given(asked: Struct, *names: str) -> dict[str, Any]:
    """Return the terms that were said, of those named or of all; the client knows the others."""
    said = {one: getattr(asked, one) for one in names or asked.__struct_fields__}
    return {name: value for name, value in said.items() if value is not None}
