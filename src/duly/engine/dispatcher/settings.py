"""DispatcherSettings, and retention as people write it."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING

from duly.domain.enums import RunState
from duly.errors import UsageError
from duly.store.ports.dispatch import MEMBER_TTL_US
from duly.store.ports.maintenance import Retention
from duly.timetable.instants import DAY, SECOND_US, duration_microseconds, duration_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


_MILLISECOND_US = 1000
_DAY_US = DAY * SECOND_US
_KEPT_US: Mapping[str, int] = {
    RunState.SUCCEEDED: 30 * _DAY_US,
    RunState.CANCELLED: 30 * _DAY_US,
    RunState.SKIPPED: 30 * _DAY_US,
    RunState.COALESCED: 30 * _DAY_US,
    RunState.REPLACED: 30 * _DAY_US,
    RunState.EXPIRED: 30 * _DAY_US,
    RunState.HANDED_OVER: 30 * _DAY_US,
    # What went wrong is asked about for longer than what went well.
    RunState.FAILED: 90 * _DAY_US,
    RunState.DISCARDED: 90 * _DAY_US,
}

RETENTION_DEFAULT = Retention(
    outcomes_us=_KEPT_US,
    runs_per_schedule=None,
    skips_us=90 * _DAY_US,
    deleted_schedules_us=30 * _DAY_US,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatcherSettings:
    """How a dispatcher goes about its work; the defaults are right for most."""

    ttl_us: int = MEMBER_TTL_US
    """After this long without a renewal others take our shards."""
    renew_every_us: int = 1500 * _MILLISECOND_US
    """Three renewals fit into a lease, so that one lost answer costs nothing."""
    lease_margin_us: int = 500 * _MILLISECOND_US
    """We stop writing this long before our lease ends by our own count. Courtesy: the fence is what
    keeps a stale owner out."""
    move_every_us: int = 2 * SECOND_US
    move_share: float = 0.25
    """How many of our leases we give up at once when the fleet changes: never all at a blow."""
    acquire_every_us: int = 250 * _MILLISECOND_US
    """How soon we ask again for a lease that is to be ours: until then nobody fires its shard."""

    horizon_us: int = 30 * SECOND_US
    """How far ahead timers are loaded; recurrence arithmetic is done in that time."""
    entries_max: int = 100_000
    """How many timers are held in memory, about 30 MB."""
    load_page: int = 1000
    """How many are read at once: fresh work that falls due meanwhile waits for it."""
    feed_busy_us: int = 250 * _MILLISECOND_US
    feed_idle_us: int = 1 * SECOND_US
    busy_for_us: int = 2 * SECOND_US
    """How long after something happened a dispatcher counts as busy."""
    sweep_every_us: int = 1 * SECOND_US
    sweep_behind_us: int = 50 * _MILLISECOND_US
    """A sweep looks for what is overdue by this much, whatever else went wrong."""
    sweep_waits_us: int = 5 * SECOND_US
    """So long it leaves alone what fell due after the first that we know of and have not fired."""
    sweep_all_every_us: int = 60 * SECOND_US
    """How often it looks for what is overdue since any time, and not since the last sweep."""
    sweep_all_rest: int = 50
    """After one that took long it waits this many times as long: it is a net, and no load."""
    sweep_page: int = 2000
    live_grace_us: int = 60 * SECOND_US
    """What is overdue by more is backlog: it gets what fresh work leaves, and a reserved share."""

    batch_max: int = 1000
    """How many timers one transaction fires: more would hold others up, fewer would cost more."""
    batch_first: int = 256
    """How many the first transaction of a crowd fires, and each that follows twice as many: workers
    begin while the rest is fired."""
    batch_backlog_min: int = 100
    """How many of a batch are kept for the backlog while there is fresh work, too."""
    batches_per_tick: int = 4
    fires_ahead_max: int = 16
    """How many more batches of a crowd are fired in one go, each on its way while what has become
    of the one before it is heard, where the store can do that..."""
    fire_slice_us: int = 100 * _MILLISECOND_US
    """...for this long: then arrivals, the backlog and everything else have their turn."""
    fires_apart_us: int = 3 * _MILLISECOND_US
    """A fire begins so long after the one before it, unless that took all it may: what falls due
    meanwhile goes along, and costs a statement less. What is due alone never waits."""
    busy_retry_us: int = 100 * _MILLISECOND_US
    """When to ask again for a timer that somebody's open transaction holds."""
    set_aside_us: int = 60 * SECOND_US
    """When to try again what failed for a reason of its own."""
    plans_per_tick: int = 200
    plans_per_busy_tick: int = 40
    """How many schedules are read and computed ahead while others are due: a few milliseconds."""
    plan_slice_us: int = 5 * _MILLISECOND_US
    """How long a tick may do recurrence arithmetic ahead of time."""
    definitions_max: int = 200_000
    """How many are kept besides those of timers in memory, up to 1 kB each: who fires more
    schedules than this in turn reads some of them anew."""
    definitions_page: int = 500

    skew_max_us: int = 100 * _MILLISECOND_US
    skew_samples: int = 3
    """One slow answer proves nothing about a clock; so many in a row do."""
    step_max_us: int = 100 * _MILLISECOND_US
    step_hold_us: int = 2 * SECOND_US
    clock_samples: int = 8
    drift_ppm: int = 100
    """How fast a good quartz may drift; a sample is trusted less the older it is."""

    backoff_min_us: int = 50 * _MILLISECOND_US
    backoff_max_us: int = 1 * SECOND_US

    catch_up_per_second: int | None = None
    """How many missed occurrences the fleet makes runs of; None: as many as live work allows,"""
    catch_up_floor_per_second: float = 100
    """and so many at the least."""
    catch_up_turn_us: int = 100 * _MILLISECOND_US
    """So much of the rate is spent at a time: a transaction for each run would cost the most."""
    catch_up_per_range: int = 20
    """How many of one range at a time, so that no schedule waits for another's long backlog."""
    catch_up_ranges_per_tick: int = 8
    catch_up_every_us: int = 2 * SECOND_US
    """How often we look for ranges that others have made owed."""
    catch_up_page: int = 100

    backfills_every_us: int = 5 * SECOND_US
    """How often we look for backfills that somebody has asked for."""
    backfills_max: int = 100
    backfill_reserve_us: int = 1 * SECOND_US
    """At least one backfill gets its turn in this time, however much fresh work there is."""
    backfill_busy_us: int = SECOND_US // 2
    """How long we wait when as many of a backfill's runs are open as may be."""

    resume_every_us: int = 2 * SECOND_US
    resumes_max: int = 50
    gates_every_us: int = 5 * SECOND_US
    gates_max: int = 500
    """How many gates that came free and were not opened are opened at a time."""
    retime_page: int = 500
    retime_every_us: int = 50 * _MILLISECOND_US
    """Between pages of a recomputation, so that firing goes on beside it."""
    reap_every_us: int = 1 * SECOND_US
    """How often we look for claims whose worker is dead,"""
    reap_idle_us: int = 6 * SECOND_US
    """and how often when nothing has happened"""
    reap_busy_for_us: int = 60 * SECOND_US
    """for so long."""
    reap_patience_us: int = 6 * SECOND_US
    """After we have joined, or the store was away, workers have two beats to renew before we judge
    them; after a shorter absence as long as that was, so that a shaky line does not stop us."""
    reap_page: int = 200
    overdue_us: int = 120 * SECOND_US
    """So long after an attempt's time has run out its worker may still be ending it; then we do."""
    prune_every_us: int = 60 * SECOND_US
    prune_more_us: int = 1 * SECOND_US
    prune_limit: int = 1000
    seal_every_us: int = 60 * SECOND_US
    """So long an entry of the audit trail waits for its seal, more or less."""
    seal_more_us: int = 1 * SECOND_US
    seal_limit: int = 1000
    retention: Retention = field(default=RETENTION_DEFAULT)

    def __post_init__(self) -> None:
        """Refuse a limit that is no number or limits everything, and a lease nobody can keep."""
        for one in fields(self):
            value = getattr(self, one.name)
            if one.name == "catch_up_per_second" and value is None:
                continue
            is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if one.name != "retention" and not (is_number and value > 0):
                raise UsageError(one.name, value, "is not a limit", "give a number above 0")
        if self.renew_every_us + self.lease_margin_us >= self.ttl_us:
            remedy = "give at least a renewal and the margin, better three renewals"
            raise UsageError("ttl_us", self.ttl_us, "is too short a lease", remedy)


CATCH_UP_VARIABLE = "DULY_CATCH_UP_PER_SECOND"
CATCH_UP_MAX = 1_000_000
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


def read_catch_up(text: str) -> int:
    """Read how many missed occurrences are made up for in a second."""
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:12]) <= CATCH_UP_MAX):
        remedy = f"give 1 to {CATCH_UP_MAX:,}, or leave it out: as many as live work allows"
        raise UsageError(CATCH_UP_VARIABLE, text, "is not a rate", remedy)
    return int(text)


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
