"""Why a run is late, stuck, waiting or dead: facts, one function for each place, wording."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from shlex import quote
from typing import TYPE_CHECKING

from duly.domain.enums import AttemptState, Origin, RunState
from duly.domain.ids import identity_text
from duly.domain.limits import LimitReason, place_text, why_of
from duly.domain.runs import DECIDED, Reason
from duly.domain.schedules import tenant_option
from duly.timetable.instants import UNITS_US, from_microseconds, iso_utc

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from duly.domain.runs import AttemptRecord, RunRecord


class ExplanationCause(StrEnum):
    """Why a run is where it is: one code for each explanation."""

    NOT_DUE = "not-due"
    NO_DISPATCHER = "no-dispatcher"
    DISPATCHER_HOLDING = "dispatcher-holding"
    DISPATCHER_BEHIND = "dispatcher-behind"
    QUEUE_PAUSED = "queue-paused"
    NO_WORKER = "no-worker"
    NO_WORKER_FOR_QUEUE = "no-worker-for-queue"
    NO_WORKER_FOR_TASK = "no-worker-for-task"
    SLOTS_BUSY = "slots-busy"
    BEHIND_OTHERS = "behind-others"
    CANCEL_ASKED = "cancel-asked"
    WORKER_SILENT = "worker-silent"
    STALLED = "stalled"
    CLAIMED = "claimed"
    RUNNING = "running"
    BACKING_OFF = "backing-off"
    SNOOZED = "snoozed"
    OVERLAP = "overlap"
    CAP = "cap"
    RATE = "rate"
    BREAKER = "breaker"
    DEAD = "dead"
    AMBIGUOUS = "ambiguous"
    RECONCILED = "reconciled"
    CANCELLED = "cancelled"
    DISCARDED = "discarded"
    FAILED = "failed"
    CAUGHT_UP = "caught-up"
    ORDERED_LATE = "ordered-late"
    TRIED_OFTEN = "tried-often"
    WAITED_IN_QUEUE = "waited-in-queue"
    TOOK_LONG = "took-long"
    ON_TIME = "on-time"
    OVER = "over"
    UNKNOWN = "unknown"
    """It was late, and the store does not know any more who was there then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberPresence:
    """When a member of the fleet was there, and what it is there for."""

    name: str
    is_alive: bool
    started_at: int
    renewed_at: int
    is_holding: bool = False
    free: int = 0
    """Of a worker: slots that hold nothing."""
    slots: int = 0
    queues: tuple[str, ...] = ()
    """Of a worker: those it serves; empty for all."""
    id: int = 0
    standing: str | None = None
    """Of a worker that was taken out of service: `draining` or `quarantined`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedOrder:
    """What somebody ordered, when and why."""

    at: int
    who: str
    why: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitUsage:
    """How much of the limit is taken that a run waits for."""

    held: int
    waiting: int
    most: int | None = None
    rate: str | None = None


@dataclass(frozen=True, slots=True)
class Down:
    """What the breaker says that a run waits for."""

    state: str
    until: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """What an explanation is drawn from, read from the store at one time."""

    now: int
    run: RunRecord
    attempts: Sequence[AttemptRecord] = ()
    dispatchers: Sequence[MemberPresence] = ()
    workers: Sequence[MemberPresence] = ()
    is_pending: bool = False
    """A delayed run that has not fired."""
    is_served: bool = True
    """Whether a living worker knows the task."""
    paused: RecordedOrder | None = None
    """Of its queue, now."""
    was_paused: Sequence[tuple[RecordedOrder, int]] = ()
    """Of its queue, in the past: who paused it, and when it was resumed."""
    queued: int = 1
    """How many runs wait in its queue, itself among them."""
    ended_by: RecordedOrder | None = None
    """Who cancelled or discarded it, or asked for it."""
    taken: LimitUsage | None = None
    """Of the limit that it waits for."""
    breaker: Down | None = None
    """Of the destination that it waits for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """One sentence, what it rests on, and what to do, if anything."""

    cause: ExplanationCause
    sentence: str
    evidence: tuple[tuple[str, str], ...] = ()
    remedy: str | None = None


ERROR_SHOWN_MAX = 200
_MILLISECOND_US = 1000
_UNITS = (("d", "d"), ("h", "h"), ("m", "min"), ("s", "s"))


def moment_text(instant: int) -> str:
    """Write an instant in UTC, to the second."""
    return iso_utc(from_microseconds(instant).replace(microsecond=0))


def span_text(span_us: int) -> str:
    """Say a distance in its two largest units; in milliseconds below a second."""
    rest = max(span_us, 0)
    if rest < UNITS_US["s"]:
        return f"{rest // _MILLISECOND_US} ms"
    parts: list[tuple[int, str]] = []
    for unit, name in _UNITS:
        number, rest = divmod(rest, UNITS_US[unit])
        if number or parts:
            parts.append((number, name))
    return " ".join(f"{number:,} {name}" for number, name in parts[:2] if number)


def queued_at(run: RunRecord) -> int:
    """Return when a run became visible to workers."""
    return run.created_at if run.fired_at is None else run.fired_at


def fired_after(run: RunRecord) -> int:
    """Return how long after its due time that was."""
    return queued_at(run) - run.not_before


def has_living(lives: Sequence[MemberPresence]) -> bool:
    """Say whether any is alive."""
    return any(one.is_alive for one in lives)


def order_text(order: RecordedOrder) -> str:
    """Say who ordered something, and why."""
    return f"{order.who} ({order.why})" if order.why else order.who


def ended_text(attempt: AttemptRecord) -> str:
    """Say since when an attempt is over."""
    return "" if attempt.ended_at is None else f" since {moment_text(attempt.ended_at)}"


def last_seen_line(kind: str, lives: Sequence[MemberPresence]) -> tuple[tuple[str, str], ...]:
    """Tell of the one that was heard of last."""
    if not lives:
        return ((f"{kind}s", "none is alive"),)
    last = max(lives, key=lambda one: one.renewed_at)
    return ((f"last {kind}", f"{last.name}, heard of last at {moment_text(last.renewed_at)}"),)


def alive_lines(kind: str, lives: Sequence[MemberPresence]) -> tuple[tuple[str, str], ...]:
    """Tell of those that are alive."""
    return tuple((kind, f"{one.name}{', holding' if one.is_holding else ''}") for one in lives)


def serving_lines(lives: Sequence[MemberPresence]) -> tuple[tuple[str, str], ...]:
    """Tell what living workers serve, and how busy they are."""
    return tuple(("worker", _busy_text(one)) for one in lives)


def _busy_text(life: MemberPresence) -> str:
    served = ", ".join(life.queues) or "every queue"
    standing = f", {life.standing}" if life.standing else ""
    return f"{life.name}, {life.slots - life.free} of {life.slots} slots busy, {served}{standing}"


def out_of_service(queue: str, workers: Mapping[int, str]) -> tuple[str, str]:
    """Say that a queue has workers which claim nothing, and what to do.

    `workers` maps the number of each to its standing: `draining` or `quarantined`.
    """
    first, standing = min(workers.items())
    state = {"quarantined": "in quarantine"}.get(standing, standing)
    why = f"the one worker that serves it, {first}, is {state}"
    if len(workers) > 1:
        counts = Counter(workers.values())
        parts = ", ".join(f"{count:,} {standing}" for standing, count in sorted(counts.items()))
        why = f"the {len(workers):,} workers that serve it are out of service: {parts}"
    return why, f"duly worker release {first}, or start duly worker --queue {quote(queue)}"


def claim_lines(claim: AttemptRecord, now: int) -> tuple[tuple[str, str], ...]:
    """Tell who holds a run, and when it was heard of last."""
    found = [
        ("worker", f"{claim.worker} on {claim.worker_name}, fence {claim.fence}"),
        ("claimed", f"{moment_text(claim.claimed_at)}, {span_text(now - claim.claimed_at)} ago"),
    ]
    if claim.heartbeat_at is not None:
        found.append(("heartbeat", f"{span_text(now - claim.heartbeat_at)} ago"))
    if claim.progress is not None and claim.progress_at is not None:
        total = "" if claim.progress.total is None else f" of {claim.progress.total:,}"
        done = f"{claim.progress.done:,}{total}"
        found.append(("progress", f"{done}, {span_text(now - claim.progress_at)} ago"))
    return tuple(found)


def tried_lines(facts: RunFacts) -> tuple[tuple[str, str], ...]:
    """Tell of each attempt so far."""
    return tuple(
        (f"attempt {one.number}" if one.number else f"claim {one.fence}", _attempt_text(one))
        for one in facts.attempts
    )


def _attempt_text(attempt: AttemptRecord) -> str:
    reason = f" ({attempt.reason})" if attempt.reason not in (None, attempt.state) else ""
    claimed = f"claimed {moment_text(attempt.claimed_at)} by worker {attempt.worker}"
    return f"{attempt.state}{reason}, {claimed}"


def error_line(error: str | None) -> tuple[tuple[str, str], ...]:
    """Return the last line of an error, which names it."""
    lines = [line for line in (error or "").splitlines() if line.strip()]
    return (("error", lines[-1].strip()[:ERROR_SHOWN_MAX]),) if lines else ()


def way_lines(run: RunRecord) -> tuple[tuple[str, str], ...]:
    """Tell when a run reached each step of its way."""
    steps = (
        ("due", run.not_before),
        ("queued", run.fired_at),
        ("claimed", run.claimed_at),
        ("started", run.started_at),
        ("finished", run.finished_at),
    )
    return tuple((name, moment_text(at)) for name, at in steps if at is not None)


def reason_words(reason: str) -> str:
    """Say a reason code in words."""
    return _REASONS.get(reason, reason)


_REASONS: dict[str, str] = {
    Reason.ERROR: "its code raised an error",
    Reason.NOT_RETRYABLE: "its error is not one to be tried again",
    Reason.BUDGET: "no attempts are left",
    Reason.TIMEOUT: "an attempt took longer than it may",
    Reason.RUN_TIMEOUT: "the run as a whole took longer than it may",
    Reason.STALLED: "it stopped advancing",
    Reason.LOST: "its worker was lost, and what its code did then, nobody knows",
    Reason.ASKED: "the task asked to be tried again",
    Reason.RETRY_AFTER: "the other side said when to try again",
    Reason.GAVE_UP: "the task gave up",
    Reason.SHUTDOWN: "its worker was stopped",
    Reason.NOT_STARTED: "its worker could not start it",
    Reason.BAD_ARGUMENTS: "its arguments do not fit the task",
    Reason.NO_SECRET: "a secret that it needs can't be had on its worker",
    Reason.UNKNOWN_TASK: "no worker has the code of its task",
    Reason.EXIT_STATUS: "its process ended with an exit status other than 0",
    Reason.KILLED: "its process was killed",
    Reason.HTTP_STATUS: "the other side answered with an error",
    Reason.REFUSED_ADDRESS: "its address is not allowed",
    Reason.NOT_ALLOWED: "its kind of task is not allowed on the worker",
    Reason.GONE: "the receiver wants no more of it",
    Reason.ORDERED: "somebody ordered it",
    Reason.EFFECT_UNKNOWN: "an effect of an earlier attempt may or may not have happened",
    Reason.EFFECT_DONE: "it came to an effect that was done before, and did not go on without it",
    Reason.SUSPENDED: "retries of its task are suspended",
    Reason.RECONCILED: "a person looked, and recorded what has become of it",
    Reason.RECONCILED_INCOMPLETE: "a person recorded it as done although items are missing",
    Reason.VERIFIED: "its task's own check found what it was to do",
}


SUCCEEDED = "It succeeded."
_BY_SOMEBODY = {
    RunState.CANCELLED: ExplanationCause.CANCELLED,
    RunState.DISCARDED: ExplanationCause.DISCARDED,
    RunState.SKIPPED: ExplanationCause.RECONCILED,
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
    if facts.run.state_reason in DECIDED:
        return _settled(facts)
    words = reason_words(facts.run.state_reason or "")
    return Explanation(
        cause=ExplanationCause.FAILED,
        sentence=f"It failed{words and f': {words}'}.",
        evidence=(*tried_lines(facts), *error_line(facts.run.error)),
    )


def succeeded(facts: RunFacts) -> Explanation:
    """Explain the longest part of the way, if any was long; else its tries, if it took several."""
    run = facts.run
    if run.state_reason in DECIDED or run.state_reason == Reason.VERIFIED:
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
        return Explanation(cause=ExplanationCause.ON_TIME, sentence=sentence, evidence=evidence)
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
        cause=ExplanationCause.RECONCILED,
        sentence=f"It counts as {facts.run.state}: {words}{by}.",
        evidence=(*tried_lines(facts), *way_lines(facts.run)),
    )


def over(facts: RunFacts) -> Explanation:
    """Explain a run that ended in any other way."""
    reason = f": {facts.run.state_reason}" if facts.run.state_reason else ""
    sentence = f"It is {facts.run.state}{reason}."
    return Explanation(
        cause=ExplanationCause.OVER, sentence=sentence, evidence=way_lines(facts.run)
    )


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
        return Explanation(cause=ExplanationCause.CAUGHT_UP, sentence=sentence)
    if run.schedule_id is None and run.created_at > run.not_before:
        sentence = f"It was ordered {late} after the moment that it was ordered for."
        return Explanation(cause=ExplanationCause.ORDERED_LATE, sentence=sentence)
    told = f"It was queued {late} after it fell due"
    if was_there(facts.dispatchers, run.not_before):
        sentence = f"{told}, although a dispatcher was alive."
        return Explanation(cause=ExplanationCause.DISPATCHER_BEHIND, sentence=sentence)
    gap = gap_at(facts.dispatchers, run.not_before, queued_at(run))
    if gap is None:
        sentence = f"{told}; who kept time then is not known any more."
        return Explanation(cause=ExplanationCause.UNKNOWN, sentence=sentence)
    sentence = f"{told}: no dispatcher was alive {gap}."
    return Explanation(cause=ExplanationCause.NO_DISPATCHER, sentence=sentence)


def _waited_in_queue(facts: RunFacts, waited_us: int) -> Explanation:
    since, waited = queued_at(facts.run), span_text(waited_us)
    claimed_at = since + waited_us
    for order, resumed_at in facts.was_paused:
        if order.at < claimed_at and resumed_at > since:
            return Explanation(
                cause=ExplanationCause.QUEUE_PAUSED,
                sentence=f"It waited {waited} in its queue, which was paused by {order_text(order)}"
                f" until {moment_text(resumed_at)}.",
            )
    gap = None
    if not was_there(facts.workers, since):
        gap = gap_at(facts.workers, since, claimed_at)
    if gap is not None:
        sentence = f"It waited {waited} in its queue: no worker was alive {gap}."
        return Explanation(cause=ExplanationCause.NO_WORKER, sentence=sentence)
    sentence = f"It waited {waited} in its queue until a worker had a slot for it."
    return Explanation(cause=ExplanationCause.WAITED_IN_QUEUE, sentence=sentence)


def _tried_often(facts: RunFacts, spent_us: int) -> Explanation:
    return Explanation(
        cause=ExplanationCause.TRIED_OFTEN,
        sentence=f"It took {len(facts.attempts)} claims and {span_text(spent_us)} until the one"
        " that finished it.",
        evidence=tried_lines(facts),
    )


def _took_long(_facts: RunFacts, spent_us: int) -> Explanation:
    sentence = f"It was not late; its last attempt took {span_text(spent_us)}."
    return Explanation(cause=ExplanationCause.TOOK_LONG, sentence=sentence)


def was_there(lives: Sequence[MemberPresence], at: int) -> bool:
    """Say whether one of those that are known was there at an instant."""
    return any(one.started_at <= at and (one.is_alive or at <= one.renewed_at) for one in lives)


def gap_at(lives: Sequence[MemberPresence], start: int, end: int) -> str | None:
    """Say from when until when nobody was there, if somebody came between `start` and `end`."""
    after = min((one.started_at for one in lives if start < one.started_at <= end), default=None)
    if after is None:
        return None
    before = max((one.renewed_at for one in lives if one.renewed_at < start), default=None)
    since = "" if before is None else f"from {moment_text(before)} "
    return f"{since}until {moment_text(after)}"


def blocked(facts: RunFacts) -> Explanation:
    """Explain a run that stands in a line."""
    found = limited(facts)
    if found is not None:
        return found
    sentence = "It waits until an earlier run is over: they may not overlap."
    return Explanation(
        cause=ExplanationCause.OVERLAP,
        sentence=sentence,
        evidence=tried_lines(facts),
        remedy="see what its schedule's policy is: duly schedule show",
    )


def limited(facts: RunFacts) -> Explanation | None:
    """Explain a run that waits because of a limit or a breaker; None if it is not for that."""
    waits = why_of(facts.run.state_reason)
    if waits is None:
        return None
    why, which = waits
    match why:
        case LimitReason.CAP:
            return _capped(facts, place_text(which))
        case LimitReason.RATE:
            return _rated(facts, place_text(which))
        case LimitReason.BREAKER:
            return _broken(facts, which)


def _capped(facts: RunFacts, which: str) -> Explanation:
    taken = facts.taken
    held = ""
    if taken is not None and taken.most is not None:
        held = f": {taken.held:,} of {taken.most:,} places are taken"
    line = () if taken is None else (("in line", f"{taken.waiting:,} wait, itself among them"),)
    return Explanation(
        cause=ExplanationCause.CAP,
        sentence=f"It waits for a place under the limit of {which}{held}.",
        evidence=(*line, *tried_lines(facts)),
        remedy=f"wait, or raise it: duly limit set {_command_word(which)} --running …",
    )


def _rated(facts: RunFacts, which: str) -> Explanation:
    rate = facts.taken.rate if facts.taken is not None else None
    limit = which if rate is None else f"{which}, {rate}"
    return Explanation(
        cause=ExplanationCause.RATE,
        sentence=f"Its turn under the rate limit of {limit} is {_next(facts)}.",
        evidence=tried_lines(facts),
        remedy=f"wait, or raise it: duly limit set {_command_word(which)} --rate …",
    )


def _broken(facts: RunFacts, which: str) -> Explanation:
    breaker = facts.breaker
    state = "" if breaker is None else f", whose breaker is {breaker.state}"
    if breaker is not None and breaker.until is not None:
        state += f" until {moment_text(breaker.until)}"
    return Explanation(
        cause=ExplanationCause.BREAKER,
        sentence=f"It waits for {which}{state}; it is tried again {_next(facts)}.",
        evidence=tried_lines(facts),
        remedy=f"wait, or if {which} is up: duly breaker reset {quote(which)}",
    )


def _next(facts: RunFacts) -> str:
    at = facts.run.next_at
    if at is None or at <= facts.now:
        return "at once"
    return f"at {moment_text(at)}, in {span_text(at - facts.now)}"


def _command_word(which: str) -> str:
    """Return the limit's name without the value that it is counted by."""
    return quote(which.partition(" ")[0])


def unfired(facts: RunFacts, due_at: int, what: str) -> Explanation:
    """Explain a timer that is pending: not due, or nobody fires it."""
    due = ("due", moment_text(due_at))
    if due_at > facts.now:
        wait = span_text(due_at - facts.now)
        return Explanation(
            cause=ExplanationCause.NOT_DUE,
            sentence=f"{what} is not due before {moment_text(due_at)}, in {wait}.",
            evidence=(due,),
        )
    late = span_text(facts.now - due_at)
    living = [one for one in facts.dispatchers if one.is_alive]
    if not living:
        return Explanation(
            cause=ExplanationCause.NO_DISPATCHER,
            sentence=f"{what} was due {late} ago, and no dispatcher is alive to fire it.",
            evidence=(due, *last_seen_line("dispatcher", facts.dispatchers)),
            remedy="start duly dispatcher",
        )
    if all(one.is_holding for one in living):
        return Explanation(
            cause=ExplanationCause.DISPATCHER_HOLDING,
            sentence=f"{what} was due {late} ago, and every dispatcher is holding.",
            evidence=(due, *alive_lines("dispatcher", living)),
            remedy="see duly status for why they hold",
        )
    return Explanation(
        cause=ExplanationCause.DISPATCHER_BEHIND,
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
            cause=ExplanationCause.NO_WORKER,
            sentence=f"{queued}, and no worker is alive to run it.",
            evidence=(*evidence, *last_seen_line("worker", facts.workers)),
            remedy="start duly worker",
        )
    serving = [one for one in living if not one.queues or run.call.queue in one.queues]
    resting = {one.id: one.standing for one in serving if one.standing is not None}
    serving = [one for one in serving if one.standing is None]
    if resting and not serving:
        why, remedy = out_of_service(run.call.queue, resting)
        return Explanation(
            cause=ExplanationCause.NO_WORKER_FOR_QUEUE,
            sentence=f"{queued}, and no worker claims from the queue {run.call.queue}: {why}.",
            evidence=(*evidence, *serving_lines(living)),
            remedy=remedy,
        )
    if not serving:
        return Explanation(
            cause=ExplanationCause.NO_WORKER_FOR_QUEUE,
            sentence=f"{queued}, and no living worker serves the queue {run.call.queue}.",
            evidence=(*evidence, *serving_lines(living)),
            remedy=f"start duly worker --queue {quote(run.call.queue)}",
        )
    if not facts.is_served:
        return Explanation(
            cause=ExplanationCause.NO_WORKER_FOR_TASK,
            sentence=f"{queued}, and no living worker has the code of the task {run.call.task}.",
            evidence=(*evidence, *serving_lines(living)),
            remedy="start duly worker with the application that has it: duly worker --app …",
        )
    return _waiting_for_a_slot(facts, serving, (queued, evidence))


def _waiting_for_a_slot(
    facts: RunFacts, serving: Sequence[MemberPresence], told: tuple[str, list[tuple[str, str]]]
) -> Explanation:
    queued, evidence = told
    slots, free = sum(one.slots for one in serving), sum(one.free for one in serving)
    waiting = ("in its queue", f"{facts.queued:,} queued")
    if free <= 0:
        count = "The only slot is" if slots == 1 else f"All {slots:,} slots are"
        return Explanation(
            cause=ExplanationCause.SLOTS_BUSY,
            sentence=f"{queued}. {count} busy.",
            evidence=(*evidence, waiting, *serving_lines(serving)),
            remedy="start another duly worker, or give one more --slots",
        )
    return Explanation(
        cause=ExplanationCause.BEHIND_OTHERS,
        sentence=f"{queued}, and is about to be claimed: {free:,} of {slots:,} slots are free.",
        evidence=(*evidence, waiting, *serving_lines(serving)),
    )


def _queue_paused(
    facts: RunFacts, paused: RecordedOrder, evidence: Sequence[tuple[str, str]]
) -> Explanation:
    why = f": {paused.why}" if paused.why else ""
    queue = facts.run.call.queue
    return Explanation(
        cause=ExplanationCause.QUEUE_PAUSED,
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
    if claim is not None and claim.state is AttemptState.HEARTBEAT_STALE:
        return Explanation(
            cause=ExplanationCause.WORKER_SILENT,
            sentence=f"Its worker has been silent for {span_text(silent_us)}; when its lease has"
            " run out, a dispatcher takes the run from it.",
            evidence=evidence,
            remedy=None if has_living(facts.dispatchers) else "start duly dispatcher",
        )
    if run.cancel_asked_at is not None:
        by = "" if facts.ended_by is None else f" by {order_text(facts.ended_by)}"
        asked = span_text(facts.now - run.cancel_asked_at)
        return Explanation(
            cause=ExplanationCause.CANCEL_ASKED,
            sentence=f"It was asked to stop {asked} ago{by}, and its code has not ended yet.",
            evidence=evidence,
        )
    if claim is not None and claim.state is AttemptState.STALLED:
        since = facts.now - (claim.progress_at or claim.started_at or claim.claimed_at)
        return Explanation(
            cause=ExplanationCause.STALLED,
            sentence=f"Its worker is alive, but it has not advanced for {span_text(since)}.",
            evidence=evidence,
            remedy="look at duly run logs, or stop it: duly run cancel",
        )
    if run.started_at is None:
        held = facts.now - (run.claimed_at or facts.now)
        sentence = f"A worker has claimed it {span_text(held)} ago, and has not told of its start."
        return Explanation(cause=ExplanationCause.CLAIMED, sentence=sentence, evidence=evidence)
    sentence = f"It has been running for {span_text(facts.now - run.started_at)}."
    return Explanation(cause=ExplanationCause.RUNNING, sentence=sentence, evidence=evidence)


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
        return Explanation(cause=ExplanationCause.SNOOZED, sentence=sentence, evidence=evidence)
    after = f" after attempt {last.number}" if last is not None and last.number else ""
    return Explanation(
        cause=ExplanationCause.BACKING_OFF,
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
        cause=ExplanationCause.DEAD,
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
        cause=ExplanationCause.AMBIGUOUS,
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


def explain(facts: RunFacts) -> Explanation:
    """Say why a run is late, stuck, waiting or dead; or that it is on time. Total."""
    if facts.is_pending:
        return unfired(facts, facts.run.not_before, "It")
    return _BY_STATE.get(facts.run.state, over)(facts)


_BY_STATE: dict[RunState, Callable[[RunFacts], Explanation]] = {
    RunState.BLOCKED: blocked,
    RunState.QUEUED: queued,
    RunState.RUNNING: running,
    RunState.RETRYING: retrying,
    RunState.DEAD: dead,
    RunState.AMBIGUOUS: ambiguous,
    RunState.CANCELLED: ended_by_somebody,
    RunState.DISCARDED: ended_by_somebody,
    RunState.SKIPPED: ended_by_somebody,
    RunState.FAILED: failed,
    RunState.SUCCEEDED: succeeded,
}
