"""Every way into an application, and what another tenant finds there: nothing (INV-20).

Each public method of the application and of its parts is named in exactly one of four lists. One
that is added and named in none of them fails the walk.
"""

from __future__ import annotations

import inspect
import json
from dataclasses import dataclass, fields, is_dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

import duly
from duly import DulyError, every
from duly.app.application import PARTS
from duly.store.ports.queries import ScheduleFilter
from duly.timetable.instants import from_microseconds
from duly_conformance import alerts, effects, steps
from duly_conformance import steps as work

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from duly.engine.manual_clock import ManualClock
    from duly.store.ports import Store

    Call = Callable[[duly.App, "Things"], object]

OURS = "ours"
THEIRS = "acme-inc"
SECRET = "their-secret"  # noqa: S105 - what nobody else may find


@dataclass(frozen=True, kw_only=True)
class Things:
    """What a tenant has, or might have."""

    schedule: UUID
    name: str
    label: str
    """Of the schedule's last run."""
    queued: UUID
    running: UUID
    dead: UUID
    doubtful: UUID
    delayed: UUID
    key: str
    backfill: UUID
    token: UUID
    prefix: str
    selection: UUID
    schedule_selection: UUID
    alert: UUID
    silence: UUID
    owner: str
    """Who is gone."""

    def texts(self) -> Iterator[tuple[str, str]]:
        """Yield each as it may be written in a message, with what to write instead."""
        for one in fields(self):
            value = getattr(self, one.name)
            for text in (repr(value), str(value), getattr(value, "hex", str(value))):
                yield text, f"<{one.name}>"


NOBODYS = Things(
    schedule=UUID("0196b000-0000-7000-8000-000000000001"),
    name="no-such-one",
    label="no-such-one@2026-04-02T12:00Z",
    queued=UUID("0196b000-0000-7000-8000-000000000002"),
    running=UUID("0196b000-0000-7000-8000-000000000003"),
    dead=UUID("0196b000-0000-7000-8000-000000000004"),
    doubtful=UUID("0196b000-0000-7000-8000-000000000005"),
    delayed=UUID("0196b000-0000-7000-8000-000000000006"),
    key="no-such-key",
    backfill=UUID("0196b000-0000-7000-8000-000000000007"),
    token=UUID("0196b000-0000-7000-8000-000000000008"),
    prefix="nosuchaa",
    selection=UUID("0196b000-0000-7000-8000-000000000009"),
    schedule_selection=UUID("0196b000-0000-7000-8000-00000000000c"),
    alert=UUID("0196b000-0000-7000-8000-00000000000a"),
    silence=UUID("0196b000-0000-7000-8000-00000000000b"),
    owner="no-such-owner",
)


def confined(app: duly.App, tenant: str = OURS) -> duly.App:
    """Return an application that speaks for one tenant, as a request to the API does."""
    return app.within(tenant=tenant, actor="mallory")


def furnish(store: Store, clock: ManualClock) -> Things:
    """Have a tenant promise and do all sorts of things."""
    app = duly.App(store=store, clock=clock, tenant=THEIRS, actor="ada")
    report = app.task(name="report")(lambda note: None)
    app.task(name="remind")(lambda: None)
    store.register_tasks(["remind", "report"])
    made = app.schedules.create("their-nightly", report.bind(SECRET), every("1h"))
    owed = steps.look(store, store.get_schedule(made.id.bytes).record)  # type: ignore[union-attr,arg-type]
    steps.fire_due(store, clock, owed)
    (fired,) = app.runs.list(schedule=made.id)
    worker = work.join_worker(store)
    work.take(store, worker)
    dead = work.make_dead(store, "dead", tenant=THEIRS)
    doubtful = effects.in_doubt(store, "doubtful", tenant=THEIRS).record.id
    queued = work.queue(store, "queued", tenant=THEIRS, queue="their-queue")
    delayed = app.enqueue(report.bind(SECRET), delay="3h", key="their-key")
    since = from_microseconds(clock.now_us()) - timedelta(hours=5)
    backfill = app.backfills.create(
        made.id, since=since, until=since + timedelta(hours=4), reason=SECRET
    )
    limit = app.limits.set(f"tenant:{THEIRS}", running=7, reason=SECRET)
    assert limit.running == 7
    app.quotas.set(f"tenant:{THEIRS}", pending=70)
    app.quotas.set("owner:their-anna", schedules=3)
    app.owners.gone("their-anna", reason=SECRET)
    token = app.tokens.create(SECRET, role="admin").token
    return Things(
        schedule=made.id,
        name="their-nightly",
        label=fired.label,
        queued=UUID(bytes=queued),
        running=fired.id,
        dead=UUID(bytes=dead),
        doubtful=UUID(bytes=doubtful),
        delayed=delayed.id,
        key="their-key",
        backfill=backfill.id,
        token=token.id,
        prefix=token.prefix,
        selection=app.selections.freeze().id,
        schedule_selection=app.schedule_selections.freeze().id,
        alert=_raise(store),
        silence=app.alerts.silence(tenant=THEIRS, subject=SECRET, duration="9h", reason=SECRET).id,
        owner="their-anna",
    )


def _raise(store: Store) -> UUID:
    """Have something be wrong with what a tenant has."""
    found = alerts.condition(f"schedule {SECRET}", tenant=THEIRS, evidence={"found": SECRET})
    fence = alerts.watch(store)
    alerts.look(store, fence, found)
    store.release_watch(fence)
    return UUID(bytes=alerts.listed(store)[0].id)


def _schedules(order: Callable[[duly.App, Any], object]) -> list[Call]:
    """Return an order about a schedule by its id, the id as a text, and the name."""
    return [
        lambda app, of: order(app, of.schedule),
        lambda app, of: order(app, str(of.schedule)),
        lambda app, of: order(app, of.name),
    ]


def _runs(order: Callable[[duly.App, Any], object]) -> list[Call]:
    """Return an order about a run in each of its places, and by a label."""
    return [
        lambda app, of: order(app, of.queued),
        lambda app, of: order(app, str(of.queued)),
        lambda app, of: order(app, of.running),
        lambda app, of: order(app, of.dead),
        lambda app, of: order(app, of.doubtful),
        lambda app, of: order(app, of.delayed),
        lambda app, of: order(app, of.label),
    ]


def _backfills(order: Callable[[duly.App, Any], object]) -> list[Call]:
    return [lambda app, of: order(app, of.backfill), lambda app, of: order(app, str(of.backfill))]


def _tokens(order: Callable[[duly.App, Any], object]) -> list[Call]:
    return [
        lambda app, of: order(app, of.token),
        lambda app, of: order(app, str(of.token)),
        lambda app, of: order(app, of.prefix),
    ]


def _alerts(order: Callable[[duly.App, Any], object]) -> list[Call]:
    return [lambda app, of: order(app, of.alert), lambda app, of: order(app, str(of.alert))]


def _selections(order: Callable[[duly.App, Any], object]) -> list[Call]:
    return [lambda app, of: order(app, of.selection), lambda app, of: order(app, str(of.selection))]


def _schedule_selections(order: Callable[[duly.App, Any], object]) -> list[Call]:
    return [
        lambda app, of: order(app, of.schedule_selection),
        lambda app, of: order(app, str(of.schedule_selection)),
        lambda app, of: order(app, of.selection),
    ]


SPAN: dict[str, Any] = {"since": "2026-04-01T00:00Z", "until": "2026-04-01T06:00Z"}

BY_REFERENCE: dict[str, list[Call]] = {
    "cancel": [
        lambda app, of: app.cancel(of.key),
        lambda app, of: app.cancel(of.delayed),
        lambda app, of: app.cancel(of.queued),
    ],
    "move": [
        lambda app, of: app.move(of.key, delay="1h"),
        lambda app, of: app.move(of.delayed, delay="1h"),
        lambda app, of: app.move(of.queued, delay="1h"),
    ],
    "prove": _schedules(lambda app, one: app.prove(one, "2026-04-01")),
    "vitals.of_schedule": _schedules(lambda app, one: app.vitals.of_schedule(one)),
    "runs.missing": _schedules(lambda app, one: app.runs.missing(SPAN["since"], schedule=one)),
    "schedules.edit": _schedules(lambda app, one: app.schedules.edit(one, name="mine now")),
    "schedules.pause": _schedules(lambda app, one: app.schedules.pause(one)),
    "schedules.resume": _schedules(lambda app, one: app.schedules.resume(one)),
    "schedules.delete": _schedules(lambda app, one: app.schedules.delete(one)),
    "schedules.restore": _schedules(lambda app, one: app.schedules.restore(one)),
    "schedules.skip_next": _schedules(lambda app, one: app.schedules.skip_next(one)),
    "schedules.trigger": _schedules(lambda app, one: app.schedules.trigger(one)),
    "schedules.get": _schedules(lambda app, one: app.schedules.get(one)),
    "schedules.history": _schedules(lambda app, one: app.schedules.history(one)),
    "schedules.owed": _schedules(lambda app, one: app.schedules.owed(one)),
    "schedules.skips": _schedules(lambda app, one: app.schedules.skips(one)),
    "schedules.occurrences": _schedules(
        lambda app, one: app.schedules.occurrences(one, SPAN["since"], SPAN["until"])
    ),
    "runs.get": _runs(lambda app, one: app.runs.get(one)),
    "runs.attempts": _runs(lambda app, one: app.runs.attempts(one)),
    "runs.why": [
        *_runs(lambda app, one: app.runs.why(one)),
        lambda app, of: app.runs.why(of.key),
    ],
    "runs.checkpoints": _runs(lambda app, one: app.runs.checkpoints(one)),
    "runs.progress": _runs(lambda app, one: app.runs.progress(one)),
    "runs.lines": _runs(lambda app, one: app.runs.lines(one)),
    "runs.wait": _runs(lambda app, one: app.runs.wait(one, timeout="1us")),
    "runs.cancel": _runs(lambda app, one: app.runs.cancel(one)),
    "runs.retry": [
        *_runs(lambda app, one: app.runs.retry(one)),
        lambda app, of: app.runs.retry([of.dead, of.queued]),
    ],
    "runs.discard": [
        *_runs(lambda app, one: app.runs.discard(one)),
        lambda app, of: app.runs.discard([of.dead, of.queued]),
    ],
    "runs.edit": _runs(lambda app, one: app.runs.edit(one, {"note": "mine now"})),
    "runs.list": _schedules(lambda app, one: app.runs.list(schedule=one)),
    "runs.page": _schedules(lambda app, one: app.runs.page(schedule=one)),
    "selections.freeze": _schedules(lambda app, one: app.selections.freeze(schedule=one)),
    "selections.get": _selections(lambda app, one: app.selections.get(one)),
    "selections.retry": _selections(lambda app, one: app.selections.retry(one)),
    "selections.discard": _selections(lambda app, one: app.selections.discard(one)),
    "selections.cancel": _selections(lambda app, one: app.selections.cancel(one)),
    "selections.preview": _selections(lambda app, one: app.selections.preview(one, "rerun")),
    "selections.rerun": _selections(lambda app, one: app.selections.rerun(one, reason="r")),
    "selections.skip": _selections(lambda app, one: app.selections.skip(one, reason="r")),
    "schedule_selections.freeze": _schedules(
        lambda app, one: app.schedule_selections.freeze(schedules=[one])
    ),
    "schedule_selections.get": _schedule_selections(
        lambda app, one: app.schedule_selections.get(one)
    ),
    "schedule_selections.preview": _schedule_selections(
        lambda app, one: app.schedule_selections.preview(one, "pause")
    ),
    "schedule_selections.pause": _schedule_selections(
        lambda app, one: app.schedule_selections.pause(one, reason="r")
    ),
    "schedule_selections.resume": _schedule_selections(
        lambda app, one: app.schedule_selections.resume(one, reason="r")
    ),
    "runs.select": _schedules(lambda app, one: app.runs.select(schedule=one)),
    "delayed.get": [
        lambda app, of: app.delayed.get(of.key),
        lambda app, of: app.delayed.get(of.delayed),
        lambda app, of: app.delayed.get(of.queued),
    ],
    "inbox.get": _runs(lambda app, one: app.inbox.get(one)),
    "inbox.effects": _runs(lambda app, one: app.inbox.effects(one)),
    "inbox.checks": _runs(lambda app, one: app.inbox.checks(one)),
    "inbox.scope": _runs(lambda app, one: app.inbox.scope(one)),
    "inbox.line": _runs(lambda app, one: app.inbox.line(one)),
    "inbox.verify": _runs(lambda app, one: app.inbox.verify(one)),
    "inbox.retry": _runs(lambda app, one: app.inbox.retry(one, reason="r", confirm=one)),
    "inbox.resume": _runs(lambda app, one: app.inbox.resume(one, reason="r", confirm=one)),
    "inbox.reconcile": _runs(lambda app, one: app.inbox.reconcile(one, is_done=True, reason="r")),
    "inbox.skip": _runs(lambda app, one: app.inbox.skip(one, reason="r")),
    "inbox.rerun": _runs(lambda app, one: app.inbox.rerun(one, reason="r", confirm=one)),
    "owners.back": [lambda app, of: app.owners.back(of.owner)],
    "tokens.get": _tokens(lambda app, one: app.tokens.get(one)),
    "tokens.revoke": _tokens(lambda app, one: app.tokens.revoke(one)),
    "alerts.get": _alerts(lambda app, one: app.alerts.get(one)),
    "alerts.acknowledge": _alerts(lambda app, one: app.alerts.acknowledge(one, reason="r")),
    "alerts.unsilence": [lambda app, of: app.alerts.unsilence(of.silence)],
    "backfills.plan": _schedules(lambda app, one: app.backfills.plan(one, **SPAN)),
    "backfills.create": _schedules(lambda app, one: app.backfills.create(one, **SPAN)),
    "backfills.get": _backfills(lambda app, one: app.backfills.get(one)),
    "backfills.list": _schedules(lambda app, one: app.backfills.list(one)),
    "backfills.plan_rest": _backfills(lambda app, one: app.backfills.plan_rest(one)),
    "backfills.resume_from": _backfills(
        lambda app, one: app.backfills.resume_from(one, reason="r")
    ),
    "backfills.pause": _backfills(lambda app, one: app.backfills.pause(one)),
    "backfills.resume": _backfills(lambda app, one: app.backfills.resume(one)),
    "backfills.cancel": _backfills(lambda app, one: app.backfills.cancel(one)),
    "backfills.throttle": _backfills(lambda app, one: app.backfills.throttle(one, per_minute=9)),
}
"""Of another's things the answer is the one for what is not there, to the letter."""


def _everybody(app: duly.App) -> list[UUID]:
    """Return the ids of everybody's schedules, as somebody might have come by them."""
    found = app.store.list_schedules(ScheduleFilter(tenant=None))
    return [UUID(bytes=one.id) for one in found]


def _all_names(app: duly.App) -> list[str]:
    """Return the names of everybody's schedules."""
    return [one.name for one in app.store.list_schedules(ScheduleFilter(tenant=None))]


LOOKING: dict[str, list[Callable[[duly.App], object]]] = {
    "health": [lambda app: app.health()],
    "status": [lambda app: app.status()],
    "schedules.list": [lambda app: app.schedules.list(include_deleted=True, with_run_times=True)],
    "runs.list": [
        lambda app: app.runs.list(),
        lambda app: app.runs.list(state=["queued", "running", "dead", "ambiguous"]),
        lambda app: app.runs.list(key="their-key"),
        lambda app: app.runs.list(queue="their-queue"),
    ],
    "runs.page": [lambda app: app.runs.page(), lambda app: app.runs.page(error="boom")],
    "runs.missing": [lambda app: app.runs.missing(SPAN["since"])],
    "vitals.of_tenant": [lambda app: app.vitals.of_tenant()],
    "vitals.of_task": [
        lambda app: [app.vitals.of_task(one) for one in app.store.list_tasks()],
    ],
    "vitals.schedules": [lambda app: app.vitals.schedules(status=None)],
    "vitals.windows": [lambda app: app.vitals.windows(_everybody(app), runs=100)],
    "vitals.of_schedules": [lambda app: app.vitals.of_schedules(_everybody(app))],
    "schedules.several": [
        lambda app: app.schedules.several(ids=_everybody(app)),
        lambda app: app.schedules.several(names=_all_names(app)),
    ],
    "runs.newest": [lambda app: app.runs.newest(_everybody(app))],
    "schedules.many_occurrences": [
        lambda app: app.schedules.many_occurrences(
            dict.fromkeys(_everybody(app), (SPAN["since"], SPAN["until"]))
        )
    ],
    "selections.freeze": [lambda app: app.selections.freeze(state=["dead", "queued"])],
    "schedule_selections.freeze": [lambda app: app.schedule_selections.freeze()],
    "attempts.page": [lambda app: app.attempts.page()],
    "audit.page": [lambda app: app.audit.page()],
    "events.after": [lambda app: app.events.after(0)],
    "schedules.page": [lambda app: app.schedules.page(include_deleted=True)],
    "runs.select": [lambda app: app.runs.select(), lambda app: app.runs.select(state=None)],
    "delayed.list": [lambda app: app.delayed.list()],
    "delayed.page": [lambda app: app.delayed.page()],
    "queues.list": [lambda app: app.queues.list()],
    "queues.get": [lambda app: replace(app.queues.get("their-queue"), name="as it was asked for")],
    "backfills.list": [lambda app: app.backfills.list()],
    "inbox.list": [lambda app: app.inbox.list()],
    "inbox.tasks": [lambda app: app.inbox.tasks()],
    "inbox.orders": [lambda app: app.inbox.orders("report")],
    "workers.list": [lambda app: app.workers.list()],
    "limits.list": [lambda app: app.limits.list()],
    "limits.places": [lambda app: app.limits.places()],
    "breakers.list": [lambda app: app.breakers.list()],
    "breakers.get": [],
    "quotas.list": [lambda app: app.quotas.list()],
    "owners.list": [lambda app: app.owners.list()],
    "owners.page": [lambda app: app.owners.page(limit=1)],
    "tokens.list": [lambda app: app.tokens.list()],
    "alerts.list": [lambda app: app.alerts.list(state="all")],
    "alerts.silences": [lambda app: app.alerts.silences()],
}
"""What is shown holds nothing of theirs. (What is known of a destination is nobody's.)"""

OPERATORS: dict[str, Callable[[duly.App], object]] = {
    "acting_as": lambda app: app.acting_as("somebody", "cli", "theirs"),
    "reconcile": lambda app: app.reconcile(),
    "transaction": lambda app: app.transaction(),
    "dispatcher": lambda app: app.dispatcher(),
    "worker": lambda app: app.worker(),
    "run": lambda app: app.run(),
    "migrate": lambda app: app.migrate(),
    "check": lambda app: app.check(),
    "grant_access": lambda app: app.grant_access("somebody"),
    "promises.export": lambda app: app.promises.export("promises.jsonl"),
    "promises.import_from": lambda app: app.promises.import_from("promises.jsonl"),
    "events.after": lambda app: app.events.after(0, all_tenants=True),
    "audit.page": lambda app: app.audit.page(all_tenants=True),
    "audit.verify": lambda app: app.audit.verify(),
    "audit.export": lambda app: app.audit.export("audit.jsonl"),
    "workers.quarantined_hosts": lambda app: app.workers.quarantined_hosts(),
    "workers.drain": lambda app: app.workers.drain(1, reason="r"),
    "workers.quarantine": lambda app: app.workers.quarantine(1, reason="r"),
    "workers.release": lambda app: app.workers.release(1),
    "queues.pause": lambda app: app.queues.pause("their-queue"),
    "queues.resume": lambda app: app.queues.resume("their-queue"),
    "inbox.suspend_retries": lambda app: app.inbox.suspend_retries("report", reason="r"),
    "inbox.allow_retries": lambda app: app.inbox.allow_retries("report"),
    "inbox.block_reruns": lambda app: app.inbox.block_reruns("report", reason="r"),
    "inbox.allow_reruns": lambda app: app.inbox.allow_reruns("report"),
    "alerts.rules": lambda app: app.alerts.rules(),
    "alerts.set_rule": lambda app: app.alerts.set_rule("queue-age", threshold=1),
    "alerts.remove_rule": lambda app: app.alerts.remove_rule("queue-age"),
    "alerts.channels": lambda app: app.alerts.channels(),
    "alerts.add_channel": lambda app: app.alerts.add_channel("ops", "log"),
    "alerts.remove_channel": lambda app: app.alerts.remove_channel("ops"),
    "alerts.test_channel": lambda app: app.alerts.test_channel("log"),
    "alerts.silence": lambda app: app.alerts.silence(tenant=THEIRS, duration="1h", reason="r"),
    "limits.set": lambda app: app.limits.set(f"tenant:{THEIRS}", running=1),
    "limits.remove": lambda app: app.limits.remove(f"tenant:{THEIRS}"),
    "breakers.reset": lambda app: app.breakers.reset("stripe"),
    "quotas.set": lambda app: app.quotas.set(f"tenant:{THEIRS}", schedules=1),
    "tokens.list": lambda app: app.tokens.list(tenant=THEIRS),
    "tokens.create": lambda app: app.tokens.create("mine", tenant=THEIRS),
    "quotas.remove": lambda app: app.quotas.remove("owner:their-anna", tenant=THEIRS),
}
"""What concerns all tenants is refused."""

NOT_OF_A_TENANT = {
    "enqueue": "makes something of one's own: the walk orders under their key and their id",
    "enqueue_many": "as enqueue, without a key",
    "schedules.create": "makes something of one's own: the walk does under their name",
    "owners.gone": "says something of one's own: as if an owner of theirs were ours",
    "schedules.preview": "asks about a timetable, and no store",
    "call": "names a task: what code there is, is no tenant's",
    "calls": "names tasks, as call does",
    "schema_status": "says which migrations there are",
    "rehearsing": "is the same application, for a dry run",
    "require_store": "says whether there is a store",
    "within": "is the same application for another tenant: it never becomes less confined",
    "doorkeeper": "says who comes, before anybody knows whose he is",
    "standing_in": "is for tests",
    "catalogue": "is what a worker knows of code",
    "secret_sources": "says from where a worker reads",
    "close": "lets go of the store",
    "is_at": "compares addresses of stores",
    "task": "declares code",
    "command": "declares code",
    "webhook": "declares code",
    "schedule": "declares code",
    "declare": "reads a file that declares",
    "tasks": "are code",
    "declarations": "are code",
}

WHOSE = frozenset(("tenant", "tenants", "all_tenants"))
PARTS_OF_CODE = frozenset(("tasks", "declarations"))


def ways_in(app: duly.App) -> dict[str, Callable[..., object]]:
    """Return every public method of an application and of its parts by its name."""
    methods = inspect.getmembers(type(app), inspect.isfunction)
    found: dict[str, Callable[..., object]] = {
        name: method for name, method in methods if _public(name)
    }
    for name, part in (vars(app) | {one: getattr(app, one) for one in PARTS}).items():
        if not _public(name) or type(part).__module__.partition(".")[0] != "duly":
            continue
        if name in PARTS_OF_CODE or is_dataclass(part):
            continue
        methods = inspect.getmembers(type(part), inspect.isfunction)
        found |= {f"{name}.{one}": method for one, method in methods if _public(one)}
    return found


def naming_others(app: duly.App) -> set[str]:
    """Return the ways in that can be told of whose things to speak."""
    return {
        name
        for name, method in ways_in(app).items()
        if WHOSE & set(inspect.signature(method).parameters)
    }


def answer(call: Call, app: duly.App, of: Things) -> str:
    """Return what is answered about a tenant's things, with a word for each instead of its id."""
    try:
        said = repr(call(app, of))
    except DulyError as error:
        said = f"{type(error).__name__}: {error}"
    for text, word in sorted(of.texts(), key=lambda one: -len(one[0])):
        said = said.replace(text, word)
    return said


def shown(value: object) -> str:
    """Return all that an answer tells."""
    if isinstance(value, list | tuple):
        return json.dumps([shown(one) for one in value])
    to_json = getattr(value, "to_json", None)
    return repr(value) if to_json is None else json.dumps(to_json())


def _public(name: str) -> bool:
    return not name.startswith("_")
