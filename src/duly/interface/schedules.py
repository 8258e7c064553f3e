"""Schedules over the wire: how one is shown, made, previewed, changed and looked back at."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, UnsetType, field

from duly.interface.shapes import Asked, Duration, Identity, Instant, InstantText, Reason, Shown


class Misfire(Shown, frozen=True, kw_only=True):
    """What becomes of occurrences that were missed."""

    policy: str
    grace: Duration
    at_most: int | None
    not_older: Duration | None
    per_minute: int | None = None
    """How many of them are made up for in a minute; null for as many as the fleet can."""


class RunTimes(Shown, frozen=True, kw_only=True):
    """How long runs take, beside how far apart they are; in seconds."""

    interval: float | None
    usual: float | None
    open_for: float | None
    ratio: float | None
    runs: int


class Ending(Shown, frozen=True, kw_only=True):
    """How one run of a schedule ended, or was found to have."""

    run: Identity
    scheduled_for: Instant
    at: Instant


class BadEnding(Ending, frozen=True, kw_only=True):
    """What went wrong with a run; a later attempt of it may have made it good."""

    reason: str | None
    error: str | None


class Endings(Shown, frozen=True, kw_only=True):
    """When a schedule's work last succeeded, was last found to be done, and last went wrong."""

    success: Ending | None
    verified: Ending | None
    error: BadEnding | None
    unknown_through: Instant | None
    """What fell due up to then is no longer kept: null above is not never."""


class Schedule(Shown, frozen=True, kw_only=True):
    """One schedule, as it was when it was looked at."""

    id: Identity
    name: str
    status: str
    version: int
    """Also the ETag; an edit gives it back, and is refused if somebody else was faster."""
    description: str
    timetable: dict[str, Any]
    task: str
    arguments: dict[str, Any]
    queue: str
    priority: int
    misfire: Misfire
    jitter: Duration
    overlap: str
    serialize_by: str | None
    preset: str | None
    owner: str | None
    declared_by: str | None
    next_for: Instant | None
    next_due: Instant | None
    last_for: Instant | None
    last_run: Identity | None
    fires: int
    overlaps: int
    reason: str | None
    resume_at: Instant | None
    created_at: Instant
    updated_at: Instant
    updated_by: str
    run_times: RunTimes | None
    last_ends: Endings | None
    warning: str | None


class OwedRange(Shown, frozen=True, kw_only=True):
    """Occurrences that a schedule still owes: they are to be made, or skipped by its policy."""

    first_for: Instant
    last_for: Instant


class SkippedRange(Shown, frozen=True, kw_only=True):
    """Occurrences that were not run, on record."""

    first_for: Instant
    last_for: Instant
    count: int | None
    reason: str


class PreviewedOccurrence(Shown, frozen=True, kw_only=True):
    """One coming occurrence, as the clock on the wall and as UTC show it."""

    utc: Instant
    local: str
    zone: str
    abbreviation: str
    clock_change: str | None
    in_seconds: float | None = None


class PlannedSchedule(Schedule, frozen=True, kw_only=True):
    """A schedule that was made or edited, with when it will run."""

    upcoming: list[PreviewedOccurrence]
    """The next three occurrences, each with local time, zone and UTC; none while it is stopped."""


class MisfirePolicy(Asked, frozen=True, kw_only=True):
    """What is to become of occurrences that are missed."""

    policy: str
    grace: Duration | UnsetType = UNSET
    at_most: int | UnsetType | None = UNSET
    """At most so many of them; null for however many."""
    not_older: Duration | UnsetType | None = UNSET
    per_minute: int | UnsetType | None = UNSET
    """So many of them in a minute; null for as many as the fleet can."""


class Rule(Asked, frozen=True, kw_only=True):
    """When: as a person says it, with a zone; or a whole timetable, as a schedule shows it."""

    when: str | None = None
    """Such as `0 2 * * *`, `FREQ=WEEKLY;BYDAY=MO`, `Mon..Fri 9:00`, `15m`, `every weekday at 9`."""
    tz: str | None = None
    """The zone that wall times are meant in, by its IANA name; UTC unless given."""
    gap: str | None = None
    fold: str | None = None
    calendar: str | None = None
    dtstart: str | None = None
    timetable: dict[str, Any] | None = None


class Policies(Rule, frozen=True, kw_only=True):
    """What may be said of a schedule beside its task and name."""

    preset: str | None = None
    misfire: str | MisfirePolicy | None = None
    jitter: Duration | None = None
    overlap: str | None = None
    serialize_by: str | None = None
    owner: str | None = None
    queue: str | None = None
    priority: int | None = None


class NewSchedule(Policies, frozen=True, kw_only=True):
    """A schedule to be made."""

    name: str
    task: str
    arguments: dict[str, Any] = field(default_factory=dict)


class ScheduleEdit(Policies, frozen=True, kw_only=True):
    """What an edit changes; what is not given stays."""

    name: str | None = None
    task: str | None = None
    arguments: dict[str, Any] | None = None
    version: int | None = None
    """The version that was seen, when If-Match does not say it."""
    reason: Reason | None = None


class SchedulesAsked(Asked, frozen=True, kw_only=True):
    """Which schedules, in order of name."""

    status: str | None = None
    task: str | None = None
    owner: str | None = None
    declared_by: str | None = None
    name_prefix: str | None = None
    include_deleted: bool = False
    with_run_times: bool = False
    with_last_ends: bool = False
    limit: int = 100
    cursor: str | None = None


class Pause(Asked, frozen=True, kw_only=True):
    """A schedule is to stop for a while."""

    reason: Reason | None = None
    until: InstantText | None = None
    """Then it goes on by itself."""
    missed: str = "skip"
    """What becomes of occurrences until then: `skip`, or by the `misfire` policy."""


class Resume(Asked, frozen=True, kw_only=True):
    """A schedule is to go on."""

    reason: Reason | None = None
    missed: str = "skip"


class Trigger(Asked, frozen=True, kw_only=True):
    """A schedule is to run now, besides its timetable."""

    reason: Reason | None = None
    key: str | None = None
    overlap: str | None = None
    """Another overlap policy, for this one run."""


class NewestAsked(Asked, frozen=True, kw_only=True):
    """How many of a schedule's newest entries, or skips."""

    limit: int = 100


class Entry(Shown, frozen=True, kw_only=True):
    """One order or decision, as the audit trail has it."""

    number: int
    at: Instant
    actor: str
    source: str
    address: str | None
    """From which address of the network, if over one."""
    credential: str | None
    """By which token or session: its kind and its id."""
    reason: str | None
    action: str
    subject: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    label: str | None = None
    """What people call the run whose id the subject has, where the whole trail is looked at."""


class OccurrencesAsked(Asked, frozen=True, kw_only=True):
    """From when on, and before when."""

    start: InstantText
    end: InstantText


class Occurrence(Shown, frozen=True, kw_only=True):
    """One expected occurrence, and what became of it."""

    scheduled_for: Instant
    label: str
    verdict: str
    run: Identity | None
    reason: str | None


class NextAsked(Asked, frozen=True, kw_only=True):
    """How many occurrences to show."""

    count: int = 5


class Preview(Shown, frozen=True, kw_only=True):
    """What a rule means, when it fires next, and what clocks do to it."""

    kind: str
    description: str
    tz: str
    tzdata: str
    after: Instant
    occurrences: list[PreviewedOccurrence]
    clock_changes: list[str]
    timetable: dict[str, Any]


class PreviewAsked(Rule, frozen=True, kw_only=True):
    """A rule to be shown, before anything is stored."""

    name: str | None = None
    """What cron's H is spread by: the schedule's name."""
    after: InstantText | None = None
    count: int = 3
