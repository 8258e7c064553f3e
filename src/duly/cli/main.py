"""The `duly` command: finds the sub-command, and turns errors into one line and an exit code."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from cyclopts import App, CycloptsError, Parameter, UnusedCliTokensError

from duly.cli.output import print_error
from duly.errors import UsageError

OK, FAILED, USAGE, NOT_FOUND, CONFLICT, UNAVAILABLE, AMBIGUOUS = range(7)

app = App(
    name="duly",
    help="Keep promises about the future.",
    help_format="plaintext",
    default_parameter=Parameter(negative=()),
    result_action="return_value",
)
# Named by text, so that a command's file is only loaded when it is asked for.
for name, place, purpose in (
    ("next", "duly.cli.next:next_occurrences", "Show when a rule fires next, and why then."),
    ("zones", "duly.cli.zones:app", "Find time zones; compare releases of their rules."),
    ("demo", "duly.cli.demo:demo", "Take a guided tour of what works."),
    ("version", "duly.cli.version:version", "Show what is installed, and the time-zone release."),
):
    app.command(place, name=name, help=purpose)


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run a command and exit: 0 is success, 1 failure, 2 a call that can't be carried out."""
    words = sys.argv[1:] if arguments is None else arguments
    try:
        status = app(words, exit_on_error=False, print_error=False)
        sys.stdout.flush()
    except UsageError as error:
        print_error(str(error), as_json="--json" in words, field=error.field, remedy=error.remedy)
        sys.exit(USAGE)
    except CycloptsError as error:
        message, remedy = _told(error)
        print_error(f"{message}; {remedy}", as_json="--json" in words, remedy=remedy)
        sys.exit(USAGE)
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        _leave_output()
        sys.exit(OK)
    except OSError as error:
        _leave_output()
        print_error(f"can't write the answer: {error.strerror}", as_json=False)
        sys.exit(FAILED)
    sys.exit(status if isinstance(status, int) else OK)


def _told(error: CycloptsError) -> tuple[str, str]:
    """Say what is wrong with the words of a call, and what to do."""
    if isinstance(error, UnusedCliTokensError):
        tokens = error.unused_tokens or []
        return f"{tokens[0]!r} is one word too many", "put an expression with spaces in quotes"
    return " ".join(str(error).split()).rstrip("."), "see duly --help"


def _leave_output() -> None:
    """Let go of an output that takes nothing more, or Python would complain on its way out."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
