"""What a person says about a worker: how much it does, of which queues, and what it may run."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from duly.client.reading import read_queue
from duly.domain.durations import duration_microseconds, duration_text
from duly.engine.worker.settings import WorkerSettings
from duly.errors import UsageError, require_text

if TYPE_CHECKING:
    from datetime import timedelta

ALLOW_COMMANDS_VARIABLE = "DULY_ALLOW_COMMANDS"
PROCESSES_MAX = 256
_ALL = frozenset({"1", "all", "yes", "true", "*"})
_NONE = frozenset({"", "0", "no", "none", "false"})
_NAMES_MAX = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """Options of `duly worker` and `app.run()`; the defaults are right for most."""

    slots: int = 10
    """How many runs one process executes at a time."""
    queues: Sequence[str] | None = None
    """Which queues it serves, each as a name, or as name=slots; None for every queue."""
    processes: int = 1
    """How many worker processes a supervisor keeps going."""
    grace: str | timedelta = "30s"
    """How long running work may finish after the worker was told to stop."""
    allow_commands: bool | Sequence[str] | None = None
    """Whether it may run commands: of all tasks, or of those named; None for what
    $DULY_ALLOW_COMMANDS says."""
    allow_addresses: Sequence[str] = ()
    """Private addresses that webhooks may call, beside those of the application's settings."""

    def __post_init__(self) -> None:
        """Refuse what can't be carried out, before anything is started."""
        self.settings()
        self.commands()
        is_number = isinstance(self.processes, int) and not isinstance(self.processes, bool)
        if not is_number or not 1 <= self.processes <= PROCESSES_MAX:
            remedy = f"give 1 to {PROCESSES_MAX}"
            raise UsageError("processes", self.processes, "can't be kept going", remedy)

    def settings(self) -> WorkerSettings:
        """Return them as the engine has them."""
        limits = None if self.queues is None else read_queues(self.queues)
        return WorkerSettings(
            slots=self.slots,
            queues=None if limits is None else tuple(limits),
            queue_limits={
                name: limit for name, limit in (limits or {}).items() if limit is not None
            },
            grace_us=duration_microseconds(self.grace, "grace"),
        )

    def commands(self) -> frozenset[str] | None:
        """Return the tasks whose commands may be run; None for all of them."""
        said = self.allow_commands
        if said is None:
            return read_allowed(os.environ.get(ALLOW_COMMANDS_VARIABLE, ""))
        if isinstance(said, bool):
            return None if said else frozenset()
        if isinstance(said, str):
            return read_allowed(said)
        return frozenset(said)

    def arguments(self) -> list[str]:
        """Return them as arguments of `duly worker`."""
        commands, grace_us = self.commands(), duration_microseconds(self.grace, "grace")
        words = [f"--slots={self.slots}", f"--grace={duration_text(grace_us)}"]
        words += [f"--queue={queue}" for queue in self.queues or ()]
        words += [f"--allow-address={address}" for address in self.allow_addresses]
        if commands is None:
            return [*words, "--allow-commands=all"]
        return [*words, f"--allow-commands={','.join(sorted(commands)) or 'none'}"]


def read_queues(texts: Sequence[str]) -> dict[str, int | None]:
    """Read queues, each a name or name=slots, in their order."""
    queues: dict[str, int | None] = {}
    if isinstance(texts, str | Mapping):
        raise UsageError("queues", texts, "is not a list", 'give such as ["mail", "reports=2"]')
    for text in texts:
        require_text("queue", text, _NAMES_MAX)
        name, separator, limit = text.partition("=")
        if separator and not (limit.isascii() and limit.isdecimal() and int(limit) >= 1):
            remedy = "give name=slots, such as reports=2"
            raise UsageError("queue", text, "does not say how many slots", remedy)
        queues[read_queue(name)] = int(limit) if separator else None
    return queues


def read_allowed(text: str) -> frozenset[str] | None:
    """Read which commands may be run: all, none, or the tasks named, divided by commas."""
    require_text("allow-commands", text, _NAMES_MAX)
    if text.strip().lower() in _ALL:
        return None
    if text.strip().lower() in _NONE:
        return frozenset()
    return frozenset(name.strip() for name in text.split(",") if name.strip())
