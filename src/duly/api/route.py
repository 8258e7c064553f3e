"""A route: everything that is known about one operation, for serving, checking and describing it.

A handler is a plain function that may block: it is called in a thread of its own, with an
application that acts for whoever asks, in their tenant.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

if TYPE_CHECKING:
    from uuid import UUID

    from duly.api.middleware import Authenticator
    from duly.api.ordering import IdempotentOrder
    from duly.app import App
    from duly.domain.auth import Principal

PREFIX = "/api/v1"
Scope = Literal["read", "trigger", "edit", "admin", "worker"]
Method = Literal["GET", "POST", "PATCH", "PUT", "DELETE"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiRequest:
    """One request as a handler sees it: read, checked, and on behalf of somebody."""

    app: App
    """Acts for the principal, in their tenant: whatever it is asked is theirs."""
    known: Principal | None
    """Who asks; None where anybody may."""
    door: Authenticator | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    path: Mapping[str, str] = field(default_factory=dict)
    """The named parts of the path, decoded."""
    query: Any = None
    """A struct of the route's `query` type."""
    body: Any = None
    """A struct of the route's `body` type."""
    version: int | None = None
    """What If-Match says must be the version still; None when it says nothing."""
    is_any_version: bool = False
    """Whether If-Match says that whatever there is may be changed, unseen."""
    ordered: IdempotentOrder | None = None
    """The Idempotency-Key that it came under, and since when; None without one."""

    @property
    def principal(self) -> Principal:
        """Who asks, where somebody must be known."""
        assert self.known is not None, "a route with a scope lets nobody in who is not known"
        return self.known

    def order_ids(self, count: int = 1) -> list[UUID] | None:
        """Return ids for what an order makes: the same ones when it is given again.

        None without an Idempotency-Key: then they are drawn.
        """
        return None if self.ordered is None else self.ordered.ids(count)

    def order_id(self) -> UUID | None:
        """Return the id for the one thing that an order makes, as `order_ids` does."""
        ids = self.order_ids()
        return None if ids is None else ids[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiResponse:
    """What a handler answers, when there is more to say than a value."""

    value: Any = None
    """A struct, or what is JSON already."""
    status: int | None = None
    """None for the route's own."""
    version: int | None = None
    """Sent as ETag; If-Match gives it back."""
    headers: Mapping[str, str] = field(default_factory=dict)


Handler = Callable[[ApiRequest], Struct | ApiResponse]


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One operation of the API."""

    method: Method
    path: str
    """Below the prefix, such as `/schedules/{schedule}`."""
    operation_id: str
    """Stable: clients are generated from it."""
    summary: str
    """One sentence, for the documents."""
    scope: Scope | None
    """What the principal must be allowed; None for what anybody may ask."""
    handler: Handler
    body: Any = None
    """The type that the request's JSON is read as: a struct, if there is a body at all."""
    is_body_optional: bool = False
    """Whether no body at all means an empty object."""
    query: type[Struct] | None = None
    answer: Any = None
    """The type of what is answered; a page is `Page[Thing]`."""
    status: int = 200
    """When it goes well."""
    errors: frozenset[int] = frozenset()
    """Statuses of refusals besides those that every operation may give."""
    is_idempotent: bool = False
    """Whether it takes an Idempotency-Key: every POST that makes or orders something."""
    is_once_only: bool = False
    """Whether the order does more each time: after a server's death it is not done anew, unseen."""
    has_version: bool = False
    """Whether it honours If-Match."""
    is_stream: bool = False
    """Whether the answer is a stream of events, and not a document."""

    @property
    def tag(self) -> str:
        """The resource that it belongs to: the first part of its path."""
        return self.path.split("/")[1]
