"""All promises of a store in a program's hands: exported to a file, imported from one (D7)."""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime  # noqa: TC003 - part of what is told
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, BinaryIO

from duly.client.counting import counted
from duly.client.promise_file import header_of, read_bundles, read_whole, write_promises
from duly.domain.instants import from_microseconds, iso_utc
from duly.errors import Conflict, UsageError
from duly.store.moving import ImportPromises, OnConflict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duly.client.caller import Caller
    from duly.client.counting import Tell
    from duly.store.moving import Imported

_PART = ".part"


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """What was exported."""

    source: str
    as_of: datetime
    counts: dict[str, int]
    """How many of each kind."""
    alive: int
    """How many dispatchers and workers were alive: above zero, it is a backup and no move."""
    has_history: bool

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "source": self.source,
            "as_of": iso_utc(self.as_of),
            "counts": self.counts,
            "alive": self.alive,
            "history": self.has_history,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    """What was imported, or would be."""

    source: str
    as_of: datetime
    taken: dict[str, int]
    """How many of each kind were written."""
    skipped: dict[str, int]
    """How many of each kind were left out, because something else is in their place."""
    is_repeated: bool
    """Whether the same export was imported before: then nothing was done."""
    is_dry_run: bool
    alive: int
    """How many dispatchers and workers were alive when it was exported."""

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "source": self.source,
            "as_of": iso_utc(self.as_of),
            "taken": self.taken,
            "skipped": self.skipped,
            "is_repeated": self.is_repeated,
            "is_dry_run": self.is_dry_run,
            "alive": self.alive,
        }


class Promises:
    """All that a store has promised, of every tenant."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def export(
        self,
        file: str | Path | BinaryIO,
        *,
        history: bool = False,
        stopped: bool = False,
        tell: Tell | None = None,
    ) -> Export:
        """Write all promises to a file, as of one moment; with `history` also what is over.

        With `stopped` it is refused while any dispatcher or worker is alive: for a move, after
        which nobody may go on here. A file that exists is not written over; what is written only in
        part does not get its name. `tell` is told how many are written so far.
        """
        self._caller.require_operator("export promises")
        store = self._caller.store
        with store.export_promises(has_history=history) as exported:
            if stopped and exported.alive:
                problem = f"has {exported.alive} dispatchers and workers that are alive"
                remedy = "stop them all first, or leave --stopped out for a backup"
                raise Conflict("export", store.name, problem, remedy)
            header = header_of(exported, store.name, has_history=history)
            with written(file) as stream:
                counts = write_promises(stream, header, counted(exported.bundles, tell))
        return Export(
            source=header.source,
            as_of=from_microseconds(header.as_of),
            counts=counts,
            alive=header.alive,
            has_history=history,
        )

    def import_from(  # noqa: PLR0913 - each choice is an argument
        self,
        file: str | Path | BinaryIO,
        *,
        on_conflict: str = "fail",
        dry_run: bool = False,
        reason: str | None = None,
        tell: Tell | None = None,
    ) -> Import:
        """Take in all promises of a file, or none; what is due then is late, as after an outage.

        If something else is in the place of one (a name, a key, an id) nothing is imported; with
        on_conflict="skip" it is left out, with all that refers to it. The same file again changes
        nothing. With `dry_run` nothing is written. `tell` is told how many are read so far.
        """
        self._caller.require_operator("import promises")
        choice = _read_choice(on_conflict)
        with _opened(file) as (stream, name):
            whole = read_whole(stream, name)
            header = whole.header
            order = ImportPromises(
                id=whole.id,
                source=header.source,
                as_of=header.as_of,
                program_min=header.program_min,
                bundles=counted(read_bundles(stream, name), tell),
                on_conflict=choice,
                actor=self._caller.ordering(reason),
                is_dry_run=dry_run,
            )
            done: Imported = self._caller.store.import_promises(order)
        return Import(
            source=header.source,
            as_of=from_microseconds(header.as_of),
            taken=dict(done.taken),
            skipped=dict(done.skipped),
            is_repeated=done.is_repeated,
            is_dry_run=dry_run,
            alive=header.alive,
        )


def _read_choice(value: str) -> OnConflict:
    try:
        return OnConflict(value)
    except ValueError as error:
        remedy = 'use "fail" (nothing is imported) or "skip" (what is in the way is left out)'
        raise UsageError("on_conflict", value, "is not known", remedy) from error


@contextmanager
def written(file: str | Path | BinaryIO) -> Iterator[BinaryIO]:
    """Lend a file to be written: it gets its name when it is whole and on the disk."""
    if not isinstance(file, str | Path):
        yield file
        file.flush()
        return
    path, part = Path(file), Path(f"{file}{_PART}")
    if path.exists():
        raise UsageError("file", str(path), "exists", "name another file")
    try:
        # Arguments of tasks are in it: it is nobody else's to read.
        number = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(number, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        part.rename(path)
    except OSError as error:
        problem = f"can't be written ({error.strerror or error})"
        raise UsageError("file", str(path), problem, "give a path that can be written") from error
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def _opened(file: str | Path | BinaryIO) -> Iterator[tuple[BinaryIO, str]]:
    """Lend a file to be read twice: whole before a word of it is believed, and then bit by bit."""
    if not isinstance(file, str | Path):
        with TemporaryFile() as copied:
            copyfileobj(file, copied)
            yield copied, "-"
        return
    try:
        stream = Path(file).open("rb")  # noqa: SIM115 - closed below
    except OSError as error:
        problem = f"can't be read ({error.strerror or error})"
        raise UsageError("file", str(file), problem, "give a file of duly export") from error
    with stream:
        yield stream, str(file)
