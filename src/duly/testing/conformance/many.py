"""Many runs ordered at once: the part of the contract about orders that programs give in bulk."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from duly.errors import UsageError
from duly.testing.conformance import steps
from duly.testing.factories import HOUR_US, add_runs, new_run
from duly.testing.snapshot import snapshot

if TYPE_CHECKING:
    from duly.store.protocol import Store
    from duly.testing.manual_clock import ManualClock


class AddingMany:
    """What `add_runs` promises of runs that are alike."""

    @pytest.mark.parametrize("delay_us", [HOUR_US, 1])
    @pytest.mark.parametrize("is_told_by", ["instant", "delay"])
    def test_many_that_are_alike_are_made_together(
        self, store: Store, clock: ManualClock, delay_us: int, is_told_by: str
    ) -> None:
        """A1, F6: each with its own arguments, announced if near, and the same if asked again."""
        due_at = clock.now_us() + delay_us
        when: dict[str, Any] = {"due_at": due_at, "delay_us": None, "is_drawn": True}
        if is_told_by == "delay":
            when |= {"due_at": None, "delay_us": delay_us}
        asked = [
            replace(one, call=replace(one.call, arguments=f'{{"class":{number}}}'), **when)
            for number in range(300)
            for one in (new_run(due_at, f"class {number}", fingerprint=""),)
        ]
        start = store.start_of_arrivals()
        added = store.add_runs(add_runs(*asked))
        again = store.add_runs(add_runs(*asked))

        assert [(one.id, due_at, True) for one in asked] == added
        assert [(one.id, due_at, False) for one in asked] == again
        pending = [store.get_delayed(one.id) for one in asked]
        assert [one.call for one in asked] == [one.call for one in pending if one is not None]
        assert 300 == store.status().delayed
        heard = store.read_arrivals(start, range(store.status().shards))
        assert (300 if delay_us == 1 else 0) == len(heard.timers)

    def test_of_many_that_are_alike_none_is_made_in_the_past(
        self, store: Store, clock: ManualClock
    ) -> None:
        """S1: all or none."""
        past = clock.now_us() - 1
        asked = [new_run(past, f"{n}", is_drawn=True, fingerprint="") for n in range(3)]
        before = snapshot(store)

        with pytest.raises(UsageError, match="is in the past"):
            store.add_runs(add_runs(*asked))
        assert before == snapshot(store)
        late = store.add_runs(add_runs(*(replace(one, is_late_ok=True) for one in asked)))
        assert [True] * 3 == [one.is_new for one in late]
        assert 3 == steps.queued(store)
