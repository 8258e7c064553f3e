"""What timetables made of others share: how many they may be, and what one answer may cost.

An exclusion asks again and again until an occurrence is left. Exclusions within exclusions would
multiply, so all parts of a timetable draw on one patience: a number of questions, counted together.
What a part has answered holds until its own next occurrence, so it is not worked out again before.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field

from duly.domain.timetable.timetable import Timetable
from duly.errors import UsageError

SIZE_MAX = 150
DEPTH_MAX = 20
QUESTIONS_MAX = 5000


class Patience:
    """How many more questions may be asked for one answer."""

    def __init__(self, asked: Timetable, questions: int = QUESTIONS_MAX) -> None:
        """Allow a number of questions for an answer of the timetable that was asked."""
        self._asked, self._left = asked, questions
        self._ahead: dict[int, tuple[int, int | None]] = {}
        self._behind: dict[int, tuple[int, int | None]] = {}

    def first_from(self, part: Timetable, instant: int) -> int | None:
        """Ask a part for its first occurrence not before an instant, and count the question."""
        self.spend()
        if isinstance(part, Combined):
            return part.first_within(instant, self)
        asked, found = self._ahead.get(id(part), (instant + 1, None))
        if instant < asked or (found is not None and found < instant):
            found = part.first_from(instant)
            self._ahead[id(part)] = instant, found
        return found

    def last_until(self, part: Timetable, instant: int) -> int | None:
        """Ask a part for its last occurrence not after an instant, and count the question."""
        self.spend()
        if isinstance(part, Combined):
            return part.last_within(instant, self)
        asked, found = self._behind.get(id(part), (instant - 1, None))
        if instant > asked or (found is not None and found > instant):
            found = part.last_until(instant)
            self._behind[id(part)] = instant, found
        return found

    def spend(self, questions: int = 1) -> None:
        """Take questions off, and give up when none are left."""
        self._left -= questions
        if self._left < 0:
            raise UsageError(
                "timetable",
                self._asked.describe(),
                "leaves out too many occurrences in a row",
                "exclude less, or use .between() for a long pause",
            )


@dataclass(frozen=True, slots=True)
class Combined(Timetable):
    """A timetable that is made of others; it is as large as all of them, and one more."""

    size: int = field(init=False, compare=False, repr=False)
    depth: int = field(init=False, compare=False, repr=False)

    def _measure(self, *parts: Timetable) -> None:
        """Add up the parts, and refuse what would cost too much to ask, to describe or to store."""
        for part in parts:
            if not isinstance(part, Timetable):
                raise UsageError(self.kind, part, "is not a timetable", "combine cron(…), every(…)")
        within = [part for part in parts if isinstance(part, Combined)]
        size = 1 + len(parts) - len(within) + sum(part.size for part in within)
        depth = 2 + max((part.depth - 1 for part in within), default=0)
        if size > SIZE_MAX:
            remedy = f"combine at most {SIZE_MAX} timetables"
            raise UsageError(self.kind, size, "is too large a number of timetables", remedy)
        if depth > DEPTH_MAX:
            remedy = f"nest at most {DEPTH_MAX}, for example by excluding several at once"
            raise UsageError(self.kind, depth, "is too deep a nesting of timetables", remedy)
        object.__setattr__(self, "size", size)
        object.__setattr__(self, "depth", depth)

    def first_from(self, instant: int) -> int | None:
        """Return the first occurrence not before an instant, in microseconds since 1970."""
        return self.first_within(instant, Patience(self))

    def last_until(self, instant: int) -> int | None:
        """Return the last occurrence not after an instant, in microseconds since 1970."""
        return self.last_within(instant, Patience(self))

    @abstractmethod
    def first_within(self, instant: int, patience: Patience) -> int | None:
        """Return the first occurrence not before an instant, if patience lasts."""

    @abstractmethod
    def last_within(self, instant: int, patience: Patience) -> int | None:
        """Return the last occurrence not after an instant, if patience lasts."""
