"""Deliberate defects of permissions, doubt and its settlement; the simulation must notice each.

As with the other mutants: where several layers stand against one danger, a mutant says which other
layer it takes away.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from unittest import mock

from duly.client import run_context as client_effects
from duly.domain.effects import EffectState, Grant, may_begin, may_repeat
from duly.domain.enums import RunState
from duly.domain.ids import RunId
from duly.domain.outcomes import MarkAmbiguous, Requeue, conclude
from duly.domain.runs import Reason
from duly.engine.dispatcher import reaper
from duly.engine.worker import active_attempts
from duly.engine.worker.run_context import WorkerRunContext
from duly.store import effect_rulings
from duly.store.memory import doubts, effects, ending, execution, reaping
from duly.store.memory.following import follow_up
from duly.store.memory.gates import give_back
from duly.store.memory.reading import get_run
from tests.simulation.mutants import patched
from tests.simulation.simulation import Mutant

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.simulation.world import World

ORIGINAL_END = ending.end_claim
ORIGINAL_CLAIM_RUNS = execution.claim_runs
ORIGINAL_CONCLUDE = conclude
ORIGINAL_MAY_REPEAT = may_repeat
ORIGINAL_MAY_BEGIN = may_begin
ORIGINAL_BEGIN = effects.begin_effect
ORIGINAL_SETTLE_DOUBT = doubts.settle_doubt
ORIGINAL_SETTLE_EFFECTS = effects.settle_effects
ORIGINAL_ONCE = client_effects.once


def _effect_first(live, label, key, call):
    """Does it, and asks afterwards."""
    value = call()
    ORIGINAL_ONCE(live, label, key, lambda: value)
    return value


def _granted_to_all(known, asker, declared):
    grant = ORIGINAL_MAY_REPEAT(known, asker, declared)
    return Grant.GRANTED if grant is Grant.UNKNOWN else grant


def _done_once_more(known, asker, declared):
    grant = ORIGINAL_MAY_REPEAT(known, asker, declared)
    return Grant.GRANTED if grant is Grant.DONE else grant


def _held_by_whoever_asks(journal, worker, hold):
    return journal.tables.claims.get(hold.run_id)


def _deaf_to_stops(boundary):
    return ORIGINAL_MAY_BEGIN(boundary._replace(is_cancel_asked=False))


def _intention_dropped(journal, run_id, fence):
    """Takes an attempt that has not said anything for one that has done nothing."""
    for place, record in list(journal.tables.effects.items()):
        if place[0] == run_id and record.state is EffectState.INTENDED:
            journal.remove(journal.tables.effects, place)


def _done_not_written(journal, command):
    return effects._held(journal, command.worker, command.hold) is not None  # noqa: SLF001 - inside


def _permission_not_kept(journal, command):
    """Answers before it has written anything down."""
    begun = ORIGINAL_BEGIN(journal, command)
    if begun.grant is Grant.GRANTED and command.key is not None:
        place = (command.hold.run_id, command.key)
        journal.remove(journal.tables.effects, place)
    return begun


@contextmanager
def _boundary_forgotten_by(module: Any) -> Iterator[None]:
    def forgetful(end, attempted):
        return ORIGINAL_CONCLUDE(end, replace(attempted, has_begun_effects=False))

    with mock.patch.object(module, "conclude", forgetful):
        yield


def _ending(new: Any) -> Any:
    @contextmanager
    def patch(_: World) -> Iterator[None]:
        with (
            mock.patch.object(execution, "end_claim", new),
            mock.patch.object(reaping, "end_claim", new),
        ):
            yield

    return patch


def _gate_given_back(journal, run_id, claim, conclusion, **told):
    ORIGINAL_END(journal, run_id, claim, conclusion, **told)
    if isinstance(conclusion.next, MarkAmbiguous):
        give_back(journal, run_id)


def _doubt_is_queued(journal, run_id, claim, conclusion, **told):
    if isinstance(conclusion.next, MarkAmbiguous):
        conclusion = replace(conclusion, next=Requeue())
    return ORIGINAL_END(journal, run_id, claim, conclusion, **told)


def _doubt_is_claimed(journal, command):
    """Hands out what is in doubt, when it has been so for a while."""
    tables = journal.tables
    for run_id, doubt in list(tables.in_doubt.items()):
        if journal.now - doubt.at > 1_000_000:
            journal.remove(tables.in_doubt, run_id)
            journal.queue(run_id, journal.now, doubt.tries)
    return ORIGINAL_CLAIM_RUNS(journal, command)


def _settles_anything(journal, command):
    """Closes what is over once more, as the second who decides says."""
    outcome = journal.tables.outcomes.get(command.id)
    if outcome is not None:
        written = replace(outcome, state=RunState.SKIPPED)
        journal.put(journal.tables.outcomes, command.id, written)
        return get_run(journal, command.id)
    return ORIGINAL_SETTLE_DOUBT(journal, command)


def _told_effects_forgotten(journal, run_id, known):
    ORIGINAL_SETTLE_EFFECTS(journal, run_id, {})


def _unheard_permission(self):
    return self._is_permitted and False


def _finished_by_whoever_commits(journal, store, worker, finish):
    if execution.held(journal, worker, finish.hold) is not None:
        ORIGINAL_FINISH_WITHIN(journal, store, worker, finish)


def _end_left_out(journal, store, worker, finish):
    """Lets rows be committed, and leaves the end to the worker's own word."""


def _checked_twice(journal, new):
    ORIGINAL_FOLLOW_UP(journal, new)
    if new is not None:
        ORIGINAL_FOLLOW_UP(journal, replace(new, id=RunId(new.id[::-1])))


def _of_its_own(run_id, origin, root):
    """Lets a repair begin with an empty ledger."""
    return run_id


def _of_the_root(run_id, origin, root):
    """Lets a plain rerun go on with the ledger of what it repeats."""
    return root or run_id


def _whichever_doubt(command, record):
    return record.state is RunState.AMBIGUOUS


def _this_doubt_or_another(record, command):
    return ORIGINAL_DOUBT_TO_SETTLE(record, replace(command, doubt=None))


def _repaired_beside_its_doubt(journal, record, state, reason):
    """Leaves in doubt what is repaired by another run."""
    if reason is not Reason.RECONCILED or state is not RunState.FAILED:
        ORIGINAL_CLOSE(journal, record, state, reason)


def _left_unknown(journal, run_id, settled):
    """Leaves in the ledger as unknown what was settled."""


def _beside_the_open(record, other):
    """Lets a repair go beside another run that shares the ledger."""


ORIGINAL_FINISH_WITHIN = execution.finish_within
ORIGINAL_DOUBT_TO_SETTLE = effect_rulings.doubt_to_settle
ORIGINAL_FOLLOW_UP = follow_up
ORIGINAL_CLOSE = doubts._close  # noqa: SLF001 - inside

EFFECT_MUTANTS = (
    Mutant(
        "what was settled stays unknown", patch=patched(doubts, "settle_effects", _left_unknown)
    ),
    Mutant("a repair beside a repair", patch=patched(doubts, "refuse_open_line", _beside_the_open)),
    Mutant("permission after the effect", patch=patched(client_effects, "once", _effect_first)),
    Mutant(
        "permission that nobody wrote down",
        patch=patched(effects, "begin_effect", _permission_not_kept),
    ),
    Mutant(
        "an unknown effect is permitted to an unsafe task",
        shows_in=14,
        patch=patched(effects, "may_repeat", _granted_to_all),
    ),
    Mutant("what is done is permitted", patch=patched(effects, "may_repeat", _done_once_more)),
    Mutant(
        "permission without a fence",
        shows_in=59,
        patch=patched(effects, "_held", _held_by_whoever_asks),
    ),
    Mutant(
        "permission to who is to stop",
        shows_in=24,
        patch=patched(effects, "may_begin", _deaf_to_stops),
    ),
    Mutant(
        "an intention is forgotten with its claim",
        patch=patched(ending, "forget_intentions", _intention_dropped),
    ),
    Mutant("what is done is not written", patch=patched(effects, "end_effect", _done_not_written)),
    Mutant(
        "the boundary is forgotten at a loss",
        patch=lambda _: _boundary_forgotten_by(reaper),
    ),
    Mutant(
        "the boundary is forgotten at an end",
        patch=lambda _: _boundary_forgotten_by(active_attempts),
    ),
    Mutant(
        "a worker forgets that it was permitted",
        patch=patched(WorkerRunContext, "has_begun_effects", property(_unheard_permission)),
    ),
    Mutant("the gate is given back in doubt", shows_in=98, patch=_ending(_gate_given_back)),
    Mutant("what is in doubt is queued", patch=_ending(_doubt_is_queued)),
    Mutant(
        "what is in doubt is handed out", patch=patched(execution, "claim_runs", _doubt_is_claimed)
    ),
    Mutant(
        "what is over is settled once more",
        patch=patched(doubts, "settle_doubt", _settles_anything),
    ),
    Mutant(
        "what a person knows of effects is forgotten",
        shows_in=2,
        patch=patched(doubts, "settle_effects", _told_effects_forgotten),
    ),
    Mutant(
        "a repair forgets what was done", patch=patched(effects, "lineage_root_of", _of_its_own)
    ),
    Mutant(
        "a rerun counts as a repair",
        shows_in=1,
        patch=patched(effects, "lineage_root_of", _of_the_root),
    ),
    Mutant(
        "a run is run once more beside itself",
        shows_in=0,
        patch=patched(effect_rulings, "REPEATABLE", frozenset(RunState)),
    ),
    Mutant(
        "a run is repaired and stays in doubt",
        patch=patched(doubts, "_close", _repaired_beside_its_doubt),
    ),
    Mutant(
        "what was found of an earlier doubt settles this one",
        shows_in=275,
        patch=patched(doubts, "is_settled_by", _whichever_doubt),
    ),
    Mutant(
        "what was decided about an earlier doubt settles this one",
        shows_in=24,
        patch=patched(doubts, "doubt_to_settle", _this_doubt_or_another),
    ),
    Mutant(
        "what has succeeded is not checked",
        shows_in=2,
        patch=patched(active_attempts, "is_to_be_checked", lambda _: False),
    ),
    Mutant(
        "what is lost is not checked",
        shows_in=28,
        patch=patched(reaper, "is_to_be_checked", lambda _: False),
    ),
    Mutant(
        "a check is made twice of one end",
        shows_in=2,
        patch=patched(execution, "follow_up", _checked_twice),
    ),
    Mutant(
        "rows are committed though the run was taken away",
        shows_in=4,
        patch=patched(execution, "finish_within", _finished_by_whoever_commits),
    ),
    Mutant(
        "rows are committed without the end of the run",
        shows_in=7,
        patch=patched(execution, "finish_within", _end_left_out),
    ),
)
