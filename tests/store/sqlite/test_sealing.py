"""A file whose audit trail was tampered with."""

from __future__ import annotations

import apsw
import pytest

from tests.store.tampering import TAMPERED, found, seal_six


@pytest.mark.parametrize("statement", TAMPERED)
def test_what_was_changed_removed_or_inserted_is_named(store, path, statement):
    seal_six(store)
    assert [] == found(store)
    file = apsw.Connection(str(path))
    file.execute(statement.format(audit="duly_audit", seals="duly_seals", override=""))
    file.close()

    assert TAMPERED[statement] == found(store)
