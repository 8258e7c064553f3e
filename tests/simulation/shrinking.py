"""Shrinking: find a smaller recipe that still breaks a promise, by trying to leave things out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulation.faults import planned_count
from tests.simulation.recipe import Recipe, changed
from tests.simulation.simulation import HEALTHY, Mutant, Report, simulate

if TYPE_CHECKING:
    from collections.abc import Iterator

TRIES_MAX = 120
LEAST = {"dispatchers": 1, "users": 1, "schedules": 1, "seconds": 10, "shards": 1, "workers": 0}


def shrink(report: Report, mutant: Mutant = HEALTHY, tries: int = TRIES_MAX) -> Report:
    """Return the smallest failing report that a bounded number of tries has found.

    It need not fail in the same words: whatever is broken by less is easier to understand.
    """
    smallest = report
    has_shrunk = True
    while has_shrunk and tries > 0:
        has_shrunk = False
        for candidate in _smaller(smallest.recipe):
            if tries <= 0:
                break
            tries -= 1
            tried = simulate(candidate, mutant)
            if tried.violation is not None:
                smallest, has_shrunk = tried, True
                break
    return smallest


def _smaller(recipe: Recipe) -> Iterator[Recipe]:
    """Propose recipes with less in them, the boldest first."""
    if recipe.kinds:
        yield changed(recipe, kinds=frozenset(), planned=None)
    yield from _with_fewer(recipe)
    for kind in sorted(recipe.kinds):
        yield changed(recipe, kinds=recipe.kinds - {kind})
    yield from _with_less_planned(recipe)
    for part in ("users", "dispatchers", "schedules", "workers"):
        if getattr(recipe, part) > 1:
            yield changed(recipe, **{part: getattr(recipe, part) - 1})


def _with_fewer(recipe: Recipe) -> Iterator[Recipe]:
    """Propose fewer of everything that is counted, and none of what need not be."""
    for part, least in LEAST.items():
        number: int = getattr(recipe, part)
        for smaller in (least, number // 3, number * 2 // 3):
            if least <= smaller < number:
                yield changed(recipe, **{part: smaller})
    if recipe.has_open_transactions:
        yield changed(recipe, has_open_transactions=False)
    if recipe.has_policies:
        yield changed(recipe, has_policies=False)


def _with_less_planned(recipe: Recipe) -> Iterator[Recipe]:
    happening = recipe.planned
    if happening is None:
        happening = frozenset(range(planned_count(recipe)))
    for number in sorted(happening):
        yield changed(recipe, planned=happening - {number})
