"""What is dear to compute and may be a little old: kept for a while, of a bounded number."""

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

    def of(self, tenant: str) -> Kept:
        """Return what is kept of one tenant: of others it shows nothing."""
        return Kept(self.clock, tenant, self.answers)

    def get(self, key: object, seconds: int, make: Callable[[], T]) -> T:
        """Return what was made under this key within so many seconds, or make it."""
        now = self.clock.monotonic_us()
        found = self.answers.get((self.tenant, key))
        if found is not None and now - found[0] < seconds * SECOND_US:
            kept: T = found[1]
            return kept
        if len(self.answers) >= ENTRIES_MAX:
            self.answers.clear()
        made = make()
        self.answers[self.tenant, key] = (now, made)
        return made
