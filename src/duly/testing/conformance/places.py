"""Places to wait at, as the tests of waking want them: with nothing to tell any more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.store.dispatch import MemberKind
from duly.testing.factories import SECOND_US

if TYPE_CHECKING:
    from duly.store.leases import Wakeups
    from duly.store.protocol import Store

WAIT_MAX_US = 60 * SECOND_US
"""How long a test waits for a wake-up that is on its way."""


class AtPlaces:
    """Knows how a place to wait at begins."""

    begins_with_a_hint = False
    """Whether it wakes who waits there as soon as it hears others: what was rung for before is not
    known to it."""

    def place(self, store: Store, kind: MemberKind = MemberKind.DISPATCHER) -> Wakeups:
        """Return one that hears others and is quiet: who is woken now was rung for."""
        place = store.wakeups(kind)
        if self.begins_with_a_hint:
            assert place.wait(WAIT_MAX_US)
        return place
