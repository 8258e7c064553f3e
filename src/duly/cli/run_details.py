"""The command run show: prints a run's story, its effects, checks and items.

`print_story` prints each part only if the run has it. Most runs have no effects, checks or items.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from duly.app import App
from duly.cli.audit import newest_entries
from duly.cli.output import print_block, print_facts, print_line, print_table
from duly.cli.schedule_text import zone
from duly.cli.times import exact_text, lateness_text, relative_text, zoned_text
from duly.client.attempt_view import Attempt
from duly.client.doubt_view import Check, Effect
from duly.client.run_view import Run
from duly.client.schedule_history import HistoryEntry
from duly.domain.enums import AttemptState
from duly.domain.runs import Progress
from duly.domain.verification import Scope
from duly.errors import NotFound
from duly.timetable.instants import utc_text

EVIDENCE_LENGTH_MAX = 200
MISSING_SHOWN_MAX = 20
DECISIONS_MAX = 100
TROUBLED = (str(AttemptState.HEARTBEAT_STALE), str(AttemptState.STALLED))
"""States of attempts that go on, and may not end well."""
_DOUBT = "run.ambiguous"
_DECISIONS = frozenset((_DOUBT, "run.settled", "run.verdict"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Consequences:
    """What is on record of a run besides its attempts."""

    effects: Sequence[Effect]
    checks: Sequence[Check]
    scope: Scope
    decisions: Sequence[HistoryEntry]
    """Doubts, and what people and checks decided about them, oldest first."""
    line: Sequence[Run]
    """The run, those that repeat it, and the one that it repeats, oldest first."""

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        scope = self.scope
        return {
            "effects": [one.to_json() for one in self.effects],
            "checks": [one.to_json() for one in self.checks],
            "scope": {
                "expected": scope.expected,
                "done": scope.done,
                "repeated": scope.repeated,
                "missing": list(scope.missing),
            }
            if scope.is_known
            else None,
            "decisions": [one.to_json() for one in self.decisions],
            "line": [
                {"id": str(one.id), "origin": one.origin, "state": one.state} for one in self.line
            ],
        }


def read_consequences(app: App, run: Run) -> Consequences:
    """Read what is on record of a run."""
    return Consequences(
        effects=app.inbox.effects(run.id),
        checks=app.inbox.checks(run.id),
        scope=app.inbox.scope(run.id),
        decisions=_decisions(app, run),
        line=app.inbox.line(run.id),
    )


def _decisions(app: App, run: Run) -> list[HistoryEntry]:
    """Return what was decided about a run since it was in doubt; most never are."""
    entries = newest_entries(app, DECISIONS_MAX, {"subject_id": str(run.id)}, is_whole=False)
    found = [one for one in reversed(entries) if one.action in _DECISIONS]
    return found if any(one.action == _DOUBT for one in found) else []


def print_consequences(run: Run, known: Consequences) -> None:
    """Print the parts that there are."""
    if known.effects:
        print_line()
        print_table(
            ("effect", "known as", "begun", "done", "permitted", "result"),
            [effect_row(one) for one in known.effects],
        )
    for check in known.checks:
        told = "" if check.evidence is None else f"; {_short(check.evidence)}"
        print_line(f"check by {check.by} at {utc_text(check.at)}: {check.finding}{told}")
    if known.scope.is_known:
        print_line(f"items: {scope_text(known.scope)}")
    if known.decisions:
        print_line()
        rows = [_decision_row(one) for one in known.decisions]
        print_table(("when (UTC)", "what", "who", "why"), rows)
    if len(known.line) > 1:
        print_line()
        rows = [_line_row(run, one) for one in known.line]
        print_table(("run of this line", "origin", "state", "created"), rows)


def effect_row(effect: Effect) -> list[str]:
    """Return an effect as a row of a table."""
    return [
        effect.key,
        _known_as(effect),
        utc_text(effect.begun_at),
        "-" if effect.done_at is None else utc_text(effect.done_at),
        "once" if effect.tries == 1 else f"{effect.tries} times",
        "-" if effect.result is None else _short(effect.result),
    ]


def _known_as(effect: Effect) -> str:
    """Say what the ledger knows, and beside it what somebody has decided since."""
    told = effect.settled
    if told is None:
        return effect.state
    return f"{effect.state}; settled as {told.as_} by {told.by} at {utc_text(told.at)}"


def _decision_row(entry: HistoryEntry) -> list[str]:
    after = entry.after or {}
    match entry.action:
        case "run.ambiguous":
            return [utc_text(entry.at), "in doubt", entry.actor, str(after.get("reason", "-"))]
        case "run.verdict":
            return [utc_text(entry.at), "checked", entry.actor, str(after.get("finding", "-"))]
        case _:
            choice = str(after.get("choice", "decided"))
            effects = ", ".join(
                f"{key} {'done' if is_done else 'not done'}"
                for key, is_done in (after.get("effects") or {}).items()
            )
            told = f"{choice} ({effects})" if effects else choice
            return [utc_text(entry.at), told, entry.actor, entry.reason or "-"]


def scope_text(scope: Scope) -> str:
    """Say how much is done of what: "39,999 of 40,000 done, 2 more than once; missing: 1042"."""
    text = f"{scope.done:,} done"
    if scope.expected is not None:
        text = f"{scope.done:,} of {scope.expected:,} done"
    if scope.repeated:
        text += f", {scope.repeated:,} more than once"
    if scope.missing:
        more = len(scope.missing) - MISSING_SHOWN_MAX
        shown = ", ".join(scope.missing[:MISSING_SHOWN_MAX])
        text += f"; missing: {shown}" + (f" and {more:,} more" if more > 0 else "")
    return text


def _line_row(run: Run, one: Run) -> list[str]:
    name = f"{one.id} (this one)" if one.id == run.id else str(one.id)
    return [name, one.origin, one.state, utc_text(one.created_at)]


def _short(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= EVIDENCE_LENGTH_MAX else f"{text[: EVIDENCE_LENGTH_MAX - 1]}…"


STEPS_SHOWN_MAX = 200


def print_story(app: App, run: Run) -> None:
    """Print all about a run."""
    attempts = app.runs.attempts(run.id)
    known = read_consequences(app, run)
    now = app.status().now
    print_line((run.label, "bold"))
    print_facts(_facts(run, attempts, now))
    tz = _zone(app, run)
    print_line()
    _print_steps(steps(run, attempts, known.checks), tz)
    if attempts:
        print_line()
        print_attempts(attempts, now)
    print_consequences(run, known)
    if run.error is not None:
        print_line(("error of the last attempt", "dim"))
        print_block(run.error)
    if run.state == "ambiguous":
        print_line(("nobody knows what it did; ", "bold yellow"), f"duly inbox {run.id}")
    if run.state == "succeeded" and run.result is not None:
        print_line(("result", "dim"))
        print_block(json.dumps(run.result, ensure_ascii=False, indent=2))


def story_json(app: App, run: Run) -> dict[str, Any]:
    """Return all about a run as JSON values."""
    attempts = app.runs.attempts(run.id)
    known = read_consequences(app, run)
    advances = app.runs.progress(run.id, limit=STEPS_SHOWN_MAX)
    return {
        **run.to_json(),
        "attempts": [one.to_json() for one in attempts],
        "steps": [
            {"step": name, "at": utc_iso(at)}
            for name, at in steps(run, attempts, known.checks)
            if at is not None
        ],
        **known.to_json(),
        "progress_steps": [one.to_json() for one in advances],
    }


def steps(
    run: Run, attempts: Sequence[Attempt], checks: Sequence[Check] = ()
) -> list[tuple[str, datetime | None]]:
    """Return each recorded fact apart with its time; claims and starts of the last attempt."""
    last = attempts[-1] if attempts else None
    is_apart = last is not None and last.is_apart_from(run)
    checked = "verified" if not checks else checks[-1].verdict
    return [
        ("due", run.due_at),
        ("created", run.created_at),
        ("queued", run.fired_at),
        ("claimed", run.claimed_at or (last.claimed_at if last else None)),
        ("started", run.started_at or (last.started_at if last else None)),
        ("heartbeat", last.heartbeat_at if last else None),
        ("progress", last.progress_at if last else None),
        ("effects begun", last.effects_at if last else None),
        ("asked to stop", run.cancel_asked_at),
        ("attempt ended", last.ended_at if last and is_apart else None),
        ("next attempt", run.next_at),
        ("settled" if last and last.is_settled_by_order(run) else "finished", run.finished_at),
        (f"check: {checked}" if checked == "unknown" else checked, _checked_at(checks)),
    ]


def _checked_at(checks: Sequence[Check]) -> datetime | None:
    return checks[-1].at if checks else None


def progress_text(progress: Progress | None) -> str:
    """Say how far an attempt is: "30 of 40 (75 %), third file"."""
    if progress is None:
        return "-"
    total = ""
    if progress.total:
        total = f" of {progress.total:,} ({progress.done * 100 // progress.total} %)"
    return f"{progress.done:,}{total}" + (f", {progress.note}" if progress.note else "")


def state_text(run: Run) -> str:
    """Say where a run is, and why if that says more: "dead (budget)"."""
    return f"{run.state} ({run.reason})" if run.reason not in (None, run.state) else run.state


def utc_iso(instant: datetime) -> str:
    """Write an instant for programs."""
    return instant.isoformat().replace("+00:00", "Z")


def _facts(run: Run, attempts: Sequence[Attempt], now: datetime) -> list[tuple[str, str]]:
    window = "-"
    if run.window is not None:
        since = "the beginning" if run.window[0] is None else utc_text(run.window[0])
        window = f"after {since}, up to {utc_text(run.window[1])}"
    facts = [
        ("id", str(run.id)),
        ("state", _state(run, attempts, now)),
        ("task", f"{run.task} {json.dumps(run.arguments, ensure_ascii=False)}"),
        ("lineage", _lineage(run, attempts)),
        ("key", run.key or "-"),
        ("origin", f"{run.origin}, {run.lane} lane"),
        ("scheduled for", utc_text(run.scheduled_for)),
        ("window", window),
        ("queue", f"{run.queue}, priority {run.priority}"),
    ]
    if run.last_progress is not None:
        facts.append(("progress", progress_text(run.last_progress)))
    return facts


def _state(run: Run, attempts: Sequence[Attempt], now: datetime) -> str:
    text = run.state + (f": {run.reason}" if run.reason else "")
    if attempts and attempts[-1].state in TROUBLED:
        text += f"; its attempt is {attempts[-1].state}"
    if run.next_at is not None:
        text += f"; next attempt {utc_text(run.next_at)}, {relative_text(now, run.next_at)}"
    if run.cancel_asked_at is not None and run.state == "running":
        text += f"; asked to stop {relative_text(now, run.cancel_asked_at)}"
    return text


def _lineage(run: Run, attempts: Sequence[Attempt]) -> str:
    """Say what came from what: schedule, the run that a rerun repeats, this run, its attempts."""
    parts = [] if run.schedule is None else [f"schedule {run.schedule} ({run.schedule_id})"]
    if run.root != run.id:
        parts.append(f"run {run.root}")
    parts.append(f"run {run.id}")
    started = sum(one.number is not None for one in attempts)
    parts.append("no attempt yet" if not started else _count(started, "attempt"))
    return " → ".join(parts)


def _zone(app: App, run: Run) -> str | None:
    """Return the zone of the run's schedule, if it has one that is not UTC."""
    if run.schedule_id is None:
        return None
    try:
        tz = zone(app.schedules.get(run.schedule_id).timetable)
    except NotFound:
        return None
    return None if tz == "UTC" else tz


def _print_steps(known: Sequence[tuple[str, datetime | None]], tz: str | None) -> None:
    """Print recorded facts in the order of their times, with the distance to the one before."""
    found = sorted(((at, name) for name, at in known if at is not None), key=lambda one: one[0])
    headings = ["step", "when (UTC)", "after the one before"]
    rows: list[list[str]] = []
    before: datetime | None = None
    for at, name in found:
        rows.append([name, exact_text(at), "" if before is None else lateness_text(at - before)])
        before = at
    if tz is not None:
        headings.append(tz)
        for row, (at, _) in zip(rows, found, strict=True):
            row.append(zoned_text(at.replace(microsecond=0), tz))
    print_table(headings, rows)


def print_attempts(attempts: Sequence[Attempt], now: datetime) -> None:
    """Print each attempt on a line, and what lost workers said too late."""
    headings = (
        "attempt",
        "fence",
        "state",
        "reason",
        "progress",
        "took",
        "worker",
        "claimed (UTC)",
        "started after",
        "heartbeat",
    )
    print_table(headings, [_attempt_row(one, now) for one in attempts])
    for one in attempts:
        if one.late is not None:
            print_line(
                ("late word: ", "bold yellow"),
                f"the lost worker of fence {one.fence} said {one.late.state} at"
                f" {exact_text(one.late.at)}; it was refused and kept",
            )
            print_block(one.late.error or one.late.result or "")


def _attempt_row(attempt: Attempt, now: datetime) -> tuple[str, ...]:
    started, ended = attempt.started_at, attempt.worked_until
    return (
        "-" if attempt.number is None else str(attempt.number),
        str(attempt.fence),
        attempt.state,
        attempt.reason if attempt.reason not in (None, attempt.state) else "-",
        progress_text(attempt.progress),
        "-" if started is None else lateness_text((ended or now) - started),
        f"{attempt.worker} ({attempt.worker_name})",
        exact_text(attempt.claimed_at),
        "-" if started is None else lateness_text(started - attempt.claimed_at),
        "-" if attempt.heartbeat_at is None else relative_text(now, attempt.heartbeat_at),
    )


def _count(number: int, noun: str) -> str:
    return f"1 {noun}" if number == 1 else f"{number:,} {noun}s"
