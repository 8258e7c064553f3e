"""A schedule's policies as options of a command, and in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from cyclopts import Parameter

from duly.domain.durations import duration_words
from duly.domain.misfire import NO_BOUND, Misfire, read_misfire
from duly.domain.presets import NO_PRESET, read_preset
from duly.errors import UsageError

OverlapChoice = Literal[
    "skip", "allow", "queue-one", "queue-all", "coalesce", "replace", "serialize"
]


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyOptions:
    """How a schedule behaves when things go wrong, and where its runs go."""

    preset: str | None = None
    """Policies for a kind of work: best-effort, refresh, one-result, serialized, never-twice. What
    else is given wins."""
    misfire: Literal["skip", "latest", "all"] | None = None
    """Which runs that nobody could make in time are made up for: skip, latest (default), all."""
    grace: str | None = None
    """How late still counts as on time: 60s unless given."""
    at_most: str | None = None
    """How many missed runs are made up for at the most; none for no bound (the default)."""
    not_older: str | None = None
    """How old a missed run may be to be made up for: 1d unless given; none for no bound."""
    overlap: OverlapChoice | None = None
    """What becomes of a run while an earlier one is open: skip (default), allow, queue-one,
    queue-all, coalesce, replace, or serialize with --serialize-by."""
    serialize_by: str | None = None
    """With --overlap serialize: the business key whose runs go one after the other."""
    jitter: str | None = None
    """Spread due times over this long after the nominal time, each schedule by its own share."""
    queue: str | None = None
    """The queue that its runs wait in."""
    priority: int | None = None
    """0 goes first, 9 last; 4 unless given."""
    owner: str | None = None
    """Whose it is."""

    def misfire_over(self, current: Misfire) -> Misfire | None:
        """Return the misfire policy with what is given changed; None when nothing is."""
        if self.preset not in (None, NO_PRESET):
            current = read_preset(self.preset).misfire
        given: dict[str, Any] = {}
        if self.misfire is not None:
            given["policy"] = self.misfire
        if self.grace is not None:
            given["grace"] = self.grace
        if self.at_most is not None:
            given["at_most"] = _number_or_none(self.at_most)
        if self.not_older is not None:
            given["not_older"] = None if self.not_older == NO_BOUND else self.not_older
        return read_misfire({**current.to_json(), **given}) if given else None


def misfire_words(misfire: Misfire) -> str:
    """Say what becomes of runs that nobody could make in time."""
    late = f"later than {duration_words(misfire.grace_us)}"
    if misfire.grace_us == 0:
        late = "late at all"
    policy = {
        "skip": f"a run that is {late} is skipped",
        "latest": f"of runs that are {late}, the latest is made and stands for the others",
        "all": f"runs that are {late} are all made up for, beside the fresh ones",
    }[str(misfire.policy)]
    bounds: list[str] = []
    if misfire.policy != "skip":
        if misfire.at_most is not None:
            bounds.append(f"at most {misfire.at_most}")
        if misfire.not_older_us is not None:
            bounds.append(f"none older than {duration_words(misfire.not_older_us)}")
    return policy + (f" ({', '.join(bounds)})" if bounds else "")


def overlap_words(overlap: str, serialize_by: str | None) -> str:
    """Say what becomes of a run that comes while an earlier one is open."""
    return {
        "allow": "runs may overlap",
        "skip": "a run that comes while an earlier one is open is skipped",
        "queue-one": "one run waits until the earlier one is over; more are skipped",
        "queue-all": "runs wait until the earlier ones are over, and go in order",
        "coalesce": "one run waits until the earlier one is over, for the latest of those missed",
        "replace": "an open run is asked to stop, and the new one follows it",
        "serialize": f"runs of all schedules with the key {serialize_by!r} go one after the other",
    }[overlap]


def _number_or_none(text: str) -> int | None:
    if text == NO_BOUND:
        return None
    if not (text.isascii() and text.isdigit()):
        raise UsageError("at_most", text, "is not a number", "give 1 to 10,000, or none")
    return int(text[:10])
