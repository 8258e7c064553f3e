"""What a campaign's table says: figures worked out by hand."""

from __future__ import annotations

from tests.failover.campaign import Failover, figures
from tests.system.evidence import Evidence, Fault, Order, Sight

SECOND_US = 1_000_000


def a_run(number, second):
    return Sight(
        id=f"{number:032x}",
        schedule=None,
        key=f"key-{number}",
        scheduled_for=second * SECOND_US,
        not_before=second * SECOND_US,
        fired_at=second * SECOND_US,
        state="queued",
        lane="live",
        seen_at=second * SECOND_US,
    )


def evidence(seconds, orders=()):
    kept = [a_run(number, second) for number, second in enumerate(seconds)]
    return Evidence(
        orders=list(orders), sights=kept, kept=kept, skips=[], owed=[], schedules=[], until=0
    )


def lost(kind, at, writable, until):
    return Failover(Fault(kind, at * SECOND_US, until * SECOND_US), writable * SECOND_US)


def test_a_leader_is_lost_until_something_can_be_written_again():
    failovers = [lost("killed", 100, 121, 140), lost("killed", 200, 218, 240)]

    told = figures(failovers, evidence([]), [])

    assert "18.0 / 21.0 / 21.0" == told["seconds until something could be written again"]
    assert "2 killed" == told["leaders lost"]


def test_the_first_fire_counts_from_when_it_was_possible():
    told = figures([lost("stopped", 100, 121, 140)], evidence([99, 123, 124]), [])

    assert "2.0 / 2.0 / 2.0" == told["seconds from then to the first fire"]


def test_silence_is_looked_for_from_the_fault_to_its_end():
    told = figures([lost("cut off", 100, 121, 140)], evidence([50, 99, 105, 122, 139, 190]), [])

    assert "51.0 / 51.0 / 51.0" == told["longest silence between two fires, in seconds"]


def test_answers_are_told_apart():
    orders = [
        Order(kind="enqueue", subject=f"{answer}", asked_at=0, answer=answer)
        for answer in ("done", "done", "refused", "can't be reached", None)
    ]

    told = figures([], evidence([], orders), [])

    assert "2 / 1 / 2" == told["orders acknowledged / refused / without an answer"]


def test_what_is_lost_has_several_names():
    found = ["early: a", "lost: b", "hole: c", "unmade: d", "twice: e", "unwanted: f"]

    told = figures([], evidence([]), found)

    assert ("1 / 3 / 1", "6") == (told["early / lost / twice"], told["violations of any kind"])
