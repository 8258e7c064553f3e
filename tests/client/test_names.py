"""Names that look the same are the same name, in every form in which Unicode writes them."""

from __future__ import annotations

import unicodedata
from uuid import UUID

import pytest

import duly
from duly import Conflict, every
from duly.client.parameters import (
    read_key,
    read_name,
    read_owner,
    read_queue,
    read_reason,
    read_tenant,
)
from duly.client.tasks import read_task_name
from duly.domain.schedules import mixed_alphabets
from duly.testing import SeededDraws
from duly_conformance import steps
from tests.each_row import each_row

COMPOSED = unicodedata.normalize("NFC", "caf\u00e9-r\u00e9gl\u00e9")
DECOMPOSED = unicodedata.normalize("NFD", COMPOSED)


@pytest.fixture
def app(kept):
    store, clock = kept
    app = duly.App(store=store, clock=clock, draws=SeededDraws(), actor="ada")
    app.task(name="report")(lambda: None)
    return app


def test_a_schedule_is_found_by_every_form_of_its_name(app):
    made = app.schedules.create(DECOMPOSED, app.call("report"), every("1h"), owner=DECOMPOSED)

    assert (COMPOSED, COMPOSED) == (made.name, made.owner)
    assert [made.id] * 2 == [app.schedules.get(one).id for one in (COMPOSED, DECOMPOSED)]
    assert [made.id] == [one.id for one in app.schedules.list(owner=DECOMPOSED)]
    with pytest.raises(Conflict):
        app.schedules.create(COMPOSED, app.call("report"), every("2h"))


def test_a_schedule_that_was_stored_in_another_form_is_still_found(app):
    """Releases before this one stored names as they were given."""
    stored = steps.create(app.store, DECOMPOSED, tenant=app.tenant)

    assert UUID(bytes=stored.id) == app.schedules.get(DECOMPOSED).id


@each_row(
    "read",
    [read_key, read_name, read_owner, read_queue, read_reason, read_task_name, read_tenant],
)
def test_each_kind_of_name_has_one_form(read):
    assert COMPOSED == read(DECOMPOSED)


@each_row(
    ("name", "alphabets"),
    [
        ("nightly", []),
        ("caf\u00e9", []),
        ("\u043e\u0442\u0447\u0451\u0442", []),  # a word in Cyrillic letters
        ("\u043e\u0442\u0447\u0451\u0442-report", []),  # each word has one alphabet
        ("n\u0456ghtly", ["Latin", "Cyrillic"]),
        ("p\u03b1y", ["Latin", "Greek"]),
        ("\u6bce\u65e5report", []),
    ],
)
def test_a_word_that_mixes_alphabets_is_noticed(name, alphabets):
    assert alphabets == mixed_alphabets(name)


def test_a_schedule_whose_name_can_pass_for_another_says_so(app):
    looks_like_nightly = "n\u0456ghtly"
    app.schedules.create("nightly", app.call("report"), every("1h"))
    made = app.schedules.create(looks_like_nightly, app.call("report"), every("1h"))

    assert "mixes Latin and Cyrillic letters" in made.warning
    assert [None, made.warning] == [
        app.schedules.get(one).warning for one in ("nightly", looks_like_nightly)
    ]
