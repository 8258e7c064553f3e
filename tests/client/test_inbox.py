"""The inbox: what is safest about a run in doubt, and a person's choice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

import duly
from duly import Conflict, Retry, UsageError
from duly.domain.effects import Choice
from duly.domain.ids import ScheduleId, occurrence_run_id
from duly.store.ports.queries import AuditFilter
from duly.testing import virtual_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duly.testing import VirtualClock

START = "2026-04-03T02:00"


class Desk:
    """An application with a task whose payments fail in the middle, for as long as we like."""

    clock: VirtualClock

    def __init__(self) -> None:
        self.app = duly.App("memory:")
        self.paid: list[str] = []
        self.fails_at: str | None = "b"

        @self.app.task(effects="unsafe", retry=Retry(attempts=3, base="1s"))
        def settle(run: duly.Run) -> int:
            for account in ("a", "b", "c"):
                run.once(f"pay:{account}", self.pay, account)
            return len(self.paid)

        self.settle = settle

    def pay(self, account: str) -> str:
        self.paid.append(account)
        if account == self.fails_at:
            raise ConnectionResetError("no answer")
        return f"receipt {account}"

    @property
    def item(self) -> duly.client.doubt_view.InboxItem:
        (item,) = self.app.inbox.list()
        return item


@pytest.fixture
def desk() -> Iterator[Desk]:
    """A desk with one run in doubt: paid a, perhaps b, not c."""
    desk = Desk()
    with virtual_time(desk.app, START) as clock:
        desk.clock = clock
        desk.app.enqueue(desk.settle)
        clock.advance("1m")
        yield desk


def test_the_inbox_says_what_is_known_and_what_is_safest(desk: Desk):
    """And what the other choices risk."""
    item = desk.item

    assert "ambiguous" == item.run.state
    assert {"pay:a": "done", "pay:b": "unknown"} == {one.key: one.state for one in item.effects}
    assert "reconcile" == item.advice.choice
    assert "1 of 2 effects may or may not have happened" in item.advice.why
    assert "second time" in item.advice.risks[Choice.RETRY]
    assert item.attempt is not None
    assert item.since == item.attempt.ended_at
    told = item.to_json()
    assert "reconcile" == told["advice"]["safest"]
    assert {"resume", "repair", "retry", "skip"} == set(told["advice"]["risks"])


def test_a_risky_choice_is_confirmed_by_the_runs_id(desk: Desk):
    """Nothing changes without it; with it, the reason is on record."""
    run = desk.item.run
    with pytest.raises(UsageError, match="confirm is missing: this does what may have been"):
        desk.app.inbox.retry(run, reason="they say it is fine")

    desk.fails_at = None
    desk.app.inbox.retry(run, reason="they say it is fine", confirm=run.id)
    desk.clock.advance("1m")

    assert "succeeded" == desk.app.runs.get(run.id).state
    assert ["a", "b", "b", "c"] == desk.paid
    (entry,) = desk.app.store.list_audit(AuditFilter(action="run.settled"))
    assert "they say it is fine" == entry.actor.reason
    assert entry.after is not None
    assert ("retry", "reconcile") == (entry.after["choice"], entry.after["advised"])


def test_what_a_person_found_done_is_not_done_again(desk: Desk):
    """Exactly one business result."""
    run = desk.item.run
    desk.fails_at = None

    known = {"pay:b": True}
    desk.app.inbox.retry(run, reason="b has its money", effects=known, confirm=run.id)
    desk.clock.advance("1m")

    assert ["a", "b", "c"] == desk.paid
    assert "succeeded" == desk.app.runs.get(run.id).state


def test_it_is_recorded_as_done_with_the_evidence(desk: Desk):
    """The ledger counts it as done, and beside it stands who has settled it."""
    found = desk.app.inbox.reconcile(
        desk.item.run, is_done=True, reason="all three arrived", evidence={"statement": 12}
    )

    assert ("succeeded", "reconciled") == (found.state, found.reason)
    assert [] == desk.app.inbox.list()
    paid, settled = desk.app.inbox.effects(found)
    assert ("done", None, "done") == (paid.state, paid.settled, settled.state)
    assert settled.settled is not None
    assert ("done", "all three arrived") == (settled.settled.as_, settled.settled.reason)
    assert settled.settled.by == settled.to_json()["settled"]["by"]
    with pytest.raises(Conflict, match="is not in doubt but succeeded"):
        desk.app.inbox.skip(found, reason="twice")


def test_a_repair_does_only_what_is_not_done(desk: Desk):
    """Another run, that says what it repairs; nothing of it is in doubt again."""
    run = desk.item.run
    desk.fails_at = None

    done = {"pay:b": True}
    repair = desk.app.inbox.rerun(run, repair=True, reason="finish it", effects=done)
    desk.clock.advance("1m")

    assert ("repair", run.id) == (repair.origin, repair.root)
    assert ["a", "b", "c"] == desk.paid
    assert "succeeded" == desk.app.runs.get(repair.id).state
    assert ("failed", []) == (desk.app.runs.get(run.id).state, desk.app.inbox.list())


@pytest.mark.parametrize("reason", ["  ", None])
@pytest.mark.parametrize("order", ["retry", "resume", "reconcile", "skip", "rerun"])
def test_a_reason_is_asked_for(desk: Desk, order: str, reason: Any):
    run = desk.item.run
    also: dict[str, dict[str, Any]] = {
        "reconcile": {"is_done": True},
        "rerun": {"confirm": run.id},
    }

    with pytest.raises(UsageError, match=r"^reason.* is missing"):
        getattr(desk.app.inbox, order)(run, reason=reason, **also.get(order, {}))

    assert "ambiguous" == desk.item.run.state


def test_who_receives_a_rerun_takes_it_for_something_new_and_a_repair_for_the_same(desk: Desk):
    """A rerun is there to do everything again, a repair to do what is left."""
    run = desk.item.run
    repair = desk.app.inbox.rerun(run, repair=True, reason="the rest", confirm=run.id)
    desk.fails_at = None
    desk.clock.advance("1m")
    rerun = desk.app.inbox.rerun(run, reason="all of it", confirm=run.id)

    assert run.idempotency_key == str(run.id) == repair.idempotency_key
    assert (run.id, str(rerun.id)) == (rerun.root, rerun.idempotency_key)


def test_retries_of_a_task_are_suspended_and_allowed_again(desk: Desk):
    app = desk.app

    @app.task(retry=Retry(attempts=5, base="1s"))
    def fetch() -> None:
        raise RuntimeError("down")

    app.inbox.suspend_retries("fetch", reason="it makes it worse")
    app.enqueue(fetch)
    desk.clock.advance("1s")

    (run,) = app.runs.list(task="fetch")
    assert ("dead", "suspended", 1) == (run.state, run.reason, run.attempt)
    app.inbox.allow_retries("fetch")
    app.runs.retry(run.id)
    desk.clock.advance("1s")
    assert "retrying" == app.runs.get(run.id).state


def test_a_run_and_what_repeats_it_are_one_line():
    """The first one first, by each of them."""
    app = duly.App("memory:")

    @app.task
    def report() -> None: ...

    with virtual_time(app, "2026-03-28T12:00") as clock:
        app.enqueue(report)
        clock.advance("1m")
        (first,) = app.runs.list()
        again = app.inbox.rerun(first.id, reason="once more")
        clock.advance("1m")
        repaired = app.inbox.rerun(again.id, reason="once more", repair=True)

        line = [first.id, again.id]
        assert line == [one.id for one in app.inbox.line(first.id)]
        assert line == [one.id for one in app.inbox.line(again.id)]
        assert repaired.id in [one.id for one in app.inbox.line(repaired.id)]
        assert ["rerun", "repair"] == [again.origin, repaired.origin]


def test_a_rerun_of_the_same_id_again_is_the_same_order(desk: Desk):
    """Whoever has lost the answer asks again, and makes no second one."""
    run, wanted = desk.item.run, UUID("0196a1b2-0000-7000-8000-000000000042")
    parts: dict[str, Any] = {"repair": True, "reason": "finish it", "confirm": run.id}

    first = desk.app.inbox.rerun(run.id, **parts, id=wanted)
    again = desk.app.inbox.rerun(run.id, **parts, id=wanted)

    assert wanted == first.id == again.id
    assert 2 == len(desk.app.runs.list())
    with pytest.raises(Conflict, match="is that of another request"):
        desk.app.inbox.rerun(run.id, **parts, id=run.id)


def test_a_rerun_may_not_take_the_id_of_an_occurrence(desk: Desk):
    """INV-17."""
    run = desk.item.run
    taken = UUID(bytes=occurrence_run_id(ScheduleId(bytes(16)), 0))

    with pytest.raises(UsageError, match="belongs to the occurrences of schedules"):
        desk.app.inbox.rerun(run.id, repair=True, reason="finish it", confirm=run.id, id=taken)
