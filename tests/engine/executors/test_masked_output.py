"""Secrets do not pass to the standard output and error of a worker's process."""

from __future__ import annotations

import io
import logging
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from duly.engine.executors.async_executor import EventLoopExecutor
from duly.engine.executors.task_output import Redactor, masked_output, output_redactor
from duly.engine.executors.thread_executor import ThreadExecutor
from tests.each_row import each_row
from tests.engine.executors.attempt import attempt_of

if TYPE_CHECKING:
    from collections.abc import Iterator

SECRET = "hunter2-is-secret"  # noqa: S105 - of no one


def write(text: str) -> None:
    """Write to whatever is standard output now, as `print` does."""
    sys.stdout.write(text)


@contextmanager
def shown(monkeypatch: pytest.MonkeyPatch, *secrets: str) -> Iterator[io.StringIO]:
    """Lend what is seen on standard output while it is masked."""
    seen = io.StringIO()
    monkeypatch.setattr(sys, "stdout", seen)
    redactor = output_redactor()
    for secret in secrets:
        redactor.add(secret)
    with masked_output(redactor):
        yield seen


@each_row(
    ("parts", "expected"),
    [
        (["log in with hunter2-is-secret", "\n"], "log in with ***\n"),
        (["hunter2-is-", "secret", "\n"], "***\n"),
        (list("a hunter2-is-secret b"), "a *** b"),
        (["hunter2", " is not it\n"], "hunter2 is not it\n"),
        (["hunhunter2-is-", "secret"], "hun***"),
        (["h", "", "a"], "ha"),
        (['{"token": "hunter2-is-secret"}\n'], '{"token": "***"}\n'),
        (["aHVudGVyMi1pcy1zZWNyZXQ=\n"], "***=\n"),
        (["what ends in hunt"], "what ends in ***"),
        (["nothing to hide\n"], "nothing to hide\n"),
    ],
)
def test_a_secret_is_hidden_in_whatever_parts_it_is_written(parts, expected):
    with pytest.MonkeyPatch.context() as patch, shown(patch, SECRET) as seen:
        for part in parts:
            write(part)

    assert expected == seen.getvalue()


def test_nothing_is_kept_back_where_there_are_no_secrets(monkeypatch):
    with shown(monkeypatch) as seen:
        sys.stdout.write("h")

        assert "h" == seen.getvalue()


def test_a_secret_of_three_characters_is_a_word_that_occurs_anywhere(monkeypatch):
    with shown(monkeypatch, "the") as seen:
        write("they then\n")

    assert "they then\n" == seen.getvalue()


def test_a_worker_remembers_the_secrets_that_it_has_read_last():
    redactor = Redactor(secrets_max=2)
    for secret in ("first-one", "second-one", "second-one", "third-one"):
        redactor.add(secret)

    assert "first-one *** ***" == redactor.hide("first-one second-one third-one")


def test_the_streams_are_as_before_when_a_worker_has_ended(monkeypatch):
    before = sys.stdout, sys.stderr
    with masked_output(output_redactor()):
        assert sys.stdout.encoding == before[0].encoding
        assert (sys.stdout, sys.stderr) != before

    assert before == (sys.stdout, sys.stderr)


def test_loggers_that_write_there_are_masked_too(monkeypatch):
    """A program sets up its logging before its worker starts."""
    seen = io.StringIO()
    monkeypatch.setattr(sys, "stderr", seen)
    logger, handler = logging.getLogger("of.a.program"), logging.StreamHandler()
    logger.addHandler(handler)
    redactor = output_redactor()
    redactor.add(SECRET)
    try:
        with masked_output(redactor):
            logger.warning("log in with %s", SECRET)
        logger.warning("it is over")
    finally:
        logger.removeHandler(handler)

    assert "log in with ***\nit is over\n" == seen.getvalue()


def print_in_thread() -> None:
    thread = threading.Thread(target=lambda: write(f"with {SECRET}\n"))
    thread.start()
    thread.join()


async def print_awaited() -> None:
    write(SECRET[:5])
    sys.stdout.flush()
    write(f"{SECRET[5:]}\n")


@pytest.mark.parametrize(
    ("executor", "code", "expected"),
    [
        (ThreadExecutor(1), lambda: write(f"with {SECRET}\n"), "with ***\n"),
        (ThreadExecutor(1), print_in_thread, "with ***\n"),
        (EventLoopExecutor(), print_awaited, "***\n"),
    ],
    ids=["thread", "thread of its own", "async"],
)
def test_what_a_task_prints_is_masked(monkeypatch, executor: Any, code: Any, expected: str):
    with shown(monkeypatch, SECRET) as seen:
        attempt = attempt_of(code)
        executor.start(attempt)
        attempt.wait_end()
    executor.close()

    assert expected == seen.getvalue()
