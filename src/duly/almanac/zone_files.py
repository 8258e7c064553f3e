"""Compiled time-zone files: where they are read from, and which release they are.

A source hands out bytes and names; what they mean is decided in `duly.domain.zones`.
"""

from __future__ import annotations

import re
from importlib import resources
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from importlib.resources.abc import Traversable
    from pathlib import Path

VERSION_LINE = re.compile(r"#\s*version\s+(\S+)")


class ZoneFiles(Protocol):
    """A release of the time-zone database."""

    @property
    def version(self) -> str:
        """The release, such as `2026a`."""
        ...

    @property
    def keys(self) -> frozenset[str]:
        """Every name that can be read, aliases included."""
        ...

    def read(self, key: str) -> bytes:
        """Return the compiled (TZif) file of one of `keys`."""
        ...

    def table(self, name: str) -> str:
        """Return one of the release's text tables, such as `zone1970.tab`, or ''."""
        ...


class ZoneFolder:
    """A tree of compiled zones, as the tzdata wheel, `zic` and operating systems lay it out."""

    def __init__(self, root: Path | Traversable) -> None:
        """Read below `root`; nothing is opened before it is asked for."""
        self._root = root
        self._version: str | None = None
        self._keys: frozenset[str] | None = None

    @property
    def version(self) -> str:
        """The release that the tree says it is, or `unknown`."""
        if self._version is None:
            found = VERSION_LINE.match(self.table("tzdata.zi"))
            self._version = str(found[1]) if found else "unknown"
        return self._version

    @property
    def keys(self) -> frozenset[str]:
        """Every compiled file below the root, by its path."""
        if self._keys is None:
            self._keys = frozenset(self._listed())
        return self._keys

    def _listed(self) -> Iterable[str]:
        return self._compiled(self._root, "")

    def read(self, key: str) -> bytes:
        """Return the compiled file of `key`; callers check `keys` first, so no path can escape."""
        return self._root.joinpath(*key.split("/")).read_bytes()

    def table(self, name: str) -> str:
        """Return a text table of the release, or '' where the tree has none."""
        path = self._root.joinpath(name)
        return path.read_text(encoding="utf-8") if path.is_file() else ""

    def _compiled(self, folder: Path | Traversable, prefix: str) -> Iterator[str]:
        for entry in folder.iterdir():
            if entry.is_dir():
                # Operating systems keep further copies beside the real tree.
                if entry.name not in {"right", "posix", "__pycache__"}:
                    yield from self._compiled(entry, f"{prefix}{entry.name}/")
            elif entry.name[0].isupper() and "." not in entry.name:
                with entry.open("rb") as file:
                    if file.read(4) == b"TZif":
                        yield f"{prefix}{entry.name}"


class TzdataWheel(ZoneFolder):
    """The `tzdata` package: the same rules on every machine, whatever its system ships."""

    def __init__(self) -> None:
        """Point at the installed package."""
        package = resources.files("tzdata")
        super().__init__(package.joinpath("zoneinfo"))
        self._index = package.joinpath("zones")

    def _listed(self) -> Iterable[str]:
        # The package's own list saves opening six hundred files.
        return self._index.read_text(encoding="utf-8").split()
