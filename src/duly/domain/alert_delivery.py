"""Deliveries of alerts: when one that failed is tried again, and when it is given up (V3)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from duly.domain.instants import DAY, HOUR, SECOND_US

if TYPE_CHECKING:
    from duly.domain.alerting import AlertId, DeliveryId, Told

TRIES_MAX = 30
FIRST_WAIT_US = 5 * SECOND_US
WAIT_MAX_US = HOUR * SECOND_US
KEPT_UP_US = DAY * SECOND_US
"""How long it is tried: who was away for longer hears of it by looking."""
ERROR_LENGTH_MAX = 1000


class DeliveryState(StrEnum):
    """What has become of a delivery."""

    PENDING = "pending"
    DONE = "done"
    GIVEN_UP = "given-up"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryRecord:
    """One change of an alert on its way to one channel; its id is the key against repetition."""

    id: DeliveryId
    alert_id: AlertId
    told: Told
    channel: str
    state: DeliveryState
    tries: int
    made_at: int
    next_at: int
    """When it is tried next, while it is pending."""
    settled_at: int | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Tried:
    """What becomes of a delivery after a try."""

    state: DeliveryState
    wait_us: int = 0
    error: str | None = None


def conclude_try(
    delivery: DeliveryRecord, result: tuple[bool, bool, str], retry_us: int | None, now: int
) -> Tried:
    """Decide: done, tried again later, or given up. Total; the wait doubles, up to an hour.

    The result says whether it is done, whether trying again is of no use, and what was said.
    """
    is_done, is_final, detail = result
    if is_done:
        return Tried(DeliveryState.DONE)
    error = detail[:ERROR_LENGTH_MAX]
    tries = delivery.tries + 1
    if is_final or tries >= TRIES_MAX or now - delivery.made_at >= KEPT_UP_US:
        return Tried(DeliveryState.GIVEN_UP, error=error)
    doubled = min(FIRST_WAIT_US << min(tries - 1, 20), WAIT_MAX_US)
    wait_us = doubled if retry_us is None else min(max(retry_us, FIRST_WAIT_US), WAIT_MAX_US)
    return Tried(DeliveryState.PENDING, wait_us=wait_us, error=error)
