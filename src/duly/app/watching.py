"""Watching beside something else: two threads that look for trouble and deliver alerts (V3).

They run in the process of a dispatcher and in that of a server, so that somebody watches as long as
either is there; one of all has the watch. Neither thread is ever waited for by who fires or serves.
"""

from __future__ import annotations

import os
import socket
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from duly.clock import SystemClock
from duly.domain.alert_kinds import AlertKind, Severity
from duly.domain.alert_messages import AlertNotice
from duly.domain.alerting import Told
from duly.domain.web_addresses import read_allow_list
from duly.draws import SystemDraws
from duly.engine.alert_courier import AlertCourier
from duly.engine.loop import Loop
from duly.engine.notifying import ChannelSurroundings, open_channel
from duly.engine.senders import Senders
from duly.engine.watcher import Watcher, Watchman
from duly.store.wakeups import LocalWakeups
from duly.telemetry import NullTelemetry

if TYPE_CHECKING:
    from collections.abc import Iterator
    from uuid import UUID

    from duly.app.application import App
    from duly.clock import Clock
    from duly.domain.alert_channels import ChannelConfig
    from duly.engine.notifying import Channel
    from duly.engine.watcher import WatcherSettings
    from duly.telemetry import Telemetry

END_SECONDS = 5.0
"""How long a delivery that is under way is waited for at the end; the next watcher repeats it."""


@contextmanager
def watching(
    app: App, telemetry: Telemetry | None = None, settings: WatcherSettings | None = None
) -> Iterator[None]:
    """Watch the store of an application and deliver its alerts, until the block ends."""
    clock, heard = SystemClock(), telemetry or NullTelemetry()
    name = f"{socket.gethostname()}, process {os.getpid()}"
    watchman = Watchman(holder=SystemDraws().draw(16), name=name)
    watcher = Watcher(app.store, clock, watchman, settings, telemetry=heard)
    senders = Senders(heard)
    courier = make_courier(app, clock, heard, senders)
    courier.fence = watcher.fence_in_time
    places = (LocalWakeups(), LocalWakeups())
    watcher.on_told = courier.on_done = places[1].wake
    loops = (
        Loop(watcher, places[0], clock, heard),
        Loop(courier, places[1], clock, heard),
    )
    # They end with the process, whatever they wait for: what is pending is in the store.
    threads = [
        threading.Thread(target=loop.run, name=f"duly-{name}", daemon=True)
        for loop, name in zip(loops, ("watcher", "alerts"), strict=True)
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        # The watch is given up last: what is being sent is settled under it, and not sent twice.
        loops[1].stop()
        threads[1].join(END_SECONDS)
        senders.wait(END_SECONDS)
        loops[0].stop()
        threads[0].join(END_SECONDS)


def make_courier(
    app: App, clock: Clock, telemetry: Telemetry | None = None, senders: Senders | None = None
) -> AlertCourier:
    """Return who delivers an application's alerts: in threads, or one after the other."""
    surroundings = channel_surroundings(app, clock)

    def opened(config: ChannelConfig) -> Channel:
        return open_channel(config, surroundings)

    start = None if senders is None else senders.start
    return AlertCourier(app.store, clock, opened, telemetry, start=start)


def try_channel(app: App, config: ChannelConfig, identity: UUID) -> tuple[bool, str]:
    """Send a notice that is marked as a test by a channel; say whether it was taken, or why not."""
    clock = SystemClock()
    now = clock.now()
    notice = AlertNotice(
        id=identity,
        alert_id=identity,
        kind=str(AlertKind.NO_EXECUTIONS),
        change=str(Told.RAISED),
        severity=str(Severity.WARN),
        tenant="",
        subject="store",
        summary=f"this is a test of the channel {config.name}: nothing is wrong",
        remedy="nothing is to be done",
        evidence={"test": True},
        since=now,
        at=now,
    )
    result = open_channel(config, channel_surroundings(app, clock)).deliver(notice)
    return result.is_done, result.detail


def channel_surroundings(app: App, clock: Clock) -> ChannelSurroundings:
    """Return what channels may read and reach, by an application's settings."""
    return ChannelSurroundings(
        read_secret=app.secret_sources().read,
        clock=clock,
        allow=read_allow_list(app.settings.allow_addresses),
    )
