"""What watchers tell: who watches, what is raised and resolved, and what could not be delivered."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import ClassVar

from duly.telemetry.events import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchTaken(Event):
    """This process watches for all from now on."""

    name: ClassVar[str] = "watch-taken"
    level: ClassVar[int] = logging.DEBUG
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchLost(Event):
    """Another process watches; what this one had decided was refused."""

    name: ClassVar[str] = "watch-lost"
    level: ClassVar[int] = logging.WARNING
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertRaised(Event):
    """An alert is open; channels are told, unless it is silenced."""

    name: ClassVar[str] = "alert-raised"
    level: ClassVar[int] = logging.WARNING
    kind: str
    severity: str
    subject: str
    tenant: str
    summary: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertResolved(Event):
    """What an alert was about is over."""

    name: ClassVar[str] = "alert-resolved"
    kind: str
    subject: str
    tenant: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ObserverFailed(Event):
    """Some part of the store could not be looked at: what is known of it stays as it was."""

    name: ClassVar[str] = "observer-failed"
    level: ClassVar[int] = logging.ERROR
    observer: str
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryFailed(Event):
    """A channel did not take an alert; it is tried again, unless it was given up."""

    name: ClassVar[str] = "alert-delivery-failed"
    level: ClassVar[int] = logging.WARNING
    channel: str
    delivery: str
    tries: int
    is_given_up: bool
    problem: str
