"""Settings: the limits that a program may choose for itself, validated whole."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import timedelta

from duly.errors import UsageError

_PLACES = frozenset({"secret_environment", "secret_directories", "allow_addresses", "retention"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The limits of one application; every one has a default that is right for most."""

    payload_bytes_max: int = 64 * 1024
    """A payload says what to work on. What is larger belongs where the work is: a row, a file."""
    payload_depth_max: int = 32
    runs_per_order_max: int = 10_000
    """All of one order commit together; this bounds how long others wait for it."""
    decisions_max: int = 5
    """How often an order is decided anew because the schedule moved meanwhile."""
    listed_max: int = 100_000
    """How many things one call may list."""
    occurrences_max: int = 10_000
    """How many occurrences one call may judge."""
    transaction_limit: timedelta = timedelta(seconds=1)
    """How long a lent connection may be kept: a store may have one writer only."""
    secret_environment: tuple[str, ...] = ("DULY_SECRET_*",)
    """Variables that arguments may refer to; one that ends in * stands for all that begin so."""
    secret_directories: tuple[str, ...] = ()
    """Folders, by absolute path, whose files arguments may refer to as secrets."""
    allow_addresses: tuple[str, ...] = ()
    """Private addresses that webhooks may call: hosts, networks, each with a port or without."""

    retention: tuple[str, ...] = ()
    """How long history is kept, where not as long as usual: ("succeeded=7d", "failed=forever").
    What $DULY_RETENTION says, with commas between, wins over it."""
    catch_up_per_second: int | None = None
    """How many missed occurrences the fleet makes runs of; None for as many as live work allows.
    What $DULY_CATCH_UP_PER_SECOND says wins over it."""
    traces: bool = False
    """Whether spans are told through OpenTelemetry: of what is promised here, to whichever provider
    the program has set up; of what is executed, as `--traces` does."""

    def __post_init__(self) -> None:
        """Refuse a limit that limits everything, or is no number."""
        for one in fields(self):
            value = getattr(self, one.name)
            if one.name in _PLACES:
                if not isinstance(value, tuple) or not all(isinstance(name, str) for name in value):
                    remedy = "give a tuple of texts, such as ('DULY_SECRET_*',)"
                    raise UsageError(one.name, value, "is not a tuple of texts", remedy)
                continue
            if one.name == "catch_up_per_second" and value is None:
                continue
            if one.name == "traces":
                if not isinstance(value, bool):
                    raise UsageError(one.name, value, "is no choice", "give True or False")
                continue
            if one.name == "transaction_limit":
                is_limit = isinstance(value, timedelta) and value > timedelta(0)
            else:
                is_limit = isinstance(value, int) and not isinstance(value, bool) and value >= 1
            if not is_limit:
                raise UsageError(one.name, value, "is not a limit", "give a whole number from 1 on")
