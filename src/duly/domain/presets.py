"""Presets: policies that belong together, by the kind of work they are for (E1).

A preset fills in what nobody has said; what is said wins. A schedule keeps the policies themselves,
and the name beside them, so that a later release that thinks better of a preset changes no schedule
that exists. `never-twice` says what the task's effects are: what has begun one is not tried again
by itself, what has not is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from duly.domain.literals import Effects, Overlap
from duly.domain.misfire import Misfire
from duly.domain.retrying import Retry
from duly.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

NO_PRESET = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """Policies of schedules and of tasks, for one kind of work."""

    words: str
    """For which work it is."""
    misfire: Misfire
    overlap: Overlap
    retry: Retry
    effects: Effects = Effects.IDEMPOTENT


PRESETS: Mapping[str, Preset] = {
    "best-effort": Preset(
        words="worth doing on time or not at all: a heartbeat, a sample, a clean-up",
        misfire=Misfire("skip"),
        overlap=Overlap.SKIP,
        retry=Retry(1),
    ),
    "refresh": Preset(
        words="only the newest state counts: a cache, an index, a copy",
        misfire=Misfire("latest"),
        overlap=Overlap.COALESCE,
        retry=Retry(3, base="5s", cap="1m"),
    ),
    "one-result": Preset(
        words="every occurrence owes its own result: a close, a statement, a duty report",
        misfire=Misfire("all", not_older=None),
        overlap=Overlap.QUEUE_ALL,
        retry=Retry(20, base="30s", cap="1h"),
    ),
    "serialized": Preset(
        words="runs that touch the same thing go one after the other: an account, a device",
        misfire=Misfire("all"),
        overlap=Overlap.SERIALIZE,
        retry=Retry(),
    ),
    "never-twice": Preset(
        words="never tried again once its effect has begun; a person decides: a payment, a letter",
        misfire=Misfire("all"),
        overlap=Overlap.QUEUE_ALL,
        retry=Retry(),
        effects=Effects.UNSAFE,
    ),
}


def read_preset(value: object) -> Preset:
    """Read the name of a preset."""
    if isinstance(value, str) and value in PRESETS:
        return PRESETS[value]
    remedy = f"use one of {', '.join(PRESETS)}"
    raise UsageError("preset", value, "is not a preset", remedy)


def with_preset(policies: Mapping[str, Any]) -> dict[str, Any]:
    """Return policies of a schedule with what its preset says about those that nobody has named."""
    name = policies.get("preset")
    given = {key: value for key, value in policies.items() if value is not None}
    if name is None:
        return given
    if name == NO_PRESET:
        return {**given, "preset": None}
    preset = read_preset(name)
    filled: dict[str, Any] = {"misfire": preset.misfire}
    if "serialize_by" not in given:
        filled["overlap"] = preset.overlap
    return filled | given
