"""What was decided about effects that nobody knew about: beside the ledger, which stays as it is.

The ledger says what the attempt could tell. Who has looked since, a person or a check, settles the
run and not the entry: so that is read from the trail of decisions and shown next to it (E5, R2).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from duly.domain.advice import Choice
from duly.domain.effects import EffectState
from duly.domain.instants import from_microseconds, iso_utc
from duly.domain.literals import Finding
from duly.store.reading import AuditFilter

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from duly.domain.audit import AuditEntry
    from duly.domain.effects import EffectRecord
    from duly.domain.identity import RunId
    from duly.store.protocol import Store

ENTRIES_MAX = 200
DONE, NOT_DONE, LEFT = "done", "not done", "left as it is"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """Who has decided what about an effect of which the ledger doesn't know."""

    as_: str
    """done, not done, or left as it is."""
    by: str
    at: datetime
    reason: str | None

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "as": self.as_,
            "by": self.by,
            "at": iso_utc(self.at),
            "reason": self.reason,
        }


def read_settled(store: Store, effects: Sequence[EffectRecord]) -> dict[str, Settled]:
    """Return what was decided about unknown effects, by their keys; nothing is read for others."""
    unknown = [one for one in effects if one.state is EffectState.UNKNOWN]
    found: dict[str, Settled] = {}
    for run_id in sorted({one.run_id for one in unknown}):
        decisions = _decisions(store, run_id)
        for effect in unknown:
            if effect.run_id == run_id and (told := _settled(effect, decisions)) is not None:
                found[effect.key] = told
    return found


def _decisions(store: Store, run_id: RunId) -> list[AuditEntry]:
    """Return what was decided about a run, newest first."""
    entries = store.list_audit(AuditFilter(subject_id=run_id, limit=ENTRIES_MAX))
    return [one for one in entries if one.action in {"run.settled", "run.verdict"}]


def _settled(effect: EffectRecord, decisions: Sequence[AuditEntry]) -> Settled | None:
    for entry in decisions:
        # What was decided before it was begun once more says nothing about that.
        if entry.at >= effect.begun_at and (as_ := _as(entry)) is not None:
            return Settled(
                as_=as_,
                by=_who(entry),
                at=from_microseconds(entry.at),
                reason=entry.actor.reason,
            )
    return None


def _as(entry: AuditEntry) -> str | None:
    after = entry.after or {}
    if entry.action == "run.verdict":
        return DONE if after.get("finding") == Finding.PRESENT else None
    match after.get("choice"):
        case Choice.RECONCILE if "done" in after:
            return DONE if after["done"] else NOT_DONE
        case Choice.SKIP:
            return LEFT
        case _:
            return None


def _who(entry: AuditEntry) -> str:
    if entry.action == "run.verdict":
        return f"check {(entry.after or {}).get('by', '')}".strip()
    return entry.actor.name
