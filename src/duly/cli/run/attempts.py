"""`duly run attempts`, `duly run ambiguous`: each try of a run, and runs that wait for a person."""

from __future__ import annotations

from duly.cli.inbox import inbox
from duly.cli.output import print_block, print_json, print_line
from duly.cli.references import RunName, find_run
from duly.cli.run.story import print_attempts
from duly.cli.target import Target, opened

TARGET = Target()


def attempts(run: RunName, /, *, target: Target = TARGET) -> None:
    """Show each attempt of a run: by whom, under which fence, how it ended, with its error."""
    with opened(target, makes_store=False) as app:
        found = find_run(app, run)
        tried = app.runs.attempts(found.id)
        if target.json:
            print_json([one.to_json() for one in tried])
            return
        if not tried:
            print_line(f"{found.label} was not tried yet. Ask why: duly run why {found.id}")
            return
        print_attempts(tried, app.status().now)
        for one in tried:
            if one.error:
                print_line((f"error of fence {one.fence}", "dim"))
                print_block(one.error)


def ambiguous(*, limit: int = 50, target: Target = TARGET) -> int:
    """List runs of which nobody knows what they did, with what is safest: as duly inbox does.

    Parameters
    ----------
    limit
        At most so many.
    """
    return inbox(limit=limit, target=target)
