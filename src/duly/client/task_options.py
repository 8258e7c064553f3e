"""A task's options, read: its name and queue, how it is run, how often, how long and how safely."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict

from duly.client.reading import Delay, read_delay, read_priority, read_queue
from duly.domain.attempts import TaskPolicy
from duly.domain.durations import duration_text
from duly.domain.instants import SECOND_US
from duly.domain.literals import Effects, TaskKind
from duly.domain.plans import ProcessPlan, read_command_plan, read_memory
from duly.domain.presets import read_preset
from duly.domain.retrying import Retry, read_retry
from duly.domain.schedules import PRIORITY_DEFAULT, QUEUE_DEFAULT
from duly.domain.task_limits import NO_LIMITS, TaskLimits, read_task_limits
from duly.domain.webhooks import read_webhook_plan
from duly.errors import UsageError, require_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from duly.domain.web_addresses import WebAddress

TASK_NAME_LENGTH_MAX = 200
LIMIT_MIN_US = SECOND_US // 1000
_WITH_STORE = (TaskKind.ASYNC, TaskKind.THREAD)
"""What is run where the store is, and can commit with it."""
_OF_FUNCTIONS = (TaskKind.ASYNC, TaskKind.THREAD, TaskKind.PROCESS)
_FOR_ALL = (
    *("queue", "priority", "preset", "retry", "timeout", "run_timeout", "effects"),
    *("running", "running_by", "rate", "destination"),
)
_OPTIONS: Mapping[str, tuple[str, ...]] = {
    "task": ("name", *_FOR_ALL, "stall", "kind", "memory"),
    "command": (
        *("env", "cwd", "user", "memory", "output_bytes_max", "has_result", "parameters"),
        *_FOR_ALL,
    ),
    "webhook": ("secret", "headers", "response_bytes_max", "parameters", *_FOR_ALL),
}


class RunOptions(TypedDict, total=False):
    """What any task may say about its runs."""

    queue: str
    priority: int
    preset: str
    """Retries for a kind of work, as `app.schedules.create` has presets; what is said wins."""
    retry: Retry | int
    """How many attempts in all, or `duly.Retry(…)`; 5 unless told."""
    timeout: Delay | None
    """Of one attempt: 1h unless told; None for no limit."""
    run_timeout: Delay | None
    """From the first claim to the end, retries and waits included."""
    effects: str
    """What repeating it does: no more than once does ("idempotent"), or nothing ("pure")."""
    running: int
    """How many of its runs go on at a time, in the whole fleet."""
    running_by: Mapping[str, int]
    """How many of them with the same value of a parameter: {"account_id": 1}."""
    rate: str
    """How many begin in a while: "100/m", "5/s burst 20"."""
    destination: str | None
    """Whom it calls: while that one is down, its runs wait. Webhooks call the host of their URL."""


class FunctionOptions(RunOptions, total=False):
    """What a task that is a function may say besides."""

    name: str
    kind: str
    """async, thread or process; unless told, async for coroutine functions, else thread."""
    stall: Delay | None
    """How long an attempt may go on without reporting progress; commands and webhooks can't."""
    memory: str
    """How much memory a process may have, such as "512MB"."""


class CommandOptions(RunOptions, total=False):
    """What a command may say besides."""

    env: Mapping[str, Any]
    cwd: str
    user: str
    memory: str
    output_bytes_max: int
    has_result: bool
    parameters: Mapping[str, Any] | Callable[..., object]


class WebhookOptions(RunOptions, total=False):
    """What a webhook may say besides; its time-out is 30s unless told, and 10m at most."""

    secret: Any
    """What it is signed with: duly.secret("env:NAME"), or two while one replaces the other."""
    headers: Mapping[str, Any]
    response_bytes_max: int
    parameters: Mapping[str, Any] | Callable[..., object]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskTerms:
    """All that is known of a task but its function."""

    name: str
    queue: str = QUEUE_DEFAULT
    priority: int = PRIORITY_DEFAULT
    kind: TaskKind = TaskKind.THREAD
    policy: TaskPolicy = TaskPolicy()  # noqa: RUF009 - an immutable value
    limits: TaskLimits = NO_LIMITS
    plan: Any = None

    def __post_init__(self) -> None:
        """Refuse what could never be: a commit with the store by what runs elsewhere."""
        effects = self.policy.effects
        if effects is Effects.TRANSACTIONAL and self.kind not in _WITH_STORE:
            problem = f"is not possible for a {self.kind}: it can't commit with its run"
            remedy = "use a plain or an async function, or another class"
            raise UsageError("effects", str(effects), problem, remedy)


def function_terms(function: object, options: Mapping[str, Any]) -> TaskTerms:
    """Read the options of a task that is a function."""
    _refuse_unknown("task", options)
    if not callable(function) or isinstance(function, type):
        remedy = "put @app.task above a function"
        raise UsageError("task", function, "is not a function", remedy)
    name = options.get("name")
    kind = _read_kind(function, options.get("kind"))
    memory = read_memory(options.get("memory"))
    if memory is not None and kind is not TaskKind.PROCESS:
        remedy = "add kind='process': only a process of its own has memory of its own"
        raise UsageError("memory", options["memory"], "can't be limited here", remedy)
    return TaskTerms(
        name=read_task_name(getattr(function, "__name__", None) if name is None else name),
        **_shared(options),
        kind=kind,
        plan=ProcessPlan(memory_bytes=memory) if kind is TaskKind.PROCESS else None,
    )


def command_terms(
    name: object, argv: object, options: Mapping[str, Any], parameters: frozenset[str] | None
) -> TaskTerms:
    """Read the options of a command."""
    _refuse_unknown("command", options)
    return TaskTerms(
        name=read_task_name(name),
        **_shared(options),
        kind=TaskKind.COMMAND,
        plan=read_command_plan(argv, options, parameters),
    )


def webhook_terms(name: object, url: object, options: Mapping[str, Any]) -> TaskTerms:
    """Read the options of a webhook."""
    _refuse_unknown("webhook", options)
    plan = read_webhook_plan(url, options)
    return TaskTerms(
        name=read_task_name(name),
        **_shared(options, plan.address),
        kind=TaskKind.WEBHOOK,
        plan=plan,
    )


def read_task_name(name: object) -> str:
    """Read the name by which runs call a task."""
    require_text("task", name, TASK_NAME_LENGTH_MAX)
    assert isinstance(name, str), "just checked"
    if not name or not name.isprintable() or name != name.strip() or "@" in name:
        remedy = "give printable characters without '@', such as 'send_reminder'"
        raise UsageError("task", name, "can't be the name of a task", remedy)
    return name


def read_policy(options: Mapping[str, Any]) -> TaskPolicy:
    """Read what a task says about its runs: how often, how long, how safe to repeat."""
    policy = TaskPolicy()
    timeout_us = policy.timeout_us
    if "timeout" in options:
        timeout_us = _read_limit("timeout", options["timeout"])
    retry, effects, preset = (options.get(name) for name in ("retry", "effects", "preset"))
    usual = None if preset is None else read_preset(preset)
    usual_retry = policy.retry if usual is None else usual.retry
    usual_effects = policy.effects if usual is None else usual.effects
    return TaskPolicy(
        retry=usual_retry if retry is None else read_retry(retry),
        timeout_us=timeout_us,
        run_timeout_us=_read_limit("run_timeout", options.get("run_timeout")),
        stall_us=_read_limit("stall", options.get("stall")),
        effects=usual_effects if effects is None else _read_effects(effects),
    )


def _shared(options: Mapping[str, Any], address: WebAddress | None = None) -> dict[str, Any]:
    queue, priority = options.get("queue"), options.get("priority")
    return {
        "queue": QUEUE_DEFAULT if queue is None else read_queue(queue),
        "priority": PRIORITY_DEFAULT if priority is None else read_priority(priority),
        "policy": read_policy(options),
        "limits": read_task_limits(options, address),
    }


def check_options(what: str, options: Mapping[str, Any]) -> None:
    """Refuse options that no task of that sort has, and values that none could have."""
    _refuse_unknown(what, options)
    _shared(options)


def _refuse_unknown(what: str, options: Mapping[str, Any]) -> None:
    unknown = [option for option in options if option not in _OPTIONS[what]]
    if unknown:
        remedy = f"use {', '.join(_OPTIONS[what])}"
        problem = f"is not an option of a {what}"
        raise UsageError(unknown[0], options[unknown[0]], problem, remedy)


def _read_kind(function: Callable[..., Any], value: object) -> TaskKind:
    is_async = inspect.iscoroutinefunction(function)
    if value is None:
        return TaskKind.ASYNC if is_async else TaskKind.THREAD
    if value not in _OF_FUNCTIONS:
        remedy = f"use one of {', '.join(_OF_FUNCTIONS)}; see app.command() and app.webhook()"
        raise UsageError("kind", value, "is not a kind of function", remedy)
    kind = TaskKind(str(value))
    if kind is TaskKind.ASYNC and not is_async:
        remedy = "write `async def`, or leave `kind` out"
        raise UsageError("kind", value, "needs a coroutine function", remedy)
    if kind is TaskKind.THREAD and is_async:
        remedy = "leave `kind` out: a coroutine function runs on the event loop"
        raise UsageError("kind", value, "is not for a coroutine function", remedy)
    return kind


def _read_limit(field: str, value: object) -> int | None:
    if value is None:
        return None
    length = read_delay(field, value)
    if length < LIMIT_MIN_US:
        remedy = f"give at least {duration_text(LIMIT_MIN_US)}, or None for no limit"
        raise UsageError(field, value, "leaves no time", remedy)
    return length


def _read_effects(value: object) -> Effects:
    if not isinstance(value, str) or value not in list(Effects):
        remedy = f"use one of {', '.join(Effects)}"
        raise UsageError("effects", value, "is not a class of effects", remedy)
    return Effects(value)
