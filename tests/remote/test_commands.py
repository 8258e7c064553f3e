"""Every command over HTTP: it works as it does beside the store, or says that it can't."""

from __future__ import annotations

import json
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

import pytest

from duly.api.app import Api
from duly.cli import main as command
from duly.testing import virtual_time
from duly_conformance import alerts
from tests.api.api_fixtures import START, lives, make_app, token_for
from tests.remote import served_app
from tests.remote.live_server import listening

if TYPE_CHECKING:
    from collections.abc import Iterator

DAY = ("--since", "2026-04-02", "--until", "2026-04-03")
LOOKS = {
    "schedule list": "schedule list",
    "schedule show": "schedule show hourly",
    "schedule history": "schedule history hourly",
    "schedule occurrences": "schedule occurrences hourly --from 2026-04-03T00:00Z --to 2026-04-03T04:30Z",
    "schedule export": "schedule export",
    "delayed list": "delayed list",
    "run list": "run list --state dead --state ambiguous",
    "run show": "run show DOUBT",
    "run attempts": "run attempts DOUBT",
    "run missing": "run missing --since 2026-04-03T02:00Z",
    "run ambiguous": "run ambiguous",
    "vitals": "vitals hourly",
    "run why": "run why DOUBT",
    "run logs": "run logs DOUBT",
    "run wait": "run wait DONE",
    "backfill plan": "backfill plan hourly --since 2026-04-02 --until 2026-04-03",
    "backfill list": "backfill list",
    "backfill show": "backfill show BACKFILL",
    "prove": "prove hourly --for 2026-04-03",
    "inbox": "inbox DOUBT",
    "task list": "task list",
    "queue list": "queue list",
    "limit list": "limit list",
    "breaker list": "breaker list",
    "quota list": "quota list",
    "owner list": "owner list",
    "token list": "token list",
    "top": "top --once",
    "worker list": "worker list",
    "alert list": "alert list --state all",
    "alert show": "alert show ALERT",
    "alert silences": "alert silences",
    "alert rules": "alert rules",
    "alert channels": "alert channels",
    "audit": "audit",
    "events": "events --after 0",
}
"""What is looked at: the same is printed here and there."""
ORDERS = {
    "schedule create": "schedule create made --task report --when 1d --misfire skip",
    "schedule edit": "schedule edit made --when 2d --priority 2",
    "schedule pause": "schedule pause made --reason r",
    "schedule resume": "schedule resume made",
    "schedule trigger": "schedule trigger made --reason r",
    "schedule skip": "schedule skip made --reason r",
    "schedule delete": "schedule delete made --reason r --yes",
    "schedule restore": "schedule restore made",
    "enqueue": "enqueue report --key later --in 2h",
    "move": "move later --in 3h",
    "cancel": "cancel later --reason r",
    "run edit": "run edit DEAD -a how=well",
    "run retry": "run retry DEAD --reason r",
    "run cancel": "run cancel DEAD --reason r",
    "run discard": "run discard OTHER --reason r --yes",
    "run verify": "run verify DONE",
    "run rerun": "run rerun DONE --reason r --confirm DONE",
    "run reconcile": "run reconcile DOUBT --done --despite-missing --reason r",
    "run resume": "run resume DOUBT2 --reason r --not-done pay:b",
    "run skip": "run skip DOUBT3 --reason r",
    "backfill create": "backfill create hourly --since 2026-04-02 --until 2026-04-03 --yes",
    "backfill pause": "backfill pause BACKFILL",
    "backfill resume": "backfill resume BACKFILL",
    "backfill throttle": "backfill throttle BACKFILL --per-minute 5",
    "backfill cancel": "backfill cancel BACKFILL --reason r",
    "backfill resume-from": "backfill resume-from BACKFILL --reason r --yes",
    "task suspend-retries": "task suspend-retries fail --reason r",
    "task allow-retries": "task allow-retries fail --reason r",
    "task block-reruns": "task block-reruns fail --reason r",
    "task allow-reruns": "task allow-reruns fail --reason r",
    "queue pause": "queue pause mail --reason r",
    "queue resume": "queue resume mail",
    "queue drain": "queue drain mail --reason r",
    "limit set": "limit set task:report --running 3",
    "limit remove": "limit remove task:report",
    "quota set": "quota set owner:a --schedules 3",
    "quota remove": "quota remove owner:a",
    "owner gone": "owner gone ada --reason r",
    "owner back": "owner back ada",
    "token create": "token create bob --role viewer",
    "token revoke": "token revoke TOKEN --reason r",
    "worker quarantine": "worker quarantine WORKER --reason r",
    "worker release": "worker release WORKER",
    "worker drain": "worker drain WORKER --reason r",
    "alert acknowledge": "alert acknowledge ALERT --reason r",
    "alert silence": "alert silence --duration 1h --kind queue-age --reason r",
    "alert unsilence": "alert unsilence SILENCE --reason r",
    "alert rule set": "alert rule set queue-age --threshold 9m --for 1m --off",
    "alert rule remove": "alert rule remove queue-age",
    "alert channel add": "alert channel add ops log",
    "alert channel test": "alert channel test ops",
    "alert channel remove": "alert channel remove ops",
    "status": "status",
}
"""What is ordered, one after the other; and what a server tells less of."""
NOT_THERE = {
    "breaker show": "breaker show nowhere",
    "breaker reset": "breaker reset nowhere --reason r",
}
"""What this server has none of."""
REFUSED = {
    "schedule diff": "schedule diff FILE",
    "schedule apply": "schedule apply --file FILE",
    "exec": "exec x -- true",
    "dispatcher": "dispatcher",
    "worker": "worker",
    "server": "server",
    "dev": "dev",
    "doctor --fix": "doctor --fix",
    "export": "export FILE",
    "audit verify": "audit verify",
    "audit export": "audit export",
    "import": "import FILE",
    "db migrate": "db migrate",
    "db status": "db status",
    "db check": "db check",
    "db access": "db access --role role",
    "config show": "config show",
}
"""What needs the store itself, or the program."""
ALONE = {"next", "zones search", "zones diff", "init", "completion", "demo", "version"}
"""What needs neither a store nor a server."""


class Living(NamedTuple):
    """A server: where, with which token, and what stands for names there."""

    url: str
    token: str
    names: dict[str, str]


class Ended(NamedTuple):
    """How a command ended, and what it printed."""

    code: object
    out: str
    err: str


@contextmanager
def alive() -> Iterator[Living]:
    """Have a server, and what stands for the names in a command."""
    app, before = make_app(), served_app.app
    with virtual_time(app, START) as clock:
        lives(app, clock)
        for _ in range(2):
            app.enqueue(app.call("settle"))
        app.enqueue(app.call("fail"))
        app.enqueue(app.call("report"), key="tomorrow", delay="1d")
        clock.advance("1m")
        app.limits.set("task:fail", running=2, reason="slowly")
        backfill = app.backfills.create(
            "hourly", since="2026-04-01T00:00Z", until="2026-04-01T03:00Z"
        )
        doubts = [str(one.run.id) for one in app.inbox.list()]
        dead = [str(one.id) for one in app.runs.list(state="dead")]
        names = {
            "DOUBT2": doubts[1],
            "DOUBT3": doubts[2],
            "DOUBT": doubts[0],
            "DEAD": dead[0],
            "OTHER": dead[1],
            "DONE": str(app.runs.list(state="succeeded", origin="schedule")[0].id),
            "BACKFILL": str(backfill.id),
            "TOKEN": app.tokens.create("old", role="viewer").token.prefix,
            "WORKER": str(app.workers.list()[0].id),
            "ALERT": raise_one(app.store),
            "SILENCE": str(app.alerts.silence(duration="9d", reason="r").id),
        }
        token = token_for(app)["Authorization"].removeprefix("Bearer ")
        served_app.app = app
        # A command closes what it has used, and the server goes on.
        app.close = lambda: None  # type: ignore[method-assign]
        with listening(Api(app)) as url:
            yield Living(url, token, names)
        served_app.app = before


@pytest.fixture(scope="module")
def living():
    """A server for all who change nothing that others look at."""
    with alive() as one:
        yield one


@pytest.fixture
def own():
    """A server of one test's own."""
    with alive() as one:
        yield one


def raise_one(store) -> str:
    """Have something be wrong; return the alert."""
    alerts.look(store, alerts.watch(store), alerts.condition())
    return str(UUID(bytes=alerts.listed(store)[0].id))


@pytest.fixture
def run(living, monkeypatch, capsys, tmp_path):
    """Run a command, at the server or beside the store."""
    return runner(living, monkeypatch, capsys, tmp_path)


@pytest.fixture
def order(own, monkeypatch, capsys, tmp_path):
    """Run a command that changes much, at a server of its own."""
    return runner(own, monkeypatch, capsys, tmp_path)


def runner(living, monkeypatch, capsys, tmp_path):
    """Return what runs a command."""
    url, token, names = living
    (tmp_path / "FILE").write_text("")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DULY_TOKEN", token)
    monkeypatch.setenv("DULY_URL", "")
    monkeypatch.setenv("DULY_APP", "")
    monkeypatch.setenv("COLUMNS", "200")

    def run(words: str, *more: str, is_there: bool = True) -> Ended:
        monkeypatch.setenv("DULY_URL", url if is_there else "")
        monkeypatch.setenv("DULY_APP", "" if is_there else "tests.remote.served_app:app")
        monkeypatch.setenv("DULY_TENANT", "")
        for name, identity in names.items():
            words = words.replace(name, identity)
        with pytest.raises(SystemExit) as ended:
            command.main([*words.split(), *more])
        told = capsys.readouterr()
        return Ended(ended.value.code, told.out, told.err)

    return run


def names_of(group, path: tuple[str, ...] = ()) -> Iterator[str]:
    """Tell the name of every command."""
    for name in group:
        if name.startswith("-"):
            continue
        found = group[name]
        inner = [one for one in found if not one.startswith("-")]
        if inner:
            yield from names_of(found, (*path, name))
        if not inner or found.default_command is not None:
            yield " ".join((*path, name))


def test_of_every_command_it_is_known_whether_it_works_from_afar():
    """Nobody adds a command without saying what it does with a server."""
    known = [*LOOKS, *ORDERS, *NOT_THERE, *REFUSED, *ALONE, "doctor"]
    known.remove("doctor --fix")

    assert sorted(names_of(command.app)) == sorted(known)


MORE_LOOKS = (
    "run list --as-of 2026-04-03T03:00Z",
    "schedule show hourly --as-of 2026-04-03T03:00Z",
    "audit --as-of 2026-04-03T03:00Z",
)


@pytest.mark.parametrize("words", [*LOOKS.values(), *MORE_LOOKS])
def test_a_look_prints_the_same_here_and_there(run, words):
    """--url names a store or a server, and the answer is one."""
    for more in ((), ("--json",)):
        there, beside = run(words, *more), run(words, *more, is_there=False)

        assert there.code in {0, 1, 6}, there
        assert settled(beside) == settled(there)


def settled(ended: Ended) -> Ended:
    """Return it without when the token was last used: asking is using it."""
    used = r'("last_used_at": )("[^"]*"|null)|2026-04-03T\d\d:\d\d:\d\dZ( +)(?=ada|anna|by)'
    return Ended(ended.code, re.sub(used, "", ended.out), ended.err)


def test_many_are_ordered_about_from_afar_as_beside_the_store(order):
    """The set is the server's, and so is what is told of each."""
    order("schedule create far-a --task report --when 1d")
    order("schedule create far-b --task report --when 1d")
    shown = order("schedule pause --prefix far- --reason r --dry-run --json")
    selection = json.loads(shown.out)["id"]
    done = order(f"schedule pause --selection {selection} --reason r --yes --json")
    again = order(f"schedule pause --selection {selection} --reason r --yes")
    back = order("schedule resume far-a far-b --reason r --yes")
    rerun = order("run rerun --task fail --reason r --yes --json")
    skipped = order("run skip DOUBT DEAD --reason r --dry-run")

    assert (0, [True, True]) == (
        done.code,
        [one["is_done"] for one in json.loads(done.out)["schedules"]],
    ), done.err
    assert (0, True) == (again.code, "was changed by anna since it was seen" in again.out)
    assert (0, "Resumed: 2 schedules.") == (back.code, back.out.splitlines()[0]), back.err
    assert (0, True) == (rerun.code, json.loads(rerun.out)["is_done"]), rerun.err
    assert "is dead, not ambiguous" in skipped.out


def test_orders_are_given_from_afar(order):
    """Whatever a person may order beside the store, they may order at a server."""
    for words in ORDERS.values():
        ended = order(words)

        assert ended.code == (1 if words == "status" else 0), (words, ended)
        assert ended.out


def test_a_token_of_every_tenant_names_whose_things_are_meant(run):
    """By an option before or behind the command, or a variable; what is told to undo names it, too."""
    made = run("--tenant acme enqueue report --key theirs --in 2h")
    theirs = run("--tenant acme delayed list --json")
    ours = run("delayed list --json")
    beside = run("--tenant=acme delayed list --json", is_there=False)
    asked = run("delayed list --tenant acme --json")

    assert 0 == made.code, made.err
    assert ["theirs"] == [one["key"] for one in json.loads(theirs.out)]
    assert "theirs" not in ours.out
    assert theirs.out == beside.out
    assert theirs.out == asked.out


def test_the_state_of_one_tenant_is_told_of_it_alone(run):
    """Also to a token that sees all; without a name it is everybody's."""
    run("--tenant globex enqueue report --key globex --in 2h")
    own, everybody = (
        json.loads(run(words).out) for words in ("--tenant globex status --json", "status --json")
    )
    beside = json.loads(run("--tenant globex status --json", is_there=False).out)

    assert ("globex", 1) == (own["tenant"], own["delayed"])
    assert everybody["tenant"] is None
    assert everybody["delayed"] > 1
    assert (own["schedules"], own["delayed"], own["judged"]) == (
        beside["schedules"],
        beside["delayed"],
        beside["judged"],
    )
    assert ", of globex" in run("--tenant globex status").out


def test_a_token_of_one_tenant_names_no_other(run, living, monkeypatch):
    token = token_for(served_app.app, name="eve", tenant="acme", role="viewer")
    monkeypatch.setenv("DULY_TOKEN", token["Authorization"].removeprefix("Bearer "))
    own = run("--tenant acme status --json")
    others = run("--tenant default run list")

    assert 5 != own.code, own.err
    assert (1, True) == (others.code, "of another tenant" in others.err), others


@pytest.mark.parametrize("words", NOT_THERE.values())
def test_what_is_not_there_is_said_as_it_is_beside_the_store(run, words):
    there, beside = run(words), run(words, is_there=False)

    assert 3 == there.code
    assert beside == there


@pytest.mark.parametrize("words", REFUSED.values())
def test_what_needs_the_store_itself_is_refused_in_a_sentence(run, words):
    """One clear error, before anything is done."""
    before, _, after = words.partition(" -- ")
    ended = run(before, "--json", *(("--", after) if after else ()))

    assert 2 == ended.code
    assert "" == ended.out
    assert "is a server" in json.loads(ended.err)["problem"]


def test_the_doctor_asks_a_server_what_it_finds_where_it_runs(run):
    """The same findings, codes and exit code, of the installation that serves."""
    there, beside = run("doctor", "--json"), run("doctor", "--json", is_there=False)
    found, own = json.loads(there.out), json.loads(beside.out)

    assert there.code == beside.code
    assert [one["about"] for one in own["checks"]] == [one["about"] for one in found["checks"]]
    assert [one["code"] for one in own["checks"]] == [one["code"] for one in found["checks"]]
    assert (own["level"], []) == (found["level"], found["mended"])


def test_an_error_ends_a_command_as_it_does_beside_the_store(run):
    for words in (
        "schedule show nowhere",
        "schedule pause hourly --reason r --until 2020-01-01",
        "enqueue nothing",
        "run retry DONE --reason r",
        "run list --state asleep",
    ):
        there, beside = run(words), run(words, is_there=False)

        assert there.code in {2, 3, 4}, there
        assert (words, beside) == (words, there)


def test_without_a_token_one_is_asked_for(run, monkeypatch, tmp_path):
    monkeypatch.setenv("DULY_TOKEN", "")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    ended = run("status")

    assert 1 == ended.code
    assert "$DULY_TOKEN" in ended.err


def test_a_token_in_the_clear_goes_nowhere(run):
    """A server elsewhere is asked by HTTPS."""
    ended = run("--url http://example.com:8420 status")

    assert 2 == ended.code
    assert "https://" in ended.err
