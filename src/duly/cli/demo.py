"""`duly demo`: a working system to look at, with two weeks of history, that leaves nothing behind.

One process tree: this process makes the history, then serves and dispatches; two supervised workers
do the work, and a janitor removes the folder when this process is gone, whatever ended it.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import webbrowser
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Annotated

from cyclopts import Parameter

from duly.app import App
from duly.app.demo_controls import LABEL
from duly.app.services import OutputListener, run_all
from duly.app.stores import URL_VARIABLE
from duly.cli.event_lines import LineTelemetry, Style
from duly.cli.output import print_block, print_line, ticker
from duly.cli.services import require_server_library, served
from duly.clock import SystemClock
from duly.demo.processes import demo_crew, passing_folder
from duly.engine.alerts.channels import LOGGER_NAME
from duly.engine.supervisor import Supervisor
from duly.errors import Conflict
from duly.timetable.instants import SECOND_US, duration_microseconds

FILE = "promises.db"
READY_SECONDS_MAX = 10.0
"""So long a demo that ends by itself waits for its page before its time begins."""
NEXT = """\
import duly

app = duly.App()  # promises are kept in $DULY_URL, else in the file duly.db

@app.schedule(duly.cron("0 9 * * 1-5", tz="Europe/Paris"), name="greeting")
@app.task
def greet(name: str = "world") -> str:
    return f"hello, {name}"
"""
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def demo(
    *,
    port: int = 0,
    no_open: Annotated[bool, Parameter(negative=())] = False,
    keep: Path | None = None,
    ends_after: Annotated[str | None, Parameter(name="--for")] = None,
) -> int:
    """See Duly at work until Ctrl-C: a page, a fleet, two weeks of history. Not for production.

    All of it is demo data, in a file of its own that is gone afterwards, as are the processes. It
    needs no network, and listens on this machine alone.

    Parameters
    ----------
    port
        Where to listen; some free port unless given.
    no_open
        Open no browser, only print the address.
    keep
        Keep the promises in this file, which must not be there yet; duly dev goes on with it.
    ends_after
        End by itself after so long, such as 20s.
    """
    require_server_library()
    _require_free(port)
    lasts_us = None if ends_after is None else duration_microseconds(ends_after, "for")
    if keep is not None and keep.exists():
        raise Conflict("keep", str(keep), "is there already", "name a file that is not")
    print_line(("Duly demo: not for production. ", "bold"), f"What it shows is {LABEL}, made up.")
    with ExitStack() as stack:
        folder = stack.enter_context(passing_folder())
        ending = stack.enter_context(_ended_by_signals())
        file = folder / FILE if keep is None else keep.absolute()
        stack.enter_context(_named(f"sqlite:///{file}"))
        with _whole(keep):
            app = _with_history(file)
            ending.go_on()
        stack.enter_context(app)
        run_demo(app, DemoStatus(port=port, opens=not no_open, lasts_us=lasts_us))
    _say_what_is_next(keep)
    return 0


class DemoStatus:
    """Where a demo is to be seen, and for how long; it knows which processes are its own."""

    def __init__(self, *, port: int, opens: bool, lasts_us: int | None) -> None:
        self.port = port
        self.opens = opens
        self._lasts_us = lasts_us
        self._supervisor: Supervisor | None = None
        self._is_ready = threading.Event()
        self._is_over = threading.Event()

    def processes(self) -> Collection[int]:
        """Return the worker processes that run."""
        return () if self._supervisor is None else self._supervisor.processes

    def begin(self, supervisor: Supervisor) -> None:
        """Know who keeps the workers going, and end them when the time is over."""
        self._supervisor = supervisor
        if self._lasts_us is not None:
            threading.Thread(target=self._end_in_time, args=(self._lasts_us,), daemon=True).start()

    def be_ready(self) -> None:
        """Know that there is something to look at: now the time begins."""
        self._is_ready.set()

    def end(self) -> None:
        """Wait for nothing any more."""
        self._is_ready.set()
        self._is_over.set()

    def _end_in_time(self, lasts_us: int) -> None:
        self._is_ready.wait(READY_SECONDS_MAX)
        if not self._is_over.wait(lasts_us / SECOND_US) and self._supervisor is not None:
            self._supervisor.drain()


def run_demo(app: App, stand: DemoStatus) -> None:
    """Serve, dispatch and work until a signal or the time ends it."""
    from duly.demo.app import Controls

    app.demo = Controls(app, stand.processes)
    # Its alerts are to be seen on their page; in between the lines of a terminal nobody asked.
    logging.getLogger(LOGGER_NAME).propagate = False
    logging.getLogger(LOGGER_NAME).addHandler(logging.NullHandler())
    telling = LineTelemetry(SystemClock(), level=logging.WARNING, style=Style.SENTENCES)

    def ready(url: str) -> None:
        address = f"{url}/enter#{app.doorkeeper().make_code()}"
        print_line(("Look at it", "bold"), " (the code opens once, within 15 minutes):")
        print_block(address)  # as it is: an address that is broken between lines opens nothing
        print_line("In another terminal:")
        print_block(f"{_command()} --url {app.url} status")
        print_line("Ctrl-C ends it.")
        sys.stdout.flush()
        stand.be_ready()
        if stand.opens and has_desktop():
            webbrowser.open(address)

    try:
        with served(app, stand.port, telling, ready):
            run_all(app, demo_crew(), OutputListener(), stand.begin)
    finally:
        stand.end()


def _with_history(file: Path) -> App:
    """Make two weeks of history; return the application, whose store it is."""
    # It reads where its store is when it is loaded.
    from duly.demo.app import app
    from duly.demo.history import DAYS, make_history

    print_line(f"Making {DAYS} days of history, by the engine itself, in virtual time …")
    sys.stdout.flush()
    clock = SystemClock()
    began_at = clock.monotonic_us()
    with ticker() as told:
        runs = make_history(app, file, clock, told.tell)
    took = (clock.monotonic_us() - began_at) / SECOND_US
    print_line(f"  {runs:,} runs in {took:.1f} s.")
    return app


@contextmanager
def _whole(keep: Path | None) -> Iterator[None]:
    """Keep a file only if it was made to its end."""
    try:
        yield
    except BaseException:
        if keep is not None:
            for suffix in ("", "-wal", "-shm"):
                keep.with_name(keep.name + suffix).unlink(missing_ok=True)
        raise


@contextmanager
def _named(url: str) -> Iterator[None]:
    """Have this process and those that it starts use a store, for the length of a block."""
    before = os.environ.get(URL_VARIABLE)
    os.environ[URL_VARIABLE] = url
    try:
        yield
    finally:
        os.environ.pop(URL_VARIABLE)
        if before is not None:
            os.environ[URL_VARIABLE] = before


class Interruption:
    """Whether a signal has ended the demo while its history was made."""

    def __init__(self) -> None:
        self.is_asked = False

    def go_on(self) -> None:
        """Refuse to, when somebody has: an interrupt may be raised where a library swallows it."""
        if self.is_asked:
            raise KeyboardInterrupt


@contextmanager
def _ended_by_signals() -> Iterator[Interruption]:
    """Let any signal by which people end programs end it as Ctrl-C does.

    While the fleet runs it hears SIGINT and SIGTERM itself; a terminal that is closed is the same.
    """
    ending, has_heard = Interruption(), signal.getsignal

    def end(number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGHUP and has_heard(signal.SIGTERM) is not end:
            signal.raise_signal(signal.SIGTERM)
            return
        ending.is_asked = True
        raise KeyboardInterrupt

    before = [(one, signal.signal(one, end)) for one in _SIGNALS]
    try:
        yield ending
    finally:
        for one, handler in before:
            signal.signal(one, handler)


def _require_free(port: int) -> None:
    """Refuse a port that is taken before there is anything to serve."""
    from duly.api.server import BindAddress, require_free

    require_free(BindAddress(port=port))


def has_desktop() -> bool:
    """Say whether somebody sits here before a screen: in a pipeline nobody wants a browser."""
    has_screen = any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
    return sys.stdout.isatty() and (sys.platform == "darwin" or has_screen)


def _command() -> str:
    """Return how the command is called from here."""
    here = Path(sys.argv[0])
    return str(here) if here.parent.name == "bin" and here.name == "duly" else "duly"


def _say_what_is_next(keep: Path | None) -> None:
    """Say how to go on. Whoever has closed the terminal does not hear it."""
    with suppress(OSError):
        left = "nothing of it is left" if keep is None else f"its promises are kept in {keep}"
        print_line("", f"The demo is over; {left}.")
        print_line(f"Yours begins with: {_command()} init, or with this as tasks.py:")
        print_line("")
        print_block(NEXT)
        print_line("")
        print_line(f"{_command()} dev --app tasks:app    # keeps what was promised")
        sys.stdout.flush()
