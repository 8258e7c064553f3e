"""A cursor over tokens that only moves forward, and says where it stopped."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from duly.domain.instants import HOUR
from duly.domain.language import vocabulary
from duly.domain.language.tokens import END, NotUnderstoodError, Token

if TYPE_CHECKING:
    from collections.abc import Callable

_BETWEEN = (",", "and", "&")


class Reader:
    """Where a reading has got to."""

    def __init__(self, tokens: list[Token]) -> None:
        """Start before the first token."""
        self._tokens = tokens
        self.position = 0

    @property
    def is_over(self) -> bool:
        """Whether all tokens are read."""
        return self.position >= len(self._tokens)

    def peek(self, ahead: int = 0) -> Token:
        """Return a coming token, or the end."""
        place = self.position + ahead
        return self._tokens[place] if place < len(self._tokens) else END

    def take(self) -> Token:
        """Return the coming token and go past it."""
        token = self.peek()
        self.position += 1
        return token

    def skip(self, number: int = 1) -> None:
        """Go past tokens."""
        self.position += number

    def skip_word(self, *words: str) -> bool:
        """Go past the coming token if it is one of these words; say whether it was."""
        if self.peek().word not in words:
            return False
        self.position += 1
        return True

    def continues_list(self, fits: Callable[[Token], bool]) -> bool:
        """Go past a comma or "and" if something that fits comes after it; say whether it did."""
        ahead = 0
        while ahead < 2 and self.peek(ahead).word in _BETWEEN:
            ahead += 1
        if not ahead or not fits(self.peek(ahead)):
            return False
        self.position += ahead
        return True

    def take_time(self, what: str) -> Token:
        """Take a time of day; a bare number is an hour of the 24-hour clock."""
        token = self.peek()
        if token.kind == "time":
            return self.take()
        if token.kind != "number":
            self.refuse_token(f"say {what}, such as 9, 9:30 or 9:30pm")
        if token.value > 23 or (len(token.text) > 2 and token.text.isdigit()):
            remedy = "write an hour from 0 to 23, or a time such as 09:30"
            raise NotUnderstoodError(f"has {token.text!r} as {what}", unless_mended=remedy)
        self.skip()
        self.skip_word("o'clock")
        return Token("time", token.text, token.value * HOUR, is_exact=token.value > 12)

    def take_number(self, what: str) -> int:
        """Take a number."""
        if self.peek().kind != "number":
            self.refuse_token(f"say {what} as a number")
        return self.take().value

    def take_months(self) -> int:
        """Take a list of months and ranges of them, as a set (bit 1 is January)."""
        months = self._month_or_range()
        while self.continues_list(lambda token: token.kind == "month"):
            months |= self._month_or_range()
        if self.peek().word == "or":
            self.refuse("'or' between months, which leaves open which one", "say 'and' for both")
        return months

    def _month_or_range(self) -> int:
        first = last = self.take().value
        if self.peek().word in ("to", "through", "-") and self.peek(1).kind == "month":
            self.skip()
            last = self.take().value
        if last < first:
            remedy = "name the months: 'in november, december and january'"
            self.refuse("months that run backwards", remedy)
        return (2 << last) - (1 << first)

    def refuse(self, what: str, remedy: str | None = None) -> NoReturn:
        """Refuse what was understood but can't be meant."""
        raise NotUnderstoodError(f"has {what}", remedy)

    def refuse_token(self, remedy: str | None = None) -> NoReturn:
        """Refuse the coming token."""
        token = self.peek()
        if token is END:
            raise NotUnderstoodError("stops too early", remedy)
        if token.word in vocabulary.REFUSED:
            problem, remedy = vocabulary.REFUSED[token.word]
            raise NotUnderstoodError(f"says {token.text!r}, {problem}", remedy)
        is_known = token.kind != "word" or token.word in vocabulary.KEYWORDS
        problem = "can't be read on from" if is_known else "has a word that Duly does not know,"
        raise NotUnderstoodError(f"{problem} {token.text!r}", remedy)
