"""What a process counts of itself, and the port at which it tells it."""

from __future__ import annotations

import socket
from typing import Any

import httpx
import pytest

from duly.app.metrics import telling_metrics
from duly.engine.dispatcher.context import DISPATCHER_METRICS, Statistics, note_dispatcher
from duly.errors import UsageError
from duly.telemetry import AttemptFailed, Event, RunSucceeded, TimersFired
from duly.telemetry.listeners import (
    OTHER_TASKS,
    PROCESS_METRICS,
    TASKS_MAX,
    WORKER_METRICS,
    EventCounter,
)
from duly.telemetry.prometheus import MEDIA_TYPE, Metric, MetricSamples
from tests.engine.rig import Recorder
from tests.waiting import LIMIT_S

SPREAD = "duly_dispatcher_lateness_seconds"


class Deaf(Recorder):
    """Does not want to hear of fires."""

    def is_listening(self, kind: type[Event]) -> bool:
        return kind is not TimersFired


def ended(kind: Any = RunSucceeded, task: str = "report", **parts: Any) -> Event:
    terms = {"state": "succeeded", "took_us": 20_000, "error": "", "reason": "", "then": ""}
    ids = {"member": 1, "run_id": "r", "attempt_id": "a", "schedule": "", "number": 1}
    event: Event = kind(task=task, **ids, **terms | parts)
    return event


def test_events_are_counted_and_passed_on_to_whoever_hears_them():
    heard = Deaf()
    counting = EventCounter(heard)
    counting.emit(TimersFired(member=1, fired=1, runs=1, lateness_max_us=0))
    counting.emit(ended())
    counting.emit(ended(AttemptFailed, state="failed", took_us=9_000_000_000))
    measured = MetricSamples((*WORKER_METRICS, *PROCESS_METRICS))
    counting.note_events(measured)
    counting.note_attempts(measured)
    lines = measured.text().splitlines()

    assert [RunSucceeded, AttemptFailed] == [type(event) for event in heard.events]
    assert 'duly_events_total{event="batch-fired"} 1' in lines
    assert 'duly_worker_attempts_total{task="report",state="failed"} 1' in lines
    assert 'duly_worker_attempt_seconds_bucket{le="0.025"} 1' in lines
    assert 'duly_worker_attempt_seconds_bucket{le="7200"} 1' in lines
    assert 'duly_worker_attempt_seconds_bucket{le="+Inf"} 2' in lines
    assert "duly_worker_attempt_seconds_sum 9000.02" in lines


def test_names_that_callers_make_up_fill_nothing():
    counting = EventCounter(Recorder())
    for number in range(TASKS_MAX + 5):
        counting.emit(ended(task=f"exec:{number}"))
    measured = MetricSamples(WORKER_METRICS)
    counting.note_attempts(measured)
    lines = measured.text().splitlines()

    assert TASKS_MAX + 1 == sum(line.startswith("duly_worker_attempts_total{") for line in lines)
    assert f'duly_worker_attempts_total{{task="{OTHER_TASKS}",state="succeeded"}} 5' in lines


def test_what_somebody_wrote_does_not_forge_a_number():
    metric = Metric("duly_example", "gauge", "An example.", ("name",))
    measured = MetricSamples((metric,))
    measured.note(metric, 0.5, 'a"} 1\nduly_early_fires 9\\')

    assert (
        r'duly_example{name="a\"} 1\nduly_early_fires 9\\"} 0.5'
        == (measured.text().splitlines()[-1])
    )


def test_a_dispatchers_lateness_is_spread_over_its_buckets():
    """Each fire in every bucket that it is not above."""
    statistics = Statistics(fired=3, runs=2)
    statistics.note_lateness([100, 5_000, 3_600_000_000])
    measured = MetricSamples(DISPATCHER_METRICS)
    note_dispatcher(measured, statistics)
    lines = measured.text().splitlines()

    assert "duly_dispatcher_fired_total 3" in lines
    assert 'duly_dispatcher_runs_total{lane="live"} 2' in lines
    assert f'{SPREAD}_bucket{{le="0.001024"}} 1' in lines
    assert f'{SPREAD}_bucket{{le="0.004096"}} 1' in lines
    assert f'{SPREAD}_bucket{{le="0.008192"}} 2' in lines
    assert f'{SPREAD}_bucket{{le="536.870912"}} 2' in lines
    assert f'{SPREAD}_bucket{{le="+Inf"}} 3' in lines
    assert (f"{SPREAD}_sum 3600.0051", f"{SPREAD}_count 3") == tuple(lines[-2:])


def test_a_port_answers_this_machine_about_nothing_else():
    """By its own names only, so that no page elsewhere can read it in a browser."""
    metric = Metric("duly_example", "gauge", "An example.")
    measured = MetricSamples((metric,))
    measured.note(metric, 1)
    told = []
    with telling_metrics(0, lambda: measured, lambda *line: told.append(line)):
        ((text, facts),) = told
        root = facts["url"].removesuffix("/metrics")
        port = httpx.URL(root).port
        answers = [
            httpx.get(f"{root}/metrics", timeout=LIMIT_S),
            httpx.get(f"{root}/metrics", headers={"Host": f"evil.example:{port}"}, timeout=LIMIT_S),
            httpx.get(f"{root}/", timeout=LIMIT_S),
            httpx.post(f"{root}/metrics", timeout=LIMIT_S),
        ]

    assert f"metrics at http://127.0.0.1:{port}/metrics" == text
    assert [200, 421, 404, 501] == [answer.status_code for answer in answers]
    assert (MEDIA_TYPE, measured.text()) == (answers[0].headers["content-type"], answers[0].text)
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{root}/metrics", timeout=LIMIT_S)


def test_a_port_that_is_none_or_taken_is_named():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        for port in (-1, 65_536, taken.getsockname()[1]):
            with (
                pytest.raises(UsageError, match="metrics-port"),
                telling_metrics(port, lambda: MetricSamples(()), lambda *_: None),
            ):
                pytest.fail("is listened on")
