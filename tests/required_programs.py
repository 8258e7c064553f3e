"""Programs that tests need and Python's packages do not bring: `make programs` obtains them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import NoReturn

import pytest


def skip_unless_ci(reason: str) -> NoReturn:
    """Skip a test for a missing program; fail it where $CI is set, whose set-up is to obtain it."""
    if os.environ.get("CI"):
        pytest.fail(f"{reason}; $CI is set, and its set-up obtains it (make programs)")
    pytest.skip(reason)


def required_program(name: str) -> Path:
    """Return where a program is; skip the test that asks, or fail it, if it is not installed."""
    found = shutil.which(name)
    if found is None:
        skip_unless_ci(f"{name} is not installed")
    return Path(found)
