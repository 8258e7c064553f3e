"""What the command prints of somebody's words: a terminal shows it, and obeys nothing."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

import duly
from duly import DulyError, every
from tests.cli.duly_command import Workplace
from tests.security.corpora import HEADERS, LINES, MARKUP

if TYPE_CHECKING:
    from pathlib import Path

TEXTS = [*LINES, *HEADERS, *MARKUP[-20:]]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Workplace:
    """A store in which every name, owner, key and reason is hostile, where it may be."""
    folder: Path = tmp_path_factory.mktemp("hostile")
    made = Workplace.made_in(folder)
    app = duly.App(store=made.store, actor="ada")
    task = app.task(name="send_reminder")(lambda class_id, note="": None)
    for number, text in enumerate(TEXTS):
        for name, owner, key, reason in (
            (text, "anna", f"k{number}", "why"),
            (f"n{number}", text, f"k{number}", "why"),
            (f"n{number}", "anna", text, text),
        ):
            with suppress(DulyError):  # what may not be a name, or is one already
                one = app.schedules.create(name, task.bind(1, note=text), every("1h"), owner=owner)
                app.schedules.pause(one.id, reason=reason)
                app.enqueue(task.bind(2, note=text), key=key)
    app.close()
    return made


@pytest.mark.parametrize(
    "words",
    [
        ("schedule", "list"),
        ("run", "list"),
        ("audit",),
        ("status",),
        ("events", "--after=0"),
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("form", ["--json", "--wide"])
def test_nothing_that_is_printed_moves_a_cursor(place: Workplace, words, form: str):
    """Neither as a table nor as JSON."""
    answer = place.duly(*words, form)
    printed = answer.out + answer.err

    assert answer.status in {0, 1}, answer.err
    assert len(printed) > 100
    assert printed.replace("\n", "").isprintable()


@pytest.mark.parametrize("words", [("schedule", "list"), ("run", "list"), ("audit",)])
def test_a_tab_in_a_table_is_never_of_its_cells(place: Workplace, words: tuple[str, ...]):
    """Into a pipe, tabs part the cells: a row has as many of them as the headings."""
    lines = place.duly(*words).out.splitlines()

    assert len(lines) > 2
    assert {lines[0].count("\t")} == {line.count("\t") for line in lines}
    assert all(line.replace("\t", "").isprintable() for line in lines)


@pytest.mark.parametrize("text", TEXTS[::6], ids=ascii)
def test_an_error_about_a_text_shows_it_and_obeys_nothing(place: Workplace, text: str):
    if "\x00" in text:
        return  # no program can be given this
    answer = place.duly("schedule", "show", "--", text)

    assert answer.status
    assert (answer.out + answer.err).replace("\n", "").isprintable()
