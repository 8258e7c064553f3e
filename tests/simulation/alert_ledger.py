"""The ledger of alerts: who has the watch, what is raised, and what is to be delivered to whom."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from duly.domain.alerts import AlertState, DeliveryState, NoticeKind
from tests.simulation.world import Violation

if TYPE_CHECKING:
    from duly.domain.alerts import AlertChange, AlertId, AlertRecord
    from duly.store.ports.alerts import (
        AlertSettingKind,
        AlertSettingRecord,
        RenewWatcherLease,
        Watch,
        WatcherFence,
    )

DeliveryKey = tuple[bytes, str, str]
"""Of which alert, which change of it, and by which channel."""


@dataclass(slots=True)
class WatchNote:
    """Who has the watch."""

    holder: bytes | None = None
    epoch: int = 0
    renewed_at: int = 0
    ttl_us: int = 0

    def is_on(self, now: int) -> bool:
        """Say whether somebody has it: not for longer than it lasts, whichever way clocks go."""
        return self.holder is not None and -self.ttl_us <= now - self.renewed_at < self.ttl_us

    def is_held(self, fence: WatcherFence, now: int) -> bool:
        """Say whether it is somebody's."""
        return self.is_on(now) and (self.holder, self.epoch) == fence


@dataclass(slots=True)
class DeliveryNote:
    """One thing that one channel is to be told."""

    id: bytes
    made_at: int
    state: DeliveryState = DeliveryState.PENDING
    tries: int = 0
    next_at: int = 0
    taken: int = 0
    """How often it has arrived."""


@dataclass(eq=False, slots=True)
class AlertLedger:
    """What is known from commands and answers alone."""

    watch: WatchNote = field(default_factory=WatchNote)
    alerts: dict[AlertId, AlertRecord] = field(default_factory=dict)
    deliveries: dict[DeliveryKey, DeliveryNote] = field(default_factory=dict)
    terms: dict[tuple[AlertSettingKind, str], AlertSettingRecord] = field(default_factory=dict)
    entries: list[tuple[str, bytes]] = field(default_factory=list)
    """What the audit trail must say, and of which alert."""
    refusals: int = 0

    def live(self) -> list[AlertRecord]:
        """Return what is pending or open, by id."""
        found = [one for one in self.alerts.values() if one.state is not AlertState.RESOLVED]
        return sorted(found, key=lambda one: one.id)

    def hold(self, command: RenewWatcherLease, answer: Watch, now: int) -> bool:
        """Take over an answer about the watch; say whether it has changed hands."""
        note = self.watch
        is_free, is_ours = not note.is_on(now), note.holder == command.holder
        if answer.is_held != (is_free or is_ours):
            what = "was taken from the living" if answer.is_held else "is free, and was refused"
            raise Violation(f"V3: the watch {what}")
        if not answer.is_held:
            return False
        is_renewed = is_ours and not is_free
        if answer.epoch != note.epoch + (not is_renewed):
            raise Violation("INV-4: the epoch of the watch grows when it changes hands, and then")
        was_anothers = note.holder not in {None, command.holder}
        self.watch = WatchNote(command.holder, answer.epoch, now, command.ttl_us)
        return was_anothers

    def change(self, change: AlertChange) -> None:
        """Take over a change."""
        alert, step = change.alert, str(change.step)
        known = self.alerts.get(alert.id)
        if step == "forgotten":
            self.alerts.pop(alert.id, None)
            return
        if any(one.key == alert.key and one.id != alert.id for one in self.live()):
            raise Violation(f"V3: there are two alerts about {alert.subject}")
        if known is not None and known.state is AlertState.RESOLVED:
            raise Violation(f"V3: an alert that was resolved is {alert.state} again")
        if known is not None:
            alert = _with_note_of(known, alert)
        self.alerts[alert.id] = alert
        if step in {"raised", "told", "resolved"}:
            self.entries.append((f"alert.{step}", alert.id))

    def beginning(self, key: DeliveryKey) -> DeliveryNote | None:
        """Return what the same channel was to be told of the beginning."""
        return self.deliveries.get((key[0], str(NoticeKind.RAISED), key[2]))


def _with_note_of(known: AlertRecord, alert: AlertRecord) -> AlertRecord:
    """Return an alert with who has taken note of it: a watcher has no say in that."""
    return replace(
        alert,
        acknowledged_at=known.acknowledged_at,
        acknowledged_by=known.acknowledged_by,
        acknowledged_reason=known.acknowledged_reason,
    )
