"""No history that the engine makes has a hole, and every hole that somebody makes is found."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import duly
from duly import Conflict, Misfire, UsageError, cron, every
from duly.domain.missing_occurrences import ExpectedOccurrenceKind, MissingCause
from duly.store.derived_queries import MissingFilter, find_missing
from duly.testing import virtual_time

if TYPE_CHECKING:
    from duly.store.derived_queries import MissingOccurrence
    from duly.store.memory import MemoryStore

ALL = frozenset(ExpectedOccurrenceKind)
RULES = [
    every("20m"),
    every("7m"),
    cron("*/15 * * * *", tz="Europe/Berlin"),
    cron("30 2 * * *", tz="Europe/Berlin"),
    cron("0 9-17 * * MON-FRI", tz="America/New_York"),
]
STEPS = st.one_of(
    st.tuples(st.just("pass"), st.integers(1, 300)),
    st.tuples(st.just("down"), st.integers(1, 700)),
    st.tuples(st.just("pause"), st.just(0)),
    st.tuples(st.just("resume"), st.integers(0, 1)),
    st.tuples(st.just("edit"), st.integers(0, len(RULES) - 1)),
    st.tuples(st.just("call"), st.integers(0, 9)),
    st.tuples(st.just("skip"), st.just(0)),
    st.tuples(st.just("delete"), st.just(0)),
    st.tuples(st.just("restore"), st.just(0)),
    st.tuples(st.just("trigger"), st.just(0)),
)
HISTORIES = st.tuples(
    st.integers(0, len(RULES) - 1),
    st.sampled_from(["skip", "latest", "all"]),
    st.sampled_from(["0s", "5m"]),
    st.lists(STEPS, min_size=1, max_size=12),
)
STARTS = ["2026-03-28T12:00", "2026-10-24T12:00", "2026-06-10T08:11"]


def slots(store: MemoryStore) -> list[MissingOccurrence]:
    """Return what became of everything that was expected."""
    return find_missing(store, MissingFilter(since=0, kinds=ALL, slots_max=100_000)).found


def live(app: duly.App, clock, history) -> None:
    """Let a schedule live through a history."""
    orders = {
        "pass": lambda number: clock.advance(f"{number}m"),
        # Time passes, and no dispatcher does anything.
        "down": lambda number: clock._clock.advance(f"{number}m"),  # noqa: SLF001
        "pause": lambda _: app.schedules.pause("one"),
        "resume": lambda number: app.schedules.resume("one", missed=("skip", "misfire")[number]),
        "edit": lambda number: app.schedules.edit("one", timetable=RULES[number]),
        "call": lambda number: app.schedules.edit("one", priority=number),
        "skip": lambda _: app.schedules.skip_next("one"),
        "delete": lambda _: app.schedules.delete("one"),
        "restore": lambda _: app.schedules.restore("one"),
        "trigger": lambda _: app.schedules.trigger("one"),
    }
    for word, number in history:
        with suppress(Conflict, UsageError):  # an order may not fit the state it is in
            orders[word](number)


def begun(history, start: str):
    """Return an application that has lived through a history, in its virtual time."""
    rule, misfire, jitter, happened = history
    app = duly.App("memory:")
    app.task(name="work")(lambda: None)
    block = virtual_time(app, start)
    clock = block.__enter__()
    policy = Misfire(misfire, not_older="6h")
    app.schedules.create("one", app.call("work"), RULES[rule], misfire=policy, jitter=jitter)
    live(app, clock, happened)
    clock.advance("2m")
    return app, block


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(HISTORIES, st.sampled_from(STARTS))
def test_no_history_of_the_engine_has_a_hole(history, start):
    """Paused, edited, deleted, down for a day, on nights of clock changes."""
    app, block = begun(history, start)
    try:
        found = Counter(one.slot.kind for one in slots(app.store))
        judged = {one.slot.scheduled_for for one in slots(app.store)}

        assert 0 == found[ExpectedOccurrenceKind.MISSING] == found[ExpectedOccurrenceKind.UNKNOWN]
        runs = {
            row.scheduled_for
            for row in app.store.tables.runs.values()
            if row.origin in {"schedule", "catch-up"}
        }
        # And it is no empty promise: whatever was run had been expected.
        assert set() == runs - judged
    finally:
        block.__exit__(None, None, None)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(HISTORIES, st.sampled_from(STARTS), st.data())
def test_whatever_is_removed_behind_its_back_is_found(history, start, data):
    """A run with every trace of it, a skip, a range that is owed, the timer itself."""
    app, block = begun(history, start)
    try:
        before = slots(app.store)
        chosen = [
            one.slot
            for one in before
            if one.slot.kind
            in {
                ExpectedOccurrenceKind.PRESENT,
                ExpectedOccurrenceKind.SKIPPED,
                ExpectedOccurrenceKind.OWED,
            }
        ]
        if not chosen:
            return
        slot = data.draw(st.sampled_from(chosen))
        gone = remove(app.store, slot)
        missing = {
            one.slot.scheduled_for: one.slot
            for one in slots(app.store)
            if one.slot.kind is ExpectedOccurrenceKind.MISSING
        }

        expected = {
            one.slot.scheduled_for for one in before if gone[0] <= one.slot.scheduled_for <= gone[1]
        }
        assert expected == set(missing)
        assert {MissingCause.UNRECORDED} == {one.cause for one in missing.values()}
    finally:
        block.__exit__(None, None, None)


def remove(store: MemoryStore, slot) -> tuple[int, int]:
    """Remove all that is known of an occurrence; return from when to when nothing is known now."""
    tables, at = store.tables, slot.scheduled_for
    if slot.kind is ExpectedOccurrenceKind.PRESENT:
        for table in (tables.runs, tables.outcomes, tables.ready):
            table.pop(slot.run_id, None)
        for key in [key for key in tables.attempts if key[0] == slot.run_id]:
            del tables.attempts[key]
        return at, at
    if slot.kind is ExpectedOccurrenceKind.SKIPPED:
        (of,) = [of for of, one in tables.skips.items() if one.first_for <= at <= one.last_for]
        skip = tables.skips.pop(of)
        return skip.first_for, skip.last_for
    (whose,) = [
        of for of, one in tables.owed.items() if one.owed.first_for <= at <= one.owed.last_for
    ]
    owed = tables.owed.pop(whose).owed
    return owed.first_for, owed.last_for
