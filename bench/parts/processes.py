"""Dispatchers from outside: started as anybody does, waited for, and how soon one is replaced."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from contextlib import contextmanager
from time import sleep
from typing import TYPE_CHECKING

from bench.stores.places import CLOCK, SECOND_US, Promise, number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bench.stores.places import Place

LIMIT_US = 60 * SECOND_US


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
