"""`duly task`: the tasks that programs have told of, and what people have ordered about them."""

from __future__ import annotations

from typing import Annotated

from cyclopts import App, Parameter

from duly.cli.output import is_all_told, print_json, print_line, print_table
from duly.cli.target import Target, opened
from duly.cli.undoing import UNSAID, print_undo, undo_text
from duly.client.inbox import TaskOrders

TARGET = Target()
Reason = Annotated[str, Parameter(help="Why; it is recorded.")]

app = App(name="task", help="Look at tasks; suspend their retries, block their reruns.")


@app.command(name="list")
def list_tasks(*, target: Target = TARGET) -> None:
    """List tasks that programs have told of, and what is ordered about each."""
    with opened(target, makes_store=False) as application:
        found = application.inbox.tasks()
        if is_all_told(found, "No program has told of any task.", as_json=target.json):
            return
        rows = [(one.task, _retries(one), _reruns(one)) for one in found]
        print_table(("task", "retries", "reruns"), rows)


@app.command
def suspend_retries(task: str, /, *, reason: Reason, target: Target = TARGET) -> None:
    """Try nothing of a task again by itself: what fails is a dead letter at once."""
    _order(task, reason, target, ("suspend_retries", "allow-retries"))


@app.command
def allow_retries(task: str, /, *, reason: Reason, target: Target = TARGET) -> None:
    """Try a task again by itself, as its policy says."""
    _order(task, reason, target, ("allow_retries", "suspend-retries"))


@app.command
def block_reruns(task: str, /, *, reason: Reason, target: Target = TARGET) -> None:
    """Let nobody run once more what a task has done, by a rerun or a repair."""
    _order(task, reason, target, ("block_reruns", "allow-reruns"))


@app.command
def allow_reruns(task: str, /, *, reason: Reason, target: Target = TARGET) -> None:
    """Let runs of a task be run once more."""
    _order(task, reason, target, ("allow_reruns", "block-reruns"))


def _order(task: str, reason: str, target: Target, what: tuple[str, str]) -> None:
    verb, undoing = what
    with opened(target, makes_store=False) as application:
        before = application.inbox.orders(task)
        after: TaskOrders = getattr(application.inbox, verb)(task, reason=reason)
        is_changed = before != after
        undo = undo_text("task", undoing, task, "--reason", UNSAID) if is_changed else None
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
