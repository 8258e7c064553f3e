"""Times of day, parts of the day, sets of times as cron fields."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from duly.timetable.instants import DAY, HOUR, MINUTE
from duly.timetable.language import tokens
from duly.timetable.language.sentence import TimeWindow
from duly.timetable.language.tokens import NotUnderstoodError
from duly.timetable.phrases import clock_of, join, members, runs

if TYPE_CHECKING:
    from duly.timetable.language.sentence import Sentence
    from duly.timetable.language.tokens import DayPart, TokenCursor, WordToken


TIMES_MAX = 24
WINDOWS_MAX = 4
_TO = ("to", "until", "till", "-", "through")
_MINUTES = ("minute", "minutes", "min", "mins")
_CLOCKS = ("time", "number")
_FRACTIONS = {"quarter": 15, "half": 30}


class ClockList:
    """Reads times, minutes of the hour, parts and stretches of the day into a sentence."""

    def __init__(self, reader: TokenCursor, said: Sentence) -> None:
        """Read from `reader` into `said`."""
        self._reader, self._said = reader, said

    @staticmethod
    def starts_at(reader: TokenCursor) -> bool:
        """Say whether times come, without a word that leads to them."""
        is_clear = reader.peek().kind in ("time", "part")
        return is_clear or ClockList.starts_window(reader) or ClockList.starts_past(reader)

    @staticmethod
    def starts_past(reader: TokenCursor) -> bool:
        """Say whether "10 past", "10 minutes past", "half past" or "quarter to" comes."""
        ahead = int(reader.peek().word == "a")
        token = reader.peek(ahead)
        after = reader.peek(ahead + 1 + (reader.peek(ahead + 1).word in _MINUTES))
        if token.word in _FRACTIONS:
            return after.word == "past" or (token.word == "quarter" and after.word == "to")
        return token.kind == "number" and after.word == "past"

    @staticmethod
    def starts_window(reader: TokenCursor) -> bool:
        """Say whether "8:00 to 17:00" comes, and not "1-7 january"."""
        kinds = reader.peek().kind, reader.peek(2).kind
        is_pair = reader.peek(1).word in _TO and all(kind in _CLOCKS for kind in kinds)
        return is_pair and reader.peek(3).kind != "month"

    def read_bare(self) -> None:
        """Read times, or a stretch of the day, without a word that leads to them."""
        if self.starts_window(self._reader):
            self.stretch()
        else:
            self.read()

    def read(self) -> None:
        """Read what may follow "at"."""
        reader = self._reader
        if reader.skip_word("minute", "minutes"):
            self._minutes()
        elif reader.peek().kind == "minute":
            self._marked_minutes()
        elif reader.peek().kind == "part":
            self.parts()
        else:
            self._times()

    def parts(self) -> None:
        """Read "morning", or "mornings and evenings"."""
        reader, said = self._reader, self._said
        said.say("a part of the day")
        said.parts.append(tokens.DAY_PARTS[reader.take().value])
        while reader.continues_list(lambda token: token.kind == "part"):
            said.parts.append(tokens.DAY_PARTS[reader.take().value])

    def _times(self) -> None:
        reader, said = self._reader, self._said
        said.say("the time of day")
        if self.starts_past(reader):
            self._past()
            return
        times = [reader.take_time("a time of day").value]
        while self._goes_on():
            reader.skip_word("at")
            times.append(reader.take_time("a time of day").value)
        if reader.peek().word == "or":
            reader.refuse("'or' between times, which leaves open which one", "say 'and' for both")
        if len(times) > TIMES_MAX:
            remedy = "use 'every … between …' for many times a day"
            reader.refuse(f"more than {TIMES_MAX} times", remedy)
        said.times = times

    def _goes_on(self) -> bool:
        """Go past "and", and past "and at" where a time comes after it."""
        reader = self._reader
        if reader.continues_list(lambda token: token.kind in _CLOCKS):
            return True
        is_repeated = reader.peek().word in ("and", "&", ",") and reader.peek(1).word == "at"
        if is_repeated and reader.peek(2).kind in _CLOCKS:
            reader.skip()
            return True
        return False

    def _past(self) -> None:
        """Read "10 past every hour", or one time such as "half past nine"."""
        reader, said = self._reader, self._said
        reader.skip_word("a")
        token = reader.take()
        minute = _FRACTIONS.get(token.word, token.value)
        reader.skip_word(*_MINUTES)
        is_before = reader.take().word == "to"
        if minute > 59:
            reader.refuse(f"minute {minute}", "give a minute from 0 to 59")
        if not is_before and (self._skip_every_hour() or reader.peek().kind not in _CLOCKS):
            said.minutes |= 1 << minute
            return
        hour = reader.take_time("the hour").value
        if hour % HOUR or (is_before and hour == 0):
            reader.refuse("'past' or 'to' without a whole hour", "write the time, as in 'at 9:15'")
        said.times = [hour - minute * MINUTE if is_before else hour + minute * MINUTE]
        if self._goes_on():
            # It would be open whether "10 past 9 and 17" is 17:00 or 17:10.
            reader.refuse("a list of times in words", "write them, as in 'at 9:10 and 17:10'")

    def _skip_every_hour(self) -> bool:
        """Go past "every hour" or "the hour", and note that the hours were said."""
        reader = self._reader
        is_hour = reader.peek(1).word == "hour"
        if not is_hour or reader.peek().word not in ("every", "each", "the"):
            return False
        reader.skip(2)
        self._said.is_of_hours = True
        return True

    def _minutes(self) -> None:
        """Read "5 and 35 of every hour"; "every hour" may come elsewhere."""
        reader, said = self._reader, self._said
        said.say("the time of day")
        numbers = [reader.take_number("a minute")]
        while reader.continues_list(lambda token: token.kind == "number"):
            numbers.append(reader.take_number("a minute"))
        if reader.skip_word("of", "past") and not self._skip_every_hour():
            reader.refuse_token("write 'at minute 5 of every hour'")
        for number in numbers:
            if number > 59:
                reader.refuse(f"minute {number}", "give a minute from 0 to 59")
            said.minutes |= 1 << number

    def _marked_minutes(self) -> None:
        """Read ":15 and :45", which are minutes of every hour."""
        reader, said = self._reader, self._said
        said.say("the time of day")
        said.is_of_hours = True
        said.minutes |= 1 << reader.take().value
        while reader.continues_list(lambda token: token.kind == "minute"):
            said.minutes |= 1 << reader.take().value

    def on_the_hour(self) -> bool:
        """Read "the hour" and "the half hour" after "on"; say whether they came."""
        reader, said = self._reader, self._said
        if reader.peek().word != "the":
            return False
        is_half = reader.peek(1).word == "half"
        place = 1 + is_half + (is_half and reader.peek(2).word == "-")
        if reader.peek(place).word != "hour":
            return False
        reader.skip(place + 1)
        said.say("the time of day")
        said.minutes |= 1 << (30 if is_half else 0)
        # "On the half hour" alone may mean each half hour; "every hour" must be said too.
        said.is_of_hours = not is_half
        return True

    def between(self) -> None:
        """Read "8 and 17" after "between"."""
        start = self._reader.take_time("the start of a stretch of the day")
        if not self._reader.skip_word("and"):
            self._reader.refuse_token("write 'between 8 and 17'")
        self._window(start)

    def stretch(self) -> None:
        """Read "8:00 to 17:00"."""
        start = self._reader.take_time("the start of a stretch of the day")
        if not self._reader.skip_word(*_TO):
            self._reader.refuse_token("write 'from 8:00 to 17:00'")
        self._window(start)

    def _window(self, start: WordToken) -> None:
        """Read the end of a stretch of the day, and another stretch if "and from" leads to it."""
        reader, said = self._reader, self._said
        end = reader.take_time("the end of a stretch of the day")
        if len(said.windows) == WINDOWS_MAX:
            reader.refuse(f"more than {WINDOWS_MAX} stretches of the day", "say fewer")
        said.windows.append(TimeWindow(start.value, end.value, start.is_exact and end.is_exact))
        if reader.continues_list(lambda token: token.word in ("from", "between")):
            return
        said.say("a stretch of the day")


ALL_DAY = TimeWindow(0, DAY - 1, is_exact=True)


@dataclass(frozen=True, slots=True)
class ClockSet:
    """All times whose hour, minute and second are members of three bitmasks.

    `is_interval` marks times that stand for "every so often" and were not named one by one: they
    are written with a star where they can be, which is how cron knows them.
    """

    hours: int
    minutes: int
    seconds: int = 1
    is_interval: bool = False

    @property
    def fields(self) -> str:
        """Return the fields of a cron expression for seconds (if any), minutes and hours."""
        star = self.is_interval
        text = f"{field_text(self.minutes, 60, star=star)} {field_text(self.hours, 24, star=star)}"
        return text if self.seconds == 1 else f"{field_text(self.seconds, 60, star=star)} {text}"

    @property
    def first(self) -> tuple[int, int, int]:
        """The first hour, minute and second."""
        return members(self.hours)[0], members(self.minutes)[0], members(self.seconds)[0]


def named_times(times: list[int]) -> list[ClockSet]:
    """Divide times of day that were named one by one."""
    minutes_of: dict[tuple[int, int], int] = {}
    for time in times:
        key = time % MINUTE, time // HOUR
        minutes_of[key] = minutes_of.get(key, 0) | 1 << time // MINUTE % 60
    hours_of: dict[tuple[int, int], int] = {}
    for (second, hour), minutes in sorted(minutes_of.items()):
        hours_of[second, minutes] = hours_of.get((second, minutes), 0) | 1 << hour
    return [ClockSet(hours, minutes, 1 << second) for (second, minutes), hours in hours_of.items()]


def stepped_times(step: int, within: TimeWindow) -> list[ClockSet]:
    """Divide the times of a window, every `step` seconds from its start on, its end included."""
    if within.end < within.start:
        # Beyond midnight: count on from the evening, so that the steps don't start afresh at 00:00.
        early = within.start + -(-(DAY - within.start) // step) * step - DAY
        evening = stepped_times(step, TimeWindow(within.start, DAY - 1, within.is_exact))
        morning = TimeWindow(early, within.end, within.is_exact)
        return evening + (stepped_times(step, morning) if early <= within.end else [])
    if step % MINUTE == 0 and within.start % MINUTE == 0:
        return _minute_steps(
            range(within.start // MINUTE, within.end // MINUTE + 1, step // MINUTE)
        )
    if MINUTE % step == 0 and within.start % MINUTE == 0 and (within.end + 1) % MINUTE in (0, 1):
        return _second_steps(step, within)
    remedy = "step by whole minutes, or by seconds that divide a minute, and start on a minute"
    raise NotUnderstoodError("has a distance that does not fit the clock", remedy)


def _minute_steps(minutes_of_day: range, seconds: int = 1) -> list[ClockSet]:
    minutes_of: dict[int, int] = {}
    for minute in minutes_of_day:
        minutes_of[minute // 60] = minutes_of.get(minute // 60, 0) | 1 << minute % 60
    hours_of: dict[int, int] = {}
    for hour, minutes in minutes_of.items():
        hours_of[minutes] = hours_of.get(minutes, 0) | 1 << hour
    return [
        ClockSet(hours, minutes, seconds, is_interval=True) for minutes, hours in hours_of.items()
    ]


def _second_steps(step: int, within: TimeWindow) -> list[ClockSet]:
    seconds = sum(1 << second for second in range(0, 60, step))
    end = within.end // MINUTE
    if within.end % MINUTE:
        return _minute_steps(range(within.start // MINUTE, end + 1), seconds)
    steps = _minute_steps(range(within.start // MINUTE, end), seconds)
    return steps + _minute_steps(range(end, end + 1))


def field_text(mask: int, size: int, low: int = 0, *, star: bool = False) -> str:
    """Write a bitmask as a cron field; with a star only if asked, as that changes its meaning."""
    numbers = members(mask)
    step = numbers[1] - numbers[0] if len(numbers) > 1 else 0
    if star and step and numbers == list(range(low, size, step)) and size % step == 0:
        return "*" if step == 1 else f"*/{step}"
    texts = []
    for first, last in runs(numbers):
        texts += [str(first)] if first == last else [f"{first}-{last}"]
    return ",".join(texts)


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
