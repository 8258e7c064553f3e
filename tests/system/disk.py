"""A small disk of its own for a test: it can be filled up, and made read-only."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

SIZE_MB = 64


class Disk:
    """A file system in memory, mounted on a folder. Needs the right to mount."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ballast = folder / "ballast"

    def mount(self) -> bool:
        """Mount it; False where that is not allowed."""
        self.folder.mkdir()
        options = ["-t", "tmpfs", "-o", f"size={SIZE_MB}m", "duly-test"]
        return shutil.which("mount") is not None and _run("mount", *options, str(self.folder))

    def unmount(self) -> None:
        _run("umount", "--lazy", str(self.folder))

    def fill(self) -> None:
        """Leave no room at all."""
        with self._ballast.open("wb", buffering=0) as file:
            try:
                while file.write(bytes(4096)):
                    pass
            except OSError:
                os.fsync(file.fileno())

    def make_room(self) -> None:
        self._ballast.unlink()

    def make_readonly(self) -> None:
        assert _run("mount", "-o", "remount,ro", str(self.folder)), "nobody has it open"

    def make_writable(self) -> None:
        assert _run("mount", "-o", "remount,rw", str(self.folder)), "it was before"


def _run(*command: str) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0
