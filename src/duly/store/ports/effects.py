"""The effects port: permission before an irreversible effect, and decisions about ambiguous runs.

A permission is a durable write under the claim's fence, and is given before the effect begins. If
the attempt of an unsafe task then ends without a report, its run is ambiguous. Only an operator or
the task's own check takes a run out of that state. Its overlap gate stays held meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from duly.domain.effects import EffectReport
from duly.domain.enums import Effects, Origin

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from duly.domain.audit import Actor
    from duly.domain.effects import Choice, EffectRecord, Grant
    from duly.domain.enums import Finding
    from duly.domain.ids import RunId
    from duly.domain.runs import RunRecord
    from duly.domain.verification import Scope
    from duly.store.ports.dispatch import MemberId
    from duly.store.ports.execution import ClaimRef, FinishAttempt


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginEffect:
    """Ask for permission to do something that can't be taken back."""

    worker: MemberId
    hold: ClaimRef
    effects: Effects
    """What the task declares: whether an effect that may have happened may be repeated."""
    key: str | None = None
    """Of one effect; None for all of the attempt's, of which the ledger then knows nothing more."""

    @property
    def is_unsafe(self) -> bool | None:
        """Whether what is begun may not be repeated; None, which takes up no space, if it may."""
        return True if self.effects is Effects.UNSAFE else None


@dataclass(frozen=True, slots=True)
class EffectGrant:
    """The answer, and what the ledger knows of the effect."""

    now: int
    grant: Grant
    record: EffectRecord | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EndEffect:
    """Say that an effect is done, with what it gave; or that it certainly did not happen."""

    worker: MemberId
    hold: ClaimRef
    key: str
    is_done: bool = True
    result: str | None = None
    """As JSON text."""

    def word(self, now: int) -> EffectReport:
        """Return what is said, and when."""
        return EffectReport(self.hold, self.is_done, self.result, now)


class AmbiguousRun(NamedTuple):
    """A run that is in doubt, and since when."""

    run: RunRecord
    since: int
    reason: str
    """How its attempt ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolveAmbiguousRun:
    """A person's choice about a run that is in doubt."""

    tenant: str
    id: RunId
    choice: Choice
    actor: Actor
    """Who, and the reason that was given."""
    doubt: int | None = None
    """The fence of the claim that left it in doubt, as it was looked into: of no later one."""
    is_done: bool = False
    """When reconciling: whether what it was to do is done."""
    is_despite_missing: bool = False
    """When reconciling as done: whether it is, although items are not on record as done."""
    effects: Mapping[str, bool] = field(default_factory=dict)
    """By key: whether an unknown effect is done. `settled_by` decides about those that are not
    named."""
    evidence: str | None = None
    advised: str | None = None
    """What was advised, for the record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rerun:
    """Run once more what a run was to do, as another run."""

    tenant: str
    id: RunId
    new_id: RunId
    actor: Actor
    is_repair: bool = False
    """Whether it shares the first run's ledger: what is done is not done again."""
    fence: int | None = None
    """Only if the run had no further attempt since somebody looked: its fence then."""
    alone_since: int | None = None
    """Only if nobody has run it, or what it repeats, once more since this instant."""
    effects: Mapping[str, bool] = field(default_factory=dict)
    """Of a repair, by key: whether an unknown effect is done. Those that are not named stay
    unknown."""

    @property
    def origin(self) -> Origin:
        """Where the new run comes from."""
        return Origin.REPAIR if self.is_repair else Origin.RERUN


class TaskOrder(NamedTuple):
    """What people have ordered about a task."""

    is_suspended: bool = False
    """Whether what fails is not tried again by itself."""
    is_blocked: bool = False
    """Whether nobody may run it once more."""


FREE_TASK = TaskOrder()


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderTask:
    """Suspend automatic retries of a task, or block its reruns, or allow them again."""

    task: str
    actor: Actor
    is_suspended: bool | None = None
    """None to leave it as it is, here and below."""
    is_blocked: bool | None = None

    def applied(self, before: TaskOrder) -> TaskOrder:
        """Return what is in force after the order."""
        return TaskOrder(
            before.is_suspended if self.is_suspended is None else self.is_suspended,
            before.is_blocked if self.is_blocked is None else self.is_blocked,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictRecord:
    """What a check found, or a person recorded, about the result of a run."""

    run_id: RunId
    number: int
    at: int
    finding: Finding
    evidence: str | None
    """As JSON text."""
    by: str
    """The run that checked, or the person."""
    doubt: int | None = None
    """The fence of the claim that had left it in doubt when the check began to look, if it was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AddVerdict:
    """Record what was found about a run."""

    run_id: RunId
    finding: Finding
    evidence: str | None
    by: str
    doubt: int | None = None
    """The fence of the claim that had left it in doubt when the check began to look, if it was."""


class EffectsStore(Protocol):
    """What attempts ask before an effect, and what people decide about the doubt it leaves."""

    def begin_effect(self, command: BeginEffect) -> EffectGrant:
        """Permit an effect, durably, before it returns.

        By `may_begin` about the claim and, with a key, by `may_repeat` about the ledger of the
        run's line. GRANTED notes on the claim that effects have begun and of which class they are,
        the first time, and writes the effect down as intended by this claim. Asking again after a
        lost answer gives the same answer. Any other grant changes nothing.
        """
        ...

    def end_effect(self, command: EndEffect) -> bool:
        """Write an effect down as done with its result, or take its intention back.

        Only by the claim that intends it; False when the claim is no longer ours, or intends no
        such effect: nothing changes. Saying the same again is accepted.
        """
        ...

    def finish_within(self, within: object, worker: MemberId, finish: FinishAttempt) -> None:
        """End an attempt inside a transaction that the store has lent: all or nothing.

        The last word before the commit: whatever else is asked of the transaction is a UsageError.
        LeaseLost when the claim is not ours at that fence, here or at the commit, and also when
        this very claim has ended before: then what the caller wrote is undone, even if he keeps the
        refusal to himself, because somebody else may have written it. What waits at a gate is let
        through afterwards, by `open_gates`: no lock of a gate is held while the caller's commit
        lasts.
        """
        ...

    def list_effects(self, run_id: RunId, limit: int) -> list[EffectRecord]:
        """Return the ledger of a run's line, in the order in which effects were first begun.

        An intention whose attempt is over is shown as unknown. If there are more than the limit,
        those that are done are left out first: none of the others is overlooked.
        """
        ...

    def list_doubts(self, tenant: str | None, limit: int) -> list[AmbiguousRun]:
        """Return runs that are in doubt, oldest first; of all tenants when none is named."""
        ...

    def settle_doubt(self, command: ResolveAmbiguousRun) -> RunRecord:
        """Carry out what a person decided about a run that is in doubt.

        RETRY and RESUME queue it with a fresh budget, RETRY without its checkpoints. RECONCILE
        closes it as succeeded or failed (reason `reconciled`), SKIP as skipped; both give back its
        gate. Unknown effects are settled as `settled_by` says. REPAIR is a `rerun`, and refused
        here. NotFound; Conflict when it is not in doubt, or in another doubt than the command
        names. Conflict when it is to be closed as done and expected items are not on record as
        done, unless the command says so: then its reason is `reconciled-incomplete`.
        Audited as `run.settled`, with the choice, the advice, settled effects and evidence.
        """
        ...

    def rerun_run(self, command: Rerun) -> RunRecord:
        """Queue another run with a closed or dead run's call, now; return it.

        Origin `rerun`, or `repair` when it shares the ledger. It names the run that it repeats.
        A run that is in doubt is closed by its repair as `reconciled`, failed; effects that the
        command names are settled. NotFound; Conflict while the run is still to end, when reruns of
        its task are blocked, and when it is no longer as the order says that it was seen: at
        another fence, or repeated since. Of two that say so about runs of one line, one is carried
        out. Conflict for a repair while another run that shares the ledger is open. The same new id
        again returns the run that is there. Audited as `run.rerun`.
        """
        ...

    def order_task(self, command: OrderTask) -> TaskOrder:
        """Suspend automatic retries of a task, or block its reruns, or allow them again.

        What fails while its retries are suspended is a dead letter at once (reason `suspended`).
        Audited as `task.ordered` with before and after; nothing happens when nothing changes.
        """
        ...

    def task_orders(self) -> Mapping[str, TaskOrder]:
        """Return the orders that are in force, by task."""
        ...

    def add_verdict(self, command: AddVerdict) -> VerdictRecord:
        """Record what was found about a run.

        Of a run that is in the doubt which the check looked into, PRESENT closes it as succeeded
        (reason `verified`) with its unknown effects as done, and ABSENT queues it again with its
        unknown effects as not done; others leave it where it is. Audited as `run.verdict`.
        """
        ...

    def get_scope(self, run_id: RunId) -> Scope:
        """Return what is known of a run's scope, shared as its ledger is."""
        ...

    def list_done(self, run_id: RunId, items: Sequence[str]) -> frozenset[str]:
        """Return those of some items that the run's line has on record as done."""
        ...

    def list_verdicts(self, run_id: RunId) -> Sequence[VerdictRecord]:
        """Return what was found about a run, oldest first."""
        ...
