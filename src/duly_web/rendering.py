"""Printing: templates that print models, and nothing that a template could decide."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined

from duly_web.assets import manifest
from duly_web.moments import Clocks, Moment, span
from duly_web.shell import NAVIGATION
from duly_web.states import mark, origin_mark
from duly_web.terms import plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly_web.page import Said, Visitor
    from duly_web.shell import Shell


_INSTANT = re.compile(
    r"(?<![@\w-])\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?(?:Z|[+-]\d\d:\d\d)(?!\w)"
)
"""Not what is a part of a label: that is a name, and stays as it is."""
_NO_FILTERS = frozenset({"cursor", "tenant", "tz"})
"""What an address says besides what its list is narrowed by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Here:
    """Where a page stands: everything that it needs to print addresses and times."""

    root: str
    """The path that the console is mounted at; empty at a server's root."""
    path: str
    query: tuple[tuple[str, str], ...]
    now: datetime
    clocks: Clocks

    def url(self, path: str, **query: str | None) -> str:
        """Return an address below where the console is mounted."""
        given = {name: value for name, value in query.items() if value not in {None, ""}}
        return self.root + path + (f"?{urlencode(given)}" if given else "")

    def part(self, text: object) -> str:
        """Return a text as one part of a path; a name may hold a slash."""
        return quote(str(text), safe="")

    def asset(self, name: str) -> str:
        """Return the address of a static file."""
        return f"{self.root}/static/{manifest().address(name)}"

    def again(self, **changes: str | None) -> str:
        """Return this very address with some of its query changed; None takes a field away."""
        kept = [(name, value) for name, value in self.query if name not in changes]
        kept += [(name, value) for name, value in changes.items() if value is not None]
        return self.root + self.path + (f"?{urlencode(kept)}" if kept else "")

    def filters(self) -> list[tuple[str, str]]:
        """Return what this address narrows a list by."""
        return [(name, value) for name, value in self.query if name not in _NO_FILTERS]

    def elsewhere(self, path: str, **changes: str | None) -> str:
        """Return another address with this one's query, some of it changed."""
        return replace(self, path=path).again(**changes)

    def at(self, instant: datetime, own: str | None = None) -> Moment:
        """Show an instant; `own` is its schedule's zone."""
        return self.clocks.moment(instant, self.now, own)

    def spoken(self, text: object, own: str | None = None) -> str:
        """Return a sentence of the engine with its instants on the clock that was chosen."""

        def shown(found: re.Match[str]) -> str:
            try:
                moment = self.at(datetime.fromisoformat(found[0]), own)
            except (ValueError, OverflowError):
                return found[0]  # somebody's words, and no instant
            return f"{moment.day} {moment.clock} {moment.zone}"

        return _INSTANT.sub(shown, str(text))


@dataclass(frozen=True, slots=True, kw_only=True)
class Printed:
    """All that a template is given."""

    here: Here
    title: str
    model: object
    shell: Shell | None = None
    """None for a page that stands alone: at the door, or when all else has failed."""
    visitor: Visitor | None = None
    said: Said | None = None
    pulse: str = ""
    """The mark of what the page shows: a pulse with another one is news."""


def render(template: str, printed: Printed) -> str:
    """Print a page."""
    return (
        _environment()
        .get_template(template)
        .render(
            here=printed.here,
            title=printed.title,
            m=printed.model,
            shell=printed.shell,
            visitor=printed.visitor,
            said=printed.said,
            pulse=printed.pulse,
            navigation=NAVIGATION,
        )
    )


def compile_templates() -> None:
    """Compile every template: later, somebody would wait for that."""
    environment = _environment()
    for name in environment.list_templates():
        environment.get_template(name)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("duly_web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        mark=mark, origin=origin_mark, span=span, pretty=_pretty, compact=_compact, count=_count
    )
    environment.filters.update(gist=_gist, plain=plain)
    environment.globals["bars"] = bars
    return environment


def bars(values: Sequence[float], width: int = 5, height: int = 20) -> list[dict[str, int]]:
    """Return where the bars of a strip stand, the tallest as high as there is room."""
    most = max(values, default=0) or 1
    drawn = []
    for place, value in enumerate(values):
        tall = max(3, round(value / most * height))
        drawn.append({"x": place * (width + 1), "y": height - tall, "w": width, "h": tall})
    return drawn


def _pretty(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


def _compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def _gist(error: str) -> str:
    """Return the last line of an error that says something: its class and its message."""
    lines = [line for line in error.splitlines() if line.strip()]
    return lines[-1].strip() if lines else error


def _count(number: int) -> str:
    return f"{number:,}"
