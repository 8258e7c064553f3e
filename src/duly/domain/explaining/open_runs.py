"""Why a run that is open is where it is: not due, queued, running, backing off or dead."""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING

from duly.domain.attempts import Reason
from duly.domain.explaining.facts import Cause, Explanation
from duly.domain.explaining.limited_runs import limited
from duly.domain.explaining.words import (
    alive_lines,
    claim_lines,
    ended_text,
    error_line,
    has_living,
    last_seen_line,
    moment_text,
    order_text,
    queued_at,
    reason_words,
    serving_lines,
    span_text,
    tried_lines,
)
from duly.domain.identity import identity_text
from duly.domain.literals import AttemptState
from duly.domain.schedules import tenant_option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.domain.attempts import AttemptRecord
    from duly.domain.explaining.facts import Life, Order, RunFacts
    from duly.domain.runs import RunRecord

SILENT_US = 9 * 1_000_000
"""Three heartbeats: one that is late is no news, a worker that misses several is in trouble."""


def unfired(facts: RunFacts, due_at: int, what: str) -> Explanation:
    """Explain a timer that is pending: not due, or nobody fires it."""
    due = ("due", moment_text(due_at))
    if due_at > facts.now:
        wait = span_text(due_at - facts.now)
        return Explanation(
            cause=Cause.NOT_DUE,
            sentence=f"{what} is not due before {moment_text(due_at)}, in {wait}.",
            evidence=(due,),
        )
    late = span_text(facts.now - due_at)
    living = [one for one in facts.dispatchers if one.is_alive]
    if not living:
        return Explanation(
            cause=Cause.NO_DISPATCHER,
            sentence=f"{what} was due {late} ago, and no dispatcher is alive to fire it.",
            evidence=(due, *last_seen_line("dispatcher", facts.dispatchers)),
            remedy="start duly dispatcher",
        )
    if all(one.is_holding for one in living):
        return Explanation(
            cause=Cause.DISPATCHER_HOLDING,
            sentence=f"{what} was due {late} ago, and every dispatcher is holding.",
            evidence=(due, *alive_lines("dispatcher", living)),
            remedy="see duly status for why they hold",
        )
    return Explanation(
        cause=Cause.DISPATCHER_BEHIND,
        sentence=f"{what} was due {late} ago, and the dispatchers have not come to it yet.",
        evidence=(due, *alive_lines("dispatcher", living)),
        remedy="see duly status; a dispatcher that is behind says why",
    )


def queued(facts: RunFacts) -> Explanation:
    """Explain a run that no worker has taken yet."""
    run = facts.run
    queued = f"It has been queued for {span_text(facts.now - queued_at(run))}"
    evidence = [("queued", f"{moment_text(queued_at(run))} in {run.call.queue}")]
    if facts.paused is not None:
        return _queue_paused(facts, facts.paused, evidence)
    living = [one for one in facts.workers if one.is_alive]
    if not living:
        return Explanation(
            cause=Cause.NO_WORKER,
            sentence=f"{queued}, and no worker is alive to run it.",
            evidence=(*evidence, *last_seen_line("worker", facts.workers)),
            remedy="start duly worker",
        )
    serving = [one for one in living if not one.queues or run.call.queue in one.queues]
    if not serving:
        return Explanation(
            cause=Cause.NO_WORKER_FOR_QUEUE,
            sentence=f"{queued}, and no living worker serves the queue {run.call.queue}.",
            evidence=(*evidence, *serving_lines(living)),
            remedy=f"start duly worker --queue {quote(run.call.queue)}",
        )
    if not facts.is_served:
        return Explanation(
            cause=Cause.NO_WORKER_FOR_TASK,
            sentence=f"{queued}, and no living worker has the code of the task {run.call.task}.",
            evidence=(*evidence, *serving_lines(living)),
            remedy="start duly worker with the application that has it: duly worker --app …",
        )
    return _waiting_for_a_slot(facts, serving, (queued, evidence))


def _waiting_for_a_slot(
    facts: RunFacts, serving: Sequence[Life], told: tuple[str, list[tuple[str, str]]]
) -> Explanation:
    queued, evidence = told
    slots, free = sum(one.slots for one in serving), sum(one.free for one in serving)
    waiting = ("in its queue", f"{facts.queued:,} queued")
    if free <= 0:
        count = "The only slot is" if slots == 1 else f"All {slots:,} slots are"
        return Explanation(
            cause=Cause.SLOTS_BUSY,
            sentence=f"{queued}. {count} busy.",
            evidence=(*evidence, waiting, *serving_lines(serving)),
            remedy="start another duly worker, or give one more --slots",
        )
    return Explanation(
        cause=Cause.BEHIND_OTHERS,
        sentence=f"{queued}, and is about to be claimed: {free:,} of {slots:,} slots are free.",
        evidence=(*evidence, waiting, *serving_lines(serving)),
    )


def _queue_paused(
    facts: RunFacts, paused: Order, evidence: Sequence[tuple[str, str]]
) -> Explanation:
    why = f": {paused.why}" if paused.why else ""
    queue = facts.run.call.queue
    return Explanation(
        cause=Cause.QUEUE_PAUSED,
        sentence=f"Its queue {queue} is paused by {paused.who} since"
        f" {moment_text(paused.at)}{why}.",
        evidence=(*evidence, ("paused", f"{span_text(facts.now - paused.at)} ago")),
        remedy=f"duly queue resume {quote(queue)}",
    )


def running(facts: RunFacts) -> Explanation:
    """Explain a run that a worker holds."""
    run = facts.run
    claim = facts.attempts[-1] if facts.attempts else None
    evidence = () if claim is None else claim_lines(claim, facts.now)
    silent_us = 0 if claim is None else facts.now - (claim.heartbeat_at or claim.claimed_at)
    if silent_us > SILENT_US:
        return Explanation(
            cause=Cause.WORKER_SILENT,
            sentence=f"Its worker has been silent for {span_text(silent_us)}; when its lease has"
            " run out, a dispatcher takes the run from it.",
            evidence=evidence,
            remedy=None if has_living(facts.dispatchers) else "start duly dispatcher",
        )
    if run.cancel_asked_at is not None:
        by = "" if facts.ended_by is None else f" by {order_text(facts.ended_by)}"
        asked = span_text(facts.now - run.cancel_asked_at)
        return Explanation(
            cause=Cause.CANCEL_ASKED,
            sentence=f"It was asked to stop {asked} ago{by}, and its code has not ended yet.",
            evidence=evidence,
        )
    if claim is not None and claim.state is AttemptState.STALLED:
        since = facts.now - (claim.progress_at or claim.started_at or claim.claimed_at)
        return Explanation(
            cause=Cause.STALLED,
            sentence=f"Its worker is alive, but it has not advanced for {span_text(since)}.",
            evidence=evidence,
            remedy="look at duly run logs, or stop it: duly run cancel",
        )
    if run.started_at is None:
        held = facts.now - (run.claimed_at or facts.now)
        sentence = f"A worker has claimed it {span_text(held)} ago, and has not told of its start."
        return Explanation(cause=Cause.CLAIMED, sentence=sentence, evidence=evidence)
    sentence = f"It has been running for {span_text(facts.now - run.started_at)}."
    return Explanation(cause=Cause.RUNNING, sentence=sentence, evidence=evidence)


def retrying(facts: RunFacts) -> Explanation:
    """Explain a run that waits for another attempt."""
    run = facts.run
    next_at = facts.now if run.next_at is None else run.next_at
    last = facts.attempts[-1] if facts.attempts else None
    why = "" if last is None or last.reason is None else reason_words(last.reason)
    if next_at <= facts.now:
        return unfired(facts, next_at, "Its next attempt")
    put_off = limited(facts)
    if put_off is not None:
        return put_off
    wait = f"until {moment_text(next_at)}, in {span_text(next_at - facts.now)}"
    evidence = (*tried_lines(facts), *error_line(run.error))
    if last is not None and last.reason == Reason.SNOOZED:
        sentence = f"The task asked to be run later: it waits {wait}."
        return Explanation(cause=Cause.SNOOZED, sentence=sentence, evidence=evidence)
    after = f" after attempt {last.number}" if last is not None and last.number else ""
    return Explanation(
        cause=Cause.BACKING_OFF,
        sentence=f"It is backing off{after} {wait}{why and f': {why}'}.",
        evidence=evidence,
        remedy=f"try at once: duly run retry {_command_name(run)}",
    )


def dead(facts: RunFacts) -> Explanation:
    """Explain a dead letter."""
    run, name = facts.run, _command_name(facts.run)
    since = "" if not facts.attempts else ended_text(facts.attempts[-1])
    words = reason_words(run.state_reason or "")
    return Explanation(
        cause=Cause.DEAD,
        sentence=f"It is dead{since}: {words or 'nobody recorded why'}.",
        evidence=(*tried_lines(facts), *error_line(run.error)),
        remedy=f"duly run retry {name}, after duly run edit if its arguments are wrong;"
        f" or duly run discard {name}",
    )


def ambiguous(facts: RunFacts) -> Explanation:
    """Explain a run of which nobody knows what it did."""
    run, name = facts.run, _command_name(facts.run)
    last = facts.attempts[-1] if facts.attempts else None
    begun_at = None if last is None else last.effects_at
    after = "" if begun_at is None else f" after its effects had begun at {moment_text(begun_at)}"
    since = "" if last is None else ended_text(last)
    words = reason_words(run.state_reason or "")
    late = () if last is None or last.late is None else (("its worker said", _late_text(last)),)
    return Explanation(
        cause=Cause.AMBIGUOUS,
        sentence=f"Nobody knows what it did{since}: its attempt ended{after}, and"
        f" {words or 'nobody recorded how'}. It is not tried again by itself.",
        evidence=(*tried_lines(facts), *late, *error_line(run.error)),
        remedy=f"duly inbox {name} says what is safest, and how to choose",
    )


def _command_name(run: RunRecord) -> str:
    return f"{identity_text(run.id)}{tenant_option(run.tenant)}"


def _late_text(attempt: AttemptRecord) -> str:
    assert attempt.late is not None, "whoever asks has looked"
    return f"{attempt.late.state}, too late to count, at {moment_text(attempt.late.at)}"
