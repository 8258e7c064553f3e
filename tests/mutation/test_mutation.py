"""The tool that runs mutants: sees a caught one, a survivor and a stale one, and draws alike."""

from __future__ import annotations

import importlib
from dataclasses import replace

import pytest

from tests.mutation.__main__ import judge
from tests.mutation.made_by_hand import BY_HAND, NEAREST
from tests.mutation.patching import Mutant, Source, StaleMutantError, drawn

EXAMPLE = Mutant(
    "duly.domain.admission",
    "reset_of",
    ", epoch=breaker.epoch",
    "",
    ("tests/domain/test_breakers.py::test_each_opening_has_an_epoch_of_its_own",),
)


def test_a_mutant_is_caught_by_the_test_that_looks():
    assert f"caught by {EXAMPLE.tests[0]}" == judge(EXAMPLE)


def test_a_mutant_survives_tests_that_do_not_look():
    blind = ("tests/domain/test_breakers.py::test_what_failed_long_ago_does_not_count",)

    assert "SURVIVED" == judge(replace(EXAMPLE, tests=blind))


@pytest.mark.parametrize("parts", [{"old": "is not there"}, {"symbol": "gone"}, {"old": "e"}])
def test_a_stale_mutant_fails_loudly(parts):
    with pytest.raises(StaleMutantError):
        replace(EXAMPLE, **parts).apply()


def test_no_mutant_made_by_hand_is_stale():
    for mutant in BY_HAND:
        compile(Source(importlib.import_module(mutant.module)).changed(mutant), "", "exec")


def test_the_same_seed_draws_the_same_mutants():
    first = drawn("duly.domain.admission", 1, 5)

    assert first == drawn("duly.domain.admission", 1, 5) != drawn("duly.domain.admission", 2, 5)
    for mutant in drawn("duly.domain.admission", 1, 1_000):
        compile(Source(importlib.import_module(mutant.module)).changed(mutant), "", "exec")


def test_the_nearest_tests_are_there(request):
    for files in NEAREST.values():
        for name in files:
            assert (request.config.rootpath / name.partition("::")[0]).exists(), name
