"""What goes over the wire says all that the client's views say, and nothing else."""

from __future__ import annotations

import inspect
import pkgutil
from datetime import UTC, datetime, timedelta
from importlib import import_module
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

import duly
import duly.client
import duly.interface
from duly import Retry, every
from duly.client.alert_view import OpenAlerts
from duly.client.inbox import Settled
from duly.client.last_ends import BadEnding, Ending
from duly.client.limits import QuarantinedHost
from duly.client.schedule_history import LookedFrom, MissingRun, OwedRange, SkippedRange
from duly.client.vitals_view import ActiveAttempt
from duly.interface import (
    access,
    alerts,
    attempts,
    backfills,
    delayed,
    inbox,
    limits,
    members,
    owners,
    proofs,
    queues,
    runs,
    schedules,
    selections,
    status,
    tasks,
    vitals,
)
from duly.interface.shapes import Asked, Shown
from duly.testing import virtual_time
from duly_conformance import alerts as watching

if TYPE_CHECKING:
    from collections.abc import Iterator
    from uuid import UUID

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)
SHAPES: dict[str, type[Shown]] = {
    "ActiveAttempt": vitals.ActiveAttempt,
    "Alert": alerts.Alert,
    "AlertChannel": alerts.AlertChannel,
    "AlertDelivery": alerts.AlertDelivery,
    "AlertRule": alerts.AlertRule,
    "AlertSilence": alerts.AlertSilence,
    "Attempt": attempts.Attempt,
    "Backfill": backfills.Backfill,
    "BackfillPlan": backfills.BackfillPlan,
    "BadEnding": schedules.BadEnding,
    "Breaker": limits.Breaker,
    "ChannelTest": alerts.ChannelTest,
    "Check": inbox.Check,
    "CompletionVitals": vitals.CompletionVitals,
    "DelayedRun": delayed.DelayedRun,
    "Effect": inbox.Effect,
    "Ending": schedules.Ending,
    "Endings": schedules.Endings,
    "EnqueuedRun": runs.EnqueuedRun,
    "Frozen": selections.Selection,
    "GoneOwner": owners.GoneOwner,
    "HistoryEntry": schedules.Entry,
    "InboxItem": inbox.InboxItem,
    "Late": attempts.LateWord,
    "Limit": limits.Limit,
    "Line": attempts.Line,
    "LookedFrom": vitals.LookedFrom,
    "MemberStatus": members.Member,
    "OpenAlerts": status.OpenAlerts,
    "MissingRun": vitals.MissingRun,
    "NewToken": access.MadeToken,
    "Occurrence": schedules.Occurrence,
    "OrderPreview": selections.OrderPreview,
    "OrderedRun": runs.OrderedRun,
    "OrderedSchedule": selections.OrderedSchedule,
    "OwedRange": schedules.OwedRange,
    "Place": limits.Place,
    "PlannedSlot": backfills.PlannedSlot,
    "PreviewedItem": selections.PreviewedItem,
    "Proof": proofs.Proof,
    "ProvenOccurrence": proofs.ProvenOccurrence,
    "QuarantinedHost": members.QuarantinedHost,
    "Queue": queues.Queue,
    "Quota": limits.Quota,
    "Run": runs.Run,
    "RunExplanation": runs.Explanation,
    "Schedule": schedules.Schedule,
    "ScheduleVitals": vitals.ScheduleVitals,
    "Scope": inbox.Scope,
    "Settled": inbox.SettledEffect,
    "SkippedRange": schedules.SkippedRange,
    "Status": status.Status,
    "Step": attempts.Step,
    "TaskOrders": tasks.Task,
    "Token": access.Token,
    "TriggerVitals": vitals.TriggerVitals,
    "VitalSigns": vitals.VitalSigns,
    "WindowVitals": vitals.WindowVitals,
    "WorkVitals": vitals.WorkVitals,
}
"""By the name of the view that each is made of."""
ELSEWHERE = {
    "EventPage": "events go out one by one",
    "Export": "a file of all tenants: duly export",
    "ExportedTrail": "a file of all tenants: duly audit export",
    "Header": "a file of all tenants: duly export",
    "Health": "what a command sees beside the status",
    "Import": "a file of all tenants: duly import",
    "MissingFound": "its shape says also where to go on",
    "Page": "each list has its own shape of it",
    "Reconciliation": "declared schedules belong to a program, not to its server",
    "Verified": "needs the whole trail: duly audit verify",
    "Selection": "its runs are frozen in the store: Frozen",
}


def missing(schedule: UUID) -> MissingRun:
    """Return what was expected and has no run."""
    return MissingRun(
        schedule="close",
        schedule_id=schedule,
        scheduled_for=NOON,
        due_at=NOON,
        label="close@2026-05-04T12:00Z",
        verdict="missing",
        cause="unrecorded",
        says="nothing is recorded of it",
    )


def going_on(run: UUID) -> ActiveAttempt:
    """Return an attempt that goes on."""
    return ActiveAttempt(
        run=run,
        scheduled_for=NOON,
        task="settle",
        attempt=1,
        worker=7,
        age=timedelta(minutes=3),
        heartbeat_age=timedelta(seconds=1),
        progress_done=3,
        progress_total=None,
        progress_age=None,
    )


def raised(app: duly.App) -> list[Any]:
    """Have something be wrong; return all that is told of it."""
    watching.look(app.store, watching.watch(app.store), watching.condition())
    alert = app.alerts.get(app.alerts.list()[0].id)
    return [
        *(alert, alert.deliveries[0], app.alerts.test_channel("log"), app.alerts.channels()[0]),
        app.alerts.set_rule("queue-age", threshold="5m", channels=["log"], reason="careful"),
        app.alerts.silence(duration="1h", kind="queue-age", subject="queue *", reason="deploy"),
    ]


def chosen(app: duly.App) -> list[Any]:
    """Order something about all schedules; return all that is told of it."""
    frozen = app.schedule_selections.freeze()
    preview = app.schedule_selections.preview(frozen.id, "pause")
    (done,) = app.schedule_selections.pause(frozen.id, reason="lunch")
    return [frozen, preview, *preview.first, done]


@pytest.fixture(scope="module")
def views() -> Iterator[dict[str, Any]]:
    """One view of each kind, out of the life of one application."""
    app = duly.App("memory:")

    @app.task(effects="unsafe", retry=Retry(attempts=1))
    def settle(run: duly.Run) -> None:
        run.expect(["a", "b"])
        run.done("a")
        run.progress(1, 2, "half")
        run.log("so far, so good")
        with run.effect("pay"):
            raise ConnectionResetError("no answer")

    with virtual_time(app, "2026-05-04T12:00") as clock:
        app.schedules.create("close", settle, every("1h"))
        clock.advance("61m")
        app.limits.set("task:settle", running=2, rate="5/s", reason="careful")
        app.queues.pause("default", reason="lunch")
        enqueued = app.enqueue(settle, delay="1h")
        dead = app.runs.list(state="ambiguous")[0]
        plan = app.backfills.plan("close", since=NOON - timedelta(hours=2), until=NOON)
        proof = app.prove("close", "2026-05-04")
        item = app.inbox.list()[0]
        signs = app.vitals.of_schedule("close")
        (row,) = app.vitals.schedules().items
        found = [
            *(signs, row, signs.trigger, signs.completion, signs.work, signs.window),
            *(missing(row.id), LookedFrom(schedule="close", since=NOON), going_on(dead.id)),
            *(dead, item, plan, proof, enqueued, *plan.slots, *proof.occurrences, *item.effects),
            *app.runs.attempts(dead),
            *app.runs.progress(dead),
            *app.runs.lines(dead),
            *app.runs.retry(dead),
            *(app.limits.list()[0], app.queues.list()[0], app.quotas.list()[0]),
            app.owners.gone("ada", reason="left"),
            *(app.inbox.tasks()[0], app.inbox.scope(dead), app.runs.why(dead)),
            app.backfills.create("close", since=NOON - timedelta(hours=2), until=NOON),
            *(app.status(), app.status().members[0], app.delayed.list()[0]),
            *(app.schedules.get("close"), app.schedules.get("close").last_ends),
            *(app.schedules.history("close")[0], app.selections.freeze(state=None)),
            *chosen(app),
            OwedRange(first_for=NOON, last_for=NOON),
            SkippedRange(first_for=NOON, last_for=NOON, count=1, reason="pause"),
            *(app.tokens.create("anna"), app.tokens.list()[0]),
            app.schedules.occurrences("close", NOON, NOON + timedelta(hours=2))[0],
            *raised(app),
            Ending(run=dead.id, scheduled_for=NOON, at=NOON),
            BadEnding(run=dead.id, scheduled_for=NOON, at=NOON, reason="error", error="boom"),
            QuarantinedHost(host="h", since=NOON, by="ada", reason="smokes"),
            Settled(as_="done", by="ada", at=NOON, reason="seen"),
            duly.client.doubt_view.Check(
                finding="verified", verdict="verified", at=NOON, by="ada", evidence={"receipt": 7}
            ),
            duly.client.attempt_view.Late(state="succeeded", at=NOON, error=None, result="1"),
            duly.client.limits.Place(name="task:settle", held=1, waiting=2, next_at=NOON),
            duly.client.limits.Breaker(
                destination="bank",
                state="open",
                succeeded=1,
                failed=2,
                running=0,
                waiting=3,
                opened_at=NOON,
                retry_at=NOON,
                updated_at=NOON,
            ),
        ]
        found.append(OpenAlerts(kind="queue-age", severity="page", count=2, silenced=1))
        yield {type(one).__name__: one for one in reversed(found)}


@pytest.mark.parametrize("name", SHAPES)
def test_a_shape_says_what_its_view_says(views, name):
    """Over the wire a thing has the fields that --json shows, and the same values."""
    view = views[name]

    shape = SHAPES[name].from_view(view)
    sent = msgspec.json.encode(shape)

    assert view.to_json() == msgspec.json.decode(sent)
    assert shape == msgspec.json.decode(sent, type=SHAPES[name])


def test_a_selection_of_schedules_says_what_its_view_says():
    """It is the same view as that of runs, of other things."""
    app = duly.App("memory:")

    @app.task
    def close() -> None: ...

    app.schedules.create("close", close, every("1h"))
    view = app.schedule_selections.freeze()

    sent = msgspec.json.encode(selections.ScheduleSelection.from_view(view))

    assert view.to_json() == msgspec.json.decode(sent)
    assert ["close"] == [one["name"] for one in view.to_json()["sample"]]


def test_every_view_has_a_shape_or_a_reason():
    """What the library can show, the API can show."""
    found = {
        name
        for module in pkgutil.iter_modules(duly.client.__path__, "duly.client.")
        for name, one in inspect.getmembers(import_module(module.name), inspect.isclass)
        if one.__module__.startswith("duly.client.") and hasattr(one, "to_json")
    }

    assert found - {"Scope"} == (SHAPES.keys() | ELSEWHERE.keys()) - {"Scope"}


def test_no_two_shapes_have_the_same_name():
    """The document of the API names them without their modules."""
    names = [shape.__name__ for shape in shapes()]

    assert sorted(set(names)) == sorted(names)


def test_what_is_asked_for_is_read_whole():
    """A misspelt field is refused, whatever the shape."""
    for shape in shapes():
        if issubclass(shape, Asked):
            assert shape.__struct_config__.forbid_unknown_fields, shape


def shapes() -> list[type[Any]]:
    return [
        one
        for module in pkgutil.iter_modules(duly.interface.__path__, "duly.interface.")
        for _, one in inspect.getmembers(import_module(module.name), inspect.isclass)
        if one.__module__ == module.name and issubclass(one, Shown | Asked)
        if one not in (Shown, Asked)
    ]
