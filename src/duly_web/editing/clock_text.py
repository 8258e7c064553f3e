"""A time of day as people type it: "9", "9:15pm", "21.30", "0915", "noon"."""

from __future__ import annotations

import re

from duly import UsageError

LENGTH_MAX = 20
REMEDY = "write 9, 09:00, 9:15pm or noon"
_WORDS = {"noon": "12:00", "midday": "12:00", "midnight": "00:00"}
_CLOCK = re.compile(
    r"(?P<hour>\d{1,2})(?:[:.h ]?(?P<minute>\d{2}))?h?\s?(?P<half>[ap])?\.?(?(half)m?\.?)", re.ASCII
)


def read_clock(text: str | None) -> str:
    """Return a time of day as HH:MM; refuse what is none."""
    typed = (text or "").strip().lower()
    if typed in _WORDS:
        return _WORDS[typed]
    found = _CLOCK.fullmatch(typed) if 0 < len(typed) <= LENGTH_MAX else None
    if found is None:
        problem = "is not a time of day" if typed else "is missing"
        raise UsageError("time", text, problem, REMEDY)
    hour, minute = int(found["hour"]), int(found["minute"] or 0)
    if found["half"]:
        if not 1 <= hour <= 12:
            raise UsageError("time", text, "is not a time of day", "a.m. and p.m. count 1 to 12")
        hour = hour % 12 + (12 if found["half"] == "p" else 0)
    if hour > 23 or minute > 59:
        raise UsageError("time", text, "is not a time of day", "give 00:00 to 23:59")
    return f"{hour:02}:{minute:02}"
