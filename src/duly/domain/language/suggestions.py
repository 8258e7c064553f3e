"""The nearest sentence that is understood: the person's own, mended, or a well-known one.

Mending is bounded: each of a few repairs is made once, on a text that is already bounded, and the
first result that reads is offered.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import TYPE_CHECKING

from duly.domain.language import vocabulary
from duly.domain.language.tokens import TEXT_LENGTH_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

WORD_LENGTH_MAX = 12
MENDED_WORDS_MAX = 4
EXAMPLES = (
    "every weekday at 09:00",
    "every day at 09:00",
    "every day at 09:00 and 18:00",
    "every monday and friday at 10:30",
    "weekends at 11:00",
    "every hour",
    "every 2 hours",
    "every 15 minutes",
    "every 30 seconds",
    "every 15 minutes between 8:00 and 17:00 on mondays",
    "at minute 5 of every hour",
    "on the 1st and 15th at 09:00",
    "on the last day of the month at 18:00",
    "first monday of the month at 08:00",
    "last business day of the month at 18:00",
    "every year on 24 december at 18:00",
    "every 2 weeks on monday at 09:00 from 2026-04-06",
    "once on 2026-04-03 at 09:00",
    "every day at 09:00 from 2026-01-01 until 2026-12-31",
    "every day at 09:00 in Europe/Paris",
)
_PIECE = re.compile(r"[a-zA-Z_']{1,200}(?:/[\w+-]{1,200})*|\d[\w:.-]{0,200}|[,&()-]", re.ASCII)
_LEADS_TO_A_TIME = "at and between from to until till every each on the times minute minutes - , &"
_BEFORE_A_TIME = frozenset(_LEADS_TO_A_TIME.split())
_LISTING = frozenset({"and", "&", ","})
_KNOWN = frozenset(vocabulary.KNOWN)


def nearest_sentence(text: str, is_understood: Callable[[str], bool]) -> str:
    """Return a sentence that is understood and close to a text that was not."""
    pieces = _PIECE.findall(text)
    spelt = _spelt(pieces)
    for mended in _mended(spelt) if spelt else []:
        sentence = (
            " ".join(_with_clocks(mended)).replace(" ,", ",").replace(" )", ")").replace("( ", "(")
        )
        is_new = sentence.lower() != text.lower() and len(sentence) <= TEXT_LENGTH_MAX
        if is_new and is_understood(sentence):
            return sentence
    words = {piece.lower() for piece in [*pieces, *spelt]}
    return max(EXAMPLES, key=lambda example: _likeness(words, example))


def _mended(spelt: list[str]) -> Iterator[list[str]]:
    """Yield a few repairs, the smallest first."""
    yield spelt
    timed = _with_at(spelt)
    yield timed
    yield ["every", *spelt]
    yield ["every", *timed]
    yield [("and" if piece == "or" else piece) for piece in spelt]
    yield [*spelt, "at", "09:00"]
    yield ["every", *spelt, "at", "09:00"]


def _spelt(pieces: list[str]) -> list[str]:
    """Replace unknown words by the known ones they resemble; leave out those that resemble none."""
    spelt = []
    mended = 0
    for piece in pieces:
        word = piece.lower()
        if not word.isalpha() or word in _KNOWN or piece.upper() == "UTC":
            spelt.append(piece)
            continue
        close: list[str] = []
        if len(word) <= WORD_LENGTH_MAX and mended < MENDED_WORDS_MAX:
            close = get_close_matches(word, vocabulary.KNOWN, n=1, cutoff=0.7)
        mended += 1
        spelt += close
    return spelt


def _with_at(pieces: list[str]) -> list[str]:
    """Put "at" before the last number that stands without a word that leads to it."""
    for place in range(len(pieces) - 1, -1, -1):
        before = pieces[place - 1].lower() if place else ""
        is_time = pieces[place][0].isdigit() or pieces[place].lower() in vocabulary.TIMES
        if is_time and before not in _BEFORE_A_TIME and "-" not in pieces[place]:
            return [*pieces[:place], "at", *pieces[place:]]
    return pieces


def _with_clocks(pieces: list[str]) -> list[str]:
    """Write the hours after "at" as times, so that a person sees how a bare number is read."""
    written: list[str] = []
    is_time = False
    for piece in pieces:
        is_time = piece.lower() == "at" or (is_time and (piece in _LISTING or piece[0].isdigit()))
        hour, _, minute = piece.partition(":")
        is_clock = hour.isdigit() and len(hour) <= 2 and (not minute or len(minute) == 2)
        written.append(f"{hour:0>2}:{minute or '00'}" if is_time and is_clock else piece)
    return written


def _likeness(words: set[str], example: str) -> float:
    """Return how much of an example was said."""
    others = set(example.lower().split())
    return len(words & others) / len(words | others)
