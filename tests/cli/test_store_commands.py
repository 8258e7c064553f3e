"""`duly db`, `duly status`, `duly audit`: what an operator asks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import apsw

import duly
from duly.domain.audit import Actor
from duly.domain.enums import Lane
from duly.store.ports.audit import SealAudit
from duly.store.sqlite import SqliteStore
from duly_conformance import steps

if TYPE_CHECKING:
    from tests.cli.duly_command import Workplace

NIGHTLY = ("--task", "nightly_report", "--when", "every day at 2:30", "--tz", "Europe/Berlin")


def test_a_fresh_store_is_well_sound_and_up_to_date(place: Workplace):
    status = place.duly("status")
    check = place.duly("db", "check")
    migrate = place.duly("db", "migrate")

    assert (0, True) == (status.status, "All is well." in status.out), status.err
    assert (0, "sqlite:///promises.db: sound.\n") == (check.status, check.out)
    assert (0, "sqlite:///promises.db is up to date.\n") == (migrate.status, migrate.out)


def test_a_promise_that_nobody_would_keep_is_degraded(place: Workplace):
    place.duly("schedule", "create", "nightly", *NIGHTLY)
    told = place.duly("status")
    found = place.duly("status", "--json")

    assert 1 == told.status
    assert "No dispatcher is alive." in told.out
    assert "degraded: nobody will fire what is due at 20" in told.out
    assert (1, False, {"active": 1}) == (
        found.status,
        found.json["is_well"],
        found.json["schedules"],
    )


def test_a_store_that_can_not_be_opened_is_exit_code_5(place: Workplace):
    place.duly("status")
    (place.folder / "promises.db").chmod(0)
    (place.folder / "promises.db").unlink()
    (place.folder / "promises.db").mkdir()

    assert 5 == place.duly("status").status
    assert 5 == place.duly("db", "check").status


def test_a_check_says_what_is_wrong_and_what_to_do(place: Workplace):
    place.duly("schedule", "create", "nightly", *NIGHTLY)
    file = apsw.Connection(str(place.folder / "promises.db"))
    file.execute("update duly_migrations set checksum = 'changed' where number = 1")
    file.close()
    answer = place.duly("db", "check")

    assert 1 == answer.status
    assert "1 found wrong." in answer.out


def test_the_schema_status_names_each_migration(place: Workplace):
    answer = place.duly("db", "status")

    assert 0 == answer.status
    assert "applied   0001_pre_" in answer.out
    assert "usable    yes" in answer.out


def test_a_migration_that_is_missing_is_shown_before_it_is_applied(place: Workplace):
    """An operator sees the SQL first."""
    place.duly("status")
    answer = place.duly("db", "migrate", "--dry-run")

    assert (0, "-- 0 to apply; nothing was changed (--dry-run)\n") == (answer.status, answer.out)


def test_the_audit_trail_says_who_did_what_from_where_and_why(place: Workplace):
    """Also when somebody else asks later."""
    place.duly("schedule", "create", "nightly", *NIGHTLY)
    place.duly("schedule", "pause", "nightly", "--reason", "migration")
    told = place.duly("audit").out.splitlines()
    by_nobody = place.duly("audit", "--actor", "nobody", "--json").json
    paused = place.duly("audit", "--action", "schedule.paused", "--json").json
    recent = place.duly("audit", "--since", "-1h", "--until", "2999-01-01", "--json").json
    earlier = place.duly("audit", "--until", "-1h", "--json").json
    about = place.duly("audit", "--object", paused[0]["subject"], "--json").json

    assert ["ada", "cli", "schedule.paused", "nightly", "migration", "status:"] == told[1].split()[
        1:7
    ]
    assert [] == by_nobody
    assert [] == earlier
    assert ["schedule.paused", "schedule.created"] == [one["action"] for one in recent]
    assert recent == about
    assert [("nightly", "active", "paused")] == [
        (one["subject"], one["before"]["status"], one["after"]["status"]) for one in paused
    ]


def test_the_audit_trail_says_from_which_address_an_order_came_over_http(place: Workplace):
    """Beside the way by which it came in."""
    with duly.App(f"sqlite:///{place.folder}/promises.db") as app:
        by = Actor("ci", "api", None, "203.0.113.9", "token:1")
        app.within(tenant="default", actor=by, is_confined=False).queues.pause("mail", reason="why")

    assert "api, 203.0.113.9" in place.duly("audit").out
    assert ["203.0.113.9"] == [one["address"] for one in place.duly("audit", "--json").json]
    assert ["token:1"] == [one["credential"] for one in place.duly("audit", "--json").json]


def test_a_file_knows_no_roles(place: Workplace):
    refused = place.duly("db", "access", "--role", "duly_server")

    assert 2 == refused.status
    assert "role: 'duly_server' has no meaning here: sqlite:///promises.db knows no" in refused.err
    assert "use a store on PostgreSQL" in refused.err


def test_an_audit_trail_that_was_tampered_with_is_exit_code_1(place: Workplace):
    """In the store, and in a file that was exported from it."""
    path = place.folder / "promises.db"
    place.duly("schedule", "create", "nightly", *NIGHTLY)
    store = SqliteStore(path)
    fence = steps.own(store, (Lane.BACKFILL,))
    store.seal_audit(SealAudit(fence=fence, limit=10))
    store.close()
    sound = place.duly("audit", "verify", "--json").json
    place.duly("audit", "export", "sound.jsonl")
    file = apsw.Connection(str(path))
    file.execute("update duly_audit set actor = 'eve' where number = 1")
    file.close()
    told = place.duly("audit", "verify", "--known", sound["head"])
    place.duly("audit", "export", "tampered.jsonl")
    files = [place.duly("audit", "verify", name) for name in ("sound.jsonl", "tampered.jsonl")]

    assert (True, 1, 1) == (sound["is_sound"], sound["seals"], sound["entries"])
    assert 1 == told.status
    assert "changed: entry 1 is not as seal 1 has it" in told.out
    assert f"Head: {sound['head']}" in told.out
    assert [0, 1] == [one.status for one in files]


def test_an_audit_trail_that_was_emptied_is_exit_code_1(place: Workplace):
    """Also without a head that was kept; before there is a seal, what can't be told is said."""
    path = place.folder / "promises.db"
    place.duly("schedule", "create", "nightly", *NIGHTLY)
    unsealed = place.duly("audit", "verify")
    store = SqliteStore(path)
    store.seal_audit(SealAudit(fence=steps.own(store, (Lane.BACKFILL,)), limit=10))
    store.close()
    file = apsw.Connection(str(path))
    file.execute("delete from duly_audit; delete from duly_seals")
    file.close()
    emptied = place.duly("audit", "verify")

    assert 0 == unsealed.status
    assert "No seal is there: a changed entry cannot be found." in unsealed.out
    assert "promises.db: sound as far as can be told." in unsealed.out
    assert 1 == emptied.status
    assert "seal 1 is not there, although seal 1 is noted as made" in emptied.out
    assert "removed: entry 1 is not there, although number 1 was given" in emptied.out
    assert "TAMPERED WITH" in emptied.out
