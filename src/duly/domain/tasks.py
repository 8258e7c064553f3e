"""What a task declares besides code: process, command, limits; what it sees of its run.

`TaskLimits` hold for the whole fleet. They are checked after a claim and before the code begins; a
task that declares none costs no check.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from string import Formatter
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from duly.domain.limits import NO_LIMIT, Limit, read_limit
from duly.domain.schedules import canonical_json
from duly.domain.secret_refs import SecretReference
from duly.errors import UsageError, require_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from contextlib import AbstractContextManager

    from duly.domain.effects import EffectPermission
    from duly.domain.outbound_urls import WebAddress
    from duly.domain.runs import Progress
    from duly.domain.verification import ItemReport


class TransactionalRun:
    """A transaction that ends its run when it commits, while its code is still to say with what."""

    def __init__(self, transaction: object) -> None:
        """Take what the store has lent."""
        self.transaction = transaction
        self.result: str | None = None
        """What the run gives, as JSON text."""


class RunContext(Protocol):
    """What a run can do while it is being executed; may be called from any thread."""

    @property
    def is_cancelled(self) -> bool:
        """Whether it should stop: somebody asked, its time is up, or it is no longer ours."""
        ...

    def advance(self, progress: Progress) -> None:
        """Say how far it is; stored soon, without waiting. Progress is what stall limits watch."""
        ...

    def save(self, partition: str, state: str) -> None:
        """Store a checkpoint (JSON text) before returning; LeaseLost when it is no longer ours."""
        ...

    def saved(self, partition: str) -> str | None:
        """Return the last checkpoint of the run, by whichever attempt."""
        ...

    def begin_effect(self, key: str | None) -> EffectPermission:
        """Ask for permission to do what can't be taken back; durable before this returns."""
        ...

    def end_effect(self, key: str, result: str | None, *, is_done: bool = True) -> None:
        """Say that an effect is done, with its result (JSON text), or that it did not happen.

        LeaseLost when it is no longer ours: then nobody knows.
        """
        ...

    def transact(self, limit_us: int) -> AbstractContextManager[TransactionalRun]:
        """Lend a transaction whose commit is also the run's success."""
        ...

    def note_scope(self, report: ItemReport) -> None:
        """Say what is expected, or which items are done; stored soon, and with the end."""
        ...

    def done_items(self, items: tuple[str, ...]) -> frozenset[str]:
        """Return those of some items that are done, by whichever attempt of the run's line."""
        ...

    def write(self, level: str, text: str) -> None:
        """Add a line to the run's log; stored soon, without waiting, and with secrets left out.

        What is too long is cut after that: before, half a secret would no longer be recognised.
        """
        ...

    def conceal(self, text: str) -> None:
        """Never let this text (a secret's value) appear in lines, errors, results or output."""
        ...

    def hide(self, text: str, *, is_cut: bool = False) -> str:
        """Return a text with secrets left out, so that it may be cut.

        Of one that was cut already, what may be the beginning of a secret at its end goes, too.
        """
        ...


ARGV_ITEMS_MAX = 1_000
TEXT_LENGTH_MAX = 10_000
OUTPUT_BYTES_DEFAULT = 1_000_000
OUTPUT_BYTES_MAX = 100_000_000
MEMORY_MIN = 16 * 1024 * 1024
MEMORY_MAX = 1 << 50
_UNITS = {"KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}
_MEMORY = re.compile(r" *([0-9]{1,9}) *(KB|MB|GB|TB) *")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessPlan:
    """A function that gets a process of its own for each attempt."""

    memory_bytes: int | None = None
    """How much memory its process may have; None for as much as there is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandPlan:
    """A program to run, without a shell."""

    argv: tuple[str, ...]
    """Each `{name}` in it stands for an argument of the call; `{{` and `}}` for braces."""
    env: Mapping[str, str | SecretReference] = field(default_factory=dict)
    """Variables beside the few that every command gets: texts, which may hold `{name}`, or secrets
    by reference."""
    cwd: str | None = None
    user: str | None = None
    """As whom it runs; None for whoever the worker is."""
    memory_bytes: int | None = None
    output_bytes_max: int = OUTPUT_BYTES_DEFAULT
    """How much of what it writes is kept."""
    has_result: bool = False
    """Whether the last line that it writes is its result, as JSON."""


def read_memory(value: object) -> int | None:
    """Read how much memory a process may have: None, or a text such as "512MB"."""
    if value is None:
        return None
    matched = _MEMORY.fullmatch(value) if isinstance(value, str) else None
    size = int(matched[1]) * _UNITS[matched[2]] if matched else 0
    if not MEMORY_MIN <= size <= MEMORY_MAX:
        remedy = "give a text such as '512MB' or '2GB', 16MB at least"
        raise UsageError("memory", value, "is not an amount of memory", remedy)
    return size


def read_command_plan(
    argv: object, options: Mapping[str, Any], parameters: frozenset[str] | None
) -> CommandPlan:
    """Read a command: its argv, and whatever else a plan holds out of the options.

    With `parameters` given, whatever stands in braces must be one of them.
    """
    items = _read_argv(argv)
    env = _read_texts("env", options.get("env"))
    for name, value in env.items():
        if not _VARIABLE.fullmatch(name):
            raise UsageError("env", name, "can't be the name of a variable", "give such as 'LANG'")
        _check_text("env", value)
    plan = CommandPlan(
        argv=items,
        env=env,
        cwd=_read_optional("cwd", options.get("cwd")),
        user=_read_optional("user", options.get("user")),
        memory_bytes=read_memory(options.get("memory")),
        output_bytes_max=_read_output(options.get("output_bytes_max", OUTPUT_BYTES_DEFAULT)),
        has_result=_read_truth("has_result", options.get("has_result", False)),
    )
    named = placeholders(plan)
    unknown = [] if parameters is None else [name for name in named if name not in parameters]
    if unknown:
        takes = ", ".join(sorted(parameters or ())) or "none"
        raise UsageError("argv", unknown[0], "is not one of its parameters", f"it has: {takes}")
    return plan


def placeholders(plan: CommandPlan) -> list[str]:
    """Return the names that stand in braces, each once, in order."""
    texts = [*plan.argv, *(value for value in plan.env.values() if isinstance(value, str))]
    return list(dict.fromkeys(name for text in texts for name in _names(text)))


def fill_text(text: str, arguments: Mapping[str, Any]) -> str:
    """Put arguments where their names stand in braces: a text as it is, all else as JSON."""
    parts = []
    for literal, name, _spec, _conversion in Formatter().parse(text):
        parts.append(literal)
        if name is not None:
            value = arguments[name]
            parts.append(value if isinstance(value, str) else canonical_json(value))
    return "".join(parts)


def fill_argv(plan: CommandPlan, arguments: Mapping[str, Any]) -> list[str]:
    """Return the argv of one call; an argument is a whole item, whatever it holds."""
    return [fill_text(item, arguments) for item in plan.argv]


def _read_argv(argv: object) -> tuple[str, ...]:
    if isinstance(argv, str | bytes) or not isinstance(argv, Sequence) or not argv:
        remedy = "give a list such as ['pg_dump', '{database}']: there is no shell to split a text"
        raise UsageError("argv", argv, "is not a list of texts", remedy)
    if len(argv) > ARGV_ITEMS_MAX:
        raise UsageError("argv", len(argv), "are too many", f"give at most {ARGV_ITEMS_MAX:,}")
    for item in argv:
        require_text("argv", item, TEXT_LENGTH_MAX)
        _check_text("argv", item)
    if not argv[0] or list(_names(argv[0])):
        remedy = "name the program itself; arguments go into what follows it"
        raise UsageError("argv", argv[0], "does not say which program", remedy)
    for item in argv:
        names = list(_names(item))
        if names and item != f"{{{names[0]}}}":
            remedy = f"give it an item of its own: '{{{names[0]}}}'"
            raise UsageError("argv", item, "mixes a parameter with other text", remedy)
    return tuple(argv)


def _read_texts(field: str, value: object) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise UsageError(field, value, "is not a map of names", "give {'NAME': 'value'}")
    return dict(value)


def _read_optional(field: str, value: object) -> str | None:
    if value is None:
        return None
    require_text(field, value, TEXT_LENGTH_MAX)
    assert isinstance(value, str), "just checked"
    if not value.strip():
        raise UsageError(field, value, "is empty", "give a text, or leave it out")
    return value


def _read_output(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= OUTPUT_BYTES_MAX:
        remedy = f"give 0 to {OUTPUT_BYTES_MAX:,}"
        raise UsageError("output_bytes_max", value, "is out of range", remedy)
    return value


def _read_truth(field: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise UsageError(field, value, "is not a truth value", "give True or False")
    return value


def _check_text(field: str, value: object) -> None:
    if isinstance(value, SecretReference):
        return
    if not isinstance(value, str):
        raise UsageError(field, value, "is not a text", "give a text, or duly.secret('env:NAME')")
    require_text(field, value, TEXT_LENGTH_MAX)
    list(_names(value))


def _names(text: str) -> Iterator[str]:
    try:
        parsed = list(Formatter().parse(text))
    except ValueError:
        _refuse_braces(text)
    for _literal, name, spec, conversion in parsed:
        if name is None:
            continue
        if not name.isidentifier() or spec or conversion:
            _refuse_braces(text)
        yield name


def _refuse_braces(text: str) -> NoReturn:
    remedy = "write '{name}' for a parameter, and '{{' or '}}' for a brace"
    raise UsageError("argv", text, "holds braces around something else than a name", remedy)


DESTINATION_LENGTH_MAX = 280


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskLimits:
    """What one task is limited by."""

    limit: Limit = NO_LIMIT
    destination: str | None = None
    """Whom its code calls: while that one is down, its runs wait."""
    defaults: tuple[tuple[str, str], ...] = ()
    """Of the parameters that it is limited by: what they are if nobody gives them, as text."""


NO_LIMITS = TaskLimits()


def read_task_limits(options: Mapping[str, Any], address: WebAddress | None = None) -> TaskLimits:
    """Read what a task's options say; who calls an address has that for its destination."""
    destination = None if address is None else address.place
    if "destination" in options:
        destination = read_destination(options["destination"])
    parts = (options.get(name) for name in ("running", "rate", "running_by"))
    return TaskLimits(limit=read_limit(*parts), destination=destination)


def read_destination(value: object) -> str | None:
    """Read the name of whom a task calls; None for nobody."""
    if value is None:
        return None
    require_text("destination", value, DESTINATION_LENGTH_MAX)
    assert isinstance(value, str), "just checked"
    if not value or not value.isprintable() or " " in value or value == "*":
        remedy = "give printable characters without spaces, such as 'stripe' or 'api.example.com'"
        raise UsageError("destination", value, "can't be the name of a destination", remedy)
    return value


def with_parameters(
    limits: TaskLimits, task: str, parameters: Iterable[str], defaults: Mapping[str, Any]
) -> TaskLimits:
    """Return limits that know what parameters are by default; refuse what the task does not take.

    `parameters` are all that it takes, `defaults` what those are that need not be given.
    """
    known = list(parameters)
    for parameter, _ in limits.limit.running_by:
        if parameter not in known:
            remedy = f"name one of its parameters; {task} takes {', '.join(known) or 'nothing'}"
            raise UsageError("running_by", parameter, "is not a parameter of the task", remedy)
    texts = ((name, _value_text(defaults.get(name))) for name, _ in limits.limit.running_by)
    return replace(limits, defaults=tuple(texts))


def values_of(
    limits: TaskLimits, arguments: str, parameters: Iterable[str]
) -> tuple[tuple[str, str], ...]:
    """Return what a run's arguments (as JSON text) are by some parameters, each as text."""
    given, defaults = json.loads(arguments), dict(limits.defaults)
    return tuple(
        (name, _value_text(given[name]) if name in given else defaults.get(name, "null"))
        for name in parameters
    )


def _value_text(value: Any) -> str:  # noqa: ANN401 - any JSON value
    # A default may be anything; that it is none of the given ones is all that matters here.
    return json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)
