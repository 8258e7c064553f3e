"""Schema, soundness and time-zone data: the part of the contract that operators rely on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.store.dispatch import Renew
from duly.testing.conformance import steps
from duly.testing.conformance.owed import owing
from duly.testing.factories import HOUR_US, cancel
from duly.testing.snapshot import snapshot

if TYPE_CHECKING:
    from duly.store.protocol import Store
    from duly.testing.manual_clock import ManualClock


class Upkeep:
    """What the schema port promises, and what the store remembers about time-zone data."""

    def test_a_new_store_lacks_no_migration(self, store: Store) -> None:
        """D5."""
        status = store.schema_status()

        assert (True, None, (), ()) == (
            status.is_usable,
            status.problem,
            status.missing,
            status.unknown,
        )
        assert store.name == status.store

    def test_migrating_again_does_nothing(self, store: Store) -> None:
        """D5."""
        steps.create(store)
        before, applied = snapshot(store), store.schema_status()

        assert [] == store.migrate()
        assert [] == store.migrate()
        assert (before, applied) == (snapshot(store), store.schema_status())

    def test_a_healthy_store_gives_no_findings(self, store: Store, clock: ManualClock) -> None:
        """D5: with something in every state there is."""
        assert [] == store.check()
        record = owing(store, clock)
        steps.fire_due(store, clock, record)
        steps.pause(store, steps.create(store, "paused"))
        steps.delete(store, steps.create(store, "deleted"))
        steps.delay(store, clock.now_us() + HOUR_US, "pending", key="k")
        store.cancel_delayed(cancel(steps.delay(store, clock.now_us() + HOUR_US, "gone").id))

        assert [] == store.check()

    def test_the_newest_release_of_time_zone_rules_is_remembered(self, store: Store) -> None:
        """T3: every member is told."""
        member = steps.join(store)

        assert store.note_tzdata("2026b")
        assert "2026b" == store.status().tzdata
        assert "2026b" == store.renew(Renew(member=member)).tzdata

    def test_an_older_release_is_refused(self, store: Store) -> None:
        """T3: a node with old rules does not recompute what a newer one has computed."""
        store.note_tzdata("2026b")

        assert not store.note_tzdata("2026a")
        assert not store.note_tzdata("2025z")
        assert store.note_tzdata("2026b")
        assert store.note_tzdata("2026c")
        assert "2026c" == store.status().tzdata
