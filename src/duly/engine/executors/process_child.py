"""The child's side, and the line protocol between both.

The worker and the child process exchange words, each one line of JSON. Nothing is pickled: a
process that a task has taken over can send anything, and the worker reads nothing but these words
from it.

The child receives the application that has the task's code from the composition root. SIGTERM sets
`run.cancelled` and cancels a coroutine. Code that ignores both continues until it is killed.
"""

from __future__ import annotations

import asyncio
import faulthandler
import inspect
import itertools
import json
import os
import signal
import sys
import threading
from dataclasses import dataclass, fields, replace
from io import TextIOWrapper
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from duly.domain.effects import EffectPermission, Grant
from duly.domain.enums import Lane, Origin, RunState
from duly.domain.ids import RunId, ScheduleId
from duly.domain.outcomes import AFTER_MAX_US, CancelledEnd, End, Failed, GaveUp, Snoozed, Succeeded
from duly.domain.runs import AttemptCounts, Progress, Reason, RunRecord
from duly.domain.schedules import Call
from duly.domain.verification import ITEMS_MAX, NOTHING, ItemReport, read_expected, read_items
from duly.engine.executors.child_process import LineReader
from duly.engine.executors.executor import called
from duly.engine.executors.process_guard import die_with, limit_memory
from duly.engine.executors.results import bounded, bounded_line, error_text, fitted
from duly.engine.executors.task_output import Redactor, task_logging
from duly.errors import LeaseLost, SchemaMismatch, StoreError, StoreUnavailable, UsageError
from duly.store.ports.execution import ClaimedRun

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from contextlib import AbstractContextManager

    from duly.domain.tasks import RunContext, TransactionalRun
    from duly.engine.executors.executor import Runnable, TaskCatalogue
    from duly.telemetry.tracing import AttemptTrace


WORD_BYTES_MAX = 4 * 1024 * 1024
"""Longer than any checkpoint or result that is taken, in JSON within JSON."""

_ENDS = {kind.__name__: kind for kind in (Succeeded, Failed, GaveUp, Snoozed, CancelledEnd)}
"""How an attempt can end by its own word; the other ways are the worker's to say."""
_MAY_BE_NONE = {("Succeeded", "result"), ("CancelledEnd", "error"), ("Failed", "after_us")}


def written(word: dict[str, Any]) -> bytes:
    """Write one word as a line."""
    text = json.dumps(word, separators=(",", ":"), ensure_ascii=False)
    return text.encode("utf-8", "replace") + b"\n"


def read_word(line: str) -> dict[str, Any]:
    """Read one word; ValueError for what is none."""
    word = json.loads(line)
    if not isinstance(word, dict):
        raise TypeError("a word is a map")
    return word


def end_to_json(end: End) -> dict[str, Any]:
    """Return an end as JSON values that `end_from_json` reads back."""
    parts = {one.name: getattr(end, one.name) for one in fields(end)}
    return {"kind": type(end).__name__, **parts}


def end_from_json(said: dict[str, Any]) -> End:
    """Read an end; KeyError, TypeError or ValueError for what is none."""
    parts = dict(said)
    name = parts.pop("kind")
    kind = _ENDS[name]
    for field, value in parts.items():
        if value is None and (name, field) in _MAY_BE_NONE:
            continue
        match field:
            case "reason":
                parts[field] = Reason(value)
            case "error" | "result" if not isinstance(value, str):
                raise TypeError(f"{field} is not a text")
            case "after_us" if type(value) is not int or not 0 <= value <= AFTER_MAX_US:
                raise ValueError(f"{field} is not a wait")
            case "is_retryable" | "is_answered" | "is_undone" if not isinstance(value, bool):
                raise TypeError(f"{field} is neither true nor false")
            case _:
                pass
    return kind(**parts)


def claimed_to_json(claimed: ClaimedRun) -> dict[str, Any]:
    """Return a claimed run as JSON values that `claimed_from_json` reads back."""
    record = claimed.record
    plain = {one.name: getattr(record, one.name) for one in fields(record)}
    plain["id"] = record.id.hex()
    plain["root"] = record.root.hex()
    plain["schedule_id"] = None if record.schedule_id is None else record.schedule_id.hex()
    plain["call"] = _parts(record.call)
    plain["tries"] = record.tries._asdict()
    plain["progress"] = None if record.progress is None else _parts(record.progress)
    return {"record": plain, "tries": claimed.tries._asdict(), "claimed_at": claimed.claimed_at}


def claimed_from_json(said: dict[str, Any]) -> ClaimedRun:
    """Read a claimed run from what `claimed_to_json` returned."""
    plain = dict(said["record"])
    schedule = plain["schedule_id"]
    plain["id"] = RunId(bytes.fromhex(plain["id"]))
    plain["root"] = RunId(bytes.fromhex(plain["root"]))
    plain["schedule_id"] = None if schedule is None else ScheduleId(bytes.fromhex(schedule))
    plain["call"] = Call(**plain["call"])
    plain["origin"] = Origin(plain["origin"])
    plain["lane"] = Lane(plain["lane"])
    plain["state"] = RunState(plain["state"])
    plain["tries"] = AttemptCounts(**plain["tries"])
    plain["progress"] = None if plain["progress"] is None else Progress(**plain["progress"])
    return ClaimedRun.of(RunRecord(**plain), AttemptCounts(**said["tries"]), said["claimed_at"])


def scope_from_json(said: dict[str, Any]) -> ItemReport:
    """Read what is said about a scope; UsageError for what is none."""
    expected = said["expected"]
    report = NOTHING if expected is None else read_expected(expected)
    names, done = read_items("names", said["names"]), read_items("done", said["done"])
    return replace(report, names=names, done=done)


def _parts(value: Call | Progress) -> dict[str, Any]:
    return {one.name: getattr(value, one.name) for one in fields(value)}


_ERRORS = {kind.__name__: kind for kind in (LeaseLost, SchemaMismatch, StoreUnavailable)}


def serve(load: Callable[[str], TaskCatalogue]) -> None:
    """Run the one attempt that the worker orders; `load` finds an application's tasks."""
    read_from, write_to, parent = (int(number) for number in sys.argv[1:4])
    die_with(parent)
    faulthandler.enable()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(line_buffering=True, errors="backslashreplace")
    live, orders = ChildRunContext(write_to), SimpleQueue[dict[str, Any]]()
    signal.signal(signal.SIGTERM, lambda _number, _frame: live.stop())
    _detach_forks(live)
    for pipe in (read_from, write_to):
        os.set_inheritable(pipe, False)  # noqa: FBT003 - as the library has it
    threading.Thread(target=_hear, args=(read_from, live, orders), daemon=True).start()
    order = orders.get()
    runnable = _find(order, load, live)
    if runnable is None:
        return
    end = _carry_out(order, runnable, live)
    # What the program does on its way out is its own; the worker gives it a moment.
    live.say({"say": "ended", "end": end_to_json(live.shown(end))})


def _detach_forks(live: ChildRunContext) -> None:
    """Let a process that the task forks be an ordinary one, which SIGTERM ends.

    The signal is held back while a process is forked: before the new process has the default
    action, it would be taken by the handler of this one, and lost.
    """
    masks = threading.local()

    def hold() -> None:
        masks.before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM,))

    def release() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, masks.before)

    def detach() -> None:
        live.is_detached = True
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        release()

    os.register_at_fork(before=hold, after_in_parent=release, after_in_child=detach)


def _find(
    order: dict[str, Any], load: Callable[[str], TaskCatalogue], live: ChildRunContext
) -> Runnable | None:
    """Find the task's code; say so if it can't be had here: that is no fault of the run."""
    task = order["run"]["record"]["call"]["task"]
    try:
        runnable = load(order["app"]).find(task)
    except BaseException as error:  # noqa: BLE001 - importing runs anybody's code
        problem = f"the application can't be loaded in its process: {error_text(error)}"
        live.say({"say": "unloadable", "problem": bounded(problem)})
        return None
    if runnable is None:
        live.say({"say": "unloadable", "problem": f"{order['app']} has no task {task!r}"})
    return runnable


def _carry_out(order: dict[str, Any], runnable: Runnable, live: ChildRunContext) -> End:
    claimed = claimed_from_json(order["run"])
    limit_memory(order["memory_bytes"])
    work = _ChildWork(claimed, runnable, live, live.say, _span_of(order["trace"]))
    with task_logging():
        return called(work, live.awaited)


def _span_of(carrier: dict[str, str]) -> AttemptTrace | None:
    """Return the attempt's span, which the worker has begun and will end; None if it has none."""
    if not carrier:
        return None
    try:
        from duly.telemetry.otel import passed_on
    except ImportError:  # whoever has started this has it; the program here need not
        return None
    return passed_on(carrier)


def _hear(read_from: int, live: ChildRunContext, orders: SimpleQueue[dict[str, Any]]) -> None:
    """Take the worker's order and its answers; when it falls silent it is gone, and so are we."""

    def take(line: str, _is_cut: bool) -> None:  # noqa: FBT001 - as a reader tells it
        word = read_word(line)
        if "answer" in word:
            live.take(word)
        else:
            orders.put(word)

    reader = LineReader(take, WORD_BYTES_MAX)
    # No file object: one that a thread still reads from can't be closed when the program ends.
    while chunk := os.read(read_from, WORD_BYTES_MAX):
        reader.feed(chunk)
    if not live.is_over:
        os.killpg(0, signal.SIGKILL)


@dataclass(slots=True)
class _ChildWork:
    """One attempt, as the calling code here has it."""

    claimed: ClaimedRun
    runnable: Runnable
    live: RunContext
    say: Callable[[dict[str, Any]], None]
    trace: AttemptTrace | None = None

    def began(self) -> None:
        """Tell the worker that the code begins."""
        self.say({"say": "began"})

    def ended(self, end: End, *, is_gone: bool = True, is_quiet: bool = False) -> None:
        """Leave it to `serve`, which says it."""

    def ring(self) -> None:
        """Ring for nobody: there is no worker here."""


class ChildRunContext:
    """A run's live part, by words to the worker, which has the store."""

    def __init__(self, write_to: int) -> None:
        self._write_to = write_to
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._answers: dict[int, SimpleQueue[dict[str, Any]]] = {}
        self._concealer = Redactor()
        self._is_cancelled = False
        self._has_seen = False
        self._cancel: Callable[[], object] | None = None
        self.is_over = False
        self.is_detached = False
        """Whether this is a copy in a process that the task has forked: the worker hears none."""

    @property
    def is_cancelled(self) -> bool:
        """Whether it should stop; the worker learns that the code knows."""
        if self._is_cancelled and not self._has_seen:
            self._has_seen = True
            self.say({"say": "seen"})
        return self._is_cancelled

    def stop(self) -> None:
        """Let the code know that it should stop."""
        self._is_cancelled = True
        if self._cancel is not None:
            self._cancel()

    def advance(self, progress: Progress) -> None:
        """Say how far it is."""
        parts = {"done": progress.done, "total": progress.total, "note": progress.note}
        self.say({"say": "advance", **parts})

    def save(self, partition: str, state: str) -> None:
        """Store a checkpoint before returning."""
        self._ask({"say": "save", "partition": partition, "state": state})

    def saved(self, partition: str) -> str | None:
        """Return the last checkpoint of the run."""
        found: str | None = self._ask({"say": "saved", "partition": partition})
        return found

    def transact(self, limit_us: int) -> AbstractContextManager[TransactionalRun]:
        """Refuse: the store's transactions belong to the worker's own process."""
        assert limit_us > 0, "whoever asks has read it"
        remedy = (
            "make it a plain or an async task: its transaction is short, and waits for the store"
        )
        raise UsageError("transaction", "a process task", "can't commit with its run", remedy)

    def note_scope(self, report: ItemReport) -> None:
        """Say what is expected, or which items are done."""
        said = {"expected": report.expected, "names": report.names, "done": report.done}
        self.say({"say": "scope", **said})

    def done_items(self, items: tuple[str, ...]) -> frozenset[str]:
        """Return those of some items that are done; asked in pages, for a word has its limit."""
        pages = (items[at : at + ITEMS_MAX] for at in range(0, len(items), ITEMS_MAX))
        asked = ({"say": "done-items", "items": page} for page in pages)
        return frozenset(item for page in asked for item in self._ask(page))

    def begin_effect(self, key: str | None) -> EffectPermission:
        """Ask for permission to do what can't be taken back."""
        grant, result = self._ask({"say": "begin-effect", "key": key})
        return EffectPermission(Grant(grant), result)

    def end_effect(self, key: str, result: str | None, *, is_done: bool = True) -> None:
        """Say that an effect is done, or that it did not happen."""
        self._ask({"say": "end-effect", "key": key, "result": result, "is_done": is_done})

    def write(self, level: str, text: str) -> None:
        """Add a line to the run's log."""
        # As long as a line may be, for a word has its limit; and hidden before it is cut.
        self.say({"say": "write", "level": level, "text": bounded_line(self.hide(text))})

    def conceal(self, text: str) -> None:
        """Never let this text appear in lines, errors or results.

        Waits for the worker's answer. Output goes another way than words, and may arrive earlier.
        """
        self._concealer.add(text)
        self._ask({"say": "conceal", "text": text})

    def hide(self, text: str, *, is_cut: bool = False) -> str:
        """Return a text with secrets left out, so that it may be cut."""
        return self._concealer.hide(text, is_cut=is_cut)

    def shown(self, end: End) -> End:
        """Return an end without secrets and of bounded length, as it is said."""
        return fitted(self._concealer.hide_in_end(end))

    def awaited(self, value: Any) -> Any:  # noqa: ANN401 - what a task returns
        """Return a result: if it is to be awaited first, run it to its end."""
        return asyncio.run(self._run(value)) if inspect.isawaitable(value) else value

    async def _run(self, value: Awaitable[Any]) -> Any:  # noqa: ANN401 - as above
        future, loop = asyncio.ensure_future(value), asyncio.get_running_loop()

        def cancel() -> None:
            if future.cancel():
                bool(self.is_cancelled)  # it learns of it inside, so the worker may know

        self._cancel = lambda: loop.call_soon_threadsafe(cancel)
        if self._is_cancelled:
            cancel()
        try:
            return await future
        finally:
            self._cancel = None

    def say(self, word: dict[str, Any]) -> None:
        """Write one word, whole, to the worker."""
        if self.is_detached:
            return  # two who write to one pipe would cut into each other's words
        left = written(word)
        with self._lock:
            self.is_over = self.is_over or word["say"] in ("ended", "unloadable")
            while left:
                left = left[os.write(self._write_to, left) :]

    def take(self, word: dict[str, Any]) -> None:
        """Give an answer to whoever waits for it."""
        waiting = self._answers.pop(word["answer"], None)
        if waiting is not None:
            waiting.put(word)

    def _ask(self, word: dict[str, Any]) -> Any:  # noqa: ANN401 - what it is answered
        if self.is_detached:
            problem = "a process that the task has forked has no way to the worker"
            raise StoreError("checkpoint", problem, "call it in the task's own process")
        number, answers = next(self._numbers), SimpleQueue[dict[str, Any]]()
        self._answers[number] = answers
        self.say({**word, "id": number})
        answer = answers.get()
        if "error" not in answer:
            return answer.get("value")
        name, parts = answer["error"]
        if name == "UsageError":
            raise UsageError(*parts)
        raise _ERRORS.get(name, StoreError)(*parts)
