"""Draws that can be repeated: the same seed gives the same bytes, in the same order."""

from __future__ import annotations

from hashlib import blake2b
from itertools import count


class SeededDraws:
    """Bytes that look random and are not: a hash of the seed and of how many draws there were."""

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed.to_bytes(16, signed=True)
        self._counts = count(1)  # which gives no two threads the same

    def draw(self, size: int) -> bytes:
        """Return `size` bytes that nobody but this seed has drawn."""
        drawn = b""
        while len(drawn) < size:
            drawn += blake2b(next(self._counts).to_bytes(8), key=self._seed).digest()
        return drawn[:size]
