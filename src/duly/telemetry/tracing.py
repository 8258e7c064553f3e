"""Traces: which spans a promise leaves, and how they find each other without a word being stored.

Trace id and first span are computed from the id of a run, or of a schedule. So a dispatcher, a
worker and a program that never met tell spans of one trace, and no run has a row or a statement
more for it. Who tells them to whom is behind `Tracing`; nothing here needs OpenTelemetry.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

Attributes = Mapping[str, str | int | bool]
SpanKind = Literal["internal", "producer", "consumer"]

SPANS_AT_ONCE_MAX = 128
"""So many spans of one batch or one order are told; a crowd is seen by its numbers (metrics)."""
EFFECTS_OPEN_MAX = 128
"""So many effects of one attempt have their spans open at a time."""
_TRACE, _SPAN = b"duly.trace", b"duly.span"


def trace_id_of(identity: bytes) -> int:
    """Return the trace of a run or a schedule.

    It is hashed, and not the id itself: whoever samples by a share of all traces looks at the end
    of the number, where ids have bits that are always the same.
    """
    return int.from_bytes(blake2b(_TRACE + identity, digest_size=16).digest()) or 1


def first_span_of(identity: bytes) -> int:
    """Return the span that all others of a run's or a schedule's trace are below."""
    return int.from_bytes(blake2b(_SPAN + identity, digest_size=8).digest()) or 1


def trace_text(identity: bytes) -> str:
    """Return a trace's id as it is written everywhere: 32 hexadecimal digits."""
    return f"{trace_id_of(identity):032x}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanFacts:
    """What one span says."""

    name: str
    of: bytes
    """The run or schedule in whose trace it is."""
    is_first: bool = False
    """Whether the others of that trace are below it."""
    kind: SpanKind = "internal"
    attributes: Attributes = field(default_factory=dict)
    links: tuple[bytes, ...] = ()
    """Runs and schedules that it has to do with."""


class AttemptTrace(Protocol):
    """The span of one attempt, open until the attempt has ended. May be called from any thread."""

    def current(self) -> AbstractContextManager[object]:
        """Make it the current span of whatever is called within."""
        ...

    def carrier(self) -> dict[str, str]:
        """Return how others are told of it: `traceparent`, and `tracestate` if there is one."""
        ...

    def began(self) -> None:
        """Note that the code has begun."""
        ...

    def begin_effect(self, key: str) -> None:
        """Begin a span below it: an effect was permitted."""
        ...

    def in_effect(self, key: str) -> AbstractContextManager[object]:
        """Make an effect's span the current one of whatever is called within."""
        ...

    def end_effect(self, key: str, *, is_done: bool) -> None:
        """End an effect's span."""
        ...

    def checkpoint(self, partition: str) -> AbstractContextManager[object]:
        """Have a span below it for as long as a checkpoint is being stored."""
        ...

    def end(self, attributes: Attributes, error: str | None = None) -> None:
        """End it, and what is open below it. Later calls change nothing."""
        ...


class OrderSpan(Protocol):
    """An order that is being given, in the caller's own trace."""

    def tell(self, spans: Sequence[SpanFacts], count: int) -> None:
        """Say what was promised or ordered: a span for each, linked with the order in both ways.

        `count` is how many promises there are, of which these may be the first; none, of an order
        about what was promised before.
        """
        ...


class Tracing(Protocol):
    """Whoever spans are told to. Never raises, never waits."""

    def tell(self, spans: Iterable[SpanFacts], began_us: int, ended_us: int) -> None:
        """Tell spans that are over; their times since 1970."""
        ...

    def begin_attempt(self, facts: SpanFacts) -> AttemptTrace:
        """Begin the span of an attempt."""
        ...

    def order_span(self, name: str) -> AbstractContextManager[OrderSpan]:
        """Have a span in the caller's own trace while an order is given."""
        ...
