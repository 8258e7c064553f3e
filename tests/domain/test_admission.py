"""Whether an attempt may begin: breakers, then caps, then rates."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from duly.domain.admission import (
    BACK_EVERY_US,
    FAILURES_MIN,
    PAUSE_FIRST_US,
    AdmissionDecision,
    AdmissionRequest,
    AdmissionRoute,
    AdmissionState,
    Breaker,
    BreakerState,
    count,
    decide,
    falls_under,
    room,
    turns_back,
)
from duly.domain.ids import RunId
from duly.domain.limits import Limit, LimitRecord, Limits, LimitSource, Rate, RateState

SECOND = 1_000_000
NOW = 1_000 * SECOND
OPEN = count(Breaker(counted_from=NOW), 0, FAILURES_MIN, NOW)
RATE = Rate(1, SECOND, 1)
PLACES = ("destination:api", "task:a", "task:b", "tenant:t")


def run(number: int) -> RunId:
    return RunId(number.to_bytes(16))


def limits(**scopes: Limit) -> Limits:
    records = [
        LimitRecord(scope.replace("_", ":", 1), LimitSource.PERSON, limit, 0, "ada", None)
        for scope, limit in scopes.items()
    ]
    return Limits(1, records)


def test_an_attempt_falls_under_each_limit_once():
    known = limits(
        task_send=Limit(running=5, running_by=(("account", 1),)), tenant_acme=Limit(rate=RATE)
    )

    falling = falls_under(known, "send", "acme", "api", (("account", "7"), ("other", "8")))

    keyed = 'key:["send","acme","account","7"]'
    assert falling.caps == ((keyed, 1), ("task:send", 5))
    assert falling.rates == (("tenant:acme", RATE),)
    assert falling.places == ("destination:api", keyed, "task:send", "tenant:acme")


def test_what_has_no_limit_falls_under_none():
    assert falls_under(limits(), "send", "acme", None) == ((), (), ())


def test_who_is_kept_by_the_breaker_takes_no_place_and_no_turn():
    books = AdmissionState(breakers={"api": OPEN})
    comer = AdmissionRequest(
        run_id=run(1),
        destination="api",
        caps=(("task:a", 1),),
        rates=(("task:a", RATE),),
        places=("destination:api", "task:a"),
    )

    (verdict,) = decide([comer], books, NOW)

    assert (verdict.way, verdict.why) == (AdmissionRoute.LATER, "breaker api")
    assert (books.held, books.breakers) == ({}, {"api": OPEN})
    assert list(books.paces) == [turns_back("api")]


def test_who_waits_for_a_destination_comes_back_in_a_turn_of_its_own():
    """INV-23: so many a second, however many wait, and none before it is tried again."""
    books = AdmissionState(breakers={"api": OPEN})
    comers = [AdmissionRequest(run_id=run(number), destination="api") for number in range(500)]

    first = decide(comers, books, NOW)
    again = decide(comers[:3], books, NOW + PAUSE_FIRST_US - 1)

    at = [verdict.at - NOW for verdict in [*first, *again] if verdict.at is not None]
    assert at == [PAUSE_FIRST_US + number * BACK_EVERY_US for number in range(503)]


def test_who_stands_takes_no_turn_and_is_no_probe():
    books = AdmissionState(held={"task:a": 1}, breakers={"api": OPEN})
    comer = AdmissionRequest(
        run_id=run(1), destination="api", caps=(("task:a", 1),), rates=(("task:a", RATE),)
    )

    verdicts = decide([comer], books, NOW + PAUSE_FIRST_US)

    assert verdicts == [AdmissionDecision(AdmissionRoute.STANDS, "cap task:a")]
    assert (books.waiting, books.paces, books.breakers) == ({"task:a": 1}, {}, {"api": OPEN})


def test_who_waits_for_its_turn_is_no_probe_and_holds_nothing():
    books = AdmissionState(
        breakers={"api": OPEN}, paces={"task:a": RateState(promised_at=NOW + 99 * SECOND)}
    )
    comer = AdmissionRequest(
        run_id=run(1),
        destination="api",
        rates=(("task:a", RATE),),
        places=("destination:api", "task:a"),
    )

    (verdict,) = decide([comer], books, NOW + PAUSE_FIRST_US)

    assert (verdict.way, verdict.why) == (AdmissionRoute.LATER, "rate task:a")
    assert (books.held, books.breakers["api"].state) == ({}, BreakerState.OPEN)


def test_one_that_was_let_go_has_its_place_and_gives_it_back_if_it_can_not_begin():
    caps = (("task:a", 1), ("tenant:t", 1))
    comer = AdmissionRequest(
        run_id=run(1), caps=caps, places=("task:a", "tenant:t"), holds=frozenset({"task:a"})
    )
    free = AdmissionState(held={"task:a": 1, "tenant:t": 0})
    full = AdmissionState(held={"task:a": 1, "tenant:t": 1})

    assert decide([comer], free, NOW)[0].way is AdmissionRoute.GOES
    assert free.held == {"task:a": 1, "tenant:t": 1}
    assert decide([comer], full, NOW) == [AdmissionDecision(AdmissionRoute.STANDS, "cap tenant:t")]
    assert full.held == {"task:a": 0, "tenant:t": 1}


def test_as_many_go_as_there_is_room_for():
    assert room(5, 3, 9) == 2
    assert room(5, 3, 1) == 1
    assert room(5, 7, 9) == 0
    assert room(None, 7, 9) == 9


COMERS = st.lists(
    st.tuples(
        st.sets(st.sampled_from(PLACES)), st.booleans(), st.booleans(), st.integers(0, 3 * SECOND)
    ),
    max_size=30,
)


@given(comers=COMERS, caps=st.dictionaries(st.sampled_from(PLACES), st.integers(1, 4)))
def test_never_above_a_cap_and_nobody_is_forgotten(
    comers: list[tuple[set[str], bool, bool, int]], caps: dict[str, int]
):
    """Whatever comes, in whatever order, and whoever ends meanwhile."""
    books, now = AdmissionState(), NOW
    running: list[AdmissionRequest] = []
    for number, (places, has_rate, is_ending, gap) in enumerate(comers):
        now += gap
        if is_ending and running:
            for place in running.pop(0).places:
                books.held[place] -= 1
        comer = AdmissionRequest(
            run_id=run(number),
            caps=tuple((place, caps[place]) for place in sorted(places) if place in caps),
            rates=(("task:a", RATE),) if has_rate else (),
            places=tuple(sorted(places)),
        )

        (verdict,) = decide([comer], books, now)

        match verdict.way:
            case AdmissionRoute.GOES:
                running.append(comer)
            case AdmissionRoute.LATER:
                assert verdict.at is not None
                assert verdict.at > now
            case AdmissionRoute.STANDS:
                # There is no room for it, or it is for those who stand there already.
                assert verdict.why is not None
                place = verdict.why.removeprefix("cap ")
                assert books.held.get(place, 0) + books.waiting[place] > caps[place]
        held = {place: sum(place in one.places for one in running) for place in PLACES}
        assert all(books.held.get(place, 0) == held[place] for place in PLACES)
        assert all(held[place] <= most for place, most in caps.items())


@given(st.lists(st.tuples(st.integers(0, 20 * SECOND), st.integers(1, 5)), max_size=20))
def test_an_open_breaker_lets_nothing_go_but_its_probes(steps: list[tuple[int, int]]):
    """One at a time, and everybody else is told when to come back."""
    books, now, number = AdmissionState(breakers={"api": OPEN}), NOW, 0
    for gap, several in steps:
        now += gap
        before = books.breakers["api"]
        comers = [
            AdmissionRequest(run_id=run(number + one), destination="api") for one in range(several)
        ]
        number += several

        verdicts = decide(comers, books, now)

        went = [verdict for verdict in verdicts if verdict.way is AdmissionRoute.GOES]
        assert before.retry_at is not None
        assert len(went) == (now >= before.retry_at)
        assert all(verdict.at is None or verdict.at > now for verdict in verdicts)
