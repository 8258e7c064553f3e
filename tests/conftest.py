"""How every test runs."""

from __future__ import annotations

from hypothesis import settings

pytest_plugins = ["tests.postgres.fixtures"]

# No deadline for a single example: what a shared machine does in a millisecond proves nothing about
# our code. The time-out per test is what ends a search that hangs.
settings.register_profile("duly", deadline=None, print_blob=True)
settings.load_profile("duly")
