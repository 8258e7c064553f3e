"""The testing kit: virtual time, a clock set by hand, seeded draws, and the suite for stores.

The suite is in `duly.testing.conformance`, apart, because it alone needs pytest.
"""

from duly.testing.manual_clock import ManualClock
from duly.testing.seeded_draws import SeededDraws
from duly.testing.virtual_time import VirtualClock, virtual_time

__all__ = ["ManualClock", "SeededDraws", "VirtualClock", "virtual_time"]
