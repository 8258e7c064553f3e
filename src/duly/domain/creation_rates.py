"""How many promises are usually made in a minute, and whether there are unusually many (V3).

What is usual is learnt by watching: a mean in which the last hour weighs most. Until it was watched
for a while nothing is unusual, and a few are never many.
"""

from __future__ import annotations

from typing import NamedTuple

SHARE = 1 / 240
"""How much one look weighs, four a minute: the mean follows within an hour or so."""
LOOKS_MIN = 40
"""Ten minutes of watching."""
LOOKS_COUNTED_MAX = 1_000_000
FEW = 30.0
"""So many in a minute are nothing out of the ordinary, wherever."""


class CreationRate(NamedTuple):
    """What was learnt so far."""

    usual: float = 0.0
    """In a minute."""
    looks: int = 0

    def after(self, made: int) -> CreationRate:
        """Return what is learnt by another look at the last minute."""
        # At first every look weighs as much as those before it.
        share = max(SHARE, 1 / (self.looks + 1))
        # Once it is known, what is out of the ordinary does not at once become ordinary.
        most = 2 * max(self.usual, FEW)
        learnt = made if self.looks < LOOKS_MIN else min(made, most)
        usual = self.usual + (learnt - self.usual) * share
        return CreationRate(round(usual, 3), min(self.looks + 1, LOOKS_COUNTED_MAX))

    def times(self, made: int) -> float:
        """Say how many times the usual number were made; 0 while that is not known."""
        return made / max(self.usual, FEW) if self.looks >= LOOKS_MIN else 0.0


def rate_from_json(stored: object) -> CreationRate:
    """Read what a watcher before has learnt; nothing, if it can't be read."""
    match stored:
        case [int() | float() as usual, int(looks)] if usual >= 0 and looks >= 0:
            return CreationRate(float(usual), looks)
        case _:
            return CreationRate()
