"""Commands: an argv without a shell, off unless allowed, in a small environment."""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from duly.client.run_context import SecretSources
from duly.clock import SystemClock
from duly.domain.effects import EffectPermission, Grant
from duly.domain.enums import Effects, TaskKind
from duly.domain.ids import identity_text
from duly.domain.outcomes import CancelledEnd, Failed, Succeeded
from duly.domain.runs import Reason, TaskPolicy
from duly.domain.secret_refs import Secret, SecretReference
from duly.domain.tasks import CommandPlan
from duly.engine.executors.child_process import CHUNK_BYTES, LINE_BYTES_MAX, Families
from duly.engine.executors.command_executor import CommandExecutor, CommandSettings
from tests.engine.executors.attempt import Attempt, Code, RecordedLive, claimed_run
from tests.forked_commands import bound, is_running
from tests.waiting import comes_true, read_line

if TYPE_CHECKING:
    from collections.abc import Iterator

PYTHON = sys.executable


@pytest.fixture
def executor() -> Iterator[CommandExecutor]:
    made = CommandExecutor(SystemClock(), CommandSettings(allowed=None))
    yield made
    made.close()


def command(*argv: str, given: dict[str, Any] | None = None, **parts: Any) -> Attempt:
    """Return an attempt of a command, with the arguments of its call."""
    arguments = given or {}
    plan = CommandPlan(argv=argv, **parts)
    code = Code(lambda: arguments, name="code", kind=TaskKind.COMMAND, plan=plan)
    return Attempt(code, claimed_run("code"))


def run(executor: CommandExecutor, attempt: Attempt) -> Any:
    executor.start(attempt)
    return attempt.wait_end()


def python(program: str, *argv: str, **parts: Any) -> Attempt:
    return command(PYTHON, "-c", program.replace("{", "{{").replace("}", "}}"), *argv, **parts)


def test_a_worker_runs_no_command_unless_it_is_told_to():
    """Off unless enabled; trying again would change nothing."""
    executor = CommandExecutor(SystemClock())
    attempt = command("/bin/true")
    end = run(executor, attempt)

    assert isinstance(end, Failed)
    assert (Reason.NOT_ALLOWED, False) == (end.reason, end.is_retryable)
    assert "--allow-commands" in end.error
    assert not attempt.begun.is_set()


@pytest.mark.parametrize(("allowed", "is_run"), [("code", True), ("other", False)])
def test_a_worker_may_be_allowed_some_commands_only(allowed: str, is_run: bool):
    executor = CommandExecutor(SystemClock(), CommandSettings(allowed=frozenset({allowed})))
    end = run(executor, command("/bin/true"))

    assert is_run == isinstance(end, Succeeded)


def test_a_command_that_ends_well_has_succeeded(executor):
    attempt = command("true")

    assert Succeeded(None) == run(executor, attempt)
    assert attempt.begun.is_set()


def test_arguments_are_arguments_and_no_shell_reads_them(executor):
    given = {"text": "$(touch /tmp/x); `id` * 'quoted' \"twice\"\n", "number": 3}
    attempt = command("printf", "%s|", "{text}", "{number}", given=given)
    run(executor, attempt)

    assert ["$(touch /tmp/x); `id` * 'quoted' \"twice\"", "|3|"] == attempt.live.texts("stdout")


def test_nothing_of_the_worker_s_environment_goes_along(monkeypatch):
    """A command sees what it is given, and the few variables that programs need."""
    env = {"PATH": os.environ["PATH"], "HOME": "/home/ada", "TZ": "UTC", "SECRET": "hidden"}
    executor = CommandExecutor(SystemClock(), CommandSettings(allowed=None, env=env))
    attempt = command("env", env={"REGION": "{region}"}, given={"region": "eu"})
    run(executor, attempt)
    seen = dict(line.partition("=")[::2] for line in attempt.live.texts("stdout"))
    record = attempt.claimed.record

    assert {
        "PATH": env["PATH"],
        "HOME": "/home/ada",
        "TZ": "UTC",
        "REGION": "eu",
        "DULY_RUN_ID": identity_text(record.id),
        "DULY_IDEMPOTENCY_KEY": identity_text(record.root),
        "DULY_ATTEMPT": "2",
        "DULY_FENCE": "7",
        "DULY_SCHEDULED_FOR": "1970-01-01T00:00:01Z",
        "DULY_TASK": "code",
    } == {name: value for name, value in seen.items() if name != "LC_CTYPE"}


def test_a_bad_exit_status_is_told_with_the_last_of_standard_error(executor):
    program = "import sys; [print(f'line {n}', file=sys.stderr) for n in range(100)]; sys.exit(3)"
    attempt = python(program)
    end = run(executor, attempt)

    assert isinstance(end, Failed)
    assert Reason.EXIT_STATUS == end.reason
    assert end.error.startswith("line 80\n")
    assert end.error.endswith("line 99\nexit status 3")
    assert 100 == len(attempt.live.texts("stderr"))


def test_a_command_that_is_killed_is_told_by_the_signal_s_name(executor):
    end = run(executor, python("import os; os.kill(os.getpid(), 9)"))

    assert (Reason.KILLED, "ended by SIGKILL") == (end.reason, end.error)


def test_output_past_its_limit_is_read_and_not_kept(executor):
    attempt = python("print('x' * 999 + chr(10) * 1 , end='')\n" * 3000, output_bytes_max=10_000)
    end = run(executor, attempt)

    assert Succeeded(None) == end
    assert 10 == len(attempt.live.texts("stdout"))
    assert ["what it writes past 10,000 bytes is not kept"] == attempt.live.texts("warning")


def test_the_last_line_is_the_result_if_it_promises_one(executor):
    program = "print('working'); print('[1, {\"a\": null}]')"

    assert Succeeded('[1,{"a":null}]') == run(executor, python(program, has_result=True))


def test_a_promised_result_that_is_none_fails(executor):
    end = run(executor, python("print('working')", has_result=True))

    assert isinstance(end, Failed)
    assert "not the JSON" in end.error


def test_asking_is_a_sigterm_to_the_whole_family(executor):
    attempt = command("/bin/sh", "-c", "sleep 1000 & echo $!; wait")
    executor.start(attempt)
    assert comes_true(lambda: attempt.live.texts("stdout"))
    executor.ask(attempt)

    assert CancelledEnd() == attempt.wait_end()
    grandchild = int(attempt.live.texts("stdout")[0])
    assert comes_true(lambda: not is_running(grandchild))


def test_one_that_tidies_up_when_asked_and_ends_well_has_succeeded(executor):
    program = (
        "import signal, sys, threading\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))\n"
        "print('ready', flush=True)\n"
        "threading.Event().wait()"
    )
    attempt = python(program)
    executor.start(attempt)
    assert comes_true(lambda: attempt.live.texts("stdout"))
    executor.ask(attempt)

    assert Succeeded(None) == attempt.wait_end()


def test_insisting_kills_what_ignores_being_asked(executor):
    """Time-outs hold for commands, too."""
    attempt = command("/bin/sh", "-c", "trap '' TERM; echo ready; while true; do sleep 1; done")
    executor.start(attempt)
    assert comes_true(lambda: attempt.live.texts("stdout"))
    executor.ask(attempt)

    assert executor.insist(attempt) is True
    assert CancelledEnd() == attempt.wait_end()


def test_what_a_command_leaves_behind_ends_with_it(executor):
    attempt = command("/bin/sh", "-c", "sleep 1000 & echo $!")
    run(executor, attempt)
    left = int(attempt.live.texts("stdout")[0])

    assert comes_true(lambda: not is_running(left))


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"argv": ("no-such-program",)}, "there is no program 'no-such-program'"),
        ({"argv": ("true",), "cwd": "/no/such/folder"}, "/no/such/folder"),
        ({"argv": ("true",), "user": "no-such-user"}, "no user 'no-such-user'"),
    ],
)
def test_what_can_t_be_started_says_why(executor, parts: dict[str, Any], said: str):
    argv = parts.pop("argv")
    end = run(executor, command(*argv, **parts))

    assert isinstance(end, Failed)
    assert said in end.error


UNSAFE = TaskPolicy(effects=Effects.UNSAFE)


class Permitting(RecordedLive):
    """Answers whoever asks for permission, and remembers for what."""

    def __init__(self, grant: Grant) -> None:
        super().__init__()
        self.grant = grant
        self.asked: list[str | None] = []

    def begin_effect(self, key: str | None) -> EffectPermission:
        self.asked.append(key)
        return EffectPermission(self.grant)


def unsafe(*argv: str, grant: Grant = Grant.GRANTED, **parts: Any) -> Attempt:
    attempt = command(*argv, **parts)
    attempt.runnable.policy = UNSAFE
    attempt.live = Permitting(grant)
    return attempt


@pytest.mark.parametrize("grant", [Grant.GRANTED, Grant.STOPPING, Grant.TOO_LATE, Grant.GONE])
def test_an_unsafe_command_is_not_begun_before_it_is_permitted(
    executor, tmp_path: Path, grant: Grant
):
    """All of it is one effect."""
    attempt = unsafe("touch", str(tmp_path / "done"), grant=grant)
    end = run(executor, attempt)

    is_granted = grant is Grant.GRANTED
    assert [None] == attempt.live.asked
    assert is_granted == (tmp_path / "done").exists() == isinstance(end, Succeeded)
    assert is_granted or isinstance(end, CancelledEnd) or end.is_undone


@pytest.mark.parametrize(
    ("parts", "is_undone"),
    [({"argv": ("false",)}, False), ({"argv": ("true",), "cwd": "/no/such/folder"}, True)],
)
def test_only_of_what_could_not_be_started_it_is_certain_that_nothing_was_done(
    executor, parts: dict[str, Any], is_undone: bool
):
    argv = parts.pop("argv")
    end = run(executor, unsafe(*argv, **parts))

    assert isinstance(end, Failed)
    assert is_undone == end.is_undone


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become somebody else")
def test_it_runs_as_another_user_with_that_user_s_groups(executor):
    attempt = command("id", user="nobody")
    run(executor, attempt)

    assert "(nobody)" in attempt.live.texts("stdout")[0]
    assert "root" not in attempt.live.texts("stdout")[0]


def test_it_runs_where_it_is_told_to(executor, tmp_path: Path):
    attempt = command("pwd", cwd=str(tmp_path))
    run(executor, attempt)

    assert [str(tmp_path.resolve())] == attempt.live.texts("stdout")


def test_it_gets_no_more_memory_than_it_may_have(executor):
    program = "print(len(bytearray(1 << 31)))"
    end = run(executor, python(program, memory_bytes=1 << 29))

    assert "MemoryError" in end.error


def test_a_program_is_looked_up_once(executor, tmp_path: Path):
    """Whoever can write to a folder of the path later changes nothing for a running worker."""
    first, second = tmp_path / "first", tmp_path / "second"
    for folder, word in ((first, "first"), (second, "second")):
        folder.mkdir()
        program = folder / "greet"
        program.write_text(f"#!/bin/sh\necho {word}\n", encoding="utf-8")
        program.chmod(0o755)
    env = {"PATH": f"{first}:/bin:/usr/bin"}
    executor = CommandExecutor(SystemClock(), CommandSettings(allowed=None, env=env))
    run(executor, command("greet"))
    env["PATH"] = f"{second}:/bin:/usr/bin"
    again = command("greet")
    run(executor, again)

    assert ["first"] == again.live.texts("stdout")


WORKER = """
import sys, threading
sys.path.insert(0, {root!r})
from tests.engine.executors.test_commands import command
from duly.clock import SystemClock
from duly.engine.executors.command_executor import CommandExecutor, CommandSettings
attempt = command("/bin/sh", "-c", "echo $$; sleep 1000 & echo $!; wait")
executor = CommandExecutor(SystemClock(), CommandSettings(allowed=None))
executor.start(attempt)
while len(attempt.live.texts("stdout")) < 2:
    attempt.over.wait(0.05)
print(*attempt.live.texts("stdout"), flush=True)
threading.Event().wait()
"""


def test_no_command_outlives_its_worker():
    """Nor does what it has started."""
    program = WORKER.format(root=str(Path(__file__).resolve().parents[3]))
    argv = bound(PYTHON, "-c", program)
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as worker:
        family = [int(one) for one in read_line(worker).split()]
        were_there = all(is_running(one) for one in family)
        worker.send_signal(signal.SIGKILL)

    assert were_there
    assert comes_true(lambda: not any(is_running(one) for one in family))


def test_a_keeper_that_was_killed_is_replaced():
    """It knows what was there before it."""
    families = Families()
    with families.holding(2_000_000_000):
        first = families.keeper
        assert first is not None
        os.kill(first, signal.SIGKILL)
        assert comes_true(lambda: not is_running(first))
        with families.holding(2_000_000_001):
            second = families.keeper

            assert second not in {None, first}
    families.close()
    assert comes_true(lambda: not is_running(second or 0))


def test_a_result_that_is_nested_without_end_fails(executor):
    """Whatever it writes, its slot is free again."""
    end = run(executor, python("print('[' * 3000)", has_result=True))

    assert isinstance(end, Failed)
    assert "not the JSON" in end.error


def test_a_defect_on_the_way_to_an_end_is_an_end(executor):
    """An end that nobody says would keep a slot for ever."""
    attempt = command("true")
    attempt.began = fail_to_begin  # type: ignore[method-assign]
    end = run(executor, attempt)

    assert isinstance(end, Failed)
    assert "IndexError" in end.error


def fail_to_begin() -> None:
    raise IndexError


HIDDEN = "hunter2-is-secret"
SAY_IT = "import os, sys; out = sys.{stream}; out.write('x' * {before} + os.environ['TOKEN'])"


def told(before: int, stream: str = "stdout", more: str = "") -> Any:
    """Return an attempt, over, whose command has said a secret after so many characters."""
    program = SAY_IT.format(stream=stream, before=before) + more
    attempt = python(program, env={"TOKEN": SecretReference("env:TOKEN")})
    settings = CommandSettings(allowed=None, read_secret=lambda _reference, _field: Secret(HIDDEN))
    executor = CommandExecutor(SystemClock(), settings)
    run(executor, attempt)
    executor.close()
    return attempt


@pytest.mark.parametrize("before", [CHUNK_BYTES - 6, LINE_BYTES_MAX - 6, LINE_BYTES_MAX - 1])
def test_a_secret_is_hidden_wherever_what_a_command_says_is_cut(before):
    """Between two reads, and where a line is too long to be kept."""
    attempt = told(before, more="; out.write('y' * 200_000 + chr(10) + 'next')")
    first, second = [attempt.live.hide(text) for text in attempt.live.texts("stdout")]

    assert {"x", "*"} == set(first) - {"y", "…"}
    assert "next" == second


def test_a_secret_is_hidden_in_an_error_made_of_a_line_that_was_cut():
    """The last lines are told as the error."""
    attempt = told(LINE_BYTES_MAX - 6, "stderr", "; out.write('y' * 200_000); sys.exit(3)")

    assert attempt.ends[0].error.endswith("x***…\nexit status 3")


def test_a_command_whose_secret_is_missing_here_is_tried_again():
    """As for webhooks and functions, whatever its errors."""
    attempt = command("/bin/true", env={"TOKEN": SecretReference("env:NOWHERE_TO_BE_FOUND")})
    settings = CommandSettings(allowed=None, read_secret=SecretSources().read_declared)
    end = run(CommandExecutor(SystemClock(), settings), attempt)

    assert (Reason.NO_SECRET, True) == (end.reason, end.is_retryable)
    assert "env:NOWHERE_TO_BE_FOUND" in end.error


def test_a_result_may_be_longer_than_a_line_of_the_log(executor):
    """It comes in several pieces, and is one line all the same."""
    program = "import sys; [print(one, end='', flush=True) for one in ('\"', 'x' * 50_000, '\"')]"
    end = run(executor, python(program, has_result=True))

    assert Succeeded(f'"{"x" * 50_000}"') == end


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_command_of_another_user_is_at_home_there(executor):
    """A program that looks for its files there does not find, or write, the worker's."""
    entry = pwd.getpwnam("nobody")
    attempt = command("env", user="nobody")
    given = command("env", user="nobody", env={"HOME": "/elsewhere"})
    run(executor, attempt)
    run(executor, given)

    assert {f"HOME={entry.pw_dir}", "USER=nobody", "LOGNAME=nobody"} <= set(
        attempt.live.texts("stdout")
    )
    assert "HOME=/elsewhere" in given.live.texts("stdout")
