"""Hand-overs between neighbours: a worker next door fires what is due for itself, and begins it.

A run that is fired into the queue, found there and claimed is written, locked, read and deleted
once more than one that is claimed as it is fired. So in a crowd a dispatcher offers timers to the
workers on this host, by a datagram: with its own fence, and all that it believes of each. Whoever
has room carries out one statement (`handed.py`), which compares everything as a fire does, under
the dispatcher's fence and the worker's own. Then it tells the dispatcher what has fired.

An offer is a hint. Nothing is written by it, and whoever makes it waits a moment for an answer and
then fires what is left in the usual way: what the other has fired meanwhile is gone. One that is
lost, heard twice or carried out long afterwards fires nothing that is not due, is no longer the
dispatcher's, or has fired.
"""

from __future__ import annotations

import select
import socket
import struct
import threading
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from duly.entropy import SystemDraws
from duly.store.postgres.arrays import Int4s, Int8s, Uuids, received, size_of
from duly.store.wakeups import LONG_MAX, LOOPBACK, SECOND_US, WakeAddress

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from duly.clock import Clock
    from duly.store.postgres.arrays import Encoded
    from duly.store.wakeups import Sender, UdpWakeups

OFFERED_MAX = 500
"""So many are offered at a time: a worker begins them while it fires the next."""
OFFERED_MIN = 128
"""Who would take fewer than this is not asked: there is more to each offer than that saves."""
SLOTS_SHARE = 4
"""An offer is at most one part in so many of what a worker may hold."""
KEPT_US = SECOND_US // 20
"""So long an offer may wait for room, while no other is taken."""
OFFERS_MAX = 64
"""So many are kept."""
WAITED_US = SECOND_US // 5
"""So long an answer is waited for: other timers wait, too."""
SILENT_US = 5 * SECOND_US
"""Who has said nothing at all meanwhile is not asked for this long;"""
REFUSED_US = SECOND_US // 10
"""and who has refused, or was too slow, for this long."""

_NUMBER_BYTES = 7
_NUMBERS = 1 << 8 * _NUMBER_BYTES
_OFFER = struct.Struct(">qq")
_ANSWER = struct.Struct(">qqi?")
_LENGTH = struct.Struct(">i")
_PLACE_BYTES = 2
_REFUSED = -1
_ARRAYS: tuple[type[Encoded], ...] = (Int8s, Uuids, Int4s, Int8s, Int4s)
"""Of what a fire of delayed runs takes after its member: leases, and four facts of each timer."""


class Taker(NamedTuple):
    """A worker that takes offers."""

    doorplate: WakeAddress
    most: int
    """How many at a time."""


class Answer(NamedTuple):
    """What has become of an offer that was taken."""

    now: int
    places: Sequence[int] | None
    """Which of the timers have fired, counted from one; None if all have."""
    is_queued: bool
    """Whether there were some among them that the worker does not serve."""


class Offer(NamedTuple):
    """Timers that a dispatcher would have us fire."""

    number: int
    sender: Sender
    size: int
    values: tuple[object, ...]
    """As the statement takes them: the dispatcher, its leases, and all of each timer."""
    heard_at: int
    """By the monotonic clock."""

    @classmethod
    def read(cls, said: bytes, sender: Sender, heard_at: int) -> Offer | None:
        """Read an offer; None if it is not one."""
        try:
            number, member = _OFFER.unpack_from(said)
            values: list[object] = [member]
            at = _OFFER.size
            for kind in _ARRAYS:
                (length,) = _LENGTH.unpack_from(said, at)
                at += _LENGTH.size + length
                values.append(received(kind, said[at - length : at]))
        except (struct.error, ValueError):
            return None
        facts = values[2:]
        sizes = {size_of(one) for one in facts}
        is_whole = at == len(said) and len(sizes) == 1
        return cls(number, sender, sizes.pop(), tuple(values), heard_at) if is_whole else None


def offer_text(number: int, values: Sequence[object]) -> bytes:
    """Return an offer as it is sent: values as they go to the database."""
    member, *arrays = values
    parts = [_OFFER.pack(number, member)]
    for one in arrays:
        data: bytes = one.data  # type: ignore[attr-defined]
        parts += (_LENGTH.pack(len(data)), data)
    return b"".join(parts)


class Offers:
    """What was offered to a worker of ours, until it has room for it or has waited too long."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.most = 0
        """How many it takes at a time; 0 while it takes none."""
        self._place: UdpWakeups | None = None
        self._is_shared = False
        """Whether there are several places: nobody could tell whose an offer is."""
        self._offers: deque[Offer] = deque()
        self._passed_over = 0
        """How many of them were there when its worker last had nothing to wait for."""
        self._taken_at = 0
        """When the last was taken, by the monotonic clock."""

    def open(self, place: UdpWakeups) -> None:
        """Hear offers at a place, if it is the only one."""
        if self._place is not None:
            self._is_shared = True
            self.stop()
            return
        self._place = place
        place.hear_offers(self)

    def expect(self, slots: int, ahead: int, queues: Sequence[str]) -> None:
        """Take offers for a worker, if it has many slots and serves one queue or all there are."""
        is_large = slots // SLOTS_SHARE >= OFFERED_MIN
        is_fit = is_large and len(queues) <= 1 and not self._is_shared
        self.most = min(OFFERED_MAX, (slots + ahead) // SLOTS_SHARE) if is_fit else 0

    def stop(self) -> None:
        """Take none any more, and say so."""
        self.refuse_all()
        self.most = 0

    def put(self, said: bytes, sender: Sender) -> None:
        """Keep an offer, if it is one and there is somebody to take it."""
        offer = Offer.read(said, sender, self._clock.monotonic_us())
        if offer is None:
            return
        if self.most and len(self._offers) < OFFERS_MAX:
            self._offers.append(offer)
        else:
            self.refuse(offer)

    def is_any(self) -> bool:
        """Say whether there is an offer that somebody waits for."""
        if self._place is not None and self.most:
            self._place.hear()
        self._refuse_older(WAITED_US)
        return bool(self._offers)

    def take(self, limit: int) -> Offer | None:
        """Return the oldest offer, if there is room for it."""
        if not self.is_any() or self._offers[0].size > limit:
            return None
        self._taken_at = self._clock.monotonic_us()
        return self._next()

    def before_waiting(self) -> int | None:
        """Refuse what has waited for too long, though there was time to take it.

        Whoever has no room, or takes no more, says so. Return for how long the next may still wait;
        None if there is none that was passed over.
        """
        self.is_any()
        while self._passed_over:
            since = max(self._offers[0].heard_at, self._taken_at)
            kept_us = since + KEPT_US - self._clock.monotonic_us()
            if kept_us > 0:
                return kept_us
            self.refuse(self._next())
        return None

    def after_waiting(self) -> None:
        """Know that whoever has waited may take now what there is."""
        self.is_any()
        self._passed_over = len(self._offers)

    def refuse_all(self) -> None:
        """Take none of what was offered."""
        if self.is_any():
            self._refuse_older(0)

    def refuse(self, offer: Offer) -> None:
        """Say that an offer is not taken."""
        self._say(offer, _ANSWER.pack(offer.number, 0, _REFUSED, 0))

    def answer(self, offer: Offer, answer: Answer) -> None:
        """Tell what has become of an offer."""
        places = answer.places
        many = offer.size if places is None else len(places)
        said = _ANSWER.pack(offer.number, answer.now, many, answer.is_queued)
        self._say(offer, said + struct.pack(f">{len(places or ())}h", *(places or ())))

    def _refuse_older(self, kept_us: int) -> None:
        since = self._clock.monotonic_us() - kept_us
        while self._offers and self._offers[0].heard_at <= since:
            self.refuse(self._next())

    def _next(self) -> Offer:
        self._passed_over = max(self._passed_over - 1, 0)
        return self._offers.popleft()

    def _say(self, offer: Offer, said: bytes) -> None:
        if self._place is not None:
            self._place.say(said, offer.sender)


class _Awaited(NamedTuple):
    """An offer that was made, and where its answer belongs."""

    taker: Taker
    size: int
    answers: list[Answer | None]
    place: int
    until: int
    """So long its answer is waited for, by the monotonic clock."""


class Offering:
    """Offers timers to neighbours, and hears what became of them."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lines: dict[WakeAddress, socket.socket] = {}
        """To each a socket that hears nobody else, and hears that nobody is there any more."""
        self._number = int.from_bytes(SystemDraws().draw(_NUMBER_BYTES))
        self._awaited: dict[int, _Awaited] = {}
        self._heard_at: dict[WakeAddress, int] = {}
        """When each has last answered, by the monotonic clock."""
        self._rests: dict[WakeAddress, int] = {}
        """Until when somebody is not asked, by the monotonic clock."""
        self._lock = threading.Lock()

    def willing(self, takers: Sequence[Taker]) -> list[Taker]:
        """Return those of all takers that may be asked now; others are forgotten."""
        monotonic, known = self._clock.monotonic_us(), {one.doorplate for one in takers}
        with self._lock:
            for plate in self._lines.keys() - known:
                self._let_go(plate)
            for table in (self._heard_at, self._rests):
                for plate in table.keys() - known:
                    del table[plate]
            return [one for one in takers if self._rests.get(one.doorplate, 0) <= monotonic]

    def begin(
        self, takers: Sequence[Taker], parts: Sequence[tuple[int, Sequence[object]]]
    ) -> Callable[[], list[Answer | None]]:
        """Offer parts, each of so many timers, to takers in turn; return what waits for answers.

        There is None for what was not taken.
        """
        answers: list[Answer | None] = [None] * len(parts)
        with self._lock:
            self._forget_unheard()
            first = self._number
            numbers = [
                self._send(takers[(first + place) % len(takers)], part, (answers, place))
                for place, part in enumerate(parts)
            ]

        def heard() -> list[Answer | None]:
            with self._lock:
                self._hear_all(numbers)
            return answers

        return heard

    def close(self) -> None:
        """Let go."""
        with self._lock:
            for plate in tuple(self._lines):
                self._let_go(plate)

    def _forget_unheard(self) -> None:
        """Forget what nobody has asked about in time: whoever has made it has given up."""
        given_up_at = self._clock.monotonic_us() - WAITED_US
        for number, one in tuple(self._awaited.items()):
            if one.until <= given_up_at:
                del self._awaited[number]

    def _send(
        self,
        taker: Taker,
        part: tuple[int, Sequence[object]],
        belongs: tuple[list[Answer | None], int],
    ) -> int:
        """Make an offer; return its number. What can't be sent is not taken."""
        size, values = part
        plate = taker.doorplate
        self._number = number = (self._number + 1) % _NUMBERS
        try:
            line = self._lines.get(plate)
            if line is None:
                line = self._lines[plate] = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
                line.settimeout(0)
                line.connect((LOOPBACK, plate.port))
            line.send(plate.offer + offer_text(number, values))
        except OSError:
            # That nobody is there is told once, of whatever was sent before.
            self._let_go(plate)
            return number
        until = self._clock.monotonic_us() + WAITED_US
        self._awaited[number] = _Awaited(taker, size, *belongs, until)
        return number

    def _hear_all(self, numbers: Sequence[int]) -> None:
        """Wait until all of some offers are answered, or it has taken too long.

        What lies there is read in any case: whoever asks may have been busy meanwhile.
        """
        while self._hear_some(numbers):
            pass
        monotonic = self._clock.monotonic_us()
        for number in numbers:
            unanswered = self._awaited.pop(number, None)
            if unanswered is not None:
                plate = unanswered.taker.doorplate
                made_at = unanswered.until - WAITED_US
                is_silent = self._heard_at.get(plate, made_at) <= made_at
                rests_us = SILENT_US if is_silent else REFUSED_US
                self._rests[plate] = max(self._rests.get(plate, 0), monotonic + rests_us)

    def _hear_some(self, numbers: Sequence[int]) -> bool:
        """Wait for whoever owes an answer; say whether to go on."""
        owing = [self._awaited[one] for one in numbers if one in self._awaited]
        monotonic = self._clock.monotonic_us()
        lines = {self._lines[one.taker.doorplate]: one.taker for one in owing if self._has(one)}
        poll = select.poll()
        for line in lines:
            poll.register(line, select.POLLIN)
        left_us = max((one.until - monotonic for one in owing if self._has(one)), default=0)
        ready = {number for number, _ in poll.poll(-(-max(left_us, 0) // 1000))} if lines else ()
        for line, taker in lines.items():
            if line.fileno() in ready:
                self._hear(line, taker)
        return bool(ready) or left_us > 0

    def _has(self, awaited: _Awaited) -> bool:
        return awaited.taker.doorplate in self._lines

    def _hear(self, line: socket.socket, taker: Taker) -> None:
        """Hear all that somebody has said; who is gone has said nothing, and will not."""
        try:
            while True:
                self._note(line.recv(LONG_MAX), taker)
        except BlockingIOError:
            pass
        except OSError:
            self._let_go(taker.doorplate)

    def _note(self, said: bytes, taker: Taker) -> None:
        if len(said) < _ANSWER.size:
            return
        number, now, many, is_queued = _ANSWER.unpack_from(said)
        awaited = self._awaited.get(number)
        if awaited is None or awaited.taker != taker:
            return
        del self._awaited[number]
        monotonic = self._clock.monotonic_us()
        self._heard_at[taker.doorplate] = monotonic
        if many == _REFUSED:
            self._rests[taker.doorplate] = monotonic + REFUSED_US
            return
        listed = (len(said) - _ANSWER.size) // _PLACE_BYTES
        places = struct.unpack_from(f">{listed}h", said, _ANSWER.size)
        is_all = many == awaited.size and not listed
        is_sound = many == listed and all(0 < place <= awaited.size for place in places)
        if is_all or is_sound:
            awaited.answers[awaited.place] = Answer(now, None if is_all else places, is_queued)

    def _let_go(self, plate: WakeAddress) -> None:
        line = self._lines.pop(plate, None)
        if line is not None:
            line.close()
