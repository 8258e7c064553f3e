"""Alerts, decided: from what is seen to what is raised, resolved and told."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.domain.alert_rules import (
    USUAL,
    AlertKind,
    Rulebook,
    Severity,
    default_rule,
    read_rule,
    rule_from_json,
)
from duly.domain.alerts import (
    ALERTS_OPEN_MAX,
    FEW,
    FIRST_WAIT_US,
    KEPT_UP_US,
    LOOKS_MIN,
    TRIES_MAX,
    WAIT_MAX_US,
    AlertId,
    AlertPolicy,
    AlertState,
    AlertTransition,
    Condition,
    CreationRate,
    DeliveryId,
    DeliveryRecord,
    DeliveryState,
    DetectorResult,
    NoticeKind,
    Silence,
    conclude_try,
    decide,
    joined,
    rate_from_json,
)
from duly.errors import UsageError
from tests.each_row import each_row

SECOND = 1_000_000
EVERYTHING = frozenset(AlertKind)
CHANNELS = ("log", "mail")
USUALLY = AlertPolicy(rules=Rulebook(), channels=CHANNELS)


def condition(subject="queue mail", kind=AlertKind.QUEUE_AGE, value=1e6, **parts):
    told: dict[str, Any] = {"since": 0, "summary": "waits", "remedy": "look"}
    told["labels"] = {"queue": "mail"}
    return Condition(kind=kind, subject=subject, value=value, **told | parts)


def standards(silences=(), channels=CHANNELS, **terms):
    rule = read_rule("queue-age", {"hold_for": "0s", "clear_for": "0s"} | terms)
    return AlertPolicy(rules=Rulebook([rule]), silences=tuple(silences), channels=channels)


class Record:
    """What is on record, as a store would have it."""

    def __init__(self, by=USUALLY):
        self.by = by
        self.alerts = {}
        self.told = []

    def look(self, now, *conditions, seen=None, by=None):
        live = [one for one in self.alerts.values() if one.state is not AlertState.RESOLVED]
        found = seen or DetectorResult(conditions=conditions, kinds=EVERYTHING)
        changes = decide(live, found, by or self.by, now)
        for change in changes:
            if change.step is AlertTransition.FORGOTTEN:
                del self.alerts[change.alert.id]
                continue
            self.alerts[change.alert.id] = change.alert
            self.told += [(change.tells, one) for one in change.channels]
        return [change.step for change in changes]

    @property
    def states(self):
        return [str(one.state) for one in self.alerts.values()]


def test_an_alert_is_raised_once_and_resolved_once():
    record = Record(standards())
    steps = [record.look(now, *found) for now, found in enumerate([[condition()]] * 3 + [[]] * 3)]

    assert [[AlertTransition.RAISED], [], [], [AlertTransition.RESOLVED], [], []] == steps
    assert [(NoticeKind.RAISED, "log"), (NoticeKind.RAISED, "mail")] == record.told[:2]
    assert [(NoticeKind.RESOLVED, "log"), (NoticeKind.RESOLVED, "mail")] == record.told[2:]


def test_the_text_of_an_open_alert_follows_the_facts_and_is_told_once():
    """Not how long it has been so: that alone is not worth a write."""
    record = Record(standards())
    looks = [
        condition(summary="3 runs died", evidence={"died": 3}),
        condition(summary="3 runs died, a while ago", evidence={"died": 3}),
        condition(summary="200 runs died", evidence={"died": 200}),
    ]
    steps = [record.look(now, one) for now, one in enumerate(looks)]

    assert [[AlertTransition.RAISED], [], [AlertTransition.UPDATED]] == steps
    (alert,) = record.alerts.values()
    assert ("200 runs died", {"died": 200}) == (alert.summary, alert.evidence)
    assert 2 == len(record.told)


@each_row(
    ("seconds", "expected"),
    [
        ([1], ["noted"]),
        ([1, 1], ["noted", None]),
        ([1, 0], ["noted", "forgotten"]),
        ([1, 1, 1], ["noted", None, "raised"]),
        ([1, 0, 1, 1], ["noted", "forgotten", "noted", None]),
        ([1, 1, 1, 0], ["noted", None, "raised", "gone"]),
        ([1, 1, 1, 0, 1], ["noted", None, "raised", "gone", "back"]),
        ([1, 1, 1, 0, 0], ["noted", None, "raised", "gone", None]),
        ([1, 1, 1, 0, 0, 0], ["noted", None, "raised", "gone", None, "resolved"]),
        ([1, 1, 1, 0, 1, 0, 0], ["noted", None, "raised", "gone", "back", "gone", None]),
    ],
)
def test_it_must_hold_and_be_gone_for_a_while(seconds, expected):
    """Hysteresis; here two seconds each way, looked at every second."""
    record = Record(standards(hold_for="2s", clear_for="2s"))
    steps = [
        record.look(number * SECOND, *[condition()] * found) for number, found in enumerate(seconds)
    ]

    assert [[] if one is None else [AlertTransition(one)] for one in expected] == steps


def test_what_was_not_looked_at_stays_as_it_was():
    """Whoever could not look resolves nothing."""
    record = Record(standards())
    record.look(0, condition())

    assert [] == record.look(1, seen=DetectorResult())
    assert [] == record.look(2, seen=DetectorResult(kinds=EVERYTHING - {AlertKind.QUEUE_AGE}))
    assert [AlertTransition.RESOLVED] == record.look(
        3, seen=DetectorResult(keys=frozenset({condition().key}))
    )


def test_a_clock_that_is_put_back_keeps_no_alert_open():
    record = Record(standards(clear_for="2s"))
    record.look(100 * SECOND, condition())
    record.look(101 * SECOND)

    assert [[AlertTransition.GONE], [], [AlertTransition.RESOLVED]] == [
        record.look(n * SECOND) for n in (5, 6, 7)
    ]


@each_row(
    ("silence", "is_quiet"),
    [
        ({}, True),
        ({"subject": "queue mail"}, True),
        ({"subject": "queue *"}, True),
        ({"subject": "*"}, True),
        ({"subject": "queue"}, False),
        ({"subject": "queue mails*"}, False),
        ({"kinds": frozenset({AlertKind.QUEUE_AGE})}, True),
        ({"kinds": frozenset({AlertKind.QUEUE_DEPTH})}, False),
        ({"tenant": "acme"}, True),
        ({"tenant": "else"}, False),
        ({"until": 5}, False),
    ],
)
def test_a_silence_is_about_what_it_names(silence, is_quiet):
    quiet = Silence(**{"id": "s", "until": 10} | silence)
    record = Record(standards([quiet]))

    assert [AlertTransition.RAISED] == record.look(5, condition(tenant="acme"))
    assert is_quiet is (record.told == [])
    assert ["open"] == record.states


def test_what_was_silenced_is_told_when_the_silence_is_over():
    """If it is not over itself; then nobody hears of it."""
    by = standards([Silence(id="s", until=10)])
    record, brief = Record(by), Record(by)
    record.look(1, condition())
    brief.look(1, condition())

    assert ([AlertTransition.RESOLVED], []) == (brief.look(9), brief.told)
    assert [AlertTransition.TOLD] == record.look(10, condition())
    assert [(NoticeKind.RAISED, "log"), (NoticeKind.RAISED, "mail")] == record.told
    assert [] == record.look(11, condition())


def test_a_clock_that_is_put_back_keeps_nobody_waiting_for_an_alert():
    """What was first seen in a time that is still to come holds from now on."""
    record = Record(standards(hold_for="10s"))
    record.look(1_000_000 * SECOND, condition())
    record.look(5 * SECOND, condition())
    early = list(record.told)
    record.look(15 * SECOND, condition())

    assert [] == early
    assert NoticeKind.RAISED in {told for told, _ in record.told}


def test_an_alert_whose_channels_are_all_gone_is_told_to_all():
    """A rule that names who is not there tells everybody, and not nobody."""
    rule = read_rule("queue-age", {"channels": ["gone"]})
    record = Record(AlertPolicy(rules=Rulebook([rule]), channels=CHANNELS))
    record.look(1, condition())

    assert [(NoticeKind.RAISED, one) for one in CHANNELS] == record.told


def test_a_rule_that_was_made_anew_for_another_kind_says_nothing_of_an_alert():
    """What is usual for the alert's kind holds."""
    rules = Rulebook([read_rule("strict", {"kind": "overlap", "clear_for": "9m"})])

    assert AlertKind.QUEUE_AGE is rules.named("strict", AlertKind.QUEUE_AGE).kind
    assert "strict" == rules.named("strict", AlertKind.OVERLAP).name


def test_the_end_of_what_was_told_is_told_in_a_silence_too():
    """Nobody's pager stays lit."""
    record = Record(standards())
    record.look(1, condition())
    record.look(2, by=standards([Silence(id="s", until=10)]))

    assert [NoticeKind.RESOLVED] * 2 == [told for told, _ in record.told[2:]]


def test_those_are_told_of_the_end_who_were_told_of_the_beginning():
    """Whatever is set up meanwhile; one that is gone can't be told."""
    record = Record(standards())
    record.look(1, condition())
    record.look(2, by=standards(channels=("chat", "mail")))

    assert [(NoticeKind.RESOLVED, "mail")] == record.told[2:]


def test_a_rule_names_who_is_told():
    rule = read_rule("queue-age", {"channels": ["mail", "gone"]})
    record = Record(AlertPolicy(rules=Rulebook([rule]), channels=CHANNELS))
    record.look(1, condition())

    assert [(NoticeKind.RAISED, "mail")] == record.told


def test_below_the_threshold_nothing_is_wrong():
    """From the threshold on."""
    record = Record(standards(threshold=10))

    assert [] == record.look(0, condition(value=9.99))
    assert [AlertTransition.RAISED] == record.look(1, condition(value=10))
    assert [AlertTransition.RESOLVED] == record.look(2, condition(value=9.99))


def test_a_rule_that_is_off_raises_nothing_and_ends_what_is_open():
    record = Record(standards())
    record.look(0, condition())

    assert [AlertTransition.RESOLVED] == record.look(1, condition(), by=standards(is_on=False))
    assert [] == record.look(2, condition(), by=standards(is_on=False))


def test_the_most_particular_rule_holds():
    """And one that was set before what is usual."""
    rules = Rulebook(
        [
            read_rule("queue-age", {"threshold": 1}),
            read_rule("mail", {"kind": "queue-age", "queue": "mail", "threshold": 2}),
            read_rule("acme mail", {"kind": "queue-age", "queue": "mail", "tenant": "acme"}),
            read_rule("other", {"kind": "queue-age", "queue": "other"}),
        ]
    )
    chosen = [
        rules.rule_for(one)
        for one in (
            condition(labels={}),
            condition(),
            condition(tenant="acme"),
            condition(kind=AlertKind.QUEUE_DEPTH),
        )
    ]

    assert ["queue-age", "mail", "acme mail", "queue-depth"] == [
        None if one is None else one.name for one in chosen
    ]
    assert len(AlertKind) + 3 == len(rules.rules())


def test_every_kind_has_what_is_usual():
    assert set(AlertKind) == set(USUAL)
    for kind in AlertKind:
        rule = default_rule(kind)
        assert (str(kind), True, True) == (rule.name, rule.is_on, rule.is_default)
        assert replace(rule, is_default=False) == rule_from_json(rule.to_json())
        assert USUAL[kind].meaning


@each_row(
    ("name", "terms", "problem"),
    [
        ("mail", {}, "kind is needed"),
        ("mail", {"kind": "queue"}, "is not a kind of alert"),
        ("queue-age", {"kind": "queue-depth"}, "is the name of the rule of queue-age"),
        ("queue-age", {"threshold": "many"}, "is not a duration"),
        ("queue-age", {"threshold": -1}, "is not a threshold"),
        ("queue-age", {"threshold": True}, "is not a threshold"),
        ("stale-completion", {"threshold": 1001}, "counts up to 1,000"),
        ("ambiguous-run", {"threshold": 2}, "counts up to 1"),
        ("queue-age", {"threshold": float("nan")}, "is not a threshold"),
        ("queue-age", {"hold_for": "8d"}, "is out of range"),
        ("queue-age", {"clear_for": 3}, "is not a duration"),
        ("queue-age", {"severity": "loud"}, "is not a severity"),
        ("queue-age", {"channels": "mail"}, "is not a list of channels"),
        ("queue-age", {"is_on": 1}, "is neither true nor false"),
        ("queue-age", {"queue": ""}, "is empty"),
        ("queue-age", {"colour": "red"}, "is no part of a rule"),
        ("", {"kind": "queue-age"}, "is empty"),
    ],
)
def test_a_bad_rule_gets_one_clear_error(name, terms, problem):
    with pytest.raises(UsageError, match=problem):
        read_rule(name, terms)


def test_a_threshold_of_seconds_may_be_a_duration():
    assert [300.0, 0.25, 7.0] == [
        read_rule("queue-age", {"threshold": one}).threshold for one in ("5m", "250ms", "7")
    ]


def test_a_stored_threshold_beyond_what_is_counted_is_read_as_that_number():
    """A rule that raises nothing would look like one that guards something."""
    stored = default_rule(AlertKind.STALE_COMPLETION).to_json() | {"threshold": 5_000.0}

    assert 1_000 == rule_from_json(stored).threshold


def test_what_is_not_said_of_a_rule_stays_as_it_was():
    before = read_rule("queue-age", {"threshold": 7, "severity": "page"})
    after = read_rule("queue-age", {"hold_for": "9s"}, before)

    assert (7.0, Severity.PAGE, 9 * SECOND) == (after.threshold, after.severity, after.hold_us)


def test_so_many_are_open_at_a_time_and_no_more():
    """Everything has a bound; what comes on top has its turn later."""
    record = Record(standards())
    crowd = [condition(f"queue {number}") for number in range(ALERTS_OPEN_MAX + 5)]
    record.look(0, *crowd)
    first = len(record.alerts)
    record.look(1, *crowd[3:])
    record.look(2, *crowd[3:])
    live = [one for one in record.alerts.values() if one.state is AlertState.OPEN]

    assert (ALERTS_OPEN_MAX, ALERTS_OPEN_MAX) == (first, len(live))


moments = st.lists(
    st.tuples(
        st.integers(1, 5), st.sets(st.sampled_from(["a", "b"])), st.booleans(), st.booleans()
    ),
    max_size=30,
)


@given(moments, st.integers(0, 6), st.integers(0, 6))
def test_whatever_comes_it_is_told_in_pairs(looks, hold, clear):
    """Raised, resolved, raised, resolved; never twice the same, for each thing by itself."""
    waits = {"hold_for": f"{hold}s", "clear_for": f"{clear}s"}
    record, now = Record(standards(**waits)), 0
    seen_for: dict[str, list[int]] = {"a": [], "b": []}
    for seconds, subjects, is_blind, is_quiet in looks:
        now += seconds * SECOND
        quiet = [Silence(id="s", until=now + 1)] if is_quiet else []
        found = [condition(one) for one in sorted(subjects)]
        seen = DetectorResult() if is_blind else None
        before = dict(record.alerts)
        record.look(now, *found, seen=seen, by=standards(quiet, **waits))
        for alert in record.alerts.values():
            known = before.get(alert.id)
            if alert.state is AlertState.RESOLVED and known is not None:
                assert known.state is not AlertState.PENDING
            if alert.raised_at is not None and (known is None or known.raised_at is None):
                assert now - alert.seen_at >= hold * SECOND
                assert alert.subject in subjects
                seen_for[alert.subject].append(now)
            if alert.resolved_at == now:
                assert now - alert.gone_at >= clear * SECOND
                assert alert.subject not in subjects
    for subject in "ab":
        own = [one for one in record.alerts.values() if one.subject == subject]
        live = [one for one in own if one.state is not AlertState.RESOLVED]
        assert len(live) <= 1
        assert len(seen_for[subject]) == len([one for one in own if one.raised_at is not None])
    raised = [one for one in record.told if one == (NoticeKind.RAISED, "log")]
    over = [one for one in record.told if one == (NoticeKind.RESOLVED, "log")]
    assert 0 <= len(raised) - len(over) <= 2


@given(st.lists(st.sampled_from(["a", "b", "c"]), max_size=8), st.integers(0, 3))
def test_deciding_twice_decides_the_same(subjects, hold):
    """Who repeats it after a crash makes no other alert: its id is computed."""
    by = standards(hold_for=f"{hold}s")
    seen = DetectorResult(conditions=tuple(condition(one) for one in subjects), kinds=EVERYTHING)

    assert decide([], seen, by, 7) == decide([], seen, by, 7)
    ids = [change.alert.id for change in decide([], seen, by, 7)]
    assert len(set(subjects)) == len(set(ids))
    assert not set(ids) & {change.alert.id for change in decide([], seen, by, 8)}


def test_what_several_have_seen_is_seen_together():
    one = DetectorResult(conditions=(condition(),), kinds=frozenset({AlertKind.QUEUE_AGE}))
    other = DetectorResult(keys=frozenset({condition("queue b", AlertKind.QUEUE_DEPTH).key}))
    both = joined([one, other])

    assert both.covers(condition("queue x").key)
    assert both.covers(condition("queue b", AlertKind.QUEUE_DEPTH).key)
    assert not both.covers(condition("queue c", AlertKind.QUEUE_DEPTH).key)


def delivery(tries=0, made_at=0):
    return DeliveryRecord(
        id=DeliveryId(b"d" * 16),
        alert_id=AlertId(b"a" * 16),
        told=NoticeKind.RAISED,
        channel="mail",
        state=DeliveryState.PENDING,
        tries=tries,
        made_at=made_at,
        next_at=0,
    )


def test_a_delivery_that_failed_is_tried_again_with_longer_waits():
    """Doubled up to an hour, and given up after so many or so long."""
    failed = (False, False, "busy")
    waits = [conclude_try(delivery(tries), failed, None, 0).wait_us for tries in range(12)]
    last = conclude_try(delivery(TRIES_MAX - 1), failed, None, 0)
    late = conclude_try(delivery(made_at=0), failed, None, KEPT_UP_US)

    assert [FIRST_WAIT_US, 2 * FIRST_WAIT_US, 4 * FIRST_WAIT_US] == waits[:3]
    assert (sorted(waits), WAIT_MAX_US) == (waits, waits[-1])
    assert {DeliveryState.GIVEN_UP} == {last.state, late.state}


def test_a_delivery_is_done_or_of_no_use_at_once():
    """And who asks for a pause is given one, within bounds."""
    asked = [
        conclude_try(delivery(), (False, False, "busy"), one, 0).wait_us
        for one in (0, 60 * SECOND, 1 << 50)
    ]

    assert DeliveryState.DONE is conclude_try(delivery(), (True, False, ""), None, 0).state
    given_up = conclude_try(delivery(), (False, True, "no such address"), None, 0)
    assert (DeliveryState.GIVEN_UP, "no such address") == (given_up.state, given_up.error)
    assert [FIRST_WAIT_US, 60 * SECOND, WAIT_MAX_US] == asked


def test_what_is_usual_is_learnt_before_anything_is_unusual():
    """Unusual creation rate."""
    rate = CreationRate()
    for _ in range(LOOKS_MIN):
        assert 0.0 == rate.times(1_000_000)
        rate = rate.after(100)

    assert 100 == rate.usual
    assert (1.0, 12.0) == (rate.times(100), rate.times(1200))
    assert rate.after(1_000_000).usual < 110
    assert rate == rate_from_json(list(rate))


def test_a_few_are_never_many():
    rate = CreationRate(usual=0.0, looks=LOOKS_MIN)

    assert 1.0 == rate.times(int(FEW))
    for stored in (None, [], [1], ["x", 1], [-1, 2], {"usual": 3}):
        assert CreationRate() == rate_from_json(stored)
