"""`duly status`: the health of everything on one screen, with a sentence for each finding."""

from __future__ import annotations

from collections.abc import Sequence

from duly.cli.health import Health, judge_health, living, skew_text
from duly.cli.output import print_facts, print_json, print_line, print_table
from duly.cli.target import Target, opened
from duly.cli.times import distance_text, relative_text, utc_text
from duly.client.status_view import Status
from duly.clock import SystemClock
from duly.domain.instants import iso_utc
from duly.store.dispatch import LeaseRecord
from duly.store.schema import SchemaStatus

TARGET = Target()
DEGRADED = 1


def status(*, target: Target = TARGET) -> int:
    """Show the health of everything on one screen; exit code 0 is well, 1 degraded, 5 unavailable.

    What is wrong is said in a sentence each, with what to do about it.
    """
    with opened(target, makes_store=False) as app:
        leases = app.store.status().leases
        found = app.status()
        queues = app.queues.list()
        schema = app.schema_status()
        health = judge_health(found, queues, app.breakers.list())
        if target.json:
            print_json(
                {
                    **health.to_json(),
                    **found.to_json(),
                    "here": iso_utc(SystemClock().now()),
                    "schema": {"applied": len(schema.applied), "missing": len(schema.missing)},
                    "queue_list": [one.to_json() for one in queues],
                }
            )
        else:
            _print(found, schema, leases)
            _print_dispatchers(found)
            _print_workers(found)
            _print_health(health)
        return DEGRADED if health.findings else 0


def _print(found: Status, schema: SchemaStatus, leases: Sequence[LeaseRecord]) -> None:
    missing = f", {len(schema.missing)} to apply (duly db migrate)" if schema.missing else ""
    facts = [
        ("store", found.store),
        ("schema", f"{_migrations(len(schema.applied))} applied{missing}"),
        ("time", f"{utc_text(found.now)} by the store, {utc_text(SystemClock().now())} here"),
        ("schedules", _counts(found.schedules)),
        ("delayed runs", f"{found.delayed:,} pending"),
        ("queued runs", _counts(found.queues, "in ")),
        ("other open runs", _open(found)),
        ("paused queues", ", ".join(found.paused_queues) or "none"),
        ("next due", _next(found)),
        ("overdue", _overdue(found)),
        ("owed", f"{found.owed:,} ranges to catch up with" if found.owed else "nothing"),
        ("early fires", f"{found.early_fires} (never more than 0)"),
        ("leases owned", _leases(leases)),
        ("tzdata", found.tzdata or "not noted yet"),
    ]
    print_facts(facts)


def _print_health(health: Health) -> None:
    for note in health.notes:
        print_line(("note: ", "bold yellow"), note)
    for problem in health.findings:
        print_line(("degraded: ", "bold red"), problem)
    if health.findings:
        return
    if health.notes:
        what = "the note" if len(health.notes) == 1 else f"the {len(health.notes):,} notes"
        print_line(("Dispatch and work go on", "green"), f"; {what} above should be looked at.")
    else:
        print_line(("All is well.", "green"))


def _print_dispatchers(found: Status) -> None:
    rows = [
        (
            str(one.id),
            f"{one.host}, {one.process}",
            "holding" if one.is_holding else "alive",
            f"{one.leases} leases",
            skew_text(one.skew),
            one.tzdata,
            relative_text(found.now, one.started_at),
        )
        for one in living(found, "dispatcher")
    ]
    if rows:
        print_table(
            ("dispatcher", "host, process", "state", "owns", "skew", "tzdata", "since"), rows
        )
    else:
        print_line("No dispatcher is alive.")


def _print_workers(found: Status) -> None:
    rows = [
        (
            str(one.id),
            f"{one.host}, {one.process}",
            f"{one.running} of {one.slots}",
            str(one.leaked),
            ", ".join(one.queues) or "all",
            relative_text(found.now, one.renewed_at),
            relative_text(found.now, one.started_at),
        )
        for one in living(found, "worker")
    ]
    if rows:
        print_table(
            ("worker", "host, process", "slots busy", "lost", "queues", "heartbeat", "since"), rows
        )
    else:
        print_line("No worker is alive.")


def _open(found: Status) -> str:
    return f"{found.running:,} running, {found.retrying:,} retrying, {found.dead:,} dead"


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
