"""Why a run that is over ended as it did, and which part of its way was long."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.domain.attempts import Reason
from duly.domain.explaining.facts import Cause, Explanation
from duly.domain.explaining.words import (
    error_line,
    fired_after,
    moment_text,
    order_text,
    queued_at,
    reason_words,
    span_text,
    tried_lines,
    way_lines,
)
from duly.domain.literals import Origin, RunState

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from duly.domain.explaining.facts import Life, RunFacts

SUCCEEDED = "It succeeded."
_BY_SOMEBODY = {
    RunState.CANCELLED: Cause.CANCELLED,
    RunState.DISCARDED: Cause.DISCARDED,
    RunState.SKIPPED: Cause.RECONCILED,
}
LATE_US = 60 * 1_000_000
"""The grace of most schedules: what took longer between two steps is worth an explanation."""


def ended_by_somebody(facts: RunFacts) -> Explanation:
    """Explain a run that a person ended."""
    cause = _BY_SOMEBODY[facts.run.state]
    by = "" if facts.ended_by is None else f" by {order_text(facts.ended_by)}"
    ended = "" if facts.run.finished_at is None else f" at {moment_text(facts.run.finished_at)}"
    return Explanation(
        cause=cause, sentence=f"It was {facts.run.state}{by}{ended}.", evidence=tried_lines(facts)
    )


def failed(facts: RunFacts) -> Explanation:
    """Explain a run whose task gave up."""
    if facts.run.state_reason == Reason.RECONCILED:
        return _settled(facts)
    words = reason_words(facts.run.state_reason or "")
    return Explanation(
        cause=Cause.FAILED,
        sentence=f"It failed{words and f': {words}'}.",
        evidence=(*tried_lines(facts), *error_line(facts.run.error)),
    )


def succeeded(facts: RunFacts) -> Explanation:
    """Explain the longest part of the way, if any was long; else its tries, if it took several."""
    run = facts.run
    if run.state_reason in (Reason.RECONCILED, Reason.VERIFIED):
        return _settled(facts)
    parts = _way(facts)
    longest_us, told = max(parts, key=lambda part: part[0])
    evidence = way_lines(run)
    if longest_us <= LATE_US and len(facts.attempts) > 1:
        longest_us, told = next(part for part in parts if part[1] is _tried_often)
    elif longest_us <= LATE_US:
        sentence = (
            f"{SUCCEEDED} It was on time: queued {span_text(fired_after(run))} after it fell due."
        )
        return Explanation(cause=Cause.ON_TIME, sentence=sentence, evidence=evidence)
    found = told(facts, longest_us)
    return Explanation(
        cause=found.cause,
        sentence=f"{SUCCEEDED} {found.sentence}",
        evidence=(*found.evidence, *evidence),
        remedy=found.remedy,
    )


def _settled(facts: RunFacts) -> Explanation:
    """Explain an end that the code could not tell of itself: nobody knew, and it was found out."""
    words = reason_words(facts.run.state_reason or "")
    by = "" if facts.ended_by is None else f"; by {order_text(facts.ended_by)}"
    return Explanation(
        cause=Cause.RECONCILED,
        sentence=f"It counts as {facts.run.state}: {words}{by}.",
        evidence=(*tried_lines(facts), *way_lines(facts.run)),
    )


def over(facts: RunFacts) -> Explanation:
    """Explain a run that ended in any other way."""
    reason = f": {facts.run.state_reason}" if facts.run.state_reason else ""
    sentence = f"It is {facts.run.state}{reason}."
    return Explanation(cause=Cause.OVER, sentence=sentence, evidence=way_lines(facts.run))


def _way(facts: RunFacts) -> list[tuple[int, Callable[[RunFacts, int], Explanation]]]:
    """Return how long each part of the way took, and who explains it."""
    run = facts.run
    first = facts.attempts[0].claimed_at if facts.attempts else run.claimed_at
    claimed_at = run.claimed_at if run.claimed_at is not None else queued_at(run)
    begun_at = claimed_at if first is None else first
    finished_at = facts.now if run.finished_at is None else run.finished_at
    return [
        (fired_after(run), _fired_late),
        (begun_at - queued_at(run), _waited_in_queue),
        (claimed_at - begun_at, _tried_often),
        (finished_at - claimed_at, _took_long),
    ]


def _fired_late(facts: RunFacts, late_us: int) -> Explanation:
    run = facts.run
    late = span_text(late_us)
    if run.origin is Origin.CATCH_UP:
        sentence = f"It was missed when it fell due and made up for {late} later, in catch-up."
        return Explanation(cause=Cause.CAUGHT_UP, sentence=sentence)
    if run.schedule_id is None and run.created_at > run.not_before:
        sentence = f"It was ordered {late} after the moment that it was ordered for."
        return Explanation(cause=Cause.ORDERED_LATE, sentence=sentence)
    told = f"It was queued {late} after it fell due"
    if was_there(facts.dispatchers, run.not_before):
        sentence = f"{told}, although a dispatcher was alive."
        return Explanation(cause=Cause.DISPATCHER_BEHIND, sentence=sentence)
    gap = gap_at(facts.dispatchers, run.not_before, queued_at(run))
    if gap is None:
        sentence = f"{told}; who kept time then is not known any more."
        return Explanation(cause=Cause.UNKNOWN, sentence=sentence)
    sentence = f"{told}: no dispatcher was alive {gap}."
    return Explanation(cause=Cause.NO_DISPATCHER, sentence=sentence)


def _waited_in_queue(facts: RunFacts, waited_us: int) -> Explanation:
    since, waited = queued_at(facts.run), span_text(waited_us)
    claimed_at = since + waited_us
    for order, resumed_at in facts.was_paused:
        if order.at < claimed_at and resumed_at > since:
            return Explanation(
                cause=Cause.QUEUE_PAUSED,
                sentence=f"It waited {waited} in its queue, which was paused by {order_text(order)}"
                f" until {moment_text(resumed_at)}.",
            )
    gap = None
    if not was_there(facts.workers, since):
        gap = gap_at(facts.workers, since, claimed_at)
    if gap is not None:
        sentence = f"It waited {waited} in its queue: no worker was alive {gap}."
        return Explanation(cause=Cause.NO_WORKER, sentence=sentence)
    sentence = f"It waited {waited} in its queue until a worker had a slot for it."
    return Explanation(cause=Cause.WAITED_IN_QUEUE, sentence=sentence)


def _tried_often(facts: RunFacts, spent_us: int) -> Explanation:
    return Explanation(
        cause=Cause.TRIED_OFTEN,
        sentence=f"It took {len(facts.attempts)} claims and {span_text(spent_us)} until the one"
        " that finished it.",
        evidence=tried_lines(facts),
    )


def _took_long(_facts: RunFacts, spent_us: int) -> Explanation:
    sentence = f"It was not late; its last attempt took {span_text(spent_us)}."
    return Explanation(cause=Cause.TOOK_LONG, sentence=sentence)


def was_there(lives: Sequence[Life], at: int) -> bool:
    """Say whether one of those that are known was there at an instant."""
    return any(one.started_at <= at and (one.is_alive or at <= one.renewed_at) for one in lives)


def gap_at(lives: Sequence[Life], start: int, end: int) -> str | None:
    """Say from when until when nobody was there, if somebody came between `start` and `end`."""
    after = min((one.started_at for one in lives if start < one.started_at <= end), default=None)
    if after is None:
        return None
    before = max((one.renewed_at for one in lives if one.renewed_at < start), default=None)
    since = "" if before is None else f"from {moment_text(before)} "
    return f"{since}until {moment_text(after)}"
