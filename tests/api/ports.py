"""Where servers of tests listen, and how long anybody waits for them."""

from __future__ import annotations

import socket

EVERYWHERE = "0.0.0.0"  # noqa: S104 - what is refused
SOON = 120
"""Seconds in which anything that happens at all has happened."""


def free_port() -> int:
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        port: int = trial.getsockname()[1]
        return port
