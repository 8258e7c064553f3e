"""What docs/runbooks/restored-from-a-backup.md says of a restored store is what happens."""

from __future__ import annotations

import shutil
from datetime import timedelta

import pytest

import duly
from duly.app import App
from duly.domain.enums import TaskKind
from duly.engine.dispatcher.dispatcher import Dispatcher
from duly.engine.dispatcher.settings import DispatcherSettings
from duly.engine.manual_clock import ManualClock
from duly.engine.worker import Worker, WorkerSettings
from duly.store.sqlite import SqliteStore
from duly.testing import InlineExecutor
from duly.timetable.instants import DAY, SECOND_US

WARM_UP_S = 10
ROUNDS = 5
LONG_US = 365 * DAY * SECOND_US


class Installation:
    """An application on a SQLite file, with a dispatcher and a worker that are ticked by hand."""

    def __init__(self, path, clock, done):
        self.clock = clock
        self.since: list[str] = []
        """What was done after the backup was taken."""
        self.app = App(store=SqliteStore(path, clock=clock), clock=clock)

        @self.app.task
        def close(run: duly.Run) -> None:
            done.append(run.idempotency_key)

        self.close = close

    def live(self, hours):
        """Let time pass in steps of ten minutes, and run what falls due."""
        store = self.app.store
        leases = DispatcherSettings(ttl_us=LONG_US, renew_every_us=LONG_US // 4)
        dispatcher = Dispatcher(store, self.clock, leases)
        executors = dict.fromkeys(TaskKind, InlineExecutor())
        settings = WorkerSettings(ttl_us=LONG_US, beat_every_us=LONG_US // 4, talk_every_us=0)
        worker = Worker(store, self.clock, self.app.catalogue(), executors, settings)
        for _ in range(WARM_UP_S):
            dispatcher.tick()
            self.clock.advance("1s")
        for _ in range(hours * 6):
            self.clock.advance("10m")
            for _ in range(ROUNDS):
                dispatcher.tick()
                worker.tick()
        worker.stop()
        dispatcher.stop()


@pytest.fixture
def restored(tmp_path):
    """A store as it was two hours after its beginning, three hours later; and what was done."""
    clock = ManualClock()
    done: list[str] = []
    first = Installation(tmp_path / "promises.db", clock, done)
    first.app.migrate()
    first.app.schedules.create(
        "hourly", first.close, duly.every("1h"), misfire="all", overlap="queue-all"
    )
    first.app.enqueue(first.close, delay="3h30m", key="reminder")
    first.live(2)
    first.app.close()
    shutil.copy(tmp_path / "promises.db", tmp_path / "backup.db")

    going_on = Installation(tmp_path / "promises.db", clock, done)
    before = len(done)
    going_on.live(3)
    going_on.app.close()

    second = Installation(tmp_path / "backup.db", clock, done)
    second.since = done[before:]
    done.clear()
    yield second, done
    second.app.close()


def test_what_was_done_since_the_backup_is_done_again_under_the_same_keys(restored):
    """Whoever honours the key notices."""
    installation, done = restored
    installation.live(1)

    assert 4 == len(installation.since)
    assert set(installation.since) <= set(done)
    assert len(done) == len(set(done))


def test_a_schedule_resumed_with_skip_repeats_nothing_of_that_time(restored):
    """Each of those occurrences has its record."""
    installation, done = restored
    app = installation.app
    app.schedules.pause("hourly", reason="restored: decide first")
    app.cancel("reminder", reason="was done")
    app.schedules.resume("hourly", missed="skip", reason="all of it was done")
    installation.live(1)

    assert not set(installation.since) & set(done)
    assert len(done) == 1
    now = installation.clock.now()
    told = app.schedules.occurrences("hourly", now - timedelta(hours=7), now)
    assert ["run"] * 2 + ["skipped"] * 3 + ["run"] == [one.verdict for one in told]


def test_a_schedule_resumed_by_its_misfire_policy_makes_up_for_that_time(restored):
    installation, done = restored
    app = installation.app
    app.schedules.pause("hourly", reason="restored: decide first")
    app.schedules.resume("hourly", missed="misfire", reason="nothing was done")
    installation.live(1)

    assert set(installation.since) <= set(done)
    assert len(done) == len(set(done))
