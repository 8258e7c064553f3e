"""A watcher that dies, is paused, replaced or cut off: no alert twice, none lost."""

from __future__ import annotations

import threading
from contextlib import closing, suppress
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from duly.domain.alert_rules import AlertKind
from duly.engine.alerts.channels import DeliveryResult
from duly.engine.alerts.delivery import AlertDeliverer
from duly.engine.alerts.schedule_detectors import ScheduleDetector
from duly.engine.alerts.watcher import usual_detectors
from duly.engine.manual_clock import ManualClock
from duly.errors import StoreUnavailable
from duly.store.ports.alerts import (
    WATCH_TTL_US,
    AlertFilter,
    AlertSettingKind,
    RemoveTerm,
    RenewWatcherLease,
    SetAlertSetting,
)
from duly.store.ports.auth import KeepsTenants
from duly.store.sqlite import SqliteStore
from duly.telemetry import DeliveryFailed, DetectorFailed, WatchLost, WatchTaken
from duly.timetable.interval import every
from duly_conformance import steps
from duly_conformance.kit import ADA, HOUR_US
from tests.engine.alerts.alert_rig import GuardRoom, raw_sqlite
from tests.engine.rig import SECOND, Rig

if TYPE_CHECKING:
    from duly.domain.alerts import DetectorResult

LIMIT_SECONDS = 120
BUSY = DeliveryResult(is_done=False, detail="busy")


class PowerCutError(Exception):
    """The process is gone."""


class Cutting:
    """A store that dies, with whoever asks, at one of its calls: before it, or after it."""

    def __init__(self, store, call: str, *, is_after: bool) -> None:
        self._store = store
        self._call = call
        self._is_after = is_after

    def __getattr__(self, name):
        method = getattr(self._store, name)
        if name != self._call:
            return method

        def cut(*arguments, **named):
            if self._is_after:
                method(*arguments, **named)
            raise PowerCutError

        return cut


def in_trouble(stored) -> None:
    """Queue a run that nobody will run."""
    steps.queue(stored[0], queue="mail")


CALLS = ("hold_watch", "load_watched", "status", "find_trouble", "apply_alerts")
SENT = ("load_deliveries", "list_alert_terms", "settle_delivery")


@pytest.mark.parametrize("is_after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("call", [*CALLS, *SENT])
def test_whoever_takes_over_raises_it_once_and_delivers_it(stored, call, is_after):
    """At whichever call the one before has died."""
    in_trouble(stored)
    first = GuardRoom(*stored)
    first.look(4)
    cut = GuardRoom(Cutting(stored[0], call, is_after=is_after), stored[1], first.holder)
    for _ in range(8):
        stored[1].advance("15s")
        with suppress(PowerCutError):
            cut.watcher.tick()
            cut.courier.tick()
    heir = GuardRoom(stored[0], stored[1], b"h" * 16)
    heir.look(12)

    told = first.channel.told + cut.channel.told + heir.channel.told
    notices = first.channel.notices + cut.channel.notices + heir.channel.notices
    assert ["queue mail"] == heir.subjects("no-executions")
    assert 1 == len(heir.alerts("no-executions", is_open=False))
    assert {("raised", "no-executions", "queue mail")} == {
        one for one in told if one[1] == "no-executions"
    }
    of_it = {one.id for one in notices if one.kind == "no-executions"}
    assert 1 == len(of_it)
    assert ["alert.raised"] == [
        one.action for one in steps.audit(stored[0]) if one.subject.startswith("no-executions")
    ]


@pytest.mark.parametrize("stored", ["sqlite", "postgres"], indirect=True)
def test_who_was_paused_and_replaced_changes_nothing(stored):
    """Its alert is refused whole, and it asks for the watch again."""
    store, clock = stored
    one, other = GuardRoom(*stored), GuardRoom(stored[0], stored[1], b"o" * 16)
    one.look()
    stale, held_at = one.watcher.fence, store.now()
    assert stale is not None
    clock.advance(WATCH_TTL_US)
    other.look()
    in_trouble(stored)
    clock.advance("2m")
    one.watcher.fence = stale
    # It was paused between its two orders.
    one.watcher._look(stale, held_at, is_whole=True)  # noqa: SLF001 - as above

    assert [] == store.list_alerts(AlertFilter())
    assert one.watcher.fence is None
    assert [stale.epoch] == [event.epoch for event in one.recorder.of(WatchLost)]
    assert (1, 1) == (len(one.recorder.of(WatchTaken)), len(other.recorder.of(WatchTaken)))
    other.look(6)
    assert ["queue mail"] == other.subjects("no-executions")


def test_one_watches_and_the_others_ask(stored):
    """Who stops in good order is followed at once."""
    one, other = GuardRoom(*stored), GuardRoom(stored[0], stored[1], b"o" * 16)
    one.look()
    other.look()
    before = (one.watcher.fence, other.watcher.fence)
    one.watcher.stop()
    other.look()

    assert before[1] is None
    assert one.watcher.fence is None
    assert [1, 2] == [
        fence.epoch for fence in (before[0], other.watcher.fence) if fence is not None
    ]


def test_a_silence_is_kept_and_ends_by_itself(guard):
    """On record, told to nobody, and told when it is over."""
    guard.look()
    guard.silence("deploy", HOUR_US, subject="queue *")
    in_trouble((guard.store, guard.clock))
    guard.look(12)
    silenced = (guard.subjects("no-executions"), guard.channel.told)
    guard.look(1, after="1h")

    assert (["queue mail"], []) == silenced
    assert [("raised", "queue mail")] == guard.told("no-executions")
    guard.look(4)
    assert [("raised", "queue mail")] == guard.told("no-executions")


def test_a_delivery_that_failed_is_tried_again_under_its_id(guard):
    """By whoever delivers then, until it is taken."""
    in_trouble((guard.store, guard.clock))
    guard.channel.answers = [BUSY, RuntimeError("a defect of the channel")]
    guard.look(10)
    heir = GuardRoom(guard.store, guard.clock, b"h" * 16, channel=guard.channel)
    guard.watcher.stop()
    heir.look(4)

    first, *others = [one for one in guard.channel.notices if one.kind == "no-executions"]
    assert 2 == len(others)
    assert {first.id} == {one.id for one in others}
    failed = guard.recorder.of(DeliveryFailed)
    assert [(1, False), (2, False)] == [(one.tries, one.is_given_up) for one in failed]
    assert "a defect of the channel" in failed[1].problem


def raise_untold(guard) -> None:
    """Look until an alert is raised, and deliver nothing."""
    while not guard.alerts("no-executions"):
        guard.clock.advance("15s")
        guard.watcher.tick()


def test_who_was_held_up_sends_nothing_under_a_watch_that_is_over(stored):
    """By its own count; another may have sent it meanwhile."""
    in_trouble(stored)
    guard = GuardRoom(*stored)
    raise_untold(guard)
    guard.clock.advance(WATCH_TTL_US)
    guard.courier.tick()
    late = list(guard.channel.told)
    guard.look()

    assert [] == late
    assert [("raised", "queue mail")] == guard.told("no-executions")


@pytest.mark.parametrize("how", [False, RuntimeError("a defect"), StoreUnavailable("x", "is", "y")])
def test_what_can_not_be_settled_is_not_sent_over_and_over(stored, how):
    """Who is woken at once waits all the same, longer each time."""
    in_trouble(stored)
    guard = GuardRoom(*stored)
    raise_untold(guard)

    class Unsettled:
        def __getattr__(self, name):
            return getattr(stored[0], name)

        def settle_delivery(self, _command):
            if how:
                raise how
            return False

    store: Any = Unsettled()
    courier = AlertDeliverer(store, guard.clock, lambda _: guard.channel)
    courier.fence = guard.watcher.fence_in_time
    for _ in range(5):
        with suppress(RuntimeError):
            courier.tick()

    assert [("raised", "queue mail")] == guard.told("no-executions")


def test_a_channel_that_asks_for_a_pause_gets_it(guard):
    in_trouble((guard.store, guard.clock))
    wait = timedelta(minutes=10)
    guard.channel.answers = [DeliveryResult(is_done=False, detail="slow", retry_after=wait)]
    guard.look(12)
    first = len(guard.told("no-executions"))
    guard.look(1, after="10m")

    assert (1, 2) == (first, len(guard.told("no-executions")))


def test_a_delivery_of_no_use_is_given_up_on_record(guard):
    in_trouble((guard.store, guard.clock))
    guard.channel.answers = [DeliveryResult(is_done=False, is_final=True, detail="no such address")]
    guard.look(60)

    (entry,) = steps.audit(guard.store, action="alert.undelivered")
    assert entry.after is not None
    assert ("log", "no such address") == (entry.after["channel"], entry.after["error"])
    assert 1 == len(guard.told("no-executions"))


def test_a_channel_that_is_gone_ends_its_deliveries(guard):
    """What was to go there goes nowhere, and that is on record."""
    said = SetAlertSetting(
        sort=AlertSettingKind.CHANNEL, name="ops", terms={"kind": "log", "options": {}}, actor=ADA
    )
    guard.store.set_alert_term(said)
    in_trouble((guard.store, guard.clock))
    guard.rule("no-executions", channels=["ops"])
    guard.channel.answers = [BUSY] * 20
    guard.look(7)
    told_to = guard.alerts("no-executions")[0].told_to
    guard.store.remove_alert_term(RemoveTerm(sort=AlertSettingKind.CHANNEL, name="ops", actor=ADA))
    guard.look(4)

    (entry,) = steps.audit(guard.store, action="alert.undelivered")
    assert entry.after is not None
    assert (("ops",), "there is no such channel") == (told_to, entry.after["error"])


class Blind:
    """An observer that always fails."""

    def observe(self, asked):
        raise ValueError("no index")


def test_an_observer_that_fails_blinds_nobody_else_and_resolves_nothing(stored):
    in_trouble(stored)
    guard = GuardRoom(stored[0], stored[1], detectors=(Blind(), *usual_detectors()))
    guard.look(8)
    raised = guard.subjects("no-executions")
    blind = GuardRoom(stored[0], stored[1], guard.holder, detectors=(Blind(),))
    blind.look(8)

    assert (["queue mail"], ["queue mail"]) == (raised, blind.subjects("no-executions"))
    assert ("Blind", "ValueError('no index')") == (
        blind.recorder.of(DetectorFailed)[0].observer,
        blind.recorder.of(DetectorFailed)[0].problem,
    )


class Broken:
    """A store of which one who can't read it finds out only by looking."""

    def __init__(self, store) -> None:
        self._store = store

    def __getattr__(self, name):
        if name == "load_watched":
            raise ValueError("a kind that nobody here knows")
        return getattr(self._store, name)


def test_who_can_not_look_leaves_the_watch_to_others(stored):
    """A program with a defect, or of an older release, does not keep it and see nothing."""
    in_trouble(stored)
    broken = GuardRoom(Broken(stored[0]), stored[1], b"b" * 16)
    stored[1].advance("15s")
    with pytest.raises(ValueError, match="nobody here"):
        broken.watcher.tick()
    other = GuardRoom(*stored)
    for _ in range(10):
        broken.watcher.tick()
        other.look()

    assert broken.watcher.fence is None
    assert [("raised", "queue mail")] == other.told("no-executions")


def test_an_alert_of_a_kind_of_a_newer_program_is_left_alone(stored):
    """An older one looks after the others, and the newer one finds its own as it left it."""
    store, _ = stored
    in_trouble(stored)
    guard = GuardRoom(*stored)
    guard.look(8)
    (alert,) = guard.alerts("no-executions")
    raw(store, "UPDATE {} SET kind = 'from-the-future'")
    guard.look(8)
    found = raw(store, "SELECT state FROM {} WHERE kind = 'from-the-future' ORDER BY state")

    assert (None, 1) == (store.get_alert(alert.id), len(guard.alerts("no-executions")))
    assert [("open",)] == found


def test_what_is_to_be_told_of_such_a_kind_waits_and_holds_up_nobody(stored):
    """However much there is of it, nobody asks for it again and again."""
    store, clock = stored
    in_trouble(stored)
    guard = GuardRoom(*stored)
    for _ in range(8):
        clock.advance("15s")
        guard.watcher.tick()
    before = store.load_deliveries(1)
    raw(store, "UPDATE {} SET kind = 'from-the-future'")
    after = store.load_deliveries(1)

    assert (1, before.now) == (len(before.due), before.next_at)
    assert ((), None) == (after.due, after.next_at)


def raw(store, statement: str) -> list[Any]:
    """Do something to the table of alerts, or look at it, as only another program would."""
    if isinstance(store, SqliteStore):
        with raw_sqlite(store) as connection:
            return connection.execute(statement.format("duly_alerts")).fetchall()
    with psycopg.connect(store.url, autocommit=True) as line:
        cursor = line.execute(statement.format("duly.alerts").encode())
        return cursor.fetchall() if cursor.description else []


def test_what_goes_to_a_channel_of_a_newer_program_waits_for_it(guard):
    """It is neither given up nor left out."""
    terms = {"kind": "carrier-pigeon", "options": {}}
    said = SetAlertSetting(sort=AlertSettingKind.CHANNEL, name="ops", terms=terms, actor=ADA)
    guard.store.set_alert_term(said)
    in_trouble((guard.store, guard.clock))
    guard.look(12)
    (alert,) = guard.alerts("no-executions")
    waiting = {one.channel: str(one.state) for one in guard.store.list_deliveries(alert.id)}
    guard.store.set_alert_term(replace(said, terms={"kind": "log", "options": {}}))
    guard.look(30)
    after = {one.channel: str(one.state) for one in guard.store.list_deliveries(alert.id)}

    assert {"log": "done", "ops": "pending"} == waiting
    assert {"log": "done", "ops": "done"} == after


class Away:
    """A store that can't be reached for a while."""

    def __init__(self, store) -> None:
        self.store = store
        self.is_away = False

    def __getattr__(self, name):
        if self.is_away:
            raise StoreUnavailable("memory", "is away", "wait")
        return getattr(self.store, name)


def test_a_store_that_is_away_raises_and_resolves_nothing(stored_in_memory):
    """Nothing is known then; afterwards it goes on."""
    store, clock = stored_in_memory
    away = Away(store)
    in_trouble((away, clock))
    guard = GuardRoom(away, clock)
    guard.look(8)
    away.is_away = True
    wake_at = guard.watcher.tick()
    guard.look(20)
    away.is_away = False
    guard.look(2)

    assert clock.monotonic_us() > wake_at
    assert [("raised", "queue mail")] == guard.told("no-executions")


def test_schedules_are_looked_at_page_by_page_and_suspects_each_time(stored):
    """A look costs the same however many there are."""
    store, clock = stored
    for number in range(7):
        steps.create(store, f"s{number}")
    observer = ScheduleDetector(page=2, most=3)
    guard = GuardRoom(store, clock, detectors=(observer,))
    seen: list[set[str]] = []

    class Looking:
        def observe(self, asked):
            found = observer.observe(asked)
            seen.append({key.subject for key in found.keys})
            return found

    guard = GuardRoom(store, clock, detectors=(Looking(),))
    guard.look(4)

    names = [f"schedule s{number}" for number in range(7)]
    assert [set(names[:3]), set(names[3:6]), {names[6]}, set(names[:3])] == seen


def test_an_idle_store_is_not_written_to_but_for_the_watch(stored_in_memory):
    """No row is written by a look that finds nothing, and few statements are asked."""
    store, clock = stored_in_memory
    asked: list[str] = []

    class Counting:
        def __getattr__(self, name):
            asked.append(name)
            return getattr(store, name)

    guard = GuardRoom(Counting(), clock)
    guard.look()
    before = len(steps.audit(store))
    asked.clear()
    guard.look()

    writes = {"hold_watch", "apply_alerts", "settle_delivery"} & set(asked)
    assert ({"hold_watch"}, before) == (writes, len(steps.audit(store)))
    assert len(asked) <= 10


def test_every_kind_is_covered_by_an_observer(stored):
    """In a store where all is well, each kind is looked at or has its own subjects."""
    guard = GuardRoom(*stored)
    kinds: set[AlertKind] = set()
    steps.create(stored[0], "nightly")
    steps.pause(stored[0], steps.create(stored[0], "resting"))
    real = guard.watcher._observe  # noqa: SLF001 - what it has seen is what is asked about

    def noted(watched, *, is_whole):
        found: DetectorResult = real(watched, is_whole=is_whole)
        kinds.update(found.kinds, {key.kind for key in found.keys})
        return found

    guard.watcher._observe = noted  # type: ignore[method-assign] # noqa: SLF001 - as above
    in_trouble(stored)
    guard.look(8)

    assert set(AlertKind) == kinds


class Stuck:
    """A channel that takes a notice and does not come back until it is let go."""

    def __init__(self) -> None:
        self.is_asked = threading.Event()
        self.go_on = threading.Event()

    def deliver(self, _notice):
        self.is_asked.set()
        self.go_on.wait(LIMIT_SECONDS)
        return DeliveryResult(is_done=True)


def test_a_channel_that_hangs_keeps_nobody_from_firing_or_watching():
    """Whoever delivers has a thread of its own, and holds nothing meanwhile."""
    rig = Rig()
    rig.dispatcher()
    record = rig.schedule("minutely", timetable=every("1m"))
    in_trouble((rig.store, rig.store_clock))
    stuck: Any = Stuck()
    guard = GuardRoom(rig.store, rig.store_clock, channel=stuck)
    for _ in range(8):
        rig.run(15 * SECOND)
        guard.watcher.tick()
    sending = threading.Thread(target=guard.courier.tick)
    sending.start()
    assert stuck.is_asked.wait(LIMIT_SECONDS)
    before = len(rig.runs(record))
    for _ in range(8):
        rig.run(15 * SECOND)
        guard.watcher.tick()
    fired = len(rig.runs(record)) - before
    stuck.go_on.set()
    sending.join(LIMIT_SECONDS)

    assert (2, []) == (fired, guard.alerts("late-run"))
    (alert,) = [one for one in guard.alerts("no-executions") if one.subject == "queue mail"]
    assert ["done"] == [str(one.state) for one in rig.store.list_deliveries(alert.id)]


class Held(SqliteStore, KeepsTenants):
    """A store that shows whoever asks one tenant's rows."""

    is_held = True


def test_who_is_shown_one_tenants_does_not_watch():
    """It would find that all is well, and resolve what is not."""
    clock = ManualClock()
    with closing(Held(":memory:", clock)) as held:
        store: Any = held
        in_trouble((store, clock))
        guard = GuardRoom(store, clock)
        guard.look(12)

        assert (None, []) == (guard.watcher.fence, guard.alerts())
        assert store.hold_watch(RenewWatcherLease(holder=b"x" * 16, name="x")).is_held
