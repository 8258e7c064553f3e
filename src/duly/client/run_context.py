"""What `duly.Run` does inside a task: progress, checkpoints, effects, transactions, secrets.

`SecretSources` limits which secrets a run's arguments may refer to. A caller that may promise a run
may write any reference into its arguments. Without a limit, that would expose the worker's whole
environment and disk. A reference in arguments is read only from sources that the operator allows:
by default variables that begin with DULY_SECRET_, and no files. A reference in the program's own
code has no such limit, because the code could read the source itself.

A reference that is not allowed is refused for good (UsageError). A secret that is allowed and
missing is a temporary condition of this worker (NoSecret): another worker may have it, and a file
that is being replaced soon exists again.
"""

from __future__ import annotations

import inspect
import json
import os
import stat
import threading
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from duly.client.caller import AwaitedTransaction, in_thread
from duly.client.json_values import plain_value
from duly.client.parameters import read_delay
from duly.domain.effects import EFFECT_RESULT_BYTES_MAX, Grant, require_effect_key
from duly.domain.runs import CHECKPOINT_BYTES_MAX, PARTITION_LENGTH_MAX, RESULT_BYTES_MAX, Progress
from duly.domain.schedules import canonical_json
from duly.domain.secret_refs import Secret, SecretReference
from duly.errors import (
    Cancelled,
    EffectDone,
    EffectNotDone,
    EffectRefused,
    EffectUnknown,
    LeaseLost,
    NoSecret,
    UsageError,
    require_text,
)
from duly.store.caller_transactions import LentTransaction, not_lent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from contextlib import AbstractContextManager

    from duly.client.parameters import Delay
    from duly.client.run_view import Run
    from duly.domain.effects import EffectPermission
    from duly.domain.tasks import RunContext, TransactionalRun
    from duly.store.ports.schedules import Parameters, PlanningStore, Transaction


WHOLE = "all effects"
"""How messages call effects that were begun without a key."""
_DEPTH_MAX = 32


def begin_all(live: RunContext, label: str) -> None:
    """Take permission for everything that the attempt does from now on."""
    _require(live.begin_effect(None), WHOLE, label)


@contextmanager
def effect_of(live: RunContext, label: str, key: str) -> Iterator[None]:
    """Do one effect within: permitted before it begins, and done when the block ends well.

    EffectNotDone takes the intention back. Whatever else leaves the block leaves it open: nobody
    knows then whether the effect took place.
    """
    require_effect_key(key)
    _require(live.begin_effect(key), key, label)
    try:
        with spanned(live, key):
            yield
    except EffectNotDone:
        live.end_effect(key, None, is_done=False)
        raise
    live.end_effect(key, None)


def once(live: RunContext, label: str, key: str, call: Callable[[], Any]) -> Any:  # noqa: ANN401 - whatever it gives
    """Return what a call gives, made once in the life of a run: later its kept result (JSON)."""
    require_effect_key(key)
    permitted = live.begin_effect(key)
    if permitted.grant is Grant.DONE:
        return _kept(permitted)
    _require(permitted, key, label)
    try:
        with spanned(live, key):
            value = call()
    except EffectNotDone:
        live.end_effect(key, None, is_done=False)
        raise
    live.end_effect(key, _written(value))
    return value


async def once_awaited(live: RunContext, label: str, key: str, call: Callable[[], Any]) -> Any:  # noqa: ANN401 - as above
    """As `once`, for any function, async or not; the store is never asked on the loop."""
    require_effect_key(key)
    permitted = await in_thread(live.begin_effect, key)
    if permitted.grant is Grant.DONE:
        return _kept(permitted)
    _require(permitted, key, label)
    try:
        with spanned(live, key):
            value = call()
            if inspect.isawaitable(value):
                value = await value
    except EffectNotDone:
        await in_thread(_withdraw, live, key)
        raise
    await in_thread(live.end_effect, key, _written(value))
    return value


class AwaitedEffect:
    """The block for one effect in an async task: `async with run.aio.effect(key):`."""

    def __init__(self, live: RunContext, label: str, key: str) -> None:
        """Check the key at once."""
        require_effect_key(key)
        self._live = live
        self._label = label
        self._key = key
        self._span: AbstractContextManager[object] = nullcontext()

    async def __aenter__(self) -> None:
        """Take the permission."""
        permitted = await in_thread(self._live.begin_effect, self._key)
        _require(permitted, self._key, self._label)
        self._span = spanned(self._live, self._key)
        self._span.__enter__()

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Write down that it is done, or that it did not happen; else it stays open."""
        self._span.__exit__(None, None, None)
        if kind is None:
            await in_thread(self._live.end_effect, self._key, None)
        elif issubclass(kind, EffectNotDone):
            await in_thread(_withdraw, self._live, self._key)


def spanned(live: RunContext, key: str) -> AbstractContextManager[object]:
    """Make an effect's span the current one of whatever is done within, if it has one."""
    trace = getattr(live, "trace", None)
    return nullcontext() if trace is None else trace.in_effect(key)


def _withdraw(live: RunContext, key: str) -> None:
    live.end_effect(key, None, is_done=False)


def _require(permitted: EffectPermission, key: str, label: str) -> None:
    match permitted.grant:
        case Grant.GRANTED:
            return
        case Grant.DONE:
            raise EffectDone(key, "was done before", "go on without it, or use run.once(…)")
        case Grant.UNKNOWN:
            remedy = "find out whether it happened: the run waits for that, and is not tried again"
            raise EffectUnknown(key, "may have been done by an earlier attempt", remedy)
        case Grant.GONE:
            remedy = "stop: whatever this attempt still does counts no more"
            raise LeaseLost(label, "the run was taken from this worker", remedy)
        case Grant.STOPPING:
            raise Cancelled(label)
        case Grant.TOO_LATE:
            remedy = "give the task a longer time-out, or begin earlier"
            raise EffectRefused(key, "can't be begun: the attempt's time is all but up", remedy)


def _kept(permitted: EffectPermission) -> Any:  # noqa: ANN401 - JSON values
    return None if permitted.result is None else json.loads(permitted.result)


def _written(value: object) -> str | None:
    """Return a result as JSON text; None for what can't be kept: it is done all the same."""
    if value is None:
        return None
    try:
        text = canonical_json(plain_value("result", value, _DEPTH_MAX))
    except (UsageError, ValueError, TypeError, RecursionError):
        return None
    return text if len(text.encode()) <= EFFECT_RESULT_BYTES_MAX else None


ENVIRONMENT_DEFAULT = ("DULY_SECRET_*",)
SECRET_BYTES_MAX = 64 * 1024


def secret(reference: str) -> Any:  # noqa: ANN401 - it stands for a parameter's `Secret`
    """Refer to a secret: "env:NAME" for a variable, "file:/path" for a file, on the worker.

    The reference is what is stored. A parameter annotated `duly.Secret` receives the value.
    """
    return SecretReference(reference)


@dataclass(frozen=True, slots=True)
class SecretSources:
    """From where the secrets of arguments may be read, on this worker."""

    environment: tuple[str, ...] = ENVIRONMENT_DEFAULT
    """Names of variables; one that ends in * stands for all that begin so."""
    directories: tuple[str, ...] = ()
    """Absolute paths; files in them or below."""

    def __post_init__(self) -> None:
        """Refuse what would allow everything by accident."""
        for pattern in self.environment:
            if not pattern.rstrip("*") or "*" in pattern[:-1]:
                remedy = "give a name, or a beginning such as DULY_SECRET_*"
                raise UsageError("secret_environment", pattern, "is not a name", remedy)
        for directory in self.directories:
            if not directory.startswith("/") or not directory.strip("/"):
                remedy = "give an absolute path such as /run/secrets/duly"
                raise UsageError("secret_directories", directory, "is no folder for it", remedy)

    def read(self, reference: SecretReference, field: str) -> Secret:
        """Read a secret that arguments refer to, if the operator allows its place; or NoSecret."""
        if reference.source == "env":
            if not any(_matches(reference.place, one) for one in self.environment):
                names = ", ".join(self.environment) or "none"
                remedy = f"allowed are {names}; the operator can add it to secret_environment"
                raise _not_allowed(field, reference, remedy)
            return _from_environment(reference, field)
        path = os.path.realpath(reference.place)
        # Both sides are resolved, so that neither ".." nor a link leads out of a directory.
        roots = [os.path.realpath(one) for one in self.directories]
        if not any(os.path.commonpath([path, root]) == root for root in roots):
            remedy = "the operator can add its folder to secret_directories"
            raise _not_allowed(field, reference, remedy)
        return _from_file(path, reference, field)

    def all_in_environment(self) -> list[Secret]:
        """Read every variable that arguments may refer to."""
        names = (
            name for name in os.environ if any(_matches(name, one) for one in self.environment)
        )
        return [Secret(value) for name in names if (value := os.environ[name]).strip()]

    def read_declared(self, reference: SecretReference, field: str) -> Secret:
        """Read a secret that the program's own code refers to."""
        if reference.source == "env":
            return _from_environment(reference, field)
        return _from_file(os.path.realpath(reference.place), reference, field)


def _matches(name: str, pattern: str) -> bool:
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern


def _from_environment(reference: SecretReference, field: str) -> Secret:
    value = os.environ.get(reference.place)
    if value is None:
        remedy = "set the variable and start it anew"
        raise NoSecret(field, reference.secret, "is not set on this worker", remedy)
    return _made(value, reference, field)


def _from_file(path: str, reference: SecretReference, field: str) -> Secret:
    try:
        # Not blocking, for a pipe would make the worker wait for a writer.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(handle, "rb") as stream:  # noqa: PTH123 - of a handle, not of a path
            is_file = stat.S_ISREG(os.fstat(handle).st_mode)
            content = stream.read(SECRET_BYTES_MAX + 1) if is_file else b""
    except OSError as error:
        problem = f"can't be read on this worker ({error.strerror})"
        remedy = "see that the file exists and the worker may read it"
        raise NoSecret(field, reference.secret, problem, remedy) from None
    if not is_file or len(content) > SECRET_BYTES_MAX:
        remedy = f"give a plain file of at most {SECRET_BYTES_MAX:,} bytes"
        raise NoSecret(field, reference.secret, "is not a file for a secret", remedy)
    try:
        value = content.decode()
    except UnicodeDecodeError:
        remedy = "write it as UTF-8"
        # The error that is raised here holds the bytes: it must not travel along.
        raise NoSecret(field, reference.secret, "is not text", remedy) from None
    return _made(value.removesuffix("\n").removesuffix("\r"), reference, field)


def _made(value: str, reference: SecretReference, field: str) -> Secret:
    if not value.strip():
        problem = "is empty on this worker"
        raise NoSecret(field, reference.secret, problem, "write the secret there")
    return Secret(value)


def _not_allowed(field: str, reference: SecretReference, remedy: str) -> UsageError:
    return UsageError(field, reference.secret, "is not allowed on this worker", remedy)


class TaskTransaction:
    """A connection for a task's own tables, whose commit ends its run as succeeded."""

    def __init__(self, transaction: Transaction, lent: TransactionalRun) -> None:
        self.transaction = transaction
        """What the store has lent; orders join it by `connection=tx`."""
        self._lent = lent

    def execute(self, sql: str, parameters: Parameters = ()) -> list[tuple[object, ...]]:
        """Run one statement of the task's; it commits with the run's success, or not at all."""
        return self.transaction.execute(sql, parameters)

    def result(self, value: object) -> None:
        """Say what the run gives (JSON values); what the code returns later is not kept."""
        text = canonical_json(plain_value("result", value, _DEPTH_MAX))
        size = len(text.encode())
        if size > RESULT_BYTES_MAX:
            problem = f"takes {size:,} bytes, and {RESULT_BYTES_MAX:,} is the most"
            remedy = "write it to a table of yours, and give a reference to it here"
            raise UsageError("result", type(value).__name__, problem, remedy)
        self._lent.result = text


@contextmanager
def transaction_of(
    live: RunContext, lending: LentConnections, limit: Delay | None = None
) -> Iterator[TaskTransaction]:
    """Lend a transaction to a task; its run has succeeded when the block has ended well."""
    with live.transact(lending.limit_us(limit)) as lent:
        transaction: Transaction = lent.transaction  # type: ignore[assignment]  # the store's own
        with lending.lent(transaction):
            yield TaskTransaction(transaction, lent)


class AwaitedTaskTransaction(AwaitedTransaction):
    """The same for async tasks: `async with run.aio.transaction() as tx: await tx.execute(…)`."""

    def result(self, value: object) -> None:
        """Say what the run gives (JSON values); what the code returns later is not kept."""
        lent = self.transaction
        assert isinstance(lent, TaskTransaction), "it is made for nothing else"
        lent.result(value)


class LentConnections:
    """The connections that one application has lent and not got back."""

    def __init__(self, limit: Delay) -> None:
        """Take for how long one is lent unless told."""
        self.limit = limit
        self._lent: dict[int, Transaction] = {}
        self._lock = threading.Lock()

    def limit_us(self, limit: Delay | None) -> int:
        """Read for how long a connection is lent."""
        return read_delay("limit", limit or self.limit)

    @contextmanager
    def lend(self, store: PlanningStore, limit: Delay | None) -> Iterator[Transaction]:
        """Lend a connection; all that is done with it commits together, or nothing does."""
        with store.transaction(self.limit_us(limit)) as transaction, self.lent(transaction):
            yield transaction

    @contextmanager
    def lent(self, transaction: Transaction) -> Iterator[None]:
        """Let orders join a transaction of this application's store, for as long as this lasts."""
        with self._lock:
            self._lent[id(transaction)] = transaction
        try:
            yield
        finally:
            with self._lock:
                self._lent.pop(id(transaction), None)

    def joined(self, connection: object) -> object:
        """Return what an order joins; refuse what another application has lent, or what is over.

        A connection of the caller's own is for the store to judge: not every store can join it.
        """
        joined = connection.transaction if isinstance(connection, TaskTransaction) else connection
        with self._lock:
            is_ours = id(joined) in self._lent
        if isinstance(joined, LentTransaction) and not is_ours:
            raise not_lent(connection)
        return joined


NOTE_LENGTH_MAX = 500
DEPTH_MAX = 32
COUNT_MAX = (1 << 63) - 1
LEVELS = ("debug", "info", "warning", "error")


class AwaitedRun:
    """The live part for async tasks: what waits for the store is awaited."""

    def __init__(self, run: Run) -> None:
        self._run = run

    async def progress(self, done: int, total: int | None = None, note: str | None = None) -> None:
        """Say how far the task is."""
        self._run.progress(done, total, note)

    async def log(self, text: str, level: str = "info") -> None:
        """Add a line to the run's log."""
        self._run.log(text, level)

    async def checkpoint(self, state: object, partition: str | None = None) -> None:
        """Store a state that a later attempt can go on from; stored when this returns."""
        await in_thread(self._run.checkpoint, state, partition)

    async def begin_effects(self) -> None:
        """Take a durable permission for all that the attempt does from now on."""
        await in_thread(self._run.begin_effects)

    def effect(self, key: str) -> AwaitedEffect:
        """Do one effect in a block: `async with run.aio.effect("charge:42"):`."""
        return AwaitedEffect(self._run.lent("effect"), self._run.label, key)

    def transaction(self, limit: Delay | None = None) -> AwaitedTaskTransaction:
        """Write to tables of yours: `async with run.aio.transaction() as tx:`; see `Run`."""
        return AwaitedTaskTransaction(self._run.transaction, limit)

    async def once(self, key: str, function: Callable[..., Any], *args: Any, **options: Any) -> Any:  # noqa: ANN401 - whatever it gives
        """Call a function, async or not, once in the life of the run; later return its result."""
        call = partial(function, *args, **options)
        return await once_awaited(self._run.lent("once"), self._run.label, key, call)

    async def remaining(self, items: Iterable[str]) -> list[str]:
        """Return those of the items that are still to be done, in their order."""
        left: list[str] = await in_thread(self._run.remaining, items)
        return left

    async def resume_from(self, partition: str | None = None) -> Any:  # noqa: ANN401 - JSON values
        """Return the last stored state, by whichever attempt; None before the first."""
        return await in_thread(self._run.resume_from, partition)


def read_progress(done: object, total: object, note: object) -> Progress:
    """Read how far a task says it is."""
    counted = _count("done", done)
    if note is not None:
        require_text("note", note, NOTE_LENGTH_MAX)
        assert isinstance(note, str), "just checked"
        note = _printable(note)
    return Progress(counted, None if total is None else _count("total", total), note)


def read_state(state: object) -> str:
    """Write a checkpoint's state as JSON text of bounded size."""
    try:
        text = canonical_json(plain_value("state", state, DEPTH_MAX))
    except (ValueError, RecursionError) as error:
        if isinstance(error, UsageError):
            raise
        remedy = "give smaller numbers"
        raise UsageError("state", state, f"can't be written as JSON ({error})", remedy) from error
    size = len(text.encode())
    if size > CHECKPOINT_BYTES_MAX:
        problem = f"takes {size:,} bytes, and {CHECKPOINT_BYTES_MAX:,} is the most"
        remedy = "keep the work where it is, and a reference to it here"
        raise UsageError("state", type(state).__name__, problem, remedy)
    return text


def read_stored(text: str | None) -> Any:  # noqa: ANN401 - JSON values
    """Return a stored state as JSON values."""
    return None if text is None else json.loads(text)


def read_partition(value: object) -> str:
    """Read which part of a run a checkpoint is about; empty for the whole."""
    if value is None:
        return ""
    require_text("partition", value, PARTITION_LENGTH_MAX)
    assert isinstance(value, str), "just checked"
    if not value or not value.isprintable():
        remedy = "give printable characters, or leave it out for the run as a whole"
        raise UsageError("partition", value, "can't name a part", remedy)
    return value


def read_lines(text: object, level: object) -> list[str]:
    """Read what a task logs, as lines that can be stored; whoever stores them cuts long ones."""
    if level not in LEVELS:
        raise UsageError("level", level, "is not a level", f"use one of {', '.join(LEVELS)}")
    if not isinstance(text, str):
        raise UsageError("text", text, "is not a text", "give a str")
    return [_printable(line) for line in text.splitlines()]


def _count(field: str, value: object) -> int:
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= COUNT_MAX
    if not is_count:
        raise UsageError(field, value, "is not a count", "give a whole number from 0 on")
    assert isinstance(value, int), "just checked"
    return value


def _printable(text: str) -> str:
    """Return a text that every store can hold: whole characters, and no NUL."""
    return text.encode(errors="replace").decode().replace("\x00", "\N{REPLACEMENT CHARACTER}")
