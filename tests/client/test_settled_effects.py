"""What a person has settled about effects is asked about once: reruns, repairs, retries, backfills."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest

import duly
from duly import Conflict, UsageError, every
from duly.domain.effects import EffectState, Grant
from duly.domain.enums import Effects, Finding, Origin
from duly.domain.ids import BackfillId, RunId, ScheduleId
from duly.domain.outcomes import Failed, Succeeded
from duly.domain.runs import TaskPolicy
from duly.domain.verification import ItemReport
from duly.store.ports.effects import AddVerdict, BeginEffect, EndEffect
from duly.store.ports.execution import Report
from duly_conformance import backfills, steps
from tests.each_row import each_row

if TYPE_CHECKING:
    from uuid import UUID

    from duly.domain.runs import RunRecord
    from duly.store.ports.execution import ClaimedRun

UNSAFE = TaskPolicy(effects=Effects.UNSAFE)
FATAL = Failed("no use", is_retryable=False, is_undone=True)


class Bank:
    """An application whose unsafe runs end in doubt, on a real store."""

    def __init__(self, kept: Any) -> None:
        self.store, self.clock = kept
        self.app = duly.App(store=self.store, clock=self.clock, actor="ada")
        self.app.task(name="settle", effects="unsafe")(lambda: None)
        self.store.register_policies({"settle": UNSAFE})
        self.worker = steps.join_worker(self.store, ttl_us=10**15, tasks=("settle",))

    def queue(self) -> UUID:
        """Queue a run."""
        return self.app.enqueue(self.app.call("settle")).id

    def take(self) -> ClaimedRun:
        """Claim the one run that waits."""
        return steps.take_one(self.store, self.worker)

    def begin(self, claimed: ClaimedRun, key: str | None, *, is_done: bool = False) -> Grant:
        """Ask for an effect, and do it if that is granted and told so."""
        order = BeginEffect(worker=self.worker, hold=claimed.hold, effects=Effects.UNSAFE, key=key)
        granted: Grant = self.store.begin_effect(order).grant
        if is_done and granted is Grant.GRANTED:
            assert key is not None
            done = EndEffect(worker=self.worker, hold=claimed.hold, key=key)
            assert self.store.end_effect(done)
        return granted

    def tell(self, claimed: ClaimedRun, **scope: Any) -> None:
        """Report what is expected, and what is done."""
        self.store.report(self.worker, [Report(hold=claimed.hold, scope=ItemReport(**scope))])

    def end(self, claimed: ClaimedRun, how: Any, *, has_begun: bool = True) -> None:
        """End an attempt."""
        parts = {"policy": UNSAFE, "has_begun_effects": has_begun}
        steps.end(self.store, self.worker, claimed, how, **parts)

    def doubt(self, done: tuple[str, ...] = (), unknown: tuple[str | None, ...] = ("b",)) -> UUID:
        """Return a run in doubt."""
        run = self.queue()
        claimed = self.take()
        for key in done:
            self.begin(claimed, key, is_done=True)
        for open_key in unknown:
            self.begin(claimed, open_key)
        self.end(claimed, Failed("no answer"))
        return run

    def record(self, run: UUID) -> RunRecord:
        """Return a run as the store has it."""
        return steps.get_run(self.store, RunId(run.bytes))

    def states(self, run: UUID) -> dict[str, str]:
        """Return the ledger."""
        found = self.store.list_effects(RunId(run.bytes), 100)
        return {one.key: str(one.state) for one in found}


@pytest.fixture
def bank(kept: Any) -> Bank:
    return Bank(kept)


STATES: dict[str, dict[str, Any]] = {
    "one unknown": {},
    "done and unknown": {"done": ("a",)},
    "two unknown": {"unknown": ("b", "c")},
    "all done": {"done": ("a",), "unknown": ()},
}
ORDERS = ("reconcile", "retry", "resume", "repair", "check")


def settle(bank: Bank, run: UUID, order: str, *, is_done: bool) -> dict[str, bool]:
    """Decide about a run in doubt; return of each unknown effect whether it counts as done.

    A run that goes on dies afterwards, so that it may be done once more.
    """
    unknown = [key for key, state in bank.states(run).items() if state == EffectState.UNKNOWN]
    named = dict.fromkeys(unknown, is_done)
    inbox, terms = bank.app.inbox, dict[str, Any](reason="looked")
    match order:
        case "reconcile":
            inbox.reconcile(run, is_done=is_done, effects=None if is_done else named, **terms)
        case "retry" | "resume":
            getattr(inbox, order)(run, effects=named, **terms)
            bank.end(bank.take(), FATAL, has_begun=False)
        case "repair":
            inbox.rerun(run, repair=True, effects=named, **terms)
            bank.end(bank.take(), FATAL, has_begun=False)
        case "check":
            finding, of = Finding.PRESENT if is_done else Finding.ABSENT, RunId(run.bytes)
            said: dict[str, Any] = {
                "evidence": None,
                "by": "check",
                "doubt": bank.record(run).tries.fence,
            }
            bank.store.add_verdict(AddVerdict(run_id=of, finding=finding, **said))
            if not is_done:
                bank.end(bank.take(), FATAL, has_begun=False)
    return named


@each_row(
    ("effects", "decision", "is_done", "order"),
    product(STATES, ORDERS, (True, False), ("repair", "retry")),
)
def test_after_every_effect_is_settled_nothing_is_asked_again(
    bank: Bank, effects: str, decision: str, is_done: bool, order: str
):
    """INV-11: what is done is not done again, what is not done may be, and no run is in doubt."""
    run = bank.doubt(**STATES[effects])
    done = [key for key, state in bank.states(run).items() if state == EffectState.DONE]
    settled = settle(bank, run, decision, is_done=is_done)

    if order == "repair":
        bank.app.inbox.rerun(run, reason="the rest", repair=True)
    elif bank.app.runs.get(run).state == "dead":
        assert [True] == [one.is_done for one in bank.app.runs.retry([run])]
    else:
        return
    claimed = bank.take()

    expected = dict.fromkeys(done, Grant.DONE) | {
        key: Grant.DONE if is_done else Grant.GRANTED for key, is_done in settled.items()
    }
    assert expected == {key: bank.begin(claimed, key, is_done=True) for key in expected}
    bank.end(claimed, Succeeded())
    assert [] == bank.app.inbox.list()
    assert [] == bank.store.check()


@each_row(("effects", "decision", "is_done"), product(STATES, ORDERS, (True, False)))
def test_a_rerun_does_everything_again_and_is_confirmed(
    bank: Bank, effects: str, decision: str, is_done: bool
):
    """What has no effect on record repeats nothing, so it is not asked."""
    run = bank.doubt(**STATES[effects])
    settle(bank, run, decision, is_done=is_done)
    confirm = run if bank.states(run) else None

    if confirm is not None:
        with pytest.raises(UsageError, match="this does all of its effects a second time"):
            bank.app.inbox.rerun(run, reason="all of it")
    bank.app.inbox.rerun(run, reason="all of it", confirm=confirm)

    claimed = bank.take()
    assert Grant.GRANTED is bank.begin(claimed, "b", is_done=True)
    bank.end(claimed, Succeeded())


@each_row(
    ("decision", "is_done"), [("reconcile", False), *product(("retry", "repair"), (True, False))]
)
def test_a_backfill_of_what_failed_asks_nothing_again(bank: Bank, decision: str, is_done: bool):
    app, store = bank.app, bank.store
    name = f"{decision}-{is_done}"
    schedule = app.schedules.create(name, app.call("settle"), every("1h"))
    steps.fire_due(store, bank.clock, store.get_schedule(ScheduleId(schedule.id.bytes)).record)
    claimed = bank.take()
    bank.begin(claimed, "a", is_done=True)
    bank.begin(claimed, "b")
    bank.end(claimed, Failed("no answer"))
    (run,) = app.runs.list(schedule=name)
    settle(bank, run.id, decision, is_done=is_done)

    bank.clock.advance("2m")
    span: dict[str, Any] = {
        "since": run.scheduled_for,
        "until": run.scheduled_for + timedelta(minutes=1),
    }
    made = app.backfills.create(name, **span, reason="late")
    backfills.step(store, store.get_backfill("default", BackfillId(made.id.bytes)))

    claimed = bank.take()
    assert (Origin.BACKFILL, run.id.bytes) == (claimed.record.origin, claimed.record.line)
    expected = {"a": Grant.DONE, "b": Grant.DONE if is_done else Grant.GRANTED}
    assert expected == {key: bank.begin(claimed, key, is_done=True) for key in expected}
    bank.end(claimed, Succeeded())


@pytest.mark.parametrize("key", [None, "b"])
def test_a_backfill_leaves_alone_what_was_skipped_in_doubt(bank: Bank, key: str | None):
    """INV-11: whether it was done is as unknown as before, also of effects without keys."""
    app, store = bank.app, bank.store
    schedule = app.schedules.create("nightly", app.call("settle"), every("1h"))
    steps.fire_due(store, bank.clock, store.get_schedule(ScheduleId(schedule.id.bytes)).record)
    claimed = bank.take()
    bank.begin(claimed, key)
    bank.end(claimed, Failed("no answer"))
    (run,) = app.runs.list()
    app.inbox.skip(run, reason="the customer has left")

    bank.clock.advance("2m")
    span: dict[str, Any] = {
        "since": run.scheduled_for,
        "until": run.scheduled_for + timedelta(minutes=1),
    }

    assert ({"ambiguous": 1}, 0) == (
        dict(app.backfills.plan("nightly", **span).counts),
        app.backfills.plan("nightly", **span).runs,
    )


def test_what_was_left_unknown_is_asked_before_a_repair_and_not_by_it(bank: Bank):
    """Of a run that was skipped, or recorded as failed without a word about its effects."""
    for close in (
        lambda run: bank.app.inbox.skip(run, reason="left"),
        lambda run: bank.app.inbox.reconcile(run, is_done=False, reason="not all"),
    ):
        run = bank.doubt(done=("a",))
        close(run)
        assert {"a": "done", "b": "unknown"} == bank.states(run)
        with pytest.raises(UsageError, match="say whether b has happened"):
            bank.app.inbox.rerun(run, repair=True, reason="the rest")

        bank.app.inbox.rerun(run, repair=True, reason="the rest", effects={"b": True})

        claimed = bank.take()
        assert [Grant.DONE] * 2 == [bank.begin(claimed, key) for key in "ab"]
        bank.end(claimed, Succeeded())


def test_what_may_be_repeated_is_not_asked_and_may_be_settled(bank: Bank):
    """Of a task that is idempotent; named as done, it is left out all the same."""
    for named in (None, {"b": True}):
        run = bank.queue()
        claimed = bank.take()
        order = BeginEffect(
            worker=bank.worker, hold=claimed.hold, effects=Effects.IDEMPOTENT, key="b"
        )
        bank.store.begin_effect(order)
        steps.end(bank.store, bank.worker, claimed, FATAL)
        assert {"b": "unknown"} == bank.states(run)

        bank.app.inbox.rerun(run, repair=True, reason="the rest", effects=named)

        again = bank.take()
        granted = bank.store.begin_effect(replace(order, hold=again.hold)).grant
        assert (Grant.GRANTED if named is None else Grant.DONE) is granted
        bank.end(again, Succeeded())


def test_the_only_effect_of_a_run_that_failed_did_not_happen(bank: Bank):
    """What the run is, the effect is; nobody has to say it twice."""
    run = bank.doubt()
    bank.app.inbox.reconcile(run, is_done=False, reason="no such booking")

    bank.app.inbox.rerun(run, repair=True, reason="do it")

    assert Grant.GRANTED is bank.begin(bank.take(), "b")


def test_a_second_identical_repair_is_refused(bank: Bank):
    """While the first is open; also one of its line that is in doubt again."""
    run = bank.doubt()
    bank.app.inbox.reconcile(run, is_done=True, reason="booked")
    first = bank.app.inbox.rerun(run, repair=True, reason="the rest")

    with pytest.raises(Conflict, match=f"run that is open: {first.id}"):
        bank.app.inbox.rerun(run, repair=True, reason="the rest")
    claimed = bank.take()
    bank.begin(claimed, "c")
    bank.end(claimed, Failed("no answer"))
    with pytest.raises(Conflict, match="if it is in doubt, settle it"):
        bank.app.inbox.rerun(run, repair=True, reason="the rest", confirm=run)

    assert [first.id] == [one.run.id for one in bank.app.inbox.list()]


@each_row(
    ("settled", "order", "is_asked"),
    [
        (None, "rerun", None),
        (True, "rerun", True),
        (True, "repair", True),
        (False, "repair", False),
        ("skip", "repair", True),
    ],
)
def test_effects_without_keys_are_confirmed_wherever_they_may_be_repeated(
    bank: Bank, settled: bool | str | None, order: str, is_asked: bool | None
):
    """The ledger knows nothing of them, so a repair can leave none of them out."""
    run = bank.doubt(unknown=(None,))
    if settled == "skip":
        bank.app.inbox.skip(run, reason="left")
    elif settled is not None:
        bank.app.inbox.reconcile(run, is_done=bool(settled), reason="looked")
    again: dict[str, Any] = {"reason": "again", "repair": order == "repair"}

    if is_asked is None:
        with pytest.raises(Conflict, match="is in doubt"):
            bank.app.inbox.rerun(run, **again)
        return
    if is_asked:
        with pytest.raises(UsageError, match="a second time"):
            bank.app.inbox.rerun(run, **again)
    bank.app.inbox.rerun(run, **again, confirm=run if is_asked else None)
    bank.end(bank.take(), Succeeded(), has_begun=False)


def test_what_is_said_of_every_effect_needs_no_confirmation(bank: Bank):
    """One that is not named does, and one that is not unknown is refused."""
    for order in ("retry", "resume", "repair"):
        run = bank.doubt(done=("a",), unknown=("b", "c"))
        inbox, name = bank.app.inbox, "rerun" if order == "repair" else order
        give, terms = getattr(inbox, name), {"repair": True} if order == "repair" else {}
        with pytest.raises(UsageError, match=r"confirm is missing: this does .* whether c has"):
            give(run, reason="looked", effects={"b": True}, **terms)
        for key in ("a", "typo"):
            with pytest.raises(UsageError, match="is not an unknown effect of this run"):
                give(run, reason="looked", effects={"b": True, "c": False, key: True}, **terms)

        with pytest.raises(UsageError, match="is not the id of this run"):
            give(run, reason="looked", effects={"b": True, "c": False}, confirm="other", **terms)

        give(run, reason="looked", effects={"b": True, "c": False}, **terms)

        claimed = bank.take()
        assert [Grant.DONE, Grant.GRANTED] == [bank.begin(claimed, key) for key in "bc"]
        bank.end(claimed, Succeeded())


def test_a_run_with_items_missing_is_not_closed_as_done_by_accident(bank: Bank):
    """The advice is to settle and go on; closed all the same, it is no useful completion."""
    run = bank.queue()
    claimed = bank.take()
    bank.tell(claimed, expected=3, names=("1", "2", "3"), done=("1",))
    bank.begin(claimed, "pay:1", is_done=True)
    bank.begin(claimed, "pay:2")
    bank.end(claimed, Failed("no answer"))
    item = bank.app.inbox.get(run)
    inbox = bank.app.inbox

    assert ("retry", ("2", "3")) == (item.advice.choice, item.scope.missing)
    assert item.advice.why.startswith("1 of 3 items done; 1 of 2 effects may or may not")
    assert [3, 1] == [item.to_json()["scope"][one] for one in ("expected", "done")]
    with pytest.raises(Conflict, match=r"1 of 3 items done.*despite_missing"):
        inbox.reconcile(run, is_done=True, reason="booked")
    with pytest.raises(UsageError, match="despite_missing"):
        inbox.reconcile(run, is_done=False, reason="not", despite_missing=True)
    with pytest.raises(UsageError, match="reason"):
        inbox.reconcile(run, is_done=True, reason=" ", despite_missing=True)
    assert "ambiguous" == bank.app.runs.get(run).state

    closed = inbox.reconcile(run, is_done=True, reason="by hand", despite_missing=True)

    assert ("succeeded", "reconciled-incomplete") == (closed.state, closed.reason)
    assert "items are missing" in bank.app.runs.why(run).sentence
    assert 0 == bank.app.vitals.of_task("settle").window.window.useful
