"""Late, stale, missing, paused, overlapping schedules; the Detector protocol.

A detector reads what operators can read as well: the state of the store, queues, breakers,
ambiguous runs, schedules. It returns conditions; rules elsewhere decide whether a condition is an
alert.

A `RotatingDetector` examines some pages of schedules in each look, plus the schedules that alerts
are about, so a look stays bounded however many schedules exist. The next look continues where the
last one ended, and after the last schedule with the first.

`MissingDetector` does not report an occurrence that no dispatcher has fired yet: it is late, not
missing, and `fleet_detectors` reports that once. An occurrence whose record retention has removed
is unknown, and no alert.

`PausedDetector` reports a schedule that was paused because its task's code, the receiver of its
calls or its owner is gone. A schedule that a person paused for another reason was paused on
purpose, and is no alert.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from shlex import quote
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from duly.domain.alert_rules import AlertKind
from duly.domain.alerts import AlertKey, Condition, DetectorResult
from duly.domain.enums import Overlap, ScheduleStatus
from duly.domain.missing_occurrences import MissingCause
from duly.domain.quotas import OWNER_GONE
from duly.domain.runs import RECEIVER_GONE, TASK_GONE
from duly.domain.schedules import jitter_offset_us, tenant_option
from duly.domain.vitals import BEHIND_MAX, RUN_TIMES_LOOKED_AT, count_behind, run_times
from duly.store.derived_queries import MissingFilter, Reach, find_missing, read_signs
from duly.store.ports.queries import ScheduleFilter
from duly.timetable.instants import DAY, HOUR, MINUTE, SECOND_US, from_microseconds, utc_text

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from duly.domain.alerts import AlertRecord
    from duly.domain.ids import ScheduleId
    from duly.domain.schedules import ScheduleRecord
    from duly.domain.vitals import RunSpan, Signs
    from duly.store.derived_queries import MissingPage, Place
    from duly.store.ports import Store
    from duly.store.ports.queries import StoreStatus


SUBJECTS_MAX = 50
"""How many things of one kind are told one by one."""


def _never() -> bool:
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectorContext:
    """What a detector works with, read for all of them."""

    store: Store
    status: StoreStatus
    alerts: tuple[AlertRecord, ...] = ()
    """Pending and open: what these are about is to be looked at again."""
    notes: dict[str, Any] = field(default_factory=dict)
    """What watchers have learnt so far; a detector may put something in under its own name."""
    is_time_up: Callable[[], bool] = _never
    """Whether whoever goes round has done enough for one look."""
    with_suspects: bool = True
    """Whether what alerts are about is looked at again: not by those who only go on."""

    @property
    def now(self) -> int:
        """The store's time."""
        return self.status.now


class Detector(Protocol):
    """Whoever looks at some part of the store."""

    def observe(self, asked: DetectorContext) -> DetectorResult:
        """Say what is so, and how far was looked; reads only."""
        ...


@runtime_checkable
class RotatingDetector(Protocol):
    """A detector that looks at a part each time, and goes on behind it."""

    @property
    def is_round_over(self) -> bool:
        """Whether the next part is the first one again."""
        ...


SUBJECT = "schedule "
"""How the subject of such an alert begins; its name follows."""
PAGE = 100
"""How many schedules are asked about at once: some 20 ms, whoever fires beside it."""
SCHEDULES_MAX = 1_500
"""How many are looked at in one go, if that is quick."""


class SchedulePages:
    """Goes round over the schedules of a status, page by page; behind the last comes the first."""

    def __init__(self, status: ScheduleStatus) -> None:
        self._statuses = frozenset({status})
        self._after: tuple[str, str, ScheduleId] | None = None

    @property
    def is_over(self) -> bool:
        """Whether the next page is the first one again."""
        return self._after is None

    def next_page(self, store: Store, limit: int) -> list[ScheduleRecord]:
        """Return some more."""
        command = ScheduleFilter(
            tenant=None, statuses=self._statuses, after=self._after, limit=limit
        )
        found = store.list_schedules(command)
        last = found[-1] if len(found) == limit else None
        self._after = None if last is None else (last.tenant, last.name, last.id)
        return found


def find_suspects(
    asked: DetectorContext, kinds: Collection[AlertKind]
) -> dict[tuple[str, str], ScheduleRecord | None]:
    """Return the schedules that alerts are about, by tenant and name; None for one that is gone.

    Of more than are told one by one, others each time.
    """
    if not asked.with_suspects:
        return {}
    about = list(
        dict.fromkeys(
            (one.tenant, one.subject.removeprefix(SUBJECT))
            for one in asked.alerts
            if one.kind in kinds and one.subject.startswith(SUBJECT)
        )
    )
    most = SUBJECTS_MAX * len(kinds)
    first = asked.now // SECOND_US % len(about) if len(about) > most else 0
    found: dict[tuple[str, str], ScheduleRecord | None] = {}
    for tenant, name in (about[first:] + about[:first])[:most]:
        seen = asked.store.find_schedule(tenant, name)
        found[tenant, name] = None if seen is None else seen.record
    return found


def told_one_by_one(asked: DetectorContext, conditions: Sequence[Condition]) -> list[Condition]:
    """Return what is known already and, of each kind, the worst of the rest: so many and no more.

    Whoever has ten thousand schedules that stopped at once needs no ten thousand messages.
    """
    known = {one.key for one in asked.alerts}
    room = Counter(dict.fromkeys(AlertKind, SUBJECTS_MAX))
    room.subtract(one.kind for one in asked.alerts)
    told = [one for one in conditions if one.key in known]
    for one in sorted(conditions, key=lambda one: -one.value):
        if one.key not in known and room[one.kind] > 0:
            room[one.kind] -= 1
            told.append(one)
    return told


def schedule_condition(  # noqa: PLR0913, PLR0917 - the parts of a condition
    record: ScheduleRecord,
    kind: AlertKind,
    value: float,
    since: int,
    words: tuple[str, str],
    evidence: dict[str, object],
) -> Condition:
    """Say something of a schedule: what is so, and what to do."""
    call = record.definition.call
    return Condition(
        kind=kind,
        tenant=record.tenant,
        subject=f"{SUBJECT}{record.name}",
        value=value,
        since=since,
        summary=words[0],
        remedy=words[1],
        evidence=evidence,
        labels={"schedule": record.name, "task": call.task, "queue": call.queue},
    )


def command_name(record: ScheduleRecord) -> str:
    """Write a schedule as a command is told it: others may have one of the same name."""
    return f"{quote(record.name)}{tenant_option(record.tenant)}"


def instant_text(instant: int) -> str:
    """Write an instant for people, in UTC."""
    return utc_text(from_microseconds(instant))


SLOTS_MAX = 2_500
"""How many occurrences are asked about at once: at least one schedule is looked at whole."""
SLOTS_LOOKED_AT_MAX = 20_000
"""And in one go; those that fire every minute take longer to go round."""
LOOKED_BACK_US = HOUR * SECOND_US
LOOKED_BACK_MAX_US = DAY * SECOND_US
"""How far a look reaches where it takes longer to go round."""
TOLD_MAX = 20
"""Of so many occurrences the instants are told."""
MISSING_KINDS = (AlertKind.MISSING_RUN,)


class MissingDetector:
    """Looks for occurrences without a record, page by page."""

    def __init__(self, page: int = PAGE, most: int = SCHEDULES_MAX) -> None:
        self._page = page
        self._most = most
        self._after: Place | None = None
        self._rounds_from: tuple[int, int] | None = None
        """When the round before this one began, and this one."""

    @property
    def is_round_over(self) -> bool:
        """Whether all were looked at."""
        return self._after is None

    def observe(self, asked: DetectorContext) -> DetectorResult:
        """Say what is missing, of some pages and of those that alerts are about."""
        suspects = find_suspects(asked, MISSING_KINDS)
        since = self._since(asked.now)
        pages = self._next_pages(asked, since)
        seen = {one.id for page in pages for one in page.looked_at}
        for record in suspects.values():
            if record is not None and record.id not in seen:
                alone = MissingFilter(since=since, schedule_id=record.id, slots_max=SLOTS_MAX)
                pages.append(find_missing(asked.store, alone))
        names = {(one.tenant, one.name) for page in pages for one in page.looked_at}
        return DetectorResult(
            conditions=tuple(
                told_one_by_one(asked, [one for page in pages for one in _missing_conditions(page)])
            ),
            keys=frozenset(
                AlertKey(AlertKind.MISSING_RUN, tenant, f"{SUBJECT}{name}")
                for tenant, name in names | suspects.keys()
            ),
        )

    def _next_pages(self, asked: DetectorContext, since: int) -> list[MissingPage]:
        """Go on to look, until the round is over or enough was done for now."""
        pages: list[MissingPage] = []
        looked = slots = 0
        while looked < self._most and slots < SLOTS_LOOKED_AT_MAX:
            command = MissingFilter(
                since=since,
                after=self._after,
                schedules_max=min(self._page, self._most - looked),
                slots_max=SLOTS_MAX,
            )
            page = find_missing(asked.store, command)
            pages.append(page)
            self._after = page.after
            looked, slots = looked + page.schedules, slots + page.slots
            if self._after is None or asked.is_time_up():
                break
        return pages

    def _since(self, now: int) -> int:
        """Return from when on: what fell due since a schedule was last looked at is always in."""
        if self._after is None:
            self._rounds_from = (self._rounds_from[1] if self._rounds_from else now, now)
        assert self._rounds_from is not None, "a round has begun"
        wanted = min(now - LOOKED_BACK_US, self._rounds_from[0])
        return max(wanted, now - LOOKED_BACK_MAX_US)


def _missing_conditions(page: MissingPage) -> list[Condition]:
    gone: dict[ScheduleId, tuple[ScheduleRecord, list[int]]] = {}
    for one in page.found:
        if one.slot.cause is MissingCause.UNRECORDED:
            of_one = gone.setdefault(one.record.id, (one.record, []))
            of_one[1].append(one.slot.scheduled_for)
    return [_missing(record, instants) for record, instants in gone.values()]


def _missing(record: ScheduleRecord, instants: list[int]) -> Condition:
    first = instants[0]
    count = "1 occurrence" if len(instants) == 1 else f"{len(instants):,} occurrences"
    what = f"{count} of schedule {record.name} without any record"
    return schedule_condition(
        record,
        AlertKind.MISSING_RUN,
        float(len(instants)),
        first,
        (
            f"{what}, the first of {instant_text(first)}",
            f"duly run missing --schedule {command_name(record)}; duly db check",
        ),
        {"missing": [instant_text(one) for one in instants[:TOLD_MAX]]},
    )


PAUSED_KINDS = (AlertKind.SCHEDULE_PAUSED,)
REMEDIES = {
    TASK_GONE: "start a worker that has the code, then duly schedule resume {name}",
    RECEIVER_GONE: "see whether the address is right: duly schedule show {name}; then"
    " duly schedule resume {name}, or delete it",
    OWNER_GONE: "give it to somebody: duly schedule edit {name} --owner WHO, then"
    " duly schedule resume {name}; or delete it",
}
"""What to do, by how the reason begins."""


class PausedDetector:
    """Looks at paused schedules, page by page."""

    def __init__(self, page: int = PAGE) -> None:
        self._page = page
        self._round = SchedulePages(ScheduleStatus.PAUSED)

    @property
    def is_round_over(self) -> bool:
        """Whether all were looked at."""
        return self._round.is_over

    def observe(self, asked: DetectorContext) -> DetectorResult:
        """Say which are paused so, of one page and of those that alerts are about."""
        suspects = find_suspects(asked, PAUSED_KINDS)
        records = {one.id: one for one in suspects.values() if one is not None}
        if asked.status.schedules.get(ScheduleStatus.PAUSED):  # a store without any is not asked
            records |= {one.id: one for one in self._round.next_page(asked.store, self._page)}
        found = [one for one in records.values() if lacks_what_it_needs(one)]
        names = {(one.tenant, one.name) for one in records.values()} | suspects.keys()
        return DetectorResult(
            conditions=tuple(told_one_by_one(asked, [_paused(one) for one in found])),
            keys=frozenset(
                AlertKey(AlertKind.SCHEDULE_PAUSED, tenant, f"{SUBJECT}{name}")
                for tenant, name in names
            ),
        )


def lacks_what_it_needs(record: ScheduleRecord) -> bool:
    """Say whether it is paused because what it needs is gone."""
    return record.status is ScheduleStatus.PAUSED and _remedy(record) is not None


def _paused(record: ScheduleRecord) -> Condition:
    remedy = _remedy(record)
    assert remedy is not None, "just asked"
    whose = f" of {record.owner}" if record.owner else ""
    return schedule_condition(
        record,
        AlertKind.SCHEDULE_PAUSED,
        1.0,
        record.updated_at,
        (
            f"schedule {record.name}{whose} is paused: {record.reason}",
            remedy.format(name=command_name(record)),
        ),
        {"owner": record.owner, "reason": record.reason},
    )


def _remedy(record: ScheduleRecord) -> str | None:
    reason = record.reason or ""
    return next((one for cause, one in REMEDIES.items() if reason.startswith(cause)), None)


REACH = Reach(window=1, ends=20)
"""How many of the newest runs of each schedule are read at first."""
DEEP_RUNS_MAX = 20_000
"""How many runs of one page are read where those hold no completion: some 50 ms."""
DEEP_KNOWN_MAX = 10_000
"""For how many schedules the detector remembers when it has read deeply."""
STALE_FROM_US = 5 * MINUTE * SECOND_US
"""No completion is stale before, however short the interval."""
RUNS_KNOWN_MIN = 3
SCHEDULE_KINDS = (AlertKind.STALE_COMPLETION, AlertKind.OVERLAP)


class ScheduleDetector:
    """Looks at schedules, page by page."""

    def __init__(self, page: int = PAGE, most: int = SCHEDULES_MAX) -> None:
        self._page = page
        self._most = most
        self._round = SchedulePages(ScheduleStatus.ACTIVE)
        self._read_deeply_at: dict[ScheduleId, int] = {}

    @property
    def is_round_over(self) -> bool:
        """Whether all were looked at."""
        return self._round.is_over

    def observe(self, asked: DetectorContext) -> DetectorResult:
        """Say what schedules lack, of some pages and of those that alerts are about."""
        suspects = find_suspects(asked, SCHEDULE_KINDS)
        records = {one.id: one for one in suspects.values() if one is not None}
        parts = [self._look(asked, list(records.values()))]
        looked = 0
        while looked < self._most:
            page = self._round.next_page(asked.store, min(self._page, self._most - looked))
            parts.append(self._look(asked, [one for one in page if one.id not in records]))
            records |= {one.id: one for one in page}
            looked += len(page)
            if self._round.is_over or asked.is_time_up():
                break
        names = {(one.tenant, one.name) for one in records.values()} | suspects.keys()
        keys = {
            AlertKey(kind, tenant, f"{SUBJECT}{name}")
            for kind in SCHEDULE_KINDS
            for tenant, name in names
        }
        return DetectorResult(
            conditions=tuple(told_one_by_one(asked, [one for part in parts for one in part.found])),
            keys=frozenset(keys - {key for part in parts for key in part.unread}),
        )

    def _look(self, asked: DetectorContext, records: list[ScheduleRecord]) -> _Seen:
        """Return the conditions of some schedules, by as many questions however many they are."""
        active = [one for one in records if one.status is ScheduleStatus.ACTIVE]
        if not active:
            return _Seen([], [])
        spans = asked.store.list_run_times([one.id for one in active], RUN_TIMES_LOOKED_AT)
        signs = {one.record.id: one for one in read_signs(asked.store, active, REACH)}
        found = [_overlapping(one, spans.get(one.id, []), asked.now) for one in active]
        unread = self._read_deeply(asked, signs)
        found += [_stale(one) for key, one in signs.items() if key not in unread]
        keys = [
            AlertKey(AlertKind.STALE_COMPLETION, one.tenant, f"{SUBJECT}{one.name}")
            for one in active
            if one.id in unread
        ]
        return _Seen([one for one in found if one is not None], keys)

    def _read_deeply(
        self, asked: DetectorContext, signs: dict[ScheduleId, Signs]
    ) -> set[ScheduleId]:
        """Read more runs of schedules whose newest ones hold no completion; return those left.

        A schedule that fails every few seconds has no completion among a few runs. The schedules
        that were read longest ago come first, so that all have their turn.
        """
        cut = [key for key, one in signs.items() if _is_cut(one)]
        cut.sort(key=lambda key: self._read_deeply_at.get(key, 0))
        limit = max((_runs_needed(signs[key]) for key in cut), default=1)
        read, unread = cut[: DEEP_RUNS_MAX // limit], cut[DEEP_RUNS_MAX // limit :]
        if read:
            reach = Reach(window=0, ends=limit)
            for one in read_signs(asked.store, [signs[key].record for key in read], reach):
                signs[one.record.id] = one
            if len(self._read_deeply_at) + len(read) > DEEP_KNOWN_MAX:
                self._read_deeply_at.clear()
            self._read_deeply_at |= dict.fromkeys(read, asked.now)
        return set(unread)


class _Seen(NamedTuple):
    """What was found of some schedules, and of which alerts nothing is known."""

    found: list[Condition]
    unread: list[AlertKey]


def _is_cut(signs: Signs) -> bool:
    """Say whether there are runs beyond those that were read, and no completion among these."""
    seen = signs.completion
    through, pruned = seen.ends.unknown_through, signs.record.pruned_through
    return seen.useful is None and through is not None and (pruned is None or through > pruned)


def _runs_needed(signs: Signs) -> int:
    """Return how many runs hold all that is counted, and all of the time before it is stale."""
    cadence_us = signs.completion.cadence_us or STALE_FROM_US
    # A fourth more: some occurrences have several runs.
    return min(max(BEHIND_MAX, STALE_FROM_US // cadence_us) * 5 // 4, DEEP_RUNS_MAX)


def _stale(signs: Signs) -> Condition | None:
    """Count the occurrences since the last useful completion: verified, where its task has a check.

    As vitals have it; but what retention has removed is unknown, and nobody is told of it.
    """
    record, seen, now = signs.record, signs.completion, signs.now
    if record.last_for is None:
        return None
    useful, ends = seen.useful, seen.ends
    floor = max(record.created_at, record.updated_at, ends.unknown_through or 0)
    done_at = floor if useful is None else max(floor, useful.at)
    count, is_all = seen.behind, seen.behind < BEHIND_MAX
    if useful is None and ends.unknown_through is not None:
        offset_us = jitter_offset_us(record.id, record.definition.jitter_us)
        count, is_all = count_behind(record.definition.timetable, floor, now - offset_us), False
    if now - done_at < STALE_FROM_US or not count:
        return None
    name = command_name(record)
    least = f"{count:,}" if is_all else f"{count:,} or more"
    return schedule_condition(
        record,
        AlertKind.STALE_COMPLETION,
        float(count),
        done_at,
        (
            f"{_last_words(signs)}; {least} occurrences fell due since",
            f"duly schedule show {name}; duly run list --schedule {name}",
        ),
        {
            "useful_by": "verified" if seen.is_checked else "succeeded",
            "last_success": None if ends.success is None else instant_text(ends.success.at),
            "last_verified": None if ends.verified is None else instant_text(ends.verified.at),
            "last_error": None if ends.error is None else ends.error.reason,
            "cadence_seconds": None if seen.cadence_us is None else seen.cadence_us / SECOND_US,
        },
    )


def _last_words(signs: Signs) -> str:
    name, useful = signs.record.name, signs.completion.useful
    if useful is not None:
        return f"schedule {name} has last completed at {instant_text(useful.at)}"
    if _is_cut(signs):
        return f"no completion of schedule {name} is among its newest runs"
    if signs.completion.ends.unknown_through is not None:
        return f"no completion of schedule {name} is on record"
    return f"schedule {name} has never completed"


def _overlapping(record: ScheduleRecord, spans: list[RunSpan], now: int) -> Condition | None:
    """Warn before runs overlap, where they may not."""
    if record.definition.overlap is Overlap.ALLOW or not spans:
        return None
    times = run_times(record.definition.timetable, spans, from_microseconds(now), now)
    if times.interval is None or times.warning is None:
        return None
    usual = times.ratio if times.ratio is not None and times.count >= RUNS_KNOWN_MIN else 0.0
    held = 0.0 if times.open_for is None else times.open_for / times.interval
    name = command_name(record)
    return schedule_condition(
        record,
        AlertKind.OVERLAP,
        round(max(usual, held), 3),
        now,
        (
            f"schedule {record.name}: {times.warning}",
            f"duly schedule show {name}; give it more time, or make its task faster",
        ),
        {**times.to_json(), "overlaps": record.overlaps},
    )
