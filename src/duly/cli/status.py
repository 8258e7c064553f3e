"""`duly status`: the health of everything on one screen, with a sentence for each finding."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from duly.cli.output import print_facts, print_json, print_line, print_table
from duly.cli.target import Target, opened
from duly.cli.times import distance_text, relative_text, utc_text
from duly.client.status_view import MemberStatus, Status, status_view
from duly.clock import SystemClock
from duly.domain.instants import iso_utc
from duly.store.dispatch import LeaseRecord
from duly.store.schema import SchemaStatus

TARGET = Target()
DEGRADED = 1
LATE = timedelta(seconds=60)
"""The grace of most schedules: what is overdue for longer is late by anybody's measure."""


def status(*, target: Target = TARGET) -> int:
    """Show the health of everything on one screen; exit code 0 is well, 1 degraded, 5 unavailable.

    What is wrong is said in a sentence each, with what to do about it.
    """
    with opened(target, makes_store=False) as app:
        stored = app.store.status()
        found = status_view(app.store.name, stored)
        schema = app.schema_status()
        problems = findings(found)
        if target.json:
            print_json(_json(found, schema, problems))
        else:
            _print(found, schema, stored.leases)
            _print_findings(found, problems)
        return DEGRADED if problems else 0


def findings(found: Status) -> list[str]:
    """Say what is wrong, one sentence each."""
    problems: list[str] = []
    if found.early_fires:
        problems.append(
            f"{found.early_fires} runs were fired early, which must never be: duly db check"
        )
    firing = [one for one in _living(found) if not one.is_holding]
    waits = "" if found.oldest_due_at is None else distance_text(found.oldest_due_at, found.now)
    if not firing and found.overdue:
        problems.append(
            f"{_timers(found.overdue)} due and nobody fires; the oldest for {waits}: "
            "start duly dispatcher"
        )
    elif not firing and found.next_due_at is not None:
        when = utc_text(found.next_due_at)
        problems.append(f"nobody will fire what is due at {when}: start duly dispatcher")
    elif found.oldest_due_at is not None and found.now - found.oldest_due_at > LATE:
        problems.append(
            f"{_timers(found.overdue)} due, the oldest for {waits}, although a dispatcher runs: "
            "see what it says"
        )
    problems += [_holding(one, found) for one in _living(found) if one.is_holding]
    return problems


def _holding(member: MemberStatus, found: Status) -> str:
    name = f"dispatcher {member.id} on {member.host} is holding and fires nothing"
    if member.tzdata < found.tzdata:
        return f"{name}: it has tzdata {member.tzdata}, the fleet {found.tzdata}; update it there"
    return f"{name}: its clock is {_skew(member.skew)} off the store's; set it right"


def _living(found: Status) -> list[MemberStatus]:
    return [one for one in found.members if one.is_alive and one.kind == "dispatcher"]


def _print(found: Status, schema: SchemaStatus, leases: Sequence[LeaseRecord]) -> None:
    missing = f", {len(schema.missing)} to apply (duly db migrate)" if schema.missing else ""
    facts = [
        ("store", found.store),
        ("schema", f"{_migrations(len(schema.applied))} applied{missing}"),
        ("time", f"{utc_text(found.now)} by the store, {utc_text(SystemClock().now())} here"),
        ("schedules", _counts(found.schedules)),
        ("delayed runs", f"{found.delayed:,} pending"),
        ("queued runs", _counts(found.queues, "in ")),
        ("next due", _next(found)),
        ("overdue", _overdue(found)),
        ("owed", f"{found.owed:,} ranges to catch up with" if found.owed else "nothing"),
        ("early fires", f"{found.early_fires} (never more than 0)"),
        ("leases owned", _leases(leases)),
        ("tzdata", found.tzdata or "not noted yet"),
    ]
    print_facts(facts)


def _print_findings(found: Status, problems: list[str]) -> None:
    _print_members(found)
    for problem in problems:
        print_line(("degraded: ", "bold red"), problem)
    if not problems:
        print_line(("All is well.", "green"))


def _print_members(found: Status) -> None:
    rows = [
        (
            str(one.id),
            f"{one.host}, {one.process}",
            "holding" if one.is_holding else "alive",
            f"{one.leases} leases",
            _skew(one.skew),
            one.tzdata,
            relative_text(found.now, one.started_at),
        )
        for one in _living(found)
    ]
    if rows:
        print_table(
            ("dispatcher", "host, process", "state", "owns", "skew", "tzdata", "since"), rows
        )
    else:
        print_line("No dispatcher is alive.")


def _leases(leases: Sequence[LeaseRecord]) -> str:
    """Say of each lane how many shards have an owner."""
    lanes: dict[str, list[LeaseRecord]] = {}
    for lease in leases:
        lanes.setdefault(str(lease.key.lane), []).append(lease)
    return ", ".join(
        f"{lane} {sum(one.owner is not None for one in found)} of {len(found)}"
        for lane, found in lanes.items()
    )


def _counts(counts: dict[str, int], preposition: str = "") -> str:
    parts = (f"{count:,} {preposition}{word}" for word, count in counts.items())
    return ", ".join(parts) or "none"


def _next(found: Status) -> str:
    if found.next_due_at is None:
        return "nothing"
    return f"{utc_text(found.next_due_at)}, {relative_text(found.now, found.next_due_at)}"


def _overdue(found: Status) -> str:
    if not found.overdue or found.oldest_due_at is None:
        return "nothing"
    return f"{found.overdue:,}, the oldest for {distance_text(found.oldest_due_at, found.now)}"


def _migrations(number: int) -> str:
    return "1 migration" if number == 1 else f"{number:,} migrations"


def _timers(number: int) -> str:
    return "1 timer is" if number == 1 else f"{number:,} timers are"


def _skew(skew: timedelta) -> str:
    return f"{skew.total_seconds() * 1000:+.1f} ms"


def _json(found: Status, schema: SchemaStatus, problems: list[str]) -> dict[str, Any]:
    return {
        "is_well": not problems,
        "findings": problems,
        **found.to_json(),
        "here": iso_utc(SystemClock().now()),
        "schema": {"applied": len(schema.applied), "missing": len(schema.missing)},
    }
