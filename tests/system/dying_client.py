"""A program that makes two promises, says so once each is acknowledged, and is killed at once."""

from __future__ import annotations

import os
import signal
import sys

import duly
from tests.system.client_program import new_app


def main(url: str, number: str) -> None:
    app = new_app(url)
    call = app.call("ping")
    schedule = app.schedules.create(f"schedule-{number}", call, duly.every("1h"))
    os.write(1, f"{schedule.name}\n".encode())
    run = app.enqueue(call, delay="1h", key=f"reminder-{number}")
    os.write(1, f"{run.key}\n".encode())
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
