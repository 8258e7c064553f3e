"""What is dear to compute and may be a little old: kept for a while, of a bounded number.

Whoever comes when it has grown old makes it anew; others who come meanwhile get the old one, so
that no more than one of them waits. An order forgets what is kept of its tenant.
"""

from __future__ import annotations

from dataclasses import dataclass, field
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
    making: set[tuple[str, Any]] = field(default_factory=set)
    """What somebody makes anew; a set's own operations are atomic."""

    def of(self, tenant: str) -> Kept:
        """Return what is kept of one tenant: of others it shows nothing."""
        return Kept(self.clock, tenant, self.answers, self.making)

    def get(self, key: object, seconds: int, make: Callable[[], T]) -> T:
        """Return what was made under this key within so many seconds, or make it.

        While somebody else makes it, what there was before.
        """
        place = (self.tenant, key)
        now = self.clock.monotonic_us()
        found = self.answers.get(place)
        is_new = found is not None and now - found[0] < seconds * SECOND_US
        if found is not None and (is_new or place in self.making):
            kept: T = found[1]
            return kept
        if len(self.answers) >= ENTRIES_MAX:
            self.answers.clear()
        self.making.add(place)
        try:
            made = make()
            self.answers[place] = (now, made)
        finally:
            self.making.discard(place)
        return made

    def forget(self) -> None:
        """Keep nothing of this tenant: somebody has just changed something."""
        for place in [one for one in list(self.answers) if one[0] == self.tenant]:
            self.answers.pop(place, None)
