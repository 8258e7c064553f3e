"""The run in a task's hands, and tasks in a worker's: arguments, progress, checkpoints."""

from __future__ import annotations

import dataclasses
import threading
from datetime import UTC, date, datetime
from typing import Any

import pytest

import duly
from duly import Cancelled, UsageError
from duly.domain.runs import (
    CHECKPOINT_BYTES_MAX,
    LINE_LENGTH_MAX,
    PARTITION_LENGTH_MAX,
    AttemptCounts,
    Progress,
)
from duly.store.ports.execution import ClaimedRun
from tests.client.conftest import work


class NotedLive:
    """What a worker lends, noting what it is told."""

    def __init__(self, *, is_cancelled: bool = False) -> None:
        self.is_cancelled = is_cancelled
        self.advanced: list[Progress] = []
        self.states: dict[str, str] = {}
        self.lines: list[tuple[str, str]] = []
        self.concealed: list[str] = []
        self.threads: list[int] = []

    def advance(self, progress: Progress) -> None:
        self.advanced.append(progress)

    def save(self, partition: str, state: str) -> None:
        self.threads.append(threading.get_ident())
        self.states[partition] = state

    def saved(self, partition: str) -> str | None:
        return self.states.get(partition)

    def write(self, level: str, text: str) -> None:
        self.lines.append((level, text))

    def conceal(self, text: str) -> None:
        self.concealed.append(text)

    def hide(self, text: str, *, is_cut: bool = False) -> str:
        raise NotImplementedError


@dataclasses.dataclass
class Person:
    name: str
    born: date


@pytest.fixture
def live():
    return NotedLive()


@pytest.fixture
def executed(app, live):
    """Return the run that a task would get, with its live part."""
    taken: list[duly.Run] = []

    @app.task
    def take(run: duly.Run) -> None:
        taken.append(run)

    prepared(app, take.bind(), live)()
    return taken[0]


def claimed(app: duly.App, call: duly.BoundCall) -> ClaimedRun:
    """Return a run as a worker gets it."""
    record = app.store.get_run(app.enqueue(call).id.bytes)  # type: ignore[arg-type]
    assert record is not None
    return ClaimedRun.of(record, AttemptCounts(fence=2, attempt=1), record.created_at)


def prepared(app: duly.App, call: duly.BoundCall, live: Any) -> Any:
    """Return what a worker calls."""
    runnable = app.catalogue().find(call.task)
    assert runnable is not None
    return runnable.prepare(claimed(app, call), live)


def stored(app: duly.App, call: duly.BoundCall, payload: str, live: Any) -> Any:
    """Return what a worker calls when other arguments are stored than were bound."""
    runnable = app.catalogue().find(call.task)
    assert runnable is not None
    run = claimed(app, call)
    other = dataclasses.replace(run.record.call, arguments=payload)
    return runnable.prepare(
        ClaimedRun.of(dataclasses.replace(run.record, call=other), run.tries, run.claimed_at), live
    )


def test_stored_arguments_become_the_annotated_types(app, live):
    @app.task
    def greet(person: Person, at: datetime, times: int = 2) -> tuple[Any, ...]:
        return person, at, times

    at = datetime(2026, 4, 3, 2, tzinfo=UTC)
    ada = Person("Ada", date(1815, 12, 10))

    assert (ada, at, 2) == prepared(app, greet.bind(ada, at), live)()


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        ('{"number":"5"}', r"double\(number\): '5' is not what it takes"),
        ("{}", "double: 'number' is missing"),
        ('{"number":5,"more":1}', "double: 'more' is not one of its parameters"),
        ("[5]", r"double: \[5\] is not a map of arguments"),
        ('{"run":5,"number":5}', "double: 'run' is not one of its parameters"),
        ("{", "double: '{' is not JSON"),
    ],
)
def test_arguments_are_checked_again_when_they_are_run(app, live, payload, message):
    @app.task
    def double(run: duly.Run, number: int) -> int:
        return 2 * number

    with pytest.raises(UsageError, match=message):
        stored(app, double.bind(5), payload, live)


def test_an_async_task_gives_something_to_await(app, live):
    @app.task
    async def later(number: int) -> int:
        return number

    coroutine = prepared(app, later.bind(5), live)()
    try:
        assert "later" == coroutine.__name__
    finally:
        coroutine.close()


def test_a_command_gives_its_checked_arguments_by_name(app, live):
    def parameters(database: str, level: int = 3) -> None: ...

    dump = app.command("dump", ["dump", "{database}", "{level}"], parameters=parameters)

    assert {"database": "shop", "level": 3} == prepared(app, dump.bind("shop"), live)()


def test_the_catalogue_knows_the_applications_tasks(app, tasks):
    catalogue = app.catalogue()

    assert ["remind", "report"] == catalogue.names()
    assert catalogue.find("gone") is None


def test_the_run_says_which_attempt_it_is(executed):
    assert (1, 2, str(executed.root)) == (
        executed.attempt,
        executed.fence,
        executed.idempotency_key,
    )


def test_progress_is_told(executed, live):
    executed.progress(1)
    executed.progress(2, total=4, note="half")

    assert [Progress(1), Progress(2, 4, "half")] == live.advanced


@pytest.mark.parametrize(
    "values",
    [(-1,), (1.5,), (True,), ("1",), (1, -1), (1, None, 5), (1, None, "x" * 501), (1 << 63,)],
)
def test_progress_that_can_not_be_is_refused(executed, live, values):
    with pytest.raises(UsageError):
        executed.progress(*values)

    assert [] == live.advanced


def test_a_checkpoint_is_resumed_from(executed, live):
    assert executed.resume_from() is None

    executed.checkpoint({"page": 3, "born": date(2026, 4, 3)})
    executed.checkpoint([1], partition="part")

    assert {"page": 3, "born": "2026-04-03"} == executed.resume_from()
    assert [1] == executed.resume_from("part")
    assert {"", "part"} == set(live.states)


@pytest.mark.parametrize(
    ("state", "partition", "message"),
    [
        ("x" * CHECKPOINT_BYTES_MAX, None, "state: 'str' takes 262,146 bytes, and 262,144 is the"),
        (object(), None, "state: .* is not JSON"),
        (float("nan"), None, "state: nan is no number that JSON can hold"),
        (1, "", "partition: '' can't name a part"),
        (1, 5, "partition: 5 is not a text"),
        (1, "x" * (PARTITION_LENGTH_MAX + 1), "partition: .* is too long"),
    ],
)
def test_a_checkpoint_that_can_not_be_kept_is_refused(executed, live, state, partition, message):
    with pytest.raises(UsageError, match=f"^{message}"):
        executed.checkpoint(state, partition)

    assert {} == live.states


def test_lines_are_written_one_by_one_and_cut_by_whoever_leaves_secrets_out(executed, live):
    """Cut before that, half a secret would no longer be recognised."""
    executed.log("one\ntwo\x00\ud800", level="warning")
    executed.log("x" * (LINE_LENGTH_MAX + 1))

    assert [("warning", "one"), ("warning", "two\ufffd?")] == live.lines[:2]
    assert ("info", LINE_LENGTH_MAX + 1) == (live.lines[2][0], len(live.lines[2][1]))
    with pytest.raises(UsageError, match="level: 'loud' is not a level"):
        executed.log("x", level="loud")


def test_a_cancelled_run_can_be_asked_and_raises(app):
    runs: list[duly.Run] = []

    @app.task
    def take(run: duly.Run) -> None:
        runs.append(run)

    prepared(app, take.bind(), NotedLive())()
    prepared(app, take.bind(), NotedLive(is_cancelled=True))()
    runs[0].check_cancelled()

    assert [False, True] == [run.cancelled for run in runs]
    with pytest.raises(Cancelled, match="must stop"):
        runs[1].check_cancelled()


@pytest.mark.parametrize(
    "use",
    [
        lambda run: run.progress(1),
        lambda run: run.checkpoint(1),
        lambda run: run.resume_from(),
        lambda run: run.log("x"),
        lambda run: run.cancelled,
        lambda run: run.check_cancelled(),
        lambda run: run.aio,
    ],
)
def test_a_run_that_is_not_executed_here_has_no_live_part(app, tasks, use):
    run = app.runs.get(app.enqueue(tasks.report).id)

    with pytest.raises(UsageError, match="is a run that is not being executed here"):
        use(run)


def test_async_tasks_await_the_store_in_another_thread(app, clock, store):
    seen: list[Any] = []

    @app.task
    async def later(run: duly.Run) -> None:
        await run.aio.progress(1, total=2)
        await run.aio.log("begun")
        await run.aio.checkpoint({"page": 1})
        seen.append(await run.aio.resume_from())

    made = app.enqueue(later)
    work(app, clock)

    assert [{"page": 1}] == seen
    assert "succeeded" == app.runs.get(made.id).state
    assert [(1, 2)] == [(one.done, one.total) for one in app.runs.progress(made.id)]
    assert ["begun"] == [one.text for one in app.runs.lines(made.id)]


def test_a_secret_is_stored_by_reference_and_handed_over_by_value(app, live, monkeypatch):
    monkeypatch.setenv("DULY_SECRET_PAY", "t0ps3cret!")

    @app.task
    def pay(token: duly.Secret, other: duly.Secret | None = None) -> str:
        return token.reveal()

    call = pay.bind(token=duly.secret("env:DULY_SECRET_PAY"))

    assert {"token": {"secret": "env:DULY_SECRET_PAY"}} == call.arguments
    assert "t0ps3cret!" == prepared(app, call, live)()
    assert "t0ps3cret!" in live.concealed


def test_a_secret_given_as_it_is_is_refused_and_not_repeated(app):
    @app.task
    def pay(token: duly.Secret, other: duly.Secret | None = None) -> None: ...

    for given in ({"token": "t0ps3cret!"}, {"token": duly.secret("env:A"), "other": "t0ps3cret!"}):
        with pytest.raises(UsageError) as caught:
            pay.bind(**given)

        assert "t0ps3cret" not in str(caught.value)


def test_a_secret_is_read_from_allowed_places_alone(store, clock, live, monkeypatch):
    monkeypatch.setenv("HOME_OF_ALL", "x")
    app = duly.App(store=store, clock=clock)

    @app.task
    def pay(token: duly.Secret) -> None: ...

    with pytest.raises(UsageError, match="is not allowed on this worker"):
        prepared(app, pay.bind(duly.secret("env:HOME_OF_ALL")), live)


def test_a_label_is_written_in_the_schedules_zone(app, clock):
    labels: list[str] = []

    @app.schedule(duly.cron("0 15 * * *", tz="Europe/Paris"), name="tea")
    @app.task
    def tea(run: duly.Run) -> None:
        labels.append(run.label)

    app.reconcile()
    clock.advance("1h")
    work(app, clock)

    assert ["tea@2026-04-02T15:00+02:00"] == labels == [app.runs.list()[0].label]


def test_a_process_without_a_store_takes_the_zone_from_what_is_declared(app, clock, live, store):
    child = duly.App("sqlite:///nowhere/at/all.db")
    labels: list[str] = []

    @child.schedule(duly.cron("0 15 * * *", tz="Europe/Paris"), name="tea")
    @child.task
    def tea(run: duly.Run) -> None:
        labels.append(run.label)

    app.task(name="tea")(lambda: None)
    app.schedules.create("tea", app.call("tea"), duly.cron("0 15 * * *", tz="Europe/Paris"))
    clock.advance("1h")
    work(app, clock)
    record = store.get_run(app.runs.list()[0].id.bytes)
    runnable = child.catalogue().find("tea")
    assert runnable is not None
    runnable.prepare(ClaimedRun.of(record, AttemptCounts(1, 1), 0), live)()

    assert ["tea@2026-04-02T15:00+02:00"] == labels
