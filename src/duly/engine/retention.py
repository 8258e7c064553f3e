"""Retention as people say it: "succeeded=7d", "failed=forever", "runs-per-schedule=1000" (D6)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from duly.domain.durations import duration_microseconds, duration_text
from duly.engine.settings import RETENTION_DEFAULT
from duly.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from duly.store.dispatch import Retention

RETENTION_VARIABLE = "DULY_RETENTION"
FOREVER = "forever"
SKIPS, DELETED, PER_SCHEDULE = "skips", "deleted-schedules", "runs-per-schedule"
RUNS_PER_SCHEDULE_MAX = 1_000_000_000
TERMS_MAX = 100
_OUTCOMES = tuple(str(state) for state in RETENTION_DEFAULT.outcomes_us)
KEPT = (*_OUTCOMES, SKIPS, DELETED, PER_SCHEDULE)


def read_retention(terms: Iterable[str]) -> Retention:
    """Read how long history is kept; what is not said stays as it is by default."""
    found = RETENTION_DEFAULT
    for number, term in enumerate(terms):
        name, equals, text = (part.strip() for part in str(term).partition("="))
        if number >= TERMS_MAX or not equals or name not in KEPT:
            remedy = f"give terms such as succeeded=7d or failed=forever, of {', '.join(KEPT)}"
            raise UsageError("retention", term, "is not known", remedy)
        found = _with(found, name, text)
    return found


def split_terms(text: str) -> tuple[str, ...]:
    """Return the terms of a variable, which commas part."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def retention_terms(retention: Retention) -> dict[str, str]:
    """Write how long each kind of history is kept, as `read_retention` reads it."""
    kept: dict[str, int | None] = {name: retention.outcomes_us.get(name) for name in _OUTCOMES}
    kept |= {SKIPS: retention.skips_us, DELETED: retention.deleted_schedules_us}
    most = retention.runs_per_schedule
    texts = {name: FOREVER if us is None else duration_text(us) for name, us in kept.items()}
    return texts | {PER_SCHEDULE: FOREVER if most is None else str(most)}


def _with(found: Retention, name: str, text: str) -> Retention:
    is_forever = text.lower() == FOREVER
    if name == PER_SCHEDULE:
        return replace(found, runs_per_schedule=None if is_forever else _count(text))
    kept_us = None if is_forever else duration_microseconds(text, f"retention, {name}")
    if kept_us is not None and kept_us <= 0:
        raise UsageError(f"retention, {name}", text, "keeps nothing", "give a time such as 1d")
    if name == SKIPS:
        return replace(found, skips_us=kept_us)
    if name == DELETED:
        return replace(found, deleted_schedules_us=kept_us)
    others = {state: us for state, us in found.outcomes_us.items() if state != name}
    return replace(found, outcomes_us=others | ({} if kept_us is None else {name: kept_us}))


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or not 1 <= int(text[:12]) <= RUNS_PER_SCHEDULE_MAX:
        remedy = f"give 1 to {RUNS_PER_SCHEDULE_MAX:,}, or {FOREVER}"
        raise UsageError(f"retention, {PER_SCHEDULE}", text, "is no number of runs", remedy)
    return int(text)
