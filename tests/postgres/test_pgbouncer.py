"""A pooler in transaction mode: many clients, few connections, and no session."""

from __future__ import annotations

from contextlib import ExitStack

import psycopg
import pytest

from tests.postgres import pgbouncer
from tests.postgres.pgbouncer import required_pgbouncer

PROCESS = "SELECT pg_backend_pid()"


def connect(url: str) -> psycopg.Connection:
    return psycopg.connect(url, prepare_threshold=None, autocommit=True)


@pytest.mark.parametrize(("ci", "outcome"), [("", "Skipped"), ("true", "Failed")])
def test_a_missing_program_skips_a_test_and_fails_it_in_ci(monkeypatch, tmp_path, ci, outcome):
    """The reason says how it is obtained; nothing is fetched in the middle of a test."""
    monkeypatch.setenv("CI", ci)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sys.prefix", str(tmp_path))
    monkeypatch.setattr(pgbouncer, "INSTALLED", tmp_path / "pgbouncer")

    with pytest.raises(BaseException, match="make programs") as caught:
        required_pgbouncer()

    assert outcome == caught.typename
    assert [] == [*tmp_path.iterdir()]


def test_many_clients_share_the_connections_of_a_pool(database, pgbouncer_url):
    with ExitStack() as stack:
        clients = [stack.enter_context(connect(pgbouncer_url(database))) for _ in range(6)]
        with clients[0].transaction():
            held = clients[0].execute(PROCESS).fetchone()
            processes = {client.execute(PROCESS).fetchone() for client in clients[1:]}

    assert 1 == len(processes), "one of two connections was taken, so the others had to share"
    assert held not in processes


def test_a_client_moves_from_one_connection_to_another(database, pgbouncer_url):
    """So that nothing may be left in a session."""
    with connect(pgbouncer_url(database)) as first, connect(pgbouncer_url(database)) as second:
        with first.transaction(), second.transaction():
            before = [one.execute(PROCESS).fetchone() for one in (first, second)]
        with second.transaction():
            taken = second.execute(PROCESS).fetchone()
            moved = first.execute(PROCESS).fetchone()

    assert 2 == len(set(before))
    assert taken != moved


def test_a_pooler_is_known_by_its_process_number(database, pgbouncer_url):
    """How the store finds out: the number of the protocol is not the backend's."""
    with connect(database) as direct, connect(pgbouncer_url(database)) as pooled:
        pids = [(one.info.backend_pid, one.execute(PROCESS).fetchone()) for one in (direct, pooled)]

    assert [True, False] == [answer == (told,) for told, answer in pids]


def test_a_prepared_statement_is_unknown_to_another_connection(database, pgbouncer_url):
    """Why nothing is prepared behind a pooler."""
    url = pgbouncer_url(database)
    with connect(url) as client, connect(url) as other, client.transaction():
        client.execute("PREPARE known AS SELECT 1")
        known_to = client.execute(PROCESS).fetchone()
        elsewhere = other.execute(PROCESS).fetchone()
        with pytest.raises(psycopg.errors.InvalidSqlStatementName):
            other.execute("EXECUTE known")

    assert known_to != elsewhere
