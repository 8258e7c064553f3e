"""Offers and answers as messages: what is read of them, and who is asked; without a database."""

from __future__ import annotations

import socket
import struct
from contextlib import ExitStack, closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from psycopg.types.numeric import Int8

from duly.engine.manual_clock import ManualClock
from duly.store.postgres.arrays import Int4s, Int8s, Texts, Uuids
from duly.store.postgres.handing import (
    KEPT_US,
    OFFERED_MAX,
    OFFERED_MIN,
    OFFERS_MAX,
    REFUSED_US,
    SILENT_US,
    SLOTS_SHARE,
    WAITED_US,
    Answer,
    Offer,
    Offering,
    Offers,
    Taker,
    offer_text,
)
from duly.store.postgres.prepared import encoded
from duly.store.wakeups import LONG_MAX, LOOPBACK, UdpWakeups

SENDER = (LOOPBACK, 1)
SLOTS = 2000
LONG_US = 120 * 1_000_000
NUMBER = 1 << 55
ANSWER = struct.Struct(">qqi?")
"""Which offer, the store's now, how many have fired, and whether some were queued; then the places
of those that have fired, if not all have."""
REFUSED = -1
INT4 = st.integers(-(1 << 31), (1 << 31) - 1)
INT8 = st.integers(-(1 << 63), (1 << 63) - 1)
TIMERS = st.lists(
    st.tuples(st.binary(min_size=16, max_size=16), INT4, INT8, INT4), min_size=1, max_size=30
)
NUMBERS = st.integers(0, (1 << 56) - 1)
KINDS = (Int8s, Uuids, Int4s, Int8s, Int4s)


def offered(timers, member=7, leases=(1, 2, 3)):
    """Return what a dispatcher offers, as it would go to the database."""
    refs, generations, dues, shards = zip(*timers, strict=True)
    return (
        Int8(member),
        Int8s(leases),
        Uuids(refs),
        Int4s(generations),
        Int8s(dues),
        Int4s(shards),
    )


def some(count=3):
    return offered([(number.to_bytes(16), 1, 10**15 + number, number) for number in range(count)])


def part(count=3):
    return count, some(count)


def told(places=None, now=42, *, is_queued=False):
    return Answer(now, places, is_queued)


def read(said):
    return Offer.read(said, SENDER, 0)


# Reading


@given(NUMBERS, INT8, st.lists(INT8, min_size=1, max_size=99), TIMERS)
def test_an_offer_arrives_as_it_was(number, member, leases, timers):
    """Whoever carries it out compares what whoever has made it believes."""
    values = offered(timers, member, leases)
    offer = read(offer_text(number, values))

    assert offer is not None
    assert (number, SENDER, len(timers)) == (offer.number, offer.sender, offer.size)
    assert encoded(values) == encoded(offer.values)
    assert [one.oid for one in values[1:]] == [one.oid for one in offer.values[1:]]


def test_an_offer_of_as_many_as_there_may_be_is_one_datagram():
    """With every lease of a dispatcher that has a thousand shards to itself."""
    timers = [(bytes(16), 1, 1, 1)] * OFFERED_MAX
    text = offer_text(NUMBER, offered(timers, leases=range(1000)))

    assert OFFERED_MAX == read(text).size
    assert len(text) < LONG_MAX - 100


def test_what_is_cut_off_anywhere_is_no_offer():
    text = offer_text(NUMBER, some())

    assert read(text) is not None
    assert [] == [length for length in range(len(text)) if read(text[:length]) is not None]


@given(st.binary(min_size=1, max_size=60))
def test_what_goes_on_behind_its_end_is_no_offer(rest):
    assert read(offer_text(NUMBER, some()) + rest) is None


@given(st.binary(max_size=300))
def test_nothing_that_is_said_is_an_error(said):
    assert read(said) is None


@given(st.data())
@settings(max_examples=300)
def test_whatever_is_changed_of_an_offer_it_is_none_or_one_of_the_same_size(data):
    """Which the database then compares with what is there."""
    text = bytearray(offer_text(NUMBER, some()))
    for _ in range(data.draw(st.integers(1, 4))):
        text[data.draw(st.integers(0, len(text) - 1))] = data.draw(st.integers(0, 255))
    offer = read(bytes(text))

    assert offer is None or offer.size == 3


@pytest.mark.parametrize("place", range(len(KINDS)))
def test_an_offer_without_leases_or_without_timers_is_none(place):
    values = list(some())
    values[1 + place] = KINDS[place](())

    assert read(offer_text(NUMBER, values)) is None


@pytest.mark.parametrize("place", range(1, len(KINDS)))
@pytest.mark.parametrize("count", [2, 4])
def test_an_offer_that_lacks_something_of_a_timer_is_none(place, count):
    values = list(some())
    values[1 + place] = some(count)[1 + place]

    assert read(offer_text(NUMBER, values)) is None


@pytest.mark.parametrize("place", range(len(KINDS)))
@pytest.mark.parametrize(
    "other", [Int4s([1, 2, 3]), Uuids([bytes(16)] * 3), Texts(["a", "b", "c"])]
)
def test_an_offer_of_something_else_is_none(place, other):
    values = list(some())
    if type(other) is KINDS[place]:
        other = Int8s([1, 2, 3])
    values[1 + place] = other

    assert read(offer_text(NUMBER, values)) is None


@pytest.mark.parametrize("place", range(len(KINDS)))
@pytest.mark.parametrize("length", [-(1 << 31), -5, -4, -1, 0, 1, 1000, (1 << 31) - 1])
def test_a_length_that_is_not_true_makes_it_none(place, length):
    values = some()
    at = 16 + sum(4 + len(one.data) for one in values[1 : 1 + place])
    text = bytearray(offer_text(NUMBER, values))
    text[at : at + 4] = struct.pack(">i", length)

    assert read(bytes(text)) is None


# The place


@pytest.fixture
def clock():
    return ManualClock()


class Door:
    """A place where a worker hears what it is offered."""

    def __init__(self, clock, slots=SLOTS):
        self.place = UdpWakeups()
        self.offers = Offers(clock)
        self.offers.open(self.place)
        self.offers.expect(slots, 0, ())
        self.plate = self.place.doorplate
        self.taker = Taker(self.plate, self.offers.most)

    def count(self):
        """Hear what was offered; return how many there are."""
        self.offers.is_any()
        return len(self.offers._offers)  # noqa: SLF001 - told nowhere else

    def take(self):
        offer = self.offers.take(SLOTS)
        assert offer is not None
        return offer

    def say(self, offer, number, now, many, *places):
        """Answer as one pleases."""
        said = ANSWER.pack(number, now, many, False) + struct.pack(f">{len(places)}h", *places)
        self.place.say(said, offer.sender)

    def close(self):
        self.place.close()


@pytest.fixture
def open_door(clock):
    with ExitStack() as stack:
        yield lambda slots=SLOTS: stack.enter_context(closing(Door(clock, slots)))


@pytest.fixture
def door(open_door):
    return open_door()


@pytest.fixture
def line():
    """A socket of whoever says something."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
        made.bind((LOOPBACK, 0))
        made.settimeout(120)
        yield made


def to(door):
    return (LOOPBACK, door.plate.port)


def test_what_is_offered_at_a_place_is_heard_and_wakes_who_waits_there(door, line):
    line.sendto(door.plate.offer + offer_text(NUMBER, some()), to(door))

    assert door.place.wait(LONG_US)
    assert not door.place.wait(0)
    offer = door.take()
    assert (NUMBER, line.getsockname(), 3) == (offer.number, offer.sender, offer.size)
    assert not door.offers.is_any()


@pytest.mark.parametrize("token", [b"", bytes(8), bytes(7)])
def test_an_offer_to_another_place_is_not_heard(door, line, token):
    """Names of hosts and numbers of ports prove nothing: the token does."""
    said = door.plate._replace(token=token).offer + offer_text(NUMBER, some())
    line.sendto(said, to(door))

    assert not door.place.wait(0)
    assert not door.offers.is_any()


@pytest.mark.parametrize("said", [b"", bytes(100), bytes(65_000), b"\xff" * 1000])
def test_what_is_no_offer_is_forgotten(door, line, said):
    line.sendto(door.plate.offer + said, to(door))
    line.sendto(door.plate.offer + offer_text(NUMBER, some()), to(door))

    assert 1 == door.count()
    assert NUMBER == door.take().number


def test_a_place_that_takes_none_ignores_what_is_offered(line):
    with closing(UdpWakeups()) as place:
        plate = place.doorplate
        line.sendto(plate.offer + offer_text(NUMBER, some()), (LOOPBACK, plate.port))
        line.sendto(plate.question, (LOOPBACK, plate.port))

        assert not place.wait(0)
        assert plate.answer == line.recv(100)
        place.wake()
        assert place.wait(LONG_US)


def test_a_place_says_how_many_it_takes(door, line):
    line.sendto(door.plate.question, to(door))

    assert not door.place.wait(LONG_US)
    assert [door.plate.answer, door.plate.takes + OFFERED_MAX.to_bytes(4)] == [
        line.recv(100),
        line.recv(100),
    ]


def test_a_place_that_takes_none_says_nothing_of_it(open_door, line):
    door = open_door(SLOTS_SHARE * OFFERED_MIN - 1)
    line.sendto(door.plate.question, to(door))
    door.place.wait(LONG_US)

    assert door.plate.answer == line.recv(100)
    line.settimeout(0)
    with pytest.raises(BlockingIOError):
        line.recv(100)


def test_a_ring_that_comes_while_offers_are_heard_is_kept(door):
    """Whoever looks for offers and then waits is told of it."""
    door.place.wake()
    door.place.hear()

    assert door.place.wait(LONG_US)
    assert not door.place.wait(0)


def test_a_ring_is_kept_however_often_offers_are_looked_for(door):
    door.place.wake()
    for _ in range(3):
        assert not door.offers.is_any()

    assert door.place.wait(LONG_US)
    assert not door.place.wait(0)


# Taking


@pytest.mark.parametrize(
    ("slots", "most"),
    [
        (0, 0),
        (10, 0),
        (SLOTS_SHARE * OFFERED_MIN - 1, 0),
        (SLOTS_SHARE * OFFERED_MIN, OFFERED_MIN),
        (1000, 250),
        (SLOTS_SHARE * OFFERED_MAX, OFFERED_MAX),
        (1_000_000, OFFERED_MAX),
    ],
)
def test_how_many_are_taken_at_a_time(clock, slots, most):
    offers = Offers(clock)
    offers.expect(slots, 0, ())

    assert most == offers.most


def test_who_joins_anew_with_fewer_slots_takes_none_any_more(door):
    door.offers.expect(10, 1000, ())

    assert 0 == door.offers.most


def test_the_oldest_comes_first_and_only_where_there_is_room(door, line):
    for number, count in ((1, 5), (2, 3)):
        line.sendto(door.plate.offer + offer_text(number, some(count)), to(door))
    taken = [door.offers.take(limit) for limit in (0, 4, 5, 2, 3, 9)]

    assert [None, None, 1, None, 2, None] == [one and one.number for one in taken]


def test_more_than_are_kept_are_refused(door, line):
    """So that nobody waits for what would come too late."""
    for number in range(OFFERS_MAX + 2):
        line.sendto(door.plate.offer + offer_text(number, some(1)), to(door))
        door.offers.is_any()
    refused = [ANSWER.unpack(line.recv(100)) for _ in range(2)]

    assert OFFERS_MAX == door.count()
    assert [(OFFERS_MAX, 0, REFUSED, False), (OFFERS_MAX + 1, 0, REFUSED, False)] == refused
    assert 0 == door.take().number


def test_what_has_waited_too_long_is_refused(clock, door, line):
    """Whoever has no room, or takes no more, says so when it had time to take it."""
    assert door.offers.before_waiting() is None
    line.sendto(door.plate.offer + offer_text(1, some()), to(door))
    door.offers.after_waiting()
    clock.advance(KEPT_US - 1)

    assert 1 == door.offers.before_waiting()
    clock.advance(1)
    assert door.offers.before_waiting() is None
    assert (1, 0, REFUSED, False) == ANSWER.unpack(line.recv(100))
    assert 0 == door.count()


def test_what_nobody_has_had_time_for_is_not_refused(clock, door, line):
    """It has come while its worker was busy with others."""
    line.sendto(door.plate.offer + offer_text(1, some()), to(door))
    assert door.offers.is_any()
    clock.advance(2 * KEPT_US)

    assert door.offers.before_waiting() is None
    assert 1 == door.count()
    door.offers.after_waiting()
    assert door.offers.before_waiting() is None
    assert 0 == door.count()


def test_while_others_are_taken_an_offer_may_wait(clock, door, line):
    """They are taken one after the other, each of which takes its time."""
    for number in (1, 2, 3):
        line.sendto(door.plate.offer + offer_text(number, some()), to(door))
    door.offers.after_waiting()
    clock.advance(KEPT_US - 1)
    assert 1 == door.take().number
    clock.advance(KEPT_US - 1)

    assert 1 == door.offers.before_waiting()
    assert 2 == door.count()
    clock.advance(1)
    assert door.offers.before_waiting() is None
    assert 0 == door.count()


def test_what_nobody_waits_for_any_longer_is_not_taken(clock, door, line):
    line.sendto(door.plate.offer + offer_text(NUMBER, some()), to(door))
    assert door.offers.is_any()
    clock.advance(WAITED_US)

    assert door.offers.take(SLOTS) is None
    assert (NUMBER, 0, REFUSED, False) == ANSWER.unpack(line.recv(100))


@pytest.mark.parametrize("queues", [(), ("mail",), ("mail", "reports")])
def test_who_serves_some_queues_of_several_takes_none(clock, queues):
    """Each of its claims asks for something particular."""
    offers = Offers(clock)
    offers.expect(SLOTS, 0, queues)

    assert (OFFERED_MAX if len(queues) < 2 else 0) == offers.most


def test_who_takes_none_any_more_refuses_what_there_is_and_what_comes(door, line):
    line.sendto(door.plate.offer + offer_text(1, some()), to(door))
    assert door.offers.is_any()
    door.offers.stop()
    line.sendto(door.plate.offer + offer_text(2, some()), to(door))
    door.place.wait(0)

    assert [1, 2] == [ANSWER.unpack(line.recv(100))[0] for _ in range(2)]
    assert door.offers.take(SLOTS) is None


def test_where_a_store_object_has_two_places_nothing_is_taken(door, line):
    """Nobody could tell whose an offer is, and whoever made it would not hear the answer."""
    with closing(UdpWakeups()) as second:
        door.offers.open(second)
        door.offers.expect(SLOTS, 0, ())

        assert 0 == door.offers.most
        line.sendto(door.plate.offer + offer_text(1, some()), to(door))
        door.place.wait(0)
        assert (1, 0, REFUSED, False) == ANSWER.unpack(line.recv(100))


# Offering


@pytest.fixture
def offering(clock):
    with closing(Offering(clock)) as made:
        yield made


def test_who_has_taken_an_offer_is_believed(offering, door):
    heard = offering.begin([door.taker], [part(), part(), part()])
    for places in (None, (1, 3), ()):
        door.offers.answer(door.take(), told(places))

    assert [told(), told((1, 3)), told(())] == heard()
    assert [door.taker] == offering.willing([door.taker])


def test_a_refusal_is_no_answer_and_who_refuses_rests_a_little(clock, offering, door):
    heard = offering.begin([door.taker], [part(), part()])
    door.offers.refuse(door.take())
    door.offers.answer(door.take(), told())

    assert [None, told()] == heard()
    assert [] == offering.willing([door.taker])
    clock.advance(REFUSED_US - 1)
    assert [] == offering.willing([door.taker])
    clock.advance(1)
    assert [door.taker] == offering.willing([door.taker])


def test_who_is_silent_rests_for_longer(clock, offering, door):
    heard = offering.begin([door.taker], [part()])
    clock.advance(WAITED_US)

    assert [None] == heard()
    clock.advance(SILENT_US - 1)
    assert [] == offering.willing([door.taker])
    clock.advance(1)
    assert [door.taker] == offering.willing([door.taker])


def test_one_who_rests_does_not_keep_others_from_being_asked(clock, offering, open_door):
    silent, other = open_door(), open_door()
    heard = offering.begin([silent.taker], [part()])
    clock.advance(WAITED_US)
    heard()

    assert [other.taker] == offering.willing([silent.taker, other.taker])


class Busy(ManualClock):
    """A clock at each look at which something happens."""

    def __init__(self):
        super().__init__()
        self.happens = lambda: None

    def monotonic_us(self):
        self.happens()
        return super().monotonic_us()


def test_who_answers_one_after_the_other_is_waited_for(door):
    """However long all of it takes: between two answers, he may take as long as for the first."""
    clock = Busy()
    with closing(Offering(clock)) as offering:
        heard = offering.begin([door.taker], [part()] * 9)
        began_at = clock.monotonic_us()

        def answer_one():
            if door.count():
                clock.advance(WAITED_US // 3)
                door.offers.answer(door.take(), told())

        clock.happens = answer_one

        assert [told()] * 9 == heard()
        assert clock.monotonic_us() - began_at > 2 * WAITED_US


def test_who_is_silent_after_an_answer_is_not_waited_for_any_longer(clock, offering, door):
    heard = offering.begin([door.taker], [part()] * 2)
    door.offers.answer(door.take(), told())
    offering._hear(offering._lines[door.plate], door.taker)  # noqa: SLF001 - as who waits does
    clock.advance(WAITED_US)

    assert [told(), None] == heard()
    assert [] == offering.willing([door.taker])


def test_what_somebody_else_says_is_not_heard(offering, door, line):
    """Each line hears whom it leads to, and nobody else."""
    heard = offering.begin([door.taker], [part()])
    offer = door.take()
    line.sendto(ANSWER.pack(offer.number, 1, 3, False), offer.sender)
    door.offers.answer(offer, told((2,)))

    assert [told((2,))] == heard()


def test_one_taker_does_not_answer_for_another(offering, open_door):
    """Not even with the right number."""
    doors = [open_door(), open_door()]
    heard = offering.begin([one.taker for one in doors], [part(), part()])
    offers = [one.take() for one in doors]
    for one, own, others in zip(doors, offers, reversed(offers), strict=True):
        one.say(own, others.number, 1, 3)
        one.say(own, own.number, 42, 3)

    assert [told(), told()] == heard()


def test_an_answer_to_what_was_never_offered_is_forgotten(offering, door):
    heard = offering.begin([door.taker], [part()])
    offer = door.take()
    for number in (offer.number + 1, offer.number - 1, 0, -1):
        door.say(offer, number, 1, 3)
    door.say(offer, offer.number, 42, 3)

    assert [told()] == heard()


def test_only_the_first_answer_counts(offering, door):
    heard = offering.begin([door.taker], [part()])
    offer = door.take()
    door.say(offer, offer.number, 42, 1, 2)
    door.say(offer, offer.number, 43, 3)

    assert [told((2,))] == heard()


@pytest.mark.parametrize("length", range(ANSWER.size))
def test_an_answer_that_is_cut_off_is_forgotten(offering, door, length):
    heard = offering.begin([door.taker], [part()])
    offer = door.take()
    door.place.say(ANSWER.pack(offer.number, 1, 3, False)[:length], offer.sender)
    door.offers.answer(offer, told())

    assert [told()] == heard()


@pytest.mark.parametrize(
    ("many", "places"),
    [
        (1, (0,)),
        (1, (-1,)),
        (1, (4,)),
        (2, (1, 4)),
        (3, (1, 2, 4)),
        (1, (-(1 << 15),)),
        (1, ()),
        (2, (1,)),
        (0, (1,)),
        (4, ()),
        (-2, ()),
        (1 << 30, ()),
    ],
)
def test_an_answer_that_can_not_be_true_says_nothing(offering, door, many, places):
    """INV-2: what is not known to have fired is fired."""
    heard = offering.begin([door.taker], [part(3)])
    offer = door.take()
    door.say(offer, offer.number, 42, many, *places)

    assert [None] == heard()


def test_answers_find_their_order_whoever_waits_first(offering, door):
    """Two batches may be under way at a time."""
    first = offering.begin([door.taker], [part(), part()])
    second = offering.begin([door.taker], [part()])
    for now in (1, 2, 3):
        door.offers.answer(door.take(), told(None, now))

    assert [told(now=3)] == second()
    assert [told(now=1), told(now=2)] == first()


def test_offers_go_round_and_begin_with_another_each_time(offering, open_door):
    doors = [open_door(), open_door(), open_door()]
    takers = [one.taker for one in doors]
    firsts = []
    for _ in range(6):
        offering.begin(takers, [part()])
        counts = [one.count() for one in doors]
        firsts.append(counts)
        for one in doors:
            one.offers.refuse_all()

    assert {(1, 0, 0), (0, 1, 0), (0, 0, 1)} == {tuple(one) for one in firsts}
    offering.begin(takers, [part()] * 6)
    assert [2, 2, 2] == [one.count() for one in doors]


def test_numbers_begin_anew_after_the_last(offering, door):
    offering._number = (1 << 56) - 2  # noqa: SLF001 - it would take a thousand years
    heard = offering.begin([door.taker], [part()] * 3)
    for now in (1, 2, 3):
        door.offers.answer(door.take(), told(None, now))

    assert [told(now=1), told(now=2), told(now=3)] == heard()


def test_what_is_too_long_to_be_sent_is_not_taken(offering, door):
    """It is not waited for, either: the clock stands still here."""
    heard = offering.begin([door.taker], [part(2000), part()])
    door.offers.answer(door.take(), told())

    assert [None, told()] == heard()


def test_offers_that_nobody_asks_about_any_more_are_forgotten(clock, offering, door):
    """INV-2: an order that was given up leaves nothing behind."""
    offering.begin([door.taker], [part()] * 9)
    clock.advance(2 * WAITED_US)
    offering.begin([door.taker], [part()])

    assert 1 == len(offering._awaited)  # noqa: SLF001 - told nowhere else


def test_whoever_is_no_taker_any_more_is_forgotten(clock, offering, open_door):
    first, second = open_door(), open_door()
    for one in (first, second):
        offering.begin([one.taker], [part()])
    assert [second.taker] == offering.willing([second.taker])

    assert [second.plate] == list(offering._lines)  # noqa: SLF001 - told nowhere else


def test_an_offer_whose_taker_is_none_any_more_is_not_waited_for(offering, open_door):
    """The clock stands still, and would end no wait."""
    first, second = open_door(), open_door()
    heard = offering.begin([first.taker], [part()])
    offering.willing([second.taker])

    assert [None] == heard()


def test_what_was_said_is_heard_though_somebody_comes_for_it_late(clock, offering, door):
    """Whoever fires may have been busy with something else."""
    heard = offering.begin([door.taker], [part(), part()])
    for _ in range(2):
        door.offers.answer(door.take(), told())
    clock.advance(10 * WAITED_US)

    assert [told(), told()] == heard()


def test_that_something_was_queued_is_told(offering, door):
    heard = offering.begin([door.taker], [part(), part()])
    for is_queued in (True, False):
        door.offers.answer(door.take(), told((1, 2), is_queued=is_queued))

    assert [told((1, 2), is_queued=True), told((1, 2))] == heard()


@pytest.mark.parametrize("count", [1, 3])
def test_one_who_is_gone_is_not_waited_for(offering, open_door, count):
    """A closed port is heard of; the clock stands still, and would end no wait."""
    door = open_door()
    door.close()
    heard = offering.begin([door.taker], [part()] * count)

    assert [None] * count == heard()
    assert [] == offering.willing([door.taker])


class Patience(ManualClock):
    """A clock that stands still, and at which nobody may look for ever."""

    def __init__(self):
        super().__init__()
        self.looks_left = 12

    def monotonic_us(self):
        self.looks_left -= 1
        assert self.looks_left > 0, "somebody waits"
        return super().monotonic_us()


def test_one_who_is_gone_is_not_waited_for_though_it_was_offered_two_parts(open_door):
    """As every crowd is that one worker alone takes."""
    door = open_door()
    door.close()
    with closing(Offering(Patience())) as offering:
        heard = offering.begin([door.taker], [part()] * 2)

        assert [None, None] == heard()


def test_who_has_just_answered_is_not_taken_for_silent_with_another(open_door):
    """It would be asked nothing for seconds, and its answers be lost."""
    clock = Busy()
    silent, lively = open_door(), open_door()
    with closing(Offering(clock)) as offering:
        heard = offering.begin([silent.taker, lively.taker], [part()] * 8)

        def answer_the_first():
            clock.advance(WAITED_US // 2)
            if lively.count() == 4:
                lively.offers.answer(lively.take(), told())

        clock.happens = answer_the_first
        heard()
        clock.happens = lambda: None
        clock.advance(REFUSED_US)

        assert [lively.taker] == offering.willing([silent.taker, lively.taker])
