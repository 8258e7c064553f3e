"""Commands about ambiguous runs and their tasks: inbox, run resume, reconcile, verify, task."""

from __future__ import annotations

import json
from dataclasses import dataclass
from shlex import quote
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from duly.app import App as Application
from duly.cli.confirm import UNSAID, print_undo, undo_command
from duly.cli.context import Target, open_app
from duly.cli.output import print_empty_or_json, print_facts, print_json, print_line, print_table
from duly.cli.references import find_run, print_elsewhere
from duly.cli.run_details import scope_text
from duly.client.run_view import Run
from duly.domain.effects import Choice, EffectState
from duly.domain.enums import AttemptState
from duly.errors import UsageError
from duly.timetable.instants import distance_text, utc_text

if TYPE_CHECKING:
    from duly.client.doubt_view import Effect, InboxItem
    from duly.client.inbox import TaskOrders

TARGET = Target()
AMBIGUOUS = 6
"""The exit code when something waits whose outcome nobody knows."""
_COMMANDS = {
    Choice.RETRY: "duly run retry {run}{known} --reason …",
    Choice.RESUME: "duly run resume {run}{known} --reason …",
    Choice.REPAIR: "duly run rerun {run} --repair{known} --reason …",
    Choice.RECONCILE: "duly run reconcile {run} --done --reason …   (or --failed)",
    Choice.SKIP: "duly run skip {run} --reason …",
}
_WITH_MISSING = (
    "duly run reconcile {run} --failed --reason …   (or --done --despite-missing: it counts as no"
    " useful completion)"
)

app = App(name="inbox", help="Runs of which nobody knows what they did, and what is safest.")


@app.default
def inbox(run: str | None = None, /, *, limit: int = 50, target: Target = TARGET) -> int:
    """List runs that are in doubt, or show one with all that is known and what each choice risks.

    Parameters
    ----------
    run
        Its id, the beginning of it, or its label; without it, all that wait.
    limit
        At most so many.
    """
    with open_app(target, makes_store=False) as application:
        if run is not None:
            item = application.inbox.get(find_run(application, run).id)
            if target.json:
                print_json(item.to_json())
            else:
                print_item(item)
            return AMBIGUOUS
        items = application.inbox.list(limit=limit)
        if target.json:
            print_json([one.to_json() for one in items])
        else:
            _print_items(application, items)
        return AMBIGUOUS if items else 0


def _print_items(application: Application, items: list[InboxItem]) -> None:
    if not items:
        print_line("Nothing waits: no run is in doubt.")
        print_elsewhere(application, ("ambiguous",))
        return
    now = application.status().now
    rows = [
        [
            str(one.run.id),
            one.run.label,
            "-" if one.since is None else distance_text(one.since, now),
            one.run.reason or "-",
            f"{one.advice.choice}: {one.advice.why}",
        ]
        for one in items
    ]
    print_table(("run", "label", "for", "why", "safest"), rows)
    print_line(f"duly inbox {items[0].run.id} shows what is known of it, and every choice.")


def print_item(item: InboxItem) -> None:
    """Print a run in doubt: what is known, what is safest, and what else could be done."""
    run, attempt = item.run, item.attempt
    print_line((run.label, "bold"), f"  {run.id}")
    task = f"{run.task} {json.dumps(run.arguments, ensure_ascii=False)}"
    facts = [("state", f"in doubt (ambiguous): {run.reason}"), ("task", task)]
    if attempt is not None:
        facts.append(
            ("attempt", f"{attempt.number} by {attempt.worker_name}: {_told(attempt.state)}")
        )
        if attempt.effects_at is not None:
            facts.append(("effects begun", utc_text(attempt.effects_at)))
        if attempt.late is not None:
            said = f"{attempt.late.state} at {utc_text(attempt.late.at)}, too late to count"
            facts.append(("its worker said", said))
    print_facts(facts)
    _print_results(item)
    print_line()
    if attempt is not None and attempt.state == AttemptState.LOST:
        print_line(
            ("first: ", "bold"),
            f"make sure that {attempt.worker_name} is gone; one that was only stopped, or cut off,",
            " goes on with what it was permitted",
        )
    print_line(("safest: ", "bold green"), f"{item.advice.choice}, because {item.advice.why}")
    if item.has_check:
        print_line(f"  duly run verify {run.id}   (has its task look first)")
    print_line(f"  {_advised_command(item)}")
    for choice, risk in item.advice.risks.items():
        print_line((f"{choice}: ", "bold"), risk)
        print_line(f"  {_command(item, choice)}")
    if item.unknown:
        some = "it has" if len(item.unknown) == 1 else "some have"
        orders, key = "retry, resume and rerun --repair", quote(item.unknown[0])
        print_line(f"When {some} happened, say so: {orders} take --done {key}; else --not-done.")
        print_line("An order that says it of each unknown effect needs no --confirm.")


def _print_results(item: InboxItem) -> None:
    if item.effects:
        print_line()
        print_table(("effect", "known as", "begun", "result"), [_row(one) for one in item.effects])
    for check in item.checks:
        print_line(f"check by {check.by} at {utc_text(check.at)}: {check.finding}")
    if item.scope.is_known:
        print_line(f"items: {scope_text(item.scope)}")


def _command(item: InboxItem, choice: Choice) -> str:
    confirm = f" --confirm {item.run.id}" if item.advice.is_risky(choice) else ""
    if choice is Choice.RECONCILE and item.scope.has_missing:
        return _WITH_MISSING.format(run=item.run.id)
    return _COMMANDS[choice].format(run=item.run.id, known="") + confirm


def _advised_command(item: InboxItem) -> str:
    """Return the safest order; if it goes on, it says first of each effect that it has happened."""
    choice = item.advice.choice
    if not item.advice.is_risky(choice):
        return _command(item, choice)
    known = "".join(f" --done {quote(key)}" for key in item.unknown)
    command = _COMMANDS[choice].format(run=item.run.id, known=known)
    return f"{command}   (or --not-done, for one that has not happened)"


def _told(state: str) -> str:
    """Say how an attempt ended; a lost one is not a lost run."""
    return "worker lost" if state == AttemptState.LOST else state


def _row(effect: Effect) -> list[str]:
    result = "-" if effect.result is None else json.dumps(effect.result, ensure_ascii=False)
    return [effect.key, effect.state, utc_text(effect.begun_at), result]


NO_UNDO = "none: what was decided stays on record"
Reason = Annotated[str, Parameter(help="Why; it is kept with the decision.")]
Keys = Annotated[
    tuple[str, ...], Parameter(help="Keys of effects; may be given several times.", negative="")
]


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class DoubtOptions:
    """What an operator knows of the effects of a run in doubt, and the confirmation."""

    done: Keys = ()
    """An effect that did happen, though nobody knew: it is not done again."""
    not_done: Keys = ()
    """An effect that did not happen. Those that are not named count as not done, too."""
    confirm: str | None = None
    """The run's id once more, if an effect is not named that may have happened."""

    @property
    def known(self) -> dict[str, bool]:
        """What is said of effects that nobody knew about."""
        return _known("--done", self.done, self.not_done)


def _known(option: str, done: tuple[str, ...], not_done: tuple[str, ...]) -> dict[str, bool]:
    both = sorted({*done} & {*not_done})
    if both:
        raise UsageError(option, both[0], "is also named as not done", "name it once")
    return dict.fromkeys(done, True) | dict.fromkeys(not_done, False)


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class FoundOptions:
    """What was found outside about a run in doubt."""

    done: bool = False
    """What it was to do is done, and so are its unknown effects."""
    failed: bool = False
    """It is not, and nobody will do it with this run. An only effect did not happen."""
    despite_missing: bool = False
    """With --done: although items are not on record as done. It is no useful completion."""
    effect_done: Keys = ()
    """An unknown effect that did happen."""
    effect_not_done: Keys = ()
    """An unknown effect that did not happen."""
    evidence: str | None = None
    """What was looked at: a reference, a number, a sentence."""


FOUND = FoundOptions()
DOUBT = DoubtOptions()


def retry_doubtful(app: Application, run: Run, reason: str | None, doubt: DoubtOptions) -> Run:
    """Try a run in doubt again from its beginning."""
    return app.inbox.retry(run, reason=reason or "", effects=doubt.known, confirm=doubt.confirm)


def resume(
    run: str, /, *, reason: Reason, doubt: DoubtOptions = DOUBT, target: Target = TARGET
) -> None:
    """Try a run in doubt again from its last checkpoint."""
    with open_app(target, makes_store=False) as app:
        found = app.inbox.resume(
            find_run(app, run).id, reason=reason, effects=doubt.known, confirm=doubt.confirm
        )
        tell(found, "Goes on", target, stop_text(found))


def reconcile(
    run: str, /, *, reason: Reason, found: FoundOptions = FOUND, target: Target = TARGET
) -> None:
    """Record what has become of a run in doubt: an operator has looked."""
    if found.done == found.failed:
        given = "both" if found.done else None
        raise UsageError("--done", given, "or --failed must be said", "give one of the two")
    known = _known("--effect-done", found.effect_done, found.effect_not_done)
    with open_app(target, makes_store=False) as app:
        settled = app.inbox.reconcile(
            find_run(app, run).id,
            is_done=found.done,
            reason=reason,
            evidence=found.evidence,
            effects=known or None,
            despite_missing=found.despite_missing,
        )
        tell(settled, f"Recorded as {settled.state}", target, None)
        if not target.json:
            _note_unsettled(app, settled)


def _note_unsettled(app: Application, run: Run) -> None:
    unknown = [one.key for one in app.inbox.effects(run.id) if one.state == EffectState.UNKNOWN]
    if unknown:
        keys = ", ".join(unknown)
        print_line(f"Unknown as before: {keys}. A repair asks whether it has happened.")


def verify(run: str, /, *, target: Target = TARGET) -> None:
    """Have the result of a run checked, by a run of its task's own check: also an old run's."""
    with open_app(target, makes_store=False) as app:
        found = find_run(app, run)
        check = app.inbox.verify(found.id)
        tell(check, f"Queued a check of {found.label}", target, stop_text(check))
        if not target.json:
            print_line(f"duly run show {found.id} says what it finds.")


def stop_text(run: Run) -> str:
    """Return how to stop a run that goes on."""
    return undo_command("run", "cancel", str(run.id), "--reason", UNSAID)


def tell(run: Run, what: str, target: Target, undo: str | None) -> None:
    """Tell what an order has done, and how it is taken back."""
    if target.json:
        print_json({**run.to_json(), "undo": undo})
        return
    print_line(f"{what}: {run.label}. Id: {run.id}")
    print_undo(undo or NO_UNDO)


TaskReason = Annotated[str, Parameter(help="Why; it is recorded.")]

task_app = App(name="task", help="Look at tasks; suspend their retries, block their reruns.")


@task_app.command(name="list")
def list_tasks(*, target: Target = TARGET) -> None:
    """List tasks that programs have told of, and what is ordered about each."""
    with open_app(target, makes_store=False) as application:
        found = application.inbox.tasks()
        if print_empty_or_json(found, "No program has told of any task.", as_json=target.json):
            return
        rows = [(one.task, _retries(one), _reruns(one)) for one in found]
        print_table(("task", "retries", "reruns"), rows)


@task_app.command
def suspend_retries(task: str, /, *, reason: TaskReason, target: Target = TARGET) -> None:
    """Try nothing of a task again by itself: what fails is a dead letter at once."""
    _order(task, reason, target, ("suspend_retries", "allow-retries"))


@task_app.command
def allow_retries(task: str, /, *, reason: TaskReason, target: Target = TARGET) -> None:
    """Try a task again by itself, as its policy says."""
    _order(task, reason, target, ("allow_retries", "suspend-retries"))


@task_app.command
def block_reruns(task: str, /, *, reason: TaskReason, target: Target = TARGET) -> None:
    """Let nobody run once more what a task has done, by a rerun or a repair."""
    _order(task, reason, target, ("block_reruns", "allow-reruns"))


@task_app.command
def allow_reruns(task: str, /, *, reason: TaskReason, target: Target = TARGET) -> None:
    """Let runs of a task be run once more."""
    _order(task, reason, target, ("allow_reruns", "block-reruns"))


def _order(task: str, reason: str, target: Target, what: tuple[str, str]) -> None:
    verb, undoing = what
    with open_app(target, makes_store=False) as application:
        before = application.inbox.orders(task)
        after: TaskOrders = getattr(application.inbox, verb)(task, reason=reason)
        is_changed = before != after
        undo = undo_command("task", undoing, task, "--reason", UNSAID) if is_changed else None
        if target.json:
            print_json({**after.to_json(), "changed": is_changed, "undo": undo})
            return
        changed = "" if is_changed else " Nothing was changed."
        print_line(f"Task {task}: retries {_retries(after)}, reruns {_reruns(after)}.{changed}")
        if undo is not None:
            print_undo(undo)


def _retries(orders: TaskOrders) -> str:
    return "suspended" if orders.is_suspended else "as its policy says"


def _reruns(orders: TaskOrders) -> str:
    return "blocked" if orders.is_blocked else "allowed"
