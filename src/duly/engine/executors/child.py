"""A child process and its family: started in a group of its own, read to its end, killed whole.

It must be started by a thread that outlives it: the kernel takes the end of that thread for the end
of its parent.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from duly.clock import Clock
    from duly.engine.executors.output import Reader

CHUNK_BYTES = 64 * 1024
LINGER_US = 500_000
"""How long we read on after the process has ended: somebody else may hold its pipes for ever."""
LOOK_EVERY_US = 200_000
"""How often we look whether it has ended, where the system can't tell by itself."""


class Child:
    """One process, the first of a group and a session of its own."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        keep: Sequence[int] = (),
        env: Mapping[str, str] | None = None,
        stdin: int | None = subprocess.DEVNULL,
    ) -> None:
        """Start it; `keep` are file descriptors that it inherits. With no `stdin` it has ours."""
        self._popen = subprocess.Popen(  # noqa: S603 - what a task declares, without a shell
            argv,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            env=env,
            pass_fds=keep,
            start_new_session=True,
        )
        self.process = self._popen.pid
        self._is_reaped = False
        self._ends_by: int | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Leave nobody behind, though it was not read to its end."""
        if not self._is_reaped:
            self._reap()

    @property
    def outputs(self) -> tuple[int, int]:
        """The file descriptors to read standard output and standard error from."""
        out, err = self._popen.stdout, self._popen.stderr
        assert out is not None, "it is piped"
        assert err is not None, "it is piped"
        return out.fileno(), err.fileno()

    def signal(self, number: int) -> None:
        """Send it a signal, if it is still there."""
        if not self._is_reaped:
            with suppress(ProcessLookupError):
                os.kill(self.process, number)

    def signal_all(self, number: int) -> None:
        """Send a signal to it and to whatever it has started in its group."""
        if not self._is_reaped:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process, number)

    def end_by(self, moment: int) -> None:
        """Let it be killed if it is still there at this moment of the monotonic clock."""
        self._ends_by = moment

    def read(self, readers: Mapping[int, Reader], clock: Clock) -> int:
        """Read until it has ended, kill what is left of its family; return its status."""
        try:
            with selectors.DefaultSelector() as selector, _Watch(self._popen) as watch:
                for descriptor, reader in readers.items():
                    selector.register(descriptor, selectors.EVENT_READ, reader)
                watch.join(selector)
                while not watch.has_ended():
                    self._kill_late(clock)
                    _read_ready(selector, self._wait_us(clock, watch))
                watch.leave(selector)  # or it would be told of that end again and again
                self.signal_all(signal.SIGKILL)
                ends = clock.monotonic_us() + LINGER_US
                while _is_reading(selector) and (left := ends - clock.monotonic_us()) > 0:
                    _read_ready(selector, left)
        finally:
            status = self._reap()
        for reader in readers.values():
            reader.feed(b"")
        return status

    def _wait_us(self, clock: Clock, watch: _Watch) -> int | None:
        wait_us = None if watch.is_told else LOOK_EVERY_US
        if self._ends_by is None:
            return wait_us
        left_us = max(self._ends_by - clock.monotonic_us(), 0)
        return left_us if wait_us is None else min(left_us, wait_us)

    def _kill_late(self, clock: Clock) -> None:
        if self._ends_by is not None and clock.monotonic_us() >= self._ends_by:
            self._ends_by = None
            self.signal_all(signal.SIGKILL)

    def _reap(self) -> int:
        # The group is killed before its first process is reaped: while that one is there, though
        # dead, nobody else can get its id.
        self.signal_all(signal.SIGKILL)
        status = self._popen.wait()
        self._is_reaped = True
        for stream in (self._popen.stdout, self._popen.stderr):
            assert stream is not None, "both are piped"
            stream.close()
        return status


class _Watch:
    """Tells when a process has ended, without reaping it where the system can do that."""

    def __init__(self, popen: subprocess.Popen[bytes]) -> None:
        self._popen = popen
        self._descriptor = os.pidfd_open(popen.pid) if hasattr(os, "pidfd_open") else None
        self.is_told = self._descriptor is not None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)

    def join(self, selector: selectors.BaseSelector) -> None:
        """Have a selector return when the process ends."""
        if self._descriptor is not None:
            selector.register(self._descriptor, selectors.EVENT_READ)

    def leave(self, selector: selectors.BaseSelector) -> None:
        """Let a selector wait for others only."""
        if self._descriptor is not None:
            selector.unregister(self._descriptor)

    def has_ended(self) -> bool:
        """Say whether it has ended."""
        if self._descriptor is None:
            return self._popen.poll() is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._descriptor, selectors.EVENT_READ)
            return bool(selector.select(0))


def _read_ready(selector: selectors.BaseSelector, wait_us: int | None) -> None:
    for key, _events in selector.select(None if wait_us is None else wait_us / 1_000_000):
        if key.data is None:
            continue
        chunk = os.read(key.fd, CHUNK_BYTES)
        key.data.feed(chunk)
        if not chunk:
            selector.unregister(key.fd)


def _is_reading(selector: selectors.BaseSelector) -> bool:
    return any(key.data is not None for key in selector.get_map().values())
