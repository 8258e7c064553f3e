"""Draws that can be repeated: the same seed gives the same bytes, in the same order."""

from __future__ import annotations

from hashlib import blake2b


class SeededDraws:
    """Bytes that look random and are not: a hash of the seed and of how many draws there were."""

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed.to_bytes(16, signed=True)
        self._count = 0

    def draw(self, size: int) -> bytes:
        """Return `size` bytes that nobody but this seed has drawn."""
        drawn = b""
        while len(drawn) < size:
            self._count += 1
            drawn += blake2b(self._count.to_bytes(8), key=self._seed).digest()
        return drawn[:size]
