"""Commands about limits, quotas and circuit breakers."""

from __future__ import annotations

from datetime import datetime
from difflib import get_close_matches

from cyclopts import App

from duly.app import App as Application
from duly.cli.confirm import UNSAID, print_undo, undo_command
from duly.cli.context import Target, open_app
from duly.cli.output import (
    print_aside,
    print_empty_or_json,
    print_facts,
    print_json,
    print_line,
    print_table,
)
from duly.cli.times import relative_text
from duly.client.limits import Breaker, Limit, Place, Quota
from duly.domain.quotas import Counted
from duly.errors import UsageError
from duly.timetable.instants import utc_text

TARGET = Target()
LIMIT_HEADINGS = ("limit", "running", "by", "rate", "set by", "since", "why")
PLACE_HEADINGS = ("taken", "running", "waiting", "next turn")

app = App(name="limit", help="Limit how many runs go on, and how often; for the whole fleet.")


@app.command(name="list")
def list_limits(*, target: Target = TARGET) -> None:
    """List limits that people have set and code declares, and where runs wait because of one."""
    with open_app(target, makes_store=False) as application:
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
    with open_app(target, makes_store=False) as application:
        before = next((one for one in application.limits.list() if _is_persons(one, name)), None)
        made = application.limits.set(
            name, running=running, rate=rate, running_by=_read_by(by) or None, reason=reason
        )
        _note_unknown_task(application, name, as_json=target.json)
        words = ("limit", "remove", name) if before is None else ("limit", "set", *_words(before))
        taking_back = undo_command(*words)
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
    with open_app(target, makes_store=False) as application:
        before = next((one for one in application.limits.list() if _is_persons(one, name)), None)
        was_set = application.limits.remove(name, reason=reason)
        taking_back = None
        if was_set and before is not None:
            taking_back = undo_command("limit", "set", *_words(before))
        if target.json:
            print_json({"name": name, "was_set": was_set, "undo": taking_back})
            return
        if taking_back is None:
            print_line(f"Nobody has set a limit for {name}. Nothing was changed.")
            return
        print_line(f"Removed the limit for {name}.")
        print_undo(taking_back)


def _note_unknown_task(application: Application, name: str, *, as_json: bool) -> None:
    """Say that no program has made a task of that name known; the limit is set all the same."""
    kind, _, task = name.partition(":")
    if kind != "task" or "*" in task:
        return
    known = {*application.tasks.names(), *application.store.list_tasks()}
    if task not in known:
        close = get_close_matches(task, sorted(known), n=1)
        like = f"did you mean {close[0]}?" if close else "is it spelled right?"
        print_aside("note", f"no program has told of a task {task}; {like}", as_json=as_json)


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


breaker_app = App(name="breaker", help="Look at destinations that are down, and call them again.")


@breaker_app.command(name="list")
def list_breakers(*, target: Target = TARGET) -> None:
    """List destinations: whether they are called, and how that went of late."""
    with open_app(target, makes_store=False) as application:
        found = application.breakers.list()
        if print_empty_or_json(found, "No task has called a destination yet.", as_json=target.json):
            return
        now = application.status().now
        headings = (
            *("destination", "breaker", "went well", "failed", "waiting"),
            *("open since", "tried again"),
        )
        print_table(headings, [_breaker_row(one, now) for one in found])


@breaker_app.command
def show(destination: str, /, *, target: Target = TARGET) -> None:
    """Show one destination.

    Parameters
    ----------
    destination
        Its name: of a webhook, the host of its address.
    """
    with open_app(target, makes_store=False) as application:
        found = application.breakers.get(destination)
        if target.json:
            print_json(found.to_json())
            return
        now = application.status().now
        print_line((_breaker_sentence(found, now), "bold"))
        facts = [
            ("destination", found.destination),
            ("breaker", found.state),
            ("running", f"{found.running:,}"),
            ("waiting", f"{found.waiting:,}"),
            ("counted", f"{found.succeeded:,} went well, {found.failed:,} failed"),
        ]
        if not found.is_closed:
            facts += [
                ("open since", utc_text(found.opened_at)),
                ("tried again", utc_text(found.retry_at)),
            ]
        print_facts(facts)
        if not found.is_closed:
            again = undo_command("breaker", "reset", found.destination, "--reason", UNSAID)
            print_line(("remedy: ", "dim"), f"{again}, if it is up")


@breaker_app.command
def reset(destination: str, /, *, reason: str, target: Target = TARGET) -> None:
    """Call a destination again at once, and count anew how that goes.

    Parameters
    ----------
    destination
        Its name, as duly breaker list shows it.
    reason
        Why; it is recorded.
    """
    with open_app(target, makes_store=False) as application:
        before = application.breakers.get(destination)
        found = application.breakers.reset(destination, reason=reason)
        if target.json:
            print_json({**found.to_json(), "was": before.state})
            return
        if before.is_closed:
            print_line(f"The breaker of {destination} was closed; it is counted anew.")
            return
        print_line(f"Closed the breaker of {destination}: runs that wait for it go on by and by.")


def _breaker_sentence(breaker: Breaker, now: datetime) -> str:
    if breaker.is_closed:
        return f"{breaker.destination} is called as runs fall due."
    if breaker.state == "half-open":
        return f"{breaker.destination} is being tried: a probe is under way."
    again = "" if breaker.retry_at is None else f", {relative_text(now, breaker.retry_at)}"
    return f"{breaker.destination} is left alone until {utc_text(breaker.retry_at)}{again}."


def _breaker_row(breaker: Breaker, now: datetime) -> tuple[str, ...]:
    again = breaker.retry_at if breaker.state == "open" else None
    return (
        breaker.destination,
        breaker.state,
        f"{breaker.succeeded:,}",
        f"{breaker.failed:,}",
        f"{breaker.waiting:,}",
        utc_text(breaker.opened_at),
        "-" if again is None else relative_text(now, again),
    )


NO_BOUND = "none"
_WORDS = {
    Counted.SCHEDULES: "active schedules",
    Counted.CREATIONS: "schedules made in a minute",
    Counted.PENDING: "delayed runs pending",
}

quota_app = App(name="quota", help="Bound how much owners and tenants may ask for.")


@quota_app.command(name="set")
def set_quotas(  # noqa: PLR0913 - each quota is an option
    scope: str,
    /,
    *,
    schedules: str | None = None,
    creations: str | None = None,
    pending: str | None = None,
    tenant: str | None = None,
    reason: str | None = None,
    target: Target = TARGET,
) -> None:
    """Set quotas; what is not given stays, and what there is already is left alone.

    Parameters
    ----------
    scope
        Whose: owner:NAME, owner:* (each owner by itself), tenant:NAME, tenant:* (each), or all.
    schedules
        How many active schedules an owner or a tenant may have; none for no bound.
    creations
        How many schedules a tenant, or all together, may make in a minute; none for no bound.
    pending
        How many delayed runs of a tenant may be pending; none for no bound.
    tenant
        With owner:NAME: whose owner; the application's own tenant unless given.
    reason
        Why; it is recorded.
    """
    given = {"schedules": schedules, "creations": creations, "pending": pending}
    with open_app(target) as application:
        most = {name: _number(name, text) for name, text in given.items() if text is not None}
        before = _of(application, scope, tenant)
        after = application.quotas.set(scope, tenant=tenant, reason=reason, **most)
        taking_back = _undo(_named(scope, tenant), before, most)
        if target.json:
            print_json({"quotas": [one.to_json() for one in after], "undo": taking_back})
            return
        for quota in after:
            print_line(_quota_sentence(quota))
        print_undo(taking_back)


@quota_app.command(name="list")
def list_quotas(*, target: Target = TARGET) -> None:
    """List quotas, with who set them and when."""
    with open_app(target, makes_store=False) as application:
        found = application.quotas.list()
        if target.json:
            print_json([one.to_json() for one in found])
            return
        rows = [_quota_row(one) for one in found]
        print_table(("whose", "of tenant", "at most", "set by", "at", "version"), rows)


@quota_app.command(name="remove")
def remove_quota(
    scope: str,
    /,
    *,
    tenant: str | None = None,
    reason: str | None = None,
    target: Target = TARGET,
) -> None:
    """Take back all that was set for a scope: what is said about each holds again.

    Parameters
    ----------
    scope
        Whose: as duly quota list shows it.
    tenant
        With owner:NAME: whose owner; the application's own tenant unless given.
    reason
        Why; it is recorded.
    """
    with open_app(target, makes_store=False) as application:
        before = _of(application, scope, tenant)
        application.quotas.remove(scope, tenant=tenant, reason=reason)
        taking_back = undo_command("quota", "set", *_named(scope, tenant), *_options(before))
        if target.json:
            print_json({"scope": scope, "undo": taking_back})
            return
        print_line(f"Removed the quotas of {scope}.")
        print_undo(taking_back)


def _number(name: str, text: str) -> int | str:
    if text == NO_BOUND:
        return text
    if not (text.isascii() and text.isdigit()):
        raise UsageError(name, text, "is not a number", f"give a whole number, or {NO_BOUND}")
    return int(text[:10])


def _named(scope: str, tenant: str | None) -> list[str]:
    return [scope] if tenant is None else [scope, "--tenant", tenant]


def _of(application: Application, scope: str, tenant: str | None) -> list[Quota]:
    """Return what was set for a scope before."""
    whose = (None, tenant or application.tenant)
    return [
        one
        for one in application.quotas.list()
        if one.scope == scope and one.tenant in whose and not one.is_default
    ]


def _undo(named: list[str], before: list[Quota], most: dict[str, int | str]) -> str:
    changed = [one for one in before if one.counted in most]
    if len(changed) < len(most):
        # A quota that was not there before can only be taken back with the others of its scope.
        kept = _options(before)
        again = f" && {undo_command('quota', 'set', *named, *kept)}" if kept else ""
        return undo_command("quota", "remove", *named) + again
    return undo_command("quota", "set", *named, *_options(changed))


def _options(quotas: list[Quota]) -> list[str]:
    words: list[str] = []
    for one in quotas:
        words += [f"--{one.counted}", NO_BOUND if one.most is None else str(one.most)]
    return words


def _quota_sentence(quota: Quota) -> str:
    words = _WORDS[Counted(quota.counted)]
    if quota.most is None:
        return f"{quota.scope}: no bound on {words}."
    return f"{quota.scope}: at most {quota.most:,} {words}."


def _quota_row(quota: Quota) -> tuple[str, ...]:
    words = _WORDS[Counted(quota.counted)]
    return (
        quota.scope,
        quota.tenant or "-",
        f"no bound on {words}" if quota.most is None else f"{quota.most:,} {words}",
        quota.updated_by or "nobody (default)",
        utc_text(quota.updated_at),
        "-" if quota.is_default else str(quota.version),
    )
