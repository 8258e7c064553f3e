"""What SQLite's errors mean to whoever called: who must act, and how."""

from __future__ import annotations

from shutil import disk_usage
from typing import TYPE_CHECKING

import apsw

from duly.errors import SchemaMismatch, StoreError, StoreUnavailable

if TYPE_CHECKING:
    from pathlib import Path

SQLITE_MIN = (3, 51, 3)
"""Older releases can damage a file in WAL mode that several connections write to."""

_FULL = ("can't be written to, for the disk is full", "free some space and try again")
_ROOM_MIN = 1 << 20
"""With less room than that, an error of the disk is taken for want of room."""

_MEANINGS: tuple[tuple[type[apsw.Error], str, str], ...] = (
    (apsw.BusyError, "is locked by another program", "try again, or stop what holds it open"),
    (apsw.LockedError, "is locked by another program", "try again, or stop what holds it open"),
    (apsw.ReadOnlyError, "can't be written to", "make the file and its folder writable"),
    (apsw.FullError, *_FULL),
    (apsw.NotADBError, "is not an SQLite database", "name another file, or move this one away"),
    (apsw.CorruptError, "is damaged", "stop every program that uses it and restore a backup"),
    (apsw.InterruptError, "stopped a statement that took too long", "ask for less at once"),
)


def failure(error: apsw.Error, name: str, path: Path) -> StoreError:
    """Return what is raised instead of an error of SQLite's."""
    for kind, problem, remedy in _MEANINGS:
        if isinstance(error, kind):
            return StoreUnavailable(name, problem, remedy)
    if isinstance(error, apsw.IOError) and _room(path) < _ROOM_MIN:
        return StoreUnavailable(name, *_FULL)  # the index of the log has no room to grow
    if isinstance(error, apsw.CantOpenError):
        return StoreUnavailable(name, *_why_closed(path))
    if isinstance(error, apsw.SQLError) and "no such" in str(error):
        problem = f"has another schema than this program knows ({error})"
        return SchemaMismatch(name, problem, "run `duly db migrate`, or bring the newer program")
    if isinstance(error, apsw.ConstraintError):
        problem = f"refused what would break a promise ({error})"
        return StoreError(name, problem, "this is a defect of Duly: nothing was changed, report it")
    return StoreUnavailable(
        name, f"can't be used ({error})", "look at the file and its disk, then try again"
    )


def refuse_old_sqlite(version: str, name: str) -> None:
    """Refuse a library that is known to damage what it writes."""
    if tuple(int(part) for part in version.split(".")[:3]) < SQLITE_MIN:
        wanted = ".".join(str(part) for part in SQLITE_MIN)
        problem = f"can't be opened safely by SQLite {version}"
        raise StoreUnavailable(name, problem, f"install apsw {wanted} or newer")


def _room(path: Path) -> int:
    """Return how many bytes the disk of a file has left; as many as needed, if that is unknown."""
    try:
        return disk_usage(path.parent).free
    except OSError:
        return _ROOM_MIN


def _why_closed(path: Path) -> tuple[str, str]:
    if path.is_dir():
        return "is a folder", "name a file in it"
    if not path.parent.is_dir():
        return "lies in a folder that does not exist", f"make the folder {path.parent} first"
    return "can't be opened", "make the file and its folder readable and writable"
