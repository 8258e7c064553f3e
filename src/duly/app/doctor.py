"""The doctor: looks at all that promises hang on, and says of each finding what to do about it.

It looks and changes nothing. `repair_schema` and `close_to_others` do the little that is safe
without a person's thought.
"""

from __future__ import annotations

import os
import shlex
import shutil
import stat
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from duly.app.stores import sqlite_file
from duly.client.status import judge_health, living, schema_findings, skew_text
from duly.clock import SystemClock
from duly.engine.dispatcher.leases import is_leased
from duly.errors import DulyError, NotFound, StoreError, StoreUnavailable, UsageError
from duly.store.ports.auth import sees_everything
from duly.timetable.data_sources import ZoneFolder
from duly.timetable.zones import default_zones

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from duly.app.application import App
    from duly.client.limits import Queue
    from duly.client.status import Finding, Status
    from duly.clock import Clock
    from duly.store.ports.maintenance import Migration

SKEW_MAX = timedelta(milliseconds=100)
"""Beyond this a dispatcher stops firing."""
DISK_LOW_BYTES = 1 << 30
"""Less than this is worth knowing: a busy store's log may grow by as much before it is folded;"""
DISK_SCARCE_BYTES = 64 << 20
"""and with less than this it can hardly go on."""
SYSTEM_ZONES = Path("/usr/share/zoneinfo")
_MEBIBYTE = 1 << 20
_UNKNOWN = "unknown"


class Level(StrEnum):
    """How bad a finding is, from the best to the worst."""

    OK = "ok"
    NOTE = "note"
    DEGRADED = "degraded"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that was looked at."""

    about: str
    says: str
    level: Level = Level.OK
    code: str | None = None
    """Stable, of what is not as it should be; docs/errors.md explains each."""
    remedy: str | None = None
    is_mendable: bool = False
    """Whether `duly doctor --fix` would do it."""

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "about": self.about,
            "level": str(self.level),
            "says": self.says,
            "code": self.code,
            "remedy": self.remedy,
            "is_mendable": self.is_mendable,
        }


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """All that was looked at."""

    checks: tuple[Check, ...]

    @property
    def level(self) -> Level:
        """The worst that was found."""
        order = list(Level)
        return max((one.level for one in self.checks), key=order.index, default=Level.OK)

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        is_well = self.level in {Level.OK, Level.NOTE}
        checks = [one.to_json() for one in self.checks]
        return {"is_well": is_well, "level": str(self.level), "checks": checks}


def examine(app: App, clock: Clock | None = None) -> Diagnosis:
    """Look at the installation, then at the store, then at the fleet; what is broken ends it."""
    checks = list(_installation(app.url))
    try:
        schema = _schema(app)
        checks.append(schema)
        if schema.level is not Level.BROKEN:
            checks += _store(app, clock or SystemClock())
            checks += _fleet(app) if sees_everything(app.store) else [_unseen()]
    except (StoreError, UsageError, NotFound) as error:
        checks.append(_broken(error))
    return Diagnosis(tuple(checks))


def repair_schema(app: App) -> list[Migration]:
    """Make the store if there is none, and apply what its schema lacks.

    What comes only once older programs are gone (post) is left to a person.
    """
    missing = app.schema_status().missing
    app.migrate(phase="pre")  # opening a store that is not there makes it whole, with all of them
    left = {one.number for one in app.schema_status().missing}
    return [one for one in missing if one.number not in left]


def close_to_others(app: App) -> list[Path]:
    """Take away what other users may do with the store's files; return those that were open."""
    path = sqlite_file(app.url)
    found = [] if path is None else _open_to_others(path)
    for file, mode in found:
        try:
            file.chmod(mode)
        except OSError as error:
            problem = f"can't be closed to other users ({error.strerror})"
            raise StoreUnavailable(
                str(file), problem, "run this as the owner of the file"
            ) from error
    return [file for file, _ in found]


def _installation(url: str) -> Iterator[Check]:
    if url.startswith("sqlite"):
        yield _sqlite()
    ours, system = default_zones().version, ZoneFolder(SYSTEM_ZONES).version
    says = f"tzdata {ours}"
    if system in {_UNKNOWN, ours}:
        yield Check(about="time zones", says=f"{says}, and the system's is the same")
        return
    yield Check(
        about="time zones",
        level=Level.NOTE,
        says=f"{says}, but the system has {system}: other programs here may read clocks otherwise",
        code="system-time-zones-differ",
        remedy="update the older one: pip install --upgrade tzdata, or the system's package",
    )


def _sqlite() -> Check:
    import apsw

    from duly.store.sqlite.failures import SQLITE_MIN

    version = apsw.sqlite_lib_version()
    if tuple(int(part) for part in version.split(".")[:3]) >= SQLITE_MIN:
        return Check(about="SQLite", says=f"{version}, as apsw {apsw.apsw_version()} brings it")
    wanted = ".".join(str(part) for part in SQLITE_MIN)
    return Check(
        about="SQLite",
        level=Level.BROKEN,
        says=f"{version} is known to damage what it writes",
        code="old-sqlite",
        remedy=f"pip install 'apsw>={wanted}'",
    )


def _broken(error: DulyError) -> Check:
    """Return what is in the way of looking further."""
    problem = str(getattr(error, "problem", "")) or str(error)
    where = str(getattr(error, "store", ""))
    return Check(
        about="store",
        level=Level.BROKEN,
        says=f"{where}: {problem}" if where else problem,
        code=error.code,
        remedy=str(getattr(error, "remedy", "")) or None,
    )


def _schema(app: App) -> Check:
    found = app.schema_status()
    missing = [one for one in found.missing if one.phase == "pre"]
    for one in schema_findings(found):
        return Check(
            about="schema", level=Level.NOTE, says=one.problem, code=one.code, remedy=one.remedy
        )
    if found.applied and found.is_usable and not missing:
        later = f"; {len(found.missing)} for later (duly db migrate)" if found.missing else ""
        says = f"{_count(len(found.applied), 'migration')} applied{later}"
        return Check(about="schema", says=says)
    says = found.problem or f"the store lacks {_count(len(missing), 'migration')}"
    return Check(
        about="schema",
        level=Level.DEGRADED if found.is_usable else Level.BROKEN,
        says=says,
        code="schema-mismatch",
        remedy="upgrade this program" if found.unknown else "duly db migrate",
        is_mendable=bool(missing),
    )


def _store(app: App, clock: Clock) -> Iterator[Check]:
    """Look at the store itself: whether it answers, what time it has, how much room."""
    before = clock.monotonic_us()
    there_us, here_us = app.store.now(), clock.now_us()
    took_us = clock.monotonic_us() - before
    yield Check(about="store", says=f"{app.url} answers in {took_us / 1000:.1f} ms")
    # What the answer took can't be told from a skew: only what is beyond it is one.
    skew = timedelta(microseconds=here_us - there_us)
    says = f"this machine's clock is {skew_text(skew)} off the store's"
    if abs(skew) - timedelta(microseconds=took_us) <= SKEW_MAX:
        yield Check(about="clock", says=says)
    else:
        yield Check(
            about="clock",
            level=Level.DEGRADED,
            says=f"{says}; a dispatcher here would not fire",
            code="clock-skew",
            remedy="set it right, and keep it so: chrony, systemd-timesyncd",
        )
    file = sqlite_file(app.url)
    if file is not None:
        yield _disk(file)
        yield _permissions(file)


def _disk(file: Path) -> Check:
    free = shutil.disk_usage(file.resolve().parent).free
    says = f"{free // _MEBIBYTE:,} MiB free beside {file.name}"
    if free >= DISK_LOW_BYTES:
        return Check(about="disk", says=says)
    level = Level.NOTE if free >= DISK_SCARCE_BYTES else Level.DEGRADED
    remedy = "make room: what can't be written down can't be promised"
    return Check(about="disk", level=level, says=says, code="disk-low", remedy=remedy)


def _permissions(path: Path) -> Check:
    found = _open_to_others(path)
    if not found:
        return Check(about="permissions", says=f"{path.name} is closed to other users")
    files = " and ".join(file.name for file, _ in found)
    changes = "; ".join(f"chmod {mode:o} {shlex.quote(str(file))}" for file, mode in found)
    return Check(
        about="permissions",
        level=Level.DEGRADED,
        says=f"other users of this machine can open {files}",
        code="store-open-to-others",
        remedy=changes,
        is_mendable=True,
    )


def _open_to_others(path: Path) -> list[tuple[Path, int]]:
    """Return the files of a store that other users can open, each with the mode to give it.

    A group that may write shares the store on purpose: without writing it could not use it.
    """
    if os.name != "posix":
        return []
    found: list[tuple[Path, int]] = []
    path = path.resolve()  # SQLite keeps its logs where a link leads to
    for file in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
        try:
            mode = stat.S_IMODE(file.stat().st_mode)
        except FileNotFoundError:  # the logs come and go
            continue
        group = stat.S_IRWXG if mode & stat.S_IWGRP else 0
        closed = mode & (stat.S_IRWXU | group)
        if closed != mode & (stat.S_IRWXU | stat.S_IRWXG | stat.S_IRWXO):
            found.append((file, closed))
    return found


def _unseen() -> Check:
    """Say that nothing was said: a part of what is wrong would look as if all were well."""
    return Check(
        about="fleet",
        level=Level.DEGRADED,
        says="this role of the database sees one tenant at a time: timers, queues, workers and"
        " alerts of all tenants can't be looked at",
        code="one-tenant-seen",
        remedy="ask a server that connects as dispatchers do, or run duly doctor with their URL",
    )


def _fleet(app: App) -> Iterator[Check]:
    """Look at who keeps time, who works, and what waits for a person."""
    found, queues = app.status(), app.queues.list()
    health = judge_health(found, queues, app.breakers.list())
    leases = [one for one in app.store.status().leases if is_leased(one.key)]
    unowned = sum(one.owner is None for one in leases)
    alive = _count(len(living(found, "dispatcher")), "dispatcher")
    owned = f"{len(leases) - unowned} of {len(leases)} leases owned"
    well = f"{alive} alive, {owned}, {found.overdue:,} overdue"
    yield from _found("dispatch", health.dispatch, Level.DEGRADED, well)
    if unowned and any(not one.is_holding for one in living(found, "dispatcher")):
        yield _unowned(unowned, len(leases))
    if found.tzdata and default_zones().version < found.tzdata:
        yield Check(
            about="time zones",
            level=Level.DEGRADED,
            says=f"the fleet has tzdata {found.tzdata}, newer than ours",
            code="old-time-zones",
            remedy="pip install --upgrade tzdata",
        )
    yield from _found("work", health.work, Level.DEGRADED, _work_text(found, queues))
    yield from _found("alerts", health.alerts, Level.DEGRADED, "none that pages is open")
    yield from _found("notes", health.notes, Level.NOTE, "nothing else to look at")
    if not found.early_fires:
        yield Check(about="early fires", says="0, as it must be")


def _found(about: str, findings: Sequence[Finding], level: Level, well: str) -> Iterator[Check]:
    for one in findings:
        remedy = one.remedy or None
        yield Check(about=about, level=level, says=one.problem, code=one.code, remedy=remedy)
    if not findings:
        yield Check(about=about, says=well)


def _unowned(number: int, total: int) -> Check:
    """Tell of shards that nobody keeps time for, although there is somebody who could."""
    return Check(
        about="leases",
        level=Level.NOTE,
        says=f"{number} of {total} leases have no owner just now",
        code="leases-unowned",
        remedy="look again in a few seconds: a dispatcher takes them; if not, see what it says",
    )


def _work_text(found: Status, queues: Sequence[Queue]) -> str:
    workers = [one for one in living(found, "worker") if one.standing is None]
    parts = [f"{_count(len(workers), 'worker')} in service"]
    for queue in queues:
        serving = sum(not one.queues or queue.name in one.queues for one in workers)
        by = _count(serving, "worker")
        parts.append(f"queue {queue.name}: {queue.queued:,} queued, served by {by}")
    return "; ".join(parts)


def _count(number: int, noun: str) -> str:
    return f"1 {noun}" if number == 1 else f"{number:,} {noun}s"
