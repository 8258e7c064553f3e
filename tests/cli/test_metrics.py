"""`--metrics-port` of dispatchers and workers, as processes."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import httpx

from duly.engine.dispatcher.context import DISPATCHER_METRICS
from duly.telemetry.listeners import PROCESS_METRICS, WORKER_METRICS
from tests.cli.test_dispatcher import LIMIT_SECONDS, events_until

if TYPE_CHECKING:
    import subprocess

    from duly.telemetry.prometheus import Metric
    from tests.cli.duly_command import Workplace


def test_a_dispatcher_tells_its_own_numbers(place: Workplace):
    process = place.start("dispatcher", "--json", "--metrics-port", "0")
    try:
        url = events_until(process, "metrics")[-1]["url"]
        events_until(process, "leases-acquired")
        told = scraped(url)
        stop(process)
    finally:
        process.kill()
        process.communicate()

    assert_told(told, *DISPATCHER_METRICS, *PROCESS_METRICS)
    assert 'duly_events_total{event="joined"} 1' in told
    assert "duly_dispatcher_fired_total 0" in told


def test_a_supervised_worker_tells_its_own_numbers(place: Workplace):
    """The port is the worker's, and not its supervisor's."""
    place.duly("enqueue", "nightly_report")
    process = place.start("worker", "--json", "--log-runs", "--metrics-port", "0")
    try:
        url = events_until(process, "metrics")[-1]["url"]
        events_until(process, "run-succeeded")
        told = scraped(url)
        stop(process)
    finally:
        process.kill()
        process.communicate()

    assert_told(told, *WORKER_METRICS, *PROCESS_METRICS)
    assert 'duly_worker_attempts_total{task="nightly_report",state="succeeded"} 1' in told


def test_processes_do_not_share_a_port(place: Workplace):
    answer = place.duly("worker", "--processes", "2", "--metrics-port", "9422")

    assert 2 == answer.status
    assert "each with a port of its own" in answer.err

    chosen = place.duly("worker", "--processes=2", "--metrics-port=0", "--app=missing:app")

    assert "'missing'" in chosen.err
    assert "metrics-port" not in chosen.err


def scraped(url: str) -> list[str]:
    return httpx.get(url, timeout=LIMIT_SECONDS).text.splitlines()


def stop(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGTERM)
    events_until(process, "stopped")

    assert 0 == process.wait(LIMIT_SECONDS)


def assert_told(lines: list[str], *metrics: Metric) -> None:
    types = [line.split()[2] for line in lines if line.startswith("# TYPE ")]

    assert [one.name for one in metrics] == types
