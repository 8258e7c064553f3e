"""What a dispatcher process is like from outside: how late, how soon replaced, how large."""

from __future__ import annotations

import json
import os
import random
import select
import signal
import subprocess
import sys
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import apsw

from bench.engine_files import (
    CLOCK,
    EPOCH,
    SECOND_US,
    Promise,
    counting,
    far_away,
    file_mb,
    make_file,
    new_app,
    shift,
)
from bench.engine_firing import drive

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[1]
Rows = list[tuple[Any, ...]]
TICKS = os.sysconf("SC_CLK_TCK")
LIMIT_US = 60 * SECOND_US
DAY_US = 86_400 * SECOND_US
COST_SECONDS = 30


@contextmanager
def dispatcher(path: Path) -> Iterator[subprocess.Popen[str]]:
    """Run `duly dispatcher` on a file, from when it owns its shards."""
    command = [sys.executable, "-m", "duly", "dispatcher", "--json", "--url", f"sqlite:///{path}"]
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
            process.kill()


def idle_lateness(folder: Path, timers: int, seconds: int) -> tuple[list[int], list[int]]:
    """Fire timers at random instants; return their lateness, and that of a bare wait beside it."""
    path = make_file(folder / "idle.db")
    draw = random.Random(7)
    with new_app(path) as app, dispatcher(path):
        start_at = CLOCK.now_us() + 3 * SECOND_US + timers * 20_000
        dues = [start_at + draw.randrange(seconds * SECOND_US) for _ in range(timers)]
        for due_at in dues:
            app.enqueue(app.call("ping"), at=EPOCH + timedelta(microseconds=due_at))
        floors = [start_at + draw.randrange(seconds * SECOND_US) for _ in range(timers)]
        floor = _floor(sorted(floors))
        _wait_for_runs(path, timers)
    late = _lateness(path)
    _remove(path)
    return late, floor


def _floor(instants: list[int]) -> list[int]:
    """Wait for instants in a process of its own, as barely as Python can."""
    command = [sys.executable, "-m", "bench.engine_processes"]
    given = json.dumps(instants)
    ended = subprocess.run(  # noqa: S603 - our own command
        command, input=given, capture_output=True, text=True, check=True, cwd=ROOT
    )
    return sorted(json.loads(ended.stdout))


def near_lateness(folder: Path, promises: int, ahead_ms: int) -> list[int]:
    """Promise something for a moment that is almost there, from another process (F6)."""
    path = make_file(folder / "near.db")
    with new_app(path) as app, dispatcher(path):
        call = app.call("ping")
        for _ in range(promises):
            at = CLOCK.now() + timedelta(milliseconds=ahead_ms)
            app.enqueue(call, at=at, past="run")
            sleep(2 * ahead_ms / 1000)
        _wait_for_runs(path, promises)
    late = _lateness(path)
    _remove(path)
    return late


def takeover(folder: Path, number: signal.Signals) -> float:
    """End one of two dispatchers; return seconds until a shard of its fires elsewhere."""
    now = CLOCK.now_us()
    promises = (
        Promise(due_at=now + 5 * SECOND_US + one * 2000, period_us=SECOND_US) for one in range(500)
    )
    path = make_file(folder / "takeover.db", promises)
    look = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    with dispatcher(path) as victim, dispatcher(path):
        _wait(lambda: len(_shards(look, victim.pid)) == 4 and _runs(look) > 1000)
        shards = _shards(look, victim.pid)
        ended_at = CLOCK.now_us()
        victim.send_signal(number)
        victim.wait()
        sql = f"""
            SELECT min(r.fired_at) FROM duly_runs r
            JOIN duly_schedule_state t ON t.schedule_id = r.schedule_id
            WHERE r.fired_at > ? AND t.shard IN ({",".join(map(str, shards))})"""  # noqa: S608
        # What the victim fired in its last moment is not the heir's.
        after = max(ended_at, *_last_fires(look, shards)) if number == signal.SIGKILL else ended_at
        _wait(lambda: _number(look, sql, after) > 0)
        first = _number(look, sql, after)
    look.close()
    _remove(path)
    return (first - ended_at) / SECOND_US


class Footprint(NamedTuple):
    """What a dispatcher takes that has nothing to do for a week."""

    pending: int
    rss_mb: float
    file_mb: float
    cpu_seconds: float
    """In a minute."""
    counts: Counter[str]
    """In a minute."""


def footprint(folder: Path, pending: int, seconds: int) -> Footprint:
    """Measure a dispatcher over a file full of promises, half schedules and half delayed runs."""
    path = make_file(folder / "pending.db", far_away(pending // 2), far_away(pending // 2))
    with dispatcher(path) as process:
        sleep(5)  # until it has settled down
        before = _cpu_seconds(process.pid)
        sleep(seconds)
        cpu = (_cpu_seconds(process.pid) - before) * 60 / seconds
        rss = _rss_mb(process.pid)
    with counting() as counted, new_app(path) as app:
        service, wakeups = app.dispatcher(), app.store.wakeups()
        drive(service, wakeups, CLOCK.monotonic_us() + 5 * SECOND_US, None)
        first = counted.read()
        drive(service, wakeups, CLOCK.monotonic_us() + seconds * SECOND_US, None)
        counts = counted.read()
        counts.subtract(first)
        service.stop()
    for name in counts:
        counts[name] = counts[name] * 60 // seconds
    size = file_mb(path)
    _remove(path)
    return Footprint(pending, rss, size, cpu, counts)


def cost_per_fire(folder: Path, pending: int, kind: str, fires: int) -> dict[str, float]:
    """Count what SQLite does for each fire, over a file with so much else pending.

    Counted is all that a dispatcher does in the same number of seconds: joining, loading, reading
    definitions, firing.
    """
    other = {one: list(far_away(pending // 2)) for one in ("schedules", "delayed")}
    at_first = CLOCK.now_us() + DAY_US
    other[kind] += [Promise(due_at=at_first) for _ in range(fires)]
    path = make_file(folder / "cost.db", **other)
    began = CLOCK.monotonic_us()
    shift(path, CLOCK.now_us() + COST_SECONDS * SECOND_US // 2 - at_first, at_first)
    with counting() as counted, new_app(path) as app:
        service, wakeups = app.dispatcher(), app.store.wakeups()
        drive(service, wakeups, began + COST_SECONDS * SECOND_US, None)
        counts, fired = counted.read(), service.statistics.fired
        service.stop()
    _remove(path)
    assert fired == fires, f"{fired} of {fires} fired"
    return {name: count / fires for name, count in counts.items()}


def _wait(condition: object) -> None:
    ends = CLOCK.monotonic_us() + LIMIT_US
    while not condition():  # type: ignore[operator]
        assert CLOCK.monotonic_us() < ends, "it did not come about in a minute"
        sleep(0.02)


def _wait_for_runs(path: Path, count: int) -> None:
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    _wait(lambda: _runs(connection) >= count)
    connection.close()


def _runs(connection: apsw.Connection) -> int:
    return _number(connection, "SELECT count(*) FROM duly_runs")


def _number(connection: apsw.Connection, sql: str, *bindings: int) -> int:
    """Return the one number that is asked for; 0 if there is none."""
    rows = cast("Rows", connection.execute(sql, bindings).fetchall())
    return int(rows[0][0] or 0)


def _lateness(path: Path) -> list[int]:
    connection = apsw.Connection(str(path))
    sql = "SELECT fired_at - not_before FROM duly_runs"
    found = cast("Rows", connection.execute(sql).fetchall())
    connection.close()
    return sorted(late for (late,) in found)


def _shards(connection: apsw.Connection, process: int) -> list[int]:
    sql = """
        SELECT l.shard FROM duly_leases l JOIN duly_members m ON m.id = l.owner
        WHERE l.lane = 'live' AND m.process = ?"""
    return [shard for (shard,) in connection.execute(sql, (process,))]


def _last_fires(connection: apsw.Connection, shards: list[int]) -> list[int]:
    places = ",".join(map(str, shards))
    sql = f"SELECT max(last_fired_at) FROM duly_schedule_state WHERE shard IN ({places})"  # noqa: S608
    return [at or 0 for (at,) in connection.execute(sql)]


def _cpu_seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def _rss_mb(process: int) -> float:
    for line in Path(f"/proc/{process}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1000
    return 0.0


def _remove(path: Path) -> None:
    for one in path.parent.glob(f"{path.name}*"):
        one.unlink()


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
