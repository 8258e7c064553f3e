"""What a command costs: processor time and modules, each command in a process of its own.

    .venv/bin/python -m bench.parts.command_line [--times 20] [--python PYTHON]

The store is an SQLite file with one task, one schedule and a hundred runs. Processor time is user
and system time of the process, which depends less on the machine's load than elapsed time does.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

PROGRAM = """\
import duly

app = duly.App("sqlite:///duly.db")


@app.schedule(duly.cron("0 9 * * *"), name="daily")
@app.task
def greet(name: str = "you") -> str:
    return f"hello {name}"


if __name__ == "__main__":
    app.reconcile()
    app.enqueue_many([greet] * 100)
"""
COMMANDS = (
    "--version",
    "--help",
    "run list --help",
    "completion bash",
    "version",
    "next @daily",
    "enqueue greet",
    "enqueue greet --app tasks:app",
    "run list",
    "schedule list",
    "schedule pause daily --reason measured",
    "status",
    "doctor",
)
TIMES = 20


def cost_ms(words: list[str], folder: Path) -> float:
    """Return the processor time of one process, in milliseconds."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("DULY_")}
    with subprocess.Popen(  # noqa: S603 - our own command
        words, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        _, _, used = os.wait4(process.pid, 0)
        process.returncode = 0
    return (used.ru_utime + used.ru_stime) * 1000


def modules(words: list[str], folder: Path) -> int:
    """Return how many modules one process imports."""
    done = subprocess.run(  # noqa: S603 - our own command
        (words[0], "-X", "importtime", *words[1:]),
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stderr.count("import time:") - 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=TIMES)
    parser.add_argument("--python", default=sys.executable, help="the Python that has Duly")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "tasks.py").write_text(PROGRAM, encoding="utf-8")
        subprocess.run((given.python, "tasks.py"), cwd=folder, check=True)  # noqa: S603 - as above
        print("| command | processor ms, median | least | modules |\n|---|---:|---:|---:|")
        for command in COMMANDS:
            words = [given.python, "-m", "duly", *command.split()]
            times = [cost_ms(words, folder) for _ in range(given.times)]
            row = f"{statistics.median(times):.0f} | {min(times):.0f} | {modules(words, folder)}"
            print(f"| duly {command} | {row} |", flush=True)


if __name__ == "__main__":
    main()
