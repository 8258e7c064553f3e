"""The checker: holds every executed call against the ledger, the moment it is executed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from duly.domain.enums import Lane, Origin, ScheduleStatus
from duly.store.ports.dispatch import (
    DrainOwed,
    FireDelayed,
    FireResult,
    FireRetry,
    FireSchedule,
    FireTimers,
    LeaseKey,
    MemberKind,
)
from duly.store.ports.schedules import AddRuns, NewRun, Stale
from tests.simulation.backfill_checker import BackfillChecker
from tests.simulation.gate_ledger import GateLedger
from tests.simulation.handing import note_hand_over
from tests.simulation.ledger import DelayedNote, LeaseNote, Ledger, MemberNote
from tests.simulation.oracle import BY_ORDER, check_settlement, occurrences
from tests.simulation.work_checker import WorkChecker
from tests.simulation.world import Violation

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Mapping, Sequence

    from duly.domain.fire_planning import Settlement
    from tests.simulation.alert_checker import AlertChecker
    from tests.simulation.handing import Handed
    from tests.simulation.ledger import ScheduleNote
    from tests.simulation.oracle import Template
    from tests.simulation.world import Executed

Item: TypeAlias = FireSchedule | FireDelayed | FireRetry
OPEN_LONG_US = 3_000_000
STILL_PENDING = frozenset((FireResult.FIRED, FireResult.EARLY, FireResult.LATE))
DRAINABLE = frozenset((ScheduleStatus.ACTIVE, ScheduleStatus.ENDED))


class Checker:
    """Sees every executed call; keeps the ledger, counts what happened, objects at once."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.work = WorkChecker(self.ledger)
        self.counts: Counter[str]
        self.gates: GateLedger | None = None
        """In a world that has policies for what may not overlap."""
        self.backfills: BackfillChecker | None = None
        self.alerts: AlertChecker | None = None
        """In a world in which somebody watches."""
        self._open: dict[int, tuple[int, list[Executed]]] = {}

    def watch_policies(self, store: Any) -> None:
        """Look after gates and backfills, too; what became of runs is asked of the store."""
        self.gates = self.work.gates = GateLedger(self.work.runs, store, self.counts)
        self.backfills = BackfillChecker(self.ledger, self.work, self.gates)

    def see(self, executed: Executed) -> None:
        """Check one executed call, and write it down."""
        self.work.latest_at = max(self.work.latest_at, executed.at)
        if executed.error is not None:
            if executed.call.operation == "commit":
                self._open.pop(id(executed.call.arguments[0].transaction), None)
                self._end_transaction(executed, is_done=False)
            self.work.see_error(executed)
            return
        operation = executed.call.operation
        if executed.call.within is not None:
            self._open[id(executed.call.within)][1].append(executed)
            return
        check = (
            getattr(self, f"_{operation}", None)
            or getattr(self.work, operation, None)
            or getattr(self.backfills, operation, None)
            or getattr(self.work.effects, operation, None)
            or getattr(self.work.limits, operation, None)
            or getattr(self.alerts, operation, None)
            or getattr(self.work.standing, operation, None)
        )
        if check is not None:
            check(executed)
        if self.work.limits is not None:
            self.work.limits.look(executed.at)
        if self.gates is not None:
            self.gates.look(executed.at)

    # Lent transactions: what is done with one counts from its commit.

    def _begin(self, executed: Executed) -> None:
        self._open[id(executed.result.transaction)] = (executed.at, [])

    def _commit(self, executed: Executed) -> None:
        began_at, done = self._open.pop(id(executed.call.arguments[0].transaction), (0, []))
        if done and executed.at - began_at > OPEN_LONG_US:
            self.counts["open transactions"] += 1
        for one in done:
            one.at = executed.at
            getattr(self, f"_{one.call.operation}")(one)
        self._end_transaction(executed, is_done=True)

    def _roll_back(self, executed: Executed) -> None:
        self._open.pop(id(executed.call.arguments[0].transaction), None)
        self._end_transaction(executed, is_done=False)

    def _end_transaction(self, executed: Executed, *, is_done: bool) -> None:
        if self.work.effects is not None:
            self.work.effects.commit(executed, is_done=is_done)

    # Orders

    def _create_schedule(self, executed: Executed) -> None:
        command, result = executed.call.arguments[0], executed.result
        known = command.id in self.ledger.schedules
        if known and executed.at != executed.asked_at:
            return  # asked again meanwhile, by itself: the commit has found it there
        if result.is_new and known:
            raise Violation("INV-17: asking again made a second schedule")
        if not result.is_new:
            if result.record.id not in self.ledger.schedules:
                raise Violation("INV-17: a schedule is called known that nobody made")
            self.counts["creations asked again"] += known
            return
        self.ledger.create(command)

    def _change_schedule(self, executed: Executed) -> None:
        command, result = executed.call.arguments[0], executed.result
        note = self.ledger.schedules[command.id]
        if isinstance(result, Stale):
            self.counts["stale orders"] += 1
            return
        change, old = command.change, note.template
        if (command.expected_version, command.expected_pending) != (note.version, note.pending):
            raise Violation(f"INV-14: {change.action} was applied to what had moved on")
        if change.before is not None and executed.at >= change.before:
            raise Violation(f"INV-14: {change.action} was applied when it was too late for it")
        known_at = executed.call.decided_at or executed.call.known_at
        self._check_order(executed, note)
        if not any(skip.reason in BY_ORDER for skip in change.settlement.skips):
            check_settlement(old, change.settlement, *_decided_between(executed))
        self._check_runs_due(change.settlement.runs, executed.at)
        note.change(command, known_at, self._come(note, old, change.settlement, executed))
        self.counts[change.action] += 1
        if (result.version, result.status, result.pending) != (
            note.version,
            note.status,
            note.pending,
        ):
            raise Violation(f"INV-14: {change.action} left the schedule otherwise than it said")

    def _check_order(self, executed: Executed, note: ScheduleNote) -> None:
        change = executed.call.arguments[0].change
        is_active = change.status is ScheduleStatus.ACTIVE
        if is_active != (change.pending is not None):
            raise Violation(
                f"INV-2: {change.action} leaves it {change.status} with no or one timer"
            )
        is_still = change.status in {ScheduleStatus.PAUSED, ScheduleStatus.DELETED}
        if is_still and change.settlement.runs:
            raise Violation(f"INV-12: {change.action} runs something while it stops")
        if change.pending is not None and change.pending.due_at < change.pending.scheduled_for:
            raise Violation("INV-1: jitter leads back in time")

    def _add_runs(self, executed: Executed) -> None:
        command: AddRuns = executed.call.arguments[0]
        for new, added in zip(command.runs, executed.result, strict=True):
            known = new.id in self.ledger.delayed
            if known and executed.at != executed.asked_at:
                continue  # as above
            if not added.is_new:
                if added.id not in self.ledger.delayed:
                    raise Violation("INV-17: a run is called known that nobody ordered")
                self.counts["runs asked again"] += known
                continue
            if known:
                raise Violation("INV-17: asking again made a second run")
            if new.key is not None and new.key in self.ledger.keys:
                if not new.replaces:
                    raise Violation("INV-17: two runs are pending under one key")
                self.ledger.close_delayed(self.ledger.keys[new.key], "replaced")
            self._note_run(executed, new, added.due_at)

    def _note_run(self, executed: Executed, new: NewRun, due_at: int) -> None:
        is_now = new.due_at is None and new.delay_us is None
        note = DelayedNote(new.id, new.key, executed.at if is_now else due_at)
        if is_now:
            # Within a transaction: by the time of the order, or of the commit.
            note.asked_at = executed.asked_at
        self.ledger.delayed[new.id] = note
        if is_now or due_at <= executed.asked_at:
            note.state = "fired"
        elif new.key is not None:
            self.ledger.keys[new.key] = new.id
        if new.origin is Origin.MANUAL:
            self.counts["triggers"] += 1
        if self.gates is not None and new.schedule_id is not None:
            self.gates.come_by_hand(new, self.ledger.schedules[new.schedule_id], executed.at)

    def _move_delayed(self, executed: Executed) -> None:
        record = executed.result
        note = self.ledger.delayed[record.id]
        if note.state != "pending":
            raise Violation(f"INV-6: a delayed run that was {note.state} was moved")
        note.due_at, note.generation = record.due_at, note.generation + 1
        if record.generation != note.generation:
            raise Violation("INV-4: a move did not raise the generation")
        self.counts["moves"] += 1

    def _cancel_delayed(self, executed: Executed) -> None:
        run_id = executed.result.id
        if self.ledger.delayed[run_id].state == "cancelled" or self.work.is_cancelled(run_id):
            return
        self.ledger.close_delayed(run_id, "cancelled")
        self.counts["cancellations"] += 1

    # Ownership

    def _join(self, executed: Executed) -> None:
        member, _ = executed.result
        if member in self.ledger.members:
            raise Violation("INV-4: a member's id was used again")
        command = executed.call.arguments[0]
        is_dispatcher = command.kind is MemberKind.DISPATCHER
        note = MemberNote(executed.at + command.ttl_us, is_dispatcher=is_dispatcher)
        self.ledger.members[member] = note
        if self.work.standing is not None:
            self.work.standing.joined(member, command)

    def _renew(self, executed: Executed) -> None:
        command, renewal = executed.call.arguments[0], executed.result
        is_alive = self.ledger.is_alive(command.member, executed.at)
        if renewal.is_alive and not is_alive:
            raise Violation("INV-4: a member that was dead is alive again")
        if is_alive and not renewal.is_alive:
            raise Violation("INV-21: a member that is alive was refused its renewal")
        if is_alive:
            self.ledger.members[command.member].expires_at = executed.at + command.ttl_us
        else:
            # Whoever was told so is dead for ever, wherever the store's clock may go from here.
            self.counts["renewals refused"] += 1
            if command.member in self.ledger.members:
                self.ledger.members[command.member].is_alive = False
        self.counts["skew holds"] += command.is_holding

    def _leave(self, executed: Executed) -> None:
        member = executed.call.arguments[0]
        if member in self.ledger.members:
            self.ledger.members[member].is_alive = False
        for note in self.ledger.leases.values():
            if note.owner == member:
                note.owner = None
        self.work.leave(executed)

    def _acquire_leases(self, executed: Executed) -> None:
        member = executed.call.arguments[0]
        for lease in executed.result:
            if not self.ledger.is_alive(member, executed.at):
                raise Violation("INV-5: a dead member acquired a lease")
            note = self.ledger.lease(lease.key)
            if note.owner != member and self.ledger.is_alive(note.owner, executed.at):
                raise Violation("INV-4: two living members own one lease")
            if lease.epoch <= note.epoch:
                raise Violation("INV-4: an epoch did not grow with its owner")
            if note.owner is not None and note.owner != member:
                self.counts["takeovers"] += 1
                self.ledger.members[note.owner].is_alive = False
            self.ledger.leases[lease.key] = LeaseNote(member, lease.epoch)

    def _release_leases(self, executed: Executed) -> None:
        fence = executed.call.arguments[0]
        for lease in fence.leases:
            note = self.ledger.lease(lease.key)
            if (note.owner, note.epoch) == (fence.member, lease.epoch):
                note.owner = None

    # Firing

    def _fire_timers(self, executed: Executed) -> None:
        command: FireTimers = executed.call.arguments[0]
        fired = executed.result
        items: list[Item] = [*command.schedules, *command.delayed, *command.retries]
        for item, result in zip(items, fired.results, strict=True):
            self.counts[f"result: {result}"] += 1
            self._check_result(executed, item, result)
            if result is not FireResult.FIRED:
                continue
            if isinstance(item, FireSchedule):
                self._fire_schedule(executed, item)
            elif isinstance(item, FireRetry):
                self.work.fire_retry(executed, item)
            else:
                self.ledger.close_delayed(item.timer.ref, "fired")  # type: ignore[arg-type]
                self.counts["delayed fires"] += 1

    def _fire_and_claim(self, executed: Executed) -> None:
        """Hold a hand-over against both fences: the dispatcher's for its fires, the worker's."""
        offer, order = executed.call.arguments
        handed: Handed = executed.result
        note_hand_over(self.counts, offer, handed)
        told = replace(executed.call, operation="fire_timers", arguments=(offer.command,))
        self._fire_handed(replace(executed, call=told), handed.fired)
        if handed.fired is not None and not self.work.may_claim(order.worker, executed.at):
            raise Violation("INV-5: something was handed over to a worker that may not claim")
        if handed.claimed is not None:
            asked = replace(executed.call, operation="claim_runs", arguments=(order,))
            self.work.claim_runs(replace(executed, call=asked, result=handed.claimed))

    def _fire_handed(self, executed: Executed, fired: Sequence[bool] | None) -> None:
        """What is due fires, and nothing else; of the rest is not told why it does not."""
        if not self._is_fence_good(executed):
            if fired is not None:
                raise Violation("INV-5: what a stale owner has offered was carried out")
            self.counts["hand-overs refused: stale fence"] += 1
            is_due = any(self._is_due(executed, one) for one in executed.call.arguments[0].delayed)
            self.counts["hand-overs refused: stale fence, and due"] += is_due
        if fired is None:
            return
        for item, is_fired in zip(executed.call.arguments[0].delayed, fired, strict=True):
            if is_fired:
                self._check_result(executed, item, FireResult.FIRED)
                self.ledger.close_delayed(item.timer.ref, "fired")
            elif self._expected(executed, item) is FireResult.FIRED:
                raise Violation("INV-2: a due timer was left out of a hand-over")

    def _is_fence_good(self, executed: Executed) -> bool:
        fence = executed.call.arguments[0].fence
        return all(self.ledger.holds(fence, lease.key, executed.at) for lease in fence.leases)

    def _is_due(self, executed: Executed, item: Item) -> bool:
        timer = item.timer
        is_pending = self._pending(item) == (timer.generation, timer.due_at)
        return is_pending and timer.due_at <= executed.at

    def _check_result(self, executed: Executed, item: Item, result: FireResult) -> None:
        """Compare a result with what the ledger says it must be."""
        expected = self._expected(executed, item)
        if result is expected:
            return
        if result is FireResult.BUSY and expected in STILL_PENDING and self._is_held(item):
            return
        invariant = {
            FireResult.FENCED: "INV-5: a stale owner",
            FireResult.GONE: "INV-3: a void timer",
            FireResult.EARLY: "INV-1: an early timer",
            FireResult.LATE: "INV-9: a late timer",
            FireResult.FIRED: "INV-2: a due timer",
        }[expected]
        raise Violation(f"{invariant} was answered with {result}")

    def _expected(self, executed: Executed, item: Item) -> FireResult:
        timer, now = item.timer, executed.at
        key = LeaseKey(timer.shard, Lane.LIVE)
        late_after = item.late_after if isinstance(item, FireSchedule) else None
        expected = FireResult.FIRED
        if not self.ledger.holds(executed.call.arguments[0].fence, key, now):
            expected = FireResult.FENCED
        elif self._pending(item) != (timer.generation, timer.due_at):
            expected = FireResult.GONE
        elif timer.due_at > now:
            expected = FireResult.EARLY
        elif late_after is not None and now > late_after:
            expected = FireResult.LATE
        return expected

    def _is_held(self, item: Item) -> bool:
        """Say whether an open transaction replaces a delayed run: of that nobody else knows yet."""
        if not isinstance(item, FireDelayed):
            return False
        key = self.ledger.delayed[item.timer.ref].key  # type: ignore[index]
        orders = [one.call.arguments[0] for _, done in self._open.values() for one in done]
        return key is not None and any(
            new.key == key and new.replaces
            for order in orders
            if isinstance(order, AddRuns)
            for new in order.runs
        )

    def _pending(self, item: Item) -> tuple[int, int] | None:
        if isinstance(item, FireSchedule):
            if item.timer.ref not in self.ledger.schedules:
                raise Violation("INV-17: a schedule has a timer that nobody was told of")
            note = self.ledger.schedules[item.timer.ref]  # type: ignore[index]
            return None if note.pending is None else (note.version, note.pending.due_at)
        if isinstance(item, FireRetry):
            return self.work.pending(item)
        delayed = self.ledger.delayed[item.timer.ref]  # type: ignore[index]
        if delayed.state != "pending":
            return None
        return delayed.generation, delayed.due_at

    def _fire_schedule(self, executed: Executed, item: FireSchedule) -> None:
        note = self.ledger.schedules[item.timer.ref]  # type: ignore[index]
        template, settlement = note.template, item.plan.settlement
        if note.status is not ScheduleStatus.ACTIVE:
            raise Violation(f"INV-12: {note.name} fired while it was {note.status}")
        assert note.pending is not None
        scheduled_for, due_at = note.pending.scheduled_for, note.pending.due_at
        self._check_runs_due(settlement.runs, executed.at)
        if item.late_after is None:
            self.counts["late plans"] += 1
            if not template.is_missed(scheduled_for, max(executed.at, executed.call.known_at)):
                raise Violation(f"INV-9: {note.name} was planned as late within its grace")
            check_settlement(template, settlement, *_decided_between(executed))
        else:
            is_plain = [run.scheduled_for for run in settlement.runs] == [scheduled_for]
            if not is_plain or settlement.skips or settlement.owed:
                raise Violation(f"INV-9: {note.name} was on time and settled something else")
            if item.late_after != due_at + template.misfire.grace_us:
                raise Violation(f"INV-9: {note.name} counts as on time until the wrong moment")
        verdicts = self._come(note, template, settlement, executed)
        self._check_next(note, item, note.settle(template, settlement, verdicts))
        note.pending = item.plan.pending
        if note.pending is None:
            note.status = ScheduleStatus.ENDED
            note.version += 1
        self.counts["fires"] += 1

    def _check_next(self, note: ScheduleNote, item: FireSchedule, settled: set[int]) -> None:
        """The next instant comes from the rule, right behind what was settled (INV-15, INV-16)."""
        template, following = note.template, item.plan.pending
        last = max(settled, default=item.timer.scheduled_for)
        expected = set(occurrences(template.definition, item.timer.scheduled_for, last))
        if settled != expected:
            raise Violation(f"INV-2: {note.name} settled {settled}, should be {expected}")
        next_for = template.definition.timetable.first_from(last + 1)
        if (following and following.scheduled_for) != next_for:
            raise Violation(f"INV-16: {note.name} goes on with {following}, not {next_for}")
        if following and following.due_at != template.due(following.scheduled_for):
            raise Violation(f"S8: {note.name} is due at another moment than its jitter says")

    def _drain_owed(self, executed: Executed) -> None:
        command: DrainOwed = executed.call.arguments[0]
        result: FireResult = executed.result
        note = self.ledger.schedules[command.owed.schedule_id]
        key = LeaseKey(command.shard, Lane.CATCH_UP)
        self.counts[f"drain: {result}"] += 1
        holds = self.ledger.holds(command.fence, key, executed.at)
        template = note.templates[command.owed.definition_number]
        is_free = self.gates is None or self.gates.is_free(note, template)
        if result is not FireResult.FIRED:
            if result is FireResult.FENCED and holds:
                raise Violation("INV-21: a living owner was refused what it drains")
            if result is FireResult.BUSY and is_free:
                raise Violation(f"INV-9: {note.name} was not drained, with nobody in the way")
            return
        if not holds:
            raise Violation("INV-5: a stale owner drained what was owed")
        if note.status not in DRAINABLE:
            raise Violation(f"INV-12: {note.name} was drained while it was {note.status}")
        self._check_runs_due(command.settlement.runs, executed.at)
        if command.settlement.runs and not is_free:
            raise Violation(f"INV-8: {note.name} was drained beside a run that is open")
        check_settlement(template, command.settlement, *_decided_between(executed))
        owed = note.forget_owed(command.owed)
        verdicts = self._come(note, template, command.settlement, executed)
        if not {"run", "backfilled"}.issuperset(verdicts.values()):
            raise Violation(f"INV-9: {note.name} was drained, and passed over what it owed")
        if owed != note.settle(template, command.settlement, verdicts):
            raise Violation(f"INV-2: {note.name} settled something else than it owed")
        self.counts["catch-ups"] += len(command.settlement.runs)

    def _come(
        self, note: ScheduleNote, template: Template, settlement: Settlement, executed: Executed
    ) -> Mapping[int, str]:
        """Let runs come to their gates; return what became of each."""
        if self.gates is None:
            return {}
        return self.gates.settle(note, template, settlement.runs, executed.at)

    def _check_runs_due(self, runs: Any, now: int) -> None:
        for run in runs:
            if run.not_before > now or run.not_before < run.scheduled_for:
                raise Violation(f"INV-1: a run for {run.not_before} was made at {now}")


def _decided_between(executed: Executed) -> tuple[int, int]:
    """Return the latest and the earliest moment at which a decision can have been taken.

    The store's clock may have been set back since, so that it is not the later one of the two.
    """
    told_at = executed.call.decided_at or executed.call.known_at
    return max(told_at, executed.at), min(told_at, executed.at)
