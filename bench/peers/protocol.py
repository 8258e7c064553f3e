"""What every contender can be told, in whatever environment it lives: standard library only.

    python -m bench.peers.NAME prepare --url URL
    python -m bench.peers.NAME promise --url URL --count N --due US [--step US] [--single]
    python -m bench.peers.NAME work    --url URL
    python -m bench.peers.NAME watch   --url URL --count N --due US --limit SECONDS

A task has one argument, its number, and only notes in a journal when it began. `promise` makes runs
with numbers from --first on, due at one instant or a step apart. `work` is the one worker
process. `watch` tells when that many more were durably complete than when it began to look.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import TYPE_CHECKING, NamedTuple, Protocol

from bench.peers.journal import Started

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

READY = "ready"
POLL_SECONDS_MIN, POLL_SECONDS_MAX = 0.002, 0.25
POLL_SHARE, POLL_SHARE_LAST = 10, 100
"""No pause is longer than a part in so many of what has passed: in the beginning everybody is slow,
and who reckons from that how long it will take looks again when it is long over. When all have
begun, the last ends come in one batch, and nothing tells beforehand when: then it is this part."""


class Promises(NamedTuple):
    """Runs to be made: how many, due when, and how far apart."""

    size: int
    due_at: int
    step_us: int
    is_single: bool
    """One by one, each durable before the next, and not in bulk."""
    first: int = 0

    @property
    def numbers(self) -> range:
        return range(self.first, self.first + self.size)

    def due(self, number: int) -> int:
        return self.due_at + (number - self.first) * self.step_us

    def chunks(self, size: int) -> Iterator[range]:
        """Return the numbers in parts."""
        for start in range(0, self.size, size):
            yield self.numbers[start : start + size]


class Peer(Protocol):
    """A scheduler or queue, used as its documentation says is fastest and durable."""

    def prepare(self) -> None:
        """Make its tables."""
        ...

    def promise(self, promises: Promises) -> None:
        """Make runs; they are durable when this returns."""
        ...

    def work(self) -> None:
        """Say that it is ready, and execute what falls due until told to stop by a signal."""
        ...

    def complete(self) -> int:
        """Return a number that grows by one with each run that is durably complete."""
        ...


def now_us() -> int:
    return time.time_ns() // 1000


def say_ready() -> None:
    print(READY, flush=True)


def watch(look: Looks, count: int, due_at: int, limit: float) -> dict[str, int]:
    """Look ever more often as the end draws near; tell when it was seen, and what was seen then.

    That instant is after the last look, so it is never too early, and too late by a hundredth at
    most. As long as not all have begun only the journal is looked at: who counts in the database is
    a part of the load there, and slows down those who have no processor to spare.
    """
    begun, complete = look.begun(), look.complete()
    say_ready()
    time.sleep(max(0.0, (due_at - now_us()) / 1e6 + 0.01))
    watching = _Watching(count, time.monotonic() - 0.01, limit)
    watching.until(lambda: look.begun() - begun, POLL_SHARE)
    done = watching.until(lambda: look.complete() - complete, POLL_SHARE_LAST)
    return {"at_us": now_us(), "done": done}


class Looks(NamedTuple):
    """Numbers that grow by one with each run."""

    begun: Callable[[], int]
    complete: Callable[[], int]


class _Watching(NamedTuple):
    wanted: int
    began_at: float
    limit: float

    def until(self, look: Callable[[], int], share: int) -> int:
        """Look until there are as many as are waited for, or time is up; return how many."""
        done, looked_at = look(), time.monotonic()
        pause = POLL_SECONDS_MIN
        while done < self.wanted and looked_at < self.began_at + self.limit:
            time.sleep(pause)
            seen, seen_at = look(), time.monotonic()
            # They come in batches: between two of them nothing happens, and that means nothing.
            lately = (seen - done) / (seen_at - looked_at)
            rate = max(lately, seen / (seen_at - self.began_at))
            left = (self.wanted - seen) / rate / 2 if rate > 0 else POLL_SECONDS_MAX
            longest = min((seen_at - self.began_at) / share, POLL_SECONDS_MAX)
            pause = max(min(left, longest), POLL_SECONDS_MIN)
            done, looked_at = seen, seen_at
        return done


def main(make: Callable[[str], Peer], arguments: Iterable[str] | None = None) -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser()
    parser.add_argument("verb", choices=("prepare", "promise", "work", "watch"))
    parser.add_argument("--url", required=True)
    parser.add_argument("--count", type=int, default=0)
    parser.add_argument("--due", type=int, default=0)
    parser.add_argument("--step", type=int, default=0)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--single", action="store_true")
    parser.add_argument("--warm", action="store_true", help="make ten first, which are not timed")
    parser.add_argument("--limit", type=float, default=120.0)
    told = parser.parse_args(None if arguments is None else list(arguments))
    peer = make(told.url)
    match told.verb:
        case "prepare":
            peer.prepare()
        case "promise":
            promises = Promises(told.count, told.due, told.step, told.single, told.first)
            if told.warm:
                peer.promise(promises._replace(size=10))
            began = time.perf_counter()
            peer.promise(promises)
            took = time.perf_counter() - began
            print(json.dumps({"took_us": int(took * 1e6), "at_us": now_us()}))
        case "work":
            peer.work()
        case "watch":
            looks = Looks(Started().count, peer.complete)
            print(json.dumps(watch(looks, told.count, told.due, told.limit)))
    sys.stdout.flush()
