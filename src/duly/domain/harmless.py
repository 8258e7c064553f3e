"""Texts that somebody else wrote, made harmless for the place where they are to be read.

A schedule's name, an error's message and an argument are whatever a person or a program wrote. In a
header they must not begin another, in a chat they must call nobody, in a page they are not markup,
and nowhere may they hide or turn round what stands beside them.
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Mapping
from itertools import islice
from typing import Any, Final

CUT_MARK = "…"
DEPTH_MAX = 8
ITEMS_MAX = 100
"""How many members of a map or a list are shown; the rest is counted."""
JSON_TEXT_MAX = 2_000
NUMBER_MAX: Final = 2**63
"""Beyond it readers of JSON disagree, and a number of a million digits can't be written at all."""
_ZERO_WIDTH_SPACE = "\u200b"
_MENTION = re.compile(r"[@~#](?=[^\W\d])")
"""What chats read as the name of a person, a channel or a tag; `report@2026-04-03` is none."""
_LINK = re.compile(r":(?=//)|(?<=www)\.|(?<=mailto):", re.IGNORECASE)
_MARKDOWN = re.compile(r"[\\`*_\[\]()#!|~]")
_CODE_MARK = "`"
_ENCODED_WORD = "=?"
"""With this a header says that what follows is to be decoded."""


def one_line(text: str, length_max: int) -> str:
    r"""Return a text as one line: blanks for breaks, and what can't be seen spelled out.

    Characters that turn the direction of writing, take no room or control a terminal become
    `\u202e` and the like, so that nothing in it is other than it looks.
    """
    # Cut before looking: of a megabyte only what may be shown is worth the work.
    begun = text[: length_max + 1]
    line = " ".join("".join(map(_seen, begun)).split())
    return _cut(line, length_max, is_cut=len(begun) < len(text))


def for_header(line: str) -> str:
    """Return a line for a mail's header, in which nothing is an encoded word.

    `=?utf-8?q?a=0d=0aBcc:…?=` is printable ASCII, and decoded it is another header; Python's own
    messages decode it when it is put in, and older ones write down what comes out.
    """
    return line.replace(_ENCODED_WORD, " ".join(_ENCODED_WORD))


def for_page(text: str) -> str:
    """Return a line as HTML writes it, within an element or a quoted attribute."""
    return html.escape(text, quote=True)


def for_slack(text: str) -> str:
    """Return a line for Slack, where < > & are the only marks: <!here> is four characters."""
    return quieted(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def for_mattermost(text: str) -> str:
    """Return a line for Mattermost, with everything escaped that Markdown would read.

    It takes Slack's <!channel> as well, and knows no escape for its first mark.
    """
    escaped = _MARKDOWN.sub(lambda found: f"\\{found[0]}", text)
    return quieted(escaped).replace("<", f"<{_ZERO_WIDTH_SPACE}")


def as_code(text: str) -> str:
    """Return a line as a span of code in Markdown, in which nothing is read and nobody is called.

    A span has no escapes, and so no room for the mark that ends it.
    """
    return f"{_CODE_MARK}{text.replace(_CODE_MARK, chr(39))}{_CODE_MARK}"


def quieted(text: str) -> str:
    """Return a line that calls nobody and links nowhere: its marks stand apart from its words."""
    for marks in (_MENTION, _LINK):
        text = marks.sub(lambda found: found[0] + _ZERO_WIDTH_SPACE, text)
    return text


def plain_json(value: Any, depth: int = DEPTH_MAX) -> Any:  # noqa: ANN401, PLR0911 - JSON's kinds
    """Return a value that every reader of JSON can take: bounded, whole characters, real numbers.

    What it holds is told and not shown: texts keep their line breaks and whatever else JSON can
    write. What is left out is said so.
    """
    match value:
        case None | bool():
            return value
        case int():
            return value if abs(value) < NUMBER_MAX else "a number too large to be shown"
        case float():
            return value if math.isfinite(value) else str(value)
        case str():
            return whole_text(value, JSON_TEXT_MAX)
        case Mapping() | list() | tuple() if depth == 0:
            return CUT_MARK
        case Mapping():
            shown = islice(value.items(), ITEMS_MAX)
            told = {
                whole_text(str(key), JSON_TEXT_MAX): plain_json(one, depth - 1)
                for key, one in shown
            }
            left = len(value) - ITEMS_MAX
            return told if left <= 0 else {**told, CUT_MARK: f"{left:,} more"}
        case list() | tuple():
            listed = [plain_json(one, depth - 1) for one in value[:ITEMS_MAX]]
            left = len(value) - ITEMS_MAX
            return listed if left <= 0 else [*listed, f"{CUT_MARK} {left:,} more"]
        case _:
            return f"a value of type {type(value).__name__}"


def whole_text(text: str, length_max: int) -> str:
    """Return a text without halves of characters, cut at its end where it is too long."""
    whole = text[: length_max + 1].encode("utf-8", "replace").decode()
    return _cut(whole, length_max, is_cut=len(text) > length_max)


def _seen(one: str) -> str:
    if one.isprintable():
        return one
    return " " if one.isspace() else ascii(one)[1:-1]


def _cut(text: str, length_max: int, *, is_cut: bool) -> str:
    if len(text) <= length_max and not is_cut:
        return text
    return text[: length_max - 1].rstrip() + CUT_MARK
