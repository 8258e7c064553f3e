"""Runs the real command in a process of its own, as a person or a script would."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Answer:
    """What a command printed, and how it ended."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def duly(*arguments: str, **environment: str) -> Answer:
    ended = subprocess.run(
        [sys.executable, "-m", "duly", *arguments],
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=50,
        check=False,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
    )
    return Answer(ended.returncode, ended.stdout, ended.stderr)
