"""`duly demo`: a guided tour of what works, every step a command that can be typed again."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from duly.cli.demo_fleet import Fleet, furnished, outlive
from duly.cli.output import print_line

HEADING_WIDTH = 78
IN_PROCESS = frozenset(("next", "zones"))


@dataclass(frozen=True, slots=True)
class Stop:
    """One stop of the tour: what there is to see, and the command that shows it."""

    title: str
    story: str
    command: str
    scene: Callable[[Fleet, Callable[[str], None]], None] | None = None
    """What happens before the command, if anything does."""


TOUR = (
    Stop(
        "Ask when something happens",
        "Plain words, a zone, and Duly answers in local time and UTC.",
        'next "every weekday at 9" --tz Europe/Paris -n 3',
    ),
    Stop(
        "The night that has no 02:30",
        "On the last Sunday of March, Berlin's clocks jump from 02:00 to 03:00."
        " Other schedulers skip the report, or run it twice. Duly says what it will do, and why.",
        'next "30 2 * * *" --tz Europe/Berlin --after 2027-03-26 -n 4',
    ),
    Stop(
        "The same night, decided otherwise",
        "The policy is yours: the first moment after the gap, moved by its length, or skipped.",
        'next "30 2 * * *" --tz Europe/Berlin --after 2027-03-26 -n 4 --gap shift',
    ),
    Stop(
        "The night that has 02:30 twice",
        "In October the hour comes twice, and a daily report runs once.",
        'next "30 2 * * *" --tz Europe/Berlin --after 2026-10-24 -n 3',
    ),
    Stop(
        "Close the books",
        "The last business day is another one every month.",
        'next "last business day of the month at 18:00" --tz America/New_York -n 3',
    ),
    Stop(
        "Not on Thanksgiving",
        "Two hundred countries' public holidays, and stock exchanges', come with duly[calendars].",
        'next "every weekday at 9" --tz America/New_York --calendar US --after 2026-11-24 -n 3',
    ),
    Stop(
        "Bring your own words",
        "RRULE from a calendar, OnCalendar from systemd, cron with L, W, # and seconds.",
        'next "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1;BYHOUR=17" --tz Asia/Tokyo -n 3',
    ),
    Stop(
        "A whole day that never was",
        "Samoa left 30 December 2011 out. Its 09:00 is due at the first moment that exists.",
        'next "Fri 09:00" --tz Pacific/Apia --after 2011-12-20 -n 3',
    ),
    Stop(
        "A rule that never comes",
        "The 30th of February is recognised at once, not searched for.",
        'next "0 0 30 2 *" -n 3',
    ),
    Stop(
        "Find a zone",
        "By city, country, alias or abbreviation.",
        "zones search mumbai -n 3",
    ),
    Stop(
        "For programs",
        "Every command speaks JSON too; that of duly next holds the rule, ready to be stored.",
        "zones search tokyo --json -n 1",
    ),
    Stop(
        "Make a promise",
        "Now something durable, in a file that is gone after this tour: a task every second.",
        "schedule create tick --task greet --when 1s",
    ),
    Stop(
        "Kill whoever keeps it",
        "A promise outlives its dispatcher. What falls due while nobody is there is not lost.",
        "run list --schedule tick -n 8",
        scene=outlive,
    ),
    Stop(
        "Nothing early, lost or twice",
        "Every expected occurrence has a verdict; early fires are counted, and there are none.",
        "status",
    ),
    Stop(
        "Stop it, on record",
        "A pause keeps everything, and says who and why.",
        'schedule pause tick --reason "the tour is over"',
    ),
    Stop(
        "Who did what",
        "Every order is in the audit trail, written in the transaction that carried it out.",
        "schedule history tick",
    ),
)


def demo(*, pause: Annotated[bool, Parameter(negative="--no-pause")] = True) -> int:
    """Take a guided tour of what works, in the terminal.

    Parameters
    ----------
    pause
        Wait for Enter between the stops, if there is a person at the terminal.
    """
    waits = pause and sys.stdin.isatty() and sys.stdout.isatty()
    with furnished() as fleet:
        for number, stop in enumerate(TOUR, 1):
            title = f"── {number} of {len(TOUR)}: {stop.title} "
            print_line("")
            print_line((title.ljust(HEADING_WIDTH, "─"), "bold"))
            print_line(stop.story)
            if stop.scene is not None:
                stop.scene(fleet, print_line)
            print_line((f"$ duly {stop.command}", "bold cyan"))
            print_line("")
            _show(stop.command)
            if waits and number < len(TOUR) and not _goes_on():
                break
    print_line("")
    here = Path(sys.argv[0])
    command = str(here) if here.parent.name == "bin" and not shutil.which("duly") else "duly"
    print_line(f"Next: {command} next --help, or README.md for the same in Python.")
    return 0


def _show(command: str) -> None:
    """Run a command: those about time here, those about promises as a person would."""
    from duly.cli.main import app

    words = shlex.split(command)
    if words[0] in IN_PROCESS:
        app(words, exit_on_error=False, print_error=False)
        return
    sys.stdout.flush()
    subprocess.run((sys.executable, "-m", "duly", *words), check=False)  # noqa: S603 - ourselves


def _goes_on() -> bool:
    try:
        return input("\n[Enter] goes on, q [Enter] ends ").strip().lower() not in ("q", "quit")
    except (EOFError, KeyboardInterrupt):
        return False
