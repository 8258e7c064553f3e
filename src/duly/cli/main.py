"""Finds the command; turns errors into exit codes; prints help."""

from __future__ import annotations

import os
import re
import sys
from contextlib import suppress
from difflib import get_close_matches
from typing import TYPE_CHECKING, NoReturn

from cyclopts import (
    App,
    CycloptsError,
    MissingArgumentError,
    Parameter,
    UnknownOptionError,
    UnusedCliTokensError,
)

from duly.cli.completion import ORDER, print_candidates
from duly.cli.output import print_error
from duly.errors import Conflict, DulyError, NotFound, SchemaMismatch, StoreUnavailable, UsageError

if TYPE_CHECKING:
    from cyclopts.help import HelpPanel
    from rich.console import Console, ConsoleOptions


# What is imported within is loaded when somebody asks for help; other commands start without it.


class HelpPage:
    """Sets a page of help as cyclopts does, with the words of each option run together."""

    def __call__(self, console: Console, options: ConsoleOptions, panel: HelpPanel) -> None:
        """Print one panel."""
        from cyclopts.help import DefaultFormatter, InlineText
        from rich.text import Text

        for entry in panel.entries:
            told = entry.description
            if isinstance(told, InlineText) and isinstance(told.primary_renderable, Text):
                told.primary_renderable = Text(" ".join(told.primary_renderable.plain.split()))
        DefaultFormatter()(console, options, panel)

    def render_usage(self, console: Console, options: ConsoleOptions, usage: object) -> None:
        """Print how a command is called."""
        from cyclopts.help import DefaultFormatter

        DefaultFormatter().render_usage(console, options, usage)

    def render_description(
        self, console: Console, options: ConsoleOptions, description: object
    ) -> None:
        """Print what a command does."""
        from cyclopts.help import DefaultFormatter

        DefaultFormatter().render_description(console, options, description)


def tell_default(value: object) -> str | None:
    """Say what holds when an option is not given; nothing, where that is nothing."""
    return None if value is None or value is False or value == () else str(value)


OK, FAILED, USAGE, NOT_FOUND, CONFLICT, UNAVAILABLE, AMBIGUOUS = range(7)
INTERRUPTED = 130
"""What shells report for a command that Ctrl-C has ended."""

_OPTIONS = {
    'past="run"': "--past",
    "replace=True": "--replace",
    "serialize_by='account:42'": "--serialize-by account:42",
    "give despite_missing": "give --despite-missing",
    "app.schedules.list()": "duly schedule list",
    "app.runs.list()": "duly run list",
    "app.delayed.list()": "duly delayed list",
    "app.backfills.list()": "duly backfill list",
    "app.breakers.list()": "duly breaker list",
    "app.alerts.list(state='all')": "duly alert list --state all",
    "app.alerts.channels()": "duly alert channels",
}

_GIVEN_AS_OPTIONS = frozenset(
    {"app", "confirm", "despite_missing", "limit", "reason", "serialize_by", "when"}
)
"""What the library calls so, and a command is given as an option."""

_ELSEWHERE = {
    "--as-of": "what is stored tells of the past only by duly run list, duly schedule show and"
    " duly audit; duly run missing takes --since and --until",
    "--server": "a server is named by its address: --url https://host:8420, with $DULY_TOKEN",
    "--token": "a token is taken from $DULY_TOKEN, or from ~/.config/duly/credentials; what is"
    " typed here, others may see",
}
"""Options that some commands do not take, and what to do instead."""

_VARIABLES = {"--app": "DULY_APP", "--url": "DULY_URL", "--tenant": "DULY_TENANT"}
"""What may stand before a command, and the variable that means the same."""
_ALIKE = 0.75
"""How alike two options must be for one to be suggested for the other."""
_NEGATIVE = re.compile(r"-\d")
_RULES = "a rule is given by --when, such as --when 'every day at 9'"

app = App(
    name="duly",
    help="Keep promises about the future.",
    help_format="plaintext",
    help_formatter=HelpPage(),
    default_parameter=Parameter(negative=(), show_default=tell_default),
    result_action="return_value",
)
# Named by text, so that a command's file is only loaded when it is asked for.
for name, place, purpose in (
    ("schedule", "duly.cli.main:schedule", "Make, look at and change schedules."),
    ("enqueue", "duly.cli.enqueue:enqueue", "Run a task once: now, later, or at an instant."),
    ("move", "duly.cli.enqueue:move", "Move a delayed run to another instant."),
    ("cancel", "duly.cli.enqueue:cancel", "Cancel a delayed run."),
    ("delayed", "duly.cli.enqueue:delayed_app", "Look at delayed runs that are pending."),
    ("run", "duly.cli.main:run", "Look at runs, wait for them, stop or retry them."),
    ("backfill", "duly.cli.backfills:app", "Plan runs that are missing, and have them made."),
    ("prove", "duly.cli.audit:prove", "Say whether a day's work is done: all of it, and once."),
    ("inbox", "duly.cli.inbox:app", "See runs whose outcome nobody knows, and what is safest."),
    ("task", "duly.cli.inbox:task_app", "Suspend retries of tasks, or block their reruns."),
    ("queue", "duly.cli.fleet:queue_app", "Look at queues; pause, resume and drain them."),
    ("limit", "duly.cli.limits:app", "Limit how many runs go on, and how often."),
    ("breaker", "duly.cli.limits:breaker_app", "Look at destinations that are down."),
    ("alert", "duly.cli.alerts:app", "See what is wrong; silence alerts, say who is told."),
    ("quota", "duly.cli.limits:quota_app", "Bound how much owners and tenants may ask for."),
    ("owner", "duly.cli.fleet:owner_app", "Say which owners are gone: nothing fires for them."),
    (
        "token",
        "duly.cli.admin:token_app",
        "Make, list and revoke tokens: who may come in by the API.",
    ),
    ("exec", "duly.cli.exec:run_command", "Run any command as a recorded run."),
    ("top", "duly.cli.status:top", "Watch workers, queues and runs as they go."),
    ("dispatcher", "duly.cli.services:dispatcher", "Fire what falls due, until it is stopped."),
    (
        "worker",
        "duly.cli.fleet:worker_app",
        "Execute queued runs; list, drain, quarantine workers.",
    ),
    (
        "server",
        "duly.cli.services:server",
        "Serve the HTTP API and the console, until it is stopped.",
    ),
    ("dev", "duly.cli.services:dev", "Run everything in one place, for development."),
    ("status", "duly.cli.status:status", "Show the health of everything on one screen."),
    ("vitals", "duly.cli.status:vitals", "See triggers and completions, side by side."),
    ("doctor", "duly.cli.status:doctor", "Look for what is wrong, and say what to do about it."),
    ("audit", "duly.cli.audit:app", "Show who did what; verify that nobody changed it."),
    ("events", "duly.cli.audit:events", "Show what happens, as it happens."),
    ("export", "duly.cli.admin:export_promises", "Write all promises to a file."),
    ("import", "duly.cli.admin:import_promises", "Take in all promises of a file."),
    ("db", "duly.cli.admin:db_app", "Migrate and check the store."),
    ("next", "duly.cli.timetables:next_occurrences", "Show when a rule fires next, and why then."),
    ("zones", "duly.cli.timetables:app", "Find time zones; compare releases of their rules."),
    ("init", "duly.cli.admin:init", "Write a program with tasks to begin with."),
    ("config", "duly.cli.admin:config_app", "See which settings hold, and where they come from."),
    ("completion", "duly.cli.completion:completion", "Let a shell complete commands and options."),
    ("demo", "duly.cli.demo:demo", "See it work: two weeks of history, a fleet, and a page."),
    ("version", "duly.cli.version:version", "Show what is installed, and the time-zone release."),
):
    app.command(place, name=name, help=purpose)

schedule = App(name="schedule", help="Make, look at and change schedules.")
for name, place, purpose in (
    ("create", "duly.cli.schedule_orders:create", "Make a schedule, and show when it runs."),
    ("list", "duly.cli.schedules:list_schedules", "List schedules, with what comes next."),
    (
        "show",
        "duly.cli.schedules:show",
        "Show all about a schedule: rule, policies, next runs, last run.",
    ),
    ("edit", "duly.cli.schedule_orders:edit", "Change a schedule, and show what that moves."),
    (
        "pause",
        "duly.cli.schedule_orders:pause",
        "Stop a schedule for a while; nothing of it is lost.",
    ),
    ("resume", "duly.cli.schedule_orders:resume", "Let a paused schedule go on."),
    ("trigger", "duly.cli.schedule_orders:trigger", "Run it now, beside its timetable."),
    ("skip", "duly.cli.schedule_orders:skip", "Leave out the next occurrence, on record."),
    (
        "delete",
        "duly.cli.schedule_orders:delete",
        "Delete a schedule; it can be restored for a while.",
    ),
    ("restore", "duly.cli.schedule_orders:restore", "Bring back a deleted schedule."),
    ("history", "duly.cli.schedules:history", "Show who did what to a schedule, when and why."),
    ("diff", "duly.cli.schedules:diff", "Show what a change changed, field by field."),
    (
        "occurrences",
        "duly.cli.schedules:occurrences",
        "Show what became of each expected occurrence.",
    ),
    ("apply", "duly.cli.schedule_files:apply", "Make schedules as a file declares them."),
    (
        "export",
        "duly.cli.schedule_files:export",
        "Write schedules as a file that apply reads back.",
    ),
):
    schedule.command(place, name=name, help=purpose)

run = App(name="run", help="Look at runs, wait for them, stop them, try them again.")
for name, place, purpose in (
    ("list", "duly.cli.runs:list_runs", "List runs, newest first."),
    (
        "show",
        "duly.cli.runs:show",
        "Show all about a run: where it came from, each step, each attempt.",
    ),
    ("attempts", "duly.cli.runs:attempts", "Show each attempt of a run, with its error."),
    ("missing", "duly.cli.runs:missing", "Show what was expected and has no run."),
    (
        "ambiguous",
        "duly.cli.runs:ambiguous",
        "List runs of which nobody knows what they did.",
    ),
    ("why", "duly.cli.runs:why", "Say why a run is late, stuck, waiting or dead."),
    ("logs", "duly.cli.runs:logs", "Show what a run's attempts have written; -f follows."),
    (
        "wait",
        "duly.cli.run_wait:wait",
        "Wait until runs are over; the exit code says how they ended.",
    ),
    ("cancel", "duly.cli.run_orders:cancel", "Stop runs: at once, or by asking whoever runs them."),
    (
        "retry",
        "duly.cli.run_orders:retry",
        "Queue dead runs again, or try a waiting one at once.",
    ),
    ("discard", "duly.cli.run_orders:discard", "Give up dead runs for good."),
    ("edit", "duly.cli.run_orders:edit", "Give a dead run other arguments."),
    ("resume", "duly.cli.inbox:resume", "Try a run in doubt again from its last checkpoint."),
    ("reconcile", "duly.cli.inbox:reconcile", "Record what has become of a run in doubt."),
    ("skip", "duly.cli.run_orders:skip", "Leave runs in doubt as they are, on record."),
    (
        "rerun",
        "duly.cli.run_orders:rerun",
        "Run once more what runs were to do; --repair does only the rest.",
    ),
    (
        "verify",
        "duly.cli.inbox:verify",
        "Have the result of a run checked by its task's own check.",
    ),
):
    run.command(place, name=name, help=purpose)


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run a command and exit: 0 is success; the other codes say who must act (see _exit_code)."""
    words = sys.argv[1:] if arguments is None else arguments
    if words[:1] == [ORDER]:
        with suppress(Exception):  # a key that is pressed brings no error onto the line
            print_candidates(app, _surroundings(words[1:])[1])
        sys.exit(OK)
    as_json = "--json" in (words[: words.index("--")] if "--" in words else words)
    try:
        status = app(_with_surroundings(_joined(words)), exit_on_error=False, print_error=False)
        sys.stdout.flush()
    except DulyError as error:
        parts = {name: _as_options(part) for name, part in _parts(error).items()}
        print_error(_sentence(error), as_json=as_json, **parts)
        sys.exit(_exit_code(error))
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except CycloptsError as error:
        message, remedy = _told(error)
        kind, code = UsageError.__name__, UsageError.code
        details = {"kind": kind, "code": code, "problem": message, "remedy": remedy}
        print_error(f"{message}; {remedy}", as_json=as_json, **details)
        sys.exit(USAGE)
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        _leave_output()
        sys.exit(OK)
    except OSError as error:
        _leave_output()
        message = f"can't write the answer: {error.strerror}"
        print_error(message, as_json=False, code=DulyError.code)
        sys.exit(FAILED)
    sys.exit(status if isinstance(status, int) else OK)


def _joined(words: list[str]) -> list[str]:
    """Return `--in -5m` as `--in=-5m`: no option begins with a digit, so it is the value."""
    found: list[str] = []
    for number, word in enumerate(words):
        if word == "--":
            return [*found, *words[number:]]
        if found and re.fullmatch(r"--[\w-]+", found[-1]) and _NEGATIVE.match(word):
            found[-1] += f"={word}"
        else:
            found.append(word)
    return found


def _with_surroundings(words: list[str]) -> list[str]:
    """Let `duly --app tasks:app …` mean the same as `duly … --app tasks:app`, for every command.

    Likewise --url and --tenant: where a command has a --tenant of its own, it stands after it, and
    the one before the command holds as $DULY_TENANT does.
    """
    typed, rest = _surroundings(words)
    if not typed:
        return rest
    path, apps, after = app.parse_commands(rest)
    taken = _shared_options(apps[-1])
    os.environ.update({_VARIABLES[name]: value for name, value in typed if name not in taken})
    return [*path, *(f"{name}={value}" for name, value in typed if name in taken), *after]


def _surroundings(words: list[str]) -> tuple[list[tuple[str, str]], list[str]]:
    """Return the options before a command, and what follows them."""
    rest = list(words)
    typed: list[tuple[str, str]] = []
    while rest and (option := rest[0].partition("="))[0] in _VARIABLES:
        name, separator, value = option
        if not separator and len(rest) == 1:
            break
        typed.append((name, value if separator else rest[1]))
        rest = rest[1:] if separator else rest[2:]
    return typed, rest


def _shared_options(command: App) -> set[str]:
    """Return the options of `Target` that a command takes, but for names that it has itself."""
    if command.default_command is None:
        return set()
    shared: set[str] = set()
    own: set[str] = set()
    for one in command.assemble_argument_collection():
        (shared if one.keys else own).update(one.names)
    return shared - own


def _exit_code(error: DulyError) -> int:
    """Say by a number who must act, so that a script can tell."""
    match error:
        case UsageError():
            return USAGE
        case NotFound():
            return NOT_FOUND
        case Conflict():
            return CONFLICT
        case StoreUnavailable() | SchemaMismatch():
            return UNAVAILABLE
        case _:
            return FAILED


def _sentence(error: DulyError) -> str:
    """Return what an error says; what was left out is named as one would type it."""
    text = str(error)
    if isinstance(error, UsageError) and error.value is None and error.field in _GIVEN_AS_OPTIONS:
        text = f"--{error.field.replace('_', '-')}{text.removeprefix(error.field)}"
    return _as_options(text)


def _as_options(text: str) -> str:
    """Say a remedy in the words of the command line: the library's are those of a program."""
    for said, option in _OPTIONS.items():
        text = text.replace(said, option)
    return text


def _parts(error: DulyError) -> dict[str, str]:
    """Return what a program may want of an error beside its sentence."""
    names = ("field", "what", "name", "store", "problem", "remedy")
    parts = {name: str(getattr(error, name)) for name in names if hasattr(error, name)}
    return {"kind": type(error).__name__, "code": error.code, **parts}


def _told(error: CycloptsError) -> tuple[str, str]:
    """Say what is wrong with the words of a call, and what to do."""
    help_ = " ".join(("see duly", *(error.command_chain or ()), "--help"))
    if isinstance(error, UnusedCliTokensError):
        tokens = error.unused_tokens or []
        return f"{tokens[0]!r} is one word too many", "put an expression with spaces in quotes"
    if isinstance(error, UnknownOptionError):
        return _told_unknown(error, help_)
    said = " ".join(str(error).split()).partition(" Available commands:")[0]
    if isinstance(error, MissingArgumentError) and "Did you mean" not in said:
        name = error.keyword or getattr(error.argument, "name", "a word")
        problem = f"{name} is missing" if error.keyword is None else f"{name} needs a value"
        if name == "--reason":
            return problem, f"say why, in a few words; {help_}"
        meaning = _meaning(error)
        return (f"{problem}: {meaning}" if meaning else problem), help_
    return said.rstrip("."), help_


def _told_unknown(error: UnknownOptionError, help_: str) -> tuple[str, str]:
    """Say what to do about an option that a command does not take."""
    option = (error.token.keyword or error.token.value).partition("=")[0]
    problem = f"unknown option {option}"
    if option in _ELSEWHERE:
        return problem, _ELSEWHERE[option]
    chain = error.command_chain or ()
    if option == "--at" and "schedule" in chain:
        return problem, _RULES
    taken = list(error.argument_collection or ())
    names = [name for one in taken for name in one.names if name.startswith("--")]
    if close := get_close_matches(option, names, n=1, cutoff=_ALIKE):
        return problem, f"did you mean {close[0]}? {help_[0].upper()}{help_[1:]}"
    places = [one.name for one in taken if one.field_info.kind is one.field_info.POSITIONAL_ONLY]
    if places:
        without = " ".join(("duly", *chain, *places))
        given = f"{' and '.join(places)} {'is' if len(places) == 1 else 'are'} given"
        return problem, f"{given} without an option, as in {without}; {help_}"
    return problem, help_


def _meaning(error: MissingArgumentError) -> str:
    """Return what the help says of an argument that lacks its value."""
    _, commands, _ = app.parse_commands(list(error.command_chain or ()))
    found = commands[-1].assemble_argument_collection(parse_docstring=True)
    name = None if error.argument is None else error.argument.name
    text = next((one.parameter.help for one in found if one.name == name), None)
    words = " ".join((text or "").split()).rstrip(".")
    return words[:1].lower() + words[1:]


def _leave_output() -> None:
    """Let go of an output that takes nothing more, or Python would complain on its way out."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
