"""What the tests of the engine share: services on one store, in virtual time."""

from __future__ import annotations

import pytest

from tests.engine.rig import Rig


@pytest.fixture
def rig() -> Rig:
    return Rig()
