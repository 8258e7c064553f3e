"""The `duly` command: finds the sub-command, and turns errors into one line and an exit code."""

from __future__ import annotations

import sys
from typing import NoReturn

from cyclopts import App, CycloptsError, Parameter

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
    """Run a command and exit: 0 for success, 2 for a call that can't be carried out."""
    words = sys.argv[1:] if arguments is None else arguments
    try:
        status = app(words, exit_on_error=False, print_error=False)
    except UsageError as error:
        print_error(str(error), as_json="--json" in words, field=error.field, remedy=error.remedy)
        sys.exit(USAGE)
    except CycloptsError as error:
        print_error(
            " ".join(str(error).split()), as_json="--json" in words, remedy="see duly --help"
        )
        sys.exit(USAGE)
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        sys.stderr.close()
        sys.exit(OK)
    sys.exit(status if isinstance(status, int) else OK)
