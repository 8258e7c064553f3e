"""The application: its store, its transactions, and the same surface awaited."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

import duly
from duly import Conflict, StoreUnavailable, UsageError, every
from duly.app.services import WorkerOptions
from duly.domain.enums import TaskKind
from duly.engine.worker import Worker, WorkerSettings
from duly.store.sqlite import SqliteStore
from duly.testing import InlineExecutor
from tests.client.conftest import everything, refused

if TYPE_CHECKING:
    from uuid import UUID


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("mysql://ada:secret@host", "names no store that is known"),
        ("sqlite://relative.db", "names no store that is known"),
        ("sqlite:///", "names no store that is known"),
        ("sqlite:///duly.db?mode=ro", "is more than a path"),
        ("sqlite:///:memory:?cache=shared", "is more than a path"),
        ("duly.db", "names no store that is known"),
        (42, "is not a text"),
    ],
)
def test_a_url_that_names_no_store_is_refused_with_examples(url, says):
    with pytest.raises(UsageError, match=says) as caught:
        duly.App(url)

    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://ada:secret@host:5433/shop?password=secret", "postgresql://host:5433/shop"),
        ("postgres://host/shop", "postgres://host/shop"),
        ("postgresql+psycopg://ada:secret@host/shop", "postgresql+psycopg://host/shop"),
        ("sqlite:////srv/p@per.db", "sqlite:////srv/p@per.db"),
    ],
)
def test_an_application_shows_its_url_without_what_is_secret(url, shown):
    """Nothing is opened, so there need be no such server."""
    assert shown == duly.App(url).url


def test_without_the_driver_it_is_said_what_to_install():
    """In a process of its own, which is told that there is no psycopg."""
    program = (
        "import sys; sys.modules['psycopg'] = None\nimport duly\n"
        "app = duly.App('postgresql://ada:secret@host/shop')\n"
        "for use in (app.status, app.require_store, app.schema_status):\n"
        "    try: use()\n"
        "    except duly.UsageError as error: print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    lines = done.stdout.splitlines()

    assert 3 == len(lines)
    assert all(line.endswith("pip install 'duly[postgres]'") for line in lines)
    assert "secret" not in done.stdout


def test_making_an_application_opens_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    app = duly.App("sqlite:///duly.db")
    app.task(name="report")(lambda: None)

    assert [] == list(tmp_path.iterdir())
    app.status()

    assert (tmp_path / "duly.db").exists()
    app.close()


def test_the_store_is_that_of_the_environment_unless_said(monkeypatch, tmp_path):
    monkeypatch.delenv("DULY_URL", raising=False)

    assert "sqlite:///duly.db" == duly.App().url
    monkeypatch.setenv("DULY_URL", f"sqlite:///{tmp_path}/other.db")

    assert f"sqlite:///{tmp_path}/other.db" == duly.App().url
    assert "memory:" == duly.App("memory:").url


def test_an_absolute_path_has_four_slashes(tmp_path):
    with duly.App(f"sqlite:///{tmp_path}/duly.db") as app:
        app.status()

    assert (tmp_path / "duly.db").exists()


def test_a_store_of_sqlite_may_be_in_memory(tmp_path, monkeypatch):
    """It has the caller's own tables, as a file has; and nothing is made in any folder."""
    monkeypatch.chdir(tmp_path)
    with duly.App("sqlite:///:memory:") as app, duly.App(app.url) as other:
        app.require_store()
        ship = app.task(name="ship")(lambda: None)
        with app.transaction() as tx:
            tx.execute("create table orders (id integer primary key)")
            app.enqueue(ship, connection=tx)

        assert ("sqlite:///:memory:", "sqlite:///:memory:") == (app.url, app.status().store)
        assert (1, 0) == (len(app.runs.list()), len(other.runs.list()))
        with pytest.raises(UsageError, match=r"in the memory of one process.*use sqlite:///"):
            app.run()
    assert [] == list(tmp_path.iterdir())


def test_a_closed_application_says_so(tmp_path):
    app = duly.App("memory:")
    with app:
        app.status()
    app.close()

    with pytest.raises(StoreUnavailable, match="has been closed"):
        app.status()


def test_threads_that_come_together_open_one_store():
    app = duly.App("memory:")
    gate = threading.Barrier(8)
    found = []

    def look() -> None:
        gate.wait()
        found.append(app.store)

    threads = [threading.Thread(target=look) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)

    assert [app.store] * 8 == found


def test_a_promise_outlives_the_program(tmp_path):
    url = f"sqlite:///{tmp_path}/duly.db"
    with duly.App(url) as app:
        report = app.task(name="report")(lambda: None)
        promised = app.enqueue(report, delay="24h", key="k")
        app.schedules.create("hourly", report, every("1h"))

    with duly.App(url) as again:
        assert promised.id == again.delayed.get("k").id
        assert ["hourly"] == [one.name for one in again.schedules.list()]


def test_what_is_ordered_in_a_transaction_commits_with_it(app, tasks):
    with app.transaction() as tx:
        promised = app.enqueue(tasks.remind.bind(1), delay="1h", connection=tx)
        app.enqueue_many([tasks.report] * 2, connection=tx)
        app.schedules.create("hourly", tasks.report, every("1h"), connection=tx)

    assert [promised.id] == [one.id for one in app.delayed.list()]
    assert (2, 1) == (len(app.runs.list()), len(app.schedules.list()))


def test_nothing_is_ordered_when_the_transaction_fails(app, tasks):
    def order() -> None:
        with app.transaction() as tx:
            app.enqueue(tasks.remind.bind(1), delay="1h", connection=tx)
            app.schedules.create("hourly", tasks.report, every("1h"), connection=tx)
            raise KeyError("the caller's own trouble")

    refused(app, KeyError, order)


def test_the_callers_own_rows_and_the_promise_commit_together(tmp_path, clock):
    app = duly.App(store=SqliteStore(tmp_path / "duly.db", clock), clock=clock)
    ship = app.task(name="ship")(lambda: None)
    with app.transaction() as tx:
        tx.execute("create table orders (id integer primary key)")

    def order() -> None:
        with app.transaction() as tx:
            tx.execute("insert into orders values (?)", (7,))
            app.enqueue(ship, delay="1h", key="order:7", connection=tx)
            app.enqueue(ship, delay="2h", key="order:7", connection=tx)

    refused(app, Conflict, order)
    with app.transaction() as tx:
        rows = tx.execute("select count(*) from orders")

    assert [(0,)] == rows
    assert [] == app.delayed.list()
    app.close()


def test_a_transaction_that_is_over_can_not_be_joined(app, tasks):
    with app.transaction() as tx:
        pass

    assert "is not a connection that Duly lent" in refused(
        app, UsageError, lambda: app.enqueue(tasks.report, connection=tx)
    )


def test_a_connection_of_another_application_can_not_be_joined(app, tasks):
    with duly.App("memory:").transaction() as tx:
        assert "is not a connection that Duly lent" in refused(
            app, UsageError, lambda: app.enqueue(tasks.report, connection=tx)
        )


def test_a_transaction_is_short(app, tasks, clock):
    def order() -> None:
        with app.transaction(limit="200ms") as tx:
            app.enqueue(tasks.report, connection=tx)
            clock.advance("1s")

    refused(app, StoreUnavailable, order)
    assert "limit" in refused(app, UsageError, lambda: app.transaction("soon").__enter__())


def test_the_same_surface_can_be_awaited(app, tasks):
    async def order() -> list[str]:
        await app.aio.enqueue(tasks.remind.bind(1), delay="1h", key="k")
        await app.aio.schedules.create("hourly", tasks.report, every("1h"))
        await app.aio.cancel("k")
        return [one.name for one in await app.aio.schedules.list()]

    assert ["hourly"] == asyncio.run(order())
    assert ["cancelled"] == [run.state for run in app.runs.list()]


def test_an_awaited_order_is_refused_like_any_other(app, tasks):
    async def order() -> None:
        await app.aio.schedules.get("unknown")

    refused(app, duly.NotFound, lambda: asyncio.run(order()))
    assert "can't be awaited" in refused(app, UsageError, lambda: app.aio.dispatcher)


def test_a_transaction_can_be_awaited(app, tasks):
    """All of it happens on one thread, which is another one than the event loop's."""

    async def order() -> UUID:
        async with app.aio.transaction() as tx:
            promised = await app.aio.enqueue(tasks.remind.bind(1), delay="1h", connection=tx)
            await app.aio.enqueue_many([tasks.report] * 2, connection=tx)
            await app.aio.schedules.create("hourly", tasks.report, every("1h"), connection=tx)
        found: UUID = promised.id
        return found

    promised = asyncio.run(order())

    assert [promised] == [one.id for one in app.delayed.list()]
    assert (2, 1) == (len(app.runs.list()), len(app.schedules.list()))


def test_nothing_is_ordered_when_an_awaited_transaction_fails(app, tasks):
    async def order(limit: str = "1s") -> None:
        async with app.aio.transaction(limit) as tx:
            await app.aio.enqueue(tasks.remind.bind(1), delay="1h", connection=tx)
            raise KeyError("the caller's own trouble")

    refused(app, KeyError, lambda: asyncio.run(order()))
    assert "limit" in refused(app, UsageError, lambda: asyncio.run(order("soon")))


def test_an_awaited_transaction_that_is_over_can_not_be_joined(app, tasks):
    async def order() -> None:
        async with app.aio.transaction() as tx:
            pass
        await app.aio.enqueue(tasks.report, connection=tx)

    assert "is not a connection that Duly lent" in refused(
        app, UsageError, lambda: asyncio.run(order())
    )
    assert "is not a connection that Duly lent" in refused(
        app, UsageError, lambda: app.enqueue(tasks.report, connection=app.aio.transaction())
    )


def test_who_is_cancelled_in_an_awaited_transaction_has_ordered_nothing(app, tasks):
    async def order() -> None:
        entered = asyncio.Event()

        async def wait() -> None:
            async with app.aio.transaction() as tx:
                await app.aio.enqueue(tasks.remind.bind(1), delay="1h", connection=tx)
                entered.set()
                await asyncio.Event().wait()

        waiting = asyncio.create_task(wait())
        await entered.wait()
        waiting.cancel()
        await waiting

    refused(app, asyncio.CancelledError, lambda: asyncio.run(order()))


def test_who_is_cancelled_while_a_transaction_begins_leaves_none_open(app, tasks):
    async def order() -> None:
        async with app.aio.transaction():
            raise AssertionError("it was cancelled before")

    async def cancelled() -> None:
        beginning = asyncio.create_task(order())
        await asyncio.wait({beginning}, timeout=0)
        beginning.cancel()
        await beginning

    refused(app, asyncio.CancelledError, lambda: asyncio.run(cancelled()))
    with app.transaction() as tx:
        app.enqueue(tasks.report, connection=tx)

    assert 1 == len(app.runs.list())


def test_a_connection_of_the_callers_own_is_joined_on_postgresql_alone(app, tasks):
    async def order() -> None:
        await app.aio.enqueue(tasks.report, connection=object())

    assert "<object object" in refused(app, UsageError, lambda: asyncio.run(order()))


def test_the_schema_can_be_looked_at_and_checked(app):
    before = everything(app)

    assert app.schema_status().is_usable
    assert [] == app.migrate() == app.check()
    assert before == everything(app)


@pytest.mark.parametrize(
    "wrong",
    [{"payload_bytes_max": 0}, {"listed_max": True}, {"transaction_limit": timedelta(0)}],
)
def test_a_setting_that_limits_everything_is_refused_by_name(wrong):
    with pytest.raises(UsageError, match=next(iter(wrong))):
        duly.Settings(**wrong)


@pytest.mark.parametrize("actor", ["", "a\nb", "x" * 201, 42])
def test_whoever_orders_has_a_name_that_can_be_shown(actor):
    with pytest.raises(UsageError, match="actor"):
        duly.App("memory:", actor=actor)


def test_a_worker_is_made_but_not_started(app, tasks):
    worker = app.worker(WorkerOptions(slots=2, queues=["mail=1"]))
    try:
        assert (None, 0, False) == (worker.member, worker.running, worker.is_over)
        assert () == app.status().workers
    finally:
        worker.stop()


def test_a_worker_that_nobody_could_want_is_refused(app):
    for options in ({"slots": 0}, {"queues": "mail"}, {"grace": "soon"}, {"processes": 0}):
        assert refused(app, UsageError, lambda: app.run(**options))  # noqa: B023


def test_a_worker_is_seen_in_the_status(app, clock, tasks):
    executors = dict.fromkeys(TaskKind, InlineExecutor())
    worker = Worker(app.store, clock, app.catalogue(), executors, WorkerSettings(slots=3))
    worker.tick()
    (seen,) = app.status().workers
    worker.stop()

    assert ("worker", 3, 0, 0) == (seen.kind, seen.slots, seen.leaked, seen.running)
    assert {"slots": 3, "queues": []}.items() <= seen.to_json().items()
