"""An explicit --url, before the command or behind it, names the store of an order, or is refused."""

from __future__ import annotations

import json
import sys
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

import pytest

from duly.cli import main as command
from tests.remote.test_commands import LOOKS, ORDERS, REFUSED

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.duly_command import Workplace

OWN = "import duly\napp = duly.App('sqlite:///own.db')\n@app.task\ndef nightly_report(): ...\n"
APPLICATIONS = {
    "": "",
    "follows": "duly.App()",
    "own": "duly.App('sqlite:///own.db')",
    "theirs": "duly.App('postgresql://me@localhost/theirs')",
}
VARIABLES = ("", "sqlite:///variable.db", "postgresql://localhost/variable", "http://localhost:1")
ASKED = (
    "sqlite:///asked.db",
    "sqlite:///./own.db",
    "postgresql://me@localhost/theirs",
    "postgresql://me@localhost/theirs?host=elsewhere",
    "postgresql://localhost/asked",
    "http://localhost:1",
)
OF_APPLICATION = {"own": "sqlite:///./own.db", "theirs": "postgresql://me@localhost/theirs"}
"""The one of ASKED that an application names itself."""
WINS = {"export", "import"}
"""They need no task, so a program that is named by $DULY_APP alone is not asked."""


class Ended(NamedTuple):
    """How a command ended, and what it printed."""

    code: object
    out: str
    err: str


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Run a command in this process, in a folder with programs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    known = set(sys.modules)

    def run(*words: str, application: str = "", url: str = "") -> Ended:
        for name, value in (("APP", application), ("URL", url), ("TENANT", "")):
            monkeypatch.setenv(f"DULY_{name}", value)
        with pytest.raises(SystemExit) as ended:
            command.main(list(words))
        return Ended(ended.value.code, *capsys.readouterr())

    yield run
    for name in set(sys.modules) - known:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


def in_both_places(url: str, *words: str) -> list[tuple[str, ...]]:
    end = words.index("--") if "--" in words else len(words)
    return [("--url", url, *words), (*words[:end], "--url", url, *words[end:])]


def test_an_explicit_store_wins_or_is_refused(run, tmp_path: Path):
    """Whatever the program and the variable name."""
    wrong = []
    cases = product(APPLICATIONS.items(), VARIABLES, ASKED)
    for number, ((kind, program), variable, asked) in enumerate(cases):
        place = f"program_{number}:app" if kind else ""
        (tmp_path / f"program_{number}.py").write_text(f"import duly\napp = {program}\n")
        is_refused = kind in OF_APPLICATION and OF_APPLICATION[kind] != asked
        for words in in_both_places(asked, "config", "show", "--json"):
            ended = run(*words, application=place, url=variable)
            sys.modules.pop(f"program_{number}", None)
            if asked.startswith("http"):
                is_right = ended.code == 2 and f"{asked!r} is a server" in ended.err
            elif is_refused:
                is_right = ended.code == 2 and f"is not the store of {place}" in ended.err
            else:
                is_right = ended.code == 0 and names(ended) == plain(asked)
            if not is_right or "warning" in ended.err:
                wrong.append((kind, variable, words, ended))

    assert [] == wrong


def names(ended: Ended) -> str:
    """Return the store that the settings name."""
    return next(plain(one["value"]) for one in json.loads(ended.out) if one["name"] == "url")


def plain(url: str) -> str:
    """Return a URL as it is shown, by one way of writing it."""
    return url.replace("me@", "").replace("/./", "/").partition("?")[0]


def test_no_command_works_on_another_store_than_the_one_that_was_named(run, tmp_path: Path):
    """Neither those that look, nor those that order: nothing is read or made."""
    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "FILE").write_text("")
    commands = {**LOOKS, **ORDERS, **REFUSED, "worker": "worker --no-supervisor"}
    there = sorted(one.name for one in tmp_path.iterdir())
    wrong = []
    for url in ("sqlite:///other.db", "postgresql://localhost/other"):
        for words in (words for name, words in commands.items() if name not in WINS):
            for typed in in_both_places(url, *words.replace("WORKER", "7").split()):
                ended = run(*typed, application="own:app")
                if ended.code != 2 or f"{url!r} is not the store of own:app" not in ended.err:
                    wrong.append((typed, ended))

    assert [] == wrong
    assert there == sorted({one.name for one in tmp_path.iterdir()} - {"__pycache__"})


def test_a_store_that_is_named_twice_is_refused(run):
    ended = run("--url", "sqlite:///one.db", "status", "--url", "sqlite:///two.db")

    assert (2, True) == (ended.code, "--url specified multiple times" in ended.err)


def test_a_tenant_before_a_command_about_all_is_refused_as_behind_it(run):
    for words in ("export", "audit verify", "db check", "worker", "server", "dev", "dispatcher"):
        ended = run("--tenant", "acme", *words.split(), application="own:app")

        assert (2, True) == (ended.code, "tenant: 'acme' can't be chosen" in ended.err), words


def test_an_order_changes_the_store_that_was_named_and_no_other(place: Workplace):
    (place.folder / "own.py").write_text(OWN)
    make = ("schedule", "create", "nightly", "--task", "nightly_report", "--when", "1d")
    pause = ("schedule", "pause", "nightly", "--reason", "holidays")
    own, other = {"DULY_APP": "own:app", "DULY_URL": ""}, "sqlite:///other.db"
    place.duly(*make, **own)
    for words in in_both_places(other, *make):
        place.duly(*words, DULY_APP="tasks:app")
    refused = [place.duly(*words, **own) for words in in_both_places(other, *pause)]
    ordered = place.duly("--url", other, *pause, "--app", "", **own)

    assert [2, 2] == [one.status for one in refused]
    assert all("--app ''" in one.err for one in refused)
    assert (0, True) == (ordered.status, f"--url {other}" in ordered.out), ordered.err
    assert "active" == status(place, "sqlite:///own.db")
    assert "paused" == status(place, other)


def status(place: Workplace, url: str) -> str:
    shown = place.duly("schedule", "show", "nightly", "--url", url, "--json", DULY_APP="")
    return str(shown.json["status"])
