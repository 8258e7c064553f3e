"""The variables of a process: which run it works for, its key (E7), its user, its span."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.domain.identity import identity_text
from duly.domain.instants import from_microseconds, iso_utc

if TYPE_CHECKING:
    from duly.engine.work import Work
    from duly.store.execution import ClaimedRun


def run_variables(claimed: ClaimedRun) -> dict[str, str]:
    """Return them; the key is the same for every attempt and every repair of what was promised."""
    record = claimed.record
    return {
        "DULY_RUN_ID": identity_text(record.id),
        "DULY_IDEMPOTENCY_KEY": identity_text(record.line),
        "DULY_ATTEMPT": str(claimed.tries.attempt),
        "DULY_FENCE": str(claimed.tries.fence),
        "DULY_SCHEDULED_FOR": iso_utc(from_microseconds(record.scheduled_for)),
        "DULY_TASK": record.call.task,
    }


def trace_variables(work: Work) -> dict[str, str]:
    """Return what tells a process of its attempt's span, in the words of OpenTelemetry."""
    carrier = {} if work.trace is None else work.trace.carrier()
    return {name.upper(): value for name, value in carrier.items()}


def user_variables(name: str) -> dict[str, str]:
    """Return where a user is at home, and how it is called; nothing of one that there is not."""
    import pwd

    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        return {}  # whoever becomes that user says so
    return {"HOME": entry.pw_dir, "USER": entry.pw_name, "LOGNAME": entry.pw_name}
