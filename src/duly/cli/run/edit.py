"""`duly run edit`: gives a dead run other arguments, so that it can be tried with them."""

from __future__ import annotations

import json

from duly.cli.calls import ArgumentOptions, note_unchecked, read_arguments
from duly.cli.output import print_json, print_line
from duly.cli.references import RunName, find_run
from duly.cli.target import Target, opened
from duly.cli.undoing import UNSAID, print_undo, undo_text
from duly.errors import UsageError

ARGUMENTS = ArgumentOptions()
TARGET = Target()


def edit(
    run: RunName,
    /,
    *,
    arguments: ArgumentOptions = ARGUMENTS,
    reason: str | None = None,
    target: Target = TARGET,
) -> None:
    """Give a dead run other arguments: --arguments replaces all of them, -a changes one.

    Parameters
    ----------
    reason
        Why; it is recorded.
    """
    if not arguments.is_given:
        remedy = "give --arguments '{…}', or -a class_id=42"
        raise UsageError("arguments", None, "is missing", remedy)
    with opened(target, makes_store=False) as app:
        before = find_run(app, run)
        given = dict(read_arguments(arguments))
        new = given if arguments.arguments is not None else {**before.arguments, **given}
        edited = app.runs.edit(before.id, new, reason=reason)
        old = json.dumps(before.arguments, ensure_ascii=False)
        words = ("run", "edit", str(edited.id), "--arguments", old, "--reason", UNSAID)
        taking_back = undo_text(*words)
        if target.json:
            print_json({**edited.to_json(), "undo": taking_back})
            return
        now = json.dumps(edited.arguments, ensure_ascii=False)
        print_line(f"{edited.label} has other arguments: {old} → {now}.")
        print_line(f"It stays dead until it is tried: duly run retry {edited.id}")
        print_undo(taking_back)
        note_unchecked(app, edited.task)
