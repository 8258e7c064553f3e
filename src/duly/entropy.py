"""The only file that draws at random. Everything else is given its draw, so it can be replayed."""

from __future__ import annotations

import os
from typing import Protocol


class RandomSource(Protocol):
    """Whoever can draw bytes nobody can guess; tests and the simulation bring a seeded one."""

    def draw(self, size: int) -> bytes:
        """Return `size` fresh random bytes."""
        ...


class SystemDraws:
    """The operating system's source of randomness."""

    def draw(self, size: int) -> bytes:
        """Return `size` fresh random bytes."""
        return os.urandom(size)
