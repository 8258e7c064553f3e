"""The application on PostgreSQL: by its URL, and looking makes no store."""

from __future__ import annotations

import psycopg
import pytest

import duly
from duly import StoreUnavailable, UsageError, every
from tests.cli.duly_command import duly as command


def has_schema(url):
    with psycopg.connect(url) as connection:
        row = connection.execute(
            "SELECT count(*) FROM pg_namespace WHERE nspname = 'duly'"
        ).fetchone()
    return row == (1,)


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+psycopg"])
def test_a_url_opens_a_store_that_keeps_what_is_promised(database, scheme):
    url = database.replace("postgresql", scheme, 1)
    with duly.App(url) as app:
        report = app.task(name="report")(lambda: None)
        promised = app.enqueue(report, delay="24h", key="k")
        app.schedules.create("hourly", report, every("1h"))

    with duly.App(url) as again:
        assert promised.id == again.delayed.get("k").id
        assert ["hourly"] == [one.name for one in again.schedules.list()]
        assert again.schema_status().is_usable
        again.require_store()


def test_looking_at_a_database_makes_no_store(database):
    with duly.App(database) as app:
        with pytest.raises(StoreUnavailable, match="there is no store here; is this"):
            app.require_store()
        app.require_store(is_file_enough=True)
        found = app.schema_status()

        assert (False, ()) == (found.is_usable, found.applied)
        assert "there is no store here: run `duly db migrate`" == found.problem
        assert not has_schema(database)
        app.migrate()

        assert app.schema_status().is_usable
    assert has_schema(database)


def test_a_database_that_is_not_there_is_told_from_a_server_that_is_not(database):
    missing = database.rpartition("/")[0] + "/no_such_database"
    with (
        duly.App(missing) as app,
        pytest.raises(StoreUnavailable, match='"no_such_database" does not exist'),
    ):
        app.require_store()
    with (
        duly.App("postgresql://ada:secret@127.0.0.1:1/x") as app,
        pytest.raises(StoreUnavailable, match=r"^postgresql://127.0.0.1:1/x: can't be reached"),
    ):
        app.status()


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("postgresql://ada:secret@host/x?nonsense=1", 'invalid URI query parameter: "nonsense"'),
        ("postgresql://ada:secret%zz@host/x", "invalid percent-encoded token"),
    ],
)
def test_a_url_that_the_driver_can_not_read_is_refused_without_its_password(url, says):
    with duly.App(url) as app, pytest.raises(UsageError) as caught:
        app.status()

    assert f"can't be read ({says}); use postgresql://" in str(caught.value)
    assert "secret" not in str(caught.value)


def test_the_commands_work_on_a_database(database):
    assert 5 == command("status", "--url", database).status
    assert not has_schema(database)
    made = command("db", "migrate", "--url", database)

    assert (0, "") == (made.status, made.err)
    assert 0 == command("db", "status", "--url", database).status
