"""`duly limit`: how many runs may go on, and how often, of a task, a tenant or a destination."""

from __future__ import annotations

from cyclopts import App

from duly.cli.output import print_json, print_line, print_table
from duly.cli.target import Target, opened
from duly.cli.undoing import print_undo, undo_text
from duly.client.limits import Limit, Place
from duly.domain.time_texts import utc_text
from duly.errors import UsageError

TARGET = Target()
LIMIT_HEADINGS = ("limit", "running", "by", "rate", "set by", "since", "why")
PLACE_HEADINGS = ("taken", "running", "waiting", "next turn")

app = App(name="limit", help="Limit how many runs go on, and how often; for the whole fleet.")


@app.command(name="list")
def list_limits(*, target: Target = TARGET) -> None:
    """List limits that people have set and code declares, and where runs wait because of one."""
    with opened(target, makes_store=False) as application:
        limits, places = application.limits.list(), application.limits.places()
        if target.json:
            said, taken = [one.to_json() for one in limits], [one.to_json() for one in places]
            print_json({"limits": said, "places": taken})
            return
        if not limits:
            print_line(
                "Nothing is limited. To limit something: duly limit set task:send --running 5"
            )
        else:
            print_table(LIMIT_HEADINGS, [_row(one) for one in limits])
        if places:
            print_line("")
            print_table(PLACE_HEADINGS, [_place_row(one) for one in places])


@app.command(name="set")
def set_limit(  # noqa: PLR0913 - each part of a limit is an option
    name: str,
    /,
    *,
    running: int | None = None,
    by: tuple[str, ...] = (),
    rate: str | None = None,
    reason: str | None = None,
    target: Target = TARGET,
) -> None:
    """Limit a task, a tenant or a destination; workers heed it within a few seconds.

    It takes the place of what was set before, and counts before what the task's code declares.

    Parameters
    ----------
    name
        Of what: task:send, tenant:acme, destination:api.example.com; with * for each by itself.
    running
        How many of its runs go on at a time.
    by
        How many with the same value of a parameter: account_id=1. Of tasks alone.
    rate
        How many begin in a while: 50/s, 100/m, '30/15m burst 5'.
    reason
        Why; it is recorded.
    """
    with opened(target, makes_store=False) as application:
        before = next((one for one in application.limits.list() if _is_persons(one, name)), None)
        made = application.limits.set(
            name, running=running, rate=rate, running_by=_read_by(by) or None, reason=reason
        )
        words = ("limit", "remove", name) if before is None else ("limit", "set", *_words(before))
        taking_back = undo_text(*words)
        if target.json:
            print_json({**made.to_json(), "undo": taking_back})
            return
        print_line(f"{made.name}: {_text(made)}.")
        print_undo(taking_back)


@app.command
def remove(name: str, /, *, reason: str | None = None, target: Target = TARGET) -> None:
    """Lift a limit that somebody has set; what the task's code declares holds again.

    Parameters
    ----------
    name
        Of what: as duly limit list shows it.
    reason
        Why; it is recorded.
    """
    with opened(target, makes_store=False) as application:
        before = next((one for one in application.limits.list() if _is_persons(one, name)), None)
        was_set = application.limits.remove(name, reason=reason)
        taking_back = None
        if was_set and before is not None:
            taking_back = undo_text("limit", "set", *_words(before))
        if target.json:
            print_json({"name": name, "was_set": was_set, "undo": taking_back})
            return
        if taking_back is None:
            print_line(f"Nobody has set a limit for {name}. Nothing was changed.")
            return
        print_line(f"Removed the limit for {name}.")
        print_undo(taking_back)


def _is_persons(limit: Limit, name: str) -> bool:
    return limit.name == name and limit.source == "person"


def _read_by(given: tuple[str, ...]) -> dict[str, int]:
    """Read how many by parameter, as in account_id=1."""
    found: dict[str, int] = {}
    for one in given:
        parameter, separator, number = one.partition("=")
        if not separator or not parameter or not number.isascii() or not number.isdigit():
            remedy = "give a parameter and how many, such as account_id=1"
            raise UsageError("by", one, "is not such a pair", remedy)
        found[parameter] = int(number[:10])
    return found


def _words(limit: Limit) -> list[str]:
    """Return what to type to set a limit as it is."""
    words = [limit.name]
    if limit.running is not None:
        words += ["--running", str(limit.running)]
    for parameter, number in limit.running_by.items():
        words += ["--by", f"{parameter}={number}"]
    if limit.rate is not None:
        words += ["--rate", limit.rate]
    return words


def _text(limit: Limit) -> str:
    parts = []
    if limit.running is not None:
        parts.append(f"at most {limit.running:,} running at a time")
    parts += [f"at most {number:,} by {name}" for name, number in limit.running_by.items()]
    if limit.rate is not None:
        parts.append(f"at most {limit.rate}")
    return ", ".join(parts)


def _row(limit: Limit) -> tuple[str, ...]:
    by = ", ".join(f"{name}={number:,}" for name, number in limit.running_by.items())
    is_code = limit.source == "code"
    return (
        limit.name,
        "-" if limit.running is None else f"{limit.running:,}",
        by or "-",
        limit.rate or "-",
        "its code" if is_code else limit.set_by,
        utc_text(limit.set_at),
        "-" if is_code else limit.reason or "-",
    )


def _place_row(place: Place) -> tuple[str, ...]:
    return (place.name, f"{place.held:,}", f"{place.waiting:,}", utc_text(place.next_at))
