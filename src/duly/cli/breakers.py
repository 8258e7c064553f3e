"""`duly breaker`: which destinations are left alone because they are down, and until when."""

from __future__ import annotations

from datetime import datetime

from cyclopts import App

from duly.cli.output import is_all_told, print_facts, print_json, print_line, print_table
from duly.cli.target import Target, opened
from duly.cli.times import relative_text
from duly.cli.undoing import UNSAID, undo_text
from duly.client.breakers import Breaker
from duly.domain.time_texts import utc_text

TARGET = Target()

app = App(name="breaker", help="Look at destinations that are down, and call them again.")


@app.command(name="list")
def list_breakers(*, target: Target = TARGET) -> None:
    """List destinations: whether they are called, and how that went of late."""
    with opened(target, makes_store=False) as application:
        found = application.breakers.list()
        if is_all_told(found, "No task has called a destination yet.", as_json=target.json):
            return
        now = application.status().now
        headings = ("destination", "breaker", "went well", "failed", "open since", "tried again")
        print_table(headings, [_row(one, now) for one in found])


@app.command
def show(destination: str, /, *, target: Target = TARGET) -> None:
    """Show one destination.

    Parameters
    ----------
    destination
        Its name: of a webhook, the host of its address.
    """
    with opened(target, makes_store=False) as application:
        found = application.breakers.get(destination)
        if target.json:
            print_json(found.to_json())
            return
        now = application.status().now
        print_line((_sentence(found, now), "bold"))
        facts = [
            ("destination", found.destination),
            ("breaker", found.state),
            ("running", f"{found.running:,}"),
        ]
        if found.is_closed:
            facts.append(("counted", f"{found.succeeded:,} went well, {found.failed:,} failed"))
        else:
            facts += [
                ("open since", utc_text(found.opened_at)),
                ("tried again", utc_text(found.retry_at)),
            ]
        print_facts(facts)
        if not found.is_closed:
            again = undo_text("breaker", "reset", found.destination, "--reason", UNSAID)
            print_line(("remedy: ", "dim"), f"{again}, if it is up")


@app.command
def reset(destination: str, /, *, reason: str, target: Target = TARGET) -> None:
    """Call a destination again at once, and count anew how that goes.

    Parameters
    ----------
    destination
        Its name, as duly breaker list shows it.
    reason
        Why; it is recorded.
    """
    with opened(target, makes_store=False) as application:
        before = application.breakers.get(destination)
        found = application.breakers.reset(destination, reason=reason)
        if target.json:
            print_json({**found.to_json(), "was": before.state})
            return
        if before.is_closed:
            print_line(f"The breaker of {destination} was closed; it is counted anew.")
            return
        print_line(f"Closed the breaker of {destination}: runs that wait for it go on by and by.")


def _sentence(breaker: Breaker, now: datetime) -> str:
    if breaker.is_closed:
        return f"{breaker.destination} is called as runs fall due."
    if breaker.state == "half-open":
        return f"{breaker.destination} is being tried: a probe is under way."
    again = "" if breaker.retry_at is None else f", {relative_text(now, breaker.retry_at)}"
    return f"{breaker.destination} is left alone until {utc_text(breaker.retry_at)}{again}."


def _row(breaker: Breaker, now: datetime) -> tuple[str, ...]:
    again = breaker.retry_at if breaker.state == "open" else None
    return (
        breaker.destination,
        breaker.state,
        f"{breaker.succeeded:,}",
        f"{breaker.failed:,}",
        utc_text(breaker.opened_at),
        "-" if again is None else relative_text(now, again),
    )
