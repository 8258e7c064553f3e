"""The live run: what a task's code may do while it lasts, from any thread that calls it.

`WorkerRunContext` keeps progress and lines in bounded buffers until the worker sends them. A
checkpoint is stored before the call returns. The worker says whether the run is still its own, and
the store decides.
"""

from __future__ import annotations

import threading
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from duly.domain.effects import EffectPermission, Grant
from duly.domain.enums import Effects
from duly.domain.runs import (
    CHECKPOINT_BYTES_MAX,
    LINE_LENGTH_MAX,
    LINES_PER_ATTEMPT_MAX,
    PARTITION_LENGTH_MAX,
    LogLine,
    Progress,
)
from duly.domain.verification import ITEMS_MAX, NOTHING, ItemReport
from duly.engine.executors.results import bounded_line, storable
from duly.engine.executors.task_output import Redactor
from duly.errors import LeaseLost, StoreUnavailable, UsageError, require_text
from duly.store.ports.effects import BeginEffect, EndEffect
from duly.store.ports.execution import Report, SaveCheckpoint

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.clock import Clock
    from duly.domain.outcomes import End
    from duly.store.ports import Store
    from duly.store.ports.dispatch import MemberId
    from duly.store.ports.execution import ClaimedRun, ClaimRef
    from duly.telemetry.tracing import AttemptTrace

T = TypeVar("T")
NOTE_LENGTH_MAX = 500
LEVEL_LENGTH_MAX = 20
DONE_MAX = (1 << 63) - 1
WHOLE_EFFECT = "(all)"
"""How a span calls effects that were begun without a key."""
MORE_LINES = f"more lines are left out: an attempt may write {LINES_PER_ATTEMPT_MAX:,}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContextDeps:
    """What the live runs of a worker stand on: who it is, the store, and what time it is."""

    worker: MemberId
    store: Store
    clock: Clock
    store_now: Callable[[], int]
    """The store's clock, as well as the worker knows it."""
    secrets: Redactor
    """What the output of this process must not show."""


class WorkerRunContext:
    """One attempt's buffers, and whether it should stop."""

    # Most attempts end without a word: what they begin with is here once, and not in each of them.
    _is_cancelled = False
    _is_fenced = False
    _has_looked = False
    _last: Progress | None = None
    _is_unsent = False
    _lines: tuple[LogLine, ...] | list[LogLine] = ()
    _written = 0
    _told = 0
    _is_in_doubt = False
    _checkpoints: dict[str, str] | None = None
    _own_checkpoint_lock: threading.Lock | None = None
    _concealer: Redactor | None = None
    _scope: ItemReport | None = None
    _items: set[str] | None = None
    """All that it has reported as done, sent or not."""
    effects = Effects.IDEMPOTENT
    """What its task declares."""
    _is_permitted = False
    _asking = 0
    advanced_at = 0
    """When it last came any further, on the monotonic clock; 0 when it never said so."""
    trace: AttemptTrace | None = None
    """Its span; None when nobody has asked for spans."""

    def __init__(self, claimed: ClaimedRun, grounds: RunContextDeps) -> None:
        self.claimed = claimed
        self._grounds = grounds
        self._lock = threading.Lock()
        """Held for moments only."""

    @property
    def hold(self) -> ClaimRef:
        """The claim that every write about it carries."""
        return self.claimed.hold

    @property
    def _checkpoint_lock(self) -> threading.Lock:
        """Held while the store is asked: what is remembered is what was stored last.

        Whichever thread of the attempt came first. The other lock is never held that long.
        """
        with self._lock:
            if self._own_checkpoint_lock is None:
                self._own_checkpoint_lock = threading.Lock()
            return self._own_checkpoint_lock

    @property
    def has_begun_effects(self) -> bool:
        """Whether it was permitted to do what can't be taken back, or may be at this moment.

        Who ends it while its permission is on the way can't know: its code may go on with it.
        """
        return self._is_permitted or self._asking > 0

    @property
    def is_cancelled(self) -> bool:
        """Whether it should stop: somebody asked, its time is up, or it is no longer ours."""
        self._has_looked = self._has_looked or self._is_cancelled
        return self._is_cancelled

    @property
    def is_stopped(self) -> bool:
        """Whether it should stop, for whoever is not its code."""
        return self._is_cancelled

    @property
    def has_seen_stop(self) -> bool:
        """Whether the code has been told, when it asked, that it should stop."""
        return self._has_looked

    @property
    def is_fenced(self) -> bool:
        """Whether the run is no longer ours."""
        return self._is_fenced

    def stop(self, *, is_fenced: bool = False) -> None:
        """Let the code know that it should stop; fenced off when the run is no longer ours."""
        self._is_fenced = self._is_fenced or is_fenced
        self._is_cancelled = True

    def advance(self, progress: Progress) -> None:
        """Say how far it is; stored soon, without waiting. Progress is what stall limits watch."""
        note = progress.note
        if note is not None:
            require_text("note", note, LINE_LENGTH_MAX)
            note = self.hide(note)[:NOTE_LENGTH_MAX]
        _require_count("done", progress.done)
        if progress.total is not None:
            _require_count("total", progress.total)
        said = Progress(progress.done, progress.total, note)
        with self._lock:
            # Saying the same again is breathing, and not advancing.
            if said != self._last:
                self._last, self._is_unsent = said, True
                self.advanced_at = self._grounds.clock.monotonic_us()

    def save(self, partition: str, state: str) -> None:
        """Store a checkpoint (JSON text) before returning; LeaseLost when it is no longer ours."""
        require_text("partition", partition, PARTITION_LENGTH_MAX)
        require_text("state", state, CHECKPOINT_BYTES_MAX)
        if len(state.encode()) > CHECKPOINT_BYTES_MAX:
            remedy = f"give at most {CHECKPOINT_BYTES_MAX:,} bytes, or a reference to more"
            raise UsageError("state", state, "is too long", remedy)
        grounds = self._grounds
        order = SaveCheckpoint(
            worker=grounds.worker, hold=self.hold, partition=partition, state=state
        )
        told = nullcontext() if self.trace is None else self.trace.checkpoint(partition)
        with told, self._checkpoint_lock:
            if self._is_fenced or not grounds.store.save_checkpoint(order):
                self.stop(is_fenced=True)
                remedy = "stop: whatever this attempt still does counts no more"
                raise LeaseLost(grounds.store.name, "the run was taken from this worker", remedy)
            if self._checkpoints is not None:
                self._checkpoints[partition] = state
        with self._lock:
            self.advanced_at = grounds.clock.monotonic_us()

    def saved(self, partition: str) -> str | None:
        """Return the last checkpoint of the run, by whichever attempt."""
        with self._checkpoint_lock:
            if self._checkpoints is None:
                run_id = self.claimed.run_id
                self._checkpoints = dict(self._grounds.store.get_checkpoints(run_id))
            return self._checkpoints.get(partition)

    def note_scope(self, report: ItemReport) -> None:
        """Say what is expected, or which items are done; stored soon, and with the end."""
        with self._lock:
            self._scope = _joined(self._scope or NOTHING, self._with_repeated(report))
            self.advanced_at = self._grounds.clock.monotonic_us()

    def _with_repeated(self, report: ItemReport) -> ItemReport:
        """Return a report with those items that this attempt reports once more."""
        if self._items is None:
            self._items = set()
        repeated = []
        for item in report.done:
            if item in self._items:
                repeated.append(item)
            self._items.add(item)
        return replace(report, repeated=tuple(repeated))

    def done_items(self, items: tuple[str, ...]) -> frozenset[str]:
        """Return those items that are on record as done, or that this attempt has reported."""
        store, run_id = self._grounds.store, self.claimed.run_id
        with self._lock:
            # Also what is on its way to the store.
            said = (self._items or set()).intersection(items)
        pages = (items[at : at + ITEMS_MAX] for at in range(0, len(items), ITEMS_MAX))
        return frozenset(said.union(*(store.list_done(run_id, page) for page in pages)))

    @property
    def has_scope(self) -> bool:
        """Whether something about its scope is there that nobody has taken."""
        return self._scope is not None

    def take_scope(self) -> ItemReport | None:
        """Remove and return what waits to be stored about its scope."""
        with self._lock:
            taken, self._scope = self._scope, None
        return taken

    def begin_effect(self, key: str | None) -> EffectPermission:
        """Ask for permission to do what can't be taken back; durable before this returns."""
        grounds = self._grounds
        if self._is_fenced:
            return EffectPermission(Grant.GONE)
        self._store_expected()
        order = BeginEffect(worker=grounds.worker, hold=self.hold, effects=self.effects, key=key)
        with self._lock:
            self._asking += 1
        try:
            begun = self._asked_again(lambda: grounds.store.begin_effect(order))
            self._is_permitted = self._is_permitted or begun.grant is Grant.GRANTED
        finally:
            with self._lock:
                self._asking -= 1
                self.advanced_at = grounds.clock.monotonic_us()
        if begun.grant is Grant.GONE:
            self.stop(is_fenced=True)
        elif begun.grant is Grant.GRANTED and self.trace is not None:
            self.trace.begin_effect(WHOLE_EFFECT if key is None else key)
        return EffectPermission(begun.grant, None if begun.record is None else begun.record.result)

    def _store_expected(self) -> None:
        """Store what an unsafe task expects before its effect begins.

        If the worker dies in the middle of it, the inbox must know that items are missing.
        """
        with self._lock:
            waiting = self._scope
            if self.effects is not Effects.UNSAFE or waiting is None or waiting.expected is None:
                return
            self._scope = None
        try:
            report = Report(hold=self.hold, scope=waiting)
            self._grounds.store.report(self._grounds.worker, [report])
        except StoreUnavailable:
            with self._lock:
                self._scope = waiting if self._scope is None else _joined(waiting, self._scope)

    def end_effect(self, key: str, result: str | None, *, is_done: bool = True) -> None:
        """Say that an effect is done, with its result, or that it did not happen."""
        grounds = self._grounds
        order = EndEffect(
            worker=grounds.worker, hold=self.hold, key=key, is_done=is_done, result=result
        )
        if not self._asked_again(lambda: grounds.store.end_effect(order)):
            self.stop(is_fenced=True)
            remedy = "stop: whether this effect is done will have to be found out"
            raise LeaseLost(grounds.store.name, "the run was taken from this worker", remedy)
        if self.trace is not None:
            self.trace.end_effect(key, is_done=is_done)

    def _asked_again(self, ask: Callable[[], T]) -> T:
        """Ask the store, and once more if the answer was lost: both orders may be repeated."""
        try:
            return ask()
        except StoreUnavailable:
            return ask()

    def write(self, level: str, text: str) -> None:
        """Add a line to the run's log; stored soon, without waiting, and with secrets left out."""
        at = self._grounds.store_now()
        shown = bounded_line(storable(self.hide(str(text))))
        with self._lock:
            if self._written >= LINES_PER_ATTEMPT_MAX:
                return
            self._written += 1
            if self._written == LINES_PER_ATTEMPT_MAX:
                level, shown = "warning", MORE_LINES
            level = storable(str(level))[:LEVEL_LENGTH_MAX]
            line = LogLine(at, level, shown)
            if isinstance(self._lines, list):
                self._lines.append(line)
            else:
                self._lines = [line]
        self.tell_line(level, shown)

    def tell_line(self, level: str, text: str) -> None:
        """Tell whoever listens that a line was written; it is stored all the same."""

    def conceal(self, text: str) -> None:
        """Never let this text (a secret's value) appear in lines, errors, results or output."""
        self._grounds.secrets.add(text)
        with self._lock:
            if self._concealer is None:
                self._concealer = Redactor()
            self._concealer.add(text)

    def hide(self, text: str, *, is_cut: bool = False) -> str:
        """Return a text with secrets left out, so that it may be cut."""
        return text if self._concealer is None else self._concealer.hide(text, is_cut=is_cut)

    def hide_in_end(self, end: End) -> End:
        """Return an end whose error and result hold no secrets."""
        return end if self._concealer is None else self._concealer.hide_in_end(end)

    @property
    def has_lines(self) -> bool:
        """Whether lines are there that nobody has taken."""
        return bool(self._lines)

    @property
    def has_progress(self) -> bool:
        """Whether progress is there that nobody has taken."""
        return self._is_unsent

    def take_lines(self) -> tuple[LogLine, ...]:
        """Remove and return the lines that wait to be stored."""
        with self._lock:
            taken, self._lines = self._lines, ()
        # Once more: what is a secret may have become known after a line was written.
        return tuple(replace(line, text=self.hide(line.text)) for line in taken)

    def take_progress(self) -> Progress | None:
        """Return the last progress, if nobody has taken it yet."""
        with self._lock:
            is_unsent, self._is_unsent = self._is_unsent, False
            return self._last if is_unsent else None

    @property
    def lines_before(self) -> int | None:
        """How many lines are stored for certain before those that wait; None when that is all."""
        return self._told if self._is_in_doubt else None

    def note_told(self, lines: int) -> None:
        """Count lines of which the store has said that it has them."""
        self._told += lines

    def put_back(
        self,
        progress: Progress | None,
        lines: tuple[LogLine, ...],
        scope: ItemReport | None = None,
    ) -> None:
        """Keep what was taken and sent in vain, or not: the answer alone may have been lost."""
        with self._lock:
            if scope is not None:
                self._scope = scope if self._scope is None else _joined(scope, self._scope)
            self._is_in_doubt = True
            self._lines = [*lines, *self._lines]
            self._is_unsent = self._is_unsent or progress is not None


def _joined(before: ItemReport, later: ItemReport) -> ItemReport:
    return ItemReport(
        expected=before.expected if later.expected is None else later.expected,
        names=(*before.names, *later.names),
        done=(*before.done, *later.done),
        repeated=(*before.repeated, *later.repeated),
    )


def _require_count(field: str, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= DONE_MAX:
        raise UsageError(field, value, "is not a count", "give a whole number, 0 or more")
