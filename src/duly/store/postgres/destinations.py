"""Destinations: how the other sides of attempts are doing, one row for each and for the fleet.

Ends of attempts are taken in for a batch at a time. Rows are locked in the order of their names,
after claims and gates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.domain.admission import Breaker, reset_of
from duly.domain.limits import LimitKind, LimitReason, scope_of, why_text
from duly.store.admission import (
    BREAKERS_KEPT_US,
    fold,
    reset_breaker_subject,
    spread_again,
    unknown_destination,
    with_waiting,
)
from duly.store.limit_rows import breaker_of, breaker_row
from duly.store.ports.limits import BreakerRecord
from duly.store.postgres.arrays import Int4s, Int8s, OptionalInt8s, OptionalUuids, Texts
from duly.store.postgres.put_off import call_back, list_put_off
from duly.store.postgres.session import pairs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from duly.domain.admission import EndAtDestination
    from duly.domain.audit import Actor
    from duly.store.postgres.arrays import Encoded
    from duly.store.postgres.session import Session
    from duly.store.postgres.work import Look, Work

_BREAKER = """state, counted_from, succeeded, failed, opened_at, retry_at, pause_us,
    uuid_send(probe), epoch, updated_at, destination"""
BREAKERS = f"SELECT {_BREAKER} FROM duly.breakers"  # noqa: S608 - columns of ours
ALL_BREAKERS = f"{BREAKERS} ORDER BY destination"
# Who is well is only read: no decision changes that.
BREAKERS_OF = f"{BREAKERS} WHERE destination = ANY($1::text[])"
LOCK_BREAKERS = f"{BREAKERS_OF} ORDER BY destination FOR UPDATE"
# Makes what is missing and locks what is there, name by name.
KNOW_BREAKERS = """
INSERT INTO duly.breakers (destination, state, counted_from, succeeded, failed, pause_us, epoch,
    updated_at)
SELECT u.destination, 'closed', 0, 0, 0, 0, 0, $2::int8 FROM unnest($1::text[]) u(destination)
ON CONFLICT (destination) DO UPDATE SET destination = excluded.destination WHERE false"""
WRITE_BREAKERS = """
UPDATE duly.breakers b
SET state = u.state, counted_from = u.counted_from, succeeded = u.succeeded, failed = u.failed,
    opened_at = u.opened_at, retry_at = u.retry_at, pause_us = u.pause_us, probe = u.probe,
    epoch = u.epoch, updated_at = $1::int8
FROM unnest($2::text[], $3::text[], $4::int8[], $5::int4[], $6::int4[], $7::int8[], $8::int8[],
    $9::int8[], $10::uuid[], $11::int8[])
    u(destination, state, counted_from, succeeded, failed, opened_at, retry_at, pause_us, probe,
    epoch)
WHERE b.destination = u.destination"""
COUNT_HELD = """
SELECT place, count(*) FROM duly.held_places WHERE place = ANY($1::text[]) GROUP BY place"""
# By the index that call_back uses.
COUNT_PUT_OFF = """
SELECT reason, count(*) FROM duly.waiting WHERE reason ^@ 'breaker ' GROUP BY reason"""
FORGET_BREAKERS = """
DELETE FROM duly.breakers WHERE destination = ANY(ARRAY(
    SELECT destination FROM duly.breakers WHERE state = 'closed' AND updated_at < $1::int8
    LIMIT $2::int8 FOR UPDATE SKIP LOCKED))"""


def count_held(session: Session, places: Sequence[str]) -> dict[str, int]:
    """Return how many hold places; one that nobody holds is not there."""
    return dict(session.rows(COUNT_HELD, (Texts(places),)))


def take_in(work: Work, ends: Mapping[str, Sequence[EndAtDestination]]) -> None:
    """Take in how attempts have ended, by destination."""
    # Of one that nobody has told anything about nothing is written.
    telling = [name for name, told in ends.items() if any(e.is_answered is not None for e in told)]
    if telling:
        work.session.run(KNOW_BREAKERS, (Texts(sorted(telling)), work.now))
    known = lock_breakers(work, sorted(ends))
    folded = {name: fold(before, ends[name], work.now) for name, before in known.items()}
    write_breakers(work, {name: one for name, one in folded.items() if one != known[name]})


def lock_breakers(work: Work, destinations: Sequence[str]) -> dict[str, Breaker]:
    """Return what is known of destinations, which nobody else changes from here on."""
    found = work.session.rows(LOCK_BREAKERS, (Texts(destinations),))
    return {row[10]: breaker_of(row) for row in found}


def write_breakers(work: Work, breakers: Mapping[str, Breaker]) -> None:
    """Write what has changed of destinations that are known."""
    if not breakers:
        return
    columns = zip(*(breaker_row(breaker) for breaker in breakers.values()), strict=True)
    kinds = (Texts, Int8s, Int4s, Int4s, OptionalInt8s, OptionalInt8s, Int8s, OptionalUuids, Int8s)
    values: list[Encoded] = [kind(column) for kind, column in zip(kinds, columns, strict=True)]
    work.session.run(WRITE_BREAKERS, (work.now, Texts([*breakers]), *values))


def list_breakers(look: Look) -> list[BreakerRecord]:
    """Return what is known of destinations, by name."""
    found = look.session.rows(ALL_BREAKERS)
    places = {row[10]: scope_of(LimitKind.DESTINATION, row[10]) for row in found}
    running = count_held(look.session, [*places.values()])
    known = [
        BreakerRecord(row[10], breaker_of(row), running.get(places[row[10]], 0), row[9])
        for row in found
    ]
    return with_waiting(known, lambda: pairs(look.session, COUNT_PUT_OFF))


def reset_breaker(work: Work, destination: str, actor: Actor) -> BreakerRecord:
    """Take a destination for well."""
    known = lock_breakers(work, [destination]).get(destination)
    if known is None:
        raise unknown_destination(destination)
    now = work.look_at_the_clock()
    reset = reset_of(known, now)
    write_breakers(work, {destination: reset})
    # Whoever puts one off has locked the breaker: all of them are there by now.
    waiting = list_put_off(work, why_text(LimitReason.BREAKER, destination))
    call_back(work, waiting, spread_again(len(waiting), now))
    work.record(actor, "breaker.reset", reset_breaker_subject(destination, known))
    place = scope_of(LimitKind.DESTINATION, destination)
    running = count_held(work.session, [place]).get(place, 0)
    return BreakerRecord(destination, reset, running, now)


def forget_breakers(work: Work, limit: int) -> None:
    """Forget destinations that are well, and to which nobody speaks."""
    work.session.run(FORGET_BREAKERS, (work.now - BREAKERS_KEPT_US, limit))
