"""Mutants made by hand, those known to change nothing, and tests where imports do not lead to them."""

from __future__ import annotations

from tests.mutation.patching import Mutant

CONTRACT = ("tests/conformance/test_memory.py", "tests/conformance/test_sqlite.py")
_COMMANDS = "cli/test_other_commands.py"
_NEAREST = {
    "duly.app.loading": "engine/executors/test_loading.py cli/test_set_up.py cli/test_bad_orders.py",
    "duly.cli.schedule_orders": "cli/test_frozen_orders.py cli/test_schedule.py cli/test_policies.py cli/test_dry_runs.py cli/test_bad_orders.py",
    "duly.cli.context": "cli/test_frozen_orders.py cli/test_first_steps.py remote/test_addresses.py remote/test_commands.py cli/test_bad_orders.py cli/test_conventions.py",
    "duly.cli.timetables": f"{_COMMANDS}::test_a_zone_is_found_by_a_city_that_has_no_zone_of_its_own"
    f" {_COMMANDS}::test_a_search_without_a_match_says_what_else_to_try"
    f" {_COMMANDS}::test_zones_that_differ_are_told_with_their_instant_and_both_offsets",
    "duly.client.tasks": "client/test_tasks.py client/test_task_options.py client/test_enqueue.py client/test_policies.py",
    "duly.engine.executors.executor": "engine/executors/test_threads.py engine/executors/test_inline.py engine/executors/test_event_loop.py engine/executors/test_processes.py",
    "duly.engine.executors.process_child": "engine/executors/test_processes.py",
    "duly.engine.worker.reporter": "engine/test_live_run.py engine/test_worker.py engine/test_worker_outages.py",
}
NEAREST = {
    module: tuple(f"tests/{name}" for name in names.split()) for module, names in _NEAREST.items()
}
EQUIVALENT: dict[tuple[str, str, str], str] = {}
"""LimitReason a mutant changes no behaviour, by its module, symbol and change."""
_MADE: dict[str, tuple[tuple[str, ...], list[tuple[str, str, str]]]] = {
    "duly.domain.quotas": (("tests/domain/test_quotas.py",), [
        ("does_count", "record.resume_at is not None", "record.resume_at is None"),
        ("read_most", "0 <= value", "0 < value"),
        ("bounds_on_schedule", "if old is None or not does_count(old):", "if old is None:"),
        ("free_again_us", "sorted(made_at)[-bound.most]", "sorted(made_at)[0]"),
        ("_end_user", "record.declared_by is None", "record.declared_by is not None"),
    ]),
    "duly.domain.policies": (("tests/domain/test_misfire.py", "tests/domain/test_concluding.py"), [
        ("read_misfire", "None if part == NO_BOUND else part", "part"),
        ("Misfire.__init__", "1 <= at_most", "0 <= at_most"),
        ("_not_negative", "length < 0", "length < -1_000_000"),
        ("Misfire.to_json", "duration_text(self.grace_us)", "duration_text(0)"),
        ("Misfire.__init__", "not isinstance(at_most, bool)", "True"),
        ("_DOUBLINGS_MAX", "40", "4"),
        ("Retry.delay_us", "number - 1", "number"),
        ("Retry.delay_us", "run + number.to_bytes(4)", "number.to_bytes(4)"),
        ("Retry.is_worth", "all(", "any("),
        ("Retry.spacing_us", "_MINUTE_US // self.per_minute", "_MINUTE_US"),
    ]),
    "duly.domain.admission": (("tests/domain/test_breakers.py",), [
        ("reset_of", ", epoch=breaker.epoch", ""),
        ("count", ">= WINDOW_US", "> WINDOW_US"),
        ("count", "counted.failed >= FAILURES_MIN", "counted.failed > FAILURES_MIN"),
        ("ask", "now + LOOK_US if is_probing else breaker.retry_at", "breaker.retry_at"),
        ("probed", "breaker.pause_us * 2", "breaker.pause_us"),
    ]),
    "duly.engine.dispatcher.timer_wheel": (("tests/engine/test_wheel.py",), [
        ("_is_same", " and one.generation == other.generation", ""),
        ("Wheel._take_slot", "entry.fire_at > now", "entry.fire_at >= now"),
        ("Wheel.take", "max(limit // 2, 1)", "limit"),
        ("Wheel.drop_shards", "not in shards", "in shards"),
        ("Wheel.next_at", "return min(found)", "return max(found)"),
    ]),
    "duly.engine.dispatcher.reaper": (("tests/engine/test_worker_outages.py",), [
        ("Reaper.wait", "max(self.next_at, self._around.clock.monotonic_us() + wait_us)", "self._around.clock.monotonic_us() + wait_us"),
        ("Reaper.wait", "min(lost_us, patience_us)", "patience_us"),
        ("Reaper.reap", "losses and self._settle(losses) and len(losses) == settings.reap_page", "losses and self._settle(losses) and False"),
        ("Reaper._settle", "len(losses) == 1", "True"),
        ("Reaper._settle", "self._tell(loss)", "pass"),
    ]),
    "duly.store.gates": ((*CONTRACT, "tests/conformance/test_postgres.py"), [
        ("Gates.is_free", " and not self.waiting(comer.gate)", ""),
        ("Gates.arrive", "self.gone.discard(holder)", "pass"),
        ("Gates.open", "before is not None and self.has_gone(before)", "False"),
        ("Gates._skip_or_go", "not self.is_open(last)", "self.is_open(last)"),
        ("Gates._went_elsewhere", "if not self.holds(last):", "if False:"),
    ]),
    "duly.store.sqlite.batches": (("tests/store/sqlite/test_batches.py",), [
        ("_Sized.change", "changed += connection.changes()", "changed = connection.changes()"),
        ("_names", "columns > 1", "columns > 2"),
        ("chunks", "rows[first : first + most]", "rows[first : first + most - 1]"),
        ("_values", "range(after + 1,", "range(1,"),
        ("chunks", "_SIZES[fit] - count", "_SIZES[fit] - count - 1"),
    ]),
    "duly.store.postgres.broom": (("tests/store/postgres/test_broom.py",), [
        ("Broom.note", "self._taken = 0", "pass"),
        ("Broom.note", ">= LOOK_AFTER", "> LOOK_AFTER"),
        ("SHARE", "20", "19"),
        ("Broom._full", "(DEAD_MAX,)", "(DEAD_MAX // 10,)"),
        ("Broom._sweep", "self._errand.is_closed or ", ""),
    ]),
    "duly.client.paging": (("tests/client/test_paging.py",), [
        ("read_cursor", "len(position) != length", "len(position) < length"),
        ("read_cursor", " or len(cursor) > _LENGTH_MAX", ""),
        ("_digest", "sorted(map(str, value))", "list(map(str, value))"),
        ("_digest", "one.name not in _POSITIONS", "True"),
        ("_digest", "type(command).__name__", "''"),
    ]),
    "duly.api.repeating": (("tests/api/test_once_only.py",), [
        ("carry_out", "except StoreError:\n", "except AssertionError:\n"),
        ("request_hash", 'len(part).to_bytes(8, "big") + part', "part"),
        ("carry_out", "announced.is_taken_over and order.is_once_only", "False"),
        ("carry_out", "store.forget_answer(key, announced.fence)", "pass"),
        ("read_key", "len(text) > IDEMPOTENCY_KEY_LENGTH_MAX", "len(text) >= IDEMPOTENCY_KEY_LENGTH_MAX"),
    ]),
    "duly.web.charts": (("tests/web/test_drawings.py",), [
        ("run_calendar", "today.weekday() + 7", "7"),
        ("run_calendar", "len(runs) >= RUNS_LOOKED_AT", "len(runs) > RUNS_LOOKED_AT"),
        ("TONE_ORDER", '"bad", "doubt"', '"doubt", "bad"'),
        ("_shown", "in BACKFILLS", "not in BACKFILLS"),
        ("_day", "timedelta(seconds=segment.offset)", "timedelta(0)"),
    ]),
}  # fmt: skip
BY_HAND = [
    Mutant(module, symbol, old, new, tests)
    for module, (tests, changes) in _MADE.items()
    for symbol, old, new in changes
]
