"""A real PgBouncer in transaction mode: a connection belongs to a client for one transaction.

The program is one that is installed, or one below the virtual environment, where `make programs`
unpacks it: `python -m tests.postgres.pgbouncer`. No test fetches it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Self
from urllib.parse import urlsplit

import psycopg

from tests.forked_commands import bound
from tests.postgres.server import locked
from tests.postgres.server_folder import CommandFailedError, Premises, free_ports
from tests.required_programs import skip_unless_ci

if TYPE_CHECKING:
    from tests.postgres.server import Databases

PACKAGES = ["pgbouncer", "libc-ares2", "libevent-2.1-7"]
"""Debian's, with the libraries of it that a small machine does not have."""
INSTALLED = Path("/usr/sbin/pgbouncer")
FETCHED = "usr/sbin/pgbouncer"
"""Where the unpacked program is in its folder."""
DOWNLOAD_SECONDS = 300
LIMIT_SECONDS = 120
LOOKS_MAX = 2400
PAUSE_SECONDS = 0.05
SETTINGS = """
[databases]
* = host={host} port={server_port} user={user}

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = {pool_size}
max_client_conn = 200
logfile = {folder}/pgbouncer.log
pidfile = {folder}/pgbouncer.pid
"""


class PgBouncer:
    """A pooler in front of a server, on loopback."""

    def __init__(self, premises: Premises, program: Path, port: int) -> None:
        self.premises = premises
        self.program = program
        self.port = port
        self._process: subprocess.Popen[bytes] | None = None

    @classmethod
    def boot(cls, databases: Databases, pool_size: int = 2) -> Self:
        """Start one that shares so many connections to each database among its clients."""
        found = required_pgbouncer()
        premises = Premises.take()
        program = premises.within_reach(found.parent, found.name) / found.name
        target = urlsplit(databases.url(""))
        for port in free_ports():
            values = {"host": target.hostname, "server_port": target.port, "user": target.username}
            values |= {"port": port, "pool_size": pool_size, "folder": str(premises.path)}
            (premises.path / "pgbouncer.ini").write_text(SETTINGS.format(**values))
            pooler = cls(premises, program, port)
            pooler.start()
            if pooler.answers():
                return pooler
            pooler.stop()
        told = (premises.path / "pgbouncer.log").read_text(encoding="utf-8")
        premises.leave()
        raise CommandFailedError(told)

    def url(self, database_url: str) -> str:
        """Return how a database of the server is reached through the pooler."""
        place = f"pooled@127.0.0.1:{self.port}"
        return urlsplit(database_url)._replace(netloc=place, query="").geturl()

    def start(self) -> None:
        """Start it; it listens soon after."""
        ways = self.premises.demotion()
        libraries = [str(path) for path in self.program.parents[1].glob("lib/*-linux-*")]
        ways["env"]["LD_LIBRARY_PATH"] = ":".join(libraries)
        self._process = subprocess.Popen(
            bound(str(self.program), str(self.premises.path / "pgbouncer.ini")),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            # Or the signal that ends a run of tests would reach it before its clients are gone.
            start_new_session=True,
            **ways,
        )

    def answers(self) -> bool:
        """Wait until it can be connected to; tell whether it can."""
        assert self._process is not None, "it was started"
        for _ in range(LOOKS_MAX):
            if self._process.poll() is not None:
                return False
            with (
                suppress(psycopg.OperationalError),
                psycopg.connect(self.url("postgresql:///pgbouncer")),
            ):
                return True
            Event().wait(PAUSE_SECONDS)
        return False

    def stop(self) -> None:
        """End it at once, with all of its connections."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(LIMIT_SECONDS)
        self._process = None

    def close(self) -> None:
        """End it and leave its folder."""
        self.stop()
        self.premises.leave()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def find_program() -> Path | None:
    """Return where PgBouncer is; None if the set-up of tests has not obtained it."""
    on_path = shutil.which("pgbouncer")
    sought = [Path(on_path)] if on_path else []
    found = [one for one in (*sought, INSTALLED, fetched_folder() / FETCHED) if one.exists()]
    return found[0] if found else None


def required_pgbouncer() -> Path:
    """Return where PgBouncer is; skip the test that asks, or fail it, if it is missing."""
    found = find_program()
    if found is None:
        skip_unless_ci("PgBouncer is not installed: run `make programs`, or install pgbouncer")
    return found


def fetched_folder() -> Path:
    """Return the folder of this virtual environment into which the program is unpacked."""
    return Path(sys.prefix) / "pgbouncer"


def fetch_packages(folder: Path) -> None:
    """Unpack Debian's packages into a folder: nothing is installed, and no service is started."""
    unpacked = folder.with_suffix(".new")
    shutil.rmtree(unpacked, ignore_errors=True)
    unpacked.mkdir()
    try:
        run_quietly(unpacked, "apt-get", "download", *PACKAGES)
    except subprocess.SubprocessError:
        if os.geteuid() != 0:
            raise
        # The lists of a fresh machine are empty.
        run_quietly(unpacked, "apt-get", "update")
        run_quietly(unpacked, "apt-get", "download", *PACKAGES)
    for package in sorted(unpacked.glob("*.deb")):
        run_quietly(unpacked, "dpkg-deb", "--extract", str(package), str(unpacked))
    unpacked.rename(folder)


def run_quietly(folder: Path, *command: str) -> None:
    """Run a command to its end."""
    subprocess.run(command, check=True, cwd=folder, capture_output=True, timeout=DOWNLOAD_SECONDS)


def main() -> None:
    """Obtain PgBouncer, unless it is there; say why if that is impossible."""
    if find_program() is not None:
        return
    try:
        with locked(fetched_folder().with_suffix(".lock")):
            fetch_packages(fetched_folder())
    except (OSError, subprocess.SubprocessError) as error:
        told = f"PgBouncer could not be obtained ({error}): tests that need it are skipped\n"
        sys.stderr.write(told)


if __name__ == "__main__":
    main()
