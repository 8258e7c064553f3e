"""Deliberate defects of watchers, couriers and what is kept of alerts; each must be noticed.

As with the other mutants: where several layers stand against one danger, a mutant says which other
layer it takes away.
"""

from __future__ import annotations

import random
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any
from unittest import mock
from uuid import UUID

from duly.domain import alerts
from duly.domain.alerts import (
    AlertState,
    DeliveryOutcome,
    DeliveryState,
    DetectorResult,
    NoticeKind,
)
from duly.engine.alerts import delivery
from duly.engine.alerts.channels import DeliveryResult
from duly.engine.alerts.delivery import AlertDeliverer
from duly.engine.alerts.schedule_detectors import ScheduleDetector
from duly.engine.alerts.watcher import Watcher
from duly.store import alert_rulings
from duly.store.memory import alerting as memory_alerting
from duly.store.ports.alerts import SettleDelivery
from tests.simulation.mutants import patched
from tests.simulation.simulation import Mutant

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.simulation.world import World

ORIGINAL_APPLY = memory_alerting._apply  # noqa: SLF001 - a mutant is made inside
ORIGINAL_CARRY = AlertDeliverer._carry  # noqa: SLF001 - as above
ORIGINAL_DELIVER = AlertDeliverer._deliver_one  # noqa: SLF001 - as above
ORIGINAL_FADE = alerts._fade  # noqa: SLF001 - as above
ORIGINAL_HOLD = memory_alerting._hold  # noqa: SLF001 - as above
ORIGINAL_IS_WATCHING = alert_rulings.is_watching
ORIGINAL_LOOK = Watcher._look  # noqa: SLF001 - as above
ORIGINAL_NOTICE = delivery.notice_of


# The watch


def _everybody_watches(journal, fence, held_at=None):
    return True


def _watched_at_any_epoch(row, fence, now, held_at=None):
    epoch, *_ = row
    return ORIGINAL_IS_WATCHING(row, fence._replace(epoch=epoch), now, held_at)


def _watched_for_ever(row, fence, now, held_at=None):
    epoch, holder, renewed_at, _ = row
    return (holder, epoch) == fence and held_at in {None, renewed_at}


def _late_looks_count(row, fence, now, held_at=None):
    return ORIGINAL_IS_WATCHING(row, fence, now)


def _taken_from_the_living(journal, command):
    row = memory_alerting.watch_row(journal)
    if row.holder != command.holder:
        journal.put(journal.tables.watch, 0, replace(row, holder=None))
    return ORIGINAL_HOLD(journal, command)


def _same_epoch(journal, command):
    before = memory_alerting.watch_row(journal)
    held = ORIGINAL_HOLD(journal, command)
    if not held.is_held or not before.epoch:
        return held
    row = memory_alerting.watch_row(journal)
    journal.put(journal.tables.watch, 0, replace(row, epoch=before.epoch))
    return replace(held, epoch=before.epoch)


# Decisions


def _sees_everything(self, key):
    return True


def _no_silence(alert, standards, now):
    return False


def _all_hear_of_the_end(alert, standards, now):
    change = ORIGINAL_FADE(alert, standards, now)
    if change is None or change.step is not alerts.AlertTransition.RESOLVED:
        return change
    return replace(change, tells=NoticeKind.RESOLVED, channels=standards.channels)


def _silenced_to_the_end(alert, standards, now):
    """Lets a pager lit that was lit before the silence."""
    change = ORIGINAL_FADE(alert, standards, now)
    if change is None or not alerts._is_silenced(alert, standards, now):  # noqa: SLF001 - as above
        return change
    return replace(change, tells=None, channels=())


def _over_at_once(alert, standards, now):
    return ORIGINAL_FADE(replace(alert, gone_at=0), standards, now)


def _nobody_for_who_is_gone(rule, standards):
    return tuple(one for one in rule.channels or standards.channels if one in standards.channels)


def _told_late_never(alert, standards, now):
    return None


def _blind(self, asked):
    raise TypeError("as by a method that has another parameter now")


def _counts_anew(self, fence, held_at, *, is_whole):
    """Whoever takes the watch begins with what it sees, and not with what is pending."""
    if getattr(self, "known_fence", None) == fence:
        return ORIGINAL_LOOK(self, fence, held_at, is_whole=is_whole)
    self.known_fence = fence
    load = self._store.load_watched

    def load_without_pending():
        watched = load()
        now = watched.now
        alerts = tuple(
            replace(one, seen_at=now) if one.state is AlertState.PENDING else one
            for one in watched.alerts
        )
        return replace(watched, alerts=alerts)

    with mock.patch.object(self._store, "load_watched", load_without_pending):
        return ORIGINAL_LOOK(self, fence, held_at, is_whole=is_whole)


# What is written


@contextmanager
def _deliveries_beside(world: World) -> Iterator[None]:
    """Makes deliveries after the commit, and dies now and then before."""
    draws = random.Random(world.recipe.seed)

    def apply(journal: Any, change: Any) -> None:
        is_dead = draws.random() < 0.1
        ORIGINAL_APPLY(journal, replace(change, tells=None) if is_dead else change)

    with mock.patch.object(memory_alerting, "_apply", apply):
        yield


def _without_entry(journal, change):
    with mock.patch.object(memory_alerting, "AUDITED", {}):
        ORIGINAL_APPLY(journal, change)


def _note_forgotten(journal, change):
    known = journal.tables.alerts.get(change.alert.id)
    ORIGINAL_APPLY(journal, change)
    if known is not None and known.acknowledged_at is not None:
        written = journal.tables.alerts.get(change.alert.id)
        forgotten = replace(written, acknowledged_at=None, acknowledged_by=None)
        journal.put(journal.tables.alerts, change.alert.id, forgotten)


def _ends_overtake(one, begun):
    return True


# Couriers


def _settled_before_it_is_sent(self, fence, due, channels):
    done = DeliveryOutcome(DeliveryState.DONE)
    order = SettleDelivery(fence=fence, id=due.delivery.id, tries=due.delivery.tries, tried=done)
    is_settled = self._store.settle_delivery(order)
    self._send(due, channels.get(due.delivery.channel))
    return is_settled


def _settled_unsent(self, due, config):
    if due.delivery.tries:
        return DeliveryResult(is_done=True)
    return ORIGINAL_SEND(self, due, config)


ORIGINAL_SEND = AlertDeliverer._send  # noqa: SLF001 - as above


@contextmanager
def _another_id_each_time(world: World) -> Iterator[None]:
    draws = random.Random(world.recipe.seed)

    def notice_of(due: Any) -> Any:
        notice = ORIGINAL_NOTICE(due)
        return replace(notice, id=UUID(bytes=draws.randbytes(16))) if due.delivery.tries else notice

    with mock.patch.object(delivery, "notice_of", notice_of):
        yield


def _in_any_order(self, fence, dues, channels):
    """Lets the next sender go where this one is."""
    self._busy.discard(dues[0].delivery.channel)
    ORIGINAL_CARRY(self, fence, dues, channels)


def _tried_once(delivery, result, retry_us, now):
    is_done, _, detail = result
    return alerts.conclude_try(delivery, (is_done, True, detail), retry_us, now)


def _never_tried_again(delivery, result, retry_us, now):
    tried = alerts.conclude_try(delivery, result, retry_us, now)
    return replace(tried, wait_us=tried.wait_us * 100)


in_memory = partial(patched, memory_alerting)
in_decisions = partial(patched, alerts)

WATCH_MUTANTS = (
    Mutant(
        "alerts without a fence", shows_in=3, patch=in_memory("is_watch_ours", _everybody_watches)
    ),
    Mutant(
        "the watch of any epoch", shows_in=10, patch=in_memory("is_watching", _watched_at_any_epoch)
    ),
    Mutant("the watch has no end", shows_in=3, patch=in_memory("is_watching", _watched_for_ever)),
    Mutant("a late look counts", patch=in_memory("is_watching", _late_looks_count)),
    Mutant("the watch taken from the living", patch=in_memory("_hold", _taken_from_the_living)),
    Mutant("the watch keeps its epoch", shows_in=2, patch=in_memory("_hold", _same_epoch)),
    Mutant("resolved while blind", patch=patched(DetectorResult, "covers", _sees_everything)),
    Mutant("a silence is ignored", shows_in=4, patch=in_decisions("_is_silenced", _no_silence)),
    Mutant("a silence never ends", shows_in=4, patch=in_decisions("_tell_late", _told_late_never)),
    Mutant("an end is silenced", shows_in=8, patch=in_decisions("_fade", _silenced_to_the_end)),
    Mutant("all are told of the end", patch=in_decisions("_fade", _all_hear_of_the_end)),
    Mutant(
        "who is gone is nobody",
        shows_in=1,
        patch=in_decisions("_channels", _nobody_for_who_is_gone),
    ),
    Mutant("over at once", patch=in_decisions("_fade", _over_at_once)),
    Mutant("an observer is blind", patch=patched(ScheduleDetector, "observe", _blind)),
    Mutant("a takeover counts anew", shows_in=2, patch=patched(Watcher, "_look", _counts_anew)),
    Mutant("deliveries beside the transaction", shows_in=3, patch=_deliveries_beside),
    Mutant("a change without its entry", patch=in_memory("_apply", _without_entry)),
    Mutant("who took note is forgotten", shows_in=1, patch=in_memory("_apply", _note_forgotten)),
    Mutant(
        "an end overtakes its beginning",
        shows_in=3,
        patch=in_memory("_is_its_turn", _ends_overtake),
    ),
    Mutant(
        "settled before it is sent",
        patch=patched(AlertDeliverer, "_deliver_one", _settled_before_it_is_sent),
    ),
    Mutant("settled, and not sent", patch=patched(AlertDeliverer, "_send", _settled_unsent)),
    Mutant("two at once to one channel", patch=patched(AlertDeliverer, "_carry", _in_any_order)),
    Mutant("another id each time", patch=_another_id_each_time),
    Mutant("tried only once", patch=patched(delivery, "conclude_try", _tried_once)),
    Mutant(
        "tried again far too late",
        patch=patched(delivery, "conclude_try", _never_tried_again),
    ),
)
