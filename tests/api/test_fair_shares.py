"""Tenants share the streams and threads of a server, however many tokens and sessions one has."""

from __future__ import annotations

import asyncio

import pytest

from duly.api.events import FairPlaces, StreamPlace, Streams
from duly.api.middleware import ApiSettings
from duly.api.requests import problem_of
from duly.domain.auth import Principal, PrincipalKind, Role


def caller(tenant: str, number: int = 0, token: bytes | None = None) -> Principal:
    kind = PrincipalKind.TOKEN if token is None else PrincipalKind.SESSION
    own = bytes([number]) * 16
    return Principal(tenant=tenant, name="ada", role=Role.VIEWER, kind=kind, id=own, token_id=token)


def refused(streams: Streams, principal: Principal) -> int:
    """Return the status with which a follower is refused."""
    with pytest.raises(Exception, match="follow events already") as raised:
        streams.enter(principal)
    return problem_of(raised.value).status


def test_sessions_of_one_token_follow_as_often_as_the_token():
    streams = Streams(ApiSettings(streams_max=9, streams_of_one_max=2))
    token = bytes(16)
    for number in (1, 2):
        streams.enter(caller("acme", number, token))

    assert 429 == refused(streams, caller("acme", 3, token))
    assert not streams.enter(caller("acme", 4)).is_lost


def test_each_tenant_has_its_share_of_the_streams():
    """The newest of the largest tenant gives way, until none has two more than another."""
    streams = Streams(ApiSettings(streams_max=6, streams_of_one_max=1))
    greedy = [streams.enter(caller("greedy", number)) for number in range(6)]
    modest = [streams.enter(caller("modest", 100 + number)) for number in range(3)]

    assert [False] * 3 + [True] * 3 == [one.is_lost for one in greedy]
    assert [503, 503] == [refused(streams, caller(one, 200)) for one in ("greedy", "modest")]
    assert not streams.enter(caller("third", 200)).is_lost
    assert 1 == sum(one.is_lost for one in (*greedy[:3], *modest))


def test_a_lost_place_is_not_given_back():
    streams = Streams(ApiSettings(streams_max=2, streams_of_one_max=1))
    lost: list[StreamPlace] = [streams.enter(caller("greedy", number)) for number in range(2)]
    streams.enter(caller("modest", 9))
    streams.leave(lost[1])

    assert 503 == refused(streams, caller("greedy", 1))


def test_a_free_thread_goes_to_the_tenant_that_uses_the_fewest():
    """A tenant that asks later waits behind one request of another, not behind all of them."""
    begun: list[str] = []

    async def use(places: FairPlaces, tenant: str) -> None:
        async with places.lent(tenant):
            begun.append(tenant)
            await asyncio.sleep(0)  # noqa: TID251 - lets others come, and waits for no time

    async def all_of_them() -> None:
        places = FairPlaces(2)
        tenants = [*["greedy"] * 8, *["modest"] * 2, "third"]
        await asyncio.gather(*(use(places, one) for one in tenants))

    asyncio.run(all_of_them())

    assert 11 == len(begun)
    assert {"modest", "third"} <= set(begun[2:5])
    assert ["greedy"] * 4 == begun[-4:]


def test_a_request_that_was_given_up_leaves_no_place_taken():
    """Neither while it waits, nor in the moment in which its turn has come."""

    async def give_up() -> list[str]:
        places, entered = FairPlaces(1), []
        begun, release = asyncio.Event(), asyncio.Event()

        async def hold() -> None:
            async with places.lent("holder"):
                begun.set()
                await release.wait()

        async def wait(name: str) -> None:
            async with places.lent("waiter"):
                entered.append(name)

        holder = asyncio.ensure_future(hold())
        await begun.wait()
        waiting, called, last = (asyncio.ensure_future(wait(one)) for one in ("a", "b", "c"))
        await asyncio.wait([waiting], timeout=0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        release.set()
        await holder  # the turn of the second has come, and it has not noticed yet
        called.cancel()
        await asyncio.gather(called, last, return_exceptions=True)
        async with places.lent("late"):
            return entered

    entered = asyncio.run(give_up())

    assert "c" in entered
