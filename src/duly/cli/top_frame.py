"""One frame of the live view: two lights, workers, queues, what runs, what has failed."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from duly.cli.alert_texts import open_alerts_text
from duly.cli.output import neutral, table_lines
from duly.cli.run.story import progress_text, state_text
from duly.cli.snapshot import RUNNING_SHOWN_MAX, Snapshot
from duly.cli.times import lateness_text, relative_text
from duly.client.health import living
from duly.client.run_view import Run
from duly.domain.time_texts import distance_text, utc_text

ERROR_SHOWN_MAX = 80


def frame(shot: Snapshot) -> RenderableType:
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


def _lights(shot: Snapshot) -> list[Text]:
    found = shot.status
    dispatchers, workers = living(found, "dispatcher"), living(found, "worker")
    busy, slots = sum(one.running for one in workers), sum(one.slots for one in workers)
    due = "nothing" if found.next_due_at is None else relative_text(found.now, found.next_due_at)
    lines = [
        Text.assemble((f"{found.store}  ", "bold"), utc_text(found.now)),
        _light("dispatch", shot.health.dispatch)
        + Text(f"  {len(dispatchers)} alive, {found.overdue:,} overdue, next due: {due}"),
        _light("work", shot.health.work)
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


def _light(name: str, findings: Sequence[object]) -> Text:
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


def _workers(shot: Snapshot) -> list[tuple[str, ...]]:
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


def _queues(shot: Snapshot) -> list[tuple[str, ...]]:
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


def _running(shot: Snapshot) -> list[tuple[str, ...]]:
    rows = [_running_row(shot, one) for one in shot.running]
    more = shot.status.running - len(rows)
    if len(rows) == RUNNING_SHOWN_MAX and more > 0:
        rows.append((f"… and {more:,} more", "", "", "", "", ""))
    return rows


def _running_row(shot: Snapshot, run: Run) -> tuple[str, ...]:
    began = run.started_at or run.claimed_at
    return (
        str(run.id),
        run.label,
        "-" if began is None else lateness_text(shot.status.now - began),
        progress_text(run.last_progress),
        lateness_text(shot.heartbeat_age(run)),
        str(run.attempt),
    )


def _failures(shot: Snapshot) -> list[tuple[str, ...]]:
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
