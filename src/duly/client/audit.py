"""Audit trail: pages, events after a number, verification of seals, export of the trail.

`Events` returns the entries of the audit trail to a client that follows them. A client continues
after the last page and sees each entry once, even if a transaction commits late.

`export_trail` writes entries as JSON lines, each range followed by its seal. A holder of the file
can verify it without the store, and compare the store with it later.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO
from uuid import UUID

from duly.client.export import written
from duly.client.paging import PAGE_DEFAULT, Page, read_cursor, read_page_limit, write_cursor
from duly.client.parameters import read_instant, read_looked_for
from duly.client.runs import run_views
from duly.client.schedule_history import HistoryEntry, entry_view
from duly.domain.audit import (
    FORMAT,
    FORMATS,
    Chain,
    Seal,
    SealedEntry,
    Tampering,
    Trace,
    entry_facts,
    is_covered,
    sealed_entry,
)
from duly.domain.ids import RunId, read_identity
from duly.errors import UsageError
from duly.store.ports.audit import AuditAfter, TrailMarks
from duly.store.ports.queries import PAGE_MAX, AuditFilter

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from duly.client.caller import Caller, Tell
    from duly.client.parameters import Instant
    from duly.domain.audit import AuditEntry
    from duly.store.ports import Store


NUMBER_MAX = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class EventPage:
    """Events in their order, and the number to go on from."""

    items: tuple[HistoryEntry, ...]
    through: int
    """Give it as `number` to see what comes next; it may have grown though there are no items."""

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {"items": [one.to_json() for one in self.items], "through": self.through}


class Events:
    """What happens, to be followed."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def after(
        self, number: int | None = None, *, limit: int = PAGE_MAX, all_tenants: bool = False
    ) -> EventPage:
        """Return events of higher numbers, oldest first; of None none: only where they end now."""
        if number is not None and not (_is_whole(number) and 0 <= number <= NUMBER_MAX):
            remedy = "give the number of the last event that was seen, or 0 for all there are"
            raise UsageError("after", number, "is not the number of an event", remedy)
        if not (_is_whole(limit) and 1 <= limit <= PAGE_MAX):
            raise UsageError("limit", limit, "is out of range", f"give 1 to {PAGE_MAX:,}")
        if all_tenants:
            self._caller.require_all_tenants("follow what happens to others")
        tenant = None if all_tenants else self._caller.tenant
        command = AuditAfter(after=number, tenant=tenant, limit=limit)
        page = self._caller.store.follow_audit(command)
        return EventPage(tuple(entry_view(one) for one in page.entries), page.through)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


SEALS_PAGE = 20
ENTRIES_PAGE = 1000
TRACES_MAX = 1000
LINE_BYTES_MAX = 64 * 1024 * 1024
_NUMBER_MIN = -(1 << 63)
_HASH_BYTES = 32
_EXPORT = "give a file of duly audit export"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """What a look at the whole trail has found."""

    source: str
    seals: int
    entries: int
    """How many entries there are under seals."""
    unsealed: int
    """How many are too young: the sealer has not come to them yet."""
    uncovered: int
    """How many tell an address or a credential under a seal of a program that knew of neither: of
    these, whatever else they say is protected."""
    head: str | None
    """The last seal's number and hash: kept elsewhere, it proves later that nothing was redone."""
    traces: tuple[Trace, ...]
    """What does not agree, the first thousand of it."""
    undecided: tuple[str, ...]
    """What this look could not find out, in sentences."""

    @property
    def is_sound(self) -> bool:
        """Whether everything agrees that could be compared."""
        return not self.traces

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "source": self.source,
            "is_sound": self.is_sound,
            "seals": self.seals,
            "entries": self.entries,
            "unsealed": self.unsealed,
            "uncovered": self.uncovered,
            "head": self.head,
            "traces": [one.to_json() for one in self.traces],
            "undecided": list(self.undecided),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedTrail:
    """What was exported of an audit trail."""

    source: str
    seals: int
    entries: int
    head: str | None

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        counts = {"seals": self.seals, "entries": self.entries}
        return {"source": self.source, **counts, "head": self.head}


class SealedRange:
    """Entries one after the other, as seals of one format or another would name them."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self._named: dict[int, list[SealedEntry]] = {}
        self._uncovered: dict[int, int] = {}

    def add(self, facts: dict[str, Any], formats: Iterable[int]) -> None:
        """Add an entry; which format its seal has may be known, or come later."""
        self.numbers.append(facts["number"])
        for made_as in formats:
            self._named.setdefault(made_as, []).append(sealed_entry(facts, made_as))
            if not is_covered(facts, made_as):
                self._uncovered[made_as] = self._uncovered.get(made_as, 0) + 1

    def named(self, made_as: int) -> list[SealedEntry]:
        """Return the entries as a seal of a format names them; of one that nobody knows, ours."""
        return self._named.get(made_as, self._named.get(FORMAT, []))

    def uncovered(self, made_as: int) -> int:
        """Return how many say what a seal of a format does not speak about."""
        return self._uncovered.get(made_as, 0)


class Verifying:
    """Counts what is verified, and gathers what does not agree."""

    def __init__(self, known: str | None) -> None:
        self._known = None if known is None else read_head(known)
        self._chain = Chain()
        self._seals = self._entries = self._unsealed = self._uncovered = 0
        self._expected = 1
        """The number of the next entry, if none is missing."""
        self._unnamed: list[tuple[int, int]] = []
        """First and last number of each gap between entries that seals name."""
        self._missing: list[tuple[int, int]] = []
        """First and last number of each gap between entries after the last seal."""
        self._traces: list[Trace] = []

    def add_seal(self, seal: Seal, found: SealedRange) -> None:
        """Compare a seal with what was found of its stretch."""
        self._seals += 1
        self._entries += len(found.numbers)
        self._uncovered += found.uncovered(seal.format)
        for trace in self._chain.follow(seal, found.named(seal.format)):
            self._tell(trace)
        self._expected = seal.after + 1  # a seal that is missing before it is told by the chain
        for number, _ in seal.entries:
            self._pass_to(number, self._unnamed)
        self._expected = seal.through + 1
        if self._known is not None and seal.number == self._known[0]:
            if seal.hash != self._known[1]:
                problem = "is not the one that was known: the chain was made anew"
                self._tell(Trace(Tampering.SEAL, seal.number, problem))
            self._known = None

    def add_unsealed(self, found: SealedRange) -> None:
        """Count entries after the last seal; one of a number below that was inserted."""
        through = 0 if self._chain.last is None else self._chain.last.through
        for number in found.numbers:
            if number <= through:
                self._tell(Trace(Tampering.INSERTED, number, "stands after the last seal"))
            else:
                self._unsealed += 1
                self._pass_to(number, self._missing)

    def done(self, source: str, marks: TrailMarks) -> Verified:
        """Return what was found, by what was noted apart from entries and seals before the look."""
        if self._known is not None:
            problem = "is not there, though it was known"
            self._tell(Trace(Tampering.SEAL, self._known[0], problem))
        last = 0 if self._chain.last is None else self._chain.last.number
        if marks.sealed is not None and marks.sealed > last:
            absent = _absent(last + 1, marks.sealed)
            problem = f"{absent}, although seal {marks.sealed:,} is noted as made"
            self._tell(Trace(Tampering.SEAL, last + 1, problem))
        if marks.drawn is not None:
            self._pass_to(marks.drawn + 1, self._missing)
        if marks.is_gapless:
            for first, final in (*self._unnamed, *self._missing):
                problem = f"{_absent(first, final)}, although number {marks.drawn:,} was given"
                self._tell(Trace(Tampering.REMOVED, first, problem))
        return Verified(
            source=source,
            seals=self._seals,
            entries=self._entries,
            unsealed=self._unsealed,
            uncovered=self._uncovered,
            head=head_text(self._chain.last),
            traces=tuple(self._traces),
            undecided=tuple(self._undecided(marks)),
        )

    def _pass_to(self, number: int, gaps: list[tuple[int, int]]) -> None:
        """Go on to an entry, and note the gap before it."""
        if self._expected < number and len(gaps) < TRACES_MAX:
            gaps.append((self._expected, number - 1))
        self._expected = max(self._expected, number + 1)

    def _undecided(self, marks: TrailMarks) -> Iterator[str]:
        if not self._seals and (self._unsealed or marks.drawn or marks.sealed):
            yield "No seal is there: a changed entry cannot be found."
        if self._seals and marks.sealed is None:
            yield "It is not noted how many seals were made: a removed last seal cannot be found."
        if self._missing and not marks.is_gapless:
            count = sum(final - first + 1 for first, final in self._missing)
            numbers = "1 number has" if count == 1 else f"{count:,} numbers have"
            yield (
                f"After the last seal {numbers} no entry. An order that fails or is not committed"
                " yet draws a number, too: whether entries were removed cannot be told."
            )
        if self._unsealed and marks.drawn is None:
            yield "The number that was drawn last is unknown: a removed last entry cannot be found."

    def _tell(self, trace: Trace) -> None:
        if len(self._traces) < TRACES_MAX:
            self._traces.append(trace)


def _absent(first: int, last: int) -> str:
    return "is not there" if first == last else f"and all up to {last:,} are not there"


def head_text(seal: Seal | None) -> str | None:
    """Return a seal in short: its number and its hash."""
    return None if seal is None else f"{seal.number}:{seal.hash.hex()}"


def read_head(text: str) -> tuple[int, bytes]:
    """Read what `head_text` wrote."""
    number, _, hashed = text.partition(":")
    try:
        found = int(number), bytes.fromhex(hashed)
    except ValueError:
        found = 0, b""
    if found[0] < 1 or len(found[1]) != _HASH_BYTES:
        remedy = "give what an earlier duly audit verify told as its head: 12:5f0c…"
        raise UsageError("known", text, "is not the number and the hash of a seal", remedy)
    return found


def verify_store(store: Store, known: str | None, tell: Tell | None = None) -> Verified:
    """Compare all seals of a store with its entries."""
    verifying = Verifying(known)
    marks = store.trail_marks()  # first: what is added during the look is beyond them
    for seal, entries in _told(_stretches(store), tell):
        stretch = SealedRange()
        for one in entries:
            stretch.add(entry_facts(one), () if seal is None else (seal.format,))
        if seal is None:
            verifying.add_unsealed(stretch)
        else:
            verifying.add_seal(seal, stretch)
    return verifying.done(store.name, marks)


def export_trail(
    store: Store, file: str | Path | BinaryIO, tell: Tell | None = None
) -> ExportedTrail:
    """Write the whole trail to a file, with its seals."""
    seals = entries = 0
    last: Seal | None = None
    marks = store.trail_marks()  # first, as for a look at the store
    with written(file) as stream:
        _write(stream, {"duly": "audit", "format": FORMAT, "source": store.name})
        for seal, found in _told(_stretches(store), tell):
            for one in found:
                _write(stream, {"kind": "entry", **entry_facts(one)})
            entries += len(found)
            if seal is not None:
                _write(stream, {"kind": "seal", **_seal_facts(seal)})
                seals, last = seals + 1, seal
        noted = {"sealed": marks.sealed, "drawn": marks.drawn, "is_gapless": marks.is_gapless}
        _write(stream, {"kind": "end", "seals": seals, "entries": entries, **noted})
    return ExportedTrail(source=store.name, seals=seals, entries=entries, head=head_text(last))


def verify_file(file: str | Path, known: str | None) -> Verified:
    """Compare all seals of an exported file with its entries; no store is asked."""
    verifying, name = Verifying(known), str(file)
    stretch = SealedRange()
    source, marks = name, None
    for number, document in enumerate(_documents(name), start=1):
        try:
            facts = {key: value for key, value in document.items() if key != "kind"}
            match document:
                case {"duly": "audit", "source": str(said)} if number == 1:
                    source = said
                case {"kind": "entry", "number": int()} if number > 1:
                    stretch.add(facts, FORMATS)
                case {"kind": "seal"} if number > 1:
                    verifying.add_seal(_read_seal(facts), stretch)
                    stretch = SealedRange()
                case {"kind": "end"} if number > 1:
                    marks = _read_marks(facts)
                case _:
                    raise ValueError  # noqa: TRY301 - told below, as all that is not as we write it
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise UsageError("file", name, f"can't be read in line {number}", _EXPORT) from error
    if marks is None:
        raise UsageError("file", name, "has no end: it was cut short", "export the trail anew")
    verifying.add_unsealed(stretch)
    return verifying.done(f"{name} of {source}", marks)


def _told(
    stretches: Iterator[tuple[Seal | None, list[AuditEntry]]], tell: Tell | None
) -> Iterator[tuple[Seal | None, list[AuditEntry]]]:
    """Hand stretches on, and tell how many entries there were so far."""
    so_far = 0
    for seal, entries in stretches:
        so_far += len(entries)
        if tell is not None:
            tell(so_far)
        yield seal, entries


def _stretches(store: Store) -> Iterator[tuple[Seal | None, list[AuditEntry]]]:
    """Return each seal with the entries of its stretch that are there; at last what has no seal."""
    trail = _Trail(store)
    for seal in _seals(store):
        yield seal, trail.take(seal.through)
    while rest := trail.take_page():
        yield None, rest


def _seals(store: Store) -> Iterator[Seal]:
    after = 0
    while page := store.list_seals(after, SEALS_PAGE):
        yield from page
        after = page[-1].number


class _Trail:
    """Reads entries in their order, a page at a time."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._after = _NUMBER_MIN
        self._page: list[AuditEntry] = []

    def take(self, through: int) -> list[AuditEntry]:
        """Return what follows up to a number."""
        taken: list[AuditEntry] = []
        while self._page or self._read():
            upto = [one for one in self._page if one.number <= through]
            taken += upto
            self._page = self._page[len(upto) :]
            if self._page:
                break
        return taken

    def take_page(self) -> list[AuditEntry]:
        """Return some of what follows."""
        if not self._page:
            self._read()
        taken, self._page = self._page, []
        return taken

    def _read(self) -> bool:
        self._page = self._store.read_trail(self._after, ENTRIES_PAGE)
        if self._page:
            self._after = self._page[-1].number
        return bool(self._page)


def _seal_facts(seal: Seal) -> dict[str, Any]:
    return {
        "number": seal.number,
        "after": seal.after,
        "through": seal.through,
        "format": seal.format,
        "sealed_at": seal.sealed_at,
        "sealed_by": seal.sealed_by,
        "hash": seal.hash.hex(),
        "entries": [[number, digest.hex()] for number, digest in seal.entries],
    }


def _read_marks(facts: dict[str, Any]) -> TrailMarks:
    """Read what an export has noted of its store; one of an earlier program has less."""
    sealed, drawn = facts.get("sealed"), facts.get("drawn")
    if any(type(one) is not int for one in (sealed, drawn) if one is not None):
        raise ValueError
    is_gapless = facts.get("is_gapless") is True
    return TrailMarks(sealed=sealed, drawn=drawn, is_gapless=is_gapless)


def _read_seal(facts: dict[str, Any]) -> Seal:
    """Read a seal; ValueError for one that nobody wrote."""
    hashed = bytes.fromhex(facts.pop("hash"))
    entries = tuple(
        SealedEntry(number, bytes.fromhex(digest)) for number, digest in facts.pop("entries")
    )
    numbers = (*facts.values(), *(one.number for one in entries))
    if any(type(one) is not int for one in numbers):
        raise ValueError
    return Seal(entries=entries, **facts, hash=hashed)


def _write(stream: BinaryIO, document: dict[str, Any]) -> None:
    stream.write(json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")


def _documents(name: str) -> Iterator[Any]:
    try:
        with Path(name).open("rb") as stream:
            while line := stream.readline(LINE_BYTES_MAX):
                yield json.loads(line)
    except OSError as error:
        problem = f"can't be read ({error.strerror or error})"
        raise UsageError("file", name, problem, _EXPORT) from error
    except (ValueError, RecursionError) as error:
        raise UsageError("file", name, "is not made of JSON lines", _EXPORT) from error


_NUMBER_BYTES = 8
_ID = re.compile(r"(?<![\w-])[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![\w-])")


class Audit:
    """The audit trail of an application."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def page(  # noqa: PLR0913 - each filter is an argument
        self,
        *,
        subject: str | None = None,
        subject_id: UUID | str | None = None,
        action: str | None = None,
        actor: str | None = None,
        since: Instant | None = None,
        until: Instant | None = None,
        all_tenants: bool = False,
        limit: int = PAGE_DEFAULT,
        cursor: str | None = None,
    ) -> Page[HistoryEntry]:
        """Return a page of entries, newest first: recorded at `since` or later, before `until`.

        By the name or id of what was ordered about, by the action, and by who ordered it. With
        `all_tenants` also what is of no tenant: members, leases, the store itself.
        """
        if all_tenants:
            self._caller.require_all_tenants("look at what others did")
        command = AuditFilter(
            tenant=None if all_tenants else self._caller.tenant,
            subject=read_looked_for("subject", subject),
            subject_id=None if subject_id is None else read_identity(subject_id, "subject_id"),
            action=read_looked_for("action", action),
            actor=read_looked_for("actor", actor),
            since=None if since is None else read_instant("since", since),
            until=None if until is None else read_instant("until", until),
            limit=read_page_limit(limit),
        )
        position = read_cursor(command, cursor, _NUMBER_BYTES)
        if position is not None:
            command = replace(command, before_number=int.from_bytes(position, signed=True))
        found = self._caller.store.search_audit(command)
        goes_on = None if found.next is None else found.next.to_bytes(_NUMBER_BYTES, signed=True)
        items = self._labelled([entry_view(one) for one in found.entries], command.tenant)
        return Page(items, write_cursor(command, goes_on))

    def _labelled(self, entries: Sequence[HistoryEntry], tenant: str | None) -> list[HistoryEntry]:
        """Call runs by their labels, all in one look: a subject has the bare id of most."""
        named = {found for one in entries for found in _ID.findall(one.subject)}
        ids = [RunId(UUID(one).bytes) for one in sorted(named)]
        runs = self._caller.store.get_runs(ids).values() if ids else ()
        ours = [one for one in runs if tenant is None or one.tenant == tenant]
        labels = {str(one.id): one.label for one in run_views(self._caller, ours)}

        def labelled(entry: HistoryEntry) -> HistoryEntry:
            text = _ID.sub(lambda found: labels.get(found[0], found[0]), entry.subject)
            return entry if text == entry.subject else replace(entry, label=text)

        return [labelled(one) for one in entries]

    def verify(self, *, known: str | None = None, tell: Tell | None = None) -> Verified:
        """Compare every seal with the entries that it names: what was tampered with shows.

        With `known`, the head that an earlier look told, also that the chain was not made anew.
        `tell` is told how many entries were looked at so far.
        """
        self._caller.require_operator("verify what others did")
        return verify_store(self._caller.store, known, tell)

    def export(self, file: str | Path | BinaryIO, *, tell: Tell | None = None) -> ExportedTrail:
        """Write the whole trail with its seals to a file, which can be verified without a store."""
        self._caller.require_operator("export what others did")
        return export_trail(self._caller.store, file, tell)
