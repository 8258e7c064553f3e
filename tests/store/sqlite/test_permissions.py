"""A file that is made, and its logs, are for the owner of the program alone."""

from __future__ import annotations

import os
import stat
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from duly.engine.manual_clock import ManualClock
from duly.store.sqlite import SqliteStore
from duly_conformance import steps

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def created_for_everyone() -> Iterator[None]:
    """Have new files be open to everyone, unless a program says otherwise."""
    kept = os.umask(0)
    try:
        yield
    finally:
        os.umask(kept)


def modes(path: Path) -> dict[str, str]:
    """Return the permissions of a store's files."""
    return {
        one.name: f"{stat.S_IMODE(one.stat().st_mode):o}"
        for one in sorted(path.parent.glob(f"{path.name}*"))
    }


def make_and_use(path: Path) -> dict[str, str]:
    """Return the permissions of a store's files while it is used."""
    with created_for_everyone():
        store = SqliteStore(path, ManualClock())
        steps.create(store)
        found = modes(path)
        store.close()
    return found


ALL_PRIVATE = {"duly.db": "600", "duly.db-shm": "600", "duly.db-wal": "600"}


def test_a_new_file_and_its_logs_are_for_their_owner_alone(path):
    assert make_and_use(path) == ALL_PRIVATE


def test_a_new_file_is_for_its_owner_alone_where_only_root_may_call_mknod(path, monkeypatch):
    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "mknod", refuse)

    assert make_and_use(path) == ALL_PRIVATE


def test_a_new_file_behind_a_link_is_for_its_owner_alone(path, tmp_path):
    path.symlink_to(tmp_path / "elsewhere.db")
    make_and_use(path)

    assert "600" == modes(tmp_path / "elsewhere.db")["elsewhere.db"]


@pytest.mark.parametrize("mode", [0o600, 0o660, 0o644])
def test_a_file_that_is_there_keeps_its_permissions(path, mode):
    """An operator who shares it with a group makes it beforehand."""
    path.touch()
    path.chmod(mode)

    assert {f"{mode:o}"} == set(make_and_use(path).values())
