"""What policies mean, in the words of somebody who must choose one (UX, editor 5 and 6)."""

from __future__ import annotations

from dataclasses import dataclass

from duly.api.views import PRESETS


@dataclass(frozen=True, slots=True)
class Card:
    """One choice of a policy: its word, and what it does."""

    value: str
    title: str
    words: str
    is_default: bool = False


MISFIRES = (
    Card(
        "latest", "Run once when back", "One run stands for all that was missed.", is_default=True
    ),
    Card("all", "Run each that was missed", "In order, on the catch-up lane, at a set rate."),
    Card("skip", "Skip what was missed", "On record as skipped; the next one is on time."),
)
OVERLAPS = (
    Card(
        "skip", "Skip the new one", "It is recorded as skipped, with the reason.", is_default=True
    ),
    Card("queue-one", "Let one wait", "One waits for its turn; further ones are skipped."),
    Card("queue-all", "Let all wait", "Each waits for its turn, in order."),
    Card("coalesce", "Let the latest wait", "One waits, and always stands for the newest."),
    Card("replace", "Stop the previous one", "It is asked to stop, and the new one goes ahead."),
    Card("allow", "Run both", "They run side by side."),
    Card("serialize", "One after the other by key", "Runs with the same key wait for each other."),
)
GAPS = (
    Card(
        "next",
        "Run at the first moment after",
        "02:30 does not exist: it runs at 03:00.",
        is_default=True,
    ),
    Card("shift", "Run later by as much", "02:30 does not exist: it runs at 03:30."),
    Card("skip", "Leave it out that day", "02:30 does not exist: nothing runs."),
)
FOLDS = (
    Card(
        "first",
        "Run the first time",
        "02:30 comes twice: it runs once, the first time.",
        is_default=True,
    ),
    Card("second", "Run the second time", "02:30 comes twice: it runs once, the second time."),
    Card("both", "Run both times", "02:30 comes twice: it runs twice."),
)


def preset_cards() -> tuple[Card, ...]:
    """Return the kinds of work that have policies of their own (E1)."""
    names = {
        "best-effort": "Best effort",
        "refresh": "Refresh",
        "one-result": "One result each",
        "serialized": "One after the other",
        "never-twice": "Never twice",
    }
    return tuple(
        Card(key, names.get(key, key), one.words[:1].upper() + one.words[1:] + ".")
        for key, one in PRESETS.items()
    )


def preset_policies() -> dict[str, dict[str, str]]:
    """Return what each kind of work fills in, by the form's own fields."""
    found = {}
    for key, one in PRESETS.items():
        misfire = one.misfire.to_json()
        found[key] = {
            "misfire": str(misfire["policy"]),
            "not_older": str(misfire["not_older"] or "none"),
            "overlap": str(one.overlap),
        }
    return found
