"""Where alerts go: a channel has a name, a kind, and what that kind needs to know."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelConfig:
    """A channel as it is stored: of a secret only the reference."""

    name: str
    kind: str
    """`log`, `webhook`, `smtp`, `slack` or `mattermost`."""
    options: Mapping[str, Any] = field(default_factory=dict)
