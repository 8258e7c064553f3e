"""What attempts, checks and people do about effects to both stores of the model."""

from __future__ import annotations

from contextlib import suppress
from operator import methodcaller
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from duly.domain.effects import Choice
from duly.domain.enums import Effects, Finding
from duly.domain.ids import ordered_run_id
from duly.domain.outcomes import (
    AttemptFacts,
    CancelledEnd,
    Failed,
    ReturnedToQueue,
    Snoozed,
    Succeeded,
    conclude,
)
from duly.domain.policies import Retry
from duly.domain.runs import Reason, TaskPolicy
from duly.domain.schedules import TENANT_DEFAULT
from duly.domain.verification import ItemReport, check_of
from duly.errors import LeaseLost
from duly.store.ports.effects import (
    AddVerdict,
    BeginEffect,
    EndEffect,
    OrderTask,
    Rerun,
    ResolveAmbiguousRun,
)
from duly.store.ports.execution import ClaimRef, FinishAttempt, Report
from duly.store.ports.queries import PAGE_MAX
from duly_conformance.kit import ADA, SECOND_US, run_id

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.domain.ids import RunId
    from duly.engine.manual_clock import ManualClock
    from duly.store.memory import MemoryStore
    from duly.store.ports import Store
    from duly.store.ports.dispatch import MemberId
    from duly.store.ports.execution import ClaimedRun

UNSAFE = TaskPolicy(effects=Effects.UNSAFE, retry=Retry(9, base="1s"))
places = st.integers(0, 999)
keys = st.sampled_from(["m", "n"])
items = st.lists(st.sampled_from("xyz"), max_size=3)
ENDS = (
    Succeeded("1"),
    Failed("oh", after_us=2 * SECOND_US),
    Failed("certainly not", after_us=SECOND_US, is_undone=True),
    Failed("who knows", Reason.EFFECT_UNKNOWN),
    Snoozed(SECOND_US),
    CancelledEnd(),
    ReturnedToQueue(Reason.SHUTDOWN, is_started=True),
)


class EffectRules:
    """Rules about effects; the machine that they belong to has the stores, clock and claims."""

    clock: ManualClock
    memory: MemoryStore
    stores: tuple[Store, ...]
    claims: list[tuple[MemberId, ClaimedRun]]
    both: Callable[[Callable[[Store], Any]], Any]
    claim_all: Callable[[], None]
    _claim: Callable[[int], tuple[MemberId, ClaimedRun]]

    @precondition(lambda self: self.claims)
    @rule(
        place=places,
        key=st.none() | keys,
        effects=st.sampled_from([Effects.UNSAFE, Effects.UNSAFE, Effects.IDEMPOTENT]),
        is_stale=st.integers(0, 5),
    )
    def begin_effect(self, place: int, key: str | None, effects: Effects, is_stale: int) -> None:
        """Ask for permission, twice, about a claim that may be over."""
        member, claimed = self._held(place)
        hold = ClaimRef(claimed.run_id, claimed.fence + (is_stale == 0))
        order = BeginEffect(worker=member, hold=hold, effects=effects, key=key)
        for _ in range(2):
            self.both(methodcaller("begin_effect", order))

    @precondition(lambda self: self.claims)
    @rule(place=places, key=keys, is_done=st.booleans())
    def end_effect(self, place: int, key: str, is_done: bool) -> None:
        """Say what has become of an effect."""
        member, claimed = self._held(place)
        order = EndEffect(
            worker=member, hold=claimed.hold, key=key, is_done=is_done, result=str(place)
        )
        self.both(methodcaller("end_effect", order))

    @precondition(lambda self: self.claims)
    @rule(place=places, expected=st.none() | st.integers(0, 3), names=items, done=items)
    def say_scope(
        self, place: int, expected: int | None, names: list[str], done: list[str]
    ) -> None:
        """Say something about the scope."""
        member, claimed = self._held(place)
        scope = ItemReport(expected=expected, names=tuple(names), done=tuple(done))
        self.both(methodcaller("report", member, [Report(hold=claimed.hold, scope=scope)]))

    @precondition(lambda self: self.claims)
    @rule(
        place=places,
        how=st.sampled_from(ENDS),
        is_followed=st.booleans(),
        is_within=st.booleans(),
        done=items,
    )
    def end_unsafe(
        self, place: int, how: Any, is_followed: bool, is_within: bool, done: list[str]
    ) -> None:
        """End an attempt of an unsafe task, as its worker would, by itself or with other things."""
        member, claimed = self._held(place)
        known = self.memory.tables.claims.get(claimed.run_id)
        attempted = AttemptFacts(
            run_id=claimed.run_id,
            policy=UNSAFE,
            tries=claimed.tries,
            now=self.clock.now_us(),
            has_begun_effects=known is not None and known.effects_at is not None,
        )
        finish = FinishAttempt(
            hold=claimed.hold,
            started_at=self.clock.now_us(),
            conclusion=conclude(how, attempted),
            scope=ItemReport(done=tuple(done)) if done else None,
            follow_up=check_of(claimed.record, claimed.fence) if is_followed else None,
        )
        if not is_within:
            self.both(methodcaller("finish_runs", member, [finish]))
            return

        def end(store: Store) -> None:
            with store.transaction(SECOND_US) as lent, suppress(LeaseLost):
                store.finish_within(lent, member, finish)

        self.both(end)

    @rule(place=places, key=st.none() | keys, is_followed=st.booleans())
    def leave_in_doubt(self, place: int, key: str | None, is_followed: bool) -> None:
        """Claim what there is, begin an effect, and say nothing more of it."""
        self.claim_all()
        if self.claims:
            place |= 1
            self.begin_effect(place, key, Effects.UNSAFE, 1)
            self.end_unsafe(place, Failed("oh"), is_followed, is_within=False, done=[])

    @rule(
        place=places,
        choice=st.sampled_from(Choice),
        is_done=st.booleans(),
        known=st.dictionaries(keys, st.booleans()),
        tenant=st.sampled_from([TENANT_DEFAULT, TENANT_DEFAULT, "theirs"]),
    )
    def settle_doubt(
        self, place: int, choice: Choice, is_done: bool, known: dict[str, bool], tenant: str
    ) -> None:
        """Settle a run that is in doubt, if there is one, or another."""
        order = ResolveAmbiguousRun(
            tenant=tenant,
            id=self._doubtful(place),
            choice=choice,
            actor=ADA,
            is_done=is_done,
            effects=known,
        )
        self.both(methodcaller("settle_doubt", order))

    @rule(place=places, text=st.sampled_from("abcdef"), is_repair=st.booleans())
    def rerun(self, place: int, text: str, is_repair: bool) -> None:
        """Run something once more."""
        new_id = ordered_run_id("rerun", self.clock.now_us(), text.encode().ljust(10, b"."))
        order = Rerun(
            tenant=TENANT_DEFAULT,
            id=self._doubtful(place),
            new_id=new_id,
            actor=ADA,
            is_repair=is_repair,
        )
        self.both(methodcaller("rerun_run", order))

    @rule(
        task=st.sampled_from(["remind", "report"]),
        is_suspended=st.sampled_from([None, False, True]),
        is_blocked=st.sampled_from([None, False, False, True]),
    )
    def order_task(self, task: str, is_suspended: bool | None, is_blocked: bool | None) -> None:
        """Suspend retries of a task, or block its reruns, or allow them again."""
        order = OrderTask(task=task, actor=ADA, is_suspended=is_suspended, is_blocked=is_blocked)
        self.both(methodcaller("order_task", order))

    @rule(place=places, finding=st.sampled_from(Finding))
    def add_verdict(self, place: int, finding: Finding) -> None:
        """Record what was found about a run."""
        doubtful = self._doubtful(place)
        left_by = self.memory.tables.in_doubt.get(doubtful)
        found = AddVerdict(
            run_id=doubtful,
            finding=finding,
            evidence="[1]",
            by=str(place),
            doubt=None if left_by is None else left_by.tries.fence - (place % 5 == 0),
        )
        self.both(methodcaller("add_verdict", found))

    @invariant()
    def what_is_known_of_effects_is_equal(self) -> None:
        """Doubts, orders, and of every run the ledger, the scope and the verdicts."""
        if not hasattr(self, "workers"):
            return
        model, actual = (self._known(store) for store in self.stores)

        assert model == actual

    def _known(self, store: Store) -> list[Any]:
        found: list[Any] = [dict(store.task_orders()), store.list_doubts(None, PAGE_MAX)]
        found.append(store.list_doubts(TENANT_DEFAULT, 1))
        for known in sorted(self.memory.tables.runs):
            found += [
                store.list_effects(known, PAGE_MAX),
                store.get_scope(known),
                list(store.list_verdicts(known)),
            ]
        return found

    def _held(self, place: int) -> tuple[MemberId, ClaimedRun]:
        """Return a claim: most often one that is held still."""
        held = [
            (member, claimed)
            for member, claimed in self.claims
            if (row := self.memory.tables.claims.get(claimed.run_id)) is not None
            and row.tries.fence == claimed.fence
        ]
        return held[place % len(held)] if held and place % 4 else self._claim(place)

    def _doubtful(self, place: int) -> RunId:
        """Return a run: most often one that is in doubt, if there is any."""
        tables = self.memory.tables
        known = sorted(tables.in_doubt)
        if not known or place % 3 == 0:
            known = sorted({*tables.runs, run_id("nobody")})
        return known[place % len(known)]
