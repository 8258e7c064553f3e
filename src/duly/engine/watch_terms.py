"""What people have said about alerts, as watchers and channels understand it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duly.domain.alert_channels import ChannelConfig, read_channel
from duly.domain.alert_kinds import AlertKind
from duly.domain.alerting import Silence
from duly.errors import UsageError
from duly.store.alerting import TermSort

if TYPE_CHECKING:
    from collections.abc import Iterable

    from duly.store.alerting import TermRecord

LOG = ChannelConfig(name="log", kind="log", options={})
"""There unless somebody says what else goes by its name: who has set up nothing is told as well."""


def channels_of(terms: Iterable[TermRecord]) -> dict[str, ChannelConfig]:
    """Return the channels there are, by name; one that can't be read is none."""
    found = {LOG.name: LOG}
    for one in terms:
        if one.sort is TermSort.CHANNEL:
            config = channel_of(one)
            if config is not None:
                found[one.name] = config
    return dict(sorted(found.items()))


def channel_names(terms: Iterable[TermRecord]) -> tuple[str, ...]:
    """Return what channels there are called, also those that only a newer program can read.

    What goes there waits for one.
    """
    said = {one.name for one in terms if one.sort is TermSort.CHANNEL}
    return tuple(sorted({LOG.name, *said}))


def channel_of(term: TermRecord) -> ChannelConfig | None:
    """Return a channel as it was said; None if a program that is newer has said it."""
    try:
        return read_channel(term.name, term.terms.get("kind"), term.terms.get("options", {}))
    except UsageError:
        return None


def silence_of(term: TermRecord) -> Silence | None:
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
