"""The settlement that was killed at 78 % and tried again: what it costs, and what it need not cost.

At 02:00 it is created, at 02:03 a worker begins, at 02:04 the worker is killed before it could say
anything, at 02:14 its lease is over and another begins. Written naively it pays twice, and nobody
can tell. Here it is played on a shorter clock, with real processes.
"""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

import duly
from duly.cli.main import main
from tests.system.fleet import Fleet
from tests.system.settlement import ACCOUNTS, PAID_FIRST
from tests.system.settlement import app as tasks
from tests.system.worker_program import LEASE_SECONDS, PROGRAM
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.timeout(600), pytest.mark.thorough]
LIMIT_SECONDS = 200.0
AHEAD = timedelta(seconds=30)
RECKONED = timedelta(seconds=30)
"""A worker estimates its store's time by how long answers take, which a busy machine delays."""
NAMES = ("naive", "careful", "at_once")
AMBIGUOUS, NOT_PROVEN, PROVEN = 6, 1, 0


class Night:
    """A dispatcher, a worker that is restarted when it is killed, and a person at a terminal."""

    def __init__(self, fleet: Fleet, capsys: Any) -> None:
        self.fleet = fleet
        self.app = duly.App(fleet.url)
        self._capsys = capsys
        with self.app.transaction() as tx:
            tx.execute("CREATE TABLE payouts (task TEXT, account TEXT, amount INTEGER)")
        # An instant in the past is refused, so it lies far enough ahead for three orders.
        self.at = datetime.now(UTC).replace(microsecond=0) + AHEAD  # noqa: TID251
        for name in NAMES:
            once = duly.at(self.at)
            self.app.schedules.create(f"{name}-settlement", tasks.call(name, {}), once)
        fleet.new_dispatcher()
        words = ["worker", "--json", "--app", "tests.system.settlement:app", "--slots", "1"]
        fleet.start([PROGRAM, str(LEASE_SECONDS), *words, "--url", fleet.url], "worker")

    def run(self, name: str) -> duly.Run:
        (found,) = self.app.runs.list(task=name)
        return found

    def wait_for(self, name: str, state: str) -> duly.Run:
        def has_come() -> bool:
            return [state] == [one.state for one in self.app.runs.list(task=name)]

        wait_until(f"{name} is {state}", has_come, LIMIT_SECONDS)
        return self.run(name)

    def duly(self, *words: str) -> tuple[int, str]:
        """Give a command as a person would; return its exit code and what it prints."""
        self._capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main([*words, "--url", self.fleet.url])
        return int(ended.value.code or 0), self._capsys.readouterr().out

    def prove(self, name: str) -> tuple[int, str]:
        return self.duly("prove", f"{name}-settlement", "--for", self.at.date().isoformat())

    def payouts(self, name: str) -> Counter[str]:
        with self.app.transaction() as tx:
            rows = tx.execute(f"SELECT account FROM payouts WHERE task = '{name}'")  # noqa: S608
        return Counter(str(account) for (account,) in rows)


@pytest.fixture(params=["sqlite", "postgresql"])
def night(request: Any, tmp_path: Path, capsys: Any) -> Iterator[Night]:
    url = None if request.param == "sqlite" else request.getfixturevalue("database")
    fleet = Fleet(tmp_path, url)
    made = Night(fleet, capsys)
    yield made
    made.app.close()
    fleet.kill_all()


def test_a_settlement_that_was_killed_in_the_middle_is_right_and_can_be_proven(night: Night):
    """E2-E6, INV-11: what was paid is paid once, and the record tells how it came about."""
    run = night.wait_for("careful", "ambiguous")
    # Its check looked at once, and found a part: a person has to decide.
    wait_until("it is checked", lambda: night.app.inbox.checks(run), LIMIT_SECONDS)
    status, inbox = night.duly("inbox", str(run.id))
    _, told = night.duly("inbox", str(run.id), "--json")
    doubted_status, doubted = night.prove("careful")
    item = json.loads(told)
    states = Counter(one["state"] for one in item["effects"])
    (unknown,) = (one["key"] for one in item["effects"] if one["state"] == "unknown")

    assert (AMBIGUOUS, AMBIGUOUS) == (status, doubted_status), (inbox, doubted)
    assert "first: make sure that" in inbox
    assert f"retry, resume and rerun --repair take --done {unknown}" in inbox
    assert f"--done {unknown} --reason" in inbox
    assert {"done": PAID_FIRST - 1, "unknown": 1} == states
    assert PAID_FIRST == night.payouts("careful").total()
    (check,) = item["checks"]
    assert ("partial", PAID_FIRST) == (check["finding"], check["evidence"]["rows"])
    assert item["advice"]["safest"] in {"resume", "retry"}, item["advice"]
    assert "items done; " in item["advice"]["why"]

    # The person finds the row in the table, and says so; the rest is done by the same run.
    assert unknown == f"payout:{ACCOUNTS[PAID_FIRST - 1]}"
    words = ("--reason", "its row is in the table", "--done", unknown)
    status, told = night.duly("run", "resume", str(run.id), *words)
    assert 0 == status, told
    run = night.wait_for("careful", "succeeded")
    wait_until("it is checked", lambda: len(night.app.inbox.checks(run)) == 2, LIMIT_SECONDS)
    status, proof = night.prove("careful")

    assert PROVEN == status, proof
    assert "50 of 50" in proof
    assert Counter(ACCOUNTS) == night.payouts("careful")
    tell_the_story(night, run)

    # Written naively it has succeeded, too, and is wrong; and nothing claims that it is right.
    night.wait_for("naive", "succeeded")
    status, proof = night.prove("naive")
    assert (NOT_PROVEN, len(ACCOUNTS) + PAID_FIRST) == (status, night.payouts("naive").total())
    assert "nothing says what it brought about" in proof

    # In one commit with its run nobody has to decide anything.
    again = night.wait_for("at_once", "succeeded")
    status, proof = night.prove("at_once")
    assert (PROVEN, 2) == (status, again.attempt), proof
    assert Counter(ACCOUNTS) == night.payouts("at_once")
    assert [] == night.fleet.check()


def tell_the_story(night: Night, run: duly.Run) -> None:
    """What happened, one fact after the other, on record and on the screen."""
    _, told = night.duly("run", "show", str(run.id), "--json")
    story = json.loads(told)
    first, second = story["attempts"]
    decided = [(one["action"], one["reason"]) for one in story["decisions"]]
    times = [
        story["due_at"],
        first["claimed_at"],
        first["effects_at"],
        first["ended_at"],
        second["claimed_at"],
        second["effects_at"],
        second["ended_at"],
        story["finished_at"],
    ]

    assert [("lost", 1), ("succeeded", 2)] == [
        (one["state"], one["number"]) for one in (first, second)
    ]
    assert None not in times
    known = [datetime.fromisoformat(one) for one in times]
    assert sorted(known) == known
    # Of one that was killed in its first second nobody has heard that it had started. And when it
    # did is told by its worker, who reckons the store's time, and may err by some milliseconds.
    if first["started_at"] is not None:
        started = datetime.fromisoformat(first["started_at"])
        assert known[1] - RECKONED <= started <= known[2] + RECKONED
    assert ["partial", "present"] == [one["finding"] for one in story["checks"]]
    assert [
        ("run.ambiguous", None),
        ("run.verdict", None),
        ("run.settled", "its row is in the table"),
        ("run.verdict", None),
    ] == decided
    _, shown = night.duly("run", "show", str(run.id))
    for word in (
        "lost",
        "effects begun",
        "in doubt",
        "partial",
        "its row is in the table",
        "verified",
    ):
        assert word in shown
