"""A program's own logging: every record of a task's code has the ids of its run."""

from __future__ import annotations

import json
import logging
import sys
from datetime import datetime
from pathlib import Path

import pytest

import duly
from duly.app.loading import load_app
from tests.telemetry.recorded import at_work, span_id, trace_of, wait_state

PLACE = f"{Path(__file__).with_name('logged_tasks.py')}:app"


@pytest.fixture
def log(tmp_path, monkeypatch):
    """The file that the program logs to; what it has set up is undone."""
    path = tmp_path / "program.log"
    monkeypatch.setenv("LOGGED_TO", str(path))
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield path
    for one in [one for one in root.handlers if one not in handlers]:
        root.removeHandler(one)
        one.close()
    root.setLevel(level)
    for one in handlers:
        if one not in root.handlers:
            root.addHandler(one)


@pytest.fixture
def app(tmp_path, monkeypatch, log):
    monkeypatch.setenv("DULY_URL", f"sqlite:///{tmp_path}/duly.db")
    loaded = load_app(PLACE)
    yield loaded
    loaded.close()
    for name, module in list(sys.modules.items()):
        if getattr(module, "__file__", None) == PLACE.rpartition(":")[0]:
            del sys.modules[name]


def logged(log: Path) -> list[dict[str, object]]:
    text = log.read_bytes().decode("ascii")

    assert text.endswith("\n")
    return [
        found
        for line in text.split("\n")[:-1]
        if (found := json.loads(line))["logger"] == "shop.orders"
    ]


@pytest.mark.parametrize("task", ["in_thread", "awaited", "in_process"])
def test_a_record_of_a_tasks_code_has_the_ids_of_its_run(app, log, task):
    """In threads, on the loop and beside it, and in a process of its own."""
    schedule = app.schedules.create("nightly", app.call(task), duly.every("1h"))
    with at_work(app):
        run = app.schedules.trigger("nightly")
        wait_state(app, run.id, "succeeded")
    (line,) = logged(log)

    assert ["time", "level", "event", "schedule_id", "schedule", "run_id", "attempt_id"] == [*line][
        :7
    ]
    assert (str(schedule.id), "nightly") == (line["schedule_id"], line["schedule"])
    assert (str(run.id), f"{run.id}.1", task) == (line["run_id"], line["attempt_id"], line["task"])
    assert str(line["time"]).endswith("Z")
    assert datetime.fromisoformat(str(line["time"])).tzinfo


@pytest.mark.parametrize("task", ["in_thread", "in_process"])
def test_a_record_has_the_trace_of_its_run_if_there_is_one(app, log, recorded, task):
    """So that a log and a trace lead to each other."""
    app.traces.tracing = recorded.tracing
    with at_work(app):
        run = app.enqueue(app.call(task))
        wait_state(app, run.id, "succeeded")
    (line,) = logged(log)
    attempt = recorded.named("attempt")[0]

    assert f"{trace_of(attempt):032x}" == line["trace_id"]
    assert f"{span_id(attempt):016x}" == line["span_id"]


def test_what_is_given_besides_is_written_too(app, log):
    with at_work(app):
        wait_state(app, app.enqueue(app.call("in_thread")).id, "succeeded")
    (line,) = logged(log)

    assert ("in a thread", 42, "{'a': 1}") == (line["message"], line["order"], line["items"])


def test_no_text_breaks_its_line(app, log):
    """Whatever a message or an error holds, it is one line of ASCII, and reads back as it was."""
    with at_work(app):
        wait_state(app, app.enqueue(app.call("complains")).id, "succeeded")
    (line,) = logged(log)

    assert "it \r\nfailed \x00" == line["message"]
    assert "two\nlines \x1b[31m\u0085\u2028" in str(line["error"])
    assert "error" == line["level"]


def test_outside_of_a_run_a_record_has_empty_ids():
    """A format that names them works everywhere."""
    record = logging.makeLogRecord({"msg": "begun", "levelno": 20, "levelname": "INFO"})
    formatter = logging.Formatter("[%(run_id)s|%(schedule)s|%(trace_id)s] %(message)s")

    assert duly.RunLogFilter().filter(record)
    assert "[||] begun" == formatter.format(record)
    assert "run_id" not in json.loads(duly.JsonLogFormatter().format(record))


def test_ids_that_a_record_brings_are_kept():
    record = logging.makeLogRecord({"msg": "begun", "run_id": "mine"})
    duly.RunLogFilter().filter(record)

    assert "mine" == json.loads(duly.JsonLogFormatter().format(record))["run_id"]


def test_after_a_run_in_virtual_time_nobodys_code_is_running():
    """What a program logs next is its own, and no run's."""
    app = duly.App("memory:")
    app.task(name="quiet")(lambda: None)
    with duly.testing.virtual_time(app, "2026-04-03T02:00") as clock:
        app.enqueue(app.call("quiet"))
        clock.advance("1m")
    record = logging.makeLogRecord({"msg": "after", "levelno": 20, "levelname": "INFO"})
    duly.RunLogFilter().filter(record)

    assert "" == vars(record)["run_id"]
