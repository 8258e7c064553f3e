"""Orders that may be given again: what an Idempotency-Key stands for."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from uuid import UUID

from duly.domain.ids import schedule_id

_DRAW_BYTES = 10


@dataclass(frozen=True, slots=True)
class IdempotentOrder:
    """An order under a key: what is the same whenever it is given again."""

    nonce: bytes
    """Made of who gives it and its key."""
    begun_at: int
    """When it was begun first, in microseconds by the store's clock."""

    def ids(self, count: int) -> list[UUID]:
        """Return ids that are the same whenever the order is given again.

        Their front is when it was begun, as in every id: they sort by time.
        """
        draws = (
            blake2b(self.nonce + index.to_bytes(4, "big"), digest_size=_DRAW_BYTES).digest()
            for index in range(count)
        )
        return [UUID(bytes=schedule_id(self.begun_at, draw)) for draw in draws]
