"""What becomes of a run after an attempt."""

from __future__ import annotations

from dataclasses import replace

import pytest

from duly.domain.enums import AttemptState, Effects, RunState
from duly.domain.ids import RunId
from duly.domain.outcomes import (
    AttemptFacts,
    CancelledEnd,
    Close,
    Conclusion,
    DeadLetter,
    End,
    Failed,
    GaveUp,
    MarkAmbiguous,
    Requeue,
    RetryLater,
    ReturnedToQueue,
    Snoozed,
    Succeeded,
    TimedOut,
    WorkerLost,
    conclude,
)
from duly.domain.policies import Retry, read_retry
from duly.domain.runs import AttemptCounts, Reason, TaskPolicy, policy_from_json, stored_policy
from duly.errors import UsageError
from tests.each_row import each_row

RUN = RunId(bytes(range(16)))
SECOND = 1_000_000
POLICY = TaskPolicy(retry=Retry(3, base="10s", cap="15s"))
FIRST = AttemptFacts(run_id=RUN, policy=POLICY, tries=AttemptCounts(1, 1, 0, 0), now=SECOND)
LAST = replace(FIRST, tries=AttemptCounts(5, 4, 2, 0))


def test_a_return_closes_the_run_with_its_result():
    concluded = conclude(Succeeded("42"), FIRST)

    assert concluded.next == Close(RunState.SUCCEEDED, result="42")
    assert concluded.attempt_state is AttemptState.SUCCEEDED


@pytest.mark.parametrize("end", [Failed("boom"), WorkerLost(), TimedOut(Reason.TIMEOUT)])
def test_what_failed_waits_for_the_backoff_of_its_run_and_try(end: End):
    """Whoever concludes comes to the same wait."""
    concluded = conclude(end, FIRST)

    assert concluded.next == RetryLater(POLICY.retry.delay_us(RUN, 1))
    assert concluded.is_charged


@pytest.mark.parametrize("end", [Failed("boom"), WorkerLost(), TimedOut(Reason.STALLED)])
def test_the_last_attempt_of_the_budget_goes_to_the_dead_letters(end: End):
    """INV-10."""
    assert conclude(end, LAST).next == DeadLetter(Reason.BUDGET)


def test_a_wait_that_was_asked_for_is_honoured():
    """Retry-After."""
    assert conclude(Failed("busy", Reason.RETRY_AFTER, after_us=90), FIRST).next == RetryLater(90)


@pytest.mark.parametrize(
    "end", [Snoozed(60), ReturnedToQueue(Reason.SHUTDOWN, is_started=True, after_us=60)]
)
def test_snoozing_and_giving_back_cost_nothing_of_the_budget(end: End):
    concluded = conclude(end, LAST)

    assert concluded.next == RetryLater(60)
    assert not concluded.is_charged


def test_what_is_given_back_without_a_wait_is_queued_at_once():
    concluded = conclude(ReturnedToQueue(Reason.NOT_STARTED, is_started=False), FIRST)

    assert concluded.next == Requeue()
    assert not concluded.is_started


def test_an_error_that_is_not_worth_another_try_is_dead_at_once():
    end = Failed("no such account", Reason.NOT_RETRYABLE, is_retryable=False)

    assert conclude(end, FIRST).next == DeadLetter(Reason.NOT_RETRYABLE)


def test_giving_up_ends_the_run_as_failed():
    concluded = conclude(GaveUp(Reason.GAVE_UP, "no such account"), FIRST)

    assert concluded.next == Close(RunState.FAILED, Reason.GAVE_UP)


def test_a_cancelled_attempt_closes_the_run():
    assert conclude(CancelledEnd(), FIRST).next == Close(RunState.CANCELLED, Reason.CANCELLED)


@pytest.mark.parametrize("end", [Failed("boom"), Snoozed(50 * SECOND), WorkerLost()])
def test_no_wait_reaches_beyond_the_runs_own_time(end: End):
    """The time-out of a run covers its waits."""
    policy = replace(POLICY, run_timeout_us=SECOND)

    assert conclude(end, replace(FIRST, policy=policy)).next == DeadLetter(Reason.RUN_TIMEOUT)


def test_a_run_that_took_too_long_as_a_whole_is_dead_whatever_is_left():
    assert conclude(TimedOut(Reason.RUN_TIMEOUT), FIRST).next == DeadLetter(Reason.RUN_TIMEOUT)


def test_the_retry_budget_of_a_task_goes_with_the_wait():
    policy = replace(POLICY, retry=Retry(3, per_minute=60))
    concluded: Conclusion = conclude(Failed("boom"), replace(FIRST, policy=policy))

    assert isinstance(concluded.next, RetryLater)
    assert concluded.next.spacing_us == SECOND


def test_waits_are_spread_below_a_bound_that_doubles_up_to_the_cap():
    """Full jitter."""
    retry = Retry(10, base="1s", cap="4s")
    runs = [RunId(number.to_bytes(16)) for number in range(400)]
    for number, bound in ((1, SECOND), (2, 2 * SECOND), (3, 4 * SECOND), (9, 4 * SECOND)):
        waits = [retry.delay_us(run, number) for run in runs]

        assert 0 <= min(waits) < bound // 20
        assert bound * 19 // 20 < max(waits) < bound


def test_the_bound_of_the_wait_doubles_until_it_reaches_the_cap():
    """However far that is, and however often a run is tried."""
    retry = Retry(1_000, base="1s", cap="1d")
    runs = [RunId(number.to_bytes(16)) for number in range(400)]
    for number, bound in (
        (12, 2_048 * SECOND),
        (17, 65_536 * SECOND),
        (18, 86_400 * SECOND),
        (1_000, 86_400 * SECOND),
    ):
        longest = max(retry.delay_us(run, number) for run in runs)

        assert bound * 19 // 20 < longest < bound


def test_an_error_is_worth_a_try_by_its_class_or_a_base_of_it():
    """Retry on chosen errors only."""
    retry = Retry(on=(ConnectionError, "ValueError"))

    assert retry.is_worth(ConnectionResetError())
    assert retry.is_worth(UnicodeError())
    assert not retry.is_worth(KeyError())
    assert Retry().is_worth(KeyError())


def test_a_group_is_worth_a_try_when_all_that_it_holds_is():
    """Asyncio.TaskGroup raises a group, even of one."""
    retry = Retry(on=(ConnectionError, "ValueError"))
    within = ExceptionGroup("within", [ConnectionResetError(), ValueError()])

    assert retry.is_worth(ExceptionGroup("all", [within, ConnectionError()]))
    assert not retry.is_worth(ExceptionGroup("all", [within, KeyError()]))
    assert not retry.is_worth(BaseExceptionGroup("all", [SystemExit(), ValueError()]))


def test_a_group_in_a_group_without_end_is_looked_through():
    """Whatever a task raises."""
    group: Exception = ValueError()
    for _ in range(5_000):
        group = ExceptionGroup("one", [group])

    assert Retry(on=(ValueError,)).is_worth(group)
    assert not Retry(on=(KeyError,)).is_worth(group)


def test_a_policy_reads_back_what_it_wrote():
    policy = TaskPolicy(
        retry=Retry(2, base="1s", cap="2s", on=(OSError,), per_minute=5),
        timeout_us=None,
        run_timeout_us=5 * SECOND,
        stall_us=SECOND,
        effects=Effects.UNSAFE,
    )

    assert policy_from_json(policy.to_json()) == policy


@each_row(
    ("change", "expected"),
    [
        ({"retry": {"attempts": 3, "per_hour": 9}}, {"retry": Retry(3)}),
        ({"retry": {"attempts": "many"}}, {"retry": Retry()}),
        ({"retry": "often"}, {"retry": Retry()}),
        ({"effects": "reversible"}, {"effects": Effects.IDEMPOTENT}),
        ({"timeout": "soon", "stall": 7}, {"timeout_us": TaskPolicy().timeout_us}),
        ({"memory": "1GB"}, {}),
    ],
)
def test_a_policy_of_another_release_is_read_as_far_as_possible(change, expected):
    """What is not known is passed over; the parts that are known still hold."""
    usual = TaskPolicy(retry=Retry(2), timeout_us=5 * SECOND, effects=Effects.PURE)
    stored = usual.to_json() | change

    assert policy_from_json(stored) == replace(usual, **expected)


@each_row("text", [None, "", "{", "[]", "7", "{}", "[" * 100_000])
def test_what_is_no_policy_says_nothing(text):
    """As if nobody had told."""
    assert TaskPolicy() == stored_policy(text)


@each_row(
    "value",
    [0, True, "5", Retry, {"attempts": 1.5}, {"tries": 1}, {"base": "2h"}, {"on": [3]},
     {"per_minute": 0}, {"attempts": 1001}],
)  # fmt: skip
def test_a_budget_that_makes_no_sense_is_refused(value: object):
    with pytest.raises(UsageError):
        read_retry(value)


def test_a_number_is_a_budget_of_attempts():
    assert read_retry(7) == Retry(7)


BEYOND = replace(FIRST, policy=replace(POLICY, effects=Effects.UNSAFE), has_begun_effects=True)
UNHEARD = [
    WorkerLost(),
    TimedOut(Reason.TIMEOUT),
    TimedOut(Reason.RUN_TIMEOUT),
    Failed("boom"),
    Failed("boom", is_retryable=False),
    CancelledEnd(),
    ReturnedToQueue(Reason.SHUTDOWN, is_started=True),
]


@each_row("end", UNHEARD)
def test_an_unsafe_attempt_that_ends_unheard_after_its_boundary_is_in_doubt(end: End):
    """INV-11: not tried again, not dead, not cancelled: nobody knows."""
    concluded = conclude(end, BEYOND)

    assert isinstance(concluded.next, MarkAmbiguous)
    assert concluded.is_charged


@each_row("end", UNHEARD)
@each_row("effects", [Effects.PURE, Effects.IDEMPOTENT, Effects.TRANSACTIONAL])
def test_what_may_be_repeated_is_never_in_doubt(end: End, effects: Effects):
    attempted = replace(BEYOND, policy=replace(POLICY, effects=effects))

    assert conclude(end, attempted) == conclude(end, FIRST)


@each_row("end", UNHEARD)
def test_before_the_boundary_an_unsafe_attempt_ends_like_any_other(end: End):
    assert conclude(end, replace(BEYOND, has_begun_effects=False)) == conclude(end, FIRST)


@pytest.mark.parametrize(
    "end",
    [Succeeded("1"), Snoozed(5), GaveUp(Reason.GAVE_UP, "no"), Failed("no", is_undone=True)],
)
def test_code_that_says_how_its_effects_ended_is_believed(end: End):
    assert conclude(end, BEYOND) == conclude(end, FIRST)
