"""Looking at a PostgreSQL store: exact although places lie behind, and in one snapshot."""

from __future__ import annotations

import psycopg
import pytest

from duly.store.ports.queries import ScheduleFilter
from duly.store.postgres import reading
from duly.timetable.interval import every
from duly_conformance import steps
from duly_conformance.kit import SECOND_US, on_time, timer_of

LAG_US = 10 * SECOND_US


@pytest.fixture
def line(timed_url):
    with psycopg.connect(timed_url, autocommit=True) as connection:
        yield connection


def shift(line, record, load_us):
    """Let the place of a schedule lie behind its instant."""
    line.execute(
        "UPDATE duly.schedule_state SET load_at = next_due - %s WHERE schedule_id = %s::uuid",
        [load_us, record.id.hex()],
    )


@pytest.mark.parametrize("first", [0, 1, LAG_US // 2, LAG_US])
@pytest.mark.parametrize("second", [0, 1, LAG_US // 2, LAG_US])
def test_the_next_instant_is_exact_although_places_lie_behind(store, clock, line, first, second):
    """Whichever of two is found first."""
    now = clock.now_us()
    near = steps.create(store, "near", timetable=every("20s"))
    far = steps.create(store, "far", timetable=every("25s"))
    shift(line, near, first)
    shift(line, far, second)

    assert now + 20 * SECOND_US == store.status().next_due_at
    clock.set(now + 20 * SECOND_US)
    status = store.status()
    assert (1, now + 20 * SECOND_US) == (status.overdue, status.oldest_due_at)
    assert now + 25 * SECOND_US == status.next_due_at


def test_what_is_due_is_told_from_what_is_not_wherever_places_lie(store, clock, line):
    dues = []
    for seconds in range(1, 30):
        record = steps.create(store, f"s{seconds}", timetable=every(f"{seconds}s"))
        shift(line, record, seconds * 7919 * 1000 % LAG_US)
        dues.append(timer_of(record).due_at)
    for due_at in sorted(dues)[:-1]:
        clock.set(due_at)
        status = store.status()
        over = [one for one in dues if one <= due_at]

        assert (len(over), min(dues)) == (status.overdue, status.oldest_due_at)
        assert min(set(dues) - set(over), default=None) == status.next_due_at


def test_the_state_of_the_store_is_of_one_moment(store, clock, line):
    """What is fired while we look is either pending or queued, and never both or neither."""
    record = steps.create(store)
    steps.fall_due(clock, record)
    fence = steps.own(store)
    with store._connections.read() as look:  # noqa: SLF001 - what is looked at is private
        before = reading.PostgresReading(look).status()
        steps.fire(store, fence, on_time(record))
        after = reading.PostgresReading(look).status()

    assert before == after
    assert (0, 1) == (store.status().overdue, store.status().queued)


def test_a_prefix_is_a_text_and_no_pattern(store):
    for name in ("50% off", "50 off", "_under", "under"):
        steps.create(store, name)

    for prefix in ("50%", "_"):
        found = store.list_schedules(ScheduleFilter(tenant="default", name_prefix=prefix))
        assert 1 == len(found)


def test_names_are_ordered_by_their_characters(store):
    """As on every other database, whatever its language."""
    for name in ("b", "A", "a", "B", "ä", "Z"):
        steps.create(store, name)
    listed = store.list_schedules(ScheduleFilter(tenant="default"))

    assert ["A", "B", "Z", "a", "b", "ä"] == [record.name for record in listed]
