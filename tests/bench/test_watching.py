"""Watching: when the last of a crowd is over is told nearly to the moment, however it began."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from bench.peers import protocol

COUNT = 10_000
DUE_US = 5_000_000
BEGUN_BEFORE = 0.01
LOOK_SECONDS = 0.0005


class Crowd:
    """So many are complete as a clock says that goes on only while somebody waits."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, line: list[tuple[float, int]]) -> None:
        self._line = line
        self._now = 4.0
        self.looks = self.counts = 0
        fake = SimpleNamespace(
            sleep=self._wait, monotonic=lambda: self._now, time_ns=lambda: int(self._now * 1e9)
        )
        monkeypatch.setattr(protocol, "time", fake)

    def begun(self) -> int:
        """Return how many have begun: a little more than are over."""
        return self._at(BEGUN_BEFORE)

    def complete(self) -> int:
        """Return how many there are by now."""
        self.counts += 1
        return self._at(0)

    def _at(self, ahead: float) -> int:
        """Return how many there are, along the line from point to point."""
        self.looks += 1
        self._wait(LOOK_SECONDS)
        since = self._now - DUE_US / 1e6 + ahead
        before, had = 0.0, 0
        for at, count in self._line:
            if since < at:
                return had + int((count - had) * max(since - before, 0) / (at - before))
            before, had = at, count
        return had

    def _wait(self, seconds: float) -> None:
        self._now += seconds


@pytest.mark.parametrize(
    "line",
    [
        pytest.param([(0.095, 2000), (0.24, COUNT)], id="slow at first"),
        pytest.param([(0.01, 0), (0.04, COUNT)], id="over in a moment"),
        pytest.param([(2.0, 1), (2.5, COUNT)], id="nearly nothing for long"),
        pytest.param([(0.1, 9000), (13.0, COUNT)], id="slow in the end"),
    ],
)
def test_the_end_is_seen_within_a_tenth(monkeypatch: pytest.MonkeyPatch, line):
    """Who reckons from a slow beginning how long it takes looks when it is long over."""
    crowd = Crowd(monkeypatch, line)
    found = protocol.watch(protocol.Looks(crowd.begun, crowd.complete), COUNT, DUE_US, limit=60)

    took, really = (found["at_us"] - DUE_US) / 1e6, line[-1][0]
    assert COUNT == found["done"]
    assert really <= took <= really * 1.1 + protocol.POLL_SECONDS_MIN
    assert crowd.looks < 300, "whoever looks all the time is a part of the load"


def test_the_end_of_a_crowd_in_batches_is_seen_within_a_hundredth(monkeypatch: pytest.MonkeyPatch):
    """Who sees nothing happen between two batches does not think that nothing will."""
    late = []
    for each in (0.009, 0.013, 0.0145, 0.029):
        line = [(0.01, 0)]
        for number in range(1, 21):
            at = 0.01 + number * each
            line += [(at, line[-1][1]), (at + 1e-6, number * COUNT // 20)]
        crowd = Crowd(monkeypatch, line)
        found = protocol.watch(protocol.Looks(crowd.begun, crowd.complete), COUNT, DUE_US, limit=60)
        late.append((found["at_us"] - DUE_US) / 1e6 - line[-1][0])
        longest = max(line[-1][0] / protocol.POLL_SHARE_LAST, protocol.POLL_SECONDS_MIN)
        assert late[-1] <= longest + 2 * LOOK_SECONDS

    assert 0 <= min(late)


def test_the_database_is_left_alone_until_all_have_begun(monkeypatch: pytest.MonkeyPatch):
    """Whoever counts there takes a processor from those who have none to spare."""
    crowd = Crowd(monkeypatch, [(0.01, 0), (1.0, COUNT)])
    protocol.watch(protocol.Looks(crowd.begun, crowd.complete), COUNT, DUE_US, limit=60)

    at_the_end = BEGUN_BEFORE / protocol.POLL_SECONDS_MIN
    assert 0 < crowd.counts <= 2 + at_the_end < crowd.looks


def test_what_never_ends_is_given_up(monkeypatch: pytest.MonkeyPatch):
    crowd = Crowd(monkeypatch, [(0.1, 10)])
    found = protocol.watch(protocol.Looks(crowd.begun, crowd.complete), COUNT, DUE_US, limit=2)

    assert 10 == found["done"]
    assert (found["at_us"] - DUE_US) / 1e6 == pytest.approx(2, abs=0.5)
