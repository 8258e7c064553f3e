"""`--traces` and `--log-format` of the commands that go on until they are stopped."""

from __future__ import annotations

import json
import signal
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from duly.telemetry.tracing import trace_text
from tests.cli.collector import collecting, silence
from tests.cli.test_dispatcher import LIMIT_SECONDS
from tests.waiting import comes_true, read_line, wait_until

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator

    from tests.cli.duly_command import Workplace

TASKS = """
import logging, sys
import duly
from duly.app import App

app = App()
LOGGER = logging.getLogger("program")
EVIL = 'broken\\n{"level":"error"}\\x1b[2J\\u2028end'

@app.task
def nightly_report() -> None:
    LOGGER.info(EVIL)

@app.task
async def awaited() -> None:
    LOGGER.warning("awaited")

@app.task(kind="process")
def apart() -> None:
    from opentelemetry import trace
    LOGGER.info("apart")
    with trace.get_tracer("program").start_as_current_span("own work"):
        pass

@app.task(retry=duly.Retry(attempts=1))
def fails() -> None:
    raise ValueError("no such customer")
"""
SCHEDULE = (
    """[schedules.tick]\ntask = "nightly_report"\nwhen = "every second"\noverlap = "allow"\n"""
)


@pytest.fixture(autouse=True)
def program(place: Workplace) -> None:
    (place.folder / "tasks.py").write_text(TASKS)


@contextmanager
def started(place: Workplace, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run a command; one that a failing test leaves behind is killed."""
    process = place.start(*arguments)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def told_until(process: subprocess.Popen[str], event: str) -> list[dict[str, Any]]:
    """Read lines of a log until one is of an event; each is one JSON object."""
    assert process.stderr is not None, "piped"
    told: list[dict[str, Any]] = []
    for line in process.stderr:
        told.append(json.loads(line))
        if told[-1]["event"] == event:
            return told
    raise AssertionError(f"ended before {event}: {told}")


def stop(process: subprocess.Popen[str]) -> list[dict[str, Any]]:
    """End it, and return what it has told meanwhile."""
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=LIMIT_SECONDS)
    return [json.loads(line) for line in err.split("\n") if line]


def test_each_line_of_a_log_is_a_json_object_with_the_ids(place: Workplace):
    """Time in UTC, level, event, schedule, run and attempt."""
    (place.folder / "s.toml").write_text(SCHEDULE)
    with started(place, "dispatcher", "--declare", "s.toml", "--log-format", "json") as firing:
        dispatched = told_until(firing, "leases-acquired")
        with started(place, "worker", "--log-format", "json", "--log-runs") as process:
            told = told_until(process, "run-succeeded")
            stop(process)
        stop(firing)
    schedule = place.duly("schedule", "list", "--json").json[0]

    for one in (*dispatched, *told):
        assert ["time", "level", "event"] == list(one)[:3]
        assert UTC == datetime.fromisoformat(one["time"]).tzinfo
        assert one["level"] in {"debug", "info", "warning", "error"}
        assert one["message"]
    logged = next(one for one in told if one["event"] == "run-log")
    ended = told[-1]
    for one in (logged, ended):
        assert (schedule["id"], "tick") == (one["schedule_id"], one["schedule"])
        assert f"{one['run_id']}.1" == one["attempt_id"]
        assert "trace_id" not in one
    assert 'broken\n{"level":"error"}\x1b[2J\u2028end' == logged["text"]
    assert "nightly_report" == logged["task"]


@pytest.mark.parametrize(
    ("task", "level", "text"), [("awaited", "warning", "awaited"), ("apart", "info", "apart")]
)
def test_what_tasks_of_every_kind_log_has_their_ids(place: Workplace, task, level, text):
    """On the loop and in processes of their own."""
    run = place.duly("enqueue", task, "--json").json["id"]
    with started(place, "worker", "--log-format", "json", "--log-runs") as process:
        told = told_until(process, "run-succeeded")
        stop(process)

    logged = [one for one in told if one["event"] == "run-log"]
    assert [(level, text, run)] == [(one["level"], one["text"], one["run_id"]) for one in logged]


def test_quiet_logs_tell_what_is_wrong_only(place: Workplace):
    for task in ("nightly_report", "awaited", "fails"):
        place.duly("enqueue", task)
    with started(place, "worker", "--log-format", "json", "--quiet") as process:
        # What the others have to tell may come after it.
        told = told_until(process, "run-dead") + stop(process)

    assert {"warning", "error"} == {one["level"] for one in told}
    assert {"run-log", "attempt-failed", "run-dead"} == {one["event"] for one in told}
    assert ["awaited"] == [one["text"] for one in told if one["event"] == "run-log"]


def test_logs_and_documents_contradict_each_other(place: Workplace):
    for command in ("dispatcher", "worker", "dev", "server"):
        answer = place.duly(command, "--json", "--log-format", "json")

        assert 2 == answer.status
        assert "contradicts --json" in answer.err


def test_one_trace_joins_processes_that_never_met(place: Workplace, monkeypatch):
    """A dispatcher, a worker and a task's own process, through a real collector."""
    (place.folder / "s.toml").write_text(SCHEDULE.replace("nightly_report", "apart"))
    with collecting() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
        with (
            started(place, "dispatcher", "--declare", "s.toml", "--traces", "--quiet"),
            started(place, "worker", "--traces", "--log-format", "json", "--log-runs") as process,
        ):
            wanted = {
                ("duly-dispatcher", "fire apart"),
                ("duly-worker", "attempt apart"),
                ("duly-task", "own work"),
            }
            ends: list[dict[str, Any]] = []

            def whole() -> list[dict[str, Any]]:
                # A task's process gives its collector a second: on a busy machine some spans are lost.
                ends.append(told_until(process, "run-succeeded")[-1])
                return [one for one in ends if wanted <= collector.names(one["trace_id"])]

            ended, *_ = wait_until("one run has all of its spans", whole)

    assert trace_text(UUID(ended["run_id"]).bytes) == ended["trace_id"]


def test_the_variables_of_opentelemetry_switch_traces_on_and_off(place: Workplace, monkeypatch):
    with collecting() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        monkeypatch.setenv("OTEL_TRACES_EXPORTER", "otlp")
        monkeypatch.setenv("OTEL_SERVICE_NAME", "shop")
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
        place.duly("enqueue", "nightly_report")
        with started(place, "worker", "--log-format", "json", "--log-runs") as process:
            told_until(process, "run-succeeded")
            assert comes_true(lambda: collector.spans)  # who ends does not wait for it for long
            stop(process)
        kept = list(collector.spans)
        monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
        place.duly("enqueue", "nightly_report")
        with started(place, "worker", "--traces", "--log-format", "json", "--log-runs") as process:
            ended = told_until(process, "run-succeeded")[-1]
            stop(process)

    assert [("shop", "attempt nightly_report")] == [one[:2] for one in kept]
    assert kept == collector.spans
    assert "trace_id" not in ended


def test_a_command_that_is_recorded_has_a_trace_if_it_is_asked_for(place: Workplace):
    """The order and the attempt are told when the command has ended, and not without a word."""
    with collecting() as collector:
        told = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url}
        place.duly("exec", "silent", "--", "true", **told)
        answer = place.duly("exec", "night", "--traces", "--", "true", **told)
        run = place.duly("run", "show", "night", "--json").json

    trace = trace_text(UUID(run["id"]).bytes)
    assert 0 == answer.status
    names = {("duly-exec", "promise exec:night"), ("duly-exec", "attempt exec:night")}
    assert names == collector.names(trace)
    assert "exec:silent" not in str(collector.spans)


def test_an_exporter_that_is_not_there_is_refused_by_name(place: Workplace):
    answer = place.duly("dispatcher", OTEL_TRACES_EXPORTER="zipkin")

    assert 2 == answer.status
    assert "OTEL_TRACES_EXPORTER: 'zipkin' is not an exporter" in answer.err


def test_a_collector_that_says_nothing_holds_up_neither_work_nor_its_end(
    place: Workplace, monkeypatch
):
    """Spans wait in a bounded queue, and a process that is to end does not wait for them."""
    for _ in range(20):
        place.duly("enqueue", "nightly_report")
    with silence() as url:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
        with started(place, "worker", "--traces", "--json", "--log-runs") as process:
            done = 0
            while done < 20:
                done += json.loads(read_line(process))["event"] == "run-succeeded"
            process.send_signal(signal.SIGTERM)

            assert 0 == process.wait(LIMIT_SECONDS)
