"""Orders in the caller's transaction: each one that writes takes `connection=`, and joins."""

from __future__ import annotations

import inspect
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

import duly
from duly import Retry, UsageError, Verdict, every
from duly.app.application import PARTS
from duly.store.ports.queries import AuditFilter
from duly.store.sqlite import SqliteStore
from duly.testing import SeededDraws
from duly_conformance import alerts as alert_steps
from duly_conformance import steps
from tests.client.conftest import NOON, work

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

WHY = "because"
APP_LOOKS = """acting_as call calls catalogue check close command declare dispatcher doorkeeper health is_at
prove rehearsing require_store run schedule schema_status secret_sources standing_in status task
transaction webhook within worker"""
LOOKS = {
    "schedules": "get history list many_occurrences occurrences owed page preview several skips",
    "runs": "attempts checkpoints get lines list missing newest page progress select wait why",
    "selections": "get preview",
    "schedule_selections": "get preview",
    "attempts": "page",
    "audit": "export page verify",
    "delayed": "get list page",
    "queues": "get list",
    "backfills": "get list plan plan_rest",
    "inbox": "checks effects get line list orders scope tasks",
    "limits": "list places",
    "breakers": "get list",
    "quotas": "list",
    "owners": "list page",
    "tokens": "get list",
    "events": "after",
    "workers": "list quarantined_hosts",
    "vitals": "of_schedule of_schedules of_task of_tenant schedules windows",
    "alerts": "channels get list rules silences",
    "app": APP_LOOKS,
}
"""What changes nothing in the store, or orders by itself and gives no order."""
ALONE = {
    "app.migrate": "it changes the tables that orders are written to",
    "app.grant_access": "it is about roles of the server",
    "promises.export": "it reads all there is, as of a snapshot of its own",
    "promises.import_from": "it writes all of a file, or nothing",
    "alerts.test_channel": "it sends something, and writes nothing",
}

UNRECORDED = ("selections.freeze", "schedule_selections.freeze")


@dataclass
class Place:
    """An application whose store has something of each kind."""

    app: duly.App
    report: Any
    ids: dict[str, Any]

    def __getattr__(self, name: str) -> Any:
        return self.ids[name]


ORDERS: dict[str, Callable[[Place, Any], object]] = {
    "app.enqueue": lambda at, tx: at.app.enqueue(at.report, connection=tx),
    "app.enqueue_many": lambda at, tx: at.app.enqueue_many([at.report] * 3, connection=tx),
    "app.move": lambda at, tx: at.app.move("later", delay="2h", connection=tx),
    "app.cancel": lambda at, tx: at.app.cancel("later", connection=tx),
    "app.reconcile": lambda at, tx: at.app.reconcile(connection=tx),
    "schedules.create": lambda at, tx: at.app.schedules.create(
        "new", at.report, every("1h"), connection=tx
    ),
    "schedules.edit": lambda at, tx: at.app.schedules.edit("hourly", priority=3, connection=tx),
    "schedules.pause": lambda at, tx: at.app.schedules.pause("hourly", connection=tx),
    "schedules.resume": lambda at, tx: at.app.schedules.resume("paused", connection=tx),
    "schedules.delete": lambda at, tx: at.app.schedules.delete("hourly", connection=tx),
    "schedules.restore": lambda at, tx: at.app.schedules.restore(at.deleted, connection=tx),
    "schedules.skip_next": lambda at, tx: at.app.schedules.skip_next("hourly", connection=tx),
    "schedules.trigger": lambda at, tx: at.app.schedules.trigger("hourly", connection=tx),
    "runs.cancel": lambda at, tx: at.app.runs.cancel(at.queued, connection=tx),
    "runs.retry": lambda at, tx: at.app.runs.retry(at.dead, connection=tx),
    "runs.discard": lambda at, tx: at.app.runs.discard(at.dead, connection=tx),
    "runs.edit": lambda at, tx: at.app.runs.edit(at.dead, {"how": "well"}, connection=tx),
    "selections.freeze": lambda at, tx: at.app.selections.freeze(connection=tx),
    "selections.retry": lambda at, tx: at.app.selections.retry(at.chosen, connection=tx),
    "selections.discard": lambda at, tx: at.app.selections.discard(at.chosen, connection=tx),
    "selections.cancel": lambda at, tx: at.app.selections.cancel(at.chosen_queued, connection=tx),
    "selections.rerun": lambda at, tx: at.app.selections.rerun(
        at.chosen, reason=WHY, connection=tx
    ),
    "selections.skip": lambda at, tx: at.app.selections.skip(
        at.chosen_doubt, reason=WHY, connection=tx
    ),
    "schedule_selections.freeze": lambda at, tx: at.app.schedule_selections.freeze(connection=tx),
    "schedule_selections.pause": lambda at, tx: at.app.schedule_selections.pause(
        at.chosen_hourly, reason=WHY, connection=tx
    ),
    "schedule_selections.resume": lambda at, tx: at.app.schedule_selections.resume(
        at.chosen_paused, reason=WHY, connection=tx
    ),
    "queues.pause": lambda at, tx: at.app.queues.pause("default", connection=tx),
    "queues.resume": lambda at, tx: at.app.queues.resume("stopped", connection=tx),
    "backfills.create": lambda at, tx: at.app.backfills.create(
        "hourly", since=NOON - timedelta(hours=4), until=NOON, connection=tx
    ),
    "backfills.pause": lambda at, tx: at.app.backfills.pause(at.backfill, connection=tx),
    "backfills.resume": lambda at, tx: at.app.backfills.resume(at.backfill_paused, connection=tx),
    "backfills.cancel": lambda at, tx: at.app.backfills.cancel(at.backfill, connection=tx),
    "backfills.throttle": lambda at, tx: at.app.backfills.throttle(
        at.backfill, per_minute=7, connection=tx
    ),
    "backfills.resume_from": lambda at, tx: at.app.backfills.resume_from(
        at.backfill_cancelled, reason=WHY, connection=tx
    ),
    "inbox.verify": lambda at, tx: at.app.inbox.verify(at.done, connection=tx),
    "inbox.retry": lambda at, tx: at.app.inbox.retry(
        at.doubt, reason=WHY, confirm=at.doubt, connection=tx
    ),
    "inbox.resume": lambda at, tx: at.app.inbox.resume(
        at.doubt, reason=WHY, confirm=at.doubt, connection=tx
    ),
    "inbox.reconcile": lambda at, tx: at.app.inbox.reconcile(
        at.doubt, is_done=True, reason=WHY, connection=tx
    ),
    "inbox.skip": lambda at, tx: at.app.inbox.skip(at.doubt, reason=WHY, connection=tx),
    "inbox.rerun": lambda at, tx: at.app.inbox.rerun(
        at.done, reason=WHY, confirm=at.done, connection=tx
    ),
    "inbox.suspend_retries": lambda at, tx: at.app.inbox.suspend_retries(
        "fail", reason=WHY, connection=tx
    ),
    "inbox.allow_retries": lambda at, tx: at.app.inbox.allow_retries("settle", connection=tx),
    "inbox.block_reruns": lambda at, tx: at.app.inbox.block_reruns(
        "fail", reason=WHY, connection=tx
    ),
    "inbox.allow_reruns": lambda at, tx: at.app.inbox.allow_reruns("settle", connection=tx),
    "limits.set": lambda at, tx: at.app.limits.set("task:fail", running=2, connection=tx),
    "limits.remove": lambda at, tx: at.app.limits.remove("task:report", connection=tx),
    "breakers.reset": lambda at, tx: at.app.breakers.reset(at.destination, connection=tx),
    "quotas.set": lambda at, tx: at.app.quotas.set("tenant:*", schedules=7, connection=tx),
    "quotas.remove": lambda at, tx: at.app.quotas.remove("owner:zoe", connection=tx),
    "owners.gone": lambda at, tx: at.app.owners.gone("anna", reason=WHY, connection=tx),
    "owners.back": lambda at, tx: at.app.owners.back("bob", connection=tx),
    "tokens.create": lambda at, tx: at.app.tokens.create("other", connection=tx),
    "tokens.revoke": lambda at, tx: at.app.tokens.revoke(at.token, connection=tx),
    "workers.drain": lambda at, tx: at.app.workers.drain(at.worker, reason=WHY, connection=tx),
    "workers.quarantine": lambda at, tx: at.app.workers.quarantine(
        at.worker, reason=WHY, connection=tx
    ),
    "workers.release": lambda at, tx: at.app.workers.release(at.quarantined, connection=tx),
    "alerts.acknowledge": lambda at, tx: at.app.alerts.acknowledge(
        at.alert, reason=WHY, connection=tx
    ),
    "alerts.silence": lambda at, tx: at.app.alerts.silence(
        reason=WHY, duration="1h", subject="queue b", connection=tx
    ),
    "alerts.unsilence": lambda at, tx: at.app.alerts.unsilence(at.silence, connection=tx),
    "alerts.set_rule": lambda at, tx: at.app.alerts.set_rule(
        "late-run", hold_for="7m", connection=tx
    ),
    "alerts.remove_rule": lambda at, tx: at.app.alerts.remove_rule("queue-age", connection=tx),
    "alerts.add_channel": lambda at, tx: at.app.alerts.add_channel("other", "log", connection=tx),
    "alerts.remove_channel": lambda at, tx: at.app.alerts.remove_channel("more", connection=tx),
}


def parts(app: duly.App) -> dict[str, Any]:
    found = {name: getattr(app, name) for name in PARTS if not name.startswith("_")}
    return {"app": app, **found}


def test_each_order_that_writes_takes_a_connection():
    """A new method is one that looks, one that stands alone, or one that joins."""
    for_code = {f"app.{name}" for name in LOOKS["app"].split()}
    joins: set[str] = set()
    others: set[str] = set()
    for part, there in parts(duly.App("memory:")).items():
        for name, method in inspect.getmembers(type(there), inspect.isfunction):
            if not name.startswith("_"):
                takes = "connection" in inspect.signature(method).parameters
                (joins if takes else others).add(f"{part}.{name}")
    looks = for_code | {f"{part}.{name}" for part in LOOKS for name in LOOKS[part].split()}

    assert set() == others - looks - set(ALONE)
    assert set(ORDERS) == joins


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.thorough)])
def at(request, tmp_path, clock) -> Iterator[Place]:
    if request.param == "postgres":
        databases = request.getfixturevalue("databases")
        lent = databases.take()
        with lent.clock() as its_clock, lent.store(its_clock) as store:
            yield arranged(store, its_clock)
        databases.give_back(lent)
        return
    store = SqliteStore(tmp_path / "duly.db", clock)
    yield arranged(store, clock)
    store.close()


def arranged(store: Any, clock: Any) -> Place:
    steps.fail_often(store)
    app = duly.App(store=store, clock=clock, draws=SeededDraws()).acting_as("ada", "cli")

    @app.task(effects="unsafe", retry=Retry(attempts=1))
    def settle(run: duly.Run) -> None:
        with run.effect("pay"):
            raise ConnectionResetError("no answer")

    @app.task(retry=Retry(attempts=1))
    def fail(how: str = "badly") -> None:
        raise ValueError(how)

    @app.task
    def report() -> None: ...

    @report.verify
    def look(run: duly.Run) -> Verdict:
        return Verdict.present(run.task)

    app.schedule(every("2h"), name="declared")(report)
    for name in ("hourly", "paused", "deleted"):
        app.schedules.create(name, report, every("1h"), owner="anna")
    ids: dict[str, Any] = {"destination": steps.known(store).destination}
    ids["deleted"] = app.schedules.delete("deleted").id
    app.schedules.pause("paused")
    app.enqueue_many([settle, fail, report])
    work(app, clock)
    states = {"dead": "fail", "succeeded": "report", "ambiguous": "settle"}
    found = {task: app.runs.list(task=task, state=state)[0].id for state, task in states.items()}
    ids |= {"dead": found["fail"], "done": found["report"], "doubt": found["settle"]}
    app.enqueue(report, delay="1h", key="later")
    ids["queued"] = app.enqueue(report).id
    prepare_settings(app, store, ids)
    return Place(app, report, ids)


def prepare_settings(app: duly.App, store: Any, ids: dict[str, Any]) -> None:
    since = NOON - timedelta(hours=2)
    made = [app.backfills.create("hourly", since=since, until=NOON).id for _ in range(3)]
    ids |= dict(zip(("backfill", "backfill_paused", "backfill_cancelled"), made, strict=True))
    app.backfills.pause(made[1])
    app.backfills.cancel(made[2])
    app.queues.pause("stopped")
    app.limits.set("task:report", running=9)
    app.quotas.set("owner:zoe", schedules=3)
    app.owners.gone("bob", reason=WHY)
    app.inbox.suspend_retries("settle", reason=WHY)
    app.inbox.block_reruns("settle", reason=WHY)
    ids["token"] = app.tokens.create("reader").token.id
    ids["worker"] = int(steps.join_worker(store))
    ids["quarantined"] = int(steps.join_worker(store))
    app.workers.quarantine(ids["quarantined"], reason=WHY)
    fence = alert_steps.watch(store)
    alert_steps.look(store, fence, alert_steps.condition())
    store.release_watch(fence)
    ids["alert"] = app.alerts.list()[0].id
    ids["silence"] = app.alerts.silence(reason=WHY, duration="1h", subject="queue a").id
    app.alerts.set_rule("queue-age", hold_for="9m")
    app.alerts.add_channel("more", "log")
    ids["chosen"] = app.selections.freeze().id
    ids["chosen_queued"] = app.selections.freeze(ids=[ids["queued"]]).id
    ids["chosen_doubt"] = app.selections.freeze(ids=[ids["doubt"]]).id
    ids["chosen_hourly"] = app.schedule_selections.freeze(schedules=["hourly"]).id
    ids["chosen_paused"] = app.schedule_selections.freeze(schedules=["paused"]).id


class TheirOwnError(Exception):
    """What goes wrong in the caller's transaction."""


def trail(store: Any) -> list[Any]:
    return list(store.list_audit(AuditFilter(limit=1000)))


def test_an_order_in_a_transaction_that_is_rolled_back_has_not_happened(at: Place):
    """It was carried out in there, and on record; nothing of it is left."""
    before, wrong = trail(at.app.store), []
    for name, order in ORDERS.items():
        try:
            if undone(at, order) == len(before) and name not in UNRECORDED:
                wrong.append(f"{name} has done nothing")
        except Exception as error:  # noqa: BLE001 - each order that fails is told
            wrong.append(f"{name}: {type(error).__name__}: {error}")
        if trail(at.app.store) != before:
            wrong.append(f"{name} is on record though it was rolled back")
            before = trail(at.app.store)

    assert not wrong, "\n".join(wrong)


def undone(at: Place, order: Callable[[Place, Any], object]) -> int:
    """Give an order and roll it back; return how much was on record before that."""
    found = 0
    with suppress(TheirOwnError), at.app.transaction(limit="30s") as tx:
        order(at, tx)
        found = len(trail(at.app.store.joined(tx)))
        raise TheirOwnError
    return found


def test_a_choice_that_is_rolled_back_was_not_kept(at: Place):
    with suppress(TheirOwnError), at.app.transaction(limit="30s") as tx:
        chosen = at.app.selections.freeze(connection=tx)
        raise TheirOwnError

    with pytest.raises(duly.NotFound):
        at.app.selections.get(chosen.id)


def test_orders_see_what_the_transaction_has_written_and_commit_with_it(at: Place):
    app = at.app
    with app.transaction(limit="30s") as tx:
        app.schedules.create("new", at.report, every("1h"), connection=tx)
        app.schedules.pause("new", reason=WHY, connection=tx)
        app.enqueue(at.report, delay="1h", key="soon", connection=tx)
        app.move("soon", delay="2h", connection=tx)
        app.cancel("later", connection=tx)
        with pytest.raises(duly.Conflict, match="later"):
            app.move("later", delay="2h", connection=tx)

        assert "new" not in {one.name for one in app.schedules.list()}

    assert "paused" == app.schedules.get("new").status
    assert ["soon"] == [one.key for one in app.delayed.list()]


def test_a_transaction_that_is_over_is_refused(at: Place):
    with at.app.transaction() as tx:
        pass
    with pytest.raises(UsageError, match="is not a connection that Duly lent"):
        at.app.cancel("later", connection=tx)
