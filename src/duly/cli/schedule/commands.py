"""The orders of `duly schedule` by name; each one's file is loaded when it is asked for."""

from __future__ import annotations

from cyclopts import App

app = App(name="schedule", help="Make, look at and change schedules.")
for name, place, purpose in (
    ("create", "create:create", "Make a schedule, and show when it runs."),
    ("list", "look:list_schedules", "List schedules, with what comes next."),
    ("show", "show:show", "Show all about a schedule: rule, policies, next runs, last run."),
    ("edit", "edit:edit", "Change a schedule, and show what that moves."),
    ("pause", "state:pause", "Stop a schedule for a while; nothing of it is lost."),
    ("resume", "state:resume", "Let a paused schedule go on."),
    ("trigger", "state:trigger", "Run it now, beside its timetable."),
    ("skip", "state:skip", "Leave out the next occurrence, on record."),
    ("delete", "state:delete", "Delete a schedule; it can be restored for a while."),
    ("restore", "state:restore", "Bring back a deleted schedule."),
    ("history", "look:history", "Show who did what to a schedule, when and why."),
    ("diff", "diff:diff", "Show what a change changed, field by field."),
    ("occurrences", "look:occurrences", "Show what became of each expected occurrence."),
    ("apply", "declared:apply", "Make schedules as a file declares them."),
    ("export", "declared:export", "Write schedules as a file that apply reads back."),
):
    app.command(f"duly.cli.schedule.{place}", name=name, help=purpose)
