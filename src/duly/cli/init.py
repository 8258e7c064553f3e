"""`duly init`: a program to begin with, and a file of schedules beside it."""

from __future__ import annotations

import shlex
from pathlib import Path

from duly.cli.output import print_block, print_json, print_line
from duly.cli.undoing import print_undo
from duly.errors import Conflict, StoreError

TASKS = '''"""Tasks of this program. Run them: duly dev --app tasks:app --declare schedules.toml"""

import duly

app = duly.App()  # where promises are kept: $DULY_URL, else the file duly.db


@app.task
def greet(name: str = "world") -> str:
    return f"hello, {name}"


# What may not be done twice asks first. If a worker dies in the middle, nobody repeats it by
# itself: duly inbox says what is known, and what is safest.
@app.task(effects="unsafe", timeout="1m")
def charge(run: duly.Run, invoice: int) -> str:
    with run.effect(f"charge:{invoice}"):
        return f"invoice {invoice} is charged"


if __name__ == "__main__":
    app.run()
'''
SCHEDULES = """# Schedules of this program; duly schedule apply -f schedules.toml makes them so.
[schedules.morning-greeting]
task = "greet"
when = "every weekday at 9:00"
tz = "UTC"
misfire = "latest"
[schedules.morning-greeting.arguments]
name = "everybody"
"""
FILES = {"tasks.py": TASKS, "schedules.toml": SCHEDULES}
STEPS = """export DULY_APP=tasks:app
duly dev --declare schedules.toml     # fires what falls due, and runs it; Ctrl-C ends it
duly enqueue greet -a name=Ada --wait # in another terminal
duly status                           # is all well?
duly doctor                           # and if not, why?"""


def init(folder: Path = Path(), /, *, dry_run: bool = False, json: bool = False) -> None:
    """Write a program with tasks, and a file of schedules, to begin with; nothing is overwritten.

    Parameters
    ----------
    folder
        Where; made if it is not there. Here unless given.
    dry_run
        Show what would be written, and write nothing.
    json
        Print JSON.
    """
    paths = {folder / name: text for name, text in FILES.items()}
    for path in paths:
        if path.exists():
            remedy = "move it away, or give another folder: duly init FOLDER"
            raise Conflict("file", str(path), "is there already", remedy)
    if not dry_run:
        _write(folder, paths)
    if json:
        print_json({"files": [str(path) for path in paths], "dry_run": dry_run})
        return
    for path, text in paths.items():
        print_line(f"{'Would write' if dry_run else 'Wrote'} {path}.")
        if dry_run:
            print_block(text)
    if dry_run:
        print_line("Nothing was written (--dry-run).")
        return
    print_line()
    print_line("What comes next:")
    if folder != Path():
        print_block(f"cd {shlex.quote(str(folder))}")
    print_block(STEPS)
    print_undo(shlex.join(("rm", *(str(path) for path in paths))))


def _write(folder: Path, paths: dict[Path, str]) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in paths.items():
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
    except OSError as error:
        problem = f"can't be written ({error.strerror})"
        raise StoreError(
            str(folder), problem, "give a folder that this user may write to"
        ) from error
