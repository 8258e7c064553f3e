"""Stores that keep alerts wrongly, and the test that is meant for each."""

from __future__ import annotations

from dataclasses import replace

from duly.domain.alerts import AlertState, DeliveryState
from duly.errors import Outdated
from duly.store.alert_rulings import new_deliveries
from duly.store.memory import MemoryStore
from duly.store.memory.alerting import watch_row
from duly.store.ports.alerts import DueDelivery, TroubledRun, WatcherFence


class RaisesWithoutAFence(MemoryStore):
    """Takes anybody's word for what is wrong."""

    def apply_alerts(self, command):
        row = self._read(watch_row)
        fence = WatcherFence(row.holder or b"", row.epoch)
        now = self.now()
        self.tables.watch[0] = replace(row, renewed_at=now, expires_at=now + 1)
        return super().apply_alerts(replace(command, fence=fence, held_at=now))


class DeliversBeside(MemoryStore):
    """Makes deliveries in a transaction of their own, before the alert is written."""

    def apply_alerts(self, command):
        for change in command.changes:
            for one in new_deliveries(change, self.now()):
                self.tables.alert_deliveries[one.id] = one
                self.tables.alerts.setdefault(change.alert.id, change.alert)
        return super().apply_alerts(command)


class ForgetsToDeliver(MemoryStore):
    """Writes the alert, and nothing that is to be delivered."""

    def apply_alerts(self, command):
        changes = tuple(replace(one, channels=()) for one in command.changes)
        return super().apply_alerts(replace(command, changes=changes))


class WatchesWithoutEnd(MemoryStore):
    """Gives the watch to whoever asks."""

    def hold_watch(self, command):
        super().release_watch(self._fence())
        return super().hold_watch(command)

    def _fence(self):
        row = self._read(watch_row)
        return WatcherFence(row.holder or b"", row.epoch)


class SettlesForAnybody(MemoryStore):
    """Lets whoever has sent something say what became of it."""

    def settle_delivery(self, command):
        one = self.tables.alert_deliveries[command.id]
        done = replace(one, state=DeliveryState.DONE, settled_at=self.now())
        self.tables.alert_deliveries[command.id] = done
        return True


class SettlesTwice(MemoryStore):
    """Does not look which try it is."""

    def settle_delivery(self, command):
        one = self.tables.alert_deliveries[command.id]
        pending = replace(one, state=DeliveryState.PENDING, settled_at=None)
        self.tables.alert_deliveries[command.id] = pending
        return super().settle_delivery(replace(command, tries=one.tries))


class DeliversInOneLine(MemoryStore):
    """Lets whoever has many deliveries go first with all of them."""

    def load_deliveries(self, limit, without=()):
        found = super().load_deliveries(1000)
        due = sorted(found.due, key=lambda one: (one.delivery.next_at, one.delivery.id))
        return replace(found, due=tuple(due[:limit]))


class WaitsForTheFuture(MemoryStore):
    """Takes a clock that ran ahead at its word."""

    def load_deliveries(self, limit, without=()):
        found = super().load_deliveries(limit, without)
        due = tuple(one for one in found.due if one.delivery.next_at <= found.now)
        return replace(found, due=due)


class ForgetsWhoTookNote(MemoryStore):
    """Lets the watcher write over what people have said."""

    def apply_alerts(self, command):
        for change in command.changes:
            known = self.tables.alerts.get(change.alert.id)
            if known is not None:
                self.tables.alerts[change.alert.id] = replace(known, acknowledged_by=None)
        return super().apply_alerts(command)


class WritesEveryLook(MemoryStore):
    """Carries out whatever arrives, also after what was decided later."""

    def apply_alerts(self, command):
        return super().apply_alerts(replace(command, held_at=self._read(watch_row).renewed_at))


class TellsOfTheEndFirst(MemoryStore):
    """Lets the end of something overtake its beginning."""

    def load_deliveries(self, limit, without=()):
        rows = self.tables.alert_deliveries.values()
        due = [one for one in rows if one.state == "pending" and one.next_at <= self.now()]
        found = super().load_deliveries(limit, without)
        both = tuple(DueDelivery(one, self.tables.alerts[one.alert_id]) for one in due)
        return replace(found, due=both)


class SilencesForGood(MemoryStore):
    """Never ends a silence."""

    def set_alert_term(self, command):
        return super().set_alert_term(replace(command, until=None))


class OverwritesUnseen(MemoryStore):
    """Lets whoever speaks last be right."""

    def set_alert_term(self, command):
        return super().set_alert_term(replace(command, version=None))


class RepeatsVersions(MemoryStore):
    """Takes the clock's word for which one is newer."""

    def set_alert_term(self, command):
        made = replace(super().set_alert_term(command), set_at=self.now())
        self.tables.alert_terms[command.sort, command.name] = made
        return made


class RefusesRepetitions(MemoryStore):
    """Takes an order that is given again for somebody else's."""

    def set_alert_term(self, command):
        known = self.tables.alert_terms.get((command.sort, command.name))
        if known is not None and command.version not in {None, known.version}:
            raise Outdated("alert rule", command.name, "is another", "look")
        return super().set_alert_term(command)


class PrunesWhatIsOpen(MemoryStore):
    """Forgets alerts by their age alone."""

    def prune(self, command):
        for alert in list(self.tables.alerts.values()):
            if alert.state is AlertState.OPEN:
                old = replace(alert, state=AlertState.RESOLVED, resolved_at=alert.seen_at)
                self.tables.alerts[alert.id] = old
        return super().prune(command)


class SpeaksOfTheOrdinary(MemoryStore):
    """Takes a run that waits for its first retry for one that was tried often."""

    def find_trouble(self, command):
        found = super().find_trouble(command)
        (waiting, *_) = [*self.tables.waiting, None]
        if waiting is None or found.tried:
            return found
        run = self.tables.runs[waiting]
        odd = TroubledRun(run.id, run.tenant, "", "", None, None, 1, 0)
        return replace(found, tried=(odd,))


ALERT_DEFECTS = [
    (RaisesWithoutAFence, "test_whoever_has_the_watch_no_more_changes_nothing[taken over]"),
    (RaisesWithoutAFence, "test_whoever_has_the_watch_no_more_changes_nothing[expired]"),
    (DeliversBeside, "test_whoever_has_the_watch_no_more_changes_nothing[expired]"),
    (DeliversBeside, "test_all_changes_are_written_or_none"),
    (ForgetsToDeliver, "test_what_is_raised_is_on_record_with_its_deliveries_and_its_entry"),
    (WatchesWithoutEnd, "test_one_has_the_watch_until_its_time_is_over"),
    (SettlesForAnybody, "test_whoever_has_the_watch_no_more_settles_nothing[taken over]"),
    (WritesEveryLook, "test_a_look_that_arrives_after_the_next_one_changes_nothing"),
    (TellsOfTheEndFirst, "test_an_end_waits_for_its_beginning"),
    (SettlesTwice, "test_a_try_is_settled_once"),
    (DeliversInOneLine, "test_each_channel_has_its_turn"),
    (WaitsForTheFuture, "test_a_clock_that_ran_ahead_delays_no_delivery"),
    (ForgetsWhoTookNote, "test_who_takes_note_of_an_alert_is_on_record"),
    (SilencesForGood, "test_a_silence_is_over_by_itself"),
    (OverwritesUnseen, "test_of_two_who_saw_the_same_one_is_kept"),
    (RepeatsVersions, "test_a_version_is_never_there_twice"),
    (RefusesRepetitions, "test_the_same_word_given_again_is_no_conflict"),
    (PrunesWhatIsOpen, "test_what_was_resolved_long_ago_is_removed"),
    (SpeaksOfTheOrdinary, "test_a_store_where_all_is_well_has_no_trouble"),
]
