"""Plain language in: "every weekday at 9" becomes a timetable, or an error with the nearest one.

The reading is strict. Text is cut into tokens (`tokens`), read in one pass (`grammar`) into the
parts of a sentence (`sentence`), and these are put together (`meaning`). What might mean two things
is refused. The grammar for people is in docs/how-to/say-when.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.domain.language.grammar import read_sentence
from duly.domain.language.meaning import Setting, timetable_of, with_words
from duly.domain.language.suggestions import examples_for, mended_sentence
from duly.domain.language.tokens import TEXT_LENGTH_MAX, NotUnderstoodError, tokenise
from duly.domain.local_time import Fold, Gap, check_policies
from duly.domain.zones.database import default_zones
from duly.errors import UsageError, require_text

if TYPE_CHECKING:
    from duly.domain.timetable.timetable import Timetable

FIELD = "when"


def read_plain(text: str, tz: str = "UTC", gap: Gap = "next", fold: Fold = "first") -> Timetable:
    """Read a sentence such as "every weekday at 9" or "last business day of the month at 18:00".

    The sentence may name its zone ("in Europe/Paris"); UTC, the default, gives way to it, and any
    other `tz` must agree. The timetable keeps the person's words.
    """
    require_text(FIELD, text, TEXT_LENGTH_MAX)
    check_policies(gap, fold)
    default_zones().zone(tz)
    setting = Setting(tz, gap, fold)
    try:
        return with_words(_understood(text, setting), text)
    except NotUnderstoodError as error:
        remedy = error.remedy or _remedy(text, error, setting)
        raise UsageError(FIELD, text, error.problem, remedy) from error


def _remedy(text: str, error: NotUnderstoodError, setting: Setting) -> str:
    """Offer the person's own sentence, mended; otherwise only examples, which claim less."""
    mended = mended_sentence(text, lambda other: _is_understood(other, setting))
    if mended is not None:
        return f"did you mean {mended!r}?"
    return error.unless_mended or f"say for example {' or '.join(map(repr, examples_for(text)))}"


def _understood(text: str, setting: Setting) -> Timetable:
    return timetable_of(read_sentence(tokenise(text)), setting)


def _is_understood(text: str, setting: Setting) -> bool:
    try:
        _understood(text, setting)
    except (NotUnderstoodError, UsageError):
        return False
    return True
