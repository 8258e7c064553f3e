"""What every store must do: one suite that a backend passes whole, or is not a backend (D4).

A backend's test file holds a class that inherits StoreContract and a fixture `store`, which builds
an empty store on the fixture `clock`.
"""

from __future__ import annotations

import pytest

_PARTS = (
    "attempts",
    "backfills",
    "breakers",
    "breathing",
    "caps",
    "claiming",
    "delayed",
    "fencing",
    "fired_runs",
    "finishing",
    "firing",
    "last_ends",
    "limit_steps",
    "loading",
    "missing",
    "moving",
    "operating",
    "overlapping",
    "owed",
    "ownership",
    "quotas",
    "rates",
    "reading",
    "reaping",
    "retention",
    "retries",
    "run_times",
    "run_vitals",
    "schedules",
    "sealing",
    "searching",
    "standing",
    "steps",
    "tenancy",
    "transactions",
    "upkeep",
    "work_steps",
)
pytest.register_assert_rewrite(*(f"{__name__}.{part}" for part in _PARTS))

from duly.testing.conformance.contract import StoreContract  # noqa: E402 - asserts are told first

__all__ = ["StoreContract"]
