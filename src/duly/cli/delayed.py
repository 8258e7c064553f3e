"""`duly delayed`: delayed runs that are pending."""

from __future__ import annotations

from typing import Annotated

from cyclopts import App, Parameter

from duly.cli.output import is_all_told, print_table
from duly.cli.target import Target, opened
from duly.cli.times import relative_text
from duly.domain.time_texts import utc_text

TARGET = Target()
NUMBER_DEFAULT = 50

app = App(name="delayed", help="Look at delayed runs that are pending.")


@app.command(name="list")
def list_delayed(
    *,
    number: Annotated[int, Parameter(name=["--number", "-n"])] = NUMBER_DEFAULT,
    target: Target = TARGET,
) -> None:
    """List delayed runs that are pending, in the order in which they fall due.

    Parameters
    ----------
    number
        How many to show at the most.
    """
    with opened(target, makes_store=False) as application:
        found = application.delayed.list(limit=number)
        if is_all_told(found, "No delayed run is pending.", as_json=target.json):
            return
        now = application.status().now
        rows = [
            (
                one.key or "-",
                one.task,
                utc_text(one.due_at),
                relative_text(now, one.due_at),
                one.queue,
                str(one.moves),
                str(one.id),
            )
            for one in found
        ]
        print_table(("key", "task", "due (UTC)", "", "queue", "moves", "id"), rows)
