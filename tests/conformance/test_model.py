"""Memory is the model: SQLite gives the same answers to any sequence of orders.

Both stores are driven with the same random commands on one clock. After every step each answer and
all that can be read must be equal, and neither store may find anything wrong with itself.
"""

from __future__ import annotations

import tempfile
from contextlib import suppress
from dataclasses import replace
from operator import methodcaller
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from duly.domain.enums import Lane, Missed, Overlap, RunState
from duly.domain.fire_planning import plan_late, settle
from duly.domain.ids import ScheduleId
from duly.domain.policies import Misfire
from duly.domain.schedule_changes import (
    ScheduleChange,
    decide_delete,
    decide_edit,
    decide_pause,
    decide_restore,
    decide_resume,
    decide_skip_next,
)
from duly.engine.manual_clock import ManualClock
from duly.errors import DulyError
from duly.store.memory import MemoryStore
from duly.store.ports.dispatch import (
    DrainOwed,
    Fence,
    FireDelayed,
    FireRetry,
    FireSchedule,
    FireTimers,
    LeaseKey,
    LoadTimers,
    MemberKind,
    Renew,
)
from duly.store.ports.execution import Claimed
from duly.store.ports.maintenance import Prune, Retention
from duly.store.sqlite import SqliteStore
from duly.timetable.interval import every
from duly.timetable.once import at
from duly_conformance.kit import (
    DAY_US,
    HOUR_US,
    MINUTE_US,
    SECOND_US,
    Snapshot,
    add_runs,
    cancel,
    change_of,
    definition,
    dispatcher,
    move,
    new_run,
    new_schedule,
    on_time,
    run_id,
    snapshot,
    staying,
    template_of,
)
from tests.conformance.model_effects import EffectRules
from tests.conformance.model_limits import LimitRules
from tests.conformance.model_work import WorkRules

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.domain.schedules import ScheduleRecord
    from duly.store.ports import Store
    from duly.store.ports.dispatch import Timer
    from duly.store.ports.execution import ClaimedRun

Fire: TypeAlias = FireSchedule | FireDelayed | FireRetry
SHARDS = 2
TENANTS = ("default", "theirs")
places = st.integers(0, 999)
"""Which of what there is: taken modulo its number."""
names = st.sampled_from(["a", "b", "c"])
tenants = st.sampled_from(TENANTS)
steps_us = st.sampled_from(
    [0, 1, SECOND_US, 59 * SECOND_US, MINUTE_US, 20 * MINUTE_US, HOUR_US, 5 * HOUR_US, 30 * HOUR_US]
)
keys = st.sampled_from([None, "k", "l"])
texts = st.sampled_from(["p", "q", "r", "s"])
distances = st.sampled_from([-1, 0, 1, SECOND_US, 2 * MINUTE_US, HOUR_US])


@st.composite
def definitions(draw: st.DrawFn) -> Any:
    policy = Misfire(
        draw(st.sampled_from(["skip", "latest", "all"])),
        at_most=draw(st.sampled_from([None, 2])),
        not_older=draw(st.sampled_from([None, "4h"])),
    )
    overlap = draw(st.sampled_from([Overlap.ALLOW, *Overlap]))
    timetables = [every("1h"), every("25m"), at("2027-03-08T10:00+00:00"), every("1m")]
    return definition(
        task=draw(st.sampled_from(["report", "other"])),
        timetable=draw(st.sampled_from(timetables)),
        misfire=policy,
        jitter_us=draw(st.sampled_from([0, 0, 30 * MINUTE_US])),
        overlap=overlap,
        serialize_by="account:7" if overlap is Overlap.SERIALIZE else None,
    )


def whose(claimed: ClaimedRun) -> str:
    """Return the tenant of a claimed run."""
    return claimed.record.tenant


def outcome(call: Callable[[Store], Any], store: Store) -> tuple[str, Any]:
    """Return what a call answers, or what it raises."""
    try:
        return "answer", call(store)
    except DulyError as error:
        return type(error).__name__, str(error).replace(store.name, "the store")


class Interrupted(Exception):  # noqa: N818 - what a caller's own code may raise
    """Whatever the caller's code raises inside a lent transaction."""


class SameAnswers(WorkRules, EffectRules, LimitRules, RuleBasedStateMachine):
    """Two stores, one clock, the same orders."""

    def open_other(self) -> tuple[ManualClock, Store]:
        """Return the store that is compared with memory, and the clock of both."""
        self.folder = tempfile.TemporaryDirectory()
        clock = ManualClock()
        return clock, SqliteStore(Path(self.folder.name) / "duly.db", clock, shards=SHARDS)

    def remove_other(self) -> None:
        """Remove what the store leaves behind."""
        self.folder.cleanup()

    @initialize()
    def begin(self) -> None:
        self.clock, self.other = self.open_other()
        self.memory = MemoryStore(self.clock, shards=SHARDS)
        self.stores: tuple[Store, ...] = (self.memory, self.other)
        self.cursors = [store.start_of_arrivals() for store in self.stores]
        self.seen: list[ScheduleRecord] = []
        self.fences: list[Fence] = []
        self.fires: list[Fire] = []
        for policy in ("all", "latest", "skip"):
            order = new_schedule(self.clock.now_us(), policy, misfire=Misfire(policy))
            self.seen.append(self.both(methodcaller("create_schedule", order)).record)
        self.both(
            methodcaller("add_runs", add_runs(new_run(self.clock.now_us() + HOUR_US, "first")))
        )
        self.begin_work()

    def teardown(self) -> None:
        if hasattr(self, "other"):
            self.other.close()
            self.remove_other()

    def both(self, call: Callable[[Store], Any]) -> Any:
        """Ask both stores, require one answer, and return it; None when they refuse."""
        expected, actual = (outcome(call, store) for store in self.stores)

        assert self.comparable(expected) == self.comparable(actual)
        return expected[1] if expected[0] == "answer" else None

    def comparable(self, answer: Any) -> Any:
        """Return what must be equal of an answer: of a claim not the order between tenants."""
        kind, value = answer
        if isinstance(value, Claimed):
            return kind, replace(value, runs=tuple(sorted(value.runs, key=whose)))
        return answer

    def before_pruning(self) -> None:
        """Do what must be done before announcements may go."""

    # Time

    @rule(step=steps_us)
    def time_passes(self, step: int) -> None:
        self.clock.advance(step)

    @rule(step=st.sampled_from([1, SECOND_US, HOUR_US]))
    def the_clock_is_set_back(self, step: int) -> None:
        self.clock.set(self.clock.now_us() - step)

    # Orders

    @rule(name=names, tenant=tenants, template=definitions(), owner=st.sampled_from([None, "bob"]))
    def create(self, name: str, tenant: str, template: Any, owner: str | None) -> None:
        parts = {"definition": template, "tenant": tenant, "owner": owner}
        try:
            order = new_schedule(self.clock.now_us(), name, **parts)
        except DulyError:
            return
        made = self.both(lambda store: store.create_schedule(order))
        if made is not None:
            self.seen.append(made.record)

    @rule(
        place=places,
        verb=st.sampled_from(["pause", "resume", "delete", "restore", "skip", "edit", "rename"]),
        template=definitions(),
        choice=st.sampled_from(Missed),
        is_fresh=st.booleans(),
        step=st.sampled_from([0, 0, HOUR_US]),
    )
    def change(
        self, place: int, verb: str, template: Any, choice: Missed, is_fresh: bool, step: int
    ) -> None:
        """Decide by what was seen, now or long ago, and apply it now or a while later."""
        record = self.seen[place % len(self.seen)]
        if is_fresh:
            found = self.both(lambda store: store.get_schedule(record.id))
            if found is None:
                return
            record = found.record
        try:
            change = self._decide(record, verb, (template, choice, f"n{place % 3}"))
        except DulyError:
            return
        if self.memory.get_schedule(record.id) is None:
            return
        self.clock.advance(step)
        changed = self.both(lambda store: store.change_schedule(change_of(record, change)))
        if changed is not None and not hasattr(changed, "now"):
            self.seen.append(changed)

    def _decide(
        self, record: ScheduleRecord, verb: str, parts: tuple[Any, Missed, str]
    ) -> ScheduleChange:
        template, choice, name = parts
        now = self.clock.now_us()
        until = now + HOUR_US if choice is Missed.SKIP else None
        decisions: dict[str, Callable[[], ScheduleChange]] = {
            "pause": lambda: decide_pause(record, reason="rest", until=until, missed=choice),
            "resume": lambda: decide_resume(record, now, choice, None),
            "delete": lambda: decide_delete(record, "over"),
            "restore": lambda: decide_restore(record, now, None),
            "skip": lambda: decide_skip_next(record, None),
            "edit": lambda: decide_edit(record, template, now, None),
            "rename": lambda: staying(record, name=name, action="schedule.renamed"),
        }
        return decisions[verb]()

    @rule(
        text=texts,
        key=keys,
        tenant=tenants,
        due=st.none() | distances,
        flags=st.tuples(st.booleans(), st.booleans(), st.booleans()),
    )
    def add(self, text: str, key: str | None, tenant: str, due: int | None, flags: Any) -> None:
        is_late_ok, replaces, is_pair = flags
        due_at = None if due is None else self.clock.now_us() + due
        run = new_run(due_at, text, key=key, tenant=tenant, is_late_ok=is_late_ok)
        run = replace(run, id=run_id(tenant + text), replaces=replaces, fingerprint=f"{text}{due}")
        runs = [run, replace(run, id=run_id(f"{tenant}{text}2"), key=None)] if is_pair else [run]
        self.both(lambda store: store.add_runs(add_runs(*runs)))

    @rule(
        place=places, key=keys, tenant=tenants, due=st.none() | distances, is_late_ok=st.booleans()
    )
    def move_or_cancel(
        self, place: int, key: str | None, tenant: str, due: int | None, is_late_ok: bool
    ) -> None:
        known = sorted({*self.memory.tables.delayed, *self.memory.tables.runs, run_id("nobody")})
        target = key or known[place % len(known)]
        if due is None:
            self.both(methodcaller("cancel_delayed", cancel(target, tenant=tenant)))
            return
        order = move(target, self.clock.now_us() + due)
        order = replace(order, tenant=tenant, is_late_ok=is_late_ok)
        self.both(methodcaller("move_delayed", order))

    @rule(name=names, text=texts, is_committed=st.booleans())
    def transact(self, name: str, text: str, is_committed: bool) -> None:
        order = new_schedule(self.clock.now_us(), name)
        run = new_run(self.clock.now_us() + MINUTE_US, f"within {text}")

        def work(store: Store) -> list[Any]:
            answers: list[Any] = []
            with suppress(Interrupted), store.transaction(SECOND_US) as lent:
                answers.append(store.joined(lent).add_runs(add_runs(run)))
                answers.append(store.joined(lent).create_schedule(order))
                if not is_committed:
                    raise Interrupted
            return answers

        self.both(work)

    # Ownership

    @rule(
        place=places,
        verb=st.sampled_from(["join", "renew", "leave", "acquire", "release"]),
        ttl_us=st.sampled_from([SECOND_US, 9 * HOUR_US, 99 * DAY_US]),
        lanes=st.sets(st.sampled_from(Lane), min_size=1),
    )
    def belong(self, place: int, verb: str, ttl_us: int, lanes: set[Lane]) -> None:
        if verb == "join" or not self.fences:
            member, _ = self.both(methodcaller("join", dispatcher(ttl_us=ttl_us)))
            self.fences.append(Fence(member, ()))
            return
        place %= len(self.fences)
        fence = self.fences[place]
        if verb == "renew":
            order = Renew(
                member=fence.member, ttl_us=ttl_us, is_holding=len(lanes) > 1, skew_us=place
            )
            self.both(methodcaller("renew", order))
        elif verb == "leave":
            self.both(methodcaller("leave", fence.member))
        elif verb == "release":
            self.both(methodcaller("release_leases", fence))
        else:
            wanted = [LeaseKey(shard, lane) for shard in range(SHARDS) for lane in sorted(lanes)]
            taken = self.both(methodcaller("acquire_leases", fence.member, wanted))
            kept = {lease.key: lease for lease in (*fence.leases, *taken)}
            self.fences[place] = Fence(fence.member, tuple(kept.values()))

    def owner(self, place: int) -> Fence:
        """Return somebody's fence: most often one that owns everything, sometimes a stale one."""
        if self.fences and place % 4 == 0:
            return self.fences[place % len(self.fences)]
        for row in self.memory.status().members:
            if row.kind is MemberKind.DISPATCHER:
                self.both(methodcaller("leave", row.id))
        member, _ = self.both(lambda store: store.join(dispatcher(ttl_us=30 * SECOND_US)))
        every_key = [LeaseKey(shard, lane) for shard in range(SHARDS) for lane in Lane]
        taken = self.both(lambda store: store.acquire_leases(member, every_key))
        fence = Fence(member, tuple(taken))
        self.fences.append(fence)
        return fence

    # Dispatch

    @rule(place=places, limit=st.integers(1, 4), step=steps_us)
    def load_and_fire(self, place: int, limit: int, step: int) -> None:
        self.clock.advance(step)
        command = LoadTimers(
            shards=tuple(range(SHARDS)), after=None, until=self.clock.now_us() + 1, limit=limit
        )
        loaded = self.both(lambda store: store.load_timers(command))
        fires = [self._fire(timer) for timer in loaded.timers]
        self.fires += fires
        self._fire_batch(self.owner(place), fires)

    @precondition(lambda self: self.fires)
    @rule(place=places)
    def fire_again(self, place: int) -> None:
        """Fire what was fired or loaded before, once it is due: a stale wheel."""
        fire = self.fires[-1 - place % min(6, len(self.fires))]
        self.clock.set(max(self.clock.now_us(), fire.timer.due_at))
        self._fire_batch(self.owner(place), [fire])

    def _fire(self, timer: Timer) -> Fire:
        if timer.kind == "delayed":
            return FireDelayed(timer)
        if timer.kind == "retry":
            return FireRetry(timer)
        found = self.memory.get_schedule(ScheduleId(timer.ref))
        assert found is not None
        record, now = found.record, self.clock.now_us()
        assert record.pending is not None
        if now - record.pending.due_at <= record.definition.misfire.grace_us:
            return on_time(record)
        plan = plan_late(template_of(record), record.pending, now)
        return on_time(record, plan=plan, late_after=None)

    def _fire_batch(self, fence: Fence, fires: list[Fire]) -> None:
        command = FireTimers(
            fence=fence,
            schedules=tuple(one for one in fires if isinstance(one, FireSchedule)),
            delayed=tuple(one for one in fires if isinstance(one, FireDelayed)),
            retries=tuple(one for one in fires if isinstance(one, FireRetry)),
        )
        self.both(lambda store: store.fire_timers(command))

    @rule(place=places, runs_max=st.integers(1, 3), step=steps_us)
    def drain(self, place: int, runs_max: int, step: int) -> None:
        """Let an outage end, and catch up."""
        self.load_and_fire(place, 9, step)
        owed = self.both(lambda store: store.load_owed(range(SHARDS), 3))
        if not owed:
            return
        row = owed[place % len(owed)]
        key = (row.owed.schedule_id, row.owed.definition_number)
        template = self.both(lambda store: store.read_definitions([key]))[key]
        found = self.memory.get_schedule(row.owed.schedule_id)
        assert found is not None
        planned = replace(
            template_of(found.record),
            definition=template,
            definition_number=row.owed.definition_number,
        )
        first, last = row.owed.first_for, row.owed.last_for
        settlement = settle(planned, first, last, self.clock.now_us(), runs_max)
        fence = self.owner(place)
        command = DrainOwed(fence=fence, shard=row.shard, owed=row.owed, settlement=settlement)
        self.both(lambda store: store.drain_owed(command))

    @rule()
    def open_gates(self) -> None:
        """Let go whoever waits at a gate that came free and that nobody opened."""
        self.both(methodcaller("open_gates", 100))

    @rule(place=places, limit=st.integers(1, 3), kept=st.sampled_from([0, HOUR_US]), step=steps_us)
    def prune(self, place: int, limit: int, kept: int, step: int) -> None:
        self.clock.advance(step)
        retention = Retention(
            outcomes_us={
                RunState.CANCELLED: kept,
                RunState.REPLACED: 2 * kept,
                RunState.SUCCEEDED: kept,
            },
            runs_per_schedule=1,
            skips_us=kept,
            deleted_schedules_us=kept,
        )
        fence = self.owner(place)
        self.before_pruning()
        command = Prune(fence=fence, retention=retention, limit=limit)
        self.both(lambda store: store.prune(command))

    # Looking

    @rule(limit=st.integers(1, 3), place=places)
    def look_around(self, limit: int, place: int) -> None:
        self._hear()
        until = self.clock.now_us() + HOUR_US
        shards = tuple(range(SHARDS))
        command = LoadTimers(shards=shards, after=None, until=until, limit=limit)
        loaded = self.both(methodcaller("load_timers", command))
        self.fires += [self._fire(timer) for timer in loaded.timers]
        self.both(methodcaller("due_resumes", limit))
        for tenant in TENANTS:
            for name in ("a", "b", "c", "n0"):
                self.both(methodcaller("find_schedule", tenant, name))
            self.both(methodcaller("find_delayed", tenant, "k"))
            self.both(methodcaller("list_delayed", tenant, limit))
        record = self.seen[place % len(self.seen)]
        instants = [record.created_at + quarter * HOUR_US // 4 for quarter in range(40)]
        self.both(methodcaller("judge", record.id, instants))
        self.both(methodcaller("note_tzdata", f"2026{'abc'[limit - 1]}"))
        self.both(methodcaller("register_tasks", [f"task {limit}"]))
        self.both(methodcaller("list_tasks"))

    def _hear(self) -> None:
        told = [
            store.read_arrivals(cursor, range(SHARDS))
            for store, cursor in zip(self.stores, self.cursors, strict=True)
        ]
        self.cursors = [one.cursor for one in told]

        self.compare_timers(set(told[0].timers), set(told[1].timers))

    def compare_timers(self, model: set[Timer], actual: set[Timer]) -> None:
        """Require that the same was announced."""
        assert model == actual

    def read(self, store: Store) -> Snapshot:
        """Return all that can be read."""
        return snapshot(store, TENANTS)

    @invariant()
    def all_that_can_be_read_is_equal(self) -> None:
        if not hasattr(self, "stores"):
            return
        model, actual = (self.read(store) for store in self.stores)
        for part in model.__slots__:
            assert getattr(model, part) == getattr(actual, part), part

    @invariant()
    def neither_finds_anything_wrong(self) -> None:
        for store in getattr(self, "stores", ()):
            # That the clock was set back is true, and a store may say so.
            assert [] == [found for found in store.check() if found.what != "clock"]
            assert 0 == store.status().early_fires


TestSameAnswers = pytest.mark.timeout(300)(SameAnswers.TestCase)
TestSameAnswers.settings = settings(
    max_examples=15,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
