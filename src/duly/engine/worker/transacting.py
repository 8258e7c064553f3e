"""Transacting: a task's own writes and its run's success in one commit (E4).

The end of the run is the last word of the transaction, under the claim's fence. Whatever is raised
before it, or refuses it, undoes all of it; then the attempt ends as any other that raised. Should
the answer to the commit be lost, the store knows how it ended, and takes no other end.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from duly.domain.checking import check_of
from duly.domain.concluding import Succeeded, success
from duly.domain.destinations import is_answered
from duly.domain.literals import Effects
from duly.domain.live import Transacting
from duly.errors import Cancelled, LeaseLost, UsageError
from duly.store.execution import Finish

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duly.engine.worker.held import Held


@contextmanager
def transact(held: Held, limit_us: int) -> Iterator[Transacting]:
    """Lend a transaction; when its block ends well the run succeeds with it, or nothing does."""
    _require_possible(held)
    finish: Finish | None = None
    held.is_transacting = True
    try:
        with held.store.transaction(limit_us) as transaction:
            lent = Transacting(transaction)
            yield lent
            end = _end_of(held, lent)
            finish = _finish_of(held, end)
            held.store.finish_within(transaction, held.worker, finish)
        held.committed = end
    except BaseException as error:
        if finish is not None:
            held.put_back(finish.progress, finish.lines, finish.scope)
        if isinstance(error, LeaseLost):
            held.stop(is_fenced=True)
        raise
    finally:
        held.is_transacting = False


def _end_of(held: Held, lent: Transacting) -> Succeeded:
    end = held.storable_end(Succeeded(lent.result))
    assert isinstance(end, Succeeded), "leaving out secrets makes nothing else of it"
    return end


def _finish_of(held: Held, end: Succeeded) -> Finish:
    claimed = held.claimed
    return Finish(
        claimed.hold,
        held.started_at,
        success(end.result),
        held.take_progress(),
        held.take_lines(),
        held.lines_before,
        is_answered(end) if held.is_calling else None,
        scope=held.take_scope(),
        follow_up=check_of(claimed.record, claimed.fence) if held.is_checked else None,
    )


def _require_possible(held: Held) -> None:
    name, effects = held.runnable.name, held.effects
    if effects is not Effects.TRANSACTIONAL:
        remedy = 'declare its task with effects="transactional"'
        raise UsageError("transaction", name, f"is a task that is {effects}", remedy)
    if held.committed is not None:
        remedy = "write all of it in one transaction: its commit ends the run"
        raise UsageError("transaction", name, "has ended its run with another one", remedy)
    if held.is_transacting:
        remedy = "use the one that is open, or leave it first"
        raise UsageError("transaction", name, "has one open already", remedy)
    if held.is_cancelled:
        raise Cancelled(held.run_id)
