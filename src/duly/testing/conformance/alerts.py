"""Alerts: the part of the contract by which one watcher decides, and nobody misses it (V3)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from duly.domain.alert_kinds import AlertKind
from duly.domain.alert_rules import Rulebook, read_rule
from duly.domain.alerting import (
    AlertState,
    Condition,
    Observation,
    Silence,
    Standards,
    Step,
    Told,
    decide,
    delivery_id,
)
from duly.domain.audit import Actor
from duly.errors import Conflict, NotFound
from duly.store.alerting import (
    ALERTS_KEPT_US,
    WATCH_TTL_US,
    AcknowledgeAlert,
    AlertFilter,
    ApplyAlerts,
    HoldWatch,
    SetTerm,
    TermSort,
    WatchFence,
)
from duly.store.dispatch import Prune, PruneKind, Retention
from duly.testing.conformance import steps
from duly.testing.conformance.work_steps import maintain

if TYPE_CHECKING:
    from duly.domain.alerting import AlertRecord, Change
    from duly.store.alerting import Watch
    from duly.store.protocol import Store
    from duly.testing.manual_clock import ManualClock

PERSON = Actor("anna", "library", "because")
OURS, THEIRS = b"o" * 16, b"t" * 16
EVERYTHING = frozenset(AlertKind)
CHANNELS = ("log", "mail")


def hold(store: Store, holder: bytes = OURS, **parts: Any) -> Watch:
    """Ask for the watch."""
    return store.hold_watch(HoldWatch(holder=holder, name=holder.decode(), **parts))


def watch(store: Store, holder: bytes = OURS) -> WatchFence:
    """Take the watch."""
    held = hold(store, holder)
    assert held.is_held
    return WatchFence(holder, held.epoch)


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
) -> list[Change]:
    """Decide by what the store has, with no waits unless told."""
    watched = store.load_watched()
    terms = {"hold_for": "0s", "clear_for": "0s"} | rule
    rules = Rulebook([read_rule(str(kind), terms) for kind in AlertKind])
    standards = Standards(rules=rules, silences=silences, channels=CHANNELS)
    seen = Observation(conditions=conditions, kinds=EVERYTHING)
    return decide(watched.alerts, seen, standards, watched.now)


def look(store: Store, fence: WatchFence, *conditions: Condition, **parts: Any) -> list[Step]:
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


def lose(store: Store, clock: ManualClock, how: str) -> WatchFence:
    """Return the fence of somebody who has the watch no more."""
    fence = watch(store)
    if how == "never":
        return WatchFence(THEIRS, fence.epoch)
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
        """V3: by the store's clock; each who takes it has a higher epoch."""
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
        """V3."""
        hold(store)
        clock.advance(WATCH_TTL_US - 1)
        again = hold(store)
        clock.advance(WATCH_TTL_US - 1)

        assert (True, 1) == (again.is_held, again.epoch)
        assert not hold(store, THEIRS).is_held

    def test_a_clock_that_ran_ahead_keeps_nobody_waiting(
        self, store: Store, clock: ManualClock
    ) -> None:
        """V3, F7: what it wrote counts as over."""
        hold(store)
        clock.set(clock.now_us() - 10 * WATCH_TTL_US)

        assert hold(store, THEIRS).is_held

    def test_a_watch_that_is_given_up_is_free_at_once(self, store: Store) -> None:
        """V3: and only its holder gives it up."""
        fence = watch(store)
        store.release_watch(WatchFence(THEIRS, fence.epoch))
        store.release_watch(WatchFence(OURS, fence.epoch + 1))
        is_kept = not hold(store, THEIRS).is_held

        store.release_watch(fence)

        assert is_kept
        assert 2 == watch(store, THEIRS).epoch

    def test_notes_are_for_whoever_comes_next(self, store: Store, clock: ManualClock) -> None:
        """V3: what one watcher has learnt, the next one knows."""
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
        """V3, A2: all of it, in one transaction."""
        fence = watch(store)

        done = look(store, fence, condition())

        (alert,) = listed(store)
        now = clock.now_us()
        assert [Step.RAISED] == done
        assert (AlertState.OPEN, now, now, CHANNELS) == (
            alert.state,
            alert.raised_at,
            alert.told_at,
            alert.told_to,
        )
        assert condition().evidence == alert.evidence
        assert (alert, (alert,)) == (store.get_alert(alert.id), store.load_watched().alerts)
        assert [(delivery_id(alert.id, Told.RAISED, name), name) for name in CHANNELS] == [
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
        """V3: however often it is seen, and whoever watches."""
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
        """V3: as another one, which is told anew."""
        fence = watch(store)
        look(store, fence, condition())
        clock.advance(1000)
        gone = look(store, fence)
        clock.advance(1000)

        back = look(store, fence, condition())

        newest, oldest = listed(store)
        assert ([Step.RESOLVED], [Step.RAISED]) == (gone, back)
        assert (AlertState.OPEN, AlertState.RESOLVED) == (newest.state, oldest.state)
        assert clock.now_us() - 1000 == oldest.resolved_at
        told = [one.told for one in store.list_deliveries(oldest.id)]
        assert [Told.RAISED, Told.RAISED, Told.RESOLVED, Told.RESOLVED] == told
        assert ["alert.raised", "alert.resolved", "alert.raised"] == actions(store)

    def test_what_comes_and_goes_in_time_is_one_alert(
        self, store: Store, clock: ManualClock
    ) -> None:
        """V3: it must be gone for a while, and must have held for a while."""
        fence = watch(store)
        waits = {"hold_for": "2s", "clear_for": "2s"}
        done = [look(store, fence, condition(), **waits)]
        done.append(look(store, fence, **waits))
        for seconds, found in ((0, 1), (2, 1), (1, 0), (1, 1), (1, 0), (2, 0)):
            clock.advance(seconds * 1_000_000)
            done.append(look(store, fence, *[condition()] * found, **waits))

        assert [
            [Step.NOTED],
            [Step.FORGOTTEN],
            [Step.NOTED],
            [Step.RAISED],
            [Step.GONE],
            [Step.BACK],
            [Step.GONE],
            [Step.RESOLVED],
        ] == done
        assert 1 == len(listed(store))
        assert ["alert.raised", "alert.resolved"] == actions(store)

    def test_a_silence_keeps_it_from_being_told_and_not_from_being_on_record(
        self, store: Store, clock: ManualClock
    ) -> None:
        """V3: and when it is over, it is told."""
        fence = watch(store)
        quiet = (Silence(id="deploy", subject="queue *", until=clock.now_us() + 10),)

        look(store, fence, condition(), silences=quiet)
        (silenced,), before = listed(store), store.load_deliveries(10).due
        clock.advance(10)
        done = look(store, fence, condition(), silences=quiet)

        assert (AlertState.OPEN, None, ()) == (silenced.state, silenced.told_at, before)
        assert [Step.TOLD] == done
        assert 2 == len(store.load_deliveries(10).due)
        assert ["alert.raised", "alert.told"] == actions(store)

    @LOST
    def test_whoever_has_the_watch_no_more_changes_nothing(
        self, store: Store, clock: ManualClock, how: str
    ) -> None:
        """V3, INV-5: neither alerts nor deliveries nor entries, and it is on record."""
        changes, held_at = decided(store, condition()), store.now()
        fence = lose(store, clock, how)

        order = ApplyAlerts(fence=fence, held_at=held_at, changes=tuple(changes))
        is_done = store.apply_alerts(order)

        assert (False, [], ()) == (is_done, listed(store), store.load_deliveries(10).due)
        assert ([], ["watch.refused"]) == (actions(store), actions(store, "watch"))

    def test_what_was_decided_twice_is_written_once(self, store: Store) -> None:
        """V3: when the answer was lost, say."""
        fence = watch(store)
        changes = tuple(decided(store, condition()))
        order = ApplyAlerts(fence=fence, held_at=store.now(), changes=changes)

        assert [True, True] == [store.apply_alerts(order), store.apply_alerts(order)]
        assert (1, 2) == (len(listed(store)), len(store.load_deliveries(10).due))

    def test_a_look_that_arrives_after_the_next_one_changes_nothing(
        self, store: Store, clock: ManualClock
    ) -> None:
        """V3, INV-5: an order that was given up, and is carried out all the same."""
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
        """V3: should one of them fail."""
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
        """V3: by tenant, state and kind."""
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
        """V3, A2: the first one; what the watcher writes later leaves it."""
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
        """L2."""
        look(store, watch(store), condition(tenant="acme"))
        (alert,) = listed(store)

        with pytest.raises(NotFound):
            store.acknowledge_alert(AcknowledgeAlert(id=alert.id, tenant="else", actor=PERSON))
        store.acknowledge_alert(AcknowledgeAlert(id=alert.id, tenant="acme", actor=PERSON))

    def test_what_was_resolved_long_ago_is_removed(self, store: Store, clock: ManualClock) -> None:
        """D6: with its deliveries; what is open stays, however old."""
        fence = watch(store)
        look(store, fence, condition("queue a"), condition("queue b"))
        look(store, fence, condition("queue b"))
        said = SetTerm(
            sort=TermSort.SILENCE, name="s", terms={}, until=clock.now_us() + 1, actor=PERSON
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
