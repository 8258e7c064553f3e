"""What was done, carried to the next page by a cookie that is read once.

It is printed and nothing more. An undo that it names is a form like any other: it takes the
session's own token, and an action that is in the table.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import TYPE_CHECKING

import msgspec

from duly_web.page import Said

if TYPE_CHECKING:
    from collections.abc import Mapping

NAME = "duly_said"
LENGTH_MAX = 3000
SECONDS = 60


def write_said(said: Said) -> str | None:
    """Write it as a cookie's value; None for what is too long to be carried."""
    text = urlsafe_b64encode(msgspec.json.encode(said)).decode().rstrip("=")
    return text if len(text) <= LENGTH_MAX else None


def read_said(cookies: Mapping[str, str]) -> Said | None:
    """Read it; whatever is not ours is nothing."""
    text = cookies.get(NAME, "")
    if not text or len(text) > LENGTH_MAX:
        return None
    try:
        raw = urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
        return msgspec.json.decode(raw, type=Said)
    except (ValueError, msgspec.MsgspecError):
        return None
