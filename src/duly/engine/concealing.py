"""Concealing: leaves texts that are secret out of whatever is stored about an attempt."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from duly.domain.concluding import CancelledEnd, Failed, GaveUp, Succeeded, TimedOut
from duly.domain.schedules import canonical_json

if TYPE_CHECKING:
    from duly.domain.concluding import End

HIDDEN = "***"


class Concealer:
    """Knows what must not be seen. Adding and using it is safe from any thread."""

    def __init__(self) -> None:
        # Replaced as a whole and never changed, so that a reader needs no lock.
        self._texts: tuple[str, ...] = ()

    def add(self, text: str) -> None:
        """Hide a text from now on, also as it is written inside JSON or a quoted value."""
        if not text:
            return
        shapes = {text, json.dumps(text)[1:-1], repr(text)[1:-1], *self._texts}
        # The longest first: a secret may be a part of another.
        self._texts = tuple(sorted(shapes, key=lambda one: (-len(one), one)))

    def hide(self, text: str) -> str:
        """Return a text without what must not be seen."""
        for one in self._texts:
            text = text.replace(one, HIDDEN)
        return text

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
