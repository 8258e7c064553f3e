"""Concealing: leaves texts that are secret out of whatever is stored about an attempt.

Whoever shortens a text hides what is in it first: half a secret is not recognised any more.
"""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, quote_plus, unquote

from duly.domain.concluding import CancelledEnd, Failed, GaveUp, Succeeded, TimedOut
from duly.domain.schedules import canonical_json
from duly.engine.ends import storable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duly.domain.concluding import End

HIDDEN = "***"
CUT_MARK = "…"
_BASE_64_LENGTH_MIN = 8
_BEGINNING_LENGTH_MIN = 4
"""Shorter beginnings of a secret, before a mark that something is left out, are chance."""


class Concealer:
    """Knows what must not be seen. Adding and using it is safe from any thread."""

    def __init__(self) -> None:
        # Replaced as a whole and never changed, so that a reader needs no lock.
        self._texts: tuple[str, ...] = ()

    def add(self, text: str) -> None:
        """Hide a text from now on, however it is written: in JSON, quoted, in a URL, in base64."""
        if text:
            shapes = {*_spellings(text), *self._texts}
            # The longest first: a secret may be a part of another.
            self._texts = tuple(sorted(shapes, key=lambda one: (-len(one), one)))

    def hide(self, text: str, *, is_cut: bool = False) -> str:
        """Return a text without what must not be seen; of a cut one, without its beginning, too."""
        for one in self._texts:
            text = text.replace(one, HIDDEN)
        if is_cut:
            text = self._without_beginning(text, 1)
        if self._texts and CUT_MARK in text:
            # Somebody else has shortened it before it came here, an error's message for one.
            *parts, last = text.split(CUT_MARK)
            hidden = [self._without_beginning(one, _BEGINNING_LENGTH_MIN) for one in parts]
            text = CUT_MARK.join([*hidden, last])
        return text

    def _without_beginning(self, text: str, length_min: int) -> str:
        """Return a text that ends in the beginning of a secret without that end."""
        stem = text.rstrip("'\"") if length_min > 1 else text
        longest = 0
        for one in self._texts:
            for length in range(min(len(one) - 1, len(stem)), max(longest, length_min - 1), -1):
                if stem.endswith(one[:length]):
                    longest = length
                    break
        return text if not longest else stem[:-longest] + HIDDEN + text[len(stem) :]

    def hide_in_end(self, end: End) -> End:
        """Return an end whose error and result hold nothing that must not be seen."""
        if not self._texts:
            return end
        match end:
            case Succeeded(result=str(result)):
                return Succeeded(self._hide_in_json(result))
            case Failed() | GaveUp():
                return replace(end, error=self.hide(end.error))
            case TimedOut(error=str(error)) | CancelledEnd(error=str(error)):
                return replace(end, error=self.hide(error))
            case _:
                return end

    def _hide_in_json(self, text: str) -> str | None:
        try:
            return canonical_json(self._hide_in(json.loads(text)))
        except (ValueError, RecursionError):
            return None  # not to be kept rather than seen

    def _hide_in(self, value: Any) -> Any:  # noqa: ANN401 - whatever JSON can hold
        match value:
            case str():
                return self.hide(value)
            case list():
                return [self._hide_in(one) for one in value]
            case dict():
                return {self.hide(key): self._hide_in(one) for key, one in value.items()}
            case _:
                shown = json.dumps(value)
                hidden = self.hide(shown)
                return value if hidden == shown else hidden


def _spellings(text: str) -> Iterator[str]:
    """Return a text as others may write it."""
    yield from (text, storable(text), json.dumps(text)[1:-1], repr(text)[1:-1])
    whole = text.encode("utf-8", "replace")
    yield from (quote(whole), quote(whole, safe=""), quote_plus(whole), unquote(text))
    for encoded in (base64.b64encode(whole), base64.urlsafe_b64encode(whole)):
        yield encoded.decode().rstrip("=")
        # Before more, as in name:password, its last characters are others.
        begun = encoded.decode()[: len(whole) // 3 * 4]
        if len(begun) >= _BASE_64_LENGTH_MIN:
            yield begun
