"""Type checkers see what a task takes: a wrong call is an error before anything runs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = """
import duly

app = duly.App("memory:")

@app.task
async def remind(class_id: int, note: str = "") -> None: ...

@app.task(queue="mail")
def report(run: duly.Run, day: str) -> int:
    return 1

@app.schedule(duly.every("1h"), name="hourly")
@app.task
def tidy(run: duly.Run) -> None: ...

remind.bind(class_id=42)
remind.bind(42, note="now")
remind.bind("42")                       # wrong: arg-type
remind.bind()                           # wrong: call-arg
remind.bind(class_id=42, colour="red")  # wrong: call-arg
report.bind("monday")
report.bind(day=1)                      # wrong: arg-type
report.bind(None, "monday")             # wrong: call-arg, arg-type
tidy.bind()
tidy.bind(1)                            # wrong: call-arg
number: int = report(app.runs.list()[0], "monday")
text: str = report(app.runs.list()[0], "monday")   # wrong: assignment
app.task(retry=5, timeout=None, run_timeout="1h", stall="1m", kind="process", memory="1GB")
app.task(retry=duly.Retry(3), effects="pure")
app.task(retry="5")                     # wrong: call-overload
app.task(timeout=60)                    # wrong: call-overload
app.task(colour="red")                  # wrong: call-overload
app.command("dump", ["pg_dump", "{database}"], user="backup", parameters={"database": str})
app.command("dump", "pg_dump", user=1)  # wrong: arg-type
app.webhook("tell", "https://example.com/", secret=duly.secret("env:HOOK"))

@app.task(retry=3)
async def pay(run: duly.Run, token: duly.Secret) -> object:
    run.progress(1, total=2, note="half")
    state = run.resume_from("part")
    await run.aio.checkpoint({"done": 1}, partition="part")
    run.progress("1")                   # wrong: arg-type
    return duly.retry("1h", "busy") if run.cancelled else token.reveal()

pay.bind(token=duly.secret("env:PAY"))
pay.bind()                              # wrong: call-arg
app.runs.retry(app.runs.select(task="pay"), reason="again")
app.runs.retry(5)                       # wrong: arg-type
with duly.testing.virtual_time(app, "2026-03-28T12:00", tz="Europe/Berlin") as clock:
    clock.advance("24h")
    clock.advance(5)                    # wrong: arg-type
app.enqueue(tidy)
app.enqueue("tidy")                     # wrong: arg-type
app.enqueue_many(remind.bind(one) for one in range(3))
reveal: duly.BoundCall = remind.bind(1)
"""


def test_a_wrong_argument_is_a_type_error(tmp_path):
    pytest.importorskip("mypy")
    example = tmp_path / "example.py"
    example.write_text(EXAMPLE, encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", str(example)]
    command += ["--cache-dir", str(tmp_path / "cache"), "--follow-imports", "silent"]

    answer = subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, check=False, timeout=120
    )
    found: dict[int, set[str]] = {}
    for line, code in re.findall(r":(\d+): error: .*\[([\w-]+)\]$", answer.stdout, re.MULTILINE):
        found.setdefault(int(line), set()).add(code)
    wanted = {
        number: set(line.partition("# wrong: ")[2].split(", "))
        for number, line in enumerate(EXAMPLE.splitlines(), 1)
        if "# wrong: " in line
    }

    assert "" == answer.stderr
    assert sorted(wanted) == sorted(found), answer.stdout
    assert all(codes & wanted[line] for line, codes in found.items()), answer.stdout
