"""What is dear to compute and may be a little old: kept for a while, of a bounded number.

Whoever comes when it has grown old makes it anew; others who come meanwhile get the old one, so
that no more than one of them waits. An order forgets what is kept of its tenant, and what was being
made while it was given: whoever makes that may have looked before it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.api.views import Clock

T = TypeVar("T")
SECOND_US = 1_000_000
ENTRIES_MAX = 500


@dataclass(frozen=True, slots=True)
class Kept:
    """Answers of one server, each under its tenant and a key."""

    clock: Clock
    tenant: str = ""
    answers: dict[tuple[str, Any], tuple[int, Any]] = field(default_factory=dict)
    making: dict[tuple[str, Any], object] = field(default_factory=dict)
    """What somebody makes anew, and a mark of theirs; without it what they make is not kept."""
    lock: Lock = field(default_factory=Lock)

    def of(self, tenant: str) -> Kept:
        """Return what is kept of one tenant: of others it shows nothing."""
        return replace(self, tenant=tenant)

    def get(self, key: object, seconds: int, make: Callable[[], T]) -> T:
        """Return what was made under this key within so many seconds, or make it.

        While somebody else makes it, what there was before.
        """
        place, mine = (self.tenant, key), object()
        now = self.clock.monotonic_us()
        with self.lock:
            found = self.answers.get(place)
            is_new = found is not None and now - found[0] < seconds * SECOND_US
            if found is not None and (is_new or place in self.making):
                kept: T = found[1]
                return kept
            self.making[place] = mine
        try:
            made = make()
        except BaseException:
            self._keep(place, mine, None)
            raise
        self._keep(place, mine, (now, made))
        return made

    def _keep(self, place: tuple[str, Any], mine: object, answer: tuple[int, Any] | None) -> None:
        with self.lock:
            if self.making.get(place) is not mine:
                return  # an order was given meanwhile, or somebody else began later
            del self.making[place]
            if answer is not None:
                if len(self.answers) >= ENTRIES_MAX:
                    self.answers.clear()
                self.answers[place] = answer

    def forget(self) -> None:
        """Keep nothing of this tenant: somebody has just changed something."""
        with self.lock:
            for known in (self.answers, self.making):
                for place in [one for one in known if one[0] == self.tenant]:
                    del known[place]
