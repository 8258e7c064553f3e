"""Long work says how far it is: on a terminal's standard error, and nowhere else."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

import duly
from duly import every

if TYPE_CHECKING:
    from tests.cli.duly_command import Workplace

SPAN = ("--since", "-3d", "--until", "now")


def make(place: Workplace) -> str:
    """Return a backfill of a schedule."""
    create = ("schedule", "create", "nightly", "--task", "nightly_report", "--when", "1d")
    assert 0 == place.duly(*create).status
    made = place.duly("backfill", "create", "nightly", *SPAN, "--yes", "--json")
    assert 0 == made.status, made.err
    identity: str = made.json["id"]
    return identity


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("export", "all.jsonl"), r"\d+ written"),
        (("import", "before.jsonl", "--dry-run", "--on-conflict", "skip"), r"\d+ read"),
        (("audit", "verify"), r"\d+ entries compared"),
        (("audit", "export", "trail.jsonl"), r"\d+ entries written"),
        (("db", "check"), "looking for what must never be"),
    ],
)
def test_a_terminal_is_told_how_far_it_is_and_a_pipe_is_not(place: Workplace, words, said):
    """Progress on stderr only if it is a terminal."""
    make(place)
    place.duly("export", "before.jsonl")
    typed = place.typed("", *words)
    for name in ("all.jsonl", "trail.jsonl"):
        (place.folder / name).unlink(missing_ok=True)
    piped = place.duly(*words)

    assert 0 == typed.status, typed.out
    assert re.search(said, typed.out)
    assert 0 == piped.status, piped.err
    assert not re.search(said, piped.out + piped.err)


def test_a_backfill_is_waited_for(place: Workplace):
    """Up to a limit; what is over is shown at once."""
    identity = make(place)
    late = place.duly("backfill", "show", identity, "--wait", "--timeout", "200ms")
    seen = place.typed("", "backfill", "show", identity, "--wait", "--timeout", "300ms")
    unsaid = place.duly("backfill", "show", identity, "--timeout", "1s")
    place.duly("backfill", "cancel", identity, "--reason", "r")
    over = place.duly("backfill", "show", identity, "--wait", "--json")

    assert (124, "") == (late.status, late.err)
    assert "active: 0 of 3 occurrences looked at, 0 made, 0 open" in seen.out
    assert (2, True) == (unsaid.status, "give --wait, too" in unsaid.err)
    assert (0, "cancelled") == (over.status, over.json["status"])


def test_a_program_is_told_how_far_it_is(tmp_path):
    """Of each whether it wants to know; the numbers only grow."""
    app = duly.App(f"sqlite:///{tmp_path / 'a.db'}", actor="ada")
    report = app.task(name="report")(lambda: None)
    for number in range(3):
        app.schedules.create(f"schedule {number}", report, every("1h"))
    written: list[int] = []
    read: list[int] = []
    compared: list[int] = []
    app.promises.export(tmp_path / "all.jsonl", tell=written.append)
    app.promises.import_from(
        tmp_path / "all.jsonl", dry_run=True, on_conflict="skip", tell=read.append
    )
    app.audit.verify(tell=compared.append)
    app.close()

    assert (0, 0) == (written[0], read[0])
    assert written[-1] == read[-1] >= 3
    assert compared == sorted(compared)
    assert compared[-1] >= 3
