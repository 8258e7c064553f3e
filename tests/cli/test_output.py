"""What every command prints with: nothing that a terminal would obey, and undo lines that work."""

from __future__ import annotations

import json

import pytest

from duly.cli.confirm import place_words
from duly.cli.output import json_line, neutral


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain café 日本", "plain café 日本"),
        ("\x1b[31mred", r"\x1b[31mred"),
        ("two\nlines\r", r"two\nlines\r"),
        ("\u202egnp.exe", r"\u202egnp.exe"),
        ("a\tb", "a   b"),
        ("half \ud800", r"half \ud800"),
    ],
)
def test_what_a_terminal_would_obey_is_spelled_out(text: str, shown: str):
    assert shown == neutral(text)


@pytest.mark.parametrize("text", ["\x7f", "\x9b31m", "\u202e é", "\U000e0001", "plain", "\ud800"])
def test_json_holds_nothing_unprintable_and_reads_back_as_it_was(text: str):
    line = json_line({"text": text})

    assert line.rstrip("\n").isprintable()
    assert {"text": text} == json.loads(line)


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        (["run", "list"], []),
        (["--url", "sqlite:///x.db", "run"], ["--url", "sqlite:///x.db"]),
        (["run", "--app=tasks:app"], ["--app", "tasks:app"]),
        (["run", "--url"], []),
        (
            ["--url", "postgresql://ada:secret@host:5432/db"],
            ["--url", "postgresql://ada@host:5432/db"],
        ),
        (["--url=postgresql://host/db?password=x"], ["--url", "postgresql://host/db"]),
    ],
)
def test_an_undo_names_the_same_store_and_no_password(typed: list[str], words: list[str]):
    assert words == place_words(typed)
