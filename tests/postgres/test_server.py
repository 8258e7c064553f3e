"""Servers for tests: they boot, crash, come back, and never stay behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

from tests.forked_commands import is_running
from tests.postgres.server import CHOICE, Server, chosen_programs, name_of
from tests.postgres.server_folder import Premises, account
from tests.waiting import comes_true

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]


def ask(url: str, question: str):
    with psycopg.connect(url, autocommit=True) as connection:
        return connection.execute(question.encode()).fetchall()


def tell(url: str, command: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(command.encode())


def make_table(url: str) -> None:
    tell(url, "CREATE TABLE prepared AS SELECT pg_backend_pid() AS process")


def test_the_server_is_one_that_duly_supports(postgres_server):
    assert 15 <= postgres_server.version <= 18


def test_every_database_is_fresh(new_database):
    first, second = new_database(), new_database()
    tell(first, "CREATE TABLE here ()")

    assert [(None,)] == ask(second, "SELECT to_regclass('here')")
    assert name_of(first) != name_of(second)


def test_a_prepared_database_is_filled_once_and_copied(new_database):
    copies = [new_database(make_table) for _ in range(2)]
    first, second = (ask(url, "SELECT process FROM prepared") for url in copies)

    assert first == second


def test_what_a_test_does_to_a_copy_does_not_reach_the_next(new_database):
    tell(new_database(make_table), "DROP TABLE prepared")

    assert 1 == len(ask(new_database(make_table), "SELECT process FROM prepared"))


def test_a_template_that_left_a_connection_open_can_be_copied(postgres_server, new_database):
    left = []
    url = new_database(lambda url: left.append(psycopg.connect(url)))

    assert [(1,)] == ask(url, "SELECT 1")
    left[0].close()


def test_a_database_is_dropped_under_its_clients(postgres_server):
    url = postgres_server.create_database()
    with psycopg.connect(url):
        postgres_server.drop_database(url)
    left = f"SELECT count(*) FROM pg_database WHERE datname = '{name_of(url)}'"  # noqa: S608

    assert [(0,)] == ask(postgres_server.url("postgres"), left)


def test_backends_of_one_database_are_ended_and_others_go_on(postgres_server, new_database):
    with psycopg.connect(new_database()) as hit, psycopg.connect(new_database()) as spared:
        ended = postgres_server.kill_backends(f"postgresql://host/{hit.info.dbname}")

        assert 1 == ended
        assert (1,) == spared.execute("SELECT 1").fetchone()
        with pytest.raises(psycopg.OperationalError):
            hit.execute("SELECT 1")


def test_what_was_committed_survives_a_crash(private_server):
    url = private_server.create_database()
    tell(url, "CREATE TABLE kept AS SELECT 7 AS seven")
    private_server.restart("immediate")

    assert [(7,)] == ask(url, "SELECT seven FROM kept")
    assert "not properly shut down" in private_server.log.read_text(encoding="utf-8")


def test_a_stopped_server_refuses_and_a_started_one_is_where_it_was(private_server):
    url = private_server.url("postgres")
    private_server.stop()

    assert not private_server.is_running
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(url)
    private_server.start()

    assert [(1,)] == ask(url, "SELECT 1")


def test_everybody_s_server_cannot_be_stopped(postgres_server):
    if not isinstance(postgres_server, Server):
        pytest.skip("the server that was chosen is not ours")
    with pytest.raises(AssertionError, match="take a private one"):
        postgres_server.stop()


def test_a_durable_server_flushes_and_takes_settings():
    with Server.boot({"work_mem": "'7MB'"}, durable=True) as server:
        shown = [ask(server.url("postgres"), f"SHOW {name}") for name in ("fsync", "work_mem")]

    assert [[("on",)], [("7MB",)]] == shown


def test_a_server_that_is_closed_leaves_nothing():
    with Server.boot() as server:
        folder = server.premises.path

    assert comes_true(lambda: not folder.exists())


@contextmanager
def holding(folder: Path) -> Iterator[tuple[subprocess.Popen[str], Path, str]]:
    """Run a process that holds the server of a folder."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.postgres.server_holder", str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        start_new_session=True,
    )
    assert process.stdout is not None, "piped"
    try:
        path, url = process.stdout.readline().split()
        yield process, Path(path), url
    finally:
        process.kill()
        process.communicate()


def test_a_killed_process_leaves_neither_server_nor_folder(tmp_path):
    with holding(tmp_path) as (process, folder, url):
        number = int((folder / "data" / "postmaster.pid").read_text().split("\n")[0])

        assert [(1,)] == ask(url, "SELECT 1")
        os.killpg(process.pid, signal.SIGKILL)

        assert comes_true(lambda: not folder.exists())
        assert comes_true(lambda: not is_running(number))


def test_a_shared_server_lives_as_long_as_its_last_user(tmp_path):
    with holding(tmp_path) as (process, folder, url):
        server = Server.shared(tmp_path)
        process.kill()
        process.wait()

        assert folder == server.premises.path
        assert [(1,)] == ask(url, "SELECT 1")
        server.close()

        assert comes_true(lambda: not folder.exists())


def test_whoever_comes_after_the_last_user_gets_a_new_server(tmp_path):
    first = Server.shared(tmp_path)
    first.close()

    assert comes_true(lambda: not first.premises.path.exists())
    second = Server.shared(tmp_path)

    assert first.premises.path != second.premises.path
    assert [(1,)] == ask(second.url("postgres"), "SELECT 1")
    second.close()


def test_a_folder_without_programs_is_refused(monkeypatch, tmp_path):
    monkeypatch.setenv(CHOICE, str(tmp_path))
    with pytest.raises(AssertionError, match="without an initdb"):
        chosen_programs()


@pytest.mark.skipif(account() is None, reason="nobody is demoted")
def test_programs_that_the_account_cannot_reach_are_copied(tmp_path):
    """As where a home folder is closed to others."""
    programs = tmp_path / "closed" / "bin"
    programs.mkdir(parents=True)
    (programs / "postgres").symlink_to("/bin/true")
    (tmp_path / "closed").chmod(0o700)
    premises = Premises.take()
    try:
        found = premises.within_reach(programs, "postgres")
        premises.run(found / "postgres")
    finally:
        premises.leave()

    assert premises.path / "installed" / "bin" == found
