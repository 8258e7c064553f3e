"""A PostgreSQL that survives the loss of a machine: three nodes on loopback, from packages.

A node stands for a machine: an etcd, and a Patroni with its PostgreSQL. Each Patroni speaks to the
etcd of its own node alone, so that a leader without its etcd is cut off from the others.

- A leader's lock lasts 20 s, the least that Patroni allows; it is renewed every 5 s, and a call to
  etcd is given up after 5 s. So a dead leader is replaced after 15 to 25 s, and one that is cut off
  steps down within 10 s: before anybody else can be chosen.
- Replication is synchronous and strict: a commit is answered when it is on two disks, and without
  a standby nothing is answered. The lenient mode would go on alone, and what was acknowledged then
  would be gone with that one disk.
- There is no watchdog device: a leader that was stopped is a leader again, for a moment, when it
  goes on. What it is told then waits for a standby that has left it, and is never acknowledged.
- No etcd is ever stopped, only killed. One before 3.5.13 that led, was stopped and goes on revokes
  leases that others have renewed meanwhile, such as the lock of a new leader, and the wheel has
  3.5.1: we have seen two leaders at once, with the acknowledged rows of one of them lost.
"""

from __future__ import annotations

import ctypes
import http.client
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import psycopg

from tests.failover.bounded import connect
from tests.failover.keeper import descendants, tell
from tests.forked_commands import ROOT
from tests.postgres.server import chosen_programs
from tests.postgres.server_folder import PORTS, account
from tests.waiting import WaitedTooLongError, pause, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NODES = 3
TTL_SECONDS = 20
LIMIT_SECONDS = 120.0
"""How long a cluster may take to come up, or back: far longer than it needs on a slow machine."""
SUCCESSION_SECONDS = 75.0
"""When nobody leads by then, nobody will."""
AHEAD_SECONDS = 2.0
LAG_MAX = 1 << 20
"""How many bytes a standby may be behind, and still be chosen."""
IPC_RMID = 0
UNDECIDED = "not_decided"
SUPERUSER = "postgres"
DATABASE = "promises"


@dataclass(frozen=True)
class Ports:
    """Where the parts of a node listen."""

    postgres: int
    patroni: int
    etcd: int
    peers: int


class Kept:
    """A process with all that comes of it."""

    def __init__(self, command: list[str], log: Path) -> None:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
        with log.open("ab") as out:
            self._keeper = subprocess.Popen(
                [sys.executable, "-m", "tests.failover.keeper", *_demoted(command)],
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=out,
                env={**environment, "HOME": str(log.parent), "LC_ALL": "C"},
                cwd=ROOT,
                start_new_session=True,
            )

    def pids(self) -> dict[int, str]:
        return descendants(self._keeper.pid)

    def kill(self) -> None:
        """End all of it as a power cut would."""
        while pids := self.pids():
            tell(pids, signal.SIGKILL)
        self.close()

    def stop(self) -> None:
        """Stop all of it, also what it starts meanwhile."""
        stopped: set[int] = set()
        while fresh := {pid: name for pid, name in self.pids().items() if pid not in stopped}:
            tell(fresh, signal.SIGSTOP)
            stopped |= fresh.keys()

    def go_on(self) -> None:
        tell(self.pids(), signal.SIGCONT)

    def close(self) -> None:
        """End all of it in haste, but with its memory given back."""
        assert self._keeper.stdin is not None, "it was given one"
        with suppress(BrokenPipeError):
            self._keeper.stdin.close()
        self._keeper.wait(LIMIT_SECONDS)


class Node:
    """One of the three: what it runs, and what may be done to it."""

    def __init__(self, folder: Path, name: str, ports: Ports) -> None:
        self.name = name
        self.ports = ports
        self.is_synchronous = True
        self.data = folder / name / "postgresql"
        self._folder = folder / name
        self._logs = folder
        self._parts: dict[str, Kept] = {}
        self._folder.mkdir()
        _hand_over(self._folder)

    def start_etcd(self, peers: str) -> None:
        if "etcd" not in self._parts:
            self._start("etcd", [_script("etcd"), *_etcd_options(self, peers)])

    def has_quorum(self) -> bool:
        """Say whether its etcd has agreed with another one; before that Patroni fails to start."""
        version = _answer(self.ports.etcd, "/version").get("etcdcluster", UNDECIDED)
        return bool(version != UNDECIDED)

    def start_patroni(self) -> None:
        if "patroni" not in self._parts:
            config = self._folder / "patroni.json"
            config.write_text(json.dumps(_patroni_settings(self), indent=1), encoding="utf-8")
            self._start("patroni", [_script("patroni"), str(config)])

    def _start(self, part: str, command: list[str]) -> None:
        self._parts[part] = Kept(command, self._logs / f"{self.name}-{part}.log")

    def kill(self) -> None:
        """Cut its power."""
        self.kill_database()
        self.cut()

    def kill_database(self) -> None:
        """Kill its PostgreSQL, and whoever would start it again."""
        self._parts.pop("patroni").kill()

    def stop(self) -> None:
        """Let it hang: it accepts connections and answers nothing."""
        self._parts["patroni"].stop()

    def cut(self) -> None:
        """Part it from the others' opinion of who leads."""
        self._parts.pop("etcd").kill()

    def go_on(self) -> None:
        if "patroni" in self._parts:
            self._parts["patroni"].go_on()

    def lose_disk(self) -> None:
        """Forget the data of a node that was killed; it fetches a copy when it comes back."""
        assert not self._parts, "it was killed"
        postmaster = (self.data / "postmaster.pid").read_text(encoding="utf-8").split("\n")
        ctypes.CDLL(None).shmctl(int(postmaster[6].split()[1]), IPC_RMID, None)
        shutil.rmtree(self.data)

    def close(self) -> None:
        while self._parts:
            self._parts.popitem()[1].close()

    def members(self) -> list[dict[str, Any]]:
        """Return what its Patroni knows of all of them; nothing, if it is not to be reached."""
        return list(_answer(self.ports.patroni, "/cluster").get("members", []))

    def is_leader(self) -> bool:
        """Ask its PostgreSQL itself: it is one as long as it thinks so."""
        try:
            with self.connected() as connection:
                row = connection.execute("SELECT pg_is_in_recovery()").fetchone()
        except psycopg.Error:
            return False
        return row == (False,)

    def is_writable(self) -> bool:
        """Try to write; it takes another node to hear that it is done."""
        try:
            with self.connected() as connection:
                connection.execute(WRITE_PROBE)
        except psycopg.Error:
            return False
        return True

    @contextmanager
    def connected(self) -> Iterator[psycopg.Connection]:
        """Speak to this very PostgreSQL, but not for long."""
        url = f"postgresql://{SUPERUSER}@127.0.0.1:{self.ports.postgres}/postgres"
        with closing(connect(url)) as connection:
            yield connection


class Cluster:
    """Three nodes in a folder; every one of them can be lost and come back."""

    def __init__(self, folder: Path, *, is_synchronous: bool = True) -> None:
        self.folder = folder
        self.is_synchronous = is_synchronous
        _hand_over(folder)
        ports = _free_ports(4 * NODES)
        self.nodes = [
            Node(folder, f"node{place + 1}", Ports(*ports[4 * place : 4 * place + 4]))
            for place in range(NODES)
        ]
        for node in self.nodes:
            node.is_synchronous = is_synchronous
        self._peers = ",".join(
            f"{node.name}=http://127.0.0.1:{node.ports.peers}" for node in self.nodes
        )

    def start(self) -> None:
        """Start all of it, and wait until both standbys follow; make the database."""
        for node in self.nodes:
            node.start_etcd(self._peers)
        for node in self.nodes:
            self._start_patroni(node)
        self.wait_whole()
        with self.leader().connected() as connection:
            connection.execute(f"CREATE DATABASE {DATABASE}")
            connection.execute("CREATE TABLE probes (id int PRIMARY KEY, written int8 NOT NULL)")
        self.wait_writable()

    def url(self, database: str = DATABASE) -> str:
        """Return a URL that names every node, and leads to the one that takes writes."""
        hosts = ",".join(f"127.0.0.1:{node.ports.postgres}" for node in self.nodes)
        options = "target_session_attrs=read-write&connect_timeout=2"
        return f"postgresql://{SUPERUSER}@{hosts}/{database}?{options}"

    def leader(self) -> Node:
        """Return the node that takes writes; wait until there is one."""
        found: list[Node] = []

        def is_found() -> bool:
            found.extend(node for node in self.nodes if node.is_leader())
            return bool(found)

        wait_until("there is a leader", is_found, LIMIT_SECONDS)
        return found[0]

    def faults(self) -> dict[str, Callable[[], Node]]:
        """Return what may happen to a leader; each returns whom it happened to."""
        return {
            "killed": self.kill_leader,
            "killed, standbys gone": self.kill_leader_ahead,
            "stopped": self.stop_leader,
            "killed, disk lost": self.kill_leader_for_good,
            "cut off": self.cut_leader,
        }

    def kill_leader(self) -> Node:
        """Cut the leader's power."""
        node = self.leader()
        node.kill()
        return node

    def kill_leader_for_good(self) -> Node:
        """Cut the leader's power, and lose its disk."""
        node = self.kill_leader()
        node.lose_disk()
        return node

    def kill_leader_ahead(self) -> Node:
        """Cut the leader's power when its standbys have been gone for a while.

        Stopped ones would not do: what a leader sends meanwhile waits in their machine for them.
        """
        leader = self.leader()
        standbys = [node for node in self.nodes if node is not leader]
        for node in standbys:
            node.kill_database()
        pause(AHEAD_SECONDS)
        leader.kill()
        for node in standbys:
            self.heal(node)
        return leader

    def stop_leader(self) -> Node:
        """Let the leader hang, half dead."""
        node = self.leader()
        node.stop()
        return node

    def cut_leader(self) -> Node:
        """Part the leader from the others; clients still reach it."""
        node = self.leader()
        node.cut()
        return node

    def heal(self, node: Node) -> None:
        """Undo whatever was done to a node; it follows whoever leads by now."""
        node.go_on()
        node.start_etcd(self._peers)
        self._start_patroni(node)

    def _start_patroni(self, node: Node) -> None:
        wait_until("etcd has a quorum", node.has_quorum, LIMIT_SECONDS)
        node.start_patroni()

    def is_whole(self) -> bool:
        """Say whether one leads and two follow it closely; one of them has each commit."""
        for node in self.nodes:
            members = node.members()
            states = sorted((one["role"], one["state"]) for one in members)
            if states == [("leader", "running"), *FOLLOWING[self.is_synchronous]]:
                lags = [one.get("lag", 0) for one in members]
                return all(isinstance(lag, int) and lag <= LAG_MAX for lag in lags)
        return False

    def wait_whole(self) -> None:
        wait_until("the cluster is whole", self.is_whole, LIMIT_SECONDS)

    def wait_succeeded(self, node: Node) -> bool:
        """Wait until another node can be written to; bring this one back if none may be chosen.

        A leader that has seen its standbys go has crossed them off: then only it may lead again,
        for they might lack something.
        """
        others = [one for one in self.nodes if one is not node]
        is_succeeded = lambda: any(one.is_writable() for one in others)  # noqa: E731
        with suppress(WaitedTooLongError):
            wait_until("another node leads", is_succeeded, SUCCESSION_SECONDS)
            return True
        self.heal(node)
        self.wait_writable()
        return False

    def wait_writable(self) -> None:
        is_writable = lambda: any(one.is_writable() for one in self.nodes)  # noqa: E731
        wait_until("something can be written", is_writable, LIMIT_SECONDS)

    def close(self) -> None:
        """Leave nothing behind but logs."""
        for node in self.nodes:
            node.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


FOLLOWING = {
    True: [("replica", "streaming"), ("sync_standby", "streaming")],
    False: [("replica", "streaming"), ("replica", "streaming")],
}
WRITE_PROBE = """
INSERT INTO probes VALUES (1, 1) ON CONFLICT (id) DO UPDATE SET written = probes.written + 1"""


def _answer(port: int, path: str) -> dict[str, Any]:
    """Return what a part of a node says; nothing, if it is not to be reached."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
    try:
        connection.request("GET", path)
        return dict(json.loads(connection.getresponse().read()))
    except (OSError, ValueError, http.client.HTTPException):
        return {}
    finally:
        connection.close()


def _script(name: str) -> str:
    return str(Path(sys.executable).parent / name)


def _demoted(command: list[str]) -> list[str]:
    """Return a command that root may give: PostgreSQL refuses to run as root.

    The right to read everything is kept, because this Python may lie where only root may look.
    """
    if (nobody := account()) is None:
        return command
    right = "+dac_override"
    options = ["--reuid", str(nobody.pw_uid), "--regid", str(nobody.pw_gid), "--clear-groups"]
    return ["setpriv", *options, "--inh-caps", right, "--ambient-caps", right, "--", *command]


def _hand_over(folder: Path) -> None:
    """Give a folder to whoever PostgreSQL runs as."""
    if (nobody := account()) is not None:
        os.chown(folder, nobody.pw_uid, nobody.pw_gid)


def _free_ports(count: int) -> list[int]:
    """Return ports that are free, each tried."""
    found: list[int] = []
    with ExitStack() as held:
        for port in random.Random().sample(PORTS, len(PORTS)):
            taken = held.enter_context(socket.socket())
            with suppress(OSError):
                taken.bind(("127.0.0.1", port))
                found.append(port)
            if len(found) == count:
                return found
    raise AssertionError(f"there are no {count} free ports")


def _etcd_options(node: Node, peers: str) -> list[str]:
    here, there = (f"http://127.0.0.1:{port}" for port in (node.ports.etcd, node.ports.peers))
    return [
        f"--name={node.name}",
        f"--data-dir={node.data.parent / 'etcd'}",
        f"--listen-client-urls={here}",
        f"--advertise-client-urls={here}",
        f"--listen-peer-urls={there}",
        f"--initial-advertise-peer-urls={there}",
        f"--initial-cluster={peers}",
        "--heartbeat-interval=200",  # a busy machine of two cores must not lose its quorum
        "--election-timeout=2000",
        "--logger=zap",
        "--log-level=warn",
    ]


def _patroni_settings(node: Node) -> dict[str, Any]:
    here = f"127.0.0.1:{node.ports.patroni}"
    return {
        "scope": "promises",
        "name": node.name,
        "restapi": {"listen": here, "connect_address": here},
        # Without its search for other members, it stays with the etcd of its own node.
        "etcd3": {"hosts": [f"127.0.0.1:{node.ports.etcd}"], "use_proxies": True},
        "bootstrap": {
            "dcs": _cluster_settings(is_synchronous=node.is_synchronous),
            "initdb": [{"encoding": "UTF8"}, {"locale": "C"}, {"auth": "trust"}, "data-checksums"],
        },
        "postgresql": {
            "listen": f"127.0.0.1:{node.ports.postgres}",
            "connect_address": f"127.0.0.1:{node.ports.postgres}",
            "data_dir": str(node.data),
            "bin_dir": str(chosen_programs()),
            "pgpass": str(node.data.parent / "pgpass"),
            "authentication": {
                "superuser": {"username": SUPERUSER},
                "replication": {"username": "replicator"},
            },
            "parameters": {"unix_socket_directories": ""},
            "pg_hba": [
                "host all all 127.0.0.1/32 trust",
                "host replication all 127.0.0.1/32 trust",
            ],
        },
    }


def _cluster_settings(*, is_synchronous: bool) -> dict[str, Any]:
    return {
        "ttl": TTL_SECONDS,
        "loop_wait": 5,
        "retry_timeout": 5,
        "synchronous_mode": is_synchronous,
        "synchronous_mode_strict": is_synchronous,
        "postgresql": {
            "use_pg_rewind": True,
            "use_slots": True,
            "parameters": {
                "max_connections": 60,
                "shared_buffers": "64MB",
                "wal_keep_size": "512MB",
                "max_wal_size": "2GB",
                "log_line_prefix": "%m [%p] ",
                "dynamic_shared_memory_type": "mmap",  # in its folder: kill -9 leaves nothing behind
            },
        },
    }
