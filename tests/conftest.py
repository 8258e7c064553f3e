"""How every test runs."""

from __future__ import annotations

import os

from hypothesis import settings

pytest_plugins = ["tests.postgres.fixtures"]

# No deadline for a single example: what a shared machine does in a millisecond proves nothing about
# our code. The time-out per test is what ends a search that hangs. The examples are the same at every
# run, so that a change is judged by what it changed; DULY_EXPLORE=1 draws new ones.
explore = bool(os.environ.get("DULY_EXPLORE"))
settings.register_profile("duly", deadline=None, print_blob=True, derandomize=not explore)
settings.load_profile("duly")
