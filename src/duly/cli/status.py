"""`duly status`: the health of everything on one screen, with a sentence for each finding."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from threading import Event

from duly.app import App
from duly.cli.alert_texts import open_alerts_text
from duly.cli.output import (
    console,
    print_aside,
    print_facts,
    print_json,
    print_json_line,
    print_line,
    print_table,
)
from duly.cli.target import Target, is_server, named_tenant, opened
from duly.cli.times import relative_text
from duly.cli.waiting import read_interval
from duly.client.health import Health, judge_health, living, skew_text
from duly.client.status_view import Status
from duly.clock import SystemClock
from duly.domain.instants import iso_utc
from duly.domain.time_texts import distance_text, utc_text
from duly.errors import StoreUnavailable
from duly.store.dispatch import LeaseRecord
from duly.store.schema import SchemaStatus

TARGET = Target()
DEGRADED, UNAVAILABLE = 1, 5
INTERVAL_DEFAULT = "2s"


def status(
    *, watch: bool = False, interval: str = INTERVAL_DEFAULT, target: Target = TARGET
) -> int:
    """Show the health of everything on one screen; exit code 0 is well, 1 degraded, 5 unavailable.

    What is wrong is said in a sentence each, with what to do about it.

    Parameters
    ----------
    watch
        Look again and again until Ctrl-C; the exit code is that of the last look. With --json, one
        document on each line.
    interval
        How often to look: 2s, 1m.
    """
    interval_s = read_interval(interval)
    with opened(target, makes_store=False) as app:
        if not watch:
            codes = [0]
            _show(app, target, is_stream=False, codes=codes)
            return codes[0]
        return _watch(app, interval_s, target)


def _watch(app: App, interval_s: float, target: Target) -> int:
    """Show it until Ctrl-C; a store that is away for a while does not end it."""
    codes = [0]  # noted before anything is shown: whoever has seen it may end this at once
    with suppress(KeyboardInterrupt):
        while True:
            if not target.json and sys.stdout.isatty():
                console().clear()
            try:
                _show(app, target, is_stream=True, codes=codes)
            except StoreUnavailable as error:
                codes[0] = UNAVAILABLE
                print_aside("unavailable", str(error), as_json=target.json)
            sys.stdout.flush()
            Event().wait(interval_s)
    return codes[0]


def _show(app: App, target: Target, *, is_stream: bool, codes: list[int]) -> None:
    leases = None if is_server(app) else app.store.status().leases
    found = app.status(own=named_tenant(target) is not None)
    queues = app.queues.list()
    schema = None if is_server(app) else app.schema_status()
    health = judge_health(found, queues, app.breakers.list())
    codes[0] = DEGRADED if health.findings else 0
    if target.json:
        (print_json_line if is_stream else print_json)(
            {
                **health.to_json(),
                **found.to_json(),
                "here": iso_utc(SystemClock().now()),
                "schema": None
                if schema is None
                else {"applied": len(schema.applied), "missing": len(schema.missing)},
                "queue_list": [one.to_json() for one in queues],
            }
        )
    else:
        _print(found, schema, leases)
        _print_dispatchers(found)
        _print_workers(found)
        _print_health(health)


def _print(
    found: Status, schema: SchemaStatus | None, leases: Sequence[LeaseRecord] | None
) -> None:
    facts = [
        ("store", found.store if found.tenant is None else f"{found.store}, of {found.tenant}"),
        ("schema", _schema(schema)),
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
        ("open alerts", open_alerts_text(found)),
        *((("completions", judged),) if (judged := _judged(found)) else ()),
        ("leases owned", _leases(found, leases)),
        ("tzdata", found.tzdata or "not noted yet"),
    ]
    print_facts(facts)


def _light(findings: Sequence[object]) -> tuple[str, str]:
    return ("not well", "bold red") if findings else ("well", "bold green")


def _print_health(health: Health) -> None:
    # Two lights, side by side: punctual triggers say nothing about the work (V4).
    print_line("triggers: ", _light(health.dispatch), "   work: ", _light(health.work))
    for note in health.notes:
        print_line(("note: ", "bold yellow"), str(note))
    for problem in health.findings:
        print_line(("degraded: ", "bold red"), str(problem))
    if health.findings:
        return
    if health.notes:
        what = "the note" if len(health.notes) == 1 else f"the {len(health.notes):,} notes"
        print_line(("Dispatch and work go on", "green"), f"; {what} above should be looked at.")
    else:
        print_line(("All is well.", "green"))


def _judged(found: Status) -> str:
    """Say how many schedules were asked for their last completion, where that is not all."""
    active = found.schedules.get("active", 0)
    if found.judged >= active:
        return ""
    asked = f"{found.judged:,} of {active:,} active schedules were asked for their last completion"
    return f"{asked}; alerts go round over all"


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
    doubt = f", {found.ambiguous:,} in doubt" if found.ambiguous else ""
    return f"{found.running:,} running, {found.retrying:,} retrying, {found.dead:,} dead{doubt}"


def _schema(schema: SchemaStatus | None) -> str:
    if schema is None:
        return "the server's own affair"
    missing = f", {len(schema.missing)} to apply (duly db migrate)" if schema.missing else ""
    return f"{_migrations(len(schema.applied))} applied{missing}"


def _leases(found: Status, leases: Sequence[LeaseRecord] | None) -> str:
    """Say of each lane how many shards have an owner; a server tells of all lanes together."""
    if leases is None:
        return f"{found.leases_owned} of {found.leases_total}"
    lanes: dict[str, list[LeaseRecord]] = {}
    for lease in leases:
        lanes.setdefault(str(lease.key.lane), []).append(lease)
    return ", ".join(
        f"{lane} {sum(one.owner is not None for one in owned)} of {len(owned)}"
        for lane, owned in lanes.items()
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
