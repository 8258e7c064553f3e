"""The schedule editor: a form, a review, and only then a schedule (U2, S4, T5, T6).

Nothing is stored before the review is confirmed. What is wrong is told at its field, all at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec

from duly import Conflict, Outdated, OverQuota, UsageError
from duly_web.editing import choices, saving
from duly_web.editing.checked import Checked, Problem, check_form, form_timetable
from duly_web.editing.form import RULE_FIELDS, ScheduleForm
from duly_web.editing.limits import Allowance, allowances
from duly_web.editing.previewing import SHOWN, Previewed, make_preview
from duly_web.editing.rules import DAYS, REPEATS, advanced_text, rule_fields
from duly_web.editing.tasks import Offered, offered_task, offered_tasks
from duly_web.editing.zone_choices import ZoneGroup, ZoneRow, found_zones, offered_zones, zone_row
from duly_web.moments import Clocks
from duly_web.page import Asked, Moved, Page, Said, Shown, Undo

if TYPE_CHECKING:
    from datetime import datetime

    from duly import Schedule, Timetable

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
    tasks: tuple[Offered, ...]
    zone: ZoneRow | None
    preview: Previewed | None
    problems: tuple[Problem, ...] = ()
    stale: tuple[saving.Difference, ...] = ()
    is_stale: bool = False
    changed: tuple[saving.Difference, ...] = ()
    effect: str | None = None
    allowances: tuple[Allowance, ...] = ()
    note: str | None = None
    task: Offered | None = None
    repeats: dict[str, str] = field(default_factory=lambda: REPEATS)
    days: tuple[tuple[str, str], ...] = tuple(zip(DAYS, DAY_NAMES, strict=True))
    misfires: tuple[choices.Card, ...] = choices.MISFIRES
    overlaps: tuple[choices.Card, ...] = choices.OVERLAPS
    gaps: tuple[choices.Card, ...] = choices.GAPS
    folds: tuple[choices.Card, ...] = choices.FOLDS
    presets: tuple[choices.Card, ...] = field(default_factory=choices.preset_cards)
    fills: dict[str, dict[str, str]] = field(default_factory=choices.preset_policies)

    def problem(self, name: str) -> Problem | None:
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
    problems: tuple[Problem, ...]
    allowances: tuple[Allowance, ...]
    effect: str | None
    zone: ZoneRow | None
    mine: str | None
    rule_problem: Problem | None
    """Why there is no preview: what is wrong with a part of the rule that is filled in."""


@dataclass(frozen=True, slots=True)
class ZonesModel:
    """Zones to choose from."""

    groups: tuple[ZoneGroup, ...]
    typed: str


def show_new(asked: Asked) -> Shown:
    """Show an empty editor, in the visitor's own zone."""
    form = ScheduleForm(time=TIME_DEFAULT, tz=asked.clocks.mine or "UTC")
    return _editor(asked, form, None)


def show_edit(asked: Asked) -> Shown:
    """Show a schedule in the editor."""
    before = asked.app.schedules.get(asked.path["schedule"])
    return _editor(asked, saving.schedule_form(before), before)


def show_duplicate(asked: Asked) -> Shown:
    """Show a new schedule that says what another does, under another name."""
    source = asked.app.schedules.get(asked.path["schedule"])
    form = saving.schedule_form(source)
    draft, name = f"copy-{source.id}", f"{source.name}-copy"
    form = msgspec.structs.replace(form, name=name, draft=draft, version=None, seen="")
    return _editor(asked, form, None)


def send_new(asked: Asked) -> Shown | Moved:
    """Review a new schedule, or make it."""
    return _sent(asked, None)


def send_edit(asked: Asked) -> Shown | Moved:
    """Review an edit, or make it."""
    return _sent(asked, asked.app.schedules.get(asked.path["schedule"]))


def show_preview(asked: Asked) -> Shown:
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
    return Shown(template="editor_preview.html", model=model, title="Preview", is_part=True)


def _rule_problem(form: ScheduleForm, checked: Checked) -> Problem | None:
    # A zone is told about at its own field, once it is left.
    filled = [name for name in RULE_FIELDS if name != "tz" and getattr(form, name)]
    return next((one for one in checked.problems if one.field in filled), None)


def show_zones(asked: Asked) -> Shown:
    """Show zones that somebody may mean."""
    query: ZonesQuery = asked.query
    typed = query.search.strip()
    if typed:
        groups = found_zones(typed, asked.now)
    else:
        groups = offered_zones(asked.now, asked.clocks.mine, query.recent)
    model = ZonesModel(groups, typed)
    return Shown(template="editor_zones.html", model=model, title="Zones", is_part=True)


def _sent(asked: Asked, before: Schedule | None) -> Shown | Moved:
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
    asked: Asked, form: ScheduleForm, before: Schedule | None, checked: Checked
) -> Shown | Moved:
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


def _saved(asked: Asked, form: ScheduleForm, before: Schedule | None, checked: Checked) -> Moved:
    app = asked.app
    if before is None:
        made = saving.create(app, form, checked)
        undo = _order("Undo", made, "delete")
        text = f"Scheduled: {made.timetable.describe()}. {_first_words(made, asked.now)}"
    else:
        made = saving.edit(app, before, form, checked)
        if made.version == before.version:
            return Moved(to=f"/schedules/{made.id}", said=Said(text="Nothing was changed"))
        entry = app.schedules.history(made.id, limit=1)[0]
        undo = _order("Undo", made, "revert", entry=str(entry.number))
        text = f"Saved: {made.timetable.describe()}. {_first_words(made, asked.now)}"
    if form.step == "run":
        run = app.schedules.trigger(made.id, reason="run once when saved")
        return Moved(
            to=f"/runs/{run.id}", said=Said(text=f"{text} One run was made now.", undo=undo)
        )
    to = f"/schedules?made={made.id}" if before is None else f"/schedules/{made.id}"
    return Moved(to=to, said=Said(text=text, undo=undo))


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
    today = Clocks("schedule").moment(now, now, one.tz).day
    tomorrow = Clocks("schedule").moment(now + A_DAY, now, one.tz).day
    shown = Clocks("schedule").moment(one.utc, now, one.tz)
    day = {today: "today", tomorrow: "tomorrow"}.get(shown.day, shown.day)
    return f"First: {day} {shown.clock.removesuffix(':00')} {shown.zone}"


def _refused(form: ScheduleForm, error: Conflict | UsageError) -> Problem:
    if isinstance(error, OverQuota):
        return Problem(field="owner", text=f"{error.name} {error.problem}", remedy=error.remedy)
    if isinstance(error, Conflict):
        text = f"“{form.name}” {error.problem}"
        return Problem(field="name", text=text, remedy=error.remedy, fix=f"{form.name}-2")
    return Problem(field=error.field, text=f"{error.value} {error.problem}", remedy=error.remedy)


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
    asked: Asked, form: ScheduleForm, before: Schedule | None, checked: Checked | None = None
) -> Shown:
    """Show the form; problems are told once somebody has asked for a review."""
    found = checked or check_form(asked.app, form, asked.now, before)
    problems = () if checked is None else checked.problems
    note = None
    if form.step == "simple" and form.mode != "simple":
        note = "This rule can't be shown as a sentence. It stays as it is written."
    model = _model(asked, form, before, found, problems=problems, note=note)
    status = 422 if problems else 200
    return Shown(template="editor.html", model=model, title=model.heading, status=status)


def _review(asked: Asked, form: ScheduleForm, before: Schedule | None, checked: Checked) -> Shown:
    model = _model(asked, form, before, checked)
    return Shown(template="editor_review.html", model=model, title="Review")


def _stale(asked: Asked, form: ScheduleForm, now: Schedule) -> Shown:
    """Show what somebody else has changed beside what is wanted; whoever goes on has seen it."""
    current = saving.schedule_form(now)
    found = saving.stale_differences(form, current)
    # What they changed and I did not is theirs; what both did is mine, and shown.
    mine = saving.merged(form, current)
    mine = msgspec.structs.replace(mine, version=now.version, seen=current.seen)
    checked = check_form(asked.app, mine, asked.now, now)
    model = _model(asked, mine, now, checked, stale=found, is_stale=True)
    return Shown(template="editor.html", model=model, title=model.heading, status=409)


def _model(
    asked: Asked,
    form: ScheduleForm,
    before: Schedule | None,
    checked: Checked,
    **more: Any,  # noqa: ANN401 - further fields of the model
) -> EditorModel:
    preview = None
    if checked.timetable is not None:
        preview = make_preview(asked, checked.timetable, form, before)
    changed = () if before is None else saving.changed_fields(saving.schedule_form(before), form)
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


def _allowances(asked: Asked, form: ScheduleForm, before: Schedule | None) -> tuple[Allowance, ...]:
    return () if before is not None else allowances(asked.app, form.owner)


def _effect(asked: Asked, before: Schedule, timetable: Timetable | None) -> str | None:
    """Say how an edit moves the next run."""
    if timetable is None or before.next_for is None:
        return None
    after = timetable.next(asked.now)
    clocks, old = Clocks("schedule"), before.upcoming(1)
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


def _known(asked: Asked, form: ScheduleForm) -> Schedule | None:
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
