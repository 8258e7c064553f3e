"""Exports all promises of a store to a JSON-lines file, and imports them.

The file writes ids as UUIDs and instants as microseconds since 1970 in UTC. Empty fields are left
out.
"""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime  # noqa: TC003 - part of what is told
from hashlib import sha256
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryFile, mkstemp
from typing import TYPE_CHECKING, Any, BinaryIO, cast
from uuid import UUID

from duly.client.caller import counted
from duly.client.json_values import unique_pairs
from duly.domain.ids import identity_text
from duly.errors import Conflict, UsageError
from duly.store.ports.transfer import (
    KINDS_BY_NAME,
    PARTS,
    ColumnKind,
    ImportPromises,
    OnConflict,
    TransferUnit,
)
from duly.timetable.instants import from_microseconds, iso_utc

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duly.client.caller import Caller, Tell
    from duly.store.ports.transfer import Column, Exported, Imported, PartRow, Value


FORMAT = 1
LINE_BYTES_MAX = 256 * 1024 * 1024
"""More than the largest of all bundles can hold: a run with all of its lines."""
_WHOLE = "export the store anew: a part of an export is of no use"


@dataclass(frozen=True, slots=True)
class Header:
    """What is known of an export before its first bundle."""

    source: str
    as_of: int
    program_min: int
    has_history: bool
    alive: int

    def to_json(self) -> dict[str, Any]:
        """Return the first line of a file."""
        return {
            "duly": "promises",
            "format": FORMAT,
            "source": self.source,
            "as_of": self.as_of,
            "program_min": self.program_min,
            "history": self.has_history,
            "alive": self.alive,
        }


@dataclass(frozen=True, slots=True)
class ExportFile:
    """A file that was read to its end: it is as it was written."""

    header: Header
    id: bytes
    counts: dict[str, int]


def header_of(exported: Exported, source: str, *, has_history: bool) -> Header:
    """Return what the first line says of an export."""
    return Header(source, exported.as_of, exported.program_min, has_history, exported.alive)


def write_promises(
    stream: BinaryIO, header: Header, bundles: Iterator[TransferUnit]
) -> dict[str, int]:
    """Write a file; return how many bundles of each kind there are."""
    checksum, counts = sha256(), dict[str, int]()

    def write(document: dict[str, Any]) -> None:
        line = json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
        checksum.update(line)
        stream.write(line)

    write(header.to_json())
    for bundle in bundles:
        counts[bundle.kind.name] = counts.get(bundle.kind.name, 0) + 1
        write(_written(bundle))
    write({"kind": "end", "counts": counts, "sha256": checksum.hexdigest()})
    return counts


def read_whole(stream: BinaryIO, name: str) -> ExportFile:
    """Read a file to its end, and refuse it unless it is whole and as it was written."""
    stream.seek(0)
    checksum = sha256()
    first = last = b""
    for line in _lines(stream, name):
        checksum.update(last)
        first, last = first or line, line
    header = _header(_document(first, name, 1), name)
    end = _document(last, name, None) if last.endswith(b"}\n") else {}
    if end.get("kind") != "end":
        raise UsageError("file", name, "has no end: it was cut short", _WHOLE)
    if end.get("sha256") != checksum.hexdigest():
        raise UsageError("file", name, "is not as it was written: its checksum differs", _WHOLE)
    counts = end.get("counts")
    if not isinstance(counts, dict):
        raise UsageError("file", name, "does not say what it holds", _WHOLE)
    return ExportFile(header, checksum.digest()[:16], counts)


def read_bundles(stream: BinaryIO, name: str) -> Iterator[TransferUnit]:
    """Read the bundles of a file that is whole, one after the other."""
    stream.seek(0)
    for number, line in enumerate(_lines(stream, name), start=1):
        document = _document(line, name, number)
        if number > 1 and document.get("kind") != "end":
            yield _read(document, name, number)


def _lines(stream: BinaryIO, name: str) -> Iterator[bytes]:
    while line := stream.readline(LINE_BYTES_MAX):
        if len(line) == LINE_BYTES_MAX:
            raise UsageError("file", name, "has a line that is longer than any promise", _WHOLE)
        yield line


def _document(line: bytes, name: str, number: int | None) -> dict[str, Any]:
    where = "its last line" if number is None else f"line {number}"
    try:
        document = json.loads(line, object_pairs_hook=unique_pairs)
    except (ValueError, RecursionError) as error:
        problem = "is empty" if not line else f"is no export of promises: {where} is not JSON"
        raise UsageError("file", name, problem, _WHOLE) from error
    if not isinstance(document, dict):
        problem = f"is no export of promises: {where} is not an object"
        raise UsageError("file", name, problem, _WHOLE)
    return document


def _header(document: dict[str, Any], name: str) -> Header:
    if document.get("duly") != "promises":
        raise UsageError("file", name, "is no export of promises", "give what duly export wrote")
    if document.get("format") != FORMAT:
        problem = f"has format {document.get('format')}, and this program knows {FORMAT}"
        raise UsageError("file", name, problem, "use the release of Duly that wrote it, or newer")
    names = {"source": str, "as_of": int, "program_min": int, "history": bool, "alive": int}
    found = [document.get(one) for one in names]
    if not all(isinstance(*pair) for pair in zip(found, names.values(), strict=True)):
        raise UsageError("file", name, "has a header that says too little", _WHOLE)
    return Header(*cast("tuple[str, int, int, bool, int]", tuple(found)))


def _written(bundle: TransferUnit) -> dict[str, Any]:
    return {
        "kind": bundle.kind.name,
        "rows": {
            name: [
                {
                    column.name: _text(row[column.name])
                    for column in PARTS[name].columns
                    if row[column.name] is not None
                }
                for row in bundle.rows[name]
            ]
            for name in bundle.kind.parts
            if name in bundle.rows
        },
    }


def _text(value: Value) -> str | int | bool | None:
    return identity_text(value) if isinstance(value, bytes) else value


def _read(document: dict[str, Any], name: str, number: int) -> TransferUnit:
    kind = KINDS_BY_NAME.get(str(document.get("kind")))
    rows = document.get("rows")
    if kind is None or not isinstance(rows, dict) or len(rows.get(kind.head, ())) != 1:
        raise _strange(name, number, "is nothing that can be promised")
    found: dict[str, list[PartRow]] = {}
    for part, listed in rows.items():
        if part not in kind.parts or not isinstance(listed, list):
            raise _strange(name, number, f"has rows of {part!r}")
        found[part] = [_row(part, row, name, number) for row in listed]
    return TransferUnit(kind, found)


def _row(part: str, row: object, name: str, number: int) -> PartRow:
    columns = PARTS[part].columns
    if not isinstance(row, dict) or not row.keys() <= {column.name for column in columns}:
        raise _strange(name, number, f"has a row of {part} that is none")
    found: PartRow = {}
    for column in columns:
        try:
            found[column.name] = _value(column, row.get(column.name))
        except ValueError as error:
            problem = f"has {row.get(column.name)!r} as {part}.{column.name}"
            raise _strange(name, number, problem) from error
    return found


def _value(column: Column, value: object) -> Value:
    if value is None:
        if not column.is_optional:
            raise ValueError
        return None
    match column.kind:
        case ColumnKind.ID if isinstance(value, str):
            return UUID(value).bytes
        case ColumnKind.NUMBER if type(value) is int and abs(value) < 1 << 63:
            return value
        case ColumnKind.FLAG if isinstance(value, bool):
            return value
        case ColumnKind.TEXT if isinstance(value, str):
            return value
        case _:
            raise ValueError


def _strange(name: str, number: int, problem: str) -> UsageError:
    return UsageError("file", name, f"line {number} {problem}", _WHOLE)


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


class Exporter:
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
        self._caller.require_all_tenants("export promises")
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
        self._caller.require_all_tenants("import promises")
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
    path = Path(file)
    if path.exists():
        raise UsageError("file", str(path), "exists", "name another file")
    part: Path | None = None
    try:
        # Arguments of tasks are in it. mkstemp makes a new file that only its owner may read.
        number, name = mkstemp(_PART, f"{path.name}.", path.parent)
        part = Path(name)
        with os.fdopen(number, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        part.rename(path)
    except OSError as error:
        problem = f"can't be written ({error.strerror or error})"
        raise UsageError("file", str(path), problem, "give a path that can be written") from error
    finally:
        if part is not None:
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
