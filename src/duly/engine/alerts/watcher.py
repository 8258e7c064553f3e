"""Holds the watch, runs the detectors, writes changes of alerts.

`Watcher` is a service: a tick is one look, and returns when the next one is due. A detector that
goes round over schedules does a part in each look. While its round is not over, extra looks in
between continue that round and do nothing else. This spreads the work over time and delays no
dispatcher.

One process holds the watch at a time; the others only ask for it. A watcher needs no worker, no
dispatcher and no shard.

What happens when
- the watcher dies before it has written: nothing was decided; the next watcher sees the same and
  decides the same;
- it dies after the write: the alert is recorded together with its deliveries, which wait for the
  next deliverer;
- the answer to its write is lost: the next look finds the alert open, and raises none;
- its write arrives late, after the watcher has looked again: the store refuses it and records
  that;
- it was only paused, and another process holds the watch: the store refuses its whole write and
  records that;
- the store is away: nothing is known, so no alert is raised and none is resolved;
- a detector cannot read its part: the alerts of that part stay as they were;
- it cannot look at all, because of a defect of its own: it gives up the watch and lets other
  processes try first.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from duly.domain.alert_channels import ChannelConfig, read_channel
from duly.domain.alert_rules import AlertKind, Rulebook, rule_from_json
from duly.domain.alerts import AlertPolicy, AlertTransition, DetectorResult, Silence, decide, joined
from duly.engine.alerts.fleet_detectors import (
    AmbiguousRunDetector,
    DestinationDetector,
    FleetDetector,
    QueueDetector,
    TroubleDetector,
)
from duly.engine.alerts.schedule_detectors import (
    DetectorContext,
    MissingDetector,
    PausedDetector,
    RotatingDetector,
    ScheduleDetector,
)
from duly.errors import STORE_AWAY, DulyError, UsageError
from duly.store.ports.alerts import (
    NOTES_LENGTH_MAX,
    WATCH_TTL_US,
    AlertSettingKind,
    ApplyAlerts,
    RenewWatcherLease,
    WatcherFence,
)
from duly.store.ports.auth import sees_everything
from duly.telemetry import (
    AlertRaised,
    AlertResolved,
    DetectorFailed,
    NullTelemetry,
    WatchLost,
    WatchTaken,
)
from duly.timetable.instants import SECOND_US

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from duly.clock import Clock
    from duly.domain.alert_rules import Rule
    from duly.domain.alerts import AlertChange
    from duly.engine.alerts.schedule_detectors import Detector
    from duly.store.ports import Store
    from duly.store.ports.alerts import AlertSettingRecord, Watched
    from duly.store.ports.queries import StoreStatus
    from duly.telemetry import Telemetry


LOG = ChannelConfig(name="log", kind="log", options={})
"""There unless somebody says what else goes by its name: who has set up nothing is told as well."""


def channels_of(terms: Iterable[AlertSettingRecord]) -> dict[str, ChannelConfig]:
    """Return the channels there are, by name; one that can't be read is none."""
    found = {LOG.name: LOG}
    for one in terms:
        if one.sort is AlertSettingKind.CHANNEL:
            config = channel_of(one)
            if config is not None:
                found[one.name] = config
    return dict(sorted(found.items()))


def channel_names(terms: Iterable[AlertSettingRecord]) -> tuple[str, ...]:
    """Return what channels there are called, also those that only a newer program can read.

    What goes there waits for one.
    """
    said = {one.name for one in terms if one.sort is AlertSettingKind.CHANNEL}
    return tuple(sorted({LOG.name, *said}))


def channel_of(term: AlertSettingRecord) -> ChannelConfig | None:
    """Return a channel as it was said; None if a program that is newer has said it."""
    try:
        return read_channel(term.name, term.terms.get("kind"), term.terms.get("options", {}))
    except UsageError:
        return None


def silence_of(term: AlertSettingRecord) -> Silence | None:
    """Return a silence as it was said; None if it names kinds that nobody here knows, alone."""
    said: list[Any] = list(term.terms.get("kinds") or ())
    kinds = frozenset(AlertKind(one) for one in said if one in list(AlertKind))
    if said and not kinds:
        return None
    return Silence(
        id=term.name,
        tenant=term.tenant or None,
        kinds=kinds,
        subject=term.terms.get("subject"),
        until=term.until or 0,
    )


RESTS = 2
"""How many looks are left to others by one who could not look: each of them asks in that time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatcherSettings:
    """How often somebody looks."""

    every_us: int = 15 * SECOND_US
    """Often enough to be told within half a minute, seldom enough to cost nothing."""
    ttl_us: int = WATCH_TTL_US
    """After this long without a look another one watches."""
    retry_us: int = 5 * SECOND_US
    """After the store was away."""
    round_us: int = SECOND_US // 20
    """How long who goes round over schedules does so in one look: the next one goes on there,"""
    goes_on_us: int = SECOND_US
    """and comes after this long, as long as the round is not over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatcherIdentity:
    """Who a watcher is."""

    holder: bytes
    """Sixteen bytes that nobody else has drawn."""
    name: str = "local"
    """Its host and process, for people."""


def usual_detectors() -> tuple[Detector, ...]:
    """Return all who look."""
    return (
        FleetDetector(),
        QueueDetector(),
        DestinationDetector(),
        AmbiguousRunDetector(),
        TroubleDetector(),
        ScheduleDetector(),
        MissingDetector(),
        PausedDetector(),
    )


class Watcher:
    """Looks, decides, writes."""

    def __init__(  # noqa: PLR0913 - what it works with, each replaceable
        self,
        store: Store,
        clock: Clock,
        watchman: WatcherIdentity,
        settings: WatcherSettings | None = None,
        *,
        detectors: Sequence[Detector] | None = None,
        telemetry: Telemetry | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._watchman = watchman
        self._settings = settings or WatcherSettings()
        self._detectors = usual_detectors() if detectors is None else tuple(detectors)
        self._telemetry = telemetry or NullTelemetry()
        self._notes: dict[str, Any] | None = None
        self._rests_until = 0
        self._looks_at = 0
        """When all detectors look again, on the monotonic clock."""
        self._going_round: list[Detector] = []
        """Who goes on before that, because its round is not over."""
        self._status: StoreStatus | None = None
        self.fence: WatcherFence | None = None
        """Under which it writes; None while another watches."""
        self._held_until = 0
        self.on_told: Callable[[], None] = _nobody

    def tick(self) -> int:
        """Look once, if the watch is ours; return when to look again, on the monotonic clock."""
        try:
            wait_us = self._watch()
        except STORE_AWAY:
            wait_us = self._settings.retry_us
        return self._clock.monotonic_us() + wait_us

    def fence_in_time(self) -> WatcherFence | None:
        """Return the fence while the watch is ours by our own count: for who delivers under it.

        A courtesy: who was held up, and may have been replaced, sends nothing twice. What it writes
        would be refused in any case.
        """
        return self.fence if self._clock.monotonic_us() < self._held_until else None

    def wake(self) -> None:
        """Nothing is so urgent that it could not wait for the next look."""

    def stop(self) -> None:
        """Give up the watch, so that another has it at once."""
        fence, self.fence = self.fence, None
        if fence is not None:
            with suppress(DulyError):
                self._store.release_watch(fence)

    def _watch(self) -> int:
        settings, watchman = self._settings, self._watchman
        rest_us = self._rests_until - self._clock.monotonic_us()
        if rest_us > 0:
            return rest_us
        self._store.now()
        if not sees_everything(self._store):
            # Whoever is shown one tenant's would find that all is well.
            return settings.every_us
        notes = None if self._notes is None else _notes_text(self._notes)
        asked_at = self._clock.monotonic_us()
        held = self._store.hold_watch(
            RenewWatcherLease(
                holder=watchman.holder, name=watchman.name, ttl_us=settings.ttl_us, notes=notes
            )
        )
        if not held.is_held:
            self._lose()
            return min(settings.every_us, max(held.until - held.now, SECOND_US))
        self._held_until = asked_at + settings.ttl_us
        fence = WatcherFence(watchman.holder, held.epoch)
        if fence != self.fence:
            self.fence, self._notes = fence, _read_notes(held.notes)
            self._looks_at = 0
            self._telemetry.emit(WatchTaken(member=0, epoch=held.epoch))
        is_whole = asked_at >= self._looks_at
        try:
            self._look(fence, held.now, is_whole=is_whole)
        except STORE_AWAY:
            raise
        except Exception:
            # Whoever holds on to the watch and sees nothing would keep from it who can.
            self._rests_until = self._clock.monotonic_us() + RESTS * settings.every_us
            self.stop()
            raise
        if is_whole:
            self._looks_at = self._clock.monotonic_us() + settings.every_us
        rest_us = self._looks_at - self._clock.monotonic_us()
        return min(settings.goes_on_us, rest_us) if self._going_round else rest_us

    def _look(self, fence: WatcherFence, held_at: int, *, is_whole: bool) -> None:
        watched = self._store.load_watched()
        seen = self._observe(watched, is_whole=is_whole)
        changes = decide(watched.alerts, seen, standards_of(watched.terms), watched.now)
        if not changes:
            return
        order = ApplyAlerts(fence=fence, held_at=held_at, changes=tuple(changes))
        if not self._store.apply_alerts(order):
            self._lose()
            return
        for change in changes:
            self._tell(change)
        if any(change.channels for change in changes):
            self.on_told()

    def _observe(self, watched: Watched, *, is_whole: bool) -> DetectorResult:
        detectors = self._detectors if is_whole else tuple(self._going_round)
        asked = DetectorContext(
            store=self._store,
            status=self._read_status(watched.now, is_whole=is_whole),
            alerts=watched.alerts,
            notes={} if self._notes is None else self._notes,
            with_suspects=is_whole,
        )
        found: list[DetectorResult] = []
        self._going_round.clear()
        for detector in detectors:
            until = self._clock.monotonic_us() + self._settings.round_us
            try:
                found.append(
                    detector.observe(replace(asked, is_time_up=partial(self._is_over, until)))
                )
            except STORE_AWAY:
                raise
            except Exception as error:  # noqa: BLE001 - one who fails must not blind the others
                name = type(detector).__name__
                event = DetectorFailed(member=0, observer=name, problem=repr(error))
                self._telemetry.emit(event)
                continue
            if isinstance(detector, RotatingDetector) and not detector.is_round_over:
                self._going_round.append(detector)
        return joined(found)

    def _read_status(self, now: int, *, is_whole: bool) -> StoreStatus:
        """Return how the store is doing; who only goes on asks for the time alone."""
        if is_whole or self._status is None:
            self._status = self._store.status()
            return self._status
        return replace(self._status, now=now)

    def _is_over(self, until: int) -> bool:
        return self._clock.monotonic_us() >= until

    def _lose(self) -> None:
        fence, self.fence, self._notes = self.fence, None, None
        if fence is not None:
            self._telemetry.emit(WatchLost(member=0, epoch=fence.epoch))

    def _tell(self, change: AlertChange) -> None:
        alert = change.alert
        about = {"kind": str(alert.kind), "subject": alert.subject, "tenant": alert.tenant}
        if change.step is AlertTransition.RAISED:
            severity = str(alert.severity)
            event = AlertRaised(member=0, **about, severity=severity, summary=alert.summary)
            self._telemetry.emit(event)
        elif change.step is AlertTransition.RESOLVED:
            self._telemetry.emit(AlertResolved(member=0, **about))


def standards_of(terms: Sequence[AlertSettingRecord]) -> AlertPolicy:
    """Return what alerts are judged by, from what people have said; what can't be read is not."""
    rules: list[Rule] = []
    for one in terms:
        if one.sort is AlertSettingKind.RULE:
            # A newer program may have said what this one does not know.
            with suppress(UsageError, KeyError, TypeError):
                rules.append(rule_from_json(one.terms))
    silences = [silence_of(one) for one in terms if one.sort is AlertSettingKind.SILENCE]
    return AlertPolicy(
        rules=Rulebook(rules),
        silences=tuple(one for one in silences if one is not None),
        channels=channel_names(terms),
    )


def _notes_text(notes: dict[str, Any]) -> str:
    text = json.dumps(notes, separators=(",", ":"), sort_keys=True)
    return text if len(text) <= NOTES_LENGTH_MAX else "{}"


def _read_notes(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text) if text else {}
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _nobody() -> None:
    """Tell nobody."""
