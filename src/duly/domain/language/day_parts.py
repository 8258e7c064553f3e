"""Parts of the day, which a time that is said beside them must be in: "every evening at 19:30"."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.domain.instants import DAY, HOUR, MINUTE
from duly.domain.language.tokens import NotUnderstoodError
from duly.domain.timetable.phrases import clock_of, join

if TYPE_CHECKING:
    from duly.domain.language.sentence import Sentence
    from duly.domain.language.vocabulary import DayPart

NIGHT_ENDS = 6 * HOUR


def check_parts(said: Sentence) -> None:
    """Refuse times that are not in the parts of the day that were said."""
    if not said.parts:
        return
    if said.step or said.minutes or said.windows:
        remedy = "say from when to when, as in 'between 8 and 12'"
        raise NotUnderstoodError("has a part of the day, which has no exact ends", remedy)
    if said.times is None:
        # Alone, as "nightly", it is no shorthand: midnight is not what it says.
        raise NotUnderstoodError("says no time of day")
    for time in said.times:
        if not any(part.includes(time) for part in said.parts):
            names = join([part.name for part in said.parts], "or")
            remedy = f"{_range(said.parts[0])}, or leave the word out"
            problem = f"has a time that is not in the {names}, {clock_of(time)}"
            raise NotUnderstoodError(problem, unless_mended=remedy)
    for part in said.parts:
        if not any(part.includes(time) for time in said.times):
            raise NotUnderstoodError(f"has no time for the {part.name}", _range(part))
    _check_night(said)


def _range(part: DayPart) -> str:
    end = clock_of((part.end - MINUTE) % DAY)
    return f"give a time from {clock_of(part.start)} to {end} for the {part.name}"


def _check_night(said: Sentence) -> None:
    """Refuse "friday night at 1:00", which most people say on a friday about a saturday."""
    assert said.times is not None, "checked before"
    is_early = any(time < NIGHT_ENDS for time in said.times)
    is_on_days = not said.days.is_any or said.left_out or (said.period and said.period[1] > 1)
    if is_early and is_on_days and any(part.end > DAY for part in said.parts):
        problem = "has an hour after midnight in the night of a day, which may be the day after"
        remedy = "leave 'night' out, and name the day that it is then"
        raise NotUnderstoodError(problem, remedy)
