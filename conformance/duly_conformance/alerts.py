"""What every store must do about alerts, their deliveries, rules and silences."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from duly.domain.alert_rules import AlertKind, Rulebook, read_rule
from duly.domain.alerts import (
    AlertPolicy,
    AlertState,
    AlertTransition,
    Condition,
    DeliveryOutcome,
    DeliveryState,
    DetectorResult,
    NoticeKind,
    Silence,
    decide,
    delivery_id,
)
from duly.domain.audit import Actor
from duly.domain.ids import ordered_run_id
from duly.domain.outcomes import Failed
from duly.domain.runs import TaskPolicy
from duly.errors import Conflict, NotFound, Outdated
from duly.store.ports.alerts import (
    ALERTS_KEPT_US,
    UNSAID,
    WATCH_TTL_US,
    AcknowledgeAlert,
    AlertFilter,
    AlertSettingKind,
    ApplyAlerts,
    FindTrouble,
    RemoveTerm,
    RenewWatcherLease,
    SetAlertSetting,
    SettleDelivery,
    WatcherFence,
)
from duly.store.ports.execution import Report
from duly.store.ports.maintenance import Prune, PruneKind, Retention
from duly_conformance import kit, steps
from duly_conformance.kit import MINUTE_US, SECOND_US
from duly_conformance.steps import maintain

if TYPE_CHECKING:
    from duly.domain.alerts import AlertChange, AlertRecord
    from duly.engine.manual_clock import ManualClock
    from duly.store.ports import Store
    from duly.store.ports.alerts import UnusualRuns, Watch


WINDOW_US = 15 * MINUTE_US
STALL_US = 30 * SECOND_US


def find(store: Store, **parts: Any) -> UnusualRuns:
    """Look for trouble."""
    windows = dict.fromkeys(("died_us", "early_us", "made_us"), WINDOW_US)
    return store.find_trouble(FindTrouble(**{**windows, **parts}))


def order(store: Store, due_at: int | None) -> None:
    """Ask for a run under an id that begins with the time, as those that are drawn do."""
    identity = ordered_run_id("once", store.now(), str(due_at).encode())
    new = replace(kit.new_run(due_at), id=identity)
    store.add_runs(kit.add_runs(new))


class FindingTrouble:
    """What is promised about looking for trouble."""

    def test_a_store_where_all_is_well_has_no_trouble(
        self, store: Store, clock: ManualClock
    ) -> None:
        """Runs that go on, wait for their first retry or are over are no trouble."""
        steps.make_waiting(store)
        steps.queue_and_take(store, "b")

        found = find(store, made_us=0)

        assert ((), (), (), 0, None) == (
            found.stalled,
            found.tried,
            found.dead,
            found.early,
            found.early_run,
        )
        assert clock.now_us() == found.now

    def test_an_attempt_that_does_not_advance_is_found(
        self, store: Store, clock: ManualClock
    ) -> None:
        """By its task's limit, from its last progress on; with whose it is."""
        store.register_policies(
            {"remind": TaskPolicy(stall_us=STALL_US), "other": TaskPolicy(stall_us=None)}
        )
        worker, claimed = steps.queue_and_take(store, tenant="acme", queue="mail")
        rival, other = steps.queue_and_take(store, "b", task="other")
        store.report(worker, [Report(hold=claimed.hold, started_at=clock.now_us())])
        store.report(rival, [Report(hold=other.hold, started_at=clock.now_us())])
        clock.advance(STALL_US)
        in_time = find(store).stalled
        clock.advance(1)

        (late,) = find(store).stalled

        assert () == in_time
        assert (claimed.record.id, "acme", "remind", "mail", None, worker, 1, STALL_US) == (
            late.id,
            late.tenant,
            late.task,
            late.queue,
            late.schedule,
            late.worker,
            late.attempt,
            late.stall_us,
        )
        assert clock.now_us() - STALL_US - 1 == late.since

    def test_a_run_that_was_tried_several_times_is_found(
        self, store: Store, clock: ManualClock
    ) -> None:
        """While it waits and while it is tried again, with how often."""
        begun = clock.now_us()
        run_id = steps.make_waiting(store)
        seen = [find(store).tried]
        for _ in range(2):
            steps.fire_retries(store, clock)
            worker = steps.join_worker(store)
            claimed = steps.take_one(store, worker)
            seen.append(find(store).tried)
            failed = Failed("try again", after_us=SECOND_US)
            steps.end(store, worker, claimed, failed)
            seen.append(find(store).tried)

        assert [[], [], [2], [3], [3]] == [[one.attempt for one in each] for each in seen]
        assert {(run_id, begun)} == {(one.id, one.since) for each in seen for one in each}

    def test_dead_letters_are_counted_by_task_for_a_while(
        self, store: Store, clock: ManualClock
    ) -> None:
        """When the first of them died, and the newest of their runs."""
        first_at = clock.now_us()
        dead = [steps.make_dead(store, "a", tenant="acme")]
        clock.advance(SECOND_US)
        dead += [steps.make_dead(store, name, tenant="acme") for name in "bc"]
        steps.make_dead(store, "d", task="other")

        counts = {(one.tenant, one.task): one for one in find(store).dead}

        assert {("acme", "remind"): 3, ("default", "other"): 1} == {
            key: one.died for key, one in counts.items()
        }
        acme = counts["acme", "remind"]
        assert (first_at, max(dead)) == (acme.first_at, acme.last)
        clock.advance(WINDOW_US - SECOND_US)
        assert {2, 1} == {one.died for one in find(store).dead}
        clock.advance(SECOND_US)
        assert () == find(store).dead

    def test_what_people_and_programs_ask_for_is_counted(
        self, store: Store, clock: ManualClock
    ) -> None:
        """Schedules, delayed runs and runs at once; not what a schedule makes of itself."""
        record = steps.create(store)
        order(store, clock.now_us() + WINDOW_US)
        order(store, None)
        made = find(store).made
        steps.fire_due(store, clock, record)

        assert 3 == made
        assert 0 == find(store).made

    def test_no_more_is_told_than_was_asked_for(self, store: Store) -> None:
        """The cost has a bound."""
        for name in "abc":
            steps.make_dead(store, name, task=name)
            steps.create(store, name)

        assert 2 == len(find(store, limit=2).dead)
        assert 2 == find(store, count_max=2).made


PERSON = Actor("anna", "library", "because")
OURS, THEIRS = b"o" * 16, b"t" * 16
EVERYTHING = frozenset(AlertKind)
CHANNELS = ("log", "mail")


def hold(store: Store, holder: bytes = OURS, **parts: Any) -> Watch:
    """Ask for the watch."""
    return store.hold_watch(RenewWatcherLease(holder=holder, name=holder.decode(), **parts))


def watch(store: Store, holder: bytes = OURS) -> WatcherFence:
    """Take the watch."""
    held = hold(store, holder)
    assert held.is_held
    return WatcherFence(holder, held.epoch)


def condition(subject: str = "queue mail", **parts: Any) -> Condition:
    """Return something that is wrong."""
    given: dict[str, Any] = {
        "kind": AlertKind.QUEUE_AGE,
        "subject": subject,
        "value": 10_000,
        "since": 5,
        "summary": f"{subject} waits",
        "remedy": "duly queue list",
        "evidence": {"queued": 3, "names": ["a", "ß"]},
        "labels": {"queue": "mail"},
    }
    return Condition(**given | parts)


def decided(
    store: Store, *conditions: Condition, silences: tuple[Silence, ...] = (), **rule: Any
) -> list[AlertChange]:
    """Decide by what the store has, with no waits unless told."""
    watched = store.load_watched()
    terms = {"hold_for": "0s", "clear_for": "0s"} | rule
    rules = Rulebook([read_rule(str(kind), terms) for kind in AlertKind])
    standards = AlertPolicy(rules=rules, silences=silences, channels=CHANNELS)
    seen = DetectorResult(conditions=conditions, kinds=EVERYTHING)
    return decide(watched.alerts, seen, standards, watched.now)


def look(
    store: Store, fence: WatcherFence, *conditions: Condition, **parts: Any
) -> list[AlertTransition]:
    """Decide, and write what was decided; return the steps."""
    held_at = hold(store, fence.holder).now
    changes = decided(store, *conditions, **parts)
    assert store.apply_alerts(ApplyAlerts(fence=fence, held_at=held_at, changes=tuple(changes)))
    return [change.step for change in changes]


def listed(store: Store, **parts: Any) -> list[AlertRecord]:
    """List alerts."""
    return store.list_alerts(AlertFilter(**parts))


def actions(store: Store, prefix: str = "alert") -> list[str]:
    """Return what the trail says about alerts, oldest first."""
    found = [one.action for one in steps.audit(store)][::-1]
    return [action for action in found if action.startswith(prefix)]


def lose(store: Store, clock: ManualClock, how: str) -> WatcherFence:
    """Return the fence of somebody who has the watch no more."""
    fence = watch(store)
    if how == "never":
        return WatcherFence(THEIRS, fence.epoch)
    if how == "of an earlier epoch":
        store.release_watch(fence)
        watch(store)
        return fence
    clock.advance(WATCH_TTL_US)
    if how == "taken over":
        watch(store, THEIRS)
    return fence


LOST = pytest.mark.parametrize("how", ["never", "of an earlier epoch", "expired", "taken over"])


class Watching:
    """What is promised about the watch."""

    def test_one_has_the_watch_until_its_time_is_over(
        self, store: Store, clock: ManualClock
    ) -> None:
        """By the store's clock; each who takes it has a higher epoch."""
        first = hold(store)
        clock.advance(WATCH_TTL_US - 1)

        refused = hold(store, THEIRS)
        clock.advance(1)
        second = hold(store, THEIRS)

        assert (True, 1) == (first.is_held, first.epoch)
        assert (False, first.until, OURS.decode()) == (
            refused.is_held,
            refused.until,
            refused.holder,
        )
        assert (True, 2, clock.now_us()) == (second.is_held, second.epoch, second.now)
        assert not hold(store).is_held

    def test_whoever_renews_keeps_the_watch_and_its_epoch(
        self, store: Store, clock: ManualClock
    ) -> None:
        hold(store)
        clock.advance(WATCH_TTL_US - 1)
        again = hold(store)
        clock.advance(WATCH_TTL_US - 1)

        assert (True, 1) == (again.is_held, again.epoch)
        assert not hold(store, THEIRS).is_held

    def test_a_clock_that_ran_ahead_keeps_nobody_waiting(
        self, store: Store, clock: ManualClock
    ) -> None:
        """What it wrote counts as over."""
        hold(store)
        clock.set(clock.now_us() - 10 * WATCH_TTL_US)

        assert hold(store, THEIRS).is_held

    def test_a_watch_that_is_given_up_is_free_at_once(self, store: Store) -> None:
        """And only its holder gives it up."""
        fence = watch(store)
        store.release_watch(WatcherFence(THEIRS, fence.epoch))
        store.release_watch(WatcherFence(OURS, fence.epoch + 1))
        is_kept = not hold(store, THEIRS).is_held

        store.release_watch(fence)

        assert is_kept
        assert 2 == watch(store, THEIRS).epoch

    def test_notes_are_for_whoever_comes_next(self, store: Store, clock: ManualClock) -> None:
        """What one watcher has learnt, the next one knows."""
        assert "" == hold(store).notes
        hold(store, notes='{"usual":3}')
        assert '{"usual":3}' == hold(store).notes
        clock.advance(WATCH_TTL_US)

        assert '{"usual":3}' == hold(store, THEIRS).notes


class AlertsOnRecord:
    """What is promised about alerts."""

    def test_what_is_raised_is_on_record_with_its_deliveries_and_its_entry(
        self, store: Store, clock: ManualClock
    ) -> None:
        """All of it, in one transaction."""
        fence = watch(store)

        done = look(store, fence, condition())

        (alert,) = listed(store)
        now = clock.now_us()
        assert [AlertTransition.RAISED] == done
        assert (AlertState.OPEN, now, now, CHANNELS) == (
            alert.state,
            alert.raised_at,
            alert.told_at,
            alert.told_to,
        )
        assert condition().evidence == alert.evidence
        assert (alert, (alert,)) == (store.get_alert(alert.id), store.load_watched().alerts)
        assert [(delivery_id(alert.id, NoticeKind.RAISED, name), name) for name in CHANNELS] == [
            (one.id, one.channel) for one in store.list_deliveries(alert.id)
        ]
        (entry,) = steps.audit(store, action="alert.raised")
        assert (alert.id, "queue-age queue mail", "duly", "watcher") == (
            entry.subject_id,
            entry.subject,
            entry.actor.name,
            entry.actor.source,
        )

    def test_an_alert_is_raised_once_while_its_condition_holds(
        self, store: Store, clock: ManualClock
    ) -> None:
        """However often it is seen, and whoever watches."""
        fence = watch(store)
        look(store, fence, condition())
        clock.advance(WATCH_TTL_US)
        heir = watch(store, THEIRS)

        again = look(store, heir, condition())

        assert [] == again
        assert (1, 2) == (len(listed(store)), len(store.load_deliveries(10).due))
        assert ["alert.raised"] == actions(store)

    def test_an_alert_resolves_itself_and_may_come_again(
        self, store: Store, clock: ManualClock
    ) -> None:
        """As another one, which is told anew."""
        fence = watch(store)
        look(store, fence, condition())
        clock.advance(1000)
        gone = look(store, fence)
        clock.advance(1000)

        back = look(store, fence, condition())

        newest, oldest = listed(store)
        assert ([AlertTransition.RESOLVED], [AlertTransition.RAISED]) == (gone, back)
        assert (AlertState.OPEN, AlertState.RESOLVED) == (newest.state, oldest.state)
        assert clock.now_us() - 1000 == oldest.resolved_at
        told = [one.told for one in store.list_deliveries(oldest.id)]
        assert [
            NoticeKind.RAISED,
            NoticeKind.RAISED,
            NoticeKind.RESOLVED,
            NoticeKind.RESOLVED,
        ] == told
        assert ["alert.raised", "alert.resolved", "alert.raised"] == actions(store)

    def test_what_comes_and_goes_in_time_is_one_alert(
        self, store: Store, clock: ManualClock
    ) -> None:
        """It must be gone for a while, and must have held for a while."""
        fence = watch(store)
        waits = {"hold_for": "2s", "clear_for": "2s"}
        done = [look(store, fence, condition(), **waits)]
        done.append(look(store, fence, **waits))
        for seconds, found in ((0, 1), (2, 1), (1, 0), (1, 1), (1, 0), (2, 0)):
            clock.advance(seconds * 1_000_000)
            done.append(look(store, fence, *[condition()] * found, **waits))

        assert [
            [AlertTransition.NOTED],
            [AlertTransition.FORGOTTEN],
            [AlertTransition.NOTED],
            [AlertTransition.RAISED],
            [AlertTransition.GONE],
            [AlertTransition.BACK],
            [AlertTransition.GONE],
            [AlertTransition.RESOLVED],
        ] == done
        assert 1 == len(listed(store))
        assert ["alert.raised", "alert.resolved"] == actions(store)

    def test_a_silence_keeps_it_from_being_told_and_not_from_being_on_record(
        self, store: Store, clock: ManualClock
    ) -> None:
        """And when it is over, it is told."""
        fence = watch(store)
        quiet = (Silence(id="deploy", subject="queue *", until=clock.now_us() + 10),)

        look(store, fence, condition(), silences=quiet)
        (silenced,), before = listed(store), store.load_deliveries(10).due
        clock.advance(10)
        done = look(store, fence, condition(), silences=quiet)

        assert (AlertState.OPEN, None, ()) == (silenced.state, silenced.told_at, before)
        assert [AlertTransition.TOLD] == done
        assert 2 == len(store.load_deliveries(10).due)
        assert ["alert.raised", "alert.told"] == actions(store)

    @LOST
    def test_whoever_has_the_watch_no_more_changes_nothing(
        self, store: Store, clock: ManualClock, how: str
    ) -> None:
        """INV-5: neither alerts nor deliveries nor entries, and it is on record."""
        changes, held_at = decided(store, condition()), store.now()
        fence = lose(store, clock, how)

        order = ApplyAlerts(fence=fence, held_at=held_at, changes=tuple(changes))
        is_done = store.apply_alerts(order)

        assert (False, [], ()) == (is_done, listed(store), store.load_deliveries(10).due)
        assert ([], ["watch.refused"]) == (actions(store), actions(store, "watch"))

    def test_what_was_decided_twice_is_written_once(self, store: Store) -> None:
        """When the answer was lost, say."""
        fence = watch(store)
        changes = tuple(decided(store, condition()))
        order = ApplyAlerts(fence=fence, held_at=store.now(), changes=changes)

        assert [True, True] == [store.apply_alerts(order), store.apply_alerts(order)]
        assert (1, 2) == (len(listed(store)), len(store.load_deliveries(10).due))

    def test_a_look_that_arrives_after_the_next_one_changes_nothing(
        self, store: Store, clock: ManualClock
    ) -> None:
        """INV-5: an order that was given up, and is carried out all the same."""
        fence = watch(store)
        look(store, fence, condition())
        resolved = tuple(decided(store))
        late = ApplyAlerts(fence=fence, held_at=store.now(), changes=resolved)
        clock.advance(1)
        look(store, fence, condition())
        (known,) = listed(store)

        assert not store.apply_alerts(late)
        assert ([known], 2) == (listed(store), len(store.load_deliveries(10).due))
        assert (["alert.raised"], ["watch.refused"]) == (actions(store), actions(store, "watch"))

    def test_all_changes_are_written_or_none(self, store: Store) -> None:
        """Should one of them fail."""
        fence = watch(store)
        look(store, fence, condition("queue a"))
        (known,) = listed(store)
        good, bad = decided(store, condition("queue b")), decided(store, condition("queue c"))
        twin = replace(bad[0], alert=replace(bad[0].alert, subject="queue a"))
        order = ApplyAlerts(fence=fence, held_at=store.now(), changes=(good[0], twin))

        with pytest.raises(Exception):  # noqa: B017, PT011 - a constraint, in each store's words
            store.apply_alerts(order)

        assert ([known], ["alert.raised"]) == (listed(store), actions(store))
        assert 2 == len(store.load_deliveries(10).due)

    def test_alerts_are_listed_newest_first_in_pages(
        self, store: Store, clock: ManualClock
    ) -> None:
        """By tenant, state and kind."""
        fence = watch(store)
        seen = [
            condition("schedule a", tenant="acme"),
            condition("schedule b", tenant="else"),
            condition("store", kind=AlertKind.EARLY_FIRE),
        ]
        for number in range(1, 4):
            clock.advance(1000)
            look(store, fence, *seen[:number])
        clock.advance(1000)
        look(store, fence, *seen[1:])
        names = [one.subject for one in listed(store)]

        assert ["store", "schedule b", "schedule a"] == names
        assert names[1:] == [
            one.subject for one in listed(store, before_id=listed(store, limit=1)[0].id)
        ]
        assert ["schedule a"] == [one.subject for one in listed(store, tenant="acme")]
        resolved = frozenset({AlertState.RESOLVED})
        assert ["schedule a"] == [one.subject for one in listed(store, states=resolved)]
        assert ["store"] == [one.subject for one in listed(store, kind=AlertKind.EARLY_FIRE)]

    def test_who_takes_note_of_an_alert_is_on_record(self, store: Store) -> None:
        """The first one; what the watcher writes later leaves it."""
        fence = watch(store)
        look(store, fence, condition())
        (alert,) = listed(store)
        order = AcknowledgeAlert(id=alert.id, actor=PERSON)

        noted = store.acknowledge_alert(order)
        again = store.acknowledge_alert(replace(order, actor=Actor("ben", "library")))
        look(store, fence)

        (resolved,) = listed(store)
        assert ("anna", "because") == (noted.acknowledged_by, noted.acknowledged_reason)
        assert noted == again
        assert "anna" == resolved.acknowledged_by
        assert ["alert.raised", "alert.acknowledged", "alert.resolved"] == actions(store)
        with pytest.raises(Conflict, match="is resolved"):
            store.acknowledge_alert(order)

    def test_nobody_takes_note_of_another_tenants_alert(self, store: Store) -> None:
        look(store, watch(store), condition(tenant="acme"))
        (alert,) = listed(store)

        with pytest.raises(NotFound):
            store.acknowledge_alert(AcknowledgeAlert(id=alert.id, tenant="else", actor=PERSON))
        store.acknowledge_alert(AcknowledgeAlert(id=alert.id, tenant="acme", actor=PERSON))

    def test_what_was_resolved_long_ago_is_removed(self, store: Store, clock: ManualClock) -> None:
        """With its deliveries; what is open stays, however old."""
        fence = watch(store)
        look(store, fence, condition("queue a"), condition("queue b"))
        look(store, fence, condition("queue b"))
        said = SetAlertSetting(
            sort=AlertSettingKind.SILENCE,
            name="s",
            terms={},
            until=clock.now_us() + 1,
            actor=PERSON,
        )
        store.set_alert_term(said)
        (resolved,) = listed(store, states=frozenset({AlertState.RESOLVED}))
        clock.advance(ALERTS_KEPT_US + 2)
        keep = Retention(
            outcomes_us={}, runs_per_schedule=None, skips_us=None, deleted_schedules_us=None
        )

        pruned = store.prune(Prune(fence=maintain(store), retention=keep, limit=10))

        assert 2 == pruned.counts[PruneKind.ALERTS]
        assert ["queue b"] == [one.subject for one in listed(store)]
        assert [] == store.list_deliveries(resolved.id)
        assert 2 == len(store.load_deliveries(10).due)


class Deliveries:
    """What is promised about deliveries."""

    def test_a_delivery_is_due_until_it_is_settled(self, store: Store, clock: ManualClock) -> None:
        """Done, or due again at its time; each under the id it had from the first."""
        fence = watch(store)
        look(store, fence, condition())
        first, second = store.load_deliveries(10).due
        again = DeliveryOutcome(DeliveryState.PENDING, wait_us=5_000_000, error="busy")

        told = [
            store.settle_delivery(
                SettleDelivery(
                    fence=fence,
                    id=first.delivery.id,
                    tries=0,
                    tried=DeliveryOutcome(DeliveryState.DONE),
                )
            ),
            store.settle_delivery(
                SettleDelivery(fence=fence, id=second.delivery.id, tries=0, tried=again)
            ),
        ]

        waiting = store.load_deliveries(10)
        assert ([True, True], (), clock.now_us() + 5_000_000) == (
            told,
            waiting.due,
            waiting.next_at,
        )
        clock.advance(5_000_000)
        (due,) = store.load_deliveries(10).due
        assert (second.delivery.id, 1, "busy") == (
            due.delivery.id,
            due.delivery.tries,
            due.delivery.error,
        )
        states = {one.channel: one.state for one in store.list_deliveries(first.alert.id)}
        assert {DeliveryState.DONE, DeliveryState.PENDING} == set(states.values())

    def test_a_try_is_settled_once(self, store: Store) -> None:
        """A second word about it changes nothing."""
        fence = watch(store)
        look(store, fence, condition())
        due = store.load_deliveries(1).due[0].delivery
        done = SettleDelivery(
            fence=fence, id=due.id, tries=0, tried=DeliveryOutcome(DeliveryState.DONE)
        )
        failed = replace(done, tried=DeliveryOutcome(DeliveryState.GIVEN_UP, error="no"))

        assert [True, False, False] == [store.settle_delivery(one) for one in (done, done, failed)]
        assert [] == actions(store, "alert.undelivered")

    def test_what_is_given_up_is_on_record(self, store: Store) -> None:
        """With what the channel said."""
        fence = watch(store)
        look(store, fence, condition())
        due = store.load_deliveries(1).due[0].delivery
        tried = DeliveryOutcome(DeliveryState.GIVEN_UP, error="no such address")

        store.settle_delivery(SettleDelivery(fence=fence, id=due.id, tries=0, tried=tried))

        (entry,) = steps.audit(store, action="alert.undelivered")
        assert entry.after is not None
        assert (due.channel, 1, "no such address") == (
            entry.after["channel"],
            entry.after["tries"],
            entry.after["error"],
        )

    @LOST
    def test_whoever_has_the_watch_no_more_settles_nothing(
        self, store: Store, clock: ManualClock, how: str
    ) -> None:
        """The next one tries again, under the same id."""
        fence = watch(store)
        look(store, fence, condition())
        store.release_watch(fence)
        due = store.load_deliveries(1).due[0].delivery
        stale = lose(store, clock, how)
        order = SettleDelivery(
            fence=stale, id=due.id, tries=0, tried=DeliveryOutcome(DeliveryState.DONE)
        )

        assert not store.settle_delivery(order)
        assert due.id in {one.delivery.id for one in store.load_deliveries(10).due}

    def test_deliveries_are_read_longest_due_first(self, store: Store, clock: ManualClock) -> None:
        """At most so many; when the next one is due is told as well."""
        fence = watch(store)
        look(store, fence, condition("queue a"))
        clock.advance(1)
        look(store, fence, condition("queue a"), condition("queue b"))

        found = store.load_deliveries(3)

        assert ["queue a", "queue a", "queue b"] == [one.alert.subject for one in found.due]
        assert (clock.now_us(), clock.now_us()) == (found.next_at, found.now)

    def test_an_end_waits_for_its_beginning(self, store: Store, clock: ManualClock) -> None:
        """Who was told of the end first would take the beginning for news, and stay alarmed."""
        fence = watch(store)
        look(store, fence, condition())
        done, late = store.load_deliveries(10).due
        later = DeliveryOutcome(DeliveryState.PENDING, wait_us=5_000_000, error="busy")
        for one, tried in ((done, DeliveryOutcome(DeliveryState.DONE)), (late, later)):
            order = SettleDelivery(fence=fence, id=one.delivery.id, tries=0, tried=tried)
            assert store.settle_delivery(order)
        look(store, fence)

        before = store.load_deliveries(10)
        clock.advance(5_000_000)
        (begun,) = [one for one in store.load_deliveries(10).due if one.delivery.told == "raised"]
        gone = DeliveryOutcome(DeliveryState.GIVEN_UP, error="no")
        order = SettleDelivery(fence=fence, id=begun.delivery.id, tries=1, tried=gone)
        assert store.settle_delivery(order)
        after = store.load_deliveries(10)

        channel = done.delivery.channel
        assert [("resolved", channel)] == [
            (one.delivery.told, one.delivery.channel) for one in before.due
        ]
        assert before.now + 5_000_000 == before.next_at
        assert ({"resolved"}, 2) == ({one.delivery.told for one in after.due}, len(after.due))

    def test_each_channel_has_its_turn(self, store: Store, clock: ManualClock) -> None:
        """Many deliveries to one keep nobody else's from being read."""
        fence = watch(store)
        look(store, fence, *(condition(f"queue {name}") for name in "abc"))
        mail = [one for one in store.load_deliveries(10).due if one.delivery.channel == "mail"]
        for one in mail:
            wait = DeliveryOutcome(DeliveryState.PENDING, wait_us=10, error="busy")
            order = SettleDelivery(fence=fence, id=one.delivery.id, tries=0, tried=wait)
            assert store.settle_delivery(order)
        clock.advance(10)

        two = store.load_deliveries(2)
        rest = store.load_deliveries(10, {"log"})

        assert ["log", "mail"] == sorted(one.delivery.channel for one in two.due)
        assert two.now == two.next_at
        assert (3, {"mail"}) == (len(rest.due), {one.delivery.channel for one in rest.due})
        assert ((), None) == (store.load_deliveries(10, ["log", "mail"]).due, rest.next_at)

    def test_a_clock_that_ran_ahead_delays_no_delivery(
        self, store: Store, clock: ManualClock
    ) -> None:
        """What was to be tried again at a time that is far away now is tried at once."""
        now = clock.now_us()
        clock.advance("365d")
        fence = watch(store)
        look(store, fence, condition())
        due = store.load_deliveries(1).due[0].delivery
        wait = DeliveryOutcome(DeliveryState.PENDING, wait_us=5_000_000, error="busy")
        order = SettleDelivery(fence=fence, id=due.id, tries=0, tried=wait)
        assert store.settle_delivery(order)
        clock.set(now)

        found = store.load_deliveries(10)

        assert (2, None) == (len(found.due), found.next_at)


class AlertTerms:
    """What is promised about rules, channels and silences."""

    def test_what_was_said_is_kept_and_replaced(self, store: Store, clock: ManualClock) -> None:
        """With who said it, before and after."""
        order = SetAlertSetting(
            sort=AlertSettingKind.RULE, name="mail", terms={"threshold": 3, "ß": [1]}, actor=PERSON
        )
        store.set_alert_term(order)
        clock.advance(1)

        made = store.set_alert_term(replace(order, terms={"threshold": 4}))

        assert [made] == store.list_alert_terms(AlertSettingKind.RULE)
        assert ({"threshold": 4}, clock.now_us(), "anna", "because") == (
            made.terms,
            made.set_at,
            made.set_by,
            made.reason,
        )
        assert (made,) == store.load_watched().terms
        newest, oldest = steps.audit(store, action="alert-rule.set")
        assert (None, {"threshold": 3, "ß": [1]}) == (oldest.before, oldest.after)
        assert ({"threshold": 3, "ß": [1]}, {"threshold": 4}) == (newest.before, newest.after)

    def test_sorts_do_not_meet(self, store: Store) -> None:
        """A rule and a channel may have one name."""
        for sort in AlertSettingKind:
            store.set_alert_term(
                SetAlertSetting(sort=sort, name="x", terms={"of": sort}, actor=PERSON)
            )

        assert [[{"of": str(sort)}] for sort in AlertSettingKind] == [
            [one.terms for one in store.list_alert_terms(sort)] for sort in AlertSettingKind
        ]

    def test_a_new_name_is_nobody_elses(self, store: Store) -> None:
        order = SetAlertSetting(
            sort=AlertSettingKind.SILENCE,
            name="x",
            tenant="acme",
            terms={},
            until=None,
            actor=PERSON,
        )
        store.set_alert_term(order)

        for other in (replace(order, is_new=True), replace(order, tenant="else")):
            with pytest.raises(Conflict, match="is there already"):
                store.set_alert_term(other)
        assert ["acme"] == [one.tenant for one in store.list_alert_terms(AlertSettingKind.SILENCE)]

    def test_what_is_taken_back_is_gone(self, store: Store) -> None:
        """Once, and only by whose it is."""
        order = SetAlertSetting(
            sort=AlertSettingKind.CHANNEL, name="x", tenant="acme", terms={}, actor=PERSON
        )
        store.set_alert_term(order)
        gone = RemoveTerm(sort=AlertSettingKind.CHANNEL, name="x", actor=PERSON)

        done = [
            store.remove_alert_term(one)
            for one in (replace(gone, tenant="else"), replace(gone, tenant="acme"), gone)
        ]

        assert ([False, True, False], []) == (
            done,
            store.list_alert_terms(AlertSettingKind.CHANNEL),
        )
        assert ["alert-channel.set", "alert-channel.removed"] == actions(store)

    def test_a_silence_is_over_by_itself(self, store: Store, clock: ManualClock) -> None:
        """By the store's clock."""
        until = clock.now_us() + 5
        order = SetAlertSetting(
            sort=AlertSettingKind.SILENCE, name="x", terms={}, until=until, actor=PERSON
        )
        store.set_alert_term(order)
        clock.advance(4)
        before = (
            len(store.list_alert_terms(AlertSettingKind.SILENCE)),
            len(store.load_watched().terms),
        )
        clock.advance(1)

        assert (1, 1) == before
        assert ([], ()) == (
            store.list_alert_terms(AlertSettingKind.SILENCE),
            store.load_watched().terms,
        )

    def test_of_two_who_saw_the_same_one_is_kept(self, store: Store) -> None:
        """Who was slower is refused by name, and nothing of the faster one is lost."""
        said = _rule({"n": 1})
        first = store.set_alert_term(said)
        second = store.set_alert_term(replace(said, terms={"n": 2}, version=first.version))

        with pytest.raises(Outdated, match="anna"):
            store.set_alert_term(replace(said, terms={"n": 3}, version=first.version))
        with pytest.raises(Outdated):
            store.set_alert_term(replace(said, terms={"n": 3}, version=UNSAID))
        with pytest.raises(Outdated):
            store.remove_alert_term(_removal(first.version))

        assert [second] == store.list_alert_terms(AlertSettingKind.RULE)
        assert ["alert-rule.set"] * 2 == actions(store)
        assert store.remove_alert_term(_removal(second.version))
        with pytest.raises(Outdated, match="taken back"):
            store.set_alert_term(replace(said, terms={"n": 4}, version=second.version))
        assert {"n": 5} == store.set_alert_term(replace(said, terms={"n": 5}, version=UNSAID)).terms

    def test_a_version_is_never_there_twice(self, store: Store, clock: ManualClock) -> None:
        """Neither in one moment, nor after the clock was put back."""
        said = _rule({"n": 1})
        versions = [store.set_alert_term(replace(said, terms={"n": n})).version for n in range(2)]
        clock.set(clock.now_us() - 60_000_000)
        versions.append(store.set_alert_term(replace(said, terms={"n": 3})).version)
        (kept,) = store.list_alert_terms(AlertSettingKind.RULE)

        assert sorted(set(versions)) == versions
        assert kept.version == versions[-1] > UNSAID

    def test_the_same_word_given_again_is_no_conflict(self, store: Store) -> None:
        """Its answer was lost; it is told what is kept, and nothing is written."""
        said = _rule({"n": 1})
        first = store.set_alert_term(replace(said, version=UNSAID))
        again = store.set_alert_term(replace(said, version=UNSAID))

        assert first == again
        assert ["alert-rule.set"] == actions(store)


def _rule(terms: dict[str, int]) -> SetAlertSetting:
    return SetAlertSetting(sort=AlertSettingKind.RULE, name="queue-age", terms=terms, actor=PERSON)


def _removal(version: int) -> RemoveTerm:
    return RemoveTerm(sort=AlertSettingKind.RULE, name="queue-age", actor=PERSON, version=version)
