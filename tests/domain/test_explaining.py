"""Why a run is late, stuck, waiting or dead: one cause each, with a sentence and its evidence."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from duly.domain.enums import AttemptState, Lane, Origin, RunState
from duly.domain.explain import (
    Down,
    ExplanationCause,
    LimitUsage,
    MemberPresence,
    RecordedOrder,
    RunFacts,
    explain,
    span_text,
)
from duly.domain.ids import RunId, ScheduleId, identity_text
from duly.domain.runs import AttemptRecord, LateReport, Progress, Reason, RunRecord
from duly.domain.schedules import Call
from tests.each_row import each_row

SECOND = 1_000_000
MINUTE = 60 * SECOND
DUE = 1_800_000_000 * SECOND
NOW = DUE + 10 * MINUTE
ID = RunId(bytes(range(16)))

RUN = RunRecord(
    id=ID,
    tenant="default",
    schedule_id=ScheduleId(bytes(16)),
    schedule_name="nightly",
    definition_number=1,
    key=None,
    call=Call(task="report", queue="mail"),
    origin=Origin.SCHEDULE,
    lane=Lane.LIVE,
    root=ID,
    scheduled_for=DUE,
    not_before=DUE,
    window_from=None,
    created_at=DUE,
    fired_at=DUE + 2000,
    state=RunState.QUEUED,
    state_reason=None,
    finished_at=None,
)
ATTEMPT = AttemptRecord(
    run_id=ID,
    fence=1,
    number=1,
    worker=7,
    worker_name="host, 42",
    state=AttemptState.RUNNING,
    reason=None,
    claimed_at=DUE + SECOND,
    started_at=DUE + SECOND,
    heartbeat_at=NOW - SECOND,
    progress=None,
    progress_at=None,
    cancel_asked_at=None,
    ended_at=None,
    error=None,
)
WORKER = MemberPresence(name="w", is_alive=True, started_at=0, renewed_at=NOW, slots=4, free=4)
DISPATCHER = MemberPresence(name="d", is_alive=True, started_at=0, renewed_at=NOW)
GONE = replace(DISPATCHER, is_alive=False, renewed_at=DUE - MINUTE)
PAUSED = RecordedOrder(at=DUE - MINUTE, who="ada", why="migration")
FAILED = replace(
    ATTEMPT, state=AttemptState.FAILED, reason="error", ended_at=DUE + MINUTE, error="boom"
)


def facts(run: RunRecord = RUN, **parts: Any) -> RunFacts:
    here = {"now": NOW, "dispatchers": [DISPATCHER], "workers": [WORKER], **parts}
    return RunFacts(run=run, **here)


def state(word: RunState, **parts: Any) -> RunRecord:
    return replace(RUN, state=word, **parts)


LOST = replace(
    ATTEMPT,
    state=AttemptState.LOST,
    reason="lost",
    ended_at=DUE + MINUTE,
    effects_at=DUE + 2 * SECOND,
)
AMBIGUOUS = state(RunState.AMBIGUOUS, state_reason="lost")
RUNNING = state(RunState.RUNNING, claimed_at=DUE + SECOND, started_at=DUE + SECOND)
RETRYING = state(RunState.RETRYING, next_at=NOW + 12 * SECOND, error="Traceback\nValueError: boom")
DONE = state(
    RunState.SUCCEEDED,
    claimed_at=DUE + SECOND,
    started_at=DUE + SECOND,
    finished_at=DUE + 2 * SECOND,
)

CASES = [
    (
        ExplanationCause.NOT_DUE,
        facts(replace(RUN, not_before=NOW + 90 * SECOND), is_pending=True),
        "is not due before 2027-01-15T08:11:30Z, in 1 min 30 s",
    ),
    (
        ExplanationCause.NO_DISPATCHER,
        facts(is_pending=True, dispatchers=[GONE]),
        "was due 10 min ago, and no dispatcher is alive",
    ),
    (
        ExplanationCause.DISPATCHER_HOLDING,
        facts(is_pending=True, dispatchers=[replace(DISPATCHER, is_holding=True), GONE]),
        "every dispatcher is holding",
    ),
    (ExplanationCause.DISPATCHER_BEHIND, facts(is_pending=True), "have not come to it yet"),
    (
        ExplanationCause.QUEUE_PAUSED,
        facts(paused=PAUSED, workers=[]),
        "queue mail is paused by ada since 2027-01-15T07:59:00Z: migration.",
    ),
    (
        ExplanationCause.NO_WORKER,
        facts(workers=[replace(WORKER, is_alive=False)]),
        "no worker is alive",
    ),
    (
        ExplanationCause.NO_WORKER_FOR_QUEUE,
        facts(workers=[replace(WORKER, queues=("reports",))]),
        "no living worker serves the queue mail",
    ),
    (
        ExplanationCause.NO_WORKER_FOR_QUEUE,
        facts(workers=[replace(WORKER, id=7, standing="quarantined")]),
        "no worker claims from the queue mail: the one worker that serves it, 7, is in quarantine.",
    ),
    (
        ExplanationCause.NO_WORKER_FOR_QUEUE,
        facts(
            workers=[replace(WORKER, id=number, standing="draining") for number in (7, 8)]
            + [replace(WORKER, queues=("reports",))]
        ),
        "the 2 workers that serve it are out of service: 2 draining.",
    ),
    (
        ExplanationCause.NO_WORKER_FOR_TASK,
        facts(is_served=False),
        "no living worker has the code of the task report",
    ),
    (
        ExplanationCause.SLOTS_BUSY,
        facts(
            workers=[
                replace(WORKER, free=0),
                replace(WORKER, free=0),
                replace(WORKER, queues=("reports",)),
            ]
        ),
        "All 8 slots are busy.",
    ),
    (
        ExplanationCause.SLOTS_BUSY,
        facts(workers=[replace(WORKER, slots=1, free=0)]),
        "The only slot is busy.",
    ),
    (ExplanationCause.BEHIND_OTHERS, facts(queued=3), "4 of 4 slots are free"),
    (
        ExplanationCause.WORKER_SILENT,
        facts(
            replace(RUNNING, cancel_asked_at=NOW - SECOND),
            attempts=[
                replace(ATTEMPT, state=AttemptState.HEARTBEAT_STALE, heartbeat_at=NOW - 20 * SECOND)
            ],
        ),
        "silent for 20 s; when its lease has run out",
    ),
    (
        ExplanationCause.CANCEL_ASKED,
        facts(
            replace(RUNNING, cancel_asked_at=NOW - 5 * SECOND), attempts=[ATTEMPT], ended_by=PAUSED
        ),
        "asked to stop 5 s ago by ada (migration)",
    ),
    (
        ExplanationCause.STALLED,
        facts(
            RUNNING,
            attempts=[
                replace(
                    ATTEMPT,
                    state=AttemptState.STALLED,
                    progress=Progress(1),
                    progress_at=NOW - MINUTE,
                )
            ],
        ),
        "not advanced for 1 min",
    ),
    (
        ExplanationCause.CLAIMED,
        facts(replace(RUNNING, started_at=None), attempts=[ATTEMPT]),
        "has claimed it 9 min 59 s ago",
    ),
    (ExplanationCause.RUNNING, facts(RUNNING, attempts=[ATTEMPT]), "running for 9 min 59 s"),
    (
        ExplanationCause.BACKING_OFF,
        facts(RETRYING, attempts=[FAILED]),
        "backing off after attempt 1 until 2027-01-15T08:10:12Z, in 12 s: its code raised an error",
    ),
    (
        ExplanationCause.SNOOZED,
        facts(RETRYING, attempts=[replace(FAILED, reason=Reason.SNOOZED)]),
        "asked to be run later",
    ),
    (
        ExplanationCause.NO_DISPATCHER,
        facts(replace(RETRYING, next_at=NOW - SECOND), attempts=[FAILED], dispatchers=[]),
        "Its next attempt was due 1 s ago, and no dispatcher is alive",
    ),
    (
        ExplanationCause.DEAD,
        facts(state(RunState.DEAD, state_reason="budget", error="boom"), attempts=[FAILED]),
        "dead since 2027-01-15T08:01:00Z: no attempts are left",
    ),
    (
        ExplanationCause.CANCELLED,
        facts(state(RunState.CANCELLED, finished_at=NOW), ended_by=PAUSED),
        "cancelled by ada (migration) at 2027-01-15T08:10:00Z",
    ),
    (
        ExplanationCause.DISCARDED,
        facts(state(RunState.DISCARDED), ended_by=RecordedOrder(at=NOW, who="bob")),
        "discarded by bob.",
    ),
    (
        ExplanationCause.FAILED,
        facts(state(RunState.FAILED, state_reason="gave-up"), attempts=[FAILED]),
        "failed: the task gave up",
    ),
    (ExplanationCause.ON_TIME, facts(DONE), "on time: queued 2 ms after it fell due"),
    (
        ExplanationCause.CAUGHT_UP,
        facts(replace(DONE, origin=Origin.CATCH_UP, fired_at=DUE + 5 * MINUTE)),
        "made up for 5 min later",
    ),
    (
        ExplanationCause.ORDERED_LATE,
        facts(
            replace(DONE, schedule_id=None, created_at=DUE + 5 * MINUTE, fired_at=DUE + 5 * MINUTE)
        ),
        "ordered 5 min after the moment",
    ),
    (
        ExplanationCause.NO_DISPATCHER,
        facts(
            replace(DONE, fired_at=DUE + 20 * MINUTE),
            dispatchers=[GONE, replace(DISPATCHER, started_at=DUE + 20 * MINUTE)],
        ),
        "no dispatcher was alive from 2027-01-15T07:59:00Z until 2027-01-15T08:20:00Z",
    ),
    (
        ExplanationCause.UNKNOWN,
        facts(replace(DONE, fired_at=DUE + 5 * MINUTE), dispatchers=[]),
        "who kept time then is not known",
    ),
    (
        ExplanationCause.DISPATCHER_BEHIND,
        facts(replace(DONE, fired_at=DUE + 5 * MINUTE)),
        "although a dispatcher was alive",
    ),
    (
        ExplanationCause.QUEUE_PAUSED,
        facts(
            replace(DONE, claimed_at=DUE + 5 * MINUTE, finished_at=DUE + 5 * MINUTE),
            was_paused=[(PAUSED, DUE + 5 * MINUTE)],
        ),
        "which was paused by ada (migration) until",
    ),
    (
        ExplanationCause.NO_WORKER,
        facts(
            replace(DONE, claimed_at=DUE + 5 * MINUTE, finished_at=DUE + 5 * MINUTE),
            workers=[replace(WORKER, started_at=DUE + 4 * MINUTE)],
        ),
        "no worker was alive until 2027-01-15T08:04:00Z",
    ),
    (
        ExplanationCause.WAITED_IN_QUEUE,
        facts(replace(DONE, claimed_at=DUE + 5 * MINUTE, finished_at=DUE + 5 * MINUTE)),
        "until a worker had a slot",
    ),
    (
        ExplanationCause.TRIED_OFTEN,
        facts(
            replace(DONE, claimed_at=DUE + 5 * MINUTE, finished_at=DUE + 5 * MINUTE),
            attempts=[FAILED, replace(ATTEMPT, fence=2, number=2)],
        ),
        "took 2 claims and 4 min 59 s",
    ),
    (
        ExplanationCause.TRIED_OFTEN,
        facts(
            replace(DONE, claimed_at=DUE + 3 * SECOND, finished_at=DUE + 4 * SECOND),
            attempts=[FAILED, replace(ATTEMPT, fence=2, number=2)],
        ),
        "took 2 claims and 2 s",
    ),
    (
        ExplanationCause.TOOK_LONG,
        facts(replace(DONE, finished_at=NOW)),
        "last attempt took 9 min 59 s",
    ),
    (
        ExplanationCause.OVERLAP,
        facts(state(RunState.BLOCKED, state_reason="overlap")),
        "until an earlier run is over: they may not overlap",
    ),
    (
        ExplanationCause.CAP,
        facts(
            state(RunState.BLOCKED, state_reason="cap task:send"),
            taken=LimitUsage(held=5, waiting=3, most=5),
        ),
        "a place under the limit of task:send: 5 of 5 places are taken.",
    ),
    (
        ExplanationCause.CAP,
        facts(state(RunState.BLOCKED, state_reason="cap tenant:acme")),
        "waits for a place under the limit of tenant:acme.",
    ),
    (
        ExplanationCause.RATE,
        facts(
            replace(RETRYING, state_reason="rate task:send"),
            taken=LimitUsage(held=0, waiting=0, rate="100/1m burst 10"),
        ),
        "turn under the rate limit of task:send, 100/1m burst 10 is at 2027-01-15T08:10:12Z, in 12",
    ),
    (
        ExplanationCause.BREAKER,
        facts(
            replace(RETRYING, state_reason="breaker api.example.com"),
            breaker=Down("open", NOW + 5 * SECOND),
        ),
        "whose breaker is open until 2027-01-15T08:10:05Z; it is tried again at 2027-01-15T08:10:12Z",
    ),
    (
        ExplanationCause.BREAKER,
        facts(replace(RETRYING, state_reason="breaker api.example.com")),
        "It waits for api.example.com; it is tried again at",
    ),
    (
        ExplanationCause.AMBIGUOUS,
        facts(AMBIGUOUS, attempts=[LOST]),
        "its attempt ended after its effects had begun at 2027-01-15T08:00:02Z, and its worker",
    ),
    (
        ExplanationCause.RECONCILED,
        facts(state(RunState.SUCCEEDED, state_reason="reconciled", finished_at=NOW)),
        "It counts as succeeded: a person looked",
    ),
    (
        ExplanationCause.RECONCILED,
        facts(state(RunState.SUCCEEDED, state_reason="verified", finished_at=NOW)),
        "It counts as succeeded: its task's own check",
    ),
    (
        ExplanationCause.RECONCILED,
        facts(state(RunState.FAILED, state_reason="reconciled", finished_at=NOW), ended_by=PAUSED),
        "a person looked, and recorded what has become of it; by ada (migration)",
    ),
    (
        ExplanationCause.RECONCILED,
        facts(state(RunState.SKIPPED, finished_at=NOW), ended_by=PAUSED),
        "It was skipped by ada (migration) at ",
    ),
    (
        ExplanationCause.OVER,
        facts(state(RunState.REPLACED, state_reason="by its key")),
        "It is replaced: by its key.",
    ),
]


@each_row(("cause", "known", "part"), CASES)
def test_each_cause_has_its_sentence(cause: ExplanationCause, known: RunFacts, part: str):
    found = explain(known)

    assert cause is found.cause, found.sentence
    assert part in found.sentence
    assert found.sentence.endswith(".")


def test_every_cause_is_tried():
    assert set(ExplanationCause) == {case[0] for case in CASES}


@each_row("word", RunState)
def test_every_state_is_explained(word: RunState):
    assert explain(facts(state(word))).sentence


def test_the_evidence_of_a_dead_run_names_its_attempts_and_its_error():
    error = "Traceback (most recent call last):\n  …\nValueError: boom\n"
    found = explain(facts(state(RunState.DEAD, error=error), attempts=[FAILED]))

    assert dict(found.evidence)["error"] == "ValueError: boom"
    assert dict(found.evidence)["attempt 1"].startswith("failed (error), claimed 2027-01-15T08:00")
    assert found.remedy is not None
    assert "duly run retry 00010203-0405-0607-0809-0a0b0c0d0e0f" in found.remedy


def test_the_evidence_of_a_busy_fleet_names_each_worker_that_serves():
    busy = [replace(WORKER, name="one", free=0), replace(WORKER, name="two", queues=("reports",))]
    found = explain(facts(workers=busy))

    assert ("worker", "one, 4 of 4 slots busy, every queue") in found.evidence
    assert not any("two" in fact for _, fact in found.evidence)


@each_row(
    ("span", "words"),
    [
        (-5, "0 ms"),
        (1500, "1 ms"),
        (SECOND, "1 s"),
        (61 * SECOND, "1 min 1 s"),
        (86_400 * SECOND, "1 d"),
    ],
)
def test_a_distance_is_said_in_its_two_largest_units(span: int, words: str):
    assert words == span_text(span)


@pytest.mark.parametrize(
    ("run", "command"),
    [
        (RETRYING, "duly run retry {id}"),
        (state(RunState.DEAD), "duly run retry {id}, "),
        (state(RunState.DEAD), "duly run discard {id}"),
        (AMBIGUOUS, "duly inbox {id}"),
    ],
    ids=["retrying", "dead", "discard", "in doubt"],
)
def test_what_is_to_be_copied_says_whose_run_it_is(run: RunRecord, command: str):
    """Of the usual tenant nothing is to be said."""
    usual = explain(facts(run)).remedy or ""
    theirs = explain(facts(replace(run, tenant="a me"))).remedy or ""

    assert command.format(id=identity_text(ID)) in usual
    assert "--tenant" not in usual
    assert command.format(id=f"{identity_text(ID)} --tenant 'a me'") in theirs


def test_a_queue_that_nobody_serves_is_one_word_to_a_shell():
    run = replace(RUN, call=replace(RUN.call, queue="mail;reboot"))
    found = explain(facts(run, workers=[replace(WORKER, queues=("other",))]))

    assert "start duly worker --queue 'mail;reboot'" == found.remedy


def test_a_run_in_doubt_says_what_its_lost_worker_said_and_where_to_look():
    late = LateReport(state=AttemptState.SUCCEEDED, at=DUE + 2 * MINUTE)
    found = explain(facts(AMBIGUOUS, attempts=[replace(LOST, late=late)]))
    said = "succeeded, too late to count, at 2027-01-15T08:02:00Z"

    assert ("its worker said", said) in found.evidence
    assert (found.remedy or "").startswith("duly inbox ")
