"""`duly run why`: one sentence about why a run is late, stuck, waiting or dead, with evidence."""

from __future__ import annotations

from duly.cli.output import print_facts, print_json, print_line
from duly.cli.references import RunName, find_promise
from duly.cli.target import Target, opened

TARGET = Target()


def why(run: RunName, /, *, target: Target = TARGET) -> None:
    """Say in a sentence why a run is late, stuck, waiting or dead, and what that rests on."""
    with opened(target, makes_store=False) as app:
        found = app.runs.why(find_promise(app, run))
    if target.json:
        print_json(found.to_json())
        return
    print_line((found.sentence, "bold"))
    print_facts([(name, fact) for name, fact in found.evidence])
    if found.remedy is not None:
        print_line(("remedy: ", "dim"), found.remedy)
