"""`duly run retry`, `duly run discard`: orders about dead runs, one by one or by filter (A1)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from duly.cli.references import find_run
from duly.cli.run.carrying import CARE, WHICH, CareOptions, Carrying, Order, RunNames
from duly.cli.run.doubts import DOUBT, DoubtOptions, retry_doubtful, stop_text, tell
from duly.cli.target import Target, opened
from duly.domain.literals import RunState

TARGET = Target()
RETRY = Order(
    verb="Retry",
    done="Queued again",
    states=("dead", "retrying"),
    usual=("dead",),
    option="--dead",
    is_asked=False,
    no_undo="duly run cancel, for each of them",
    is_stopped=True,
)
DISCARD = Order(
    verb="Discard",
    done="Discarded",
    states=("dead",),
    usual=("dead",),
    option="--dead",
    is_asked=True,
    no_undo="none; the record stays",
)


def retry(  # noqa: PLR0913 - each choice is an option
    *runs: RunNames,
    retrying: bool = False,
    care: CareOptions = CARE,
    doubt: DoubtOptions = DOUBT,
    reason: str | None = None,
    target: Target = TARGET,
) -> int:
    """Queue dead runs again with a fresh budget, or try those that wait at once.

    Name the runs, or choose them: --dead --task charge --since -2h. A run in doubt is named alone
    (duly inbox).

    Parameters
    ----------
    retrying
        Choose runs that wait for another attempt.
    reason
        Why; it is recorded.
    """
    more = ("retrying",) if retrying else ()
    with opened(target, makes_store=False) as app:
        order = RETRY
        is_one = len(runs) == 1 and not (care.dead or more or care.which != WHICH)
        if is_one and (found := find_run(app, runs[0])).state == RunState.AMBIGUOUS:
            if not care.dry_run:
                again = retry_doubtful(app, found, reason, doubt)
                tell(again, "Queued again", target, stop_text(again))
                return 0
            order = replace(RETRY, states=(*RETRY.states, RunState.AMBIGUOUS))
        carry = Carrying(app=app, order=order, care=care, target=target)
        return carry.out(runs, more, partial(app.runs.retry, reason=reason))


def discard(*runs: RunNames, reason: str, care: CareOptions = CARE, target: Target = TARGET) -> int:
    """Give up dead runs for good: their record stays, but they can't be tried any more.

    Name the runs, or choose them: --dead --task charge --since -2h.

    Parameters
    ----------
    reason
        Why; it is recorded.
    """
    with opened(target, makes_store=False) as app:
        carry = Carrying(app=app, order=DISCARD, care=care, target=target)
        return carry.out(runs, (), partial(app.runs.discard, reason=reason))
