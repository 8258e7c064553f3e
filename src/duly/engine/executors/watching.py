"""Watching: shows what a command writes to the person who sits before it, beside recording it."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from duly.engine.executors.output import STDOUT

if TYPE_CHECKING:
    from typing import BinaryIO

    from duly.engine.executors.output import Reader


@dataclass(slots=True)
class Watching:
    """Somebody before a terminal, or a pipe that takes their place; and how the command ended."""

    status: int | None = None
    """Its exit status, negative for a signal; None while it has none."""

    def shown(self, reader: Reader, stream: str) -> Reader:
        """Return a reader that passes on what it is fed to one of our own streams."""
        return _Shown(reader, sys.stdout.buffer if stream == STDOUT else sys.stderr.buffer)


@dataclass(slots=True)
class _Shown:
    reader: Reader
    ours: BinaryIO | None

    def feed(self, chunk: bytes) -> None:
        """Show what was read as it is, then record it."""
        if self.ours is not None and chunk:
            try:
                self.ours.write(chunk)
                self.ours.flush()
            except OSError:  # whoever read along has seen enough: it is recorded all the same
                self.ours = None
        self.reader.feed(chunk)
