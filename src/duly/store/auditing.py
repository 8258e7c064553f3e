"""What an audit entry says, whichever database keeps it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from duly.domain.audit import Actor

SYSTEM = Actor("duly", "store")
"""Who has decided what no person did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What an audit entry is about."""

    name: str
    tenant: str = ""
    id: bytes | None = None
    before: dict[str, Any] | None = None
    after: dict[str, Any] | None = None


def facts_text(facts: dict[str, Any] | None) -> str | None:
    """Write facts as they are stored."""
    return None if facts is None else json.dumps(facts, ensure_ascii=False, separators=(",", ":"))
