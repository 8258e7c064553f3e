"""The words of explanations: times, distances, reasons, and lines of evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.domain.attempts import Reason
from duly.domain.durations import UNITS_US
from duly.domain.instants import from_microseconds, iso_utc

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.domain.attempts import AttemptRecord
    from duly.domain.explaining.facts import Life, Order, RunFacts
    from duly.domain.runs import RunRecord

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


def has_living(lives: Sequence[Life]) -> bool:
    """Say whether any is alive."""
    return any(one.is_alive for one in lives)


def order_text(order: Order) -> str:
    """Say who ordered something, and why."""
    return f"{order.who} ({order.why})" if order.why else order.who


def ended_text(attempt: AttemptRecord) -> str:
    """Say since when an attempt is over."""
    return "" if attempt.ended_at is None else f" since {moment_text(attempt.ended_at)}"


def last_seen_line(kind: str, lives: Sequence[Life]) -> tuple[tuple[str, str], ...]:
    """Tell of the one that was heard of last."""
    if not lives:
        return ((f"{kind}s", "none is alive"),)
    last = max(lives, key=lambda one: one.renewed_at)
    return ((f"last {kind}", f"{last.name}, heard of last at {moment_text(last.renewed_at)}"),)


def alive_lines(kind: str, lives: Sequence[Life]) -> tuple[tuple[str, str], ...]:
    """Tell of those that are alive."""
    return tuple((kind, f"{one.name}{', holding' if one.is_holding else ''}") for one in lives)


def serving_lines(lives: Sequence[Life]) -> tuple[tuple[str, str], ...]:
    """Tell what living workers serve, and how busy they are."""
    return tuple(("worker", _busy_text(one)) for one in lives)


def _busy_text(life: Life) -> str:
    served = ", ".join(life.queues) or "every queue"
    return f"{life.name}, {life.slots - life.free} of {life.slots} slots busy, {served}"


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
    Reason.VERIFIED: "its task's own check found what it was to do",
}
