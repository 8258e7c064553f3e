"""Tasks over HTTP: those that programs have told of, and what is ordered about them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.api.handlers.parts import look, order, whole
from duly.interface.runs import Justified, ReasonBody
from duly.interface.shapes import Page
from duly.interface.tasks import Task

if TYPE_CHECKING:
    from duly.api.route import ApiRequest, Route


def list_tasks(received: ApiRequest) -> Page[Task]:
    """Return the tasks that programs have told of, by name, with what is ordered about each."""
    return whole(Task, received.app.inbox.tasks())


def get_task(received: ApiRequest) -> Task:
    """Return what is ordered about a task."""
    return Task.from_view(received.app.inbox.orders(_task(received)))


def suspend_retries(received: ApiRequest) -> Task:
    """Try nothing of a task again by itself: what fails is a dead letter at once."""
    reason = received.body.reason
    return Task.from_view(received.app.inbox.suspend_retries(_task(received), reason=reason))


def allow_retries(received: ApiRequest) -> Task:
    """Try a task again by itself, as its policy says."""
    reason = received.body.reason
    return Task.from_view(received.app.inbox.allow_retries(_task(received), reason=reason))


def block_reruns(received: ApiRequest) -> Task:
    """Let nobody run once more what a task has done."""
    reason = received.body.reason
    return Task.from_view(received.app.inbox.block_reruns(_task(received), reason=reason))


def allow_reruns(received: ApiRequest) -> Task:
    """Let runs of a task be run once more."""
    reason = received.body.reason
    return Task.from_view(received.app.inbox.allow_reruns(_task(received), reason=reason))


def _task(received: ApiRequest) -> str:
    return received.path["task"]


_ONE = "/tasks/{task}"
ROUTES: tuple[Route, ...] = (
    look("/tasks", list_tasks, Page[Task]),
    look(_ONE, get_task, Task),
    order(f"{_ONE}/allow-reruns", allow_reruns, ReasonBody, Task),
    order(f"{_ONE}/allow-retries", allow_retries, ReasonBody, Task),
    order(f"{_ONE}/block-reruns", block_reruns, Justified, Task),
    order(f"{_ONE}/suspend-retries", suspend_retries, Justified, Task),
)
