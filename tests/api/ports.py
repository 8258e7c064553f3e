"""Where servers of tests listen, and how long anybody waits for them."""

from __future__ import annotations

import itertools
import os
import socket

EVERYWHERE = "0.0.0.0"  # noqa: S104 - what is refused
SOON = 120
"""Seconds in which anything that happens at all has happened."""


PORTS = range(10_000, 20_000)
"""Below those that the kernel hands out: nobody's connection takes one before its server does."""
_numbers = itertools.count(os.getpid() * 6_181)
"""Neighbours by number begin far from one another, however many of them run tests."""


def free_port() -> int:
    """Return a port on loopback that nobody listens on, and that nobody here was given before."""
    for number in itertools.islice(_numbers, len(PORTS)):
        port = PORTS[number % len(PORTS)]
        with socket.socket() as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                trial.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
    raise AssertionError("no port is free")
