"""What a worker remembers of the items that an attempt reports, sent or on their way."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from duly.domain.enums import Effects
from duly.domain.outcomes import Succeeded
from duly.domain.verification import ItemReport, Scope
from duly.engine.executors.task_output import Redactor
from duly.engine.worker.run_context import RunContextDeps, WorkerRunContext
from duly.store.ports.execution import Report
from duly_conformance import steps

if TYPE_CHECKING:
    from duly.engine.manual_clock import ManualClock
    from duly.store.sqlite import SqliteStore


class Attempt:
    """An attempt whose reports are sent when the test says so."""

    def __init__(self, store: SqliteStore, clock: ManualClock) -> None:
        self.store = store
        self.worker, self.claimed = steps.queue_and_take(store)
        deps = RunContextDeps(
            worker=self.worker,
            store=store,
            clock=clock,
            store_now=store.now,
            secrets=Redactor(),
        )
        self.live = WorkerRunContext(self.claimed, deps)

    def done(self, *items: str) -> None:
        """Report items as done."""
        self.live.note_scope(ItemReport(done=items))

    def send(self, *, is_answered: bool = True) -> None:
        """Send what waits; without an answer it is sent again later."""
        report = Report(hold=self.claimed.hold, scope=self.live.take_scope())
        self.store.report(self.worker, [report])
        if not is_answered:
            self.live.put_back(None, (), report.scope)

    @property
    def scope(self) -> Scope:
        """What the store knows of it."""
        return self.store.get_scope(self.claimed.run_id)


@pytest.fixture
def attempt(stored_in_memory: tuple[SqliteStore, ManualClock]) -> Attempt:
    return Attempt(*stored_in_memory)


def test_an_item_is_repeated_in_one_report_or_in_several(attempt: Attempt):
    """Seconds apart, too: what was sent before is remembered."""
    attempt.done("a", "b")
    attempt.send()
    assert Scope(None, 2) == attempt.scope
    attempt.done("a")
    attempt.send()
    attempt.done("c", "c")
    attempt.send()

    assert Scope(None, 3, 2) == attempt.scope


def test_a_report_that_is_sent_again_repeats_nothing(attempt: Attempt):
    """INV-17: its answer was lost, and later items join it."""
    attempt.done("a")
    attempt.send(is_answered=False)
    attempt.done("b")
    attempt.send(is_answered=False)
    attempt.send()
    assert Scope(None, 2) == attempt.scope

    attempt.done("a")
    attempt.send(is_answered=False)
    last = attempt.live.take_scope()
    steps.end(attempt.store, attempt.worker, attempt.claimed, Succeeded(), scope=last)

    assert Scope(None, 2, 1) == attempt.scope


def test_what_an_unsafe_task_expects_is_stored_before_its_effect_begins(attempt: Attempt):
    """If its worker dies in the middle of it, the inbox knows what is missing."""
    attempt.live.effects = Effects.UNSAFE
    attempt.live.note_scope(ItemReport(expected=2, names=("a", "b")))
    attempt.live.begin_effect("pay:a")

    assert Scope(2, 0, 0, ("a", "b")) == attempt.scope


def test_what_is_on_its_way_is_no_longer_to_be_done(attempt: Attempt):
    attempt.done("a")
    taken = attempt.live.take_scope()

    assert taken is not None
    assert {"a"} == attempt.live.done_items(("a", "b"))
