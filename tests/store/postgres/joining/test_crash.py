"""A caller that is killed in the middle: his rows and the promise, or neither."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("dying_caller.py")


@pytest.mark.parametrize(("when", "kept"), [("before", ([], [])), ("after", ([7], [7]))])
def test_a_caller_who_is_killed_keeps_both_or_neither(shop, when, kept):
    """INV-18."""
    command = [sys.executable, str(PROGRAM), shop.url, when]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as caller:
        assert caller.stdout is not None
        assert "ready\n" == caller.stdout.readline()
        caller.kill()

    assert kept == shop.kept
