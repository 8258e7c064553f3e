"""A test of a table fails when one row does, and reports each that does."""

from __future__ import annotations

import pytest

from tests.each_row import each_row


@pytest.fixture
def limit():
    return 2


def test_every_row_that_fails_is_reported_and_no_other():
    @each_row(("text", "length"), [("a", 1), ("bc", 3), ("d", 1), ("\u00e9", 7)])
    def table(text, length):
        assert length == len(text), text

    with pytest.raises(pytest.fail.Exception) as caught:
        table()

    said = str(caught.value)
    assert said.startswith("2 of 4 rows fail:\n  'bc', 3\n")
    assert r"'\xe9', 7" in said
    assert "'a', 1" not in said
    assert "test_each_row.py" in said


def test_a_failed_expectation_of_an_error_is_a_row_that_fails():
    @each_row("text", ["1", "x"])
    def table(text):
        with pytest.raises(ValueError, match="invalid"):
            int(text)

    with pytest.raises(pytest.fail.Exception, match="1 of 2 rows fail"):
        table()


def test_a_table_without_rows_is_refused():
    with pytest.raises(AssertionError, match="proves nothing"):
        each_row("text", [])


@each_row("first", [1, 2])
@each_row("second", [0, 1])
def test_tables_may_be_crossed_and_share_fixtures(limit, first, second):
    assert first + second > second
    assert first <= limit
