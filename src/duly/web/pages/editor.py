"""The schedule editor: form, review, save.

The editor stores nothing before the review is confirmed. It shows all errors at once, each at its
field.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec

from duly import Conflict, Outdated, OverQuota, UsageError
from duly.web.formatting import TimeFormatter
from duly.web.pages import editor_form
from duly.web.pages.editor_form import (
    COMPARED,
    DAYS,
    LABELS,
    REPEATS,
    RULE_FIELDS,
    ScheduleForm,
    ZoneGroup,
    ZoneRow,
    advanced_text,
    compared,
    found_zones,
    offered_zones,
    rule_fields,
    shown_value,
    zone_row,
)
from duly.web.pages.editor_preview import (
    SHOWN,
    Checked,
    FormProblem,
    Previewed,
    check_form,
    form_timetable,
    make_preview,
)
from duly.web.requests import Flash, Page, PageRequest, Redirect, Rendered, Undo

if TYPE_CHECKING:
    from datetime import datetime

    from duly import App, Schedule, Timetable


COUNTED_MAX = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaHint:
    """One limit, and how much of it is used."""

    whose: str
    used: int
    most: int

    @property
    def is_used_up(self) -> bool:
        """Whether one more would be refused."""
        return self.used >= self.most


def allowances(app: App, owner: str) -> tuple[QuotaHint, ...]:
    """Return the limits on active schedules that a new one would count against."""
    said = {
        (one.scope, one.tenant): one.most for one in app.quotas.list() if one.counted == "schedules"
    }
    found = []
    tenant = _first(said, (f"tenant:{app.tenant}", None), ("tenant:*", None))
    if tenant is not None:
        found.append(QuotaHint(whose=app.tenant, used=_active(app), most=tenant))
    if owner:
        own = _first(said, (f"owner:{owner}", app.tenant), ("owner:*", None))
        if own is not None:
            found.append(QuotaHint(whose=owner, used=_active(app, owner), most=own))
    return tuple(found)


def _first(
    said: dict[tuple[str, str | None], int | None], *keys: tuple[str, str | None]
) -> int | None:
    """Return what the first of them says that says anything."""
    return next((said[key] for key in keys if key in said), None)


def _active(app: App, owner: str | None = None) -> int:
    return len(app.schedules.page(status="active", owner=owner, limit=COUNTED_MAX).items)


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldDifference:
    """One field that two people see differently, or that an edit changes."""

    label: str
    before: str
    """As it was when the editor was opened."""
    theirs: str
    """As it is now."""
    mine: str
    by: str = ""
    """Who has changed it since: `they`, `you` or `both`."""


def schedule_form(schedule: Schedule) -> ScheduleForm:
    """Return the form that says a schedule as it is."""
    misfire = schedule.misfire.to_json()
    form = ScheduleForm(
        name=schedule.name,
        task=schedule.task,
        arguments=json.dumps(schedule.arguments, indent=2, ensure_ascii=False),
        preset=schedule.preset or "",
        misfire=str(misfire["policy"]),
        grace=str(misfire["grace"]),
        not_older=str(misfire["not_older"] or "none"),
        at_most=str(misfire["at_most"] or ""),
        per_minute=str(schedule.misfire.per_minute or ""),
        overlap=schedule.overlap,
        serialize_by=schedule.serialize_by or "",
        jitter=str(schedule.to_json()["jitter"]),
        queue=schedule.queue,
        priority=str(schedule.priority),
        owner=schedule.owner or "",
        version=schedule.version,
        draft=str(schedule.id),
    )
    form = msgspec.structs.replace(form, **rule_fields(schedule.timetable))
    return msgspec.structs.replace(form, seen=json.dumps(compared(form)))


def create(app: App, form: ScheduleForm, checked: Checked) -> Schedule:
    """Make the schedule."""
    assert checked.timetable is not None, "a form with problems is not saved"
    assert checked.call is not None, "as above"
    return app.schedules.create(
        form.name,
        checked.call,
        checked.timetable,
        owner=form.owner or None,
        **checked.policies,
    )


def edit(app: App, before: Schedule, form: ScheduleForm, checked: Checked) -> Schedule:
    """Change the schedule, if it still is as it was seen."""
    assert checked.timetable is not None, "a form with problems is not saved"
    assert checked.call is not None, "as above"
    if form.version is None:
        raise UsageError("version", None, "is missing", "open the editor again")
    policies = dict(checked.policies)
    # The queue and the priority are the schedule's own, unless they are given too.
    policies["queue"] = policies["queue"] or before.queue
    if policies["priority"] is None:
        policies["priority"] = before.priority
    return app.schedules.edit(
        before.id,
        version=form.version,
        call=checked.call,
        timetable=checked.timetable,
        name=form.name,
        owner=form.owner or None,
        reason=form.reason or None,
        **policies,
    )


def changed_fields(before: ScheduleForm, form: ScheduleForm) -> tuple[FieldDifference, ...]:
    """Return what an edit would change."""
    return _differences(compared(before), compared(before), compared(form))


def stale_differences(form: ScheduleForm, now: ScheduleForm) -> tuple[FieldDifference, ...]:
    """Return what somebody else has changed since, beside what is wanted here."""
    mine, theirs = compared(form), compared(now)
    return _differences(_seen(form.seen, theirs), theirs, mine)


def merged(form: ScheduleForm, now: ScheduleForm) -> ScheduleForm:
    """Return a form with what somebody else has changed taken over, where it was left alone here.

    A rule that is written in another way than it was is one thing, and stays as it was typed.
    """
    mine, theirs = compared(form), compared(now)
    seen = _seen(form.seen, theirs)
    is_one_way = seen.get("mode") == mine["mode"] == theirs["mode"]
    if not is_one_way and any(seen.get(name) != mine[name] for name in RULE_FIELDS):
        kept = {*RULE_FIELDS}
    else:
        kept = set[str]()
    left_alone = (name for name in COMPARED if name not in kept and seen.get(name) == mine[name])
    return msgspec.structs.replace(form, **{name: getattr(now, name) for name in left_alone})


def _by(seen: object, theirs: object, mine: object) -> str:
    if seen == mine:
        return "they"
    return "you" if seen == theirs else "both"


def _differences(
    before: dict[str, Any], theirs: dict[str, Any], mine: dict[str, Any]
) -> tuple[FieldDifference, ...]:
    found = []
    for name, label in LABELS.items():
        seen, there, here = before.get(name), theirs[name], mine[name]
        if there == here:
            continue
        found.append(
            FieldDifference(
                label=label,
                before=shown_value(seen),
                theirs=shown_value(there),
                mine=shown_value(here),
                by=_by(seen, there, here),
            )
        )
    return tuple(found)


def _seen(text: str, otherwise: dict[str, Any]) -> dict[str, Any]:
    """Read what the form was when it was opened; what is not ours is nothing."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return otherwise
    return found if isinstance(found, dict) else otherwise


TASKS_MAX = 500
KINDS = {"integer": "whole number", "number": "number", "boolean": "yes or no", "string": "text"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One argument of a task."""

    name: str
    kind: str
    """`string`, `integer`, `number`, `boolean`, or `json` for anything else."""
    words: str
    is_required: bool
    default: str | None
    """As JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskChoice:
    """A task to choose."""

    name: str
    is_known_here: bool
    """Whether its code is in this program: of others, the name is all that is known."""
    parameters: tuple[Parameter, ...] = ()
    queue: str | None = None
    effects: str | None = None

    @property
    def takes(self) -> str:
        """Return the parameters as JSON, for the script that makes fields of them."""
        return msgspec.json.encode(self.parameters if self.is_known_here else None).decode()


def offered_tasks(app: App) -> tuple[TaskChoice, ...]:
    """Return the tasks of this program and those that others have told of, by name."""
    names = {one.task for one in app.inbox.tasks()} | set(app.tasks.names())
    listed = sorted(name for name in names if not name.endswith(":verify"))[:TASKS_MAX]
    return tuple(offered_task(app, name) for name in listed)


def offered_task(app: App, name: str) -> TaskChoice:
    """Show one task."""
    task = app.tasks.find(name)
    if task is None:
        return TaskChoice(name=name, is_known_here=False)
    signature = task.signature
    required, defaults = set(signature.required), signature.defaults()
    parameters = tuple(
        _parameter(one, kind, one in required, defaults.get(one))
        for one, kind in signature.types.items()
    )
    return TaskChoice(
        name=name,
        is_known_here=True,
        parameters=parameters,
        queue=task.queue,
        effects=str(task.policy.effects),
    )


def _parameter(name: str, kind: Any, is_required: bool, default: object) -> Parameter:  # noqa: ANN401, FBT001 - a type, and what is known of it
    shape = _shape(kind)
    return Parameter(
        name=name,
        kind=shape,
        words=KINDS.get(shape, "JSON"),
        is_required=is_required,
        default=None if is_required else json.dumps(msgspec.to_builtins(default), default=str),
    )


def _shape(kind: Any) -> str:  # noqa: ANN401 - as above
    try:
        found = msgspec.json.schema(kind).get("type")
    except (TypeError, ValueError, NotImplementedError):
        return "json"
    return str(found) if found in KINDS else "json"


TIME_DEFAULT = "09:00"
DAY_NAMES = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
A_DAY = timedelta(days=1)


class ZonesQuery(msgspec.Struct, forbid_unknown_fields=True):
    """What somebody has typed so far, and which zones they used lately."""

    search: str = ""
    recent: list[str] = []


@dataclass(frozen=True, slots=True, kw_only=True)
class EditorModel:
    """The page."""

    form: ScheduleForm
    heading: str
    to: str
    """Where the form is sent."""
    before: Schedule | None
    tasks: tuple[TaskChoice, ...]
    zone: ZoneRow | None
    preview: Previewed | None
    problems: tuple[FormProblem, ...] = ()
    stale: tuple[FieldDifference, ...] = ()
    is_stale: bool = False
    changed: tuple[FieldDifference, ...] = ()
    effect: str | None = None
    allowances: tuple[QuotaHint, ...] = ()
    note: str | None = None
    task: TaskChoice | None = None
    repeats: dict[str, str] = field(default_factory=lambda: REPEATS)
    days: tuple[tuple[str, str], ...] = tuple(zip(DAYS, DAY_NAMES, strict=True))
    misfires: tuple[editor_form.Card, ...] = editor_form.MISFIRES
    overlaps: tuple[editor_form.Card, ...] = editor_form.OVERLAPS
    gaps: tuple[editor_form.Card, ...] = editor_form.GAPS
    folds: tuple[editor_form.Card, ...] = editor_form.FOLDS
    presets: tuple[editor_form.Card, ...] = field(default_factory=editor_form.preset_cards)
    fills: dict[str, dict[str, str]] = field(default_factory=editor_form.preset_policies)

    def problem(self, name: str) -> FormProblem | None:
        """Return what is wrong with a field."""
        return next((one for one in self.problems if one.field == name), None)

    @property
    def carried(self) -> list[tuple[str, str]]:
        """Return every field of the form, for the review to carry along."""
        found: list[tuple[str, str]] = []
        for name in self.form.__struct_fields__:
            value: Any = getattr(self.form, name)
            if name in {"step", "count"}:
                continue
            values = value if isinstance(value, list) else [value]
            found += [(name, str(one)) for one in values if one not in {None, ""}]
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviewModel:
    """What a script puts beside the form while somebody types."""

    preview: Previewed | None
    problems: tuple[FormProblem, ...]
    allowances: tuple[QuotaHint, ...]
    effect: str | None
    zone: ZoneRow | None
    mine: str | None
    rule_problem: FormProblem | None
    """Why there is no preview: what is wrong with a part of the rule that is filled in."""


@dataclass(frozen=True, slots=True)
class ZonesModel:
    """Zones to choose from."""

    groups: tuple[ZoneGroup, ...]
    typed: str


def show_new(asked: PageRequest) -> Rendered:
    """Show an empty editor, in the visitor's own zone."""
    form = ScheduleForm(time=TIME_DEFAULT, tz=asked.clocks.mine or "UTC")
    return _editor(asked, form, None)


def show_edit(asked: PageRequest) -> Rendered:
    """Show a schedule in the editor."""
    before = asked.app.schedules.get(asked.path["schedule"])
    return _editor(asked, schedule_form(before), before)


def show_duplicate(asked: PageRequest) -> Rendered:
    """Show a new schedule that says what another does, under another name."""
    source = asked.app.schedules.get(asked.path["schedule"])
    form = schedule_form(source)
    draft, name = f"copy-{source.id}", f"{source.name}-copy"
    form = msgspec.structs.replace(form, name=name, draft=draft, version=None, seen="")
    return _editor(asked, form, None)


def send_new(asked: PageRequest) -> Rendered | Redirect:
    """Review a new schedule, or make it."""
    return _sent(asked, None)


def send_edit(asked: PageRequest) -> Rendered | Redirect:
    """Review an edit, or make it."""
    return _sent(asked, asked.app.schedules.get(asked.path["schedule"]))


def show_preview(asked: PageRequest) -> Rendered:
    """Show what the form says so far; nothing is stored."""
    form: ScheduleForm = asked.form
    before = _known(asked, form)
    checked = check_form(asked.app, form, asked.now, before)
    preview = None
    if checked.timetable is not None:
        preview = make_preview(asked, checked.timetable, form, before)
    model = PreviewModel(
        preview=preview,
        problems=checked.problems,
        allowances=_allowances(asked, form, before),
        effect=None if before is None else _effect(asked, before, checked.timetable),
        zone=zone_row(form.tz, asked.now),
        mine=asked.clocks.mine,
        rule_problem=_rule_problem(form, checked),
    )
    return Rendered(template="editor_preview.html", model=model, title="Preview", is_part=True)


def _rule_problem(form: ScheduleForm, checked: Checked) -> FormProblem | None:
    # A zone is told about at its own field, once it is left.
    filled = [name for name in RULE_FIELDS if name != "tz" and getattr(form, name)]
    return next((one for one in checked.problems if one.field in filled), None)


def show_zones(asked: PageRequest) -> Rendered:
    """Show zones that somebody may mean."""
    query: ZonesQuery = asked.query
    typed = query.search.strip()
    if typed:
        groups = found_zones(typed, asked.now)
    else:
        groups = offered_zones(asked.now, asked.clocks.mine, query.recent)
    model = ZonesModel(groups, typed)
    return Rendered(template="editor_zones.html", model=model, title="Zones", is_part=True)


def _sent(asked: PageRequest, before: Schedule | None) -> Rendered | Redirect:
    form: ScheduleForm = asked.form
    # Whoever has no script, and wants to see more occurrences, sends the form as well.
    wants_more = not form.step and form.count != SHOWN
    if wants_more or form.step in {"edit", "simple", "advanced"}:
        return _editor(asked, _switched(form, before), before)
    if before is not None and form.version not in {None, before.version}:
        return _stale(asked, form, before)
    checked = check_form(asked.app, form, asked.now, before)
    if not checked.is_fine:
        return _editor(asked, form, before, checked)
    if form.step in {"save", "run"}:
        return _saved_or_told(asked, form, before, checked)
    return _review(asked, form, before, checked)


def _saved_or_told(
    asked: PageRequest, form: ScheduleForm, before: Schedule | None, checked: Checked
) -> Rendered | Redirect:
    """Save; what the store refuses is told at its field."""
    try:
        return _saved(asked, form, before, checked)
    except Outdated:
        # Somebody was faster between the review and now.
        return _stale(asked, form, asked.app.schedules.get(asked.path["schedule"]))
    except (Conflict, UsageError) as error:
        problem = _refused(form, error)
        checked = Checked(
            timetable=checked.timetable, call=checked.call, policies={}, problems=(problem,)
        )
        return _editor(asked, form, before, checked)


def _saved(
    asked: PageRequest, form: ScheduleForm, before: Schedule | None, checked: Checked
) -> Redirect:
    app = asked.app
    if before is None:
        made = create(app, form, checked)
        undo = _order("Undo", made, "delete")
        text = f"Scheduled: {made.timetable.describe()}. {_first_words(made, asked.now)}"
    else:
        made = edit(app, before, form, checked)
        if made.version == before.version:
            return Redirect(to=f"/schedules/{made.id}", said=Flash(text="Nothing was changed"))
        entry = app.schedules.history(made.id, limit=1)[0]
        undo = _order("Undo", made, "revert", entry=str(entry.number))
        text = f"Saved: {made.timetable.describe()}. {_first_words(made, asked.now)}"
    if form.step == "run":
        run = app.schedules.trigger(made.id, reason="run once when saved")
        return Redirect(
            to=f"/runs/{run.id}", said=Flash(text=f"{text} One run was made now.", undo=undo)
        )
    to = f"/schedules?made={made.id}" if before is None else f"/schedules/{made.id}"
    return Redirect(to=to, said=Flash(text=text, undo=undo))


def _order(label: str, schedule: Schedule, verb: str, **fields: str) -> Undo:
    # The version goes along: an undo never takes back what somebody else did since.
    path = f"/schedules/{quote(str(schedule.id))}/{verb}"
    said = {"version": str(schedule.version), "reason": "undone", **fields}
    return Undo(label=label, path=path, fields=said)


def _first_words(schedule: Schedule, now: datetime) -> str:
    """Say when it first fires, on its own clock: "First: tomorrow 09:00 CET"."""
    coming = schedule.upcoming(1)
    if not coming:
        return "It is not due: nothing is pending."
    one = coming[0]
    today = TimeFormatter("schedule").moment(now, now, one.tz).day
    tomorrow = TimeFormatter("schedule").moment(now + A_DAY, now, one.tz).day
    shown = TimeFormatter("schedule").moment(one.utc, now, one.tz)
    day = {today: "today", tomorrow: "tomorrow"}.get(shown.day, shown.day)
    return f"First: {day} {shown.clock.removesuffix(':00')} {shown.zone}"


def _refused(form: ScheduleForm, error: Conflict | UsageError) -> FormProblem:
    if isinstance(error, OverQuota):
        return FormProblem(field="owner", text=f"{error.name} {error.problem}", remedy=error.remedy)
    if isinstance(error, Conflict):
        text = f"“{form.name}” {error.problem}"
        return FormProblem(field="name", text=text, remedy=error.remedy, fix=f"{form.name}-2")
    return FormProblem(
        field=error.field, text=f"{error.value} {error.problem}", remedy=error.remedy
    )


def _switched(form: ScheduleForm, before: Schedule | None) -> ScheduleForm:
    """Say the same rule in the other way, without loss, or leave it as it is."""
    if form.step not in {"simple", "advanced"}:
        return form
    try:
        timetable = form_timetable(form, before)
    except UsageError:
        return msgspec.structs.replace(form, mode=form.step) if form.mode != "stored" else form
    if form.step == "simple":
        fields = rule_fields(timetable)
        return msgspec.structs.replace(form, **fields) if fields["mode"] == "simple" else form
    text = advanced_text(timetable)
    return form if text is None else msgspec.structs.replace(form, mode="advanced", text=text)


def _editor(
    asked: PageRequest, form: ScheduleForm, before: Schedule | None, checked: Checked | None = None
) -> Rendered:
    """Show the form; problems are told once somebody has asked for a review."""
    found = checked or check_form(asked.app, form, asked.now, before)
    problems = () if checked is None else checked.problems
    note = None
    if form.step == "simple" and form.mode != "simple":
        note = "This rule can't be shown as a sentence. It stays as it is written."
    model = _model(asked, form, before, found, problems=problems, note=note)
    status = 422 if problems else 200
    return Rendered(template="editor.html", model=model, title=model.heading, status=status)


def _review(
    asked: PageRequest, form: ScheduleForm, before: Schedule | None, checked: Checked
) -> Rendered:
    model = _model(asked, form, before, checked)
    return Rendered(template="editor_review.html", model=model, title="Review")


def _stale(asked: PageRequest, form: ScheduleForm, now: Schedule) -> Rendered:
    """Show what somebody else has changed beside what is wanted; whoever goes on has seen it."""
    current = schedule_form(now)
    found = stale_differences(form, current)
    # What they changed and I did not is theirs; what both did is mine, and shown.
    mine = merged(form, current)
    mine = msgspec.structs.replace(mine, version=now.version, seen=current.seen)
    checked = check_form(asked.app, mine, asked.now, now)
    model = _model(asked, mine, now, checked, stale=found, is_stale=True)
    return Rendered(template="editor.html", model=model, title=model.heading, status=409)


def _model(
    asked: PageRequest,
    form: ScheduleForm,
    before: Schedule | None,
    checked: Checked,
    **more: Any,  # noqa: ANN401 - further fields of the model
) -> EditorModel:
    preview = None
    if checked.timetable is not None:
        preview = make_preview(asked, checked.timetable, form, before)
    changed = () if before is None else changed_fields(schedule_form(before), form)
    return EditorModel(
        form=form,
        heading="New schedule" if before is None else f"Edit {before.name}",
        to="/schedules/new" if before is None else f"/schedules/{before.id}/edit",
        before=before,
        tasks=offered_tasks(asked.app),
        task=offered_task(asked.app, form.task) if form.task else None,
        zone=zone_row(form.tz, asked.now),
        preview=preview,
        changed=changed,
        effect=None if before is None else _effect(asked, before, checked.timetable),
        allowances=_allowances(asked, form, before),
        **more,
    )


def _allowances(
    asked: PageRequest, form: ScheduleForm, before: Schedule | None
) -> tuple[QuotaHint, ...]:
    return () if before is not None else allowances(asked.app, form.owner)


def _effect(asked: PageRequest, before: Schedule, timetable: Timetable | None) -> str | None:
    """Say how an edit moves the next run."""
    if timetable is None or before.next_for is None:
        return None
    after = timetable.next(asked.now)
    clocks, old = TimeFormatter("schedule"), before.upcoming(1)
    if after is None:
        return "After this edit nothing is due any more: the schedule ends."
    if not old or after == old[0].utc:
        return "The next run stays where it is."
    new = asked.app.schedules.preview(timetable, None, 1).occurrences[0]
    was = clocks.moment(old[0].utc, asked.now, old[0].tz)
    will = clocks.moment(new.utc, asked.now, new.tz)
    return (
        f"The next run moves from {was.day} {was.clock.removesuffix(':00')} {was.zone}"
        f" to {will.day} {will.clock.removesuffix(':00')} {will.zone}."
    )


def _known(asked: PageRequest, form: ScheduleForm) -> Schedule | None:
    """Return the schedule that a previewed form edits: the form says its version, and its name."""
    if form.version is None or not form.seen:
        return None
    try:
        name = msgspec.json.decode(form.seen.encode(), type=dict[str, Any])["name"]
        return asked.app.schedules.get(str(name))
    except (msgspec.MsgspecError, LookupError, KeyError, Conflict):
        return None


_ONE = "/schedules/{schedule}"
PAGES = (
    Page(method="GET", path="/schedules/new", name="new_schedule", scope="edit", handler=show_new),
    Page(
        method="POST",
        path="/schedules/new",
        name="send_new_schedule",
        scope="edit",
        handler=send_new,
        form=ScheduleForm,
    ),
    Page(method="GET", path=f"{_ONE}/edit", name="edit_schedule", scope="edit", handler=show_edit),
    Page(
        method="POST",
        path=f"{_ONE}/edit",
        name="send_edited_schedule",
        scope="edit",
        handler=send_edit,
        form=ScheduleForm,
    ),
    Page(
        method="GET",
        path=f"{_ONE}/duplicate",
        name="duplicate_schedule",
        scope="edit",
        handler=show_duplicate,
    ),
    Page(
        method="POST",
        path="/schedules/preview",
        name="preview_schedule",
        scope="read",
        handler=show_preview,
        form=ScheduleForm,
    ),
    Page(
        method="GET",
        path="/zones",
        name="zones",
        scope="read",
        handler=show_zones,
        query=ZonesQuery,
    ),
)
