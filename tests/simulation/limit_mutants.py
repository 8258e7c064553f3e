"""Deliberate defects of breakers, caps, rates and backoff; the simulation must notice each (INV-23).

As with the other mutants: where several layers stand against one danger, a mutant says which other
layer it takes away.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING
from unittest import mock

from duly.domain import admission as domain_admission
from duly.domain import limits, outcomes
from duly.domain.admission import Breaker, BreakerState, Pass, ask, probed
from duly.domain.policies import Retry
from duly.store import admission as shared
from duly.store.memory import admission, ending, limiting, reaping
from duly.store.memory.admission import MemoryAdmission
from tests.simulation.mutants import patched
from tests.simulation.recipe import SECOND
from tests.simulation.simulation import Mutant

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.simulation.world import World

ORIGINAL_BOOKS = MemoryAdmission.books
ORIGINAL_ADMIT = MemoryAdmission.admit
ORIGINAL_END = ending.end_claim
ORIGINAL_FOLD = shared.fold


# Breakers


def _breaker_of_its_own(self, worker, requests):
    """Of two workers one knows nothing of what the other has found out."""
    if worker % 2:
        return ORIGINAL_ADMIT(self, worker, requests)
    with mock.patch.object(self._tables, "breakers", {}):
        return ORIGINAL_ADMIT(self, worker, requests)


def _many_probes(breaker, run, now, probe_us):
    if breaker.state is BreakerState.HALF_OPEN:
        return Pass(None, breaker)
    return ask(breaker, run, now, probe_us)


def _never_open(breaker, run, now, probe_us):
    return Pass(None, breaker)


def _reset_by_a_loss(breaker, ends, now):
    folded = ORIGINAL_FOLD(breaker, ends, now)
    if any(end.is_answered is None for end in ends):
        return replace(folded, succeeded=0, failed=0)
    return folded


def _lost_probe_kept(breaker, end, now):
    if end.is_answered is None:
        return breaker
    return probed(breaker, end, now)


def _closed_by_any_probe(breaker, end, now):
    return Breaker(counted_from=now, epoch=breaker.epoch)


def _paused_no_longer(breaker, end, now):
    after = probed(breaker, end, now)
    if end.is_answered is False:
        return replace(after, retry_at=now + breaker.pause_us, pause_us=breaker.pause_us)
    return after


def _back_at_once(destination, books, until):
    return until


# Places


@contextmanager
def _place_kept_by_the_lost(_: World) -> Iterator[None]:
    def end_lost(*words, **told):
        with mock.patch.object(ending, "end_at_limits"):
            ORIGINAL_END(*words, **told)

    with mock.patch.object(reaping, "end_claim", end_lost):
        yield


@contextmanager
def _counted_before_the_lock(_: World) -> Iterator[None]:
    """Decides by what it had counted before another has decided."""
    counted: dict[str, int] = {}

    def books(self, places, destinations):
        found = ORIGINAL_BOOKS(self, places, destinations)
        before = {place: counted.get(place, 0) for place in found.held}
        counted.update(found.held)
        found.held.update(before)
        return found

    with mock.patch.object(MemoryAdmission, "books", books):
        yield


def _all_let_go(most, held, waiting):
    return waiting


def _waiting_passed_over(comer, books):
    for place, most in comer.caps:
        if place not in comer.holds and books.held.get(place, 0) > most:
            return place
    return None


def _nothing_kept(self, places):
    return {}


def _nothing_held(self, run_ids):
    """Has forgotten whom it has let begin."""
    return {}


def _all_unbegun(self, holds):
    return list(holds)


# Rates


def _one_more(rate, even_at, now, slack_us=0):
    return max(now, even_at - rate.burst * rate.every_us - slack_us)


def _slack_of_a_second(self):
    return SECOND


def _turn_forgotten(asked, given_at, now):
    return limits.take_turn(asked, None, now)


def _turn_used_twice(rate, pace, now):
    return pace


# Attempts and waits


def _attempt_used(tries):
    return tries


def _charged_for_waiting(tries):
    return tries._replace(attempt=tries.attempt - 1, charged=tries.charged + 1)


def _without_jitter(self, run, number):
    return min(self.cap_us, self.base_us << (number - 1))


def _from_its_nominal_time(journal, run_id, wait, row):
    due_at = journal.tables.runs[run_id].scheduled_for + wait.delay_us
    journal.insert(journal.tables.waiting, run_id, replace(row, due_at=due_at))
    journal.announce("retry", run_id, due_at)


def _tried_for_ever(attempted, after_us):
    retry = attempted.policy.retry
    return outcomes.RetryLater(retry.delay_us(attempted.run_id, attempted.tries.charged + 1))


LIMIT_MUTANTS = (
    Mutant(
        "a breaker for each process",
        shows_in=1,
        patch=patched(MemoryAdmission, "admit", _breaker_of_its_own),
    ),
    Mutant("a probe is not alone", patch=patched(domain_admission, "ask", _many_probes)),
    Mutant("an open breaker holds nobody", patch=patched(domain_admission, "ask", _never_open)),
    Mutant(
        "a loss resets the count of failures", patch=patched(limiting, "fold", _reset_by_a_loss)
    ),
    Mutant(
        "a lost probe is not replaced",
        shows_in=11,
        patch=patched(shared, "probed", _lost_probe_kept),
    ),
    Mutant("a failed probe closes", patch=patched(shared, "probed", _closed_by_any_probe)),
    Mutant("a pause does not double", patch=patched(shared, "probed", _paused_no_longer)),
    Mutant(
        "all come back at once", patch=patched(domain_admission, "_take_turn_back", _back_at_once)
    ),
    Mutant("the lost keep their places", patch=_place_kept_by_the_lost),
    Mutant("places are counted before the lock", patch=_counted_before_the_lock),
    Mutant("all are let go at once", patch=patched(shared, "room", _all_let_go)),
    Mutant(
        "one more than the cap",
        patch=patched(domain_admission, "_first_full", _waiting_passed_over),
    ),
    Mutant(
        "who was let go makes way for others that were",
        shows_in=11,
        patch=patched(MemoryAdmission, "kept", _nothing_kept),
    ),
    Mutant(
        "who asks again is a stranger", patch=patched(MemoryAdmission, "held_by", _nothing_held)
    ),
    Mutant(
        "a request that comes late closes what runs",
        shows_in=77,
        patch=patched(shared.Admission, "_unbegun", _all_unbegun),
    ),
    Mutant("one more than the burst", patch=patched(limits, "_earliest", _one_more)),
    Mutant(
        "a second of slack, whatever the rate",
        patch=patched(limits.Rate, "slack_us", property(_slack_of_a_second)),
    ),
    Mutant("a turn is forgotten", patch=patched(domain_admission, "take_turn", _turn_forgotten)),
    Mutant("a turn is used twice", patch=patched(limits, "_begun", _turn_used_twice)),
    Mutant("waiting uses up an attempt", patch=patched(admission, "put_off_tries", _attempt_used)),
    Mutant("waiting is charged", patch=patched(admission, "put_off_tries", _charged_for_waiting)),
    Mutant("backoff without jitter", patch=patched(Retry, "delay_us", _without_jitter)),
    Mutant("backoff from the nominal time", patch=patched(ending, "_wait", _from_its_nominal_time)),
    Mutant("the budget is ignored", patch=patched(outcomes, "_again", _tried_for_ever)),
)
