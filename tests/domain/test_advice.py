"""What is safest about a run that is in doubt."""

from __future__ import annotations

from itertools import product

from duly.domain.effects import Choice, Doubt, advise
from duly.domain.enums import Effects, Finding
from tests.each_row import each_row

UNSAFE = Doubt(Effects.UNSAFE)
REPEATING = {Choice.RETRY, Choice.RESUME, Choice.REPAIR}


@each_row(
    ("doubt", "choice"),
    [
        (UNSAFE._replace(is_whole=True), Choice.RECONCILE),
        (UNSAFE._replace(unknown=1, done=2), Choice.RECONCILE),
        (UNSAFE._replace(unknown=1, has_late_success=True), Choice.RECONCILE),
        (UNSAFE._replace(unknown=1, has_check=True), Choice.RECONCILE),
        (UNSAFE._replace(done=3), Choice.RETRY),
        (UNSAFE._replace(done=3, has_checkpoint=True), Choice.RESUME),
        (UNSAFE, Choice.RETRY),
        (UNSAFE._replace(unknown=1, finding=Finding.PRESENT), Choice.RECONCILE),
        (UNSAFE._replace(unknown=1, finding=Finding.ABSENT), Choice.RETRY),
        (UNSAFE._replace(done=4, finding=Finding.PARTIAL), Choice.REPAIR),
        (UNSAFE._replace(unknown=1, finding=Finding.PARTIAL), Choice.RECONCILE),
        (UNSAFE._replace(unknown=1, finding=Finding.UNKNOWN), Choice.RECONCILE),
        (Doubt(Effects.IDEMPOTENT, unknown=1), Choice.RETRY),
    ],
)
def test_the_safest_choice_follows_from_what_is_known(doubt: Doubt, choice: Choice):
    assert advise(doubt).choice is choice


def every_doubt() -> list[Doubt]:
    flags = (False, True)
    findings = (None, *Finding)
    parts = product(Effects, (0, 2), (0, 1), flags, flags, flags, findings, flags)
    return [Doubt(*one) for one in parts]


def test_what_may_have_been_done_is_never_advised_to_be_repeated():
    """INV-11: in every combination of what can be known."""
    for doubt in every_doubt():
        advice = advise(doubt)
        is_open = doubt.effects is Effects.UNSAFE and (doubt.unknown or doubt.is_whole)
        if is_open and doubt.finding is not Finding.ABSENT:
            assert advice.choice not in REPEATING, doubt
        assert advice.why
        assert set(advice.risks) == set(Choice) - {advice.choice}
        assert all(advice.risks.values())


def test_a_repetition_that_is_not_advised_must_be_confirmed():
    advice = advise(UNSAFE._replace(unknown=1))

    assert {choice for choice in Choice if advice.is_risky(choice)} == REPEATING
    assert not advise(UNSAFE._replace(done=1)).is_risky(Choice.RETRY)
