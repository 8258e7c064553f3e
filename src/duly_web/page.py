"""A page or an action of the console: who may, what goes in, and the plain function that does it.

A handler may block: it is called in one of the API's threads, with an application that acts for the
visitor in one tenant. It returns what is shown, or where to go next.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from datetime import datetime

    from msgspec import Struct

    from duly import App
    from duly_web.kept import Kept
    from duly_web.moments import Clocks
    from duly_web.shell import Looked

Scope = Literal["read", "trigger", "edit", "admin"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Visitor:
    """Somebody whose browser has a session."""

    name: str
    role: str
    scopes: frozenset[str]
    tenant: str
    """In which tenant this request looks and acts."""
    is_everywhere: bool
    csrf: str
    """What a form shows to prove that it is ours."""

    def may(self, scope: Scope) -> bool:
        """Say whether an action is offered at all."""
        return scope in self.scopes


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One request as a handler sees it."""

    app: App
    """Acts for the visitor, in their tenant, as the source `console`."""
    visitor: Visitor
    now: datetime
    """By the store's clock."""
    clocks: Clocks
    kept: Kept
    """What is dear to compute, and may be a little old."""
    pulse: str = ""
    """The mark of what the tenant has: what is kept under it is as new as the page must be."""
    path: Mapping[str, str] = field(default_factory=dict)
    query: Any = None
    """A struct of the page's `query` type."""
    form: Any = None
    """A struct of the page's `form` type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A page to be printed: a template, and the model that it prints."""

    template: str
    model: object
    title: str
    status: int = 200
    is_part: bool = False
    """A piece of a page, which a script puts where it belongs: no shell, and nothing said."""
    part: str | None = None
    """The template of the piece alone, for a page that another one takes in."""
    looked: Looked | None = None
    """The state of everything, where the page has looked at it itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Undo:
    """An order that takes another one back: an action of the table, and what its form says."""

    label: str
    path: str
    fields: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What the next page says was done, and how to undo it."""

    text: str
    undo: Undo | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """Where to go after an order; a path below where the console is mounted."""

    to: str
    said: Said | None = None


Handler = Callable[[Asked], Shown | Moved]


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A row of the table."""

    method: Literal["GET", "POST"]
    path: str
    name: str
    """What the tests call it."""
    scope: Scope
    handler: Handler
    query: type[Struct] | None = None
    form: type[Struct] | None = None
