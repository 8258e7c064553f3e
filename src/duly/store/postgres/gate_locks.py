"""Locking gates: whoever decides about one holds its row until his commit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.store.postgres.arrays import Texts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from duly.store.postgres.session import Session

# Makes what is missing and locks what is there, name by name: a row that is only compared is locked
# as one that is changed.
LOCK_GATES = """
INSERT INTO duly.gates (name) SELECT u.name FROM unnest($1::text[]) u(name)
ON CONFLICT (name) DO UPDATE SET name = excluded.name WHERE false"""


def lock_gates(session: Session, names: Iterable[str]) -> None:
    """Wait for whoever decides about gates, and let nobody else until the end."""
    session.run(LOCK_GATES, (Texts(sorted(names)),))
