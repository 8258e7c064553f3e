"""`duly tour`: a guided tour of what works, every step a command that can be typed again."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from duly.cli.output import print_line
from duly.cli.tour_fleet import TASKS_MODULE, Fleet, furnished
from duly.cli.tour_stops import TOUR, Program, Step, Stop

HEADING_WIDTH = 78


def tour(*, pause: Annotated[bool, Parameter(negative="--no-pause")] = True) -> int:
    """Take a guided tour of what works, in the terminal.

    It has a file and processes of its own, which are gone when it is over.

    Parameters
    ----------
    pause
        Wait for Enter between the stops, if there is a person at the terminal.
    """
    waits = pause and sys.stdin.isatty() and sys.stdout.isatty()
    try:
        with furnished() as fleet:
            for number, stop in enumerate(TOUR, 1):
                _visit(stop, number, fleet)
                if waits and number < len(TOUR) and not _goes_on():
                    break
    except KeyboardInterrupt:
        print_line("")
        print_line("The tour is over; its processes and its file are gone.")
        raise
    print_line("")
    here = Path(sys.argv[0])
    command = str(here) if here.parent.name == "bin" and not shutil.which("duly") else "duly"
    print_line(f"Next: README.md for the same in Python; {command} --help for all there is.")
    return 0


def _visit(stop: Stop, number: int, fleet: Fleet) -> None:
    title = f"── {number} of {len(TOUR)}: {stop.title} "
    print_line("")
    print_line((title.ljust(HEADING_WIDTH, "─"), "bold"))
    print_line(stop.story)
    for step in stop.steps:
        _take(step, fleet)
        fleet.go_on()


def _take(step: Step, fleet: Fleet) -> None:
    """Take one step: run a command or a program as a person would, or play a scene."""
    if isinstance(step, str):
        print_line("")
        print_line((f"$ duly {step}", "bold cyan"))
        _run_command(step)
    elif isinstance(step, Program):
        print_line("")
        for line in step.text.splitlines():
            print_line((f"  {line}".rstrip(), "cyan"))
        print_line("")
        sys.stdout.flush()
        # In a process of its own: it is a program, and not a part of this one.
        done = subprocess.run((sys.executable, "-c", step.text), check=False)  # noqa: S603 - ours
        print_line("", "It holds." if done.returncode == 0 else "It does not hold.")
    else:
        print_line("")
        step(fleet, print_line)


def _run_command(command: str) -> None:
    """Run a command here: starting a process for each would take longer than all they do."""
    from duly.cli.main import INTERRUPTED, main

    # A command closes the application it has loaded, so each one loads its own.
    sys.modules.pop(TASKS_MODULE, None)
    try:
        main(shlex.split(command))
    except SystemExit as ended:
        if ended.code == INTERRUPTED:
            raise KeyboardInterrupt from None


def _goes_on() -> bool:
    try:
        return input("\n[Enter] goes on, q [Enter] ends ").strip().lower() not in ("q", "quit")
    except (EOFError, KeyboardInterrupt):
        return False
