"""A clock that is set by hand, as tests have it; the code of it is the engine's."""

from duly.engine.manual_clock import START_US, ManualClock

__all__ = ["START_US", "ManualClock"]
