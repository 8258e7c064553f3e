"""Reconciling: make what is stored agree with what is declared, and report what changed (S9).

What a person did stays done: a pause is kept, a deletion is not undone, and a schedule made by hand
is not taken over. Every step is idempotent and compared with what is stored when it is applied, so
that two processes which start at once come to the same end.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from duly.client.alert_declarations import reconcile_alerts
from duly.client.caller import DECLARATION
from duly.client.declarations import Declarations, problem_of
from duly.client.schedule_orders import (
    Order,
    Wanted,
    apply_order,
    create_schedule,
    decide_new,
    list_records,
)
from duly.domain.identity import schedule_id
from duly.domain.literals import ScheduleStatus
from duly.domain.planning import decide_delete, decide_restore, first_pending
from duly.errors import Conflict, UsageError
from duly.store.reading import AuditFilter, ScheduleFilter, Seen

if TYPE_CHECKING:
    from duly.client.caller import Caller
    from duly.client.schedule_orders import NewSchedule
    from duly.domain.planning import Change
    from duly.domain.schedules import ScheduleRecord

NO_LONGER_DECLARED = "no longer declared"
_DONE = ("created", "changed", "revived", "deleted")
_WOULD_DO = ("would create", "would change", "would revive", "would delete")
_ID_BYTES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciliation:
    """What a reconciliation did and found; each schedule is named once."""

    created: tuple[str, ...] = ()
    changed: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """What differed, by name of the schedule."""
    unchanged: tuple[str, ...] = ()
    revived: tuple[str, ...] = ()
    """Pruned earlier for not being declared, and declared again."""
    kept_deleted: tuple[str, ...] = ()
    """Declared, but a person deleted them; restoring them is a person's choice too."""
    orphaned: tuple[str, ...] = ()
    """Declared by the same source earlier, and no longer."""
    pruned: tuple[str, ...] = ()
    """Orphans that were deleted, because that was asked for."""
    conflicts: dict[str, str] = field(default_factory=dict)
    """Declared, but not made so, and why."""
    is_dry: bool = False
    """Whether this is what would be done; then nothing was."""

    @property
    def is_clean(self) -> bool:
        """Whether everything that is declared is so."""
        return not self.conflicts

    def lines(self) -> list[str]:
        """Say in sentences what was done and found; what is as it was goes without saying."""
        create, change, revive, delete = _WOULD_DO if self.is_dry else _DONE
        lines = [f"{create} {name}" for name in self.created]
        lines += [
            f"{change} {name}: {', '.join(differing)}" for name, differing in self.changed.items()
        ]
        lines += [f"{revive} {name}: it is declared again" for name in self.revived]
        lines += [f"{delete} {name}: {NO_LONGER_DECLARED}" for name in self.pruned]
        lines += [
            f"{name} is declared, but was deleted by hand: restore it or remove its declaration"
            for name in self.kept_deleted
        ]
        lines += [
            f"{name} is {NO_LONGER_DECLARED} and goes on: delete it, or reconcile with prune"
            for name in self.orphaned
        ]
        lines += [f"{name}: {problem}" for name, problem in self.conflicts.items()]
        count = len(self.unchanged)
        if count:
            lines.append(f"{count} unchanged")
        return lines or ["nothing is declared"]

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "created": list(self.created),
            "changed": {name: list(differing) for name, differing in self.changed.items()},
            "unchanged": list(self.unchanged),
            "revived": list(self.revived),
            "kept_deleted": list(self.kept_deleted),
            "orphaned": list(self.orphaned),
            "pruned": list(self.pruned),
            "conflicts": self.conflicts,
        }


class _Report:
    """What has been done so far, or would have been."""

    def __init__(self, *, is_dry: bool) -> None:
        self.is_dry = is_dry
        self.names: dict[str, list[str]] = {}
        self.changed: dict[str, tuple[str, ...]] = {}
        self.conflicts: dict[str, str] = {}

    def note(self, what: str, name: str) -> None:
        self.names.setdefault(what, []).append(name)

    def note_alert(self, what: str, name: str, problem: str) -> None:
        if what == "conflicts":
            self.conflicts[name] = problem
        elif what == "changed":
            self.changed[name] = ("terms",)
        else:
            self.note(what, name)

    def done(self) -> Reconciliation:
        names = {what: tuple(found) for what, found in self.names.items()}
        return Reconciliation(
            changed=self.changed, conflicts=self.conflicts, is_dry=self.is_dry, **names
        )


def reconcile(
    caller: Caller, declared: Declarations, *, prune: bool, dry_run: bool = False
) -> Reconciliation:
    """Make, change, revive and report; with `prune`, delete what is no longer declared.

    With `dry_run` everything is looked at and decided as it would be, and nothing is written.
    """
    caller.require_operator("make what is stored agree with what is declared")
    caller = replace(caller, source=DECLARATION)
    store = caller.store
    wanted = declared.resolved(caller.tasks, store.list_tasks())
    names = caller.tasks.names()
    if names and not dry_run:
        store.register_tasks(names)
        store.register_policies(caller.tasks.policies())
    report = _Report(is_dry=dry_run)
    for new in wanted:
        try:
            _reconcile_one(caller, new, declared.sources, report)
        except (Conflict, UsageError) as error:
            # One schedule that can't be made so is reported; the others are not kept waiting.
            report.conflicts[new.name] = problem_of(error)
    taken = {new.name for new in wanted}
    for source in declared.compared:
        for record in _declared_by(caller, source):
            if record.name not in taken:
                _orphan(caller, record, report, prune=prune)
    for what, name, problem in reconcile_alerts(
        caller, declared.alerts, declared.sources, dry_run=dry_run
    ):
        report.note_alert(what, name, problem)
    return report.done()


def _reconcile_one(caller: Caller, new: NewSchedule, sources: list[str], report: _Report) -> None:
    seen = caller.store.find_schedule(caller.tenant, new.name)
    if seen is None or _is_nobodys(seen.record, sources):
        is_new = _try_new(caller, new) if report.is_dry else create_schedule(caller, new).is_new
        report.note("created" if is_new else "unchanged", new.name)
        return
    if seen.record.declared_by not in sources:
        whose = seen.record.declared_by or "hand"
        problem = f"is declared, but one of that name was made by {whose}"
        remedy = "give one of them another name, or delete that one"
        raise Conflict("schedule", new.name, problem, remedy)
    if seen.record.status is ScheduleStatus.DELETED:
        if not _was_pruned(caller, seen.record):
            report.note("kept_deleted", new.name)
            return
        if not report.is_dry:
            _revive(caller, seen, new)
        report.note("revived", new.name)
        return
    differing = _differing(seen.record, new)
    if report.is_dry:
        decide_new(caller, seen.record, _wanted(new), seen.now)
    else:
        _change(caller, seen, new)
    if differing:
        report.changed[new.name] = differing
    else:
        report.note("unchanged", new.name)


def _is_nobodys(record: ScheduleRecord, sources: list[str]) -> bool:
    """Say whether a name is free: what is deleted holds none, unless we declared it."""
    return record.status is ScheduleStatus.DELETED and record.declared_by not in sources


def _try_new(caller: Caller, new: NewSchedule) -> bool:
    """Decide what making it would decide; what has no occurrence to come is refused."""
    now = caller.store.now()
    first_pending(schedule_id(now, caller.draws.draw(_ID_BYTES)), new.definition, now)
    return True


def _wanted(new: NewSchedule) -> Wanted:
    return Wanted(new.definition, owner=new.owner, declared_by=new.declared_by)


def _change(caller: Caller, seen: Seen, new: NewSchedule) -> None:
    wanted = _wanted(new)

    def decide(record: ScheduleRecord, now: int) -> Change | None:
        return decide_new(caller, record, wanted, now)

    apply_order(caller, seen, decide, Order())


def _revive(caller: Caller, seen: Seen, new: NewSchedule) -> None:
    """Restore what only a reconciliation has deleted, then make it as it is declared."""

    def decide(record: ScheduleRecord, now: int) -> Change | None:
        if record.status is not ScheduleStatus.DELETED:
            return None  # another process was faster
        return decide_restore(record, now, None)

    record = apply_order(caller, seen, decide, Order(reason="declared again"))
    _change(caller, Seen(record, caller.store.now()), new)


def _orphan(caller: Caller, record: ScheduleRecord, report: _Report, *, prune: bool) -> None:
    if not prune:
        report.note("orphaned", record.name)
        return

    def decide(found: ScheduleRecord, _now: int) -> Change | None:
        if found.status is ScheduleStatus.DELETED:
            return None
        return decide_delete(found, NO_LONGER_DECLARED)

    if not report.is_dry:
        order = Order(reason=NO_LONGER_DECLARED)
        apply_order(caller, Seen(record, caller.store.now()), decide, order)
    report.note("pruned", record.name)


def _was_pruned(caller: Caller, record: ScheduleRecord) -> bool:
    """Say whether a reconciliation deleted it, and not a person."""
    command = AuditFilter(
        tenant=record.tenant, subject_id=record.id, action="schedule.deleted", limit=1
    )
    return [entry.actor.source for entry in caller.store.list_audit(command)] == [DECLARATION]


def _declared_by(caller: Caller, source: str) -> list[ScheduleRecord]:
    return list_records(caller, ScheduleFilter(tenant=caller.tenant, declared_by=source))


def _differing(record: ScheduleRecord, new: NewSchedule) -> tuple[str, ...]:
    """Return what a declaration changes, by the names that people use for it."""
    stored, declared = record.definition.to_json(), new.definition.to_json()
    differing = [key for key in declared | stored if stored.get(key) != declared.get(key)]
    if new.owner not in (None, record.owner):
        differing.append("owner")
    if new.declared_by != record.declared_by:
        differing.append("declared_by")
    return tuple(differing)
