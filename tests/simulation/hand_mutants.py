"""Deliberate defects of hand-overs, each of which the simulation must notice.

As with the other mutants: where several layers stand against one danger, a mutant says which other
layer it takes away.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING
from unittest import mock

from duly.engine.dispatcher.firing import Firing
from duly.engine.dispatcher.timer_loader import Sweep
from duly.store.memory import execution, firing, ownership
from tests.simulation import handing
from tests.simulation.mutants import _judge_without_comparing, _no_sweep, patched
from tests.simulation.simulation import Mutant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from tests.simulation.world import World

ORIGINAL_FIRE = handing.fire_handed
ORIGINAL_CLAIM = handing.claim_handed
ORIGINAL_MAY_TAKE = handing.may_take
ORIGINAL_NOTE = handing.Offering._note  # noqa: SLF001 - a mutant is made inside


def _held_by_anybody(_journal, fence, lane):
    return {lease.key.shard for lease in fence.leases if lease.key.lane == lane}, []


def _firing_with(name: str, new: object) -> Callable[[World], AbstractContextManager[object]]:
    """Replace a part of a fire, but only of what is handed over."""

    def fire(journal, command):
        with mock.patch.object(firing, name, new):
            return ORIGINAL_FIRE(journal, command)

    return patched(handing, "fire_handed", fire)


@contextmanager
def _taken_by_the_dead(_: World) -> Iterator[None]:
    def may_take(journal, order):
        with mock.patch.object(ownership, "may_claim", return_value=True):
            return ORIGINAL_MAY_TAKE(journal, order)

    def claim(journal, order):
        with mock.patch.object(execution, "may_claim", return_value=True):
            return ORIGINAL_CLAIM(journal, order)

    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(handing, "may_take", may_take))
        stack.enter_context(mock.patch.object(handing, "claim_handed", claim))
        yield


# What nobody fires the sweep finds, so these take it away, too.


def _fired_unless_told_otherwise(self, batch, offer):
    if not offer.has_listener:
        due_at = max(timer.due_at for _, timer in offer.placed)
        batch.hear_of_others(max(self._node.known_at, due_at), offer.placed)
    ORIGINAL_NOTE(self, batch, offer)


def _give_up_and_forget(_self, _given_up):
    return nullcontext()


def _without_sweep(
    target: object, name: str, new: object
) -> Callable[[World], AbstractContextManager[object]]:
    @contextmanager
    def patch(_: World) -> Iterator[None]:
        with mock.patch.object(target, name, new), mock.patch.object(Sweep, "read", _no_sweep):
            yield

    return patch


HAND_MUTANTS = (
    Mutant(
        "handed over under any fence",
        shows_in=20,
        patch=_firing_with("held_shards", _held_by_anybody),
    ),
    Mutant(
        "handed over without comparison",
        shows_in=24,
        patch=_firing_with("_judge", _judge_without_comparing),
    ),
    Mutant("handed over to the dead", shows_in=204, patch=_taken_by_the_dead),
    Mutant(
        "what is not answered has fired, no sweep",
        shows_in=4,
        patch=_without_sweep(handing.Offering, "_note", _fired_unless_told_otherwise),
    ),
    Mutant(
        "what was not heard is forgotten, no sweep",
        shows_in=54,
        patch=_without_sweep(Firing, "_giving_up_on", _give_up_and_forget),
    ),
)
