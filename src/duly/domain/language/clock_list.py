"""Times of day as people list them: "9 and 18:00", ":15", "half past nine", "from 8 to 17"."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.domain.instants import HOUR, MINUTE
from duly.domain.language import vocabulary
from duly.domain.language.sentence import Window

if TYPE_CHECKING:
    from duly.domain.language.reader import Reader
    from duly.domain.language.sentence import Sentence
    from duly.domain.language.tokens import Token

TIMES_MAX = 24
WINDOWS_MAX = 4
_TO = ("to", "until", "till", "-", "through")
_MINUTES = ("minute", "minutes", "min", "mins")
_CLOCKS = ("time", "number")
_FRACTIONS = {"quarter": 15, "half": 30}


class ClockList:
    """Reads times, minutes of the hour, parts and stretches of the day into a sentence."""

    def __init__(self, reader: Reader, said: Sentence) -> None:
        """Read from `reader` into `said`."""
        self._reader, self._said = reader, said

    @staticmethod
    def starts_at(reader: Reader) -> bool:
        """Say whether times come, without a word that leads to them."""
        is_clear = reader.peek().kind in ("time", "part")
        return is_clear or ClockList.starts_window(reader) or ClockList.starts_past(reader)

    @staticmethod
    def starts_past(reader: Reader) -> bool:
        """Say whether "10 past", "10 minutes past", "half past" or "quarter to" comes."""
        ahead = int(reader.peek().word == "a")
        token = reader.peek(ahead)
        after = reader.peek(ahead + 1 + (reader.peek(ahead + 1).word in _MINUTES))
        if token.word in _FRACTIONS:
            return after.word == "past" or (token.word == "quarter" and after.word == "to")
        return token.kind == "number" and after.word == "past"

    @staticmethod
    def starts_window(reader: Reader) -> bool:
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
        said.parts.append(vocabulary.DAY_PARTS[reader.take().value])
        while reader.continues_list(lambda token: token.kind == "part"):
            said.parts.append(vocabulary.DAY_PARTS[reader.take().value])

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

    def _window(self, start: Token) -> None:
        """Read the end of a stretch of the day, and another stretch if "and from" leads to it."""
        reader, said = self._reader, self._said
        end = reader.take_time("the end of a stretch of the day")
        if len(said.windows) == WINDOWS_MAX:
            reader.refuse(f"more than {WINDOWS_MAX} stretches of the day", "say fewer")
        said.windows.append(Window(start.value, end.value, start.is_exact and end.is_exact))
        if reader.continues_list(lambda token: token.word in ("from", "between")):
            return
        said.say("a stretch of the day")
