"""`duly exec`: runs any command as a recorded run, and ends as it does."""

from __future__ import annotations

import sys
from typing import Annotated

from cyclopts import Parameter

from duly.app import App
from duly.app.tracing import begin_tracing
from duly.app.wrapping import Recorded, Wrapped, run_wrapped
from duly.cli.output import json_line, print_aside
from duly.cli.run.story import state_text
from duly.cli.target import SOURCE, Target, opened, person
from duly.errors import UsageError

TARGET = Target()


def run_command(  # noqa: PLR0913 - each option of the command is an argument
    name: str,
    /,
    *command: Annotated[str, Parameter(allow_leading_hyphen=True)],
    effects: str | None = None,
    timeout: str | None = None,
    alone: bool = False,
    quiet: Annotated[bool, Parameter(name=["--quiet", "-q"])] = False,
    traces: bool = False,
    target: Target = TARGET,
) -> int:
    """Run a command as a recorded run: duly exec backup -- pg_dump shop.

    It has this terminal's folder, variables and input; what it writes is shown, and kept with the
    run. Signals are passed on, and the exit code is the command's own (128 and the signal, if one
    ended it; 127 or 126 if it can't be started). The run is that of a task called exec:NAME, and
    is found by the key NAME: duly run show NAME. It is not retried by itself. If this process is
    killed, the command is, too, and its attempt is lost. The command line is recorded as it is: put
    secrets into variables.

    Parameters
    ----------
    name
        What it is called; by this name its runs are found.
    command
        The program and its arguments, after two hyphens.
    effects
        What repeating it does: idempotent, pure, or unsafe; an unsafe one that is lost or fails is
        in doubt, and a person decides (duly inbox).
    timeout
        How long it may take: 30s, 10m. Then it is asked to stop, and killed later.
    alone
        Wait until no other command of this name is running.
    quiet
        Say nothing beside what the command says.
    traces
        Tell spans through OpenTelemetry, as its variables say; also on if OTEL_TRACES_EXPORTER is
        set.
    """
    if not command:
        remedy = f"give it after two hyphens: duly exec {name} -- ls -l"
        raise UsageError("command", "", "is missing", remedy)
    wrapped = Wrapped(name=name, argv=command, effects=effects, timeout=timeout, is_alone=alone)
    with opened(target, needs_store=True) as app:
        # An application of its own on the same store: nothing is added to the program's tasks.
        own = App(store=app.store, tenant=app.tenant, settings=app.settings)
        begin_tracing("exec", own, is_asked=traces)
        recorded = run_wrapped(own.acting_as(person(), SOURCE), wrapped)
        _tell(recorded, is_quiet=quiet, as_json=target.json)
        return recorded.status


def _tell(recorded: Recorded, *, is_quiet: bool, as_json: bool) -> None:
    """Say on standard error what was recorded: standard output is the command's own."""
    run = recorded.run
    if recorded.obstacle is not None:
        print_aside("error", recorded.obstacle, as_json=as_json)
    if run is None or not recorded.is_settled:
        text = (
            f"how it ended could not be recorded; run {recorded.run_id} will be declared lost:"
            f" duly run show {recorded.run_id}"
        )
        print_aside("warning", text, as_json=as_json)
    elif as_json:
        sys.stderr.write(json_line(run.to_json()))
    elif sys.stderr.isatty() and not is_quiet:
        text = f"{run.label} {state_text(run)}; see duly run show {recorded.run_id}"
        print_aside("recorded", text, as_json=False)
