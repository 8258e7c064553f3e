"""Entry point: sentence to timetable, or an error with the nearest sentence understood.

The reading is strict. Text is cut into tokens (`tokens`), read in one pass (`parser`) into the
parts of a sentence (`sentence`), and these are put together (`builder`). An ambiguous sentence is
refused. The grammar for people is in docs/how-to/say-when.md.

`mended_sentence` keeps the person's meaning: an unknown word is replaced only by one that it
closely resembles, and only words that never change the time are left out. The search is bounded:
each of a few repairs is made once, on a text of bounded length, and the first readable result is
offered.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import TYPE_CHECKING

from duly.errors import UsageError, require_text
from duly.timetable.instants import DAY, HOUR, MINUTE
from duly.timetable.language import tokens
from duly.timetable.language.builder import ZoneSetting, timetable_of, with_words
from duly.timetable.language.parser import read_sentence
from duly.timetable.language.tokens import TEXT_LENGTH_MAX, NotUnderstoodError, tokenise
from duly.timetable.local_time import Fold, Gap, check_policies
from duly.timetable.phrases import clock_of
from duly.timetable.zones import default_zones

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from duly.timetable.language.tokens import DayPart
    from duly.timetable.timetable import Timetable


WORD_LENGTH_MIN = 4
WORD_LENGTH_MAX = 12
MENDED_WORDS_MAX = 4
EXAMPLES = (
    "every weekday at 09:00",
    "every day at 09:00",
    "every evening at 19:30",
    "every day at 09:00 and 18:00",
    "every monday and friday at 10:30",
    "weekends at 11:00",
    "every hour",
    "every 2 hours",
    "every 15 minutes",
    "every half hour",
    "every 30 seconds",
    "every 15 minutes between 8:00 and 17:00 on mondays",
    "at minute 5 of every hour",
    "on the 1st and 15th at 09:00",
    "on the last day of the month at 18:00",
    "first day of the quarter at 09:00",
    "first monday of the month at 08:00",
    "every business day at 09:00",
    "last business day of the month at 18:00",
    "every day except sunday at 09:00",
    "every year on 24 december at 18:00",
    "every 2 weeks on monday at 09:00 from 2026-04-06",
    "once on 2026-04-03 at 09:00",
    "every day at 09:00 from 2026-01-01 until 2026-12-31",
    "every day at 09:00 in Europe/Paris",
)
GENERAL = ("every weekday at 9", "last friday of the month at 17:00")
"""Examples for a text that shares nothing with the others."""

_PIECE = re.compile(
    r"[a-zA-Z_']{1,200}(?:/[\w+-]{1,200})*|\d[\w:.-]{0,200}|:\d\d|[,&()-]", re.ASCII
)
_LEADS_TO_A_TIME = "at and between from to until till every each on the times minute minutes - , &"
_BEFORE_A_TIME = frozenset(_LEADS_TO_A_TIME.split())
_LISTING = frozenset({"and", "&", ","})
_LINKING = "every each at on in the of and or a an to from"
_LINKS = frozenset(_LINKING.split())
"""Words that say nothing about which sentence was meant."""

_FILLING = "please run runs do it me remind just always exactly precisely sharp single all"
_FILLERS = frozenset(_FILLING.split())
_KNOWN = frozenset({*tokens.KNOWN, *tokens.REFUSED, *_LINKS, "am", "pm", "utc", "gmt"})
_CANDIDATES = [word for word in tokens.KNOWN if len(word) >= WORD_LENGTH_MIN]
_HOURS = re.compile(r"(\d{1,2})h(\d{2})?|(\d{2})(\d{2})", re.ASCII)
_CLOCK = re.compile(r"(\d{2}):(\d{2})", re.ASCII)


def mended_sentence(text: str, is_understood: Callable[[str], bool]) -> str | None:
    """Return the person's own sentence, mended so that it is understood; None if it can't be."""
    spelt = _spelt(_PIECE.findall(text))
    if not spelt:
        return None
    moved = _moved(_with_clocks(_with_at(spelt)))
    if moved and all(is_understood(_written(pieces)) for pieces in (moved, _without_parts(moved))):
        return _written(_without_parts(moved))
    for mended in _mended(spelt):
        sentence = _written(_with_clocks(mended))
        is_new = sentence.lower() != text.lower() and len(sentence) <= TEXT_LENGTH_MAX
        if is_new and is_understood(sentence):
            return sentence
    return None


def examples_for(text: str) -> tuple[str, ...]:
    """Return the well-known sentence that shares most words with a text, or two if none does."""
    words = {piece.lower() for piece in _PIECE.findall(text)}
    best = max(EXAMPLES, key=lambda example: _likeness(words, example))
    return (best,) if _likeness(words, best) >= (1,) else GENERAL


def _written(pieces: list[str]) -> str:
    return " ".join(pieces).replace(" ,", ",").replace(" )", ")").replace("( ", "(")


def _mended(spelt: list[str]) -> Iterator[list[str]]:
    """Yield a few repairs, the smallest first."""
    yield spelt
    timed = _with_at(spelt)
    yield timed
    yield ["every", *spelt]
    yield ["every", *timed]
    parts = _parts(spelt)
    usual = clock_of(parts[0].usual) if parts else "09:00"
    yield [*spelt, "at", usual]
    yield ["every", *spelt, "at", usual]


def _spelt(pieces: list[str]) -> list[str]:
    """Replace unknown words by those they closely resemble; give up if one resembles none."""
    spelt = []
    mended = 0
    for piece in pieces:
        word = piece.lower()
        if word in _FILLERS:
            continue
        if not word.isalpha() or word in _KNOWN:
            spelt.append(piece)
            continue
        mended += 1
        if not WORD_LENGTH_MIN <= len(word) <= WORD_LENGTH_MAX or mended > MENDED_WORDS_MAX:
            return []
        close = get_close_matches(word, _CANDIDATES, n=1, cutoff=0.8)
        if not close:
            return []
        spelt += close
    return spelt


def _parts(pieces: list[str]) -> list[DayPart]:
    """Return the parts of the day that were said."""
    words = ["night" if piece.lower() == "nightly" else piece.lower() for piece in pieces]
    numbers = [tokens.PART_WORDS[word] for word in words if word in tokens.PART_WORDS]
    return [tokens.DAY_PARTS[number] for number in numbers]


def _moved(pieces: list[str]) -> list[str] | None:
    """Move times by half a day if that brings them into the parts of the day that were said."""
    parts = _parts(pieces)
    moved = []
    for piece in pieces:
        found = _CLOCK.fullmatch(piece)
        time = int(found[1]) * HOUR + int(found[2]) * MINUTE if found else 0
        other = (time + DAY // 2) % DAY
        is_wrong = found and not any(part.includes(time) for part in parts)
        is_right = any(part.includes(other) for part in parts)
        moved.append(clock_of(other) if is_wrong and is_right else piece)
    return moved if moved != pieces else None


def _without_parts(pieces: list[str]) -> list[str]:
    """Leave parts of the day out, which a time of 24 hours has no need of."""
    left: list[str] = []
    for piece in pieces:
        word = piece.lower()
        before = [one.lower() for one in left[-2:]]
        if word == "nightly":
            left.append("daily")
        elif word not in tokens.PART_WORDS:
            left.append(piece)
        elif before[-1:] in (["every"], ["each"]):
            left.append("day")
        elif before == ["in", "the"] or before[-1:] == ["at"]:
            del left[-2 if before[-1] == "the" else -1 :]
        elif not left:
            left.append("daily")
    return left


def _with_at(pieces: list[str]) -> list[str]:
    """Put "at" before the last number that stands without a word that leads to it."""
    for place in range(len(pieces) - 1, -1, -1):
        before = pieces[place - 1].lower() if place else ""
        is_time = pieces[place][0].isdigit() or pieces[place].lower() in tokens.TIMES
        if is_time and before not in _BEFORE_A_TIME and "-" not in pieces[place]:
            return [*pieces[:place], "at", *pieces[place:]]
    return pieces


def _with_clocks(pieces: list[str]) -> list[str]:
    """Write the hours after "at" as times, so that a person sees how a bare number is read."""
    written: list[str] = []
    is_time = False
    for said in pieces:
        piece = said
        is_time = piece.lower() == "at" or (is_time and (piece in _LISTING or piece[0].isdigit()))
        hours = _HOURS.fullmatch(piece)
        if hours and is_time:
            piece = f"{hours[1] or hours[3]}:{hours[2] or hours[4] or '00'}"
        hour, _, minute = piece.partition(":")
        is_clock = hour.isdigit() and len(hour) <= 2 and (not minute or len(minute) == 2)
        written.append(f"{hour:0>2}:{minute or '00'}" if is_time and is_clock else piece)
    return written


def _likeness(words: set[str], example: str) -> tuple[int, float]:
    """Return how many words that say something an example shares, and how much of it was said."""
    others = set(example.lower().split())
    shared = words & others
    telling = [word for word in shared - _LINKS if word.isalpha()]
    return len(telling), len(shared) / len(words | others)


FIELD = "when"


def read_plain(text: str, tz: str = "UTC", gap: Gap = "next", fold: Fold = "first") -> Timetable:
    """Read a sentence such as "every weekday at 9" or "last business day of the month at 18:00".

    The sentence may name its zone ("in Europe/Paris"); UTC, the default, gives way to it, and any
    other `tz` must agree. The timetable keeps the person's words.
    """
    require_text(FIELD, text, TEXT_LENGTH_MAX)
    check_policies(gap, fold)
    default_zones().zone(tz)
    setting = ZoneSetting(tz, gap, fold)
    try:
        return with_words(_understood(text, setting), text)
    except NotUnderstoodError as error:
        remedy = error.remedy or _remedy(text, error, setting)
        raise UsageError(FIELD, text, error.problem, remedy) from error


def _remedy(text: str, error: NotUnderstoodError, setting: ZoneSetting) -> str:
    """Offer the person's own sentence, mended; otherwise only examples, which claim less."""
    mended = mended_sentence(text, lambda other: _is_understood(other, setting))
    if mended is not None:
        return f"did you mean {mended!r}?"
    return error.unless_mended or f"say for example {' or '.join(map(repr, examples_for(text)))}"


def _understood(text: str, setting: ZoneSetting) -> Timetable:
    return timetable_of(read_sentence(tokenise(text)), setting)


def _is_understood(text: str, setting: ZoneSetting) -> bool:
    try:
        _understood(text, setting)
    except (NotUnderstoodError, UsageError):
        return False
    return True
