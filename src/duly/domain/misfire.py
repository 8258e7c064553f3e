"""The misfire policy: which occurrences count as missed, and which of those are still run (M1).

How it is applied to a span of occurrences is in settling.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from duly.domain.durations import duration_microseconds, duration_text
from duly.domain.literals import MisfirePolicy
from duly.errors import UsageError

if TYPE_CHECKING:
    from datetime import timedelta

GRACE_DEFAULT = "60s"
NOT_OLDER_DEFAULT = "1d"
AT_MOST_MAX = 10_000
NO_BOUND = "none"
"""How files and commands write that a bound is lifted: they have no word for nothing."""


@dataclass(frozen=True, slots=True, init=False)
class Misfire:
    """A misfire policy: which missed occurrences are run, when one counts as missed, and bounds."""

    policy: MisfirePolicy
    grace_us: int
    at_most: int | None
    not_older_us: int | None

    def __init__(
        self,
        policy: str = "latest",
        *,
        grace: str | timedelta = GRACE_DEFAULT,
        at_most: int | None = None,
        not_older: str | timedelta | None = NOT_OLDER_DEFAULT,
    ) -> None:
        """Take the policy `skip`, `latest` or `all`, the grace, and the bounds on what is run late.

        `grace` is how late still counts as on time. At most `at_most` missed occurrences are run,
        the newest, and none that is older than `not_older`; None lifts a bound.
        """
        choices = ", ".join(MisfirePolicy)
        if policy not in list(MisfirePolicy):
            raise UsageError("misfire", policy, "is not a misfire policy", f"use one of {choices}")
        set_field = object.__setattr__
        set_field(self, "policy", MisfirePolicy(policy))
        set_field(self, "grace_us", _not_negative("grace", grace))
        older = None if not_older is None else _not_negative("not_older", not_older)
        set_field(self, "not_older_us", older)
        is_number = isinstance(at_most, int) and not isinstance(at_most, bool)
        if at_most is not None and not (is_number and 1 <= at_most <= AT_MOST_MAX):
            remedy = f"give 1 to {AT_MOST_MAX:,}, or None for no such bound"
            raise UsageError("at_most", at_most, "is out of range", remedy)
        set_field(self, "at_most", at_most)

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values that `read_misfire` reads back."""
        older = self.not_older_us
        return {
            "policy": str(self.policy),
            "grace": duration_text(self.grace_us),
            "at_most": self.at_most,
            "not_older": None if older is None else duration_text(older),
        }


def read_misfire(value: object) -> Misfire:
    """Read a misfire policy as people give it: a name, a Misfire, or the parts of one."""
    if isinstance(value, Misfire):
        return value
    if isinstance(value, dict):
        unknown = sorted(str(key) for key in value if key not in _KEYS)
        if unknown:
            raise UsageError("misfire", unknown[0], "is not a part of it", f"use {_KEYS_TEXT}")
        given: dict[str, Any] = {
            key: None if part == NO_BOUND else part for key, part in value.items()
        }
        return Misfire(**given)
    if not isinstance(value, str):
        remedy = 'give "skip", "latest", "all" or a duly.Misfire'
        raise UsageError("misfire", value, "is not a misfire policy", remedy)
    return Misfire(value)


_KEYS = ("policy", "grace", "at_most", "not_older")
_KEYS_TEXT = ", ".join(_KEYS)


def _not_negative(field: str, duration: str | timedelta) -> int:
    length = duration_microseconds(duration, field)
    if length < 0:
        raise UsageError(field, duration, "is negative", "give a duration such as '60s' or '2d'")
    return length
