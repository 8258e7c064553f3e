"""Orders about schedules: create, edit, pause, resume, trigger, skip, delete, apply, export."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from duly.app import App
from duly.app import App as Application
from duly.cli.confirm import SET, UNSAID, FrozenOrder, SetOptions, print_undo, undo_command
from duly.cli.context import (
    ArgumentOptions,
    RuleOptions,
    Target,
    edited_rule,
    is_server,
    note_unchecked,
    open_app,
    read_call,
    read_rule,
    spoken_parts,
)
from duly.cli.output import print_json, print_line
from duly.cli.references import find_schedule
from duly.cli.schedule_text import (
    NEXT_SHOWN,
    local_text,
    next_sentence,
    note_missing_dispatcher,
    print_next,
    print_pending,
    print_result,
    print_warning,
    undo,
    zone,
)
from duly.cli.times import read_local_moment, read_moment, zoned_text
from duly.client.parameters import read_name
from duly.client.schedule_orders import read_definition
from duly.client.schedule_view import MICROSECOND, Schedule
from duly.client.selections import OrderedSchedule
from duly.client.tasks import BoundCall
from duly.clock import SystemClock
from duly.domain.policies import (
    AT_MOST_MAX,
    CATCH_UP_PER_MINUTE_MAX,
    NO_BOUND,
    NO_PRESET,
    PRESETS,
    Misfire,
    read_misfire,
    read_preset,
)
from duly.errors import Conflict, NotFound, UsageError
from duly.timetable.instants import duration_text, duration_words, iso_utc, utc_text
from duly.timetable.timetable import Timetable

NAMED_MAX = 20
"""So many names still fit into a command that somebody types."""


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleOptions:
    """Which schedules; those that fit all that is said."""

    task: str | None = None
    """All that run this task."""
    owner: str | None = None
    """All that belong to this owner."""
    prefix: str | None = None
    """All whose name begins like this."""
    all_: Annotated[bool, Parameter(name="--all")] = False
    """All that there are."""

    @property
    def is_given(self) -> bool:
        """Whether anything is said."""
        return any(getattr(self, one.name) for one in fields(self))


ANY = ScheduleOptions()


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Which schedules somebody means: by name, by a filter, or as they were shown before."""

    names: Sequence[str]
    which: ScheduleOptions
    chosen: SetOptions
    reason: str | None
    target: Target
    options: tuple[str, ...] = ()
    """What else was said, to be typed again."""

    @property
    def is_one(self) -> bool:
        """Whether it is one schedule, named, with nothing to look at before; it is not asked."""
        is_looked_at = replace(self.chosen, yes=False) != SET
        return len(self.names) == 1 and self.which == ANY and not is_looked_at

    def frozen(self, app: Application) -> str:
        """Return the id of the set that is meant: one that there is, or one frozen now."""
        ways = [bool(self.names), self.which.is_given, self.chosen.selection is not None]
        if sum(ways) > 1:
            remedy = "name schedules, choose them by a filter, or give --selection"
            raise UsageError("name", next(iter(self.names), None), "is one way too many", remedy)
        if not any(ways):
            remedy = "name schedules, or choose them: --task, --owner, --prefix, --all"
            raise UsageError("name", None, "is missing", remedy)
        if self.chosen.selection is not None:
            return self.chosen.selection
        if self.names:
            ids = [find_schedule(app, name).id for name in self.names]
            return str(app.schedule_selections.freeze(schedules=ids).id)
        which = self.which
        found = app.schedule_selections.freeze(
            task=which.task, owner=which.owner, name_prefix=which.prefix
        )
        return str(found.id)


def order_chosen(
    app: Application,
    verb: str,
    asked: Asked,
    carry: Callable[[str, int], Sequence[OrderedSchedule]],
) -> int:
    """Pause or resume what is meant: shown, asked about, carried out, told."""
    selection = asked.frozen(app)
    preview = app.schedule_selections.preview(selection, verb)
    other = "resume" if verb == "pause" else "pause"
    order = FrozenOrder(
        verb=verb.capitalize(),
        done="Paused" if verb == "pause" else "Resumed",
        noun="schedule",
        words=("schedule", verb, *asked.options),
        reason=asked.reason,
        undo=lambda done: _undo_chosen(other, done),
        no_undo=f"duly schedule {other}, by their names or by a filter",
        asked=asked.chosen,
        target=asked.target,
    )
    return order.out(preview, lambda: carry(selection, preview.count))


def _undo_chosen(verb: str, done: Sequence[OrderedSchedule]) -> str | None:
    if len(done) > NAMED_MAX:
        return None
    yes = () if len(done) == 1 else ("--yes",)
    return undo(verb, *(one.name for one in done), "--reason", UNSAID, *yes)


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
    per_minute: str | None = None
    """How many missed runs are made up for in a minute; none for as many as the fleet can."""
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
            given["at_most"] = _number_or_none("at_most", self.at_most)
        if self.not_older is not None:
            given["not_older"] = None if self.not_older == NO_BOUND else self.not_older
        if self.per_minute is not None:
            given["per_minute"] = _number_or_none("per_minute", self.per_minute)
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
        if misfire.per_minute is not None:
            bounds.append(f"{misfire.per_minute:,} a minute")
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


def _number_or_none(field: str, text: str) -> int | None:
    if text == NO_BOUND:
        return None
    if not (text.isascii() and text.isdigit()):
        most = {"at_most": AT_MOST_MAX, "per_minute": CATCH_UP_PER_MINUTE_MAX}[field]
        raise UsageError(field, text, "is not a number", f"give 1 to {most:,}, or none")
    return int(text[:10])


RULE = RuleOptions()
ARGUMENTS = ArgumentOptions()
POLICIES = PolicyOptions()
TARGET = Target()


def create(  # noqa: PLR0913 - each group of options is an argument
    name: str,
    /,
    *,
    task: str,
    rule: RuleOptions = RULE,
    arguments: ArgumentOptions = ARGUMENTS,
    policies: PolicyOptions = POLICIES,
    dry_run: bool = False,
    target: Target = TARGET,
) -> None:
    """Make a schedule: it owes a run of a task at every occurrence of a rule.

    Parameters
    ----------
    name
        What it is called; no other schedule may have the name.
    task
        The task to run: one of --app, or one that a program has made known to the store.
    dry_run
        Check everything and show when it would run, but store nothing.
    """
    with open_app(target, is_rehearsal=dry_run) as app:
        now = app.status().now
        timetable = read_rule(rule, read_name(name), now)
        call = read_call(app, task, arguments)
        terms = _terms(policies)
        before = _standing(app, name)
        if dry_run:
            _print_dry(app, (name, call, timetable), terms, as_json=target.json)
            return
        schedule = app.schedules.create(name, call, timetable, owner=policies.owner, **terms)
        is_new = before is None or before.id != schedule.id
        taking_back = undo("delete", name, "--reason", "made by mistake", "--yes")
        if target.json:
            print_result(schedule, is_new=is_new, undo=taking_back if is_new else None)
            return
        print_line((schedule.describe(), "bold"))
        print_next(app, schedule.timetable)
        if not is_new:
            version = schedule.version
            print_line(f"{name} is there already, just like this (version {version}). No change.")
            return
        print_line(f"Created {name}. {next_sentence(schedule, now)}")
        print_undo(taking_back)
        print_warning(schedule)
        note_unchecked(app, task)
        note_missing_dispatcher(app)


def _terms(policies: PolicyOptions) -> dict[str, Any]:
    return {
        "preset": policies.preset,
        "misfire": policies.misfire_over(Misfire()),
        "overlap": policies.overlap,
        "serialize_by": policies.serialize_by,
        "jitter": policies.jitter,
        "queue": policies.queue,
        "priority": policies.priority,
    }


def _standing(app: App, name: str) -> Schedule | None:
    """Return the schedule that has the name, if one has."""
    try:
        found = app.schedules.get(name)
    except NotFound:
        return None
    return None if found.status == "deleted" or found.name != name else found


def _print_dry(
    app: App, parts: tuple[str, BoundCall, Timetable], terms: dict[str, Any], *, as_json: bool
) -> None:
    """Check what creating would check, and show what it would show."""
    name, call, timetable = parts
    definition = read_definition(call, timetable, terms, name)
    standing = _standing(app, name)
    if standing is not None:
        remedy = f"see {undo('show', name)}; duly schedule edit changes it"
        raise Conflict("schedule", name, "exists already", remedy)
    found = app.schedules.preview(timetable, n=NEXT_SHOWN)
    if not found.occurrences:
        problem = "has no occurrence in the future"
        raise UsageError("when", timetable.describe(), problem, "give a rule that has one")
    if as_json:
        print_json({"name": name, "dry_run": True, **definition.to_json(), **found.to_json()})
        return
    print_line((f"{call.task}: {timetable.describe()}", "bold"))
    print_next(app, timetable)
    print_line("Nothing was stored (--dry-run).")


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class EditOptions:
    """What an edit may change beside the rule and the policies, and on which terms."""

    task: str | None = None
    """Another task to run."""
    rename: str | None = None
    """Another name."""
    version: int | None = None
    """Only if the schedule is still at this version, as duly schedule show has it."""
    reason: str | None = None
    """Why; it is recorded."""


EDIT = EditOptions()
_CHANGE_REMEDY = (
    "give --when, --tz, --task, --arguments, --preset, --misfire, --overlap, --jitter, --queue,"
    " --priority, --owner or --rename"
)


def edit(  # noqa: PLR0913 - each group of options is an argument
    name: str,
    /,
    *,
    options: EditOptions = EDIT,
    rule: RuleOptions = RULE,
    arguments: ArgumentOptions = ARGUMENTS,
    policies: PolicyOptions = POLICIES,
    target: Target = TARGET,
) -> None:
    """Change a schedule: what is given changes, the rest stays, and what was due stays owed.

    Parameters
    ----------
    name
        The schedule's name or id.
    """
    with open_app(target, makes_store=False) as app:
        before = find_schedule(app, name)
        changes = _changes(app, before, (options, rule, arguments, policies))
        if not changes:
            raise UsageError("edit", name, "is asked to change nothing", _CHANGE_REMEDY)
        after = app.schedules.edit(
            before.id, version=options.version, reason=options.reason, **changes
        )
        taking_back = _undo(before, after)
        if target.json:
            moved = {"before": _iso(before), "after": _iso(after)}
            print_result(after, moved=moved, undo=taking_back)
            return
        if after.version == before.version:
            print_line(f"{after.name} is like this already (version {after.version}). No change.")
            return
        print_line((after.describe(), "bold"))
        print_line(f"Edited {after.name}, now version {after.version}. {_moved(before, after)}")
        print_pending(app, after)
        print_undo(taking_back)
        if after.declared_by is not None:
            note = f"it is declared by {after.declared_by}; the next reconciliation sets it back"
            print_line(("note: ", "bold yellow"), note)


def _changes(
    app: App,
    before: Schedule,
    given: tuple[EditOptions, RuleOptions, ArgumentOptions, PolicyOptions],
) -> dict[str, Any]:
    options, rule, arguments, policies = given
    changes: dict[str, Any] = {
        "preset": policies.preset,
        "misfire": policies.misfire_over(before.misfire),
        "jitter": policies.jitter,
        "overlap": policies.overlap,
        "serialize_by": policies.serialize_by,
        "queue": policies.queue,
        "priority": policies.priority,
        "owner": policies.owner,
        "name": options.rename,
    }
    if rule.is_given:
        seed = options.rename or before.name
        changes["timetable"] = edited_rule(before.timetable, rule, seed, app.status().now)
    if options.task is not None or arguments.is_given:
        if not arguments.is_given:
            arguments = ArgumentOptions(arguments=json.dumps(before.arguments))
        call = read_call(app, options.task or before.task, arguments)
        # The queue and the priority are the schedule's own, unless they are given too.
        changes["call"] = call
        changes["queue"] = policies.queue or before.queue
        changes["priority"] = before.priority if policies.priority is None else policies.priority
    return {key: value for key, value in changes.items() if value is not None}


def _moved(before: Schedule, after: Schedule) -> str:
    """Say what the edit does to the next run."""
    if after.next_due is None:
        return f"It is {after.status}, so nothing runs."
    new = local_text(after, after.next_due)
    if before.next_due is None:
        return f"The next run is at {new}."
    if before.next_due == after.next_due:
        return f"The next run stays at {new}."
    return f"The next run moves from {local_text(before, before.next_due)} to {new}."


def _undo(before: Schedule, after: Schedule) -> str:
    """Return the command that brings back what an edit has changed, or says where it stands."""
    words = ["edit", after.name]
    if before.name != after.name:
        words += ["--rename", before.name]
    if before.timetable.to_json() != after.timetable.to_json():
        rule = spoken_parts(before.timetable, after.name)
        if rule is None:
            return f"none by one command; {undo('history', after.name)} shows what it was"
        for key, value in rule.items():
            words += [f"--{key}", value]
    return undo(*words, *_undo_call(before, after), *_undo_policies(before, after))


def _undo_call(before: Schedule, after: Schedule) -> list[str]:
    if (before.task, before.arguments) == (after.task, after.arguments):
        return []
    return ["--task", before.task, "--arguments", json.dumps(before.arguments)]


def _undo_policies(before: Schedule, after: Schedule) -> list[str]:
    words: list[str] = []
    misfire, overlap = after.misfire, after.overlap
    if before.preset != after.preset:
        words += ["--preset", before.preset or NO_PRESET]
        preset = PRESETS.get(before.preset or "")
        if preset is not None:
            # What the preset brings back by itself need not be said.
            misfire, overlap = preset.misfire, preset.overlap
    old, new = before.misfire.to_json(), misfire.to_json()
    for key, option in _MISFIRE_OPTIONS.items():
        if old.get(key) != new.get(key):
            words += [option, str(old.get(key) or NO_BOUND)]
    if before.overlap != overlap:
        words += ["--overlap", before.overlap]
    if before.serialize_by not in (None, after.serialize_by):
        words += ["--serialize-by", before.serialize_by]
    if before.jitter != after.jitter:
        words += ["--jitter", duration_text(before.jitter // MICROSECOND)]
    for key in ("queue", "priority", "owner"):
        if getattr(before, key) not in (None, getattr(after, key)):
            words += [f"--{key}", str(getattr(before, key))]
    return words


_MISFIRE_OPTIONS = {
    "policy": "--misfire",
    "grace": "--grace",
    "at_most": "--at-most",
    "not_older": "--not-older",
    "per_minute": "--per-minute",
}


def _iso(schedule: Schedule) -> Any:  # noqa: ANN401 - JSON values
    return schedule.to_json()["next_due"]


_GOES_ON = "Its timetable goes on as before."
MissedChoice = Literal["skip", "misfire"]
Names = Annotated[str, Parameter(help="The schedule's name or id; or several.")]


def pause(  # noqa: PLR0913 - each option of the command is an argument
    *names: Names,
    reason: str,
    until: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    missed: MissedChoice = "skip",
    which: ScheduleOptions = ANY,
    chosen: SetOptions = SET,
    target: Target = TARGET,
) -> int:
    """Stop schedules: no new runs are made, runs that exist go on, nothing is lost.

    Name one or several, or choose them: --owner anna, --prefix mail-.

    Parameters
    ----------
    reason
        Why; it is shown wherever the schedule is, and recorded.
    until
        When it resumes by itself: an ISO time (in the schedule's zone; of several, this machine's),
        tomorrow, +2h.
    missed
        With --until: what becomes of occurrences in the pause: skip, or misfire for its policy.
    """
    if missed != "skip" and until is None:
        remedy = "give --until too, or say it when you resume: duly schedule resume --missed"
        raise UsageError("missed", missed, "says nothing about a pause without end", remedy)
    options = () if until is None else ("--until", until, "--missed", missed)
    asked = Asked(
        names=names, which=which, chosen=chosen, reason=reason, target=target, options=options
    )
    with open_app(target, makes_store=False) as app:
        if asked.is_one:
            found = find_schedule(app, names[0])
            moment = None
            if until is not None:
                moment = read_moment(until, zone(found.timetable), SystemClock(), "until")
            _tell_paused(
                app.schedules.pause(found.id, reason=reason, until=moment, missed=missed), target
            )
            return 0
        end = None
        if until is not None:
            end = read_local_moment(until, "until", as_json=target.json)
        _require_coming(app, until, end)
        terms: dict[str, Any] = {"reason": reason, "until": end, "missed": missed}
        return order_chosen(
            app,
            "pause",
            asked,
            lambda which, count: app.schedule_selections.pause(which, confirm=count, **terms),
        )


def _require_coming(app: App, text: str | None, end: datetime | None) -> None:
    """Refuse an end that has passed before anybody is asked about many."""
    if end is None:
        return
    now = app.status().now
    if end <= now:
        raise UsageError(
            "until", text, "lies in the past", f"give an instant after {utc_text(now)}"
        )


def _tell_paused(paused: Schedule, target: Target) -> None:
    taking_back = undo("resume", paused.name)
    if target.json:
        print_result(paused, undo=taking_back)
        return
    end = "until somebody resumes it"
    if paused.resume_at is not None:
        until = zoned_text(paused.resume_at, zone(paused.timetable))
        end = f"until {until}; then it resumes by itself"
    print_line(f"Paused {paused.name} {end}. No new runs are made; those that exist go on.")
    print_undo(taking_back)


def resume(  # noqa: PLR0913 - as above
    *names: Names,
    missed: MissedChoice = "skip",
    reason: str | None = None,
    which: ScheduleOptions = ANY,
    chosen: SetOptions = SET,
    target: Target = TARGET,
) -> int:
    """Let paused schedules go on.

    Name one or several, or choose them: --owner anna, --prefix mail-.

    Parameters
    ----------
    missed
        What becomes of occurrences in the pause: skip, or misfire for its policy.
    reason
        Why; about several it is needed.
    """
    options = () if missed == "skip" else ("--missed", missed)
    asked = Asked(
        names=names, which=which, chosen=chosen, reason=reason, target=target, options=options
    )
    with open_app(target, makes_store=False) as app:
        if asked.is_one:
            found = find_schedule(app, names[0])
            _tell_resumed(
                app, found, app.schedules.resume(found.id, missed=missed, reason=reason), target
            )
            return 0
        return order_chosen(
            app,
            "resume",
            asked,
            lambda which, count: app.schedule_selections.resume(
                which, confirm=count, missed=missed, reason=reason or ""
            ),
        )


def _tell_resumed(app: App, before: Schedule, resumed: Schedule, target: Target) -> None:
    end = () if before.resume_at is None else ("--until", iso_utc(before.resume_at))
    taking_back = undo("pause", resumed.name, "--reason", before.reason or UNSAID, *end)
    _tell_back(app, resumed, ("Resumed", taking_back), target)


def _tell_back(app: App, schedule: Schedule, told: tuple[str, str], target: Target) -> None:
    """Tell of a schedule that fires again: what was done, when it is next, how to undo that."""
    done, undoing = told
    if target.json:
        print_result(schedule, undo=undoing)
        return
    print_line(f"{done} {schedule.name}. {next_sentence(schedule, app.status().now)}")
    print_pending(app, schedule)
    print_undo(undoing)
    note_missing_dispatcher(app)


def trigger(  # noqa: PLR0913 - each option is an argument
    name: str,
    /,
    *,
    key: str | None = None,
    overlap: OverlapChoice | None = None,
    reason: str | None = None,
    target: Target = TARGET,
) -> None:
    """Run a schedule now, beside its timetable: its next run stays where it is.

    Parameters
    ----------
    name
        The schedule's name or id.
    key
        A business key for the run.
    overlap
        Another overlap policy for this one run, on record: allow runs it beside an open one.
    reason
        Why.
    """
    with open_app(target, makes_store=False) as app:
        found = find_schedule(app, name)
        run = app.schedules.trigger(found.id, reason=reason, key=key, overlap=overlap)
        taking_back = undo_command("run", "cancel", str(run.id), "--reason", UNSAID)
        if target.json:
            print_json({**run.to_json(), "schedule": found.name, "undo": taking_back})
            return
        after = "It stays paused." if found.status == "paused" else _GOES_ON
        print_line(f"Queued a run of {found.name}: {run.id}. {after}")
        print_undo(taking_back)


def skip(name: str, /, *, reason: str | None = None, target: Target = TARGET) -> None:
    """Leave out the next occurrence of a schedule, on record.

    Parameters
    ----------
    name
        The schedule's name or id.
    reason
        Why.
    """
    with open_app(target, makes_store=False) as app:
        found = find_schedule(app, name)
        after = app.schedules.skip_next(found.id, reason=reason)
        instead = undo("trigger", after.name, "--reason", "it was skipped by mistake")
        taking_back = f"none; one that stands for now is made by {instead}"
        if target.json:
            skipped = None if found.next_for is None else utc_text(found.next_for)
            print_result(after, skipped_for=skipped, undo=taking_back)
            return
        print_line(f"Skipped {after.name} of {local_text(found, found.next_for)}.")
        print_line(next_sentence(after, app.status().now))
        print_undo(taking_back)


def delete(name: str, /, *, reason: str, yes: bool = False, target: Target = TARGET) -> int | None:
    """Delete a schedule: it stops at once, and can be restored for a while.

    Parameters
    ----------
    name
        The schedule's name or id.
    reason
        Why; it is recorded.
    yes
        Do not ask.
    """
    with open_app(target, makes_store=False) as app:
        found = find_schedule(app, name)
        if not yes and not _is_agreed(app, found):
            print_line("Nothing was changed.")
            return 1
        deleted = app.schedules.delete(found.id, reason=reason)
        taking_back = undo("restore", deleted.name)
        if target.json:
            print_result(deleted, undo=taking_back)
            return None
        print_line(f"Deleted {deleted.name}. It can be restored{_kept(app)}.")
        print_undo(taking_back)
        return None


def restore(name: str, /, *, reason: str | None = None, target: Target = TARGET) -> None:
    """Bring back a deleted schedule; what fell due in between is recorded as skipped.

    Parameters
    ----------
    name
        The schedule's name or id.
    reason
        Why.
    """
    with open_app(target, makes_store=False) as app:
        found = find_schedule(app, name)
        restored = app.schedules.restore(found.id, reason=reason)
        taking_back = undo("delete", restored.name, "--reason", found.reason or UNSAID, "--yes")
        _tell_back(app, restored, ("Restored", taking_back), target)


def _is_agreed(app: App, schedule: Schedule) -> bool:
    """Ask the person at the terminal; a script must say --yes."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        remedy = "give --yes where nobody can be asked"
        raise UsageError("yes", schedule.name, "is not deleted without a yes", remedy)
    next_run = f", next run {local_text(schedule, schedule.next_due)}" if schedule.next_due else ""
    print_line(f"{schedule.describe()}{next_run}")
    print_line(f"It stops at once and gives up what it owes; it can be restored{_kept(app)}.")
    try:
        return input(f"Delete {schedule.name}? [y/N] ").strip().lower() in ("y", "yes")
    except (EOFError, KeyboardInterrupt):
        return False


def _kept(app: App) -> str:
    """Say for how long; a server does not tell how long its dispatchers keep what is deleted."""
    kept_us = None if is_server(app) else app.retention.deleted_schedules_us
    return "" if kept_us is None else f" for {duration_words(kept_us)}"
