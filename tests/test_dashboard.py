"""The Grafana dashboard: it asks for nothing but what docs/metrics.md has, and shows both lights."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import promql_parser
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

DOCS = Path(__file__).parents[1] / "docs"
DASHBOARD = json.loads((DOCS / "grafana" / "duly.json").read_text())
ROW = re.compile(r"^\| `(duly_\w+)` \| (\w+) \| ([^|]*) \|", re.MULTILINE)
LABEL_VALUES = re.compile(r"^label_values\((.+), (\w+)\)$")
INTERVAL = "$__rate_interval"
SPREAD = ("_bucket", "_sum", "_count")
LIGHTS = {"duly_dispatch_well", "duly_work_well"}
WANTED = {
    *LIGHTS,
    "duly_dispatcher_lateness_seconds",
    "duly_queue_oldest_age_seconds",
    "duly_schedule_last_success_timestamp_seconds",
    "duly_schedule_last_verified_timestamp_seconds",
    "duly_runs",
    "duly_breakers",
    "duly_early_fires",
    "duly_member_clock_skew_seconds",
    "duly_backfill_occurrences_left",
}


class Asked(NamedTuple):
    """One metric that an expression asks for, and the labels that it names of it."""

    metric: str
    labels: frozenset[str]


def documented() -> dict[str, tuple[str, frozenset[str]]]:
    """Return what docs/metrics.md has: by name, the kind and the labels."""
    page = (DOCS / "metrics.md").read_text()
    return {
        name: (kind, frozenset(re.findall(r"`(\w+)`", labels)))
        for name, kind, labels in ROW.findall(page)
    }


def panels() -> list[dict[str, Any]]:
    return [one for one in DASHBOARD["panels"] if one["type"] != "row"]


def targets() -> Iterator[tuple[str, dict[str, Any]]]:
    for panel in panels():
        for target in panel["targets"]:
            yield panel["title"], target


def expressions() -> list[tuple[str, str]]:
    """Return every expression, with the panel or variable that it is of."""
    found = [(title, target["expr"]) for title, target in targets()]
    for variable in DASHBOARD["templating"]["list"]:
        if variable["type"] == "query":
            match = LABEL_VALUES.match(variable["query"]["query"])

            assert match, variable
            found.append((variable["name"], f"count by ({match[2]}) ({match[1]})"))
    return found


def asked(expression: str) -> list[Asked]:
    return list(_asked(promql_parser.parse(expression.replace(INTERVAL, "5m")), frozenset()))


def _asked(expression: Any, grouped: frozenset[str]) -> Iterator[Asked]:
    match type(expression).__name__:
        case "VectorSelector":
            named = {one.name for one in expression.matchers.matchers}
            yield Asked(expression.name, grouped | named)
        case "MatrixSelector":
            yield from _asked(expression.vector_selector, grouped)
        case "AggregateExpr":
            labels = expression.modifier.labels if expression.modifier else ()
            yield from _asked(expression.expr, grouped | frozenset(labels))
        case "Call":
            for argument in expression.args:
                yield from _asked(argument, grouped)
        case "BinaryExpr":
            yield from _asked(expression.lhs, grouped)
            yield from _asked(expression.rhs, grouped)
        case "NumberLiteral":
            return
        case other:
            pytest.fail(f"{other} is not looked into")


def metric_of(name: str) -> str:
    """Return the metric that a series belongs to: a histogram has several."""
    for ending in SPREAD:
        if name.removesuffix(ending) in documented():
            return name.removesuffix(ending)
    return name


def problems_of(expression: str) -> list[str]:
    """Return what is wrong with the metrics and labels that an expression asks for."""
    found, known = asked(expression), documented()
    problems = [] if found else ["it asks for nothing"]
    for one in found:
        kind, labels = known.get(metric_of(one.metric), ("unknown", frozenset()))
        is_rate = re.search(rf"rate\({one.metric}\b", expression) is not None
        holds = {
            "is documented": kind != "unknown",
            "has documented labels only": one.labels
            <= labels | ({"le"} if kind == "histogram" else set()),
            "is asked for by bucket if it is a histogram, and only then": (kind == "histogram")
            == one.metric.endswith("_bucket"),
            "is shown as a rate unless it is a gauge": (kind != "gauge") == is_rate,
        }
        problems += [
            f"{one.metric}: not true: it {rule}" for rule, is_so in holds.items() if not is_so
        ]
    return problems


def test_expressions_ask_for_documented_metrics_and_labels_in_the_right_way():
    """Names and labels that are told, or a panel stays empty for ever."""
    found = {(title, one): problems_of(one) for title, one in expressions()}

    assert len(found) > 20
    assert {} == {key: problems for key, problems in found.items() if problems}


def test_both_lights_are_side_by_side_and_never_merged():
    """No expression has both, and neither is bigger or comes first by more than its place."""
    lights = [panel for panel in panels() if {one.metric for one in _of(panel)} & LIGHTS]
    left, right = lights

    assert [{"duly_dispatch_well"}, {"duly_work_well"}] == [
        {one.metric for one in _of(panel)} for panel in lights
    ]
    assert left["type"] == right["type"] == "stat"
    assert left["gridPos"]["y"] == right["gridPos"]["y"] == 1
    assert left["gridPos"]["w"] == right["gridPos"]["w"] == right["gridPos"]["x"] == 12
    # Where nobody tells, it is neither well nor not: nothing is green for want of news.
    assert "no data" == left["fieldConfig"]["defaults"]["noValue"]
    assert "red" == left["fieldConfig"]["defaults"]["thresholds"]["steps"][0]["color"]


def _of(panel: dict[str, Any]) -> list[Asked]:
    return [one for target in panel["targets"] for one in asked(target["expr"])]


def test_what_an_operator_looks_for_is_there():
    shown = {metric_of(one.metric) for panel in panels() for one in _of(panel)}

    assert shown >= WANTED
    told = " ".join(expression for _, expression in expressions())
    assert 'state="ambiguous"' in told
    assert 'state="dead"' in told


def test_the_source_of_data_is_a_variable():
    """Nobody's own source is written into the file."""
    sources = [panel["datasource"] for panel in panels()]
    sources += [target["datasource"] for _, target in targets()]
    kinds = [one["type"] for one in DASHBOARD["templating"]["list"]]

    assert "datasource" == kinds[0]
    assert all({"type": "prometheus", "uid": "${datasource}"} == one for one in sources)
    named = {one["name"] for one in DASHBOARD["templating"]["list"]} | {"__rate_interval", "__all"}
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(DASHBOARD)))
    assert used <= named


def test_panels_have_ids_of_their_own_and_do_not_lie_upon_each_other():
    ids = Counter(one["id"] for one in DASHBOARD["panels"])
    taken = Counter(
        (x, y)
        for panel in DASHBOARD["panels"]
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    )

    assert {1} == set(ids.values())
    assert {1} == set(taken.values())
    assert max(x for x, _ in taken) < 24


def test_the_file_is_a_dashboard_of_the_version_that_it_names():
    """Fields that Grafana reads in this version of its schema, which has had them since 8."""
    assert 39 == DASHBOARD["schemaVersion"]
    assert {"uid", "title", "panels", "templating", "time", "timezone"} <= set(DASHBOARD)
    kinds = {"stat", "timeseries", "heatmap", "table"}
    for panel in panels():
        assert panel["type"] in kinds
        assert {"fieldConfig", "options", "gridPos", "description"} <= set(panel)
        assert len({one["refId"] for one in panel["targets"]}) == len(panel["targets"])
        steps = panel["fieldConfig"]["defaults"].get("thresholds", {}).get("steps", [])
        assert all((one["value"] is None) == (at == 0) for at, one in enumerate(steps))
