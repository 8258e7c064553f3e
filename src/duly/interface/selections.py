"""Selections over the wire: what a filter found, frozen, and orders about all of it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, field

from duly.interface.runs import Run, RunFilter
from duly.interface.schedules import Schedule
from duly.interface.shapes import Asked, Identity, Instant, InstantText, Reason, Shown


class Frozen(Shown, frozen=True, kw_only=True):
    """What a filter found: what an order about it touches, and nothing else."""

    id: Identity
    count: int
    chosen_by: dict[str, Any]
    digest: str = ""
    """The same for the same runs in the same state, or schedules at the same versions."""
    made_by: str
    as_of: Instant
    expires_at: Instant


class Selection(Frozen, frozen=True, kw_only=True):
    """Runs that a filter found."""

    sample: list[Run]
    """The newest of them, as they are now."""


class ScheduleSelection(Frozen, frozen=True, kw_only=True):
    """Schedules that a filter found."""

    sample: list[Schedule]
    """The first of them by name, as they are now."""


class PreviewedItem(Shown, frozen=True, kw_only=True):
    """One of a selection, and what an order would do about it."""

    id: Identity
    name: str
    """A schedule's name, a run's label; its id where it is no longer there."""
    state: str | None
    """What it is now."""
    why: str | None
    """Why it would be left alone; null for what would be touched."""


class OrderPreview(Shown, frozen=True, kw_only=True):
    """What an order about a selection would do, if it were given now."""

    id: Identity
    of: Literal["runs", "schedules"]
    order: str
    digest: str
    count: int
    touched: int
    first: list[PreviewedItem]
    """The first of those that would be touched."""
    left_alone: list[PreviewedItem]
    """The first of those that would not."""
    left_by: dict[str, int]
    """Why, and how many of them."""
    chosen_by: dict[str, Any]
    made_by: str
    as_of: Instant
    expires_at: Instant


class OrderedSchedule(Shown, frozen=True, kw_only=True):
    """What an order has done to one schedule."""

    id: Identity
    name: str
    is_done: bool
    status: str | None
    """What it is now; null when there is no such schedule."""
    version: int | None
    why: str | None
    """Why it was left alone."""


class OrderedSchedules(Shown, frozen=True, kw_only=True):
    """What an order has done to each of several schedules."""

    done: int
    """How many it was carried out for."""
    schedules: list[OrderedSchedule]


class NewSelection(RunFilter, frozen=True, kw_only=True):
    """Which runs; dead ones unless told."""

    state: Annotated[
        list[str] | None,
        Meta(description="dead unless it is said; null for those of every state."),
    ] = field(default_factory=lambda: ["dead"])
    limit: int | None = None
    """Take the newest so many; without it more than one order takes are refused."""
    ids: list[Identity] | None = None
    """These runs, whatever else is said."""


class NewScheduleSelection(Asked, frozen=True, kw_only=True):
    """Which schedules; all that are not deleted, unless told."""

    status: str | None = None
    task: str | None = None
    owner: str | None = None
    declared_by: str | None = None
    name_prefix: str | None = None
    limit: int | None = None
    """Take the first so many by name; without it more than one order takes are refused."""
    schedules: list[str] | None = None
    """These, by name or id, whatever else is said."""


class RunsPreviewAsked(Asked, frozen=True, kw_only=True):
    """Which order is thought of."""

    order: Literal["retry", "discard", "cancel", "skip", "rerun", "repair"]
    """A repair is a rerun in repair mode."""


class SchedulesPreviewAsked(Asked, frozen=True, kw_only=True):
    """Which order is thought of."""

    order: Literal["pause", "resume"]


class OrderSelection(Asked, frozen=True, kw_only=True):
    """An order about all runs of a selection."""

    reason: Reason | None = None
    confirm: int | None = None
    """How many they are, typed once more: needed for more than a hundred."""


class SkipSelection(Asked, frozen=True, kw_only=True):
    """Leave all runs of a selection that are in doubt as they are, on record."""

    reason: Reason
    confirm: int | None = None
    """How many they are, typed once more: needed for more than a hundred."""


class RerunSelection(Asked, frozen=True, kw_only=True):
    """Run once more, each as another run, what the runs of a selection were to do."""

    reason: Reason
    repair: bool = False
    """Share their records of effects: what is done is not done again."""
    confirm: int | None = None
    """How many they are, typed once more: needed for more than a hundred."""


class PauseSelection(Asked, frozen=True, kw_only=True):
    """Pause all schedules of a selection."""

    reason: Reason
    until: InstantText | None = None
    """They resume by themselves then; without it somebody must."""
    missed: str = "skip"
    """What becomes of their occurrences then."""
    confirm: int | None = None
    """How many they are, typed once more: needed for more than a hundred."""


class ResumeSelection(Asked, frozen=True, kw_only=True):
    """Resume all schedules of a selection."""

    reason: Reason
    missed: str = "skip"
    """What becomes of what fell into the pause."""
    confirm: int | None = None
    """How many they are, typed once more: needed for more than a hundred."""
