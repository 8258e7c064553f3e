"""The janitor: a process that removes the demo's folder when the demo is gone, whatever ended it.

It knows nothing of Duly and does nothing but wait: for the end of a pipe that the demo holds. So
nothing is left behind even by a demo that was killed on the spot.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

END_WAIT_SECONDS = 10
_PROGRAM = """
import shutil, sys
sys.stdin.read()
shutil.rmtree(sys.argv[1], ignore_errors=True)
"""


@contextmanager
def passing_folder() -> Iterator[Path]:
    """Make a folder that is gone afterwards, and also if this process is killed."""
    folder = Path(tempfile.mkdtemp(prefix="duly-demo-"))
    try:
        janitor = subprocess.Popen(  # noqa: S603 - ourselves
            (sys.executable, "-I", "-S", "-c", _PROGRAM, str(folder)),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # what ends the demo is not to end the janitor
        )
    except OSError:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    try:
        yield folder
    finally:
        assert janitor.stdin is not None, "it was asked for"
        janitor.stdin.close()
        with suppress(subprocess.TimeoutExpired):  # a slow disk: it goes on by itself
            janitor.wait(END_WAIT_SECONDS)
