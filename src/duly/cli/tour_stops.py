"""The stops of the tour: what there is to see at each, and the steps that show it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from duly.cli.tour_fleet import Fleet
from duly.cli.tour_scenes import Tell, kill_a_dispatcher, kill_a_worker, open_shop


@dataclass(frozen=True, slots=True)
class Program:
    """A Python program that is shown and then run."""

    text: str


Scene: TypeAlias = Callable[[Fleet, Tell], None]
"""Something that happens, and tells what."""

Step: TypeAlias = str | Program | Scene
"""A command of `duly`, as it is typed, a program, or a scene."""


@dataclass(frozen=True, slots=True)
class Stop:
    """One stop of the tour."""

    title: str
    story: str
    steps: tuple[Step, ...]


NIGHT = Program(
    """\
import duly

app = duly.App("memory:")

@app.schedule(duly.cron("30 2 * * *", tz="Europe/Berlin"), name="report")
@app.task
def report(run: duly.Run) -> None:
    print(run.label)

with duly.testing.virtual_time(app, "2027-03-27T12:00", tz="Europe/Berlin") as clock:
    clock.advance("24h")
    assert ["succeeded"] == [run.state for run in app.runs.list(schedule="report")]
"""
)

TOUR = (
    Stop(
        "Ask when something happens",
        "Plain words, a zone, and Duly answers in local time and UTC.",
        ('next "every weekday at 9" --tz Europe/Paris -n 3',),
    ),
    Stop(
        "The night that has no 02:30",
        "On the last Sunday of March, Berlin's clocks jump from 02:00 to 03:00."
        " Other schedulers skip the report, or run it twice. Duly says what it will do, and why.",
        ('next "30 2 * * *" --tz Europe/Berlin --after 2027-03-26 -n 4',),
    ),
    Stop(
        "The night that has 02:30 twice",
        "In October the hour comes twice, and a daily report runs once. Both are policies of yours:"
        " --gap and --fold decide otherwise.",
        ('next "30 2 * * *" --tz Europe/Berlin --after 2026-10-24 -n 3',),
    ),
    Stop(
        "Close the books",
        "The last business day is another one every month. Two hundred countries' public holidays"
        " come with duly[calendars].",
        ('next "last business day of the month at 6pm" --tz America/New_York --calendar US -n 3',),
    ),
    Stop(
        "Bring your own words",
        "RRULE from a calendar, OnCalendar from systemd, cron with L, W, # and seconds.",
        ('next "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1;BYHOUR=17" --tz Asia/Tokyo -n 3',),
    ),
    Stop(
        "Make a promise",
        "Now something durable, in a file that is gone after this tour: a task every second."
        " It is on disk when the command returns.",
        ("schedule create tick --task greet --when 1s",),
    ),
    Stop(
        "Have it kept",
        "Nobody has run anything so far. Dispatchers say when, workers do it.",
        (open_shop, "run list --schedule tick -n 3"),
    ),
    Stop(
        "Ask what happened",
        "One more, in a second from now. Due, queued, claimed, started and finished are facts of"
        " their own, and each has its time.",
        ("enqueue greet -a name=Ada --in 1s --key hello --wait", "run show hello"),
    ),
    Stop(
        "Kill whoever keeps it",
        "A promise outlives its dispatcher. What falls due while nobody is there is not lost.",
        (kill_a_dispatcher, "run list --schedule tick -n 8"),
    ),
    Stop(
        "Let it fail",
        "There is no account 13. The task is tried three times, with a growing random wait between,"
        " and then it waits for a person: a dead letter.",
        ("enqueue charge -a account=13 --key invoice --wait", "run why invoice"),
    ),
    Stop(
        "Mend it",
        "A typing error: 42 was meant. It is the same run, so it keeps its id and its history.",
        (
            'run edit invoice -a account=42 --reason "a typing error"',
            "run retry invoice --reason mended",
            "run wait invoice",
        ),
    ),
    Stop(
        "Pull the plug of a worker",
        "Ten pages, half a second each, and a checkpoint after each one. Of an attempt whose worker"
        " is gone it is recorded what is known, and no more: claimed, started, how far it said it"
        " was, lost. Whatever it might still say, under its old fence, is refused.",
        ("enqueue import_pages --key import", kill_a_worker, "run show import", "run logs import"),
    ),
    Stop(
        "Test the night of the clock change",
        "Three lines at the end, and nobody waits for March: in virtual time a day takes no time.",
        (NIGHT,),
    ),
    Stop(
        "Nothing early, lost or twice",
        "Every expected occurrence has a verdict; early fires are counted, and there are none.",
        ("status",),
    ),
    Stop(
        "Who did what",
        "Every order is in the audit trail, written in the transaction that carried it out; and so"
        " is what the system did by itself.",
        ('schedule pause tick --reason "the tour is over"', "audit -n 7"),
    ),
)
