"""Tasks of every kind that say which span they run below."""

from __future__ import annotations

import asyncio
import logging
import os
import sys

from opentelemetry import trace

import duly

app = duly.App()
SHOW = "import json, os; print(json.dumps(os.environ.get('TRACEPARENT')))"
LOGGER = logging.getLogger("program")


def current() -> str:
    """Return the current span as it is passed on."""
    context = trace.get_current_span().get_span_context()
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags) & 1:02x}"


@app.task
def in_thread(run: duly.Run) -> list[str]:
    run.checkpoint({"page": 1})
    return [current()]


@app.task
async def awaited() -> list[str]:
    before = current()
    return [before, await asyncio.to_thread(current), current()]


@app.task(kind="process")
def in_process(run: duly.Run) -> list[str | None]:
    run.checkpoint({"page": 1})
    return [current(), os.environ.get("TRACEPARENT")]


@app.task(kind="process")
async def awaited_in_process() -> list[str]:
    await asyncio.to_thread(current)
    return [current()]


@app.task(effects="unsafe")
def charge(run: duly.Run) -> list[str]:
    with run.effect("charge:1"):
        inside = current()
    return [inside, current()]


@app.task(effects="unsafe")
async def charge_awaited(run: duly.Run) -> list[str]:
    async with run.aio.effect("charge:1"):
        inside = current()
    return [inside, current(), await run.aio.once("charge:2", current)]


@app.task(effects="unsafe", retry=duly.Retry(attempts=1))
def charge_in_doubt(run: duly.Run) -> None:
    with run.effect("charge:1"):
        raise ConnectionError("no answer")


@app.task
def orders() -> None:
    app.enqueue(in_thread.bind())


app.command("shows", [sys.executable, "-c", SHOW], has_result=True)
