"""Scenery: the timetables and policies of a world, chosen to fall where it hurts."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from duly.domain.enums import Overlap
from duly.domain.policies import Misfire
from duly.domain.schedules import Call, Definition
from duly.timetable.cron import Cron
from duly.timetable.interval import Interval
from duly.timetable.once import Once
from tests.simulation.scripts import QUEUES

if TYPE_CHECKING:
    import random

    from duly.timetable.timetable import Timetable
    from tests.simulation.recipe import Recipe

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ZONES = {
    "berlin": ("Europe/Berlin", ("0,1,2,3 2", "*/1 2,3", "0,1 3", "30 2")),
    "new-york": ("America/New_York", ("0,1,2,3 1", "*/1 1,2,3", "0,1 3", "30 2")),
    "lord-howe": ("Australia/Lord_Howe", ("30,31,32 1", "*/1 1,2", "30,31 2", "15 2")),
}
"""Minutes and hours around each change of clocks: within the gap or the fold, and beside it."""

PERIODS = ("1s", "2s", "3s", "5s", "7s", "10s", "30s", "45s")
GRACES = ("0s", "1s", "2s", "5s", "60s")
BOUNDS = (None, "5s", "20s", "1d")
KEYS = ("account:7", "account:8")
JITTERS = (0, 0, 0, 500_000, 3_000_000, 20_000_000)


def definition(recipe: Recipe, draws: random.Random, now: int) -> Definition:
    """Draw a template: what, when, and what if it is late."""
    call = Call(task=f"task{draws.randint(1, 3)}", arguments=f'{{"n":{draws.randint(1, 99)}}}')
    if recipe.workers:
        call = replace(call, queue=draws.choice(QUEUES), priority=draws.choice((1, 5, 9)))
    drawn = Definition(
        call=call,
        timetable=timetable(recipe, draws, now),
        misfire=misfire(draws),
        jitter_us=draws.choice(JITTERS),
        overlap=Overlap.ALLOW,
    )
    return replace(drawn, **overlap(draws)) if recipe.has_policies else drawn


def overlap(draws: random.Random) -> dict[str, Any]:
    """Draw what becomes of an occurrence while an earlier run is open."""
    policy = draws.choice(tuple(Overlap))
    key = draws.choice(KEYS) if policy is Overlap.SERIALIZE else None
    return {"overlap": policy, "serialize_by": key}


def misfire(draws: random.Random) -> Misfire:
    """Draw a misfire policy with bounds small enough to be met."""
    return Misfire(
        draws.choice(("skip", "latest", "all")),
        grace=draws.choice(GRACES),
        at_most=draws.choice((None, None, 1, 3, 10)),
        not_older=draws.choice(BOUNDS),
    )


def timetable(recipe: Recipe, draws: random.Random, now: int) -> Timetable:
    """Draw a rule."""
    chance = draws.random()
    place = next((name for name in ZONES if recipe.start.startswith(name)), None)
    if place is not None and chance < 0.4:
        zone, fields = ZONES[place]
        return Cron(
            expression=f"{draws.choice(fields)} * * *",
            tz=zone,
            gap=draws.choice(("next", "shift", "skip")),
            fold=draws.choice(("first", "second", "both", "both")),
        )
    if chance < 0.5:
        midnight = draws.choice(("0 0 * * *", "0,1,2 0 * * *", "@hourly"))
        return Cron(expression=midnight, tz=draws.choice(("UTC", "Europe/Berlin")))
    if chance < 0.6:
        return Cron(expression=draws.choice(("* * * * *", "*/20 * * * * *", "5-15/2 * * * * *")))
    if chance < 0.7:
        ahead_us = draws.randint(1, 90) * 1_000_000
        return Once(_EPOCH + timedelta(microseconds=now + ahead_us))
    if chance < 0.75:
        start = _EPOCH + timedelta(microseconds=now)
        return Interval(draws.choice(PERIODS)).limited(draws.randint(1, 8), start=start)
    return Interval(draws.choice(PERIODS))
