"""What limits do to both stores of the model: said, asked for and taken back at random."""

from __future__ import annotations

from operator import methodcaller
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from duly.domain.attempts import TaskPolicy
from duly.domain.breakers import FAILURES_MIN
from duly.domain.concluding import Failed, conclude
from duly.domain.limits import read_limit
from duly.domain.literals import Lane
from duly.domain.schedules import TENANT_DEFAULT
from duly.store.admission import Request, SetLimit
from duly.store.execution import ClaimRuns, Finish
from duly.testing.factories import ADA
from tests.conformance.model_work import WorkRules, places

if TYPE_CHECKING:
    from duly.store.execution import ClaimedRun
    from duly.store.protocol import Store

API = "api.example.com"
scopes = st.sampled_from(
    ["task:remind", f"tenant:{TENANT_DEFAULT}", "tenant:*", f"destination:{API}"]
)
limits = st.builds(
    read_limit,
    st.sampled_from([None, 1, 2]),
    st.sampled_from([None, "1/s burst 1", "1/h burst 2"]),
    st.sampled_from([None, {"account": 1}]),
)


class LimitRules(WorkRules):
    """Rules about limits, beside those about workers."""

    @rule(scope=scopes, limit=limits, verb=st.sampled_from(["set", "set", "remove", "declare"]))
    def limit(self, scope: str, limit: Any, verb: str) -> None:
        """Say something about a limit."""
        if verb == "set":
            self.both(methodcaller("set_limit", SetLimit(scope=scope, limit=limit, actor=ADA)))
        elif verb == "remove":
            self.both(methodcaller("remove_limit", scope, ADA))
        else:
            said = {scope: None if limit.is_empty else limit}
            self.both(methodcaller("declare_limits", said, ADA))

    @precondition(lambda self: self.claims)
    @rule(
        chosen=st.lists(places, min_size=1, max_size=4),
        destination=st.sampled_from([None, None, API]),
        wrong=st.integers(0, 5),
    )
    def admit(self, chosen: list[int], destination: str | None, wrong: int) -> None:
        """Ask about claims, live and dead ones, once or again, or as somebody else."""
        first, _ = self._claim(chosen[0])
        member = self.workers[0] if wrong == 0 else first
        asked = [self._request(self._claim(place)[1], destination, place) for place in chosen]
        self.both(methodcaller("admit", member, asked))

    @rule(is_probed=st.booleans())
    def a_destination_goes_down(self, is_probed: bool) -> None:
        """Let enough attempts fail at once, of whatever may begin."""
        for number in range(FAILURES_MIN):
            self.queue_runs(f"down {number}", "default", 4, Lane.LIVE, TENANT_DEFAULT)
        member = self.workers[-1]
        claim = ClaimRuns(worker=member, limit=FAILURES_MIN)
        claimed = self.both(methodcaller("claim_runs", claim)).runs
        asked = [self._request(one, API, 1) for one in claimed]
        self.both(methodcaller("admit", member, asked))
        finishes = []
        for one in claimed:
            attempted = self._attempted(one.run_id, one.tries, TaskPolicy())
            conclusion = conclude(Failed("down"), attempted)
            finishes.append(Finish(one.hold, None, conclusion, is_answered=is_probed and None))
        self.both(methodcaller("finish_runs", member, finishes))

    @rule()
    def take_for_well(self) -> None:
        """Reset a breaker, if there is one."""
        self.both(methodcaller("reset_breaker", API, ADA))

    @rule(limit=st.integers(1, 3))
    def open_gates(self, limit: int) -> None:
        """Look whether anybody may go: whoever may has gone already."""
        self.both(methodcaller("open_gates", limit))

    @invariant()
    def what_is_known_of_limits_is_equal(self) -> None:
        """Every limit, who is there or stands there, and every destination."""
        if not hasattr(self, "workers"):
            return
        model, actual = (self._limited(store) for store in self.stores)

        assert model == actual

    def _limited(self, store: Store) -> list[Any]:
        known = store.list_limits()
        return [known.version, known.records, store.list_places(), store.list_breakers()]

    def _request(self, claimed: ClaimedRun, destination: str | None, place: int) -> Request:
        keys = (("account", str(place % 2)),) if place % 3 else ()
        record = claimed.record
        return Request(claimed.hold, record.tenant, claimed.task, destination, keys)
