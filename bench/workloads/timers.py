"""W6: a single timer on a system that does nothing else, and the pulse at :00.

Single timers are due a little under a tenth of a second apart, at no round instants; beside them
this process waits for such instants itself: what the machine's own timers make of it. The pulse
is 50,000 runs due at one instant among schedules that are due 1,000 a second.
"""

from __future__ import annotations

import threading
import time
from functools import partial
from typing import TYPE_CHECKING

from bench.harness import (
    SECOND_US,
    SETTLED_US,
    Crowd,
    Figures,
    Turn,
    in_time,
    kept,
    lateness,
    sleep_until,
)
from bench.peers.journal import read_journal
from bench.peers.protocol import now_us
from bench.running import started, told
from bench.workloads.punctuality import AFTERWARDS_SECONDS, Offered, fill, judged

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bench.contenders import Contender
    from bench.grounds import Grounds

SINGLE = "W6 single timer"
PULSE = "W6 pulse"
STEP_US = 97_003
PULSE_FIRST = 1_000_000
"""Runs of the pulse have numbers from here on, schedules from 1 on."""
BEFORE_SECONDS, AFTER_SECONDS = 8, 12


def single_turns(contenders: Iterable[Contender], count: int) -> list[Turn]:
    """Return a turn for each contender."""
    return [
        Turn(
            workload=SINGLE,
            contender=one,
            settings={"count": count, "step_us": STEP_US},
            measure=partial(single, one, count),
        )
        for one in contenders
    ]


def single(contender: Contender, count: int, grounds: Grounds) -> Figures:
    """Look how late timers are that are alone, beside a bare wait at the same time."""
    floor: list[int] = []
    stop = threading.Event()
    waiting = threading.Thread(target=_wait_barely, args=(floor, stop))
    waiting.start()
    try:
        crowd = Crowd(count, STEP_US, limit=count * STEP_US / SECOND_US + 30)
        found = kept(contender, grounds, crowd)
    finally:
        stop.set()
        waiting.join()
    late = [at - found.due_at - number * STEP_US for number, at in found.starts]
    bare = lateness(floor)
    return {
        "seen": len(late),
        **lateness(late),
        **{f"floor_{name}": bare[name] for name in ("p50_ms", "p99_ms", "max_ms")},
    }


def _wait_barely(floor: list[int], stop: threading.Event) -> None:
    while not stop.is_set():
        due_at = now_us() + STEP_US
        time.sleep(STEP_US / SECOND_US)
        floor.append(now_us() - due_at)


def pulse_turns(contenders: Iterable[Contender], rate: int, count: int) -> list[Turn]:
    """Return a turn for each contender that has schedules of a second."""
    return [
        Turn(
            workload=PULSE,
            contender=one,
            settings={"rate": rate, "count": count},
            measure=partial(pulse, one, rate, count),
        )
        for one in contenders
        if one.is_ours
    ]


def pulse(contender: Contender, rate: int, count: int, grounds: Grounds) -> Figures:
    """Let a crowd fall due among a steady stream; look at both."""
    return in_time(lambda times: _pulse(contender, (rate, count), times, grounds))


def _pulse(contender: Contender, sizes: tuple[int, int], times: int, grounds: Grounds) -> Figures:
    rate, count = sizes
    seconds = BEFORE_SECONDS + AFTER_SECONDS
    offered = Offered(rate, seconds)
    with grounds.site(contender) as site:
        start_at = fill(contender, site, offered, times)
        pulse_at = start_at + BEFORE_SECONDS * SECOND_US
        ways = (f"--count={count}", f"--due={pulse_at}", f"--first={PULSE_FIRST}")
        # Before anybody works, so that making promises takes nothing from those who keep them.
        told(contender, site.journal, "promise", site.url, *ways)
        with started(contender, site.url, site.journal):
            sleep_until(start_at - SETTLED_US)
            # What falls due in the last moment is to begin, too.
            sleep_until(start_at + (seconds + AFTERWARDS_SECONDS) * SECOND_US)
        starts = read_journal(site.journal)
    crowd = [at - pulse_at for number, at in starts if number >= PULSE_FIRST]
    others = judged([one for one in starts if one[0] < PULSE_FIRST], offered, start_at)
    late = lateness(crowd)
    return {
        "expected": count,
        "seen": len(crowd),
        "drained_s": round(max(crowd, default=0) / SECOND_US, 3),
        **{f"crowd_{name}": value for name, value in late.items()},
        **{f"others_{name}": value for name, value in others.items()},
    }
