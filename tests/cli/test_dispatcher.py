"""`duly dispatcher` as a process: it fires, tells, and ends in good order."""

from __future__ import annotations

import json
import signal
from contextlib import contextmanager
from dataclasses import fields
from datetime import datetime
from typing import TYPE_CHECKING, Any

import apsw

from duly import telemetry
from duly.cli.event_lines import SENTENCES, sentence
from tests.waiting import read_line, wait_until

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator

    from tests.cli.duly_command import Workplace

LIMIT_SECONDS = 120
EVERY_SECOND = (
    """[schedules.tick]\ntask = "nightly_report"\nwhen = "every second"\noverlap = "allow"\n"""
)


@contextmanager
def running(place: Workplace, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run a dispatcher; one that a failing test leaves behind is killed."""
    process = place.start("dispatcher", *arguments)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def events_until(
    process: subprocess.Popen[str], name: str, number: int = 1
) -> list[dict[str, Any]]:
    """Read what a dispatcher tells until it has told of an event so many times."""
    assert process.stdout is not None, "piped"
    told: list[dict[str, Any]] = []
    for line in process.stdout:
        told.append(json.loads(line))
        if sum(one["event"] == name for one in told) == number:
            return told
    raise AssertionError(f"ended before {name}: {told}, {process.stderr and process.stderr.read()}")


def test_it_fires_what_is_declared_and_leaves_the_fleet_when_told(place: Workplace):
    """Never early, and no lease is left behind."""
    (place.folder / "s.toml").write_text(EVERY_SECOND)
    with running(place, "--declare", "s.toml", "--json", "--verbose") as process:
        told = events_until(process, "batch-fired", 2)
        wait_until(
            "it dispatches",  # a busy machine may make it late with its lease
            lambda: place.duly("status", "--json").json["dispatch"]["is_well"],
        )
        runs = place.duly("run", "list", "--json").json
        process.send_signal(signal.SIGTERM)
        events_until(process, "stopped")

        assert 0 == process.wait(LIMIT_SECONDS)
    after = place.duly("status", "--json").json

    assert ["tick"] == told[0]["created"]
    assert {"joined", "leases-acquired"} <= {one["event"] for one in told}
    assert len(runs) >= 2
    assert all(_instant(one["fired_at"]) >= _instant(one["due_at"]) for one in runs)
    assert (0, []) == (
        after["leases_owned"],
        [one for one in after["members"] if one["is_alive"]],
    )


def test_what_is_written_meanwhile_is_fired_too(place: Workplace):
    with running(place, "--json", "--verbose") as process:
        events_until(process, "leases-acquired")
        place.duly("enqueue", "nightly_report", "--in", "1s", "--key", "soon")
        events_until(process, "batch-fired")
        runs = place.duly("run", "list", "--json").json

    assert [("soon", "queued", "delay")] == [
        (one["key"], one["state"], one["origin"]) for one in runs
    ]


def test_it_tells_people_in_sentences_with_the_time_in_utc(place: Workplace):
    with running(place) as process:
        assert process.stderr is not None, "piped"
        lines = [read_line(process, process.stderr) for _ in range(3)]
        process.send_signal(signal.SIGINT)
        lines += process.communicate(timeout=LIMIT_SECONDS)[1].splitlines()

    assert 0 == process.returncode
    assert any("Z dispatching sqlite:///promises.db; Ctrl-C ends it" in line for line in lines)
    assert any("Z joined as dispatcher 1 on " in line for line in lines)
    assert lines[-1].endswith("Z stopped in good order; timers fired: 0, runs made: 0")


def test_a_quiet_one_says_nothing_when_all_is_well(place: Workplace):
    with running(place, "--quiet") as process:
        wait_until("it is alive", lambda: '"is_alive": true' in place.duly("status", "--json").out)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=LIMIT_SECONDS)

    assert (0, "", "") == (process.returncode, out, err)


def test_a_second_signal_ends_it_at_once(place: Workplace):
    """Whoever is in a hurry does not wait for a store that somebody holds."""
    with running(place) as process:
        lines_until(process, "took ")
        holder = apsw.Connection(str(place.folder / "promises.db"))
        holder.set_busy_timeout(LIMIT_SECONDS * 1000)
        holder.execute("begin immediate")
        process.send_signal(signal.SIGTERM)
        lines_until(process, "stopping; a second signal ends it at once")
        process.send_signal(signal.SIGTERM)
        status = process.wait(LIMIT_SECONDS)
        holder.execute("rollback")
        holder.close()

    assert -signal.SIGTERM == status


def lines_until(process: subprocess.Popen[str], part: str) -> None:
    """Read what a dispatcher tells people until a line has this part."""
    assert process.stderr is not None, "piped"
    assert any(part in line for line in process.stderr), f"ended before {part}"


def _instant(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _events(kind: type[telemetry.Event] = telemetry.Event) -> list[type[telemetry.Event]]:
    """Return the events that are told, each by its own name; not what some have in common."""
    found = [one for one in kind.__subclasses__() if "name" in vars(one)]
    return found + [more for one in kind.__subclasses__() for more in _events(one)]


def test_every_event_of_the_engine_has_a_sentence_of_its_own_fields():
    """A missing sentence, or one with a field that the event lacks, would fail as it is told."""
    wrong = []
    for kind in _events():
        try:
            told = SENTENCES[kind.name].format_map({one.name: "?" for one in fields(kind)})
        except KeyError as error:
            wrong.append((kind.name, f"lacks {error}"))
        else:
            wrong += [(kind.name, told)] * ("{" in told)

    assert [] == wrong


def test_leases_are_told_by_lane_and_range():
    lost = telemetry.LeasesLost(
        member=1, leases=("0/live", "1/live", "2/live", "0/catch-up", "3/catch-up")
    )

    assert "lost 5 leases: live 0-2, catch-up 0 3" == sentence(lost)
