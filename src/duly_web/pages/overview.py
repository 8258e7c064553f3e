"""The overview: what needs a look, and triggers beside useful completions (V1, V4, UX 8-13).

What is cheap comes at once. Each drawing is a page of its own, which a script takes in when the
first is there; without a script there is a link to it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from duly import UsageError
from duly_web.page import Asked, Page, Shown
from duly_web.pages.attention import Attention, look_at_first, look_for_attention
from duly_web.pages.lateness import LatenessPart, look_at_lateness
from duly_web.pages.planned_load import PlannedLoad, plan_load
from duly_web.pages.sides import SIDES_MAX, Sides, look_at_sides, read_show
from duly_web.pages.tiles import Tile, make_tiles
from duly_web.pages.timeline import LANES_MAX, SPANS, Axis, SpanName, Timeline, draw_timeline
from duly_web.shell import look_at_all, look_at_own, look_at_own_stale

if TYPE_CHECKING:
    from duly.api.views import Queue

LOADED_MAX = 300
"""So many schedules are counted for the planned load."""
TIMELINE_SECONDS, ATTENTION_SECONDS, LATENESS_SECONDS, LOAD_SECONDS = 2, 2, 60, 60


class OverviewQuery(msgspec.Struct, forbid_unknown_fields=True):
    """What the overview shows; its parts understand all of it, too."""

    show: str | None = None
    """Of the schedules: late, stale, all; else the first."""
    span: str = "12h"
    of: str | None = None
    """Whose lateness is drawn: a schedule's, or everybody's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """The page, with room for its parts."""

    query: OverviewQuery
    tiles: tuple[Tile, ...]
    lanes: int
    """How many lanes the timeline has, for it to have its place before it comes,"""
    sides: int
    """and how many rows the table below it."""
    queues: tuple[Queue, ...]
    has_schedules: bool
    spans: tuple[str, ...] = tuple(SPANS)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartModel:
    """One part of it; the others are None."""

    heading: str
    template: str
    """What prints it, alone or within the overview."""
    query: OverviewQuery
    timeline: Timeline | None = None
    sides: Sides | None = None
    lateness: LatenessPart | None = None
    load: PlannedLoad | None = None
    seconds: int = 0
    """How old it may be."""
    spans: tuple[str, ...] = tuple(SPANS)


def show_overview(asked: Asked) -> Shown:
    """Show how things are."""
    query: OverviewQuery = asked.query
    _read_span(query)
    show = read_show(query.show)
    schedules, is_cut = look_at_first(asked.app)
    looked = look_at_all(asked)
    own = look_at_own(asked, looked)
    own = replace(own, stale=look_at_own_stale(asked, looked, own))
    model = Overview(
        query=query,
        tiles=make_tiles(asked, schedules, own, is_cut=is_cut),
        lanes=min(len(schedules), LANES_MAX),
        sides=min(len(schedules), SIDES_MAX if show is None else 1),
        queues=looked.queues,
        has_schedules=any(number for one, number in own.schedules.items() if one != "deleted"),
    )
    return Shown(template="overview.html", model=model, title="Overview", looked=looked)


def show_timeline(asked: Asked) -> Shown:
    """Show those that need somebody, and the busiest, as lanes."""
    span = _read_span(asked.query)
    axis = Axis.around(asked.now, span)
    found = asked.kept.get(
        ("timeline", span, asked.clocks, asked.pulse),
        TIMELINE_SECONDS,
        lambda: draw_timeline(asked.app, _attention(asked), axis, asked.clocks),
    )
    return _part(asked, "Past and to come", "timeline.html", timeline=found)


def show_sides(asked: Asked) -> Shown:
    """Show what was triggered beside what was useful."""
    show = read_show(asked.query.show)
    found = look_at_sides(_attention(asked), show)
    return _part(asked, "Triggered and useful, side by side", "sides.html", sides=found)


def show_lateness(asked: Asked) -> Shown:
    """Show how late runs begin, and are useful."""
    of: str | None = asked.query.of
    found = asked.kept.get(
        ("lateness", of),
        LATENESS_SECONDS,
        lambda: look_at_lateness(asked.app, look_at_first(asked.app)[0], of),
    )
    shown = _part(asked, "Lateness", "lateness.html", lateness=found)
    return _aged(shown, LATENESS_SECONDS)


def show_load(asked: Asked) -> Shown:
    """Show how much is promised for the coming week."""
    mine = asked.clocks.mine
    found = asked.kept.get(("load", mine), LOAD_SECONDS, lambda: _load(asked))
    return _aged(_part(asked, "Planned load", "planned_load.html", load=found), LOAD_SECONDS)


def _part(
    asked: Asked,
    heading: str,
    template: str,
    **found: Timeline | Sides | LatenessPart | PlannedLoad,
) -> Shown:
    model = PartModel(heading=heading, template=template, query=asked.query, **found)  # type: ignore[arg-type]
    return Shown(template="overview_part.html", part=template, model=model, title=heading)


def _aged(shown: Shown, seconds: int) -> Shown:
    assert isinstance(shown.model, PartModel), "it is a part"
    return replace(shown, model=replace(shown.model, seconds=seconds))


def _read_span(query: OverviewQuery) -> SpanName:
    for name in SPANS:
        if name == query.span:
            return name
    raise UsageError("span", query.span, "is no span of the timeline", f"use {', '.join(SPANS)}")


def _attention(asked: Asked) -> Attention:
    key = ("attention", asked.pulse)
    look = partial(look_for_attention, asked.app, asked.now)
    return asked.kept.get(key, ATTENTION_SECONDS, look)


def _load(asked: Asked) -> PlannedLoad:
    page = asked.app.schedules.page(limit=LOADED_MAX, status="active")
    return plan_load(page.items, asked.now, asked.clocks, is_cut=page.after is not None)


PAGES = tuple(
    Page(method="GET", path=path, name=name, scope="read", handler=handler, query=OverviewQuery)
    for path, name, handler in (
        ("/", "overview", show_overview),
        ("/overview/timeline", "timeline", show_timeline),
        ("/overview/sides", "sides", show_sides),
        ("/overview/lateness", "lateness", show_lateness),
        ("/overview/load", "planned_load", show_load),
    )
)
