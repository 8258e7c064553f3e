"""Numbers for Prometheus: both lights, bounded, for an operator's eyes, and as documented."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import duly
from duly import every
from duly.app.metrics import (
    RUNS_LOOKED_AT_MAX,
    SCHEDULES_TOLD_MAX,
    STORE_METRICS,
    WINDOW_RUNS_MAX,
    measure,
)
from duly.domain.alert_rules import AlertKind
from duly.engine.dispatcher.context import DISPATCHER_METRICS
from duly.store.memory import MemoryStore
from duly.telemetry.listeners import PROCESS_METRICS, WORKER_METRICS
from duly.telemetry.prometheus import MEDIA_TYPE
from duly_conformance import alerts
from tests.api.api_fixtures import token_for

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"
URL = "http://localhost/metrics"
SAMPLE = re.compile(r'^([a-z_]+)(?:\{((?:[a-z]+="(?:[^"\\\n]|\\.)*",?)+)\})? (\S+)$')
ROW = re.compile(r"^\| `(duly_\w+)` \| (\w+) \| (.*?) ?\| (.+) \|$", re.MULTILINE)


def numbers(text: str) -> dict[str, float]:
    """Read the text as Prometheus does: each number by its name and labels."""
    lines = [line for line in text.splitlines() if not line.startswith("# ")]
    found = {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines}
    assert [] == [line for line in lines if not SAMPLE.match(line)]
    assert len(found) == len(lines), "no number is told twice"
    return found


def test_the_state_of_everything_is_told_in_numbers(desk):
    """What is dead, in doubt and well, and when a schedule's work last succeeded."""
    answer = desk.asked.get(URL)
    told = numbers(answer.text)
    whose = '{tenant="default",schedule="hourly"}'

    assert (200, MEDIA_TYPE) == (answer.status_code, answer.headers["content-type"])
    assert (1, 1) == (told['duly_runs{state="dead"}'], told['duly_runs{state="ambiguous"}'])
    assert 1 == told['duly_schedules{status="active"}']
    assert (0, 0) == (told["duly_early_fires"], told["duly_timers_overdue"])
    fires = told[f"duly_schedule_fires_total{whose}"]
    assert 1 <= fires
    assert (
        told[f"duly_schedule_last_success_timestamp_seconds{whose}"]
        >= (told[f"duly_schedule_last_fire_timestamp_seconds{whose}"])
    )
    next_due = told[f"duly_schedule_next_due_timestamp_seconds{whose}"]
    assert next_due == told["duly_timers_next_due_timestamp_seconds"]


def test_a_queue_that_backs_up_shows_while_triggers_are_punctual(asked, app, clock):
    """Whether time is kept and whether work gets done are never one light."""
    app.enqueue(app.call("report"))
    clock.advance("11m")
    told = numbers(asked.get(URL).text)

    assert (1, 0) == (told["duly_dispatch_well"], told["duly_work_well"])
    assert 660 == told['duly_queue_oldest_age_seconds{queue="default"}']
    assert 1 == told['duly_findings{light="work",code="queue-without-worker"}']


def test_a_timer_that_nobody_fires_shows_while_no_work_waits(asked, app, clock):
    """The other way round."""
    app.schedules.create("hourly", app.call("report"), every("1h"))
    clock.advance("90m")
    told = numbers(asked.get(URL).text)

    assert (0, 1) == (told["duly_dispatch_well"], told["duly_work_well"])
    assert (1, 1) == (
        told["duly_timers_overdue"],
        told['duly_findings{light="dispatch",code="no-dispatcher"}'],
    )
    assert 0 < told["duly_timers_oldest_due_age_seconds"] <= 5400


def test_open_alerts_are_counted_by_kind_and_severity(asked, app):
    """Also that there are none; and the lights are by what is so now."""
    before = numbers(asked.get(URL).text)
    fence = alerts.watch(app.store)
    alerts.look(app.store, fence, alerts.condition("queue a"), severity="page")
    alerts.look(app.store, fence, *map(alerts.condition, ("queue a", "queue b")))
    told = numbers(asked.get(URL).text)
    alerts.look(app.store, fence)
    after = numbers(asked.get(URL).text)

    paging = 'duly_alerts_open{kind="queue-age",severity="page"}'
    warning = 'duly_alerts_open{kind="queue-age",severity="warn"}'
    assert len(AlertKind) == sum(name.startswith("duly_alerts_open") for name in before)
    assert (None, 0) == (before.get(paging), before[warning])
    assert (1, 1) == (told[paging], told[warning])
    assert (None, 0, 1) == (after.get(paging), after[warning], told["duly_work_well"])


@pytest.mark.parametrize(
    ("terms", "status"),
    [
        ({"role": "viewer"}, 200),
        ({"role": "viewer", "tenant": "theirs"}, 403),
        ({"role": "admin", "tenant": "default"}, 403),
        ({"role": "worker"}, 403),
    ],
)
def test_only_who_may_see_every_tenant_sees_the_numbers_of_all(asked, app, terms, status):
    headers = token_for(app, "somebody", **terms)

    assert status == asked.get(URL, headers=headers).status_code


def test_nobody_sees_them_without_a_token_or_by_another_name(asked):
    strangers = [
        asked.get(URL, headers={"Authorization": "Bearer duly_nonsense"}),
        asked.get(URL, headers={"Host": "evil.example"}),
        asked.post(URL),
    ]

    assert [401, 421, 404] == [answer.status_code for answer in strangers]


class Counted:
    """A store that counts what it is asked."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self.asked: list[tuple[str, Any]] = []

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if not callable(found):
            return found

        def call(*arguments: Any, **terms: Any) -> Any:
            self.asked.append((name, arguments))
            return found(*arguments, **terms)

        return call


def test_a_scrape_costs_the_same_however_much_there_is(clock):
    """As many calls of the store, and pages of a bounded size."""
    store = MemoryStore(clock)
    counted = Counted(store)
    app = duly.App(store=counted, clock=clock, actor="ada")
    app.task(name="report")(lambda: None)
    measure(app)
    few = [name for name, _ in counted.asked]
    for number in range(SCHEDULES_TOLD_MAX + 20):
        app.schedules.create(f"s{number:03}", app.call("report"), every("1h"))
    counted.asked.clear()
    told = numbers(measure(app).text())
    many = dict(counted.asked)

    assert few == [name for name, _ in counted.asked]
    assert 11 == len(few)
    (window,) = many["list_run_vitals"]
    assert (SCHEDULES_TOLD_MAX, WINDOW_RUNS_MAX) == (len(window.schedule_ids), window.limit)
    ids, runs = many["list_last_ends"]
    assert (SCHEDULES_TOLD_MAX, RUNS_LOOKED_AT_MAX) == (len(ids), runs)
    assert 20 == told['duly_metrics_left_out{what="schedules"}']
    assert SCHEDULES_TOLD_MAX == sum(name.startswith("duly_schedule_fires_total") for name in told)


def test_the_page_lists_exactly_what_is_told(asked):
    """Names, kinds, labels and meanings."""
    page = PAGE.read_text(encoding="utf-8")
    every_metric = (*STORE_METRICS, *DISPATCHER_METRICS, *WORKER_METRICS, *PROCESS_METRICS)
    shown = {name: (kind, labels, meaning) for name, kind, labels, meaning in ROW.findall(page)}
    declared = {
        one.name: (one.kind, ", ".join(f"`{label}`" for label in one.labels), one.meaning)
        for one in every_metric
    }
    types = re.findall(r"^# TYPE (\w+) ", asked.get(URL).text, re.MULTILINE)

    assert declared == shown
    assert [one.name for one in STORE_METRICS] == types
