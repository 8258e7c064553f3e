"""Calendar events as systemd itself answers them, under the two policies that are its own.

systemd drops local times that a change of clocks skips and takes the first of two that look alike:
gap="skip", fold="first". No other pair of our policies reproduces the file.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from duly import UsageError, oncalendar
from duly.timetable.local_time import FOLDS, GAPS
from duly.timetable.zones import default_zones
from tests.corpora.corpus import Row, instant, rows

ROWS_THAT_TELL = 400


def answered(row: Row, gap: str, fold: str) -> list[datetime]:
    timetable = oncalendar(row["expr"], tz=row["tz"], gap=gap, fold=fold)  # type: ignore[arg-type]
    n = len(row["expect"]) + (1 if row["exhausted"] else 0)
    return timetable.upcoming(instant(row["start"]), n)


def expected(row: Row) -> list[datetime]:
    """Read the answers; where our release of a zone has another offset by now, keep the local time."""
    zone = default_zones().zone(row["tz"])
    answers = []
    for text in row["expect"]:
        moment = instant(text)
        offset = timedelta(seconds=zone.segment(int(moment.timestamp())).offset)
        is_as_then = offset == moment.utcoffset()
        answers.append(moment if is_as_then else moment.replace(tzinfo=UTC) - offset)
    return answers


def wrong_rows(gap: str, fold: str) -> list[str]:
    questions = [row for row in rows("oncalendar") if row["kind"] == "oncalendar_next"]
    assert questions
    return [row["id"] for row in questions if answered(row, gap, fold) != expected(row)]


def test_every_answer_of_systemd_is_reproduced():
    assert [] == wrong_rows("skip", "first")


def test_almost_every_answer_was_computed_under_the_offsets_of_today():
    """Otherwise the mending of offsets above would hide mistakes."""
    questions = [row for row in rows("oncalendar") if row["kind"] == "oncalendar_next"]
    mended = [row for row in questions if expected(row) != [instant(t) for t in row["expect"]]]

    assert len(mended) <= max(5, len(questions) // 50)


@pytest.mark.parametrize("gap", GAPS)
@pytest.mark.parametrize("fold", FOLDS)
def test_the_rows_at_changes_of_clocks_tell_the_policies_apart(gap, fold):
    """The file is sensitive to the policies, so that passing it says something about them."""
    is_systemds = (gap, fold) == ("skip", "first")
    is_right = wrong_rows(gap, fold) == []
    if is_right and len(rows("oncalendar")) < ROWS_THAT_TELL:
        pytest.skip("this folder holds too few rows to tell")

    assert is_systemds == is_right


def test_what_systemd_refuses_is_refused_by_naming_the_part():
    """An error for each, with a field that is part of the expression, and a remedy."""
    refused = [row["expr"] for row in rows("oncalendar") if row["kind"] == "oncalendar_invalid"]
    assert refused
    parts = {"oncalendar", "weekday", "date", "time", "year", "month", "day"}
    parts |= {"hour", "minute", "second"}
    for expression in refused:
        with pytest.raises(UsageError) as caught:
            oncalendar(expression)

        assert caught.value.field in parts, expression
        assert caught.value.remedy, expression
