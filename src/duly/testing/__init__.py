"""The testing kit: a clock set by hand, seeded draws, and the conformance suite for stores.

The suite is in `duly.testing.conformance`, apart, because it alone needs pytest.
"""

from duly.testing.manual_clock import ManualClock
from duly.testing.seeded_draws import SeededDraws

__all__ = ["ManualClock", "SeededDraws"]
