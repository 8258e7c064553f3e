"""Every hostile text, to everything that reads one: it is read, or refused by an error of ours."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.each_row import each_row
from tests.fuzz.readers import READERS, attempt, encoded_field
from tests.security.corpora import KINDS

TEXTS = [text for texts in KINDS.values() for text in texts]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=6,
)
SHARES = 10
FIELDS = ("url", "secret", "headers", "host", "threshold", "hold_for", "kind", "number", "subject")


def test_every_kind_of_reader_is_there():
    """Forms, filters, bodies and queries are taken from the tables of pages and routes."""
    begun = {name.partition(" ")[0] for name in READERS}

    assert {"rule", "channel", "query", "body", "form", "filter", "silence", "cookie"} <= begun
    assert {
        "declarations",
        "traceparent",
        "forwarded",
        "web address",
        "audit line",
    } <= READERS.keys()
    assert len(READERS) > 120


@each_row("name", READERS)
def test_a_hostile_text_is_read_or_refused(name):
    # There are a hundred of those that tables make alike: each has its share of the texts.
    is_one_of_many = name.startswith(("body", "form", "filter", "query", "rule"))
    begin = len(name) % SHARES
    for text in TEXTS[begin::SHARES] if is_one_of_many else TEXTS:
        attempt(name, text)
        if name.startswith(("form", "filter", "query")):
            attempt(name, encoded_field("reason", text))


@each_row("name", READERS)
def test_a_document_of_any_shape_is_read_or_refused(name):
    """Also where a text was to be, there may be whatever JSON can say."""

    @settings(max_examples=10, deadline=None, database=None, derandomize=True)
    @given(
        st.dictionaries(st.sampled_from(FIELDS) | st.text(max_size=9), VALUES, max_size=4) | VALUES
    )
    def tried(document):
        attempt(name, json.dumps(document))

    tried()
