"""What a fire costs on PostgreSQL, by count: statements, buffers, log, and updates in place."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from bench.parts import driving
from bench.parts.fleet_firing import long_ago, path
from bench.parts.processes import wait
from bench.stores.database import Database

if TYPE_CHECKING:
    from tests.postgres.server import Server

READ_UPDATES = """
SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables
WHERE schemaname = 'duly' AND relname = 'schedule_state'"""
NEXT_CROWD = """
SELECT mode() WITHIN GROUP (ORDER BY next_due) FROM duly.schedule_state WHERE fires > 0"""
AGAIN = "schedules, after a checkpoint"

Costs = dict[str, dict[str, float]]


def cost(server: Server, pending: int, fires: int, sizes: driving.CostSizes) -> Costs:
    """Return what a fire costs by kind, with so much else pending."""
    place = Database(server)
    crowds = driving.fill_for_cost(place, pending, fires)
    found = {
        kind: driving.cost_per_fire(place, due_at, fires, sizes) for kind, due_at in crowds.items()
    }
    place.is_counted_from_checkpoint = True
    ((due_at,),) = place.rows(NEXT_CROWD)
    found[AGAIN] = driving.cost_per_fire(place, due_at, fires, sizes)
    place.remove()
    return found


class InPlace(NamedTuple):
    """How often a state row stayed in its page and its indexes untouched, and what a fire cost."""

    share: float
    counts: dict[str, float]
    """Per fire."""


def in_place(server: Server, pending: int, period_us: int, rounds: int) -> InPlace:
    """Fire a tenth of all schedules again and again, by the path alone."""
    place = Database(server)
    place.fill(long_ago(pending))
    fires = pending // 10 * rounds
    updates, stayed = _updates(place)
    with path(place) as one, place.counting() as counted:
        chosen = one.schedules()[: pending // 10]
        for _ in range(rounds):
            one.fire(1, chosen, period_us)
        counts = counted.read()
    # Backends tell what they did when they end.
    wait(lambda: _updates(place)[0] >= updates + fires)
    share = (_updates(place)[1] - stayed) / fires
    place.remove()
    return InPlace(share, {name: count / fires for name, count in counts.items()})


def _updates(place: Database) -> tuple[int, int]:
    ((updates, stayed),) = place.rows(READ_UPDATES)
    return updates, stayed
