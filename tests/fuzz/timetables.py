"""A coverage-guided fuzzer: whatever is typed, the answer is a timetable that holds, or a UsageError.

    make fuzz                       a minute
    make fuzz SECONDS=3600          an hour

It ends with an error at the first other exception, broken promise, or input that takes a second.
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import atheris

if TYPE_CHECKING:
    from collections.abc import Callable

with atheris.instrument_imports(include=["duly"]):
    from duly import (
        Timetable,
        UsageError,
        cron,
        every,
        monthly,
        oncalendar,
        read_plain,
        recognise,
        rrule,
        search_zones,
        timetable_from_json,
    )

ZONES = ["UTC", "Europe/Berlin", "America/Havana", "Pacific/Apia", "Australia/Lord_Howe"]
GAPS = ["next", "shift", "skip"]
FOLDS = ["first", "second", "both"]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def readers(data: atheris.FuzzedDataProvider) -> list[Callable[[str], Timetable]]:
    """Return everything that reads text, each under policies that the fuzzer chose."""
    policies = {
        "tz": data.PickValueInList(ZONES),
        "gap": data.PickValueInList(GAPS),
        "fold": data.PickValueInList(FOLDS),
    }
    start = datetime(1990 + data.ConsumeIntInRange(0, 60), 2, 28, 1, 30)
    return [
        lambda text: cron(text, **policies),
        lambda text: cron(text, seed="fuzz", **policies),
        lambda text: cron(text, dialect="quartz", **policies),
        lambda text: rrule(text, dtstart=start, **policies),
        lambda text: oncalendar(text, **policies),
        lambda text: read_plain(text, **policies),
        lambda text: recognise(text, dtstart=start.isoformat(), **policies),
        every,
        lambda text: monthly(text, at="02:30", **policies),
        lambda text: monthly(15, at=text, **policies),
        timetable_from_json,
    ]


def check(timetable: Timetable, instant: datetime) -> None:
    """Ask everything that can be asked, and hold the answers against each other."""
    assert timetable.describe().isprintable()
    assert timetable_from_json(timetable.to_json()) == timetable
    found = timetable.next(instant)
    if found is None:
        return
    assert found > instant
    assert timetable.next(found - timedelta(microseconds=1)) == found
    assert timetable.previous(found + timedelta(microseconds=1)) == found
    later = timetable.next(found)
    assert later is None or later > found
    assert timetable.upcoming(instant, 2) == [one for one in (found, later) if one is not None]


def one_input(content: bytes) -> None:
    data = atheris.FuzzedDataProvider(content)
    choices = readers(data)
    choice = data.ConsumeIntInRange(0, len(choices))
    instant = EPOCH + timedelta(seconds=data.ConsumeIntInRange(-(10**10), 10**11))
    text = data.ConsumeUnicode(data.remaining_bytes())
    refused = None
    try:
        if choice == len(choices):
            search_zones(text, at=instant)
        else:
            check(choices[choice](text), instant)
    except UsageError as error:
        refused = error
    assert not refused or (refused.field and refused.remedy and str(refused).isprintable())


if __name__ == "__main__":
    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()
