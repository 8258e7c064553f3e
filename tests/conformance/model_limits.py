"""What limits do to both stores of the model: said, asked for and taken back at random."""

from __future__ import annotations

from operator import methodcaller
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from duly.domain.admission import FAILURES_MIN
from duly.domain.enums import Lane
from duly.domain.limits import read_limit
from duly.domain.outcomes import Failed, Succeeded, conclude
from duly.domain.runs import TaskPolicy
from duly.domain.schedules import TENANT_DEFAULT
from duly.store.ports.execution import FinishAttempt
from duly.store.ports.limits import Request, SetLimit
from duly_conformance.kit import ADA

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.domain.outcomes import AttemptFacts
    from duly.store.memory import MemoryStore
    from duly.store.ports import Store
    from duly.store.ports.dispatch import MemberId
    from duly.store.ports.execution import ClaimedRun

places = st.integers(0, 999)
DESTINATIONS = ("api.example.com", "other.example.com")
scopes = st.sampled_from(
    [
        "task:remind",
        f"tenant:{TENANT_DEFAULT}",
        "tenant:*",
        *(f"destination:{one}" for one in DESTINATIONS),
    ]
)
limits = st.builds(
    read_limit,
    st.sampled_from([None, 1, 2]),
    st.sampled_from([None, "1/s burst 1", "1/h burst 2"]),
    st.sampled_from([None, {"account": 1}]),
)


class LimitRules:
    """Rules about limits; the machine that they belong to has the stores, workers and claims."""

    memory: MemoryStore
    stores: tuple[Store, ...]
    workers: list[MemberId]
    claims: list[tuple[MemberId, ClaimedRun]]
    both: Callable[[Callable[[Store], Any]], Any]
    claim_all: Callable[[], None]
    queue_runs: Callable[..., None]
    _claim: Callable[[int], tuple[MemberId, ClaimedRun]]
    _held: Callable[[int], tuple[MemberId, ClaimedRun]]
    _attempted: Callable[..., AttemptFacts]

    @rule(scope=scopes, limit=limits, verb=st.sampled_from(["set", "set", "remove", "declare"]))
    def limit(self, scope: str, limit: Any, verb: str) -> None:
        """Say something about a limit."""
        if verb == "set":
            self.both(methodcaller("set_limit", SetLimit(scope=scope, limit=limit, actor=ADA)))
        elif verb == "remove":
            self.both(methodcaller("remove_limit", scope, ADA))
        else:
            said = dict.fromkeys([scope, "task:report"], None if limit.is_empty else limit)
            self.both(methodcaller("declare_limits", said, ADA))

    @precondition(lambda self: self.claims)
    @rule(
        chosen=st.lists(places, min_size=1, max_size=4),
        destination=st.sampled_from([None, None, *DESTINATIONS]),
        wrong=st.integers(0, 5),
    )
    def admit(self, chosen: list[int], destination: str | None, wrong: int) -> None:
        """Ask about claims, live and dead ones, once or again, or as somebody else."""
        first, _ = self._held(chosen[0])
        member = self.workers[0] if wrong == 0 else first
        asked = [self._request(self._held(place)[1], destination, place) for place in chosen]
        self.both(methodcaller("admit", member, asked))

    @rule(
        told=st.lists(st.sampled_from([False, False, False, True, None]), max_size=6),
        is_failing=st.booleans(),
        place=places,
    )
    def a_destination_is_spoken_to(
        self, told: list[bool | None], is_failing: bool, place: int
    ) -> None:
        """Let attempts at it end at once, of whatever may begin: often enough of them badly."""
        if is_failing:
            told = [*told, *(False,) * FAILURES_MIN]
        destination = DESTINATIONS[place % 2]
        for number in range(len(told) // 2 + 1):
            self.queue_runs(f"to {destination} {number}", "default", 4, Lane.LIVE, TENANT_DEFAULT)
        self.claim_all()
        self.claim_all()
        member = self.workers[-1]
        held = self._held_by(member)
        asked = [self._request(claimed, destination, 0) for claimed in held]
        self.both(methodcaller("admit", member, asked))
        finishes = [self._told(*one) for one in zip(held, told, strict=False)]
        self.both(methodcaller("finish_runs", member, finishes))

    @rule(destination=st.sampled_from(DESTINATIONS))
    def take_for_well(self, destination: str) -> None:
        """Reset a breaker, if there is one."""
        self.both(methodcaller("reset_breaker", destination, ADA))

    @invariant()
    def what_is_known_of_limits_is_equal(self) -> None:
        """Every limit, who is there or stands there, and every destination."""
        if not hasattr(self, "workers"):
            return
        for model, actual in zip(*map(self._limited, self.stores), strict=True):
            assert model == actual

    def _limited(self, store: Store) -> list[Any]:
        known = store.list_limits()
        return [known.version, known.records, store.list_places(), store.list_breakers()]

    def _request(self, claimed: ClaimedRun, destination: str | None, place: int) -> Request:
        keys = (("account", str(place % 2)),) if place % 3 else ()
        record = claimed.record
        return Request(claimed.hold, record.tenant, claimed.task, destination, keys)

    def _held_by(self, member: MemberId) -> list[ClaimedRun]:
        """Return what a worker holds, the newest first."""
        claims = self.memory.tables.claims
        return [
            claimed
            for owner, claimed in reversed(self.claims)
            if owner == member
            and (row := claims.get(claimed.run_id)) is not None
            and row.tries.fence == claimed.fence
        ]

    def _told(self, claimed: ClaimedRun, is_answered: bool | None) -> FinishAttempt:
        attempted = self._attempted(claimed.run_id, claimed.tries, TaskPolicy())
        end = Succeeded() if is_answered else Failed("down")
        return FinishAttempt(claimed.hold, None, conclude(end, attempted), is_answered=is_answered)
