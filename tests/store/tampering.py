"""A sealed audit trail, and what somebody with the rights of an owner may do to it."""

from __future__ import annotations

import duly
from duly.domain.enums import Lane
from duly.store.ports.audit import SealAudit
from duly_conformance import steps

ENTRY = "at, actor, source, reason, action, tenant, subject, subject_id, before, after"
INSERT = (
    f"INSERT INTO {{audit}} (number, {ENTRY}) {{override}}"  # noqa: S608 - columns of ours
    f" SELECT -1, {ENTRY} FROM {{audit}} WHERE number = 1"
)
TAMPERED = {
    "UPDATE {audit} SET actor = 'eve' WHERE number = 2": [("changed", 2)],
    "UPDATE {audit} SET address = '192.0.2.66' WHERE number = 2": [("changed", 2)],
    "UPDATE {audit} SET credential = NULL WHERE number = 4": [("changed", 4)],
    "UPDATE {audit} SET after = NULL WHERE number = 6": [("changed", 6)],
    "DELETE FROM {audit} WHERE number = 3": [("removed", 3)],
    "DELETE FROM {audit} WHERE number > 4": [("removed", 5), ("removed", 6)],
    INSERT: [("inserted", -1)],
    "DELETE FROM {seals} WHERE number = 3": [("seal", 3)],
    "DELETE FROM {seals} WHERE number > 1": [("seal", 2)],
    "DELETE FROM {seals}": [("seal", 1)],
    "DELETE FROM {seals} WHERE number = 1": [("seal", 1), ("inserted", 1), ("inserted", 2)],
    "UPDATE {seals} SET sealed_at = sealed_at + 1 WHERE number = 2": [("seal", 2)],
}
"""By what is done to a trail of six entries under three seals: what is found."""


def seal_six(store) -> str:
    """Write six entries, and seal them two by two; return the head."""
    fence = steps.own(store, (Lane.BACKFILL,))
    for name in ("a", "b", "c"):
        steps.pause(store, steps.create(store, name))
    for _ in range(3):
        store.seal_audit(SealAudit(fence=fence, limit=2))
    store.release_leases(fence)
    return str(duly.App(store=store).audit.verify().head)


LAST_SEAL_GONE = "DELETE FROM {audit} WHERE number > 4; DELETE FROM {seals} WHERE number = 3"
ALL_GONE = "DELETE FROM {audit}; DELETE FROM {seals}"


def seal_more(store) -> None:
    """Write and seal an entry, as a dispatcher does that knows nothing of a tampering."""
    fence = steps.own(store, (Lane.BACKFILL,))
    steps.create(store, "later")
    store.seal_audit(SealAudit(fence=fence, limit=100))
    store.release_leases(fence)


def found(store, known: str | None = None) -> list[tuple[str, int]]:
    """Return what does not agree."""
    return [
        (str(one.kind), one.number)
        for one in duly.App(store=store).audit.verify(known=known).traces
    ]
