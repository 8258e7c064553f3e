"""Effects in a task's own words: permission, a block for one effect, and doing something once."""

from __future__ import annotations

import inspect
import json
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from duly.client.awaited import in_thread
from duly.client.json_values import plain_value
from duly.domain.effects import EFFECT_RESULT_BYTES_MAX, Grant, require_effect_key
from duly.domain.schedules import canonical_json
from duly.errors import (
    Cancelled,
    EffectDone,
    EffectNotDone,
    EffectRefused,
    EffectUnknown,
    LeaseLost,
    UsageError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from duly.domain.effects import Permitted
    from duly.domain.live import Live

WHOLE = "all effects"
"""How messages call effects that were begun without a key."""
_DEPTH_MAX = 32


def begin_all(live: Live, label: str) -> None:
    """Take permission for everything that the attempt does from now on."""
    _require(live.begin_effect(None), WHOLE, label)


@contextmanager
def effect_of(live: Live, label: str, key: str) -> Iterator[None]:
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


def once(live: Live, label: str, key: str, call: Callable[[], Any]) -> Any:  # noqa: ANN401 - whatever it gives
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


async def once_awaited(live: Live, label: str, key: str, call: Callable[[], Any]) -> Any:  # noqa: ANN401 - as above
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

    def __init__(self, live: Live, label: str, key: str) -> None:
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


def spanned(live: Live, key: str) -> AbstractContextManager[object]:
    """Make an effect's span the current one of whatever is done within, if it has one."""
    trace = getattr(live, "trace", None)
    return nullcontext() if trace is None else trace.in_effect(key)


def _withdraw(live: Live, key: str) -> None:
    live.end_effect(key, None, is_done=False)


def _require(permitted: Permitted, key: str, label: str) -> None:
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


def _kept(permitted: Permitted) -> Any:  # noqa: ANN401 - JSON values
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
