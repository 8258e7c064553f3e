"""Orders about runs: cancel, retry, discard and edit them, singly or a selection of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import UUID

from duly.client.run_view import Run
from duly.client.spans import rerun_spans, told_order
from duly.client.tasks import named_call
from duly.errors import Conflict, NotFound, UsageError
from duly.store.operating import ORDERED_RUNS_MAX, CancelRun, EditRun, Ordered, OrderRuns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from duly.client.caller import Caller
    from duly.domain.identity import RunId
    from duly.domain.runs import RunRecord
    from duly.store.effects import Rerun

    Carry = Callable[[OrderRuns], list[Ordered]]

RunReference: TypeAlias = UUID | str | Run
"""A run's id, its label, or a run as it was looked at."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The runs that a filter found, frozen: what an order about them touches, and nothing else."""

    runs: tuple[Run, ...]
    """Newest first."""

    @property
    def ids(self) -> tuple[UUID, ...]:
        """Their ids."""
        return tuple(run.id for run in self.runs)

    def __len__(self) -> int:
        return len(self.runs)

    def __iter__(self) -> Iterator[Run]:
        return iter(self.runs)

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {"count": len(self.runs), "runs": [run.to_json() for run in self.runs]}


RunsMeant: TypeAlias = RunReference | Selection | Iterable[RunReference]
"""One run, several, or what a filter found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderedRun:
    """What an order has done to one run."""

    id: UUID
    is_done: bool
    state: str | None
    """What the run was before; None when there is no such run."""
    why: str | None = None
    """Why it was left alone, where there is more to say than its state."""
    made: UUID | None = None
    """The run that was made of it."""

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "id": str(self.id),
            "is_done": self.is_done,
            "state": self.state,
            "why": self.why,
            "made": None if self.made is None else str(self.made),
        }


def cancel_run(caller: Caller, run_id: RunId, reason: str | None) -> RunRecord:
    """Stop a run: at once where nobody runs it, by asking where somebody does."""
    command = CancelRun(tenant=caller.tenant, id=run_id, actor=caller.ordering(reason))
    return caller.store.cancel_run(command)


def cancel_each(caller: Caller, ids: Sequence[RunId], reason: str | None) -> list[OrderedRun]:
    """Stop runs one by one, and tell of those that can't be stopped."""
    done: list[OrderedRun] = []
    for run_id in ids:
        before = caller.store.get_run(run_id)
        is_ours = before is not None and before.tenant == caller.tenant
        try:
            cancel_run(caller, run_id, reason)
            is_done = True
        except (Conflict, NotFound):
            is_done = False
        state = str(before.state) if before is not None and is_ours else None
        done.append(OrderedRun(id=UUID(bytes=run_id), is_done=is_done, state=state))
    return done


def rerun_told(caller: Caller, command: Rerun) -> RunRecord:
    """Run a run once more, and tell of it in its trace and in the caller's."""
    return told_order(
        caller.tracing,
        lambda: caller.store.rerun_run(command),
        lambda made: rerun_spans(made, command.id),
    )


def edit_run(
    caller: Caller, record: RunRecord, arguments: Mapping[str, Any], reason: str | None
) -> RunRecord:
    """Give a dead run other arguments, checked by its task if this program knows it."""
    known = [record.call.task]
    call = named_call(caller.tasks, record.call.task, arguments, known)
    command = EditRun(
        tenant=caller.tenant,
        id=record.id,
        arguments=call.payload,
        actor=caller.ordering(reason),
    )
    return caller.store.edit_run(command)


def order_runs(
    caller: Caller, ids: Sequence[RunId], reason: str | None, carry: Carry
) -> list[OrderedRun]:
    """Carry out an order about runs, a bounded number in each transaction."""
    actor = caller.ordering(reason)
    done: list[OrderedRun] = []
    for first in range(0, len(ids), ORDERED_RUNS_MAX):
        part = tuple(ids[first : first + ORDERED_RUNS_MAX])
        answers = carry(OrderRuns(tenant=caller.tenant, ids=part, actor=actor))
        done += [_view(one) for one in answers]
    return done


def read_meant(caller: Caller, runs: object) -> list[RunReference]:
    """Read which runs are meant; each once, in the order given."""
    if isinstance(runs, UUID | str | Run):
        return [runs]
    if not isinstance(runs, Iterable):
        remedy = "give an id, a label, a list of them, or app.runs.select(…)"
        raise UsageError("runs", runs, "names no run", remedy)
    most = caller.settings.runs_per_order_max
    found = list(islice(runs, most + 1))
    if len(found) > most:
        problem = "are more runs than one order takes"
        raise UsageError("runs", f"{most:,} and more", problem, f"split them: {most:,} at a time")
    return found


def _view(ordered: Ordered) -> OrderedRun:
    return OrderedRun(
        id=UUID(bytes=ordered.id),
        is_done=ordered.is_done,
        state=None if ordered.state is None else str(ordered.state),
    )
