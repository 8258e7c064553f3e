"""Commands about the health of everything: status, doctor, vitals, top."""

from __future__ import annotations

import os
import select
import sys
import termios
import tty
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from threading import Event
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID

from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from duly.app import App
from duly.app.doctor import Check, Diagnosis, Level, close_to_others, examine, repair_schema
from duly.cli.alerts import open_alerts_text
from duly.cli.context import Target, is_server, named_tenant, open_app, refuse_server
from duly.cli.output import (
    console,
    neutral,
    print_aside,
    print_facts,
    print_json,
    print_json_line,
    print_line,
    print_table,
    read_interval,
    table_lines,
)
from duly.cli.references import find_schedule
from duly.cli.run_details import TROUBLED, progress_text, state_text
from duly.cli.times import lateness_text, relative_text
from duly.client.limits import Queue
from duly.client.run_view import Run
from duly.client.status import (
    Health,
    Status,
    judge_health,
    living,
    schema_findings,
    skew_text,
)
from duly.clock import SystemClock
from duly.errors import StoreUnavailable, UsageError
from duly.interface.doctor import DoctorCheck
from duly.store.ports.dispatch import LeaseRecord
from duly.store.ports.maintenance import SchemaStatus
from duly.timetable.instants import SECOND_US, distance_text, iso_utc, units_text, utc_text

if TYPE_CHECKING:
    from duly.cli.remote.application import RemoteApp


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
    with open_app(target, makes_store=False) as app:
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
    if schema is not None:
        health = replace(health, notes=(*health.notes, *schema_findings(schema)))
    codes[0] = DEGRADED if health.findings else 0
    if target.json:
        (print_json_line if is_stream else print_json)(
            {
                **health.to_json(),
                **found.to_json(),
                "here": iso_utc(SystemClock().now()),
                "schema": None
                if schema is None
                else {
                    "applied": len(schema.applied),
                    "missing": len(schema.missing),
                    "unknown": list(schema.unknown),
                },
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
    # Two lights, side by side: punctual triggers say nothing about the work.
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
            skew_text(one.skew),
            relative_text(found.now, one.renewed_at),
            relative_text(found.now, one.started_at),
        )
        for one in living(found, "worker")
    ]
    if rows:
        print_table(
            (
                "worker",
                "host, process",
                "slots busy",
                "lost",
                "queues",
                "skew",
                "heartbeat",
                "since",
            ),
            rows,
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
    unknown = f", {len(schema.unknown)} of a newer program" if schema.unknown else ""
    return f"{_migrations(len(schema.applied))} applied{missing}{unknown}"


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


_STATUS = {Level.OK: 0, Level.NOTE: 0, Level.DEGRADED: 1, Level.BROKEN: 5}
_STYLE = {
    Level.OK: "green",
    Level.NOTE: "bold yellow",
    Level.DEGRADED: "bold red",
    Level.BROKEN: "bold red",
}
_LEVEL_WIDTH = max(len(one) for one in Level) + 2
_ABOUT_WIDTH = 13


def doctor(*, fix: bool = False, target: Target = TARGET) -> int:
    """Look at the installation, the store and the fleet; exit code 0 is well, 1 degraded, 5 broken.

    Each finding comes with its remedy, and with a code that docs/errors.md explains. Of a server
    it is asked what it finds where it runs; that takes a token of every tenant.

    Parameters
    ----------
    fix
        Do what is safe without a person's thought: make the store if there is none, apply
        migrations that are missing, and close a store's file to other users. Then look again.
    """
    if fix:
        refuse_server(target)
    with open_app(target) as app:
        diagnosis = _asked(app) if is_server(app) else examine(app)
        repairs: dict[str, str] = {}
        if fix and any(one.is_mendable for one in diagnosis.checks):
            names = [f"{one.number:04}_{one.phase}_{one.name}" for one in repair_schema(app)]
            repairs = {name: f"applied migration {name}" for name in names}
            repairs |= {str(one): f"closed {one} to other users" for one in close_to_others(app)}
            diagnosis = examine(app)
        if target.json:
            print_json({**diagnosis.to_json(), "mended": list(repairs)})
        else:
            _print_diagnosis(diagnosis, repairs.values(), is_fixing=fix)
        return _STATUS[diagnosis.level]


def _asked(app: App) -> Diagnosis:
    """Return what a server finds where it runs: in its installation, its store and its fleet."""
    found = cast("RemoteApp", app).remote.doctor()
    return Diagnosis(tuple(_check(one) for one in found.checks))


def _check(told: DoctorCheck) -> Check:
    level = Level(told.level) if told.level in set(Level) else Level.BROKEN
    return Check(
        about=told.about,
        level=level,
        says=told.says,
        code=told.code,
        remedy=told.remedy,
        is_mendable=told.is_mendable,
    )


def _print_diagnosis(diagnosis: Diagnosis, repairs: Iterable[str], *, is_fixing: bool) -> None:
    for repair in repairs:
        print_line(("mended".ljust(_LEVEL_WIDTH), "green"), repair)
    for one in diagnosis.checks:
        _print_check(one)
    mendable = sum(one.is_mendable for one in diagnosis.checks)
    if mendable and not is_fixing:
        print_line(f"duly doctor --fix would mend {mendable} of these.")
    if diagnosis.level is Level.OK:
        print_line(("All is well.", "green"))


def _print_check(check: Check) -> None:
    code = f" [{check.code}]" if check.code else ""
    word = (check.level.ljust(_LEVEL_WIDTH), _STYLE[check.level])
    print_line(word, (check.about.ljust(_ABOUT_WIDTH), "dim"), f"{check.says}{code}")
    if check.remedy:
        print_line(" " * (_LEVEL_WIDTH + _ABOUT_WIDTH), ("do: ", "bold"), check.remedy)


RUNNING_SHOWN_MAX = 20
FAILED_SHOWN_MAX = 8
FAILED_STATES = ("dead", "failed", "retrying")


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusSnapshot:
    """The fleet, the queues, what is running and what has failed."""

    status: Status
    health: Health
    queues: Sequence[Queue]
    running: Sequence[Run]
    """The newest of them."""
    failed: Sequence[Run]
    """Those that went wrong last: dead, failed, or waiting to be tried again."""
    troubled: Mapping[UUID, str]
    """States of attempts that go on and are silent or do not advance, by their runs."""

    def heartbeat_age(self, run: Run) -> timedelta | None:
        """Return how long ago a run's worker was heard of."""
        for member in self.status.members:
            if member.id == run.worker:
                return self.status.now - member.renewed_at
        return None

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            **self.health.to_json(),
            "status": self.status.to_json(),
            "queues": [one.to_json() for one in self.queues],
            "running": [
                {**one.to_json(), "attempt_state": self.troubled.get(one.id, one.state)}
                for one in self.running
            ],
            "failed": [one.to_json() for one in self.failed],
        }


def take_snapshot(app: App) -> StatusSnapshot:
    """Look at everything once."""
    status, queues = app.status(), app.queues.list()
    running = app.runs.list(state="running", limit=RUNNING_SHOWN_MAX) if status.running else []
    return StatusSnapshot(
        status=status,
        health=judge_health(status, queues, app.breakers.list()),
        queues=queues,
        running=running,
        failed=app.runs.list(state=list(FAILED_STATES), limit=FAILED_SHOWN_MAX),
        troubled=_troubled(app) if running else {},
    )


def _troubled(app: App) -> dict[UUID, str]:
    return {one.run: one.state for one in app.attempts.page(state=TROUBLED).items}


ERROR_SHOWN_MAX = 80


def frame(shot: StatusSnapshot) -> RenderableType:
    """Return what one look at the store shows."""
    parts: list[RenderableType] = [*_lights(shot), Text()]
    for title, rows in (
        (("worker", "slots busy", "queues", "heartbeat", "since"), _workers(shot)),
        (("queue", "queued", "running", "oldest", "state"), _queues(shot)),
        (("running", "run", "for", "progress", "heartbeat", "attempt"), _running(shot)),
        (("last failures", "run", "state", "attempt", "error"), _failures(shot)),
    ):
        parts += [*_table(title, rows), Text()]
    return Group(*parts[:-1])


def _lights(shot: StatusSnapshot) -> list[Text]:
    found = shot.status
    dispatchers, workers = living(found, "dispatcher"), living(found, "worker")
    busy, slots = sum(one.running for one in workers), sum(one.slots for one in workers)
    due = "nothing" if found.next_due_at is None else relative_text(found.now, found.next_due_at)
    lines = [
        Text.assemble((f"{found.store}  ", "bold"), utc_text(found.now)),
        _light_text("dispatch", shot.health.dispatch)
        + Text(f"  {len(dispatchers)} alive, {found.overdue:,} overdue, next due: {due}"),
        _light_text("work", shot.health.work)
        + Text(
            f"  {len(workers)} alive, {busy:,} of {slots:,} slots busy, {found.queued:,} queued,"
            f" {found.retrying:,} retrying, {found.dead:,} dead"
        ),
    ]
    lines.append(Text(f"open alerts: {open_alerts_text(found)}"))
    lines += [
        Text.assemble(("  ! ", "bold red"), neutral(str(one))) for one in shot.health.findings
    ]
    return lines + [Text(f"  · {neutral(str(one))}", "yellow") for one in shot.health.notes]


def _light_text(name: str, findings: Sequence[object]) -> Text:
    """Say a state by a shape, a word and a colour: no one of them alone."""
    shape, word, style = ("▲", "degraded", "bold red") if findings else ("●", "well", "green")
    return Text.assemble((f"{shape} {name:9}{word:8}", style))


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[Text]:
    """Return a table; what does not fit is cut at the right, so that ids are always whole."""
    if not rows:
        return [Text(f"{headings[0]}: none", style="dim")]
    lines = table_lines(headings, rows)
    for line in lines:
        line.no_wrap, line.overflow = True, "ellipsis"
    return lines


def _workers(shot: StatusSnapshot) -> list[tuple[str, ...]]:
    now = shot.status.now
    return [
        (
            f"{one.id} on {one.host}, {one.process}",
            f"{one.running} of {one.slots}" + (f", {one.leaked} lost" if one.leaked else ""),
            ", ".join(one.queues) or "all",
            relative_text(now, one.renewed_at),
            relative_text(now, one.started_at),
        )
        for one in living(shot.status, "worker")
    ]


def _queues(shot: StatusSnapshot) -> list[tuple[str, ...]]:
    now = shot.status.now
    return [
        (
            one.name,
            f"{one.queued:,}",
            f"{one.running:,}",
            "-" if one.oldest_at is None else distance_text(one.oldest_at, now),
            f"paused by {one.paused_by or 'somebody'}" if one.is_paused else "open",
        )
        for one in shot.queues
    ]


def _running(shot: StatusSnapshot) -> list[tuple[str, ...]]:
    rows = [_running_row(shot, one) for one in shot.running]
    more = shot.status.running - len(rows)
    if len(rows) == RUNNING_SHOWN_MAX and more > 0:
        rows.append((f"… and {more:,} more", "", "", "", "", ""))
    return rows


def _running_row(shot: StatusSnapshot, run: Run) -> tuple[str, ...]:
    began, state = run.started_at or run.claimed_at, shot.troubled.get(run.id)
    return (
        str(run.id),
        run.label,
        "-" if began is None else lateness_text(shot.status.now - began),
        progress_text(run.last_progress),
        lateness_text(shot.heartbeat_age(run)),
        str(run.attempt) + (f", {state}" if state else ""),
    )


def _failures(shot: StatusSnapshot) -> list[tuple[str, ...]]:
    return [
        (
            str(one.id),
            one.label,
            state_text(one),
            str(one.attempt),
            _last_line(one.error),
        )
        for one in shot.failed
    ]


def _last_line(error: str | None) -> str:
    lines = [line for line in (error or "").splitlines() if line.strip()]
    return lines[-1].strip()[:ERROR_SHOWN_MAX] if lines else "-"


TOP_INTERVAL_DEFAULT = "1s"
_ENDING_KEYS = b"qQ\x03\x04"
_KEYS_MAX = 1024


def top(
    *, once: bool = False, interval: str = TOP_INTERVAL_DEFAULT, target: Target = TARGET
) -> None:
    """Watch workers, queues and runs as they go; q or Ctrl-C ends it.

    Into a pipe or a file, and with --json, it shows one frame.

    Parameters
    ----------
    once
        Show one frame and end.
    interval
        How often to look: 1s, 500ms.
    """
    interval_s = read_interval(interval)
    with open_app(target, makes_store=False) as app:
        if target.json:
            print_json(take_snapshot(app).to_json())
        elif once or not (sys.stdin.isatty() and sys.stdout.isatty()):
            console().print(frame(take_snapshot(app)))
        else:
            _watch_frames(app, interval_s)


def _watch_frames(app: App, interval_s: float) -> None:
    first = frame(take_snapshot(app))  # an error here is told as that of any other command
    with (
        _single_keys(),
        Live(first, console=console(), screen=True, auto_refresh=False) as live,
    ):
        while not _is_ended(interval_s):
            live.update(_looked(app), refresh=True)


def _looked(app: App) -> RenderableType:
    """Look again; a store that is away for a while does not end the view."""
    try:
        return frame(take_snapshot(app))
    except StoreUnavailable as error:
        return Text.assemble(("the store does not answer: ", "bold red"), neutral(str(error)))


def _is_ended(limit_s: float) -> bool:
    """Wait for a key; say whether it was one that ends the view."""
    keyboard = sys.stdin.fileno()
    readable, _, _ = select.select([keyboard], [], [], limit_s)
    if not readable:
        return False
    typed = os.read(keyboard, _KEYS_MAX)  # not by sys.stdin, which keeps what select can't see
    return not typed or any(key in _ENDING_KEYS for key in typed)


@contextmanager
def _single_keys() -> Iterator[None]:
    """Let each key through at once and unseen, and set the terminal back afterwards."""
    before = termios.tcgetattr(sys.stdin)
    try:
        tty.setcbreak(sys.stdin, termios.TCSANOW)
        yield
    except KeyboardInterrupt:
        return
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


NOT_WELL = 1
"""The exit code when something is not well."""
ROWS_MAX = 1_000
_MILLISECONDS = 1000
_SHORT_S = 10
Json = dict[str, Any]


def vitals(
    schedule: str | None = None,
    /,
    *,
    task: str | None = None,
    tenant: bool = False,
    target: Target = TARGET,
) -> int:
    """Show how schedules are doing: what each trigger does, and beside it what comes of it.

    Of one schedule, of a task or of the tenant all that is known: lateness, retries, failures, what
    waits and what goes on. The exit code is 1 when a trigger or the work is not well.

    Parameters
    ----------
    schedule
        Only this one, by its name or id.
    task
        All that is known of a task, whoever asks for it.
    tenant
        All that is known of the whole tenant.
    """
    if sum((schedule is not None, task is not None, tenant)) > 1:
        problem, remedy = "can't be combined with another", "name a schedule, --task or --tenant"
        raise UsageError("vitals", schedule or task, problem, remedy)
    with open_app(target, makes_store=False) as app:
        if schedule is None and task is None and not tenant:
            return _of_each(app, as_json=target.json)
        if schedule is not None:
            found = app.vitals.of_schedule(find_schedule(app, schedule, by_beginning=True).id)
        else:
            found = app.vitals.of_tenant() if task is None else app.vitals.of_task(task)
        told = found.to_json()
    if target.json:
        print_json(told)
    else:
        _print_vitals(told)
    return 0 if _is_well(told) else NOT_WELL


def _of_each(app: App, *, as_json: bool) -> int:
    rows: list[Json] = []
    page = app.vitals.schedules()
    rows += [one.to_json() for one in page.items]
    while page.after is not None and len(rows) < ROWS_MAX:
        page = app.vitals.schedules(after=page.after)
        rows += [one.to_json() for one in page.items]
    if as_json:
        print_json(rows)
    elif not rows:
        print_line("No schedule is active.")
    else:
        headings = ("schedule", "trigger", "last fired", "next due", "work", "last useful", "age")
        print_table((*headings, "cadences"), [_row(one) for one in rows])
    if page.after is not None and not as_json:
        print_line(f"There are more: the first {len(rows):,} were looked at.")
    return 0 if all(map(_is_well, rows)) else NOT_WELL


def _is_well(told: Json) -> bool:
    return bool(told["trigger"]["is_well"] and told["completion"]["is_well"])


def _row(told: Json) -> tuple[str, ...]:
    trigger, completion, now = told["trigger"], told["completion"], _moment(told["as_of"])
    useful = completion["last_useful"]
    return (
        told["name"],
        _vitals_light(trigger),
        _ago(now, trigger["last_fired_at"]),
        _ago(now, trigger["next_due_at"]),
        _vitals_light(completion),
        _none(completion) if useful is None else _ago(now, useful["at"]),
        _span(completion["age"]),
        "-" if completion["ratio"] is None else f"{completion['ratio']:.1f}",
    )


def _print_vitals(told: Json) -> None:
    now = _moment(told["as_of"])
    print_line(f"{told['of']} {told['name']} at {utc_text(now)}")
    print_line(("Trigger: ", "bold"), _vitals_light(told["trigger"]))
    print_facts(_trigger(told["trigger"], now))
    print_line(("Work: ", "bold"), _vitals_light(told["completion"]))
    print_facts([*_completion(told["completion"], now), *_work(told["work"])])
    print_line(("Newest runs:", "bold"))
    print_facts(_window(told["window"]))
    if told["window"]["failures"]:
        kinds = [_failure(one) for one in told["window"]["failures"]]
        print_table(("went wrong", "reason", "error", "runs"), kinds)
    if told["work"]["attempts"]:
        rows = [_attempt(one) for one in told["work"]["attempts"]]
        print_table(("active attempt", "for", "heartbeat", "progress", "advanced"), rows)
    for part in (told["trigger"], told["completion"]):
        for finding in part["findings"]:
            print_line(("degraded: ", "bold red"), finding)


def _trigger(told: Json, now: datetime) -> list[tuple[str, str]]:
    return [
        ("next due", _when(now, told["next_due_at"])),
        ("last run created", _when(now, told["last_fired_at"])),
        ("fired after due", _span(told["lateness"])),
        ("overdue for", _span(told["overdue"])),
        ("owed ranges", f"{told['owed']:,}"),
        ("overlaps", f"{told['overlaps']:,}"),
    ]


def _completion(told: Json, now: datetime) -> list[tuple[str, str]]:
    def ending(name: str) -> str:
        found = told[name]
        return _none(told) if found is None else f"{_when(now, found['at'])}, {found['run']}"

    ratio = "" if told["ratio"] is None else f", {told['ratio']:.1f} cadences"
    cadence = f" of {_span(told['cadence'])}" if ratio else ""
    return [
        ("last attempt over", _when(now, told["last_finished_at"])),
        ("last success", ending("last_success")),
        ("last verified", ending("last_verified")),
        ("last error", ending("last_error")),
        ("last useful", f"{ending('last_useful')} ({told['useful_by']})"),
        ("its age", f"{_span(told['age'])}{ratio}{cadence}"),
        ("due since then", f"{told['behind']:,}"),
    ]


def _work(told: Json) -> list[tuple[str, str]]:
    left = f", {told['backfill_left']:,} occurrences left" if told["backfills"] else ""
    return [
        ("queued", f"{told['queued']:,}, the oldest for {_span(told['queue_delay'])}"),
        ("running", f"{told['running']:,}"),
        ("retrying", f"{told['retrying']:,}"),
        ("dead, in doubt", f"{told['dead']:,}, {told['ambiguous']:,}"),
        ("backfills", f"{told['backfills']:,}{left}"),
    ]


def _window(told: Json) -> list[tuple[str, str]]:
    reach = "all there are on record" if told["is_whole"] else f"since {told['since']}"
    rate = told["useful_per_attempt"]
    each = "-" if rate is None else f"{rate:.2f}"
    return [
        ("looked at", f"{told['runs']:,} runs, {reach}"),
        ("due to fired", _lateness(told["fired"])),
        ("due to started", _lateness(told["started"])),
        ("due to useful", _lateness(told["useful_after"])),
        ("useful", f"{told['useful']:,} of {told['attempts']:,} attempts, {each} each"),
        ("retries", f"{told['retries']:,}"),
    ]


def _failure(told: Json) -> tuple[str, ...]:
    return (told["state"], told["reason"] or "-", told["error"] or "-", f"{told['runs']:,}")


def _attempt(told: Json) -> tuple[str, ...]:
    total = "" if told["progress_total"] is None else f" of {told['progress_total']:,}"
    done = "-" if told["progress_done"] is None else f"{told['progress_done']:,}{total}"
    ages = (_span(told["age"]), _span(told["heartbeat_age"]))
    return (told["run"], *ages, done, _span(told["progress_age"]))


def _lateness(told: Json) -> str:
    if not told["runs"]:
        return "-"
    spans = ", ".join(f"{name} {_span(told[name])}" for name in ("p50", "p95", "p99"))
    return f"{spans} ({told['runs']:,} runs)"


def _vitals_light(told: Json) -> str:
    return "well" if told["is_well"] else "NOT WELL"


def _none(told: Json) -> str:
    # What went before was not looked at or is not kept: nobody can say that there was none.
    through = told["unknown_through"]
    return "none on record" if through is None else f"none on record since {through}"


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _when(now: datetime, text: str | None) -> str:
    return "-" if text is None else f"{utc_text(_moment(text))}, {_ago(now, text)}"


def _ago(now: datetime, text: str | None) -> str:
    return "-" if text is None else relative_text(now, _moment(text))


def _span(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    if seconds < _SHORT_S:
        return f"{seconds * _MILLISECONDS:,.0f} ms"
    return units_text(round(seconds * SECOND_US))
