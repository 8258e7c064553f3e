"""The inbox over the wire: runs in doubt, what is known of them, and what is advised."""

from __future__ import annotations

from typing import Any

from msgspec import field

from duly.interface.attempts import Attempt
from duly.interface.runs import Run
from duly.interface.shapes import Asked, Identity, Instant, Shown


class SettledEffect(Shown, frozen=True, kw_only=True):
    """Who has decided what about an effect whose attempt ended before it could say."""

    settled_as: str = field(name="as")
    """done, not done, or left as it is."""
    by: str
    at: Instant
    reason: str | None


class Effect(Shown, frozen=True, kw_only=True):
    """What is known of one effect of a run."""

    key: str
    state: str
    run: Identity
    fence: int
    begun_at: Instant
    done_at: Instant | None
    result: Any
    tries: int
    settled: SettledEffect | None
    """Of one that was left unknown: what was decided about it since."""


class Check(Shown, frozen=True, kw_only=True):
    """What was found about the result of a run."""

    finding: str
    verdict: str
    at: Instant
    by: str
    evidence: Any


class Scope(Shown, frozen=True, kw_only=True):
    """How much a run was to do, what of it is done, and what is missing."""

    expected: int | None
    done: int
    repeated: int
    missing: list[str]


class Advice(Shown, frozen=True, kw_only=True):
    """What is safest, why, and what every other choice risks."""

    safest: str
    why: str
    risks: dict[str, str]
    may_repeat: bool
    """Whether to try it again is confirmed, unless each unknown effect is settled by its key."""


class InboxItem(Shown, frozen=True, kw_only=True):
    """A run that is in doubt, all that is known of it, and what is advised."""

    run: Run
    since: Instant | None
    attempt: Attempt | None
    effects: list[Effect]
    checks: list[Check]
    scope: Scope
    has_check: bool
    advice: Advice


class InboxQuery(Asked, frozen=True, kw_only=True):
    """How many of those that wait, the longest first."""

    limit: int | None = None
