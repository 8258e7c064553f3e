"""Runs that are alike, said once: what one of them is by itself."""

from __future__ import annotations

from dataclasses import replace

import pytest

from duly.domain.enums import Origin
from duly.store.runs_alike import alike_later
from duly_conformance.kit import ADA, HOUR_US, add_runs, new_run

RUNS = tuple(
    replace(one, call=replace(one.call, arguments=f'{{"class":{number}}}'))
    for number in range(5)
    for one in (new_run(HOUR_US, f"{number}", is_drawn=True, fingerprint=""),)
)


def test_each_of_them_is_what_was_ordered():
    alike = alike_later(add_runs(*RUNS))

    assert alike is not None
    assert RUNS == tuple(alike)
    assert (5, RUNS[-1], [*RUNS[1:3]]) == (len(alike), alike[-1], alike[1:3])
    assert alike is alike_later(replace(add_runs(), runs=alike))


@pytest.mark.parametrize(
    "parts",
    [
        {"is_drawn": False},
        {"key": "k"},
        {"schedule_id": b"s" * 16},
        {"tenant": "other"},
        {"due_at": HOUR_US + 1},
        {"delay_us": 1},
        {"is_late_ok": True},
        {"origin": Origin.MANUAL},
        {"call": replace(RUNS[0].call, queue="other")},
        {"call": replace(RUNS[0].call, priority=0)},
        {"call": replace(RUNS[0].call, task="other")},
    ],
)
def test_one_that_is_not_like_the_others_is_looked_at(parts):
    assert alike_later(add_runs(*RUNS[1:], replace(RUNS[0], **parts))) is None


def test_what_is_wanted_at_once_or_by_a_person_is_looked_at():
    assert alike_later(add_runs()) is None
    assert alike_later(add_runs(new_run(None, is_drawn=True))) is None
    assert alike_later(replace(add_runs(*RUNS), actor=ADA)) is None
