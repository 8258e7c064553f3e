"""What the tests of commands share: a folder with a program and a store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cli.duly_command import Workplace

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from duly.store.sqlite import SqliteStore


@pytest.fixture
def place(tmp_path: Path) -> Workplace:
    return Workplace.made_in(tmp_path)


@pytest.fixture
def store(place: Workplace) -> Iterator[SqliteStore]:
    opened = place.store
    yield opened
    opened.close()
