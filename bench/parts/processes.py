"""What dispatcher processes are like from outside: how late they fire, how soon one is replaced."""

from __future__ import annotations

import json
import random
import select
import signal
import subprocess
import sys
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING

from bench.stores.places import CLOCK, EPOCH, SECOND_US, Promise, new_app, number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import duly
    from bench.stores.places import Place

ROOT = Path(__file__).resolve().parents[2]
LIMIT_US = 60 * SECOND_US
SETTLING_SECONDS = 2


@contextmanager
def dispatcher(url: str) -> Iterator[subprocess.Popen[str]]:
    """Run `duly dispatcher` on a store, from when it owns its shards."""
    command = [sys.executable, "-m", "duly", "dispatcher", "--json", "--url", url]
    with subprocess.Popen(  # noqa: S603 - our own command
        command, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            for line in process.stdout:
                if json.loads(line)["event"] == "leases-acquired":
                    break
            yield process
        finally:
            process.terminate()


def idle_lateness(place: Place, timers: int, seconds: int) -> tuple[list[int], list[int]]:
    """Fire timers at random instants; return their lateness, and that of a bare wait beside it."""
    draw = random.Random(7)
    with new_app(place.url) as app, dispatcher(place.url) as process:
        _wait_until_settled(place, process.pid)
        start_at = CLOCK.now_us() + 3 * SECOND_US + timers * 20_000
        dues = [start_at + draw.randrange(seconds * SECOND_US) for _ in range(timers)]
        for due_at in dues:
            enqueue(app, due_at)
        floors = [start_at + draw.randrange(seconds * SECOND_US) for _ in range(timers)]
        floor = _floor(sorted(floors))
        wait(lambda: _delayed_runs(place, start_at) >= timers)
    return lateness(place, start_at), floor


def near_lateness(
    place: Place,
    promises: int,
    ahead_ms: int,
    promise: Callable[[duly.App, int], object] | None = None,
) -> list[int]:
    """Promise something for a moment that is almost there, from another process (F6)."""
    draw = random.Random(11)
    with new_app(place.url) as app, dispatcher(place.url) as process:
        _wait_until_settled(place, process.pid)
        before = _runs(place)
        enqueue(app, CLOCK.now_us())  # what is done for the first time takes longer
        wait(lambda: _runs(place) > before)
        start_at = CLOCK.now_us()
        for _ in range(promises):
            (promise or enqueue)(app, CLOCK.now_us() + ahead_ms * 1000)
            # Not in step with whatever the dispatcher does at regular times.
            sleep((ahead_ms + draw.randrange(2 * ahead_ms)) / 1000)
        wait(lambda: _delayed_runs(place, start_at) >= promises)
    return lateness(place, start_at)


def enqueue(app: duly.App, due_at: int, connection: object | None = None) -> None:
    at = EPOCH + timedelta(microseconds=due_at)
    app.enqueue(app.call("ping"), at=at, past="run", connection=connection)


def lateness(place: Place, since: int) -> list[int]:
    """Return how late delayed runs were fired that were due since then, sorted."""
    found = place.rows(f"""
        SELECT fired_at - not_before FROM duly.runs
        WHERE schedule_id IS NULL AND scheduled_for >= {since:d}""")  # noqa: S608
    return sorted(late for (late,) in found)


def takeover(place: Place, how: signal.Signals) -> float:
    """End one of two dispatchers; return seconds until a shard of its fires elsewhere."""
    now = CLOCK.now_us()
    place.fill(
        Promise(due_at=now + 5 * SECOND_US + one * 2000, period_us=SECOND_US) for one in range(500)
    )
    half = number(place, "SELECT shards FROM duly.cluster") // 2
    with dispatcher(place.url) as victim, dispatcher(place.url):
        wait(lambda: len(_shards(place, victim.pid)) == half and _runs(place) > 1000)
        shards = _shards(place, victim.pid)
        ended_at = CLOCK.now_us()
        victim.send_signal(how)
        victim.wait()
        # What the victim fired in its last moment is not the heir's.
        is_killed = how == signal.SIGKILL
        after = _last_fire(place, shards) if is_killed else _left_at(place, victim.pid)
        after = max(after, ended_at)
        sql = f"""
            SELECT min(r.fired_at) FROM duly.runs r
            JOIN duly.schedule_state t ON t.schedule_id = r.schedule_id
            WHERE r.fired_at > {after} AND t.shard IN ({",".join(map(str, shards))})"""  # noqa: S608
        wait(lambda: number(place, sql) > 0)
        first = number(place, sql)
    place.remove()
    return (first - ended_at) / SECOND_US


def wait(condition: Callable[[], bool]) -> None:
    ends = CLOCK.monotonic_us() + LIMIT_US
    while not condition():
        assert CLOCK.monotonic_us() < ends, "it did not come about in a minute"
        sleep(0.02)


def _wait_until_settled(place: Place, process: int) -> None:
    """Wait until a dispatcher owns everything, and has read what there is."""
    shards = number(place, "SELECT shards FROM duly.cluster")
    wait(lambda: len(_shards(place, process)) == shards)
    sleep(SETTLING_SECONDS)


def _delayed_runs(place: Place, since: int) -> int:
    return len(lateness(place, since))


def _runs(place: Place) -> int:
    return number(place, "SELECT count(*) FROM duly.runs")


def _shards(place: Place, process: int) -> list[int]:
    found = place.rows(f"""
        SELECT l.shard FROM duly.leases l JOIN duly.members m ON m.id = l.owner
        WHERE l.lane = 'live' AND m.process = {process:d}""")  # noqa: S608
    return [shard for (shard,) in found]


def _left_at(place: Place, process: int) -> int:
    sql = f"SELECT max(ended_at) FROM duly.members WHERE process = {process:d}"  # noqa: S608
    return number(place, sql)


def _last_fire(place: Place, shards: list[int]) -> int:
    places = ",".join(map(str, shards))
    sql = f"SELECT max(last_fired_at) FROM duly.schedule_state WHERE shard IN ({places})"  # noqa: S608
    return number(place, sql)


def _floor(instants: list[int]) -> list[int]:
    """Wait for instants in a process of its own, as barely as Python can."""
    command = [sys.executable, "-m", "bench.parts.processes"]
    given = json.dumps(instants)
    ended = subprocess.run(  # noqa: S603 - our own command
        command, input=given, capture_output=True, text=True, check=True, cwd=ROOT
    )
    return sorted(json.loads(ended.stdout))


def _wait_barely() -> None:
    """Wait for each instant on standard input; print how late each wait ended, in microseconds."""
    late = []
    for instant in json.load(sys.stdin):
        while (left_us := instant - CLOCK.now_us()) > 0:
            select.select([], [], [], left_us / SECOND_US)
        late.append(CLOCK.now_us() - instant)
    print(json.dumps(late))


if __name__ == "__main__":
    _wait_barely()
