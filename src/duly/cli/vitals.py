"""`duly vitals`: whether triggers are on time and whether work gets done, side by side (V1, V4)."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from duly.cli.output import print_facts, print_json, print_line, print_table
from duly.cli.references import find_schedule
from duly.cli.target import Target, opened
from duly.cli.times import relative_text
from duly.domain.instants import SECOND_US
from duly.domain.time_texts import units_text, utc_text
from duly.errors import UsageError

if TYPE_CHECKING:
    from duly.app import App

TARGET = Target()
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
    with opened(target, makes_store=False) as app:
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
        _print(told)
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
        _light(trigger),
        _ago(now, trigger["last_fired_at"]),
        _ago(now, trigger["next_due_at"]),
        _light(completion),
        _none(completion) if useful is None else _ago(now, useful["at"]),
        _span(completion["age"]),
        "-" if completion["ratio"] is None else f"{completion['ratio']:.1f}",
    )


def _print(told: Json) -> None:
    now = _moment(told["as_of"])
    print_line(f"{told['of']} {told['name']} at {utc_text(now)}")
    print_line(("Trigger: ", "bold"), _light(told["trigger"]))
    print_facts(_trigger(told["trigger"], now))
    print_line(("Work: ", "bold"), _light(told["completion"]))
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


def _light(told: Json) -> str:
    return "well" if told["is_well"] else "NOT WELL"


def _none(told: Json) -> str:
    # What went before was not looked at or is not kept: nobody can say that there was none (D6).
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
