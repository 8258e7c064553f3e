"""What observing costs: not one call of the store, and not one row.

On virtual time, so that what is asked of the store is the same at every run but for what is changed
between two of them. What a run costs on real databases is counted in tests/bench/test_counts.py.
"""

from __future__ import annotations

import logging

from duly.cli.event_lines import LineTelemetry, Style
from duly.domain.enums import Effects
from duly.domain.outcomes import SUCCEEDED, Failed
from duly.domain.policies import Retry
from duly.domain.runs import Progress, TaskPolicy
from duly.telemetry.listeners import EventCounter
from tests.engine.rig import MINUTE, SECOND, Known, Rig
from tests.telemetry.recorded import Recorded

POLICY = TaskPolicy(retry=Retry(attempts=3, base="2s"), effects=Effects.UNSAFE)


def work(attempt) -> None:
    """Fail at first; then say and do all that a task can."""
    attempt.began()
    if attempt.claimed.tries.attempt == 1:
        attempt.ended(Failed("the other side is away", is_undone=True))
        return
    attempt.live.advance(Progress(1, 2, "half"))
    attempt.live.save("", "1")
    attempt.live.write("info", "a line")
    attempt.live.begin_effect("charge")
    attempt.live.end_effect("charge", None)
    attempt.ended(SUCCEEDED)


def story(recorded: Recorded | None):
    """Run a fleet for a while; return all calls of the store, and what is in it then."""
    rig = Rig()
    if recorded is not None:
        rig.tracing = recorded.tracing
        log = LineTelemetry(rig.store_clock, level=logging.DEBUG, style=Style.LOG)
        log.has_traces = True
        rig.recorder = EventCounter(log)
    rig.dispatcher()
    shop = rig.worker(Known("report", POLICY), Known("remind", POLICY))
    shop.executor.on_start = work
    rig.schedule()
    for number in range(20):
        rig.delay(number * SECOND, f"reminder {number}")
    rig.run(10 * MINUTE)
    return [rig.lines[0].calls, shop.line.calls], rig.runs()


def test_whoever_observes_asks_nothing_of_the_store(capsys):
    """The same calls in the same order, and the same runs."""
    recorded = Recorded()

    plain_calls, plain_runs = story(None)
    assert not capsys.readouterr().err
    calls, runs = story(recorded)

    assert plain_calls == calls
    assert plain_runs == runs
    assert len(runs) >= 20
    # It was observed: each run twice, with all that it did.
    assert 2 * len(runs) == len(recorded.named("attempt"))
    assert len(runs) == len(recorded.named("effect")) == len(recorded.named("checkpoint"))
    told = capsys.readouterr().err.splitlines()
    assert len(runs) == sum('"event": "run-log"' in line for line in told)
