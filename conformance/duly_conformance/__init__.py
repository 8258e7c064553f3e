"""What every store must do: one suite that a backend passes whole, or is not a backend.

A backend's test file holds a class that inherits StoreContract and a fixture `store`, which builds
an empty store on the fixture `clock`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

PARTS = sorted(path.stem for path in Path(__file__).parent.glob("[a-z]*.py"))
pytest.register_assert_rewrite(*(f"{__name__}.{part}" for part in PARTS))

from duly_conformance.contract import StoreContract  # noqa: E402 - asserts are told first

__all__ = ["StoreContract"]
