"""The live run: bounded buffers, checkpoints, secrets; and the executor for virtual time."""

from __future__ import annotations

import asyncio
import json
import threading
from contextlib import suppress

import pytest

from duly.domain.effects import Grant
from duly.domain.outcomes import CancelledEnd, Failed, GaveUp, Snoozed, Succeeded, TimedOut
from duly.domain.runs import (
    CHECKPOINT_BYTES_MAX,
    LINE_LENGTH_MAX,
    LINES_PER_ATTEMPT_MAX,
    Progress,
    Reason,
    TaskPolicy,
)
from duly.engine.executors.task_output import Redactor
from duly.engine.manual_clock import START_US, ManualClock
from duly.engine.store_clock import StoreTime
from duly.engine.worker.run_context import MORE_LINES
from duly.errors import LeaseLost, StoreUnavailable, UsageError
from duly.store.ports.effects import EffectGrant
from duly.testing import InlineExecutor
from tests.engine.rig import SECOND, Known, Rig


@pytest.fixture
def shop(rig):
    rig.enqueue()
    made = rig.worker()
    made.worker.tick()
    return made


@pytest.fixture
def live(shop):
    return shop.works[0].live


def lines(rig, shop):
    shop.end()
    run = shop.works[0].claimed.record.id
    return [(one.line.level, one.line.text) for one in rig.store.list_lines(run, 0, 5000)]


def test_an_attempt_writes_a_bounded_log(rig, shop, live):
    """The last line says that more are left out."""
    for number in range(LINES_PER_ATTEMPT_MAX + 50):
        live.write("info", f"line {number}")
    found = lines(rig, shop)

    assert LINES_PER_ATTEMPT_MAX == len(found)
    assert ("warning", MORE_LINES) == found[-1]


def test_a_report_that_can_not_be_stored_takes_no_other_along(rig):
    """INV-26: two attempts report in one statement, and the row of one is refused."""
    bad, good = rig.enqueue("bad"), rig.enqueue("good")
    shop = rig.worker()
    rig.run("1s")
    shop.line.breaks["report"] = lambda reports: any(one.hold.run_id == bad for one in reports)
    for one in shop.works:
        one.live.write("info", "half way")
    rig.run("3s")

    told = {run: [one.line.text for one in rig.store.list_lines(run, 0, 10)] for run in (bad, good)}
    assert {bad: [], good: ["half way"]} == told


def test_a_line_is_bounded_and_storable(rig, shop, live):
    """Whatever a task writes."""
    live.write("info", "x" * (LINE_LENGTH_MAX + 1))
    live.write("a very long level indeed", "a\x00b\ud800")

    long = "x" * (LINE_LENGTH_MAX - 1) + "…"

    assert [("info", long), ("a very long level in", "a�b?")] == lines(rig, shop)


def test_lines_may_be_written_from_many_threads(rig, shop, live):
    """Tasks have threads of their own."""
    threads = [
        threading.Thread(target=lambda: [live.write("info", "x") for _ in range(50)])
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert 400 == len(lines(rig, shop))


@pytest.mark.parametrize(
    "progress", [Progress(-1), Progress(1 << 63), Progress(1, -5), Progress(True)]
)
def test_progress_that_is_no_count_is_refused(live, progress):
    """In the task's own code, and not later in the store."""
    with pytest.raises(UsageError):
        live.advance(progress)


def test_a_checkpoint_is_stored_before_the_call_returns(rig, shop, live):
    """And a later attempt reads it."""
    run = shop.works[0].claimed.record.id

    assert live.saved("") is None
    live.save("", '{"row":7}')
    live.save("eu", "1")
    assert {"": '{"row":7}', "eu": "1"} == rig.store.get_checkpoints(run)
    assert ('{"row":7}', "1", None) == (live.saved(""), live.saved("eu"), live.saved("us"))
    rig.dispatcher()
    shop.end(Failed("no luck"))
    rig.run("1m")
    assert '{"row":7}' == shop.works[1].live.saved("")


@pytest.mark.parametrize(
    ("partition", "state"),
    [("x" * 201, "1"), ("", "x" * (CHECKPOINT_BYTES_MAX + 1)), ("", "ü" * 200_000), ("a\x00", "1")],
)
def test_a_checkpoint_that_can_not_be_kept_is_refused(live, partition, state):
    """A limit on everything."""
    with pytest.raises(UsageError):
        live.save(partition, state)


def test_a_checkpoint_of_a_run_that_is_no_longer_ours_is_refused(rig, shop, live):
    """The code learns that it must stop."""
    rig.advance(60 * SECOND)
    rig.dispatcher()
    rig.workers.clear()
    rig.run("10s")

    assert not live.is_cancelled
    with pytest.raises(LeaseLost, match="taken from this worker"):
        live.save("", "1")
    assert live.is_cancelled


def test_a_checkpoint_saved_by_another_thread_meanwhile_is_not_forgotten(shop, live):
    """What was read before it was saved does not take its place."""
    live.save("", "1")
    saver = threading.Thread(target=live.save, args=("", "2"))

    def overtake():
        saver.start()
        saver.join(0.2)  # who waits for the reader's turn to be over is not overtaken

    shop.line.pauses["get_checkpoints"] = overtake
    live.saved("")
    saver.join()

    assert "2" == live.saved("")


def test_saving_a_checkpoint_is_progress(rig):
    """A stall limit watches both."""
    run = rig.enqueue()
    shop = rig.worker(Known("remind", TaskPolicy(stall_us=10 * SECOND)))
    for number in range(5):
        rig.run("8s")
        shop.works[0].live.save("", str(number))

    assert "running" == rig.state(run)


def test_a_secret_appears_neither_in_lines_nor_in_progress(rig, shop, live):
    """Also in a line that was written before it was known to be one."""
    live.write("info", "token=hunter2 early")
    live.conceal("hunter2")
    live.write("info", "token=hunter2 late")
    live.advance(Progress(1, 2, "with hunter2"))
    run = shop.works[0].claimed.record.id

    assert ["token=*** early", "token=*** late"] == [text for _, text in lines(rig, shop)]
    assert "with ***" == rig.look(run).progress.note


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        (
            Succeeded('{"a":"x hunter2","hunter2":["hunter2"]}'),
            Succeeded('{"***":["***"],"a":"x ***"}'),
        ),
        (Succeeded(None), Succeeded(None)),
        (Failed("no hunter2"), Failed("no ***")),
        (GaveUp(Reason.GAVE_UP, "hunter2"), GaveUp(Reason.GAVE_UP, "***")),
        (TimedOut(Reason.TIMEOUT, "at hunter2"), TimedOut(Reason.TIMEOUT, "at ***")),
        (CancelledEnd("hunter2"), CancelledEnd("***")),
        (Snoozed(5), Snoozed(5)),
    ],
)
def test_a_secret_appears_in_no_end(end, expected):
    """Neither in an error nor in a result."""
    concealer = Redactor()
    concealer.add("hunter2")

    assert expected == concealer.hide_in_end(end)


def test_a_secret_is_hidden_in_every_way_it_may_be_written():
    """Inside JSON, quoted, as a number, as a part of another."""
    concealer = Redactor()
    for secret in ('a"b\n', "1234", "1234567", ""):
        concealer.add(secret)

    assert "x *** y" == concealer.hide('x a"b\n y')
    assert "x *** y" == concealer.hide(f"x {json.dumps(chr(97) + chr(34) + 'b' + chr(10))[1:-1]} y")
    assert "***" == concealer.hide("1234567")
    assert Succeeded('{"n":"***","s":"***"}') == concealer.hide_in_end(
        Succeeded(json.dumps({"n": 1234, "s": 'a"b\n'}))
    )


def test_the_beginning_of_a_secret_at_the_end_of_a_cut_text_is_hidden():
    """However much of it is left."""
    concealer, secret = Redactor(), "hunter2-is-secret"
    concealer.add(secret)
    cut = ["token " + secret[:length] for length in range(1, len(secret))]

    assert [] == [text for text in cut if concealer.hide(text, is_cut=True) != "token ***"]


def test_a_message_that_was_shortened_elsewhere_hides_what_begins_there():
    """Errors of calls show the beginning of what was given."""
    concealer, secret = Redactor(), "hunter2-is-secret"
    concealer.add(secret)
    values = ["x" * position + secret + "x" * 100 for position in range(100, 121)]
    shown = [concealer.hide(str(UsageError("url", one, "is bad", "mend it"))) for one in values]

    assert 21 == len(shown)
    assert [] == [text for text in shown if "hunt" in text]
    assert "x'… (" in concealer.hide(str(UsageError("url", "x" * 200, "is bad", "mend it")))


def test_a_line_is_cut_after_secrets_are_left_out(live):
    """At the very place where it is cut, too."""
    live.conceal("hunter2-is-secret")
    for before in range(LINE_LENGTH_MAX - 20, LINE_LENGTH_MAX + 1):
        live.write("info", "x" * before + "hunter2-is-secret")
    lines = [line.text for line in live.take_lines()]

    assert {"x", "*", "…"} == set("".join(lines))
    assert {True} == {len(line) <= LINE_LENGTH_MAX for line in lines}


def test_a_secret_with_what_no_store_holds_is_hidden_in_what_was_made_of_it(live):
    """NUL is replaced in errors and lines."""
    live.conceal("hunter2\x00is-secret")
    live.write("info", "hunter2\N{REPLACEMENT CHARACTER}is-secret")

    assert ["***"] == [line.text for line in live.take_lines()]


def test_what_an_executor_says_goes_through_the_concealer(rig, shop, live):
    """Executors need not think of it."""
    live.conceal("hunter2")
    run = shop.works[0].claimed.record.id
    shop.end(Failed("no hunter2"))

    assert "no ***" == rig.look(run).error


class Ready(Known):
    """A task whose code the test gives."""

    call = staticmethod(lambda: None)

    def prepare(self, claimed, live):
        return type(self).call


def inline(rig, call):
    task = type("Given", (Ready,), {"call": staticmethod(call)})("remind")
    run = rig.enqueue()
    shop = rig.worker(task)
    executor = InlineExecutor()
    shop.executor.on_start = executor.start
    shop.worker.tick()
    shop.worker.tick()

    assert executor.insist(shop.works[0])
    executor.ask(shop.works[0])
    executor.close()
    return rig.look(run)


async def nothing():
    pass


async def coroutine():
    await asyncio.create_task(nothing())
    return {"done": True}


def raising():
    raise SystemExit(2)


def test_the_inline_executor_runs_code_at_once(rig):
    """Sync and async code, to its end, in virtual time."""
    assert "7" == inline(rig, lambda: 7).result
    assert '{"done":true}' == inline(Rig(), coroutine).result
    failed = inline(Rig(), raising)
    assert ("retrying", True) == (failed.state, "SystemExit: 2" in failed.error)


def test_the_inline_executor_works_where_a_loop_is_running():
    """A test may itself be a coroutine."""

    async def test():
        return inline(Rig(), coroutine)

    assert '{"done":true}' == asyncio.run(test()).result


def test_arguments_that_do_not_fit_end_an_inline_run(rig):
    """No code was begun."""

    class Unfit(Known):
        def prepare(self, claimed, live):
            raise UsageError("class_id", "x", "is not a number", "give an int")

    run = rig.enqueue()
    shop = rig.worker(Unfit("remind"))
    shop.executor.on_start = InlineExecutor().start
    rig.run("1s")

    assert ("dead", "bad-arguments") == (rig.state(run), rig.look(run).state_reason)


def test_the_stores_clock_is_told_by_the_best_answer():
    """A slow answer does not spoil what a quick one has told."""
    clock = ManualClock()
    time = StoreTime(clock)

    assert START_US == time.now()
    before = clock.monotonic_us()
    clock.advance(1000)
    time.hear(before, START_US + 5_000_500)
    assert START_US + 5_001_000 == time.now()
    before = clock.monotonic_us()
    clock.advance(2 * SECOND)
    time.hear(before, START_US + 5_001_000)
    assert START_US + 7_001_000 == time.now()
    before = clock.monotonic_us()
    clock.advance(100)
    time.hear(before, START_US)
    assert START_US + 50 == time.now()


def test_whose_permission_is_on_the_way_has_begun(rig, shop, live):
    """Who ends the attempt meanwhile can't know whether its code goes on with the effect."""
    permit, seen = rig.store.begin_effect, []

    def answer_late(order):
        seen.append(live.has_begun_effects)
        return permit(order)

    rig.store.begin_effect = answer_late
    live.begin_effect("mail:7")

    assert ([True], True) == (seen, live.has_begun_effects)


@pytest.mark.parametrize("is_away", [True, False])
def test_whose_permission_never_came_has_not_begun(rig, shop, live, is_away):
    """Its code knows that, and has done nothing."""

    def refuse(order):
        if is_away:
            raise StoreUnavailable("memory", "is away", "wait")
        return EffectGrant(START_US, Grant.TOO_LATE)

    rig.store.begin_effect = refuse
    with suppress(StoreUnavailable):
        live.begin_effect("mail:7")

    assert not live.has_begun_effects
