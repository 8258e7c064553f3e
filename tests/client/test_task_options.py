"""What a task says about its runs: how it is run, how often, how long and how safely."""

from __future__ import annotations

from datetime import timedelta

import pytest

import duly
from duly import Conflict, Retry, UsageError
from duly.domain.enums import Effects, TaskKind
from duly.domain.runs import TaskPolicy
from duly.domain.tasks import fill_argv

SECOND_US = 1_000_000
HOOK = duly.secret("env:HOOK_SECRET")


@pytest.fixture
def app():
    return duly.App("memory:")


def test_a_task_that_says_nothing_has_the_defaults(app):
    @app.task
    def plain() -> None: ...

    @app.task
    async def awaited() -> None: ...

    assert TaskPolicy() == plain.policy
    assert (5, 3600 * SECOND_US) == (plain.policy.retry.attempts, plain.policy.timeout_us)
    assert (TaskKind.THREAD, TaskKind.ASYNC) == (plain.kind, awaited.kind)


def test_a_task_may_say_it_all(app):
    @app.task(
        name="charge",
        queue="money",
        priority=1,
        retry=Retry(3, base="1s"),
        timeout="60s",
        run_timeout=timedelta(hours=1),
        stall="10s",
        kind="process",
        memory="512MB",
        effects="pure",
    )
    def pay() -> None: ...

    wanted = TaskPolicy(
        retry=Retry(3, base="1s"),
        timeout_us=60 * SECOND_US,
        run_timeout_us=3600 * SECOND_US,
        stall_us=10 * SECOND_US,
        effects=Effects.PURE,
    )
    runnable = app.catalogue().find("charge")

    assert ("charge", "money", 1) == (pay.name, pay.queue, pay.priority)
    assert (wanted, TaskKind.PROCESS) == (pay.policy, pay.kind)
    assert runnable is not None
    assert 512 * 1024 * 1024 == runnable.plan.memory_bytes


def test_a_number_of_attempts_is_a_budget(app):
    @app.task(retry=7)
    def often() -> None: ...

    assert 7 == often.policy.retry.attempts


def test_no_timeout_is_a_choice_of_its_own(app):
    @app.task(timeout=None)
    def endless() -> None: ...

    assert endless.policy.timeout_us is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"retry": 0}, "attempts: 0 is not such a number"),
        ({"retry": "often"}, "retry: 'often' is not a budget of attempts"),
        ({"retry": True}, "retry: True is not a budget"),
        ({"timeout": "soon"}, "timeout: 'soon' is not a duration"),
        ({"timeout": 60}, "timeout: 60 is not a duration"),
        ({"timeout": "0s"}, "timeout: '0s' leaves no time"),
        ({"timeout": "-1s"}, "timeout: '-1s' is negative"),
        ({"run_timeout": []}, "run_timeout: \\[\\] is not a duration"),
        ({"stall": "0s"}, "stall: '0s' leaves no time"),
        ({"kind": "fast"}, "kind: 'fast' is not a kind of function"),
        ({"kind": "command"}, "kind: 'command' is not a kind of function"),
        ({"kind": 5}, "kind: 5 is not a kind of function"),
        ({"kind": "async"}, "kind: 'async' needs a coroutine function"),
        ({"memory": "512MB"}, "memory: '512MB' can't be limited here"),
        ({"kind": "process", "memory": "lots"}, "memory: 'lots' is not an amount of memory"),
        ({"kind": "process", "memory": 512}, "memory: 512 is not an amount of memory"),
        ({"kind": "process", "memory": "1KB"}, "memory: '1KB' is not an amount of memory"),
        (
            {"effects": "transactional", "kind": "process"},
            "effects: 'transactional' is not possible for a process",
        ),
        ({"effects": "none"}, "effects: 'none' is not a class of effects"),
        ({"effects": ["pure"]}, "effects: .* is not a class of effects"),
        ({"queue": ""}, "queue: '' can't be the name of a queue"),
        ({"priority": 10}, "priority: 10 is not a priority"),
        ({"colour": "red"}, "colour: 'red' is not an option of a task; use name, queue"),
    ],
)
def test_an_option_that_can_not_be_is_refused_in_one_sentence(app, options, message):
    with pytest.raises(UsageError, match=f"^{message}"):
        app.task(**options)(lambda: None)

    assert [] == app.tasks.names()


def test_a_coroutine_function_does_not_run_in_a_thread(app):
    async def later() -> None: ...

    with pytest.raises(UsageError, match="is not for a coroutine function"):
        app.task(kind="thread")(later)


def test_what_stands_in_braces_are_a_commands_parameters(app):
    dump = app.command(
        "dump", ["pg_dump", "--file", "{file}", "{database}"], retry=2, timeout="10m"
    )

    assert {"database": "shop", "file": "a b.sql"} == dump.bind("a b.sql", "shop").arguments
    assert (TaskKind.COMMAND, 2) == (dump.kind, dump.policy.retry.attempts)
    with pytest.raises(UsageError, match="dump: 'database' is missing; it takes file, database"):
        dump.bind(file="x")
    with pytest.raises(UsageError, match="give str"):
        dump.bind(file="x", database=5)


def test_an_argument_stays_one_item_of_the_argv(app):
    dump = app.command(
        "dump",
        ["dump", "-n", "{number}", "{name}", "{{plain}}"],
        parameters={
            "number": int,
            "name": str,
        },
    )

    assert ["dump", "-n", "5", "a; rm -rf", "{plain}"] == fill_argv(
        dump.terms.plan, {"number": 5, "name": "a; rm -rf"}
    )


def test_a_function_can_say_which_parameters_a_command_takes(app):
    def parameters(database: str, verbose: bool = False) -> None: ...

    dump = app.command("dump", ["dump", "{database}", "{verbose}"], parameters=parameters)

    assert {"database": "shop"} == dump.bind("shop").arguments


@pytest.mark.parametrize(
    ("argv", "options", "message"),
    [
        ("pg_dump shop", {}, "argv: 'pg_dump shop' is not a list of texts"),
        (["dump", "--n={n}"], {}, "argv: '--n={n}' mixes a parameter with other text"),
        (["dump", "{a}{b}"], {}, "argv: '{a}{b}' mixes a parameter with other text"),
        ([], {}, "argv: \\[\\] is not a list of texts"),
        (["dump", 5], {}, "argv: 5 is not a text"),
        (["{program}"], {}, "argv: '{program}' does not say which program"),
        (["dump", "{"], {}, "argv: '{' holds braces around something else"),
        (["dump", "{a.b}"], {}, "argv: '{a.b}' holds braces around something else"),
        (["dump", "{0}"], {}, "argv: '.0.' holds braces around something else"),
        (["dump", "{b}"], {"parameters": {"a": str}}, "argv: 'b' is not one of its parameters"),
        (["dump"], {"parameters": ["a"]}, "parameters: .* is not a map of names to types"),
        (["dump"], {"parameters": {"no no": str}}, "parameters: 'no no' can't be the name"),
        (["dump"], {"env": {"A=B": "1"}}, "env: 'A=B' can't be the name of a variable"),
        (["dump"], {"env": {"A": 1}}, "env: 1 is not a text"),
        (["dump"], {"env": "A=1"}, "env: 'A=1' is not a map of names"),
        (["dump"], {"cwd": ""}, "cwd: '' is empty"),
        (["dump"], {"user": 0}, "user: 0 is not a text"),
        (["dump"], {"has_result": "yes"}, "has_result: 'yes' is not a truth value"),
        (["dump"], {"output_bytes_max": -1}, "output_bytes_max: -1 is out of range"),
        (["dump"], {"kind": "thread"}, "kind: 'thread' is not an option of a command"),
        (["dump"], {"timeout": "x"}, "timeout: 'x' is not a duration"),
    ],
)
def test_a_command_that_can_not_be_run_is_refused(app, argv, options, message):
    with pytest.raises(UsageError, match=f"^{message}"):
        app.command("dump", argv, **options)

    assert [] == app.tasks.names()


def test_a_webhook_is_a_task_too(app):
    tell = app.webhook(
        "tell", "https://example.com/hook", secret=HOOK, parameters={"order": int}, retry=3
    )

    assert {"order": 7} == tell.bind(order=7).arguments
    assert (TaskKind.WEBHOOK, 3) == (tell.kind, tell.policy.retry.attempts)
    with pytest.raises(UsageError, match="url"):
        app.webhook("other", "ftp://example.com", secret=HOOK)


def test_what_only_a_worker_can_run_is_not_called_here(app):
    with pytest.raises(UsageError, match="'dump' is no function that could be called here"):
        app.command("dump", ["dump"])()


def test_a_command_shares_its_name_with_no_other_task(app):
    app.command("dump", ["dump"])

    with pytest.raises(Conflict, match="exists already"):
        app.webhook("dump", "https://example.com/", secret=HOOK)


def test_a_command_can_be_put_on_a_schedule(app):
    dump = app.command("dump", ["dump", "{database}"])
    app.schedule(duly.every("1d"), name="daily", arguments={"database": "shop"})(dump)

    assert ("daily",) == app.reconcile().created


def test_what_can_not_report_progress_has_no_stall_limit(app):
    """Every command that takes longer would be stopped as stalled."""
    key = duly.secret("env:KEY")
    with pytest.raises(UsageError, match="stall: '1m' is not an option of a command"):
        app.command("backup", ["pg_dump"], stall="1m")
    with pytest.raises(UsageError, match="stall: '1m' is not an option of a webhook"):
        app.webhook("paid", "https://example.com/", secret=key, stall="1m")
