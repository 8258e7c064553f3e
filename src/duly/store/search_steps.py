"""How a page is found, step by step; the databases differ in how they say it.

First, how far down a page may look: each walk is followed for so many rows, and where the first of
them is cut off, all are. Then, which of the runs above that fit. Then their records.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from duly.domain.ids import ID_BYTES, RunId
from duly.store.filters import Path, audit_leads, audit_where
from duly.store.ports.queries import (
    BOUNDS,
    CLOCK_BACK_MAX_US,
    PAGE_MAX,
    AttemptPage,
    AuditPage,
    RunPage,
    attempt_matches,
)
from duly.store.records import audit_entry
from duly.store.walks import IdRange, attempt_walks, plain_walks, run_walks, states_left_by

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.domain.runs import AttemptRecord, RunRecord
    from duly.store.filters import Where
    from duly.store.ports.queries import AttemptFilter, AuditFilter, Bounds, RunFilter
    from duly.store.records import Row
    from duly.store.walks import Marks, Walk

_STATE = """coalesce((SELECT o.state FROM {0}outcomes o WHERE o.run_id = r.id),
    (SELECT 'dead' FROM {0}dead x WHERE x.run_id = r.id),
    (SELECT 'retrying' FROM {0}waiting w WHERE w.run_id = r.id),
    (SELECT 'running' FROM {0}claims c WHERE c.run_id = r.id),
    (SELECT 'blocked' FROM {0}blocked b WHERE b.run_id = r.id),
    (SELECT 'ambiguous' FROM {0}ambiguous u WHERE u.run_id = r.id), 'queued')"""
_REASON = """coalesce((SELECT o.reason FROM {0}outcomes o WHERE o.run_id = r.id),
    (SELECT x.reason FROM {0}dead x WHERE x.run_id = r.id),
    (SELECT w.reason FROM {0}waiting w WHERE w.run_id = r.id),
    (SELECT u.reason FROM {0}ambiguous u WHERE u.run_id = r.id),
    (SELECT CASE WHEN substr(b.gate, 1, 4) = 'cap:' THEN 'cap ' || substr(b.gate, 5)
        ELSE 'overlap' END FROM {0}blocked b WHERE b.run_id = r.id))"""
_ERROR = """CASE WHEN (SELECT o.worker FROM {0}outcomes o WHERE o.run_id = r.id) IS NULL
    THEN (SELECT a.error FROM {0}attempts a WHERE a.run_id = r.id ORDER BY a.fence DESC LIMIT 1)
    ELSE (SELECT o.error FROM {0}outcomes o WHERE o.run_id = r.id) END"""
_WORKER = """coalesce((SELECT o.worker FROM {0}outcomes o WHERE o.run_id = r.id),
    (SELECT c.worker FROM {0}claims c WHERE c.run_id = r.id))"""
"""As `run_columns` says it, looked up only as far as needed, one run at a time: a join might be
carried out by reading a whole table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """How a database says what both do."""

    prefix: str
    """Of its tables."""
    bare: str
    """An id `{}` as bytes."""
    audit_columns: str
    runs: str
    """Joins the runs `r` to ids `i`, by one look into their index for each."""
    marks: Marks


class Search(ABC):
    """A search in one snapshot of a database."""

    dialect: Dialect

    def __init__(self, bounds: Bounds = BOUNDS) -> None:
        self._bounds = bounds

    @abstractmethod
    def _where(self) -> Where:
        """Return conditions to begin with."""

    @abstractmethod
    def _rows(self, sql: str, where: Where) -> list[Row]:
        """Carry a statement out, with the values that its conditions have taken up."""

    @abstractmethod
    def _read_runs(self, ids: Sequence[RunId]) -> list[RunRecord]:
        """Return runs, newest first."""

    @abstractmethod
    def _read_attempts(self, ids: Sequence[RunId], command: AttemptFilter) -> list[AttemptRecord]:
        """Return attempts of runs, in any order: all that fit, and perhaps others.

        If more fit than are wanted, it may leave out the oldest of them.
        """

    def list_runs(self, command: RunFilter) -> list[RunRecord]:
        """Return runs, newest first, however far they are apart."""
        found: list[RunRecord] = []
        while True:
            size = min(command.limit - len(found), PAGE_MAX)
            page = self.search_runs(replace(command, limit=size))
            found += page.records
            if page.next is None or len(found) >= command.limit:
                return found
            command = replace(command, before_id=page.next)

    def search_runs(self, command: RunFilter) -> RunPage:
        """Return a page of runs, newest first by id."""
        walks = _before(command.before_id, run_walks(command, self.dialect.marks))
        if any(self._is_long(walk) for walk in walks if walk.is_gathered):
            walks = _before(command.before_id, plain_walks(command))
        # Of one walk alone it is only asked where it is cut off when that matters.
        most = self._most(command)
        floor = self._floor(walks, most) if len(walks) > 1 else None
        where, source = self._source(walks, floor, most)
        self._of_runs(where, command)
        ids = self._ids(where, source, command.limit + 1)
        if len(ids) > command.limit:
            ids = ids[: command.limit]
            return RunPage(self._read_runs(ids), ids[-1])
        if len(walks) == 1:
            floor = self._floor(walks, most)
        return RunPage(self._read_runs(ids) if ids else [], floor)

    def search_attempts(self, command: AttemptFilter) -> AttemptPage:
        """Return a page of attempts by run and fence, newest first."""
        before = None if command.before is None else _after(command.before[0])
        walks = _before(before, attempt_walks(command, self.dialect.marks))
        if not walks:
            return AttemptPage([], None)
        most = self._most(command)
        floor = self._floor(walks, most)
        where, source = self._source(walks, floor, most)
        self._of_attempts(where, command)
        ids = self._ids(where, source, command.limit + 1)
        read = self._read_attempts(ids, command) if ids else []
        found = [one for one in read if attempt_matches(one, command)]
        found.sort(key=lambda one: (one.run_id, one.fence), reverse=True)
        page = found[: command.limit]
        if len(found) > len(page):
            return AttemptPage(page, (page[-1].run_id, page[-1].fence))
        if len(ids) > command.limit:
            return AttemptPage(page, (ids[-1], 0))
        return AttemptPage(page, None if floor is None else (floor, 0))

    def search_audit(self, command: AuditFilter) -> AuditPage:
        """Return a page of audit entries, newest first by number."""
        end = self._end_by_time(command)
        command = replace(command, before_number=end)
        where = self._where()
        text = self._entries(where, command)
        audit_where(where, command)
        limit = where.place(command.limit + 1)
        columns = self.dialect.audit_columns
        found = f"SELECT {columns} FROM ({text}) e {where.clause()}"  # noqa: S608 - parts of ours
        sql = f"{found} ORDER BY number DESC LIMIT {limit}"
        entries = [audit_entry(row) for row in self._rows(sql, where)]
        if len(entries) > command.limit:
            page = entries[: command.limit]
            return AuditPage(page, page[-1].number)
        return AuditPage(entries, self._last_entry(command))

    def _entries(self, where: Where, command: AuditFilter) -> str:
        """Return a walk over audit entries, by the index that narrows it most."""
        known, leads = audit_leads(command)
        first = self._first_by_time(command)
        order = where.follow(Path(leads, "number", first, command.before_number))
        where.take_up(known)
        table, most = f"{self.dialect.prefix}audit", self._bounds.looked_at
        return f"SELECT * FROM {table} {where.clause()} ORDER BY {order} LIMIT {most}"  # noqa: S608

    def _last_entry(self, command: AuditFilter) -> int | None:
        """Return the number of the last entry that a page has looked at, if there are more."""
        where = self._where()
        text = self._entries(where, command)
        skip = self._bounds.looked_at - 1
        sql = f"SELECT number FROM ({text}) e ORDER BY number DESC LIMIT 1 OFFSET {skip}"  # noqa: S608
        return next((number for (number,) in self._rows(sql, where)), None)

    def _first_by_time(self, command: AuditFilter) -> int | None:
        """Return a number at or below that of all entries since an instant."""
        if command.since is None:
            return None
        return self._number_at("at >= ?", command.since - CLOCK_BACK_MAX_US, "at, number")

    def _end_by_time(self, command: AuditFilter) -> int | None:
        """Return a number above those of all entries that are looked for."""
        if command.until is None:
            return command.before_number
        last = self._number_at("at < ?", command.until + CLOCK_BACK_MAX_US, "at DESC, number DESC")
        # Without any such entry, none is looked for.
        end = 0 if last is None else last + 1
        return end if command.before_number is None else min(end, command.before_number)

    def _number_at(self, condition: str, instant: int, order: str) -> int | None:
        where = self._where()
        where.add(condition, instant)
        table = f"{self.dialect.prefix}audit"
        sql = f"SELECT number FROM {table} {where.clause()} ORDER BY {order} LIMIT 1"  # noqa: S608
        return next((number for (number,) in self._rows(sql, where)), None)

    def _is_long(self, walk: Walk) -> bool:
        """Say whether a walk that is in no order has more than may be put into one."""
        where = self._where()
        sql = f"SELECT count(*) FROM ({self._gathered(where, walk, None)}) g"  # noqa: S608
        ((count,),) = self._rows(sql, where)
        return bool(count > self._bounds.gathered)

    def _most(self, command: RunFilter | AttemptFilter) -> int:
        """Return how many rows of each walk a page may look at."""
        return self._bounds.looked_at if command.error is None else self._bounds.texts

    def _floor(self, walks: Sequence[Walk], most: int) -> RunId | None:
        """Return the id down to which a page looks; None: down to the end."""
        where = self._where()
        cuts = [f"({self._steps(where, walk, None)} LIMIT 1 OFFSET {most - 1})" for walk in walks]
        listed = ", ".join(self.dialect.bare.format(cut) for cut in cuts)
        (found,) = self._rows(f"SELECT {listed}", where)
        return max((RunId(one) for one in found if one is not None), default=None)

    def _source(self, walks: Sequence[Walk], floor: RunId | None, most: int) -> tuple[Where, str]:
        """Return ids in order, as something to select from, and where their values are."""
        where = self._where()
        parts = [
            f"SELECT w.id FROM ({self._steps(where, walk, floor)} LIMIT {most}) w"  # noqa: S608
            for walk in walks
        ]
        ids = " UNION ".join(parts)
        return where, f"(SELECT j.id FROM ({ids}) j ORDER BY j.id DESC) i {self.dialect.runs}"  # noqa: S608

    def _steps(self, where: Where, walk: Walk, floor: RunId | None) -> str:
        """Return a walk as a statement, in order."""
        if walk.is_gathered:
            gathered = self._gathered(where, walk, floor)
            return f"SELECT g.id FROM ({gathered}) g ORDER BY g.id DESC"  # noqa: S608
        path = self._path(walk, floor)
        order = where.follow(path)
        grouped = ""
        if walk.has_many:
            grouped = f"GROUP BY {', '.join((*(lead for lead, _ in path.leads), path.column))}"
        return f"{self._rows_of(where, walk)} {grouped} ORDER BY {order}"

    def _gathered(self, where: Where, walk: Walk, floor: RunId | None) -> str:
        """Return a walk that is in no order as a statement, no longer than it may be."""
        where.follow(self._path(walk, floor))
        return f"{self._rows_of(where, walk)} LIMIT {self._bounds.gathered + 1}"

    def _rows_of(self, where: Where, walk: Walk) -> str:
        for condition, values in walk.terms:
            where.add(condition, *values)
        table = f"{self.dialect.prefix}{walk.table}"
        return f"SELECT p.{walk.column} AS id FROM {table} p {where.clause()}"  # noqa: S608

    @staticmethod
    def _path(walk: Walk, floor: RunId | None) -> Path:
        first = max((one for one in (walk.span.first, floor) if one is not None), default=None)
        return Path(walk.leads, f"p.{walk.column}", first, walk.span.end)

    def _ids(self, where: Where, source: str, limit: int) -> list[RunId]:
        most = where.place(limit)
        bare = self.dialect.bare.format("i.id")
        sql = f"SELECT {bare} FROM {source} {where.clause()} ORDER BY i.id DESC LIMIT {most}"  # noqa: S608
        return [RunId(run_id) for (run_id,) in self._rows(sql, where)]

    def _of_runs(self, where: Where, command: RunFilter) -> None:
        """Take up the conditions of a filter on runs."""
        prefix = self.dialect.prefix
        where.equal("r.tenant", command.tenant)
        where.equal("r.schedule_id", command.schedule_id)
        where.equal("r.key", command.key)
        where.equal("r.task", command.task)
        where.equal("r.queue", command.queue)
        where.one_of("r.origin", command.origins)
        where.equal("r.lane", command.lane)
        where.equal("coalesce(r.root, r.id)", command.root)
        if command.since is not None:
            where.add("r.scheduled_for >= ?", command.since)
        if command.until is not None:
            where.add("r.scheduled_for < ?", command.until)
        where.one_of(_STATE.format(prefix), command.states)
        where.equal(_REASON.format(prefix), command.reason)
        where.equal(_WORKER.format(prefix), command.worker)
        if command.error is not None:
            where.holds(_ERROR.format(prefix), command.error)

    def _of_attempts(self, where: Where, command: AttemptFilter) -> None:
        """Ask for runs of a tenant that have an attempt which fits."""
        # Asked first, because it costs least.
        where.equal("r.tenant", command.tenant)
        is_theirs = where.clause().removeprefix("WHERE ")
        closed = None if command.states is None else states_left_by(command.states)
        tests = [
            self._has(where, "claims", command, None),
            self._has(where, "attempts", command, command.states),
            self._has(where, "outcomes", command, closed),
        ]
        where.take_up(is_theirs)
        where.take_up(f"coalesce({', '.join(tests)}) = 1")

    def _has(
        self, where: Where, table: str, command: AttemptFilter, states: frozenset[str] | None
    ) -> str:
        """Ask whether a run has such an attempt; of a live one its state is told later."""
        where.take_up("t.run_id = r.id")
        where.equal("t.worker", command.worker)
        if table == "outcomes":
            where.take_up("t.worker IS NOT NULL")
        if table != "claims":
            where.one_of("t.state", states)
            where.equal("t.reason", command.reason)
            if command.error is not None:
                where.holds("t.error", command.error)
        return f"(SELECT 1 FROM {self.dialect.prefix}{table} t {where.clause()} LIMIT 1)"  # noqa: S608


def _before(end: bytes | None, walks: tuple[Walk, ...]) -> tuple[Walk, ...]:
    """Let walks begin below an id."""
    if end is None:
        return walks
    ends = [end if walk.span.end is None else min(end, walk.span.end) for walk in walks]
    return tuple(
        replace(walk, span=IdRange(walk.span.first, below))
        for walk, below in zip(walks, ends, strict=True)
    )


def _after(identity: bytes) -> bytes | None:
    """Return the id that follows; None: there is none."""
    following = int.from_bytes(identity) + 1
    return None if following.bit_length() > 8 * ID_BYTES else following.to_bytes(ID_BYTES)
