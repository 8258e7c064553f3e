"""Where alerts go: a channel has a name, a kind, and what that kind needs to know."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from duly.errors import UsageError

KINDS = ("log",)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelConfig:
    """A channel as it is kept: checked, and in one form."""

    name: str
    kind: str
    options: Mapping[str, Any]
    """JSON, with secrets by reference only."""


def read_channel(name: object, kind: object, options: object) -> ChannelConfig:
    """Read a channel whole: UsageError with the field, the value and what to do about it."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        remedy = "give up to 100 letters, digits, dots and dashes, as in ops-mail"
        raise UsageError("name", name, "is not the name of a channel", remedy)
    if kind not in KINDS:
        raise UsageError("kind", kind, "is not a kind of channel", f"give {', '.join(KINDS)}")
    assert isinstance(kind, str), "just compared"
    if not isinstance(options, Mapping) or options:
        raise UsageError("options", "…", "is not a map of options", "give none")
    return ChannelConfig(name=name, kind=kind, options=dict(options))
