"""What is safest about a run that is in doubt."""

from __future__ import annotations

from itertools import product

from duly.domain.effects import Choice, Doubt, advise, settled_by
from duly.domain.enums import Effects, Finding
from duly.domain.verification import Scope
from tests.each_row import each_row

UNSAFE = Doubt(Effects.UNSAFE)
REPEATING = {Choice.RETRY, Choice.RESUME, Choice.REPAIR}
MISSING = Scope(3, 1, 0, ("b", "c"))
VERBS = {"does", "costs", "takes", "leaves"}


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
        (UNSAFE._replace(unknown=1, done=1, scope=MISSING), Choice.RETRY),
        (UNSAFE._replace(unknown=1, scope=MISSING, has_checkpoint=True), Choice.RESUME),
        (UNSAFE._replace(unknown=1, scope=MISSING, has_check=True), Choice.RETRY),
        (UNSAFE._replace(unknown=1, scope=MISSING, finding=Finding.PARTIAL), Choice.RETRY),
        (UNSAFE._replace(unknown=1, scope=Scope(3)), Choice.RETRY),
        (UNSAFE._replace(unknown=1, scope=Scope(2, 2, 0, ("c",))), Choice.RETRY),
        (UNSAFE._replace(unknown=1, scope=Scope(3, 3)), Choice.RECONCILE),
        (UNSAFE._replace(unknown=1, scope=Scope(None, 3)), Choice.RECONCILE),
        (UNSAFE._replace(is_whole=True, scope=MISSING), Choice.RECONCILE),
    ],
)
def test_the_safest_choice_follows_from_what_is_known(doubt: Doubt, choice: Choice):
    assert advise(doubt).choice is choice


def every_doubt() -> list[Doubt]:
    flags = (False, True)
    findings = (None, *Finding)
    scopes = (Scope(), MISSING)
    parts = product(Effects, (0, 2), (0, 1), flags, flags, flags, findings, flags, scopes)
    return [Doubt(*one) for one in parts]


def test_what_may_have_been_done_is_never_repeated_without_being_settled_or_confirmed():
    """INV-11: in every combination of what can be known.

    With items missing the advice is to go on, once each unknown effect is settled.
    """
    for doubt in every_doubt():
        advice = advise(doubt)
        is_open = doubt.effects is Effects.UNSAFE and (doubt.unknown or doubt.is_whole)
        is_risky = bool(is_open) and doubt.finding is not Finding.ABSENT
        assert [is_risky] * 3 == [advice.is_risky(choice) for choice in REPEATING], doubt
        if is_risky and (doubt.is_whole or not doubt.scope.has_missing):
            assert advice.choice not in REPEATING, doubt
        assert advice.why
        assert set(advice.risks) == set(Choice) - {advice.choice}
        assert all(advice.risks.values())


def test_every_risk_is_a_sentence_after_this():
    """Refusals put it so: "--confirm is missing: this does …"."""
    for doubt in every_doubt():
        for choice, risk in advise(doubt).risks.items():
            assert risk.split()[0] in VERBS, (choice, risk)
            assert ": as retry" not in risk


def test_only_what_may_be_repeated_must_be_confirmed():
    """A repair whose effects are all on record repeats nothing, whatever is advised."""
    open_, known = advise(UNSAFE._replace(unknown=1)), advise(UNSAFE._replace(done=1))

    assert {choice for choice in Choice if open_.is_risky(choice)} == REPEATING
    assert not [choice for choice in Choice if known.is_risky(choice)]
    assert "second time" not in " ".join(known.risks.values())


def test_the_advice_says_how_many_items_are_done():
    assert "1 of 3 items done; " in advise(UNSAFE._replace(unknown=1, scope=MISSING)).why
    assert "items" not in advise(UNSAFE._replace(unknown=1, scope=Scope(3, 3))).why


NAMED = {"a": True, "b": False}


@each_row(
    ("choice", "is_done", "named", "settled"),
    [
        (Choice.RETRY, False, NAMED, {"a": True, "b": False, "c": False}),
        (Choice.RESUME, False, {}, {"a": False, "b": False, "c": False}),
        (Choice.RECONCILE, True, {}, {"a": True, "b": True, "c": True}),
        (Choice.RECONCILE, True, NAMED, {"a": True, "b": False, "c": True}),
        (Choice.RECONCILE, False, {}, {}),
        (Choice.RECONCILE, False, NAMED, NAMED),
        (Choice.REPAIR, False, NAMED, NAMED),
        (Choice.SKIP, False, NAMED, {}),
        (Choice.RETRY, False, {"gone": True}, {"a": False, "b": False, "c": False}),
    ],
)
def test_a_decision_settles_what_it_says_and_no_more(
    choice: Choice, is_done: bool, named: dict[str, bool], settled: dict[str, bool]
):
    assert settled_by(choice, named, ("a", "b", "c"), is_done=is_done) == settled
