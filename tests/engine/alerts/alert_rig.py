"""A watcher and a courier on a store whose time is set by hand, and a channel that keeps what it got."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from duly.domain.alerts import AlertState
from duly.engine.alerts.channels import DeliveryResult
from duly.engine.alerts.delivery import AlertDeliverer
from duly.engine.alerts.watcher import Watcher, WatcherIdentity
from duly.store.ports.alerts import AlertFilter, AlertSettingKind, SetAlertSetting
from duly_conformance.kit import ADA
from tests.engine.rig import Recorder

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import apsw

    from duly.domain.alert_messages import AlertNotice
    from duly.domain.alerts import AlertRecord
    from duly.store.sqlite import SqliteStore

LOOK = "15s"


class Pigeonhole:
    """A channel of the test's own: keeps notices, and answers as it is told."""

    def __init__(self) -> None:
        self.notices: list[AlertNotice] = []
        self.answers: list[DeliveryResult | Exception] = []

    def deliver(self, notice: AlertNotice) -> DeliveryResult:
        self.notices.append(notice)
        answer = self.answers.pop(0) if self.answers else DeliveryResult(is_done=True)
        if isinstance(answer, Exception):
            raise answer
        return answer

    @property
    def told(self) -> list[tuple[str, str, str]]:
        return [(one.change, one.kind, one.subject) for one in self.notices]


@dataclass
class GuardRoom:
    """One process that watches and delivers."""

    store: Any
    clock: Any
    holder: bytes = b"w" * 16
    detectors: Sequence[Any] | None = None
    channel: Pigeonhole = field(default_factory=Pigeonhole)
    recorder: Recorder = field(default_factory=Recorder)

    def __post_init__(self) -> None:
        self.watcher = Watcher(
            self.store,
            self.clock,
            WatcherIdentity(holder=self.holder),
            detectors=self.detectors,
            telemetry=self.recorder,
        )
        self.courier = AlertDeliverer(
            self.store, self.clock, lambda _: self.channel, telemetry=self.recorder
        )
        self.courier.fence = self.watcher.fence_in_time

    def look(self, times: int = 1, after: str = LOOK) -> None:
        """Let time pass, look, and deliver; so often."""
        for _ in range(times):
            self.clock.advance(after)
            self.watcher.tick()
            self.courier.tick()

    def alerts(self, kind: str | None = None, *, is_open: bool = True) -> list[AlertRecord]:
        """Return alerts of a kind, open ones unless told."""
        states = frozenset({AlertState.OPEN}) if is_open else None
        found = self.store.list_alerts(AlertFilter(states=states))
        return [one for one in found if kind in {None, str(one.kind)}]

    def subjects(self, kind: str | None = None) -> list[str]:
        """Return what open alerts of a kind are about."""
        return sorted(one.subject for one in self.alerts(kind))

    def told(self, kind: str) -> list[tuple[str, str]]:
        """Return what the channel was told of a kind, in order."""
        return [(change, subject) for change, one, subject in self.channel.told if one == kind]

    def rule(self, kind: str, **terms: Any) -> None:
        """Set the rule of a kind."""
        said = {"name": kind, "kind": kind, **terms}
        self.store.set_alert_term(
            SetAlertSetting(sort=AlertSettingKind.RULE, name=kind, terms=said, actor=ADA)
        )

    def silence(self, name: str, for_us: int, **terms: Any) -> None:
        """Silence alerts for a while."""
        until = self.clock.now_us() + for_us
        order = SetAlertSetting(
            sort=AlertSettingKind.SILENCE, name=name, terms=terms, until=until, actor=ADA
        )
        self.store.set_alert_term(order)


@contextmanager
def raw_sqlite(store: SqliteStore) -> Iterator[apsw.Connection]:
    """Lend the connection of a store, for what only another program would write."""
    with store._connections.raw() as connection:  # noqa: SLF001 - no order of ours writes it
        yield connection
