"""What workers and operators do to both stores of the model: random, stale and repeated orders."""

from __future__ import annotations

from dataclasses import replace
from operator import methodcaller
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from duly.domain.enums import Effects, Lane
from duly.domain.outcomes import (
    AttemptFacts,
    CancelledEnd,
    Failed,
    GaveUp,
    ReturnedToQueue,
    Snoozed,
    Succeeded,
    TimedOut,
    WorkerLost,
    conclude,
)
from duly.domain.policies import Retry
from duly.domain.runs import LogLine, Progress, Reason, TaskPolicy
from duly.domain.schedules import TENANT_DEFAULT, Call
from duly.store.ports.execution import (
    ClaimRef,
    ClaimRuns,
    FinishAttempt,
    Heartbeat,
    LostClaimDecision,
    Report,
    SaveCheckpoint,
    SettleLost,
)
from duly.store.ports.queries import PAGE_MAX
from duly_conformance.kit import (
    ADA,
    HOUR_US,
    MINUTE_US,
    SECOND_US,
    add_runs,
    cancel_run,
    edit_run,
    new_run,
    order_runs,
    run_id,
    worker,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.domain.ids import RunId
    from duly.engine.manual_clock import ManualClock
    from duly.store.memory import MemoryStore
    from duly.store.ports import Store
    from duly.store.ports.dispatch import Fence, MemberId
    from duly.store.ports.execution import ClaimedRun, LostClaim

OVERDUE_US = MINUTE_US
places = st.integers(0, 999)
queues = st.sampled_from(["default", "mail"])
ENDS = (
    Succeeded("1"),
    Succeeded(),
    Failed("oh", after_us=2 * SECOND_US),
    Failed("oh", after_us=HOUR_US),
    Failed("oh"),
    Failed("no use", Reason.NOT_RETRYABLE, is_retryable=False),
    TimedOut(Reason.TIMEOUT, "too long"),
    TimedOut(Reason.RUN_TIMEOUT),
    GaveUp(Reason.GAVE_UP, "never"),
    Snoozed(SECOND_US),
    CancelledEnd(),
    ReturnedToQueue(Reason.SHUTDOWN, is_started=True),
    ReturnedToQueue(Reason.SHUTDOWN, is_started=False),
    ReturnedToQueue(Reason.UNKNOWN_TASK, is_started=False, after_us=SECOND_US),
)
POLICIES = (
    TaskPolicy(),
    TaskPolicy(retry=Retry(2), timeout_us=SECOND_US, stall_us=SECOND_US),
    TaskPolicy(retry=Retry(9, base="1s", per_minute=6), run_timeout_us=HOUR_US),
    TaskPolicy(retry=Retry(1), timeout_us=None),
    TaskPolicy(effects=Effects.UNSAFE),
)


class WorkRules:
    """Rules about workers; the machine that they belong to has the stores and the clock."""

    clock: ManualClock
    memory: MemoryStore
    stores: tuple[Store, ...]
    both: Callable[[Callable[[Store], Any]], Any]
    owner: Callable[[int], Fence]

    def begin_work(self) -> None:
        """Begin with one worker, and something to do."""
        self.workers: list[MemberId] = []
        self.claims: list[tuple[MemberId, ClaimedRun]] = []
        self.lost: list[LostClaim] = []
        self.join_as_worker(HOUR_US, ["remind"])
        self.served: dict[str, str] = {}
        self.queue_runs("p", "default", 4, Lane.LIVE, TENANT_DEFAULT)

    @rule(
        ttl_us=st.sampled_from([SECOND_US, HOUR_US, HOUR_US, 50 * HOUR_US]),
        tasks=st.lists(st.sampled_from(["remind", "report"]), unique=True),
    )
    def join_as_worker(self, ttl_us: int, tasks: list[str]) -> None:
        """Join, under a lease that is short or long."""
        command = worker(ttl_us=ttl_us, tasks=tuple(tasks), queues=("mail",) * len(tasks))
        member, _ = self.both(methodcaller("join", command))
        self.workers.append(member)

    @rule(
        text=st.sampled_from("pqrstuvw"),
        queue=queues,
        priority=st.sampled_from([0, 4, 9]),
        lane=st.sampled_from(Lane),
        tenant=st.sampled_from([TENANT_DEFAULT, "theirs", "others"]),
    )
    def queue_runs(self, text: str, queue: str, priority: int, lane: Lane, tenant: str) -> None:
        """Queue two runs."""
        for task in ("remind", "report"):
            call = Call(task=task, arguments="{}", queue=queue, priority=priority)
            new = new_run(None, f"{task} {text}", call=call, lane=lane, tenant=tenant)
            self.both(methodcaller("add_runs", add_runs(new)))

    @rule(
        place=places,
        limit=st.integers(0, 4),
        wanted=st.sampled_from([None, ("mail",), ("mail", "default"), ("other",)]),
        limits=st.dictionaries(queues, st.integers(0, 2)),
        rotation=st.integers(0, 3),
        without=st.sampled_from([frozenset(), frozenset(), frozenset(("remind", "clean"))]),
        newest_first=st.booleans(),
        first_lane=st.sampled_from([Lane.LIVE, *Lane]),
    )
    def claim(
        self,
        place: int,
        limit: int,
        wanted: tuple[str, ...] | None,
        limits: dict[str, int],
        rotation: int,
        without: frozenset[str],
        newest_first: bool,
        first_lane: Lane,
    ) -> None:
        """Claim, as anybody who ever joined."""
        command = ClaimRuns(
            worker=self.workers[place % len(self.workers)],
            limit=limit,
            queues=wanted,
            queue_limits=limits,
            rotation=rotation,
            without=without,
            newest_first=newest_first,
            served=self.served,
            first_lane=first_lane,
        )
        claimed = self.both(methodcaller("claim_runs", command))
        self.served = {**self.served, **claimed.served} if limit == len(claimed.runs) else {}
        self.claims += [(command.worker, run) for run in claimed.runs]

    @rule()
    def claim_all(self) -> None:
        """Claim whatever there is, as the newest worker."""
        place = len(self.workers) - 1
        self.claim(place, 9, None, {}, 0, frozenset(), newest_first=False, first_lane=Lane.LIVE)

    @rule(place=places, ttl_us=st.sampled_from([SECOND_US, HOUR_US]), skipped=st.integers(0, 2))
    def beat(self, place: int, ttl_us: int, skipped: int) -> None:
        """Beat, naming what one remembers."""
        member = self.workers[place % len(self.workers)]
        holds = [claimed.hold for owner, claimed in self.claims if owner == member]
        holds += [ClaimRef(run_id("nobody"), 1)] * (skipped == 2)
        command = Heartbeat(
            worker=member, holds=tuple(holds[skipped:]), ttl_us=ttl_us, slots=place, leaked=skipped
        )
        self.both(methodcaller("beat", command))

    @precondition(lambda self: self.claims)
    @rule(place=places, parts=st.integers(0, 7), is_stale=st.booleans(), is_counted=st.booleans())
    def report(self, place: int, parts: int, is_stale: bool, is_counted: bool) -> None:
        """Report something, about a claim that may be over, and remember a state."""
        member, claimed = self._claim(place)
        hold = ClaimRef(claimed.record.id, claimed.tries.fence + is_stale)
        said = Report(
            hold=hold,
            started_at=self.clock.now_us() if parts & 1 else None,
            progress=Progress(place, 1000, "on it") if parts & 2 else None,
            lines=(LogLine(1, "INFO", "hello"),) * 2 if parts & 4 else (),
            lines_before=place % 4 if is_counted else None,
        )
        self.both(methodcaller("report", member, [said, said]))
        order = SaveCheckpoint(worker=member, hold=hold, partition=str(parts), state=str(place))
        self.both(methodcaller("save_checkpoint", order))

    @precondition(lambda self: self.claims)
    @rule(
        chosen=st.lists(st.tuples(places, st.sampled_from(ENDS)), min_size=1, max_size=3),
        policy=st.sampled_from(POLICIES),
        is_started=st.booleans(),
        wrong=st.integers(0, 5),
    )
    def finish(
        self, chosen: list[tuple[int, Any]], policy: TaskPolicy, is_started: bool, wrong: int
    ) -> None:
        """End attempts of a worker, once or again, or as somebody else."""
        first, _ = self._claim(chosen[0][0])
        member = self.workers[0] if wrong == 0 else first
        finishes = []
        for place, how in chosen:
            _, claimed = self._claim(place)
            attempted = self._attempted(claimed.record.id, claimed.tries, policy)
            finishes.append(
                FinishAttempt(
                    hold=claimed.hold,
                    started_at=self.clock.now_us() if is_started else None,
                    conclusion=conclude(how, attempted),
                    progress=Progress(1) if place % 3 == 0 else None,
                    lines=(LogLine(2, "INFO", "bye"),) if place % 2 else (),
                    lines_before=place % 5 or None,
                )
            )
        self.both(methodcaller("finish_runs", member, finishes))

    @rule(place=places, limit=st.integers(1, 3), how=st.sampled_from([WorkerLost(), ENDS[6]]))
    def reap(self, place: int, limit: int, how: Any) -> None:
        """Settle what is lost, or what was lost some time ago."""
        found = self.both(methodcaller("find_lost", limit, OVERDUE_US))
        self.lost += found.claims
        if not self.lost:
            return
        chosen = self.lost[-limit:]
        losses = []
        for claim in chosen:
            attempted = replace(
                self._attempted(claim.hold.run_id, claim.tries, claim.policy),
                has_begun_effects=claim.effects_at is not None,
            )
            losses.append(LostClaimDecision(claim, conclude(how, attempted)))
        command = SettleLost(fence=self.owner(place), losses=tuple(losses), overdue_us=OVERDUE_US)
        self.both(methodcaller("settle_lost", command))

    @rule(
        place=places,
        verb=st.sampled_from(["cancel", "cancel", "retry", "retry", "discard", "edit"]),
        tenant=st.sampled_from([TENANT_DEFAULT, TENANT_DEFAULT, "theirs"]),
    )
    def operate(self, place: int, verb: str, tenant: str) -> None:
        """Order something about some run, wherever it is."""
        tables = self.memory.tables
        dead_first = sorted(tables.dead) + sorted(tables.waiting)
        known = sorted({*tables.runs, *tables.delayed, run_id("nobody")})
        if verb != "cancel" and dead_first and place % 2:
            known = dead_first
        target = known[place % len(known)]
        if verb == "cancel":
            self.both(methodcaller("cancel_run", cancel_run(target, tenant=tenant)))
        elif verb == "edit":
            order = edit_run(target, f'{{"n":{place}}}', tenant=tenant)
            self.both(methodcaller("edit_run", order))
        else:
            many = order_runs(target, *known[:2], tenant=tenant)
            self.both(methodcaller(f"{verb}_runs", many))

    @rule(queue=queues, is_paused=st.booleans())
    def pause_or_resume(self, queue: str, is_paused: bool) -> None:
        """Pause a queue, or resume it, whichever it is."""
        verb = "pause_queue" if is_paused else "resume_queue"
        self.both(methodcaller(verb, queue, ADA))

    @rule(policy=st.sampled_from(POLICIES), task=st.sampled_from(["remind", "report"]))
    def register(self, policy: TaskPolicy, task: str) -> None:
        """Say what a task's code says."""
        self.both(methodcaller("register_policies", {task: policy}))

    @invariant()
    def the_work_that_can_be_read_is_equal(self) -> None:
        """Every trace of every attempt, and every queue."""
        if not hasattr(self, "workers"):
            return
        model, actual = (self._worked(store) for store in self.stores)

        assert model == actual

    def _worked(self, store: Store) -> list[Any]:
        found: list[Any] = [store.list_queues(), store.find_lost(PAGE_MAX, OVERDUE_US)]
        found.append(
            [
                store.is_served(task, queue)
                for task in ("remind", "report")
                for queue in ("mail", "default")
            ]
        )
        for known in sorted(self.memory.tables.runs):
            lines = store.list_lines(known, 0, PAGE_MAX)
            assert sorted({line.number for line in lines}) == [line.number for line in lines]
            found += [
                store.list_attempts(known),
                store.list_progress(known, PAGE_MAX),
                [(line.fence, line.line) for line in lines],
                store.get_checkpoints(known),
            ]
        return found

    def _claim(self, place: int) -> tuple[MemberId, ClaimedRun]:
        """Return somebody's claim: most often a late one."""
        return self.claims[-1 - place % min(8, len(self.claims))]

    def _attempted(self, run: RunId, tries: Any, policy: TaskPolicy) -> AttemptFacts:
        return AttemptFacts(run_id=run, policy=policy, tries=tries, now=self.clock.now_us())
