"""Moments as people type them: what lies ahead or ago is said with one sign."""

from __future__ import annotations

import pytest

from duly.errors import UsageError
from duly.timetable.language.detect import moment_from
from tests.each_row import each_row
from tests.timetable.instants import moment

NOON = moment("2026-04-02T12:00Z")


@pytest.mark.parametrize(
    ("said", "expected"),
    [("+2d", "2026-04-04T12:00Z"), ("+ 2d", "2026-04-04T12:00Z"), (" -90m ", "2026-04-02T10:30Z")],
)
def test_a_sign_says_ahead_or_ago(said, expected):
    assert moment(expected) == moment_from(said, "UTC", NOON, "at")


@each_row("said", ["++2d", "+-2d", "-+2d", "--2d", "+ -2d", " ++ 2d"])
def test_two_signs_are_refused_with_what_was_typed(said):
    """Nobody knows which of them was meant."""
    with pytest.raises(UsageError, match="has two signs") as refused:
        moment_from(said, "UTC", NOON, "at")

    assert ("at", said) == (refused.value.field, refused.value.value)
    assert "+2d or -2h" in refused.value.remedy
