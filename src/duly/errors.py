"""The exception tree, by who must act; a message says what happened, where, and what to do.

DulyError
└── UsageError (also ValueError)   the caller must change the call
"""

from __future__ import annotations

VALUE_SHOWN_MAX = 120


class DulyError(Exception):
    """Anything that Duly raises on purpose."""


class UsageError(DulyError, ValueError):
    """A call that can't be carried out as it stands; it names field, value and remedy."""

    def __init__(self, field: str, value: object, problem: str, remedy: str) -> None:
        """Compose one sentence out of the four parts, which stay readable as attributes."""
        self.field = field
        self.value = value
        self.problem = problem
        self.remedy = remedy
        # Parts may hold what somebody typed, and a message goes to terminals and logs.
        message = f"{field}: {shown(value)} {problem}; {remedy}"
        super().__init__(message if message.isprintable() else ascii(message)[1:-1])

    def __reduce__(self) -> tuple[type[UsageError], tuple[str, object, str, str]]:
        """Travel between processes with all four parts, and not as the message alone."""
        return type(self), (self.field, self.value, self.problem, self.remedy)


def require_text(field: str, value: object, length_max: int) -> None:
    """Refuse what is not a text, or too long for one; before anything costly looks at it."""
    if not isinstance(value, str):
        raise UsageError(field, value, "is not a text", "give a str")
    if len(value) > length_max:
        raise UsageError(field, value, "is too long", f"give at most {length_max:,} characters")
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise UsageError(field, value, "holds half a character", "give text that UTF-8 can write")


def shown(value: object) -> str:
    """Quote a value for a message: one line, no control characters, bounded length."""
    if isinstance(value, str) and len(value) > VALUE_SHOWN_MAX:
        return f"{shown(value[:VALUE_SHOWN_MAX])}… ({len(value):,} characters)"
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - whatever a value's own repr raises
        # A number of thousands of digits, for one, refuses to be written out.
        text = f"a value of type {type(value).__name__}"
    text = text if text.isprintable() else ascii(text)
    return text if len(text) <= 2 * VALUE_SHOWN_MAX else f"{text[:VALUE_SHOWN_MAX]}…"
