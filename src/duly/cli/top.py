"""`duly top`: workers, queues and runs as they go, on one screen until q or Ctrl-C."""

from __future__ import annotations

import os
import select
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import RenderableType
from rich.live import Live
from rich.text import Text

from duly.app import App
from duly.cli.output import console, neutral, print_json
from duly.cli.snapshot import take_snapshot
from duly.cli.target import Target, opened
from duly.cli.top_frame import frame
from duly.cli.waiting import read_interval
from duly.errors import StoreUnavailable

TARGET = Target()
INTERVAL_DEFAULT = "1s"
_ENDING_KEYS = b"qQ\x03\x04"
_KEYS_MAX = 1024


def top(*, once: bool = False, interval: str = INTERVAL_DEFAULT, target: Target = TARGET) -> None:
    """Watch workers, queues and runs as they go; q or Ctrl-C ends it.

    Into a pipe or a file, and with --json, it shows one frame.

    Parameters
    ----------
    once
        Show one frame and end.
    interval
        How often to look: 1s, 500ms.
    """
    interval_s = read_interval(interval)
    with opened(target, makes_store=False) as app:
        if target.json:
            print_json(take_snapshot(app).to_json())
        elif once or not (sys.stdin.isatty() and sys.stdout.isatty()):
            console().print(frame(take_snapshot(app)))
        else:
            _watch(app, interval_s)


def _watch(app: App, interval_s: float) -> None:
    first = frame(take_snapshot(app))  # an error here is told as that of any other command
    with (
        _single_keys(),
        Live(first, console=console(), screen=True, auto_refresh=False) as live,
    ):
        while not _is_ended(interval_s):
            live.update(_looked(app), refresh=True)


def _looked(app: App) -> RenderableType:
    """Look again; a store that is away for a while does not end the view."""
    try:
        return frame(take_snapshot(app))
    except StoreUnavailable as error:
        return Text.assemble(("the store does not answer: ", "bold red"), neutral(str(error)))


def _is_ended(limit_s: float) -> bool:
    """Wait for a key; say whether it was one that ends the view."""
    keyboard = sys.stdin.fileno()
    readable, _, _ = select.select([keyboard], [], [], limit_s)
    if not readable:
        return False
    typed = os.read(keyboard, _KEYS_MAX)  # not by sys.stdin, which keeps what select can't see
    return not typed or any(key in _ENDING_KEYS for key in typed)


@contextmanager
def _single_keys() -> Iterator[None]:
    """Let each key through at once and unseen, and set the terminal back afterwards."""
    before = termios.tcgetattr(sys.stdin)
    try:
        tty.setcbreak(sys.stdin, termios.TCSANOW)
        yield
    except KeyboardInterrupt:
        return
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
