"""`duly export` and `duly import`: all promises of a store, as a file."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from duly.cli.output import print_aside, print_json, print_line
from duly.cli.target import Target, of_all_tenants, opened
from duly.cli.waiting import ticker
from duly.client.promises import Export, Import
from duly.domain.time_texts import utc_text

TARGET = Target()
STANDARD = "-"


def export_promises(
    file: str = STANDARD,
    /,
    *,
    history: bool = False,
    stopped: bool = False,
    target: Target = TARGET,
) -> None:
    """Write all promises to a file, as JSON lines: for a backup, or to move to another store.

    Parameters
    ----------
    file
        Where to; "-" is the standard output.
    history
        Also runs that are over, and what was skipped.
    stopped
        Refuse while any dispatcher or worker is alive: for a move.
    """
    with opened(_of_store(target), makes_store=False, needs_store=True) as application:
        to = sys.stdout.buffer if file == STANDARD else Path(file)
        with ticker() as line:
            tell = line.counting("written")
            done = application.promises.export(to, history=history, stopped=stopped, tell=tell)
    if file == STANDARD:
        print_aside("note", _exported(done, "the standard output"), as_json=target.json)
    elif target.json:
        print_json(done.to_json())
    else:
        print_line(_exported(done, file))
    if done.alive and not stopped:
        _warn_of_living(done.alive, as_json=target.json)


def import_promises(  # noqa: PLR0913 - options of a command
    file: str,
    /,
    *,
    on_conflict: Literal["fail", "skip"] = "fail",
    dry_run: bool = False,
    reason: Annotated[str | None, Parameter(help="Why, for the audit trail.")] = None,
    target: Target = TARGET,
) -> None:
    """Take in all promises of a file, or none.

    Parameters
    ----------
    file
        What `duly export` wrote; "-" is the standard input.
    on_conflict
        If something else is in a promise's place: import nothing (fail), or leave it out (skip).
    dry_run
        Say what would be imported, and write nothing.
    """
    with opened(_of_store(target), needs_store=True) as application:
        source = sys.stdin.buffer if file == STANDARD else Path(file)
        with ticker() as line:
            terms: dict[str, Any] = {"on_conflict": on_conflict, "dry_run": dry_run}
            tell = line.counting("read")
            done = application.promises.import_from(source, **terms, reason=reason, tell=tell)
    if target.json:
        print_json(done.to_json())
    else:
        print_line(_imported(done))
    if done.alive and not done.is_repeated:
        _warn_of_living(done.alive, as_json=target.json)


def _of_store(target: Target) -> Target:
    """Have an explicit --url win over the store of $DULY_APP's program: no task is needed here."""
    whole = of_all_tenants(target)
    if target.url is None or target.app is not None:
        return whole
    return replace(whole, app="")


def _exported(done: Export, where: str) -> str:
    return (
        f"Exported {_listed(done.counts)} of {done.source} to {where}, as of"
        f" {utc_text(done.as_of)}. Tokens and the audit trail stay where they are."
    )


def _imported(done: Import) -> str:
    if done.is_repeated:
        return f"This export of {done.source} was imported before: nothing was changed."
    verb = "Would import" if done.is_dry_run else "Imported"
    left = f"; left out {_listed(done.skipped)}" if done.skipped else ""
    said = f"{verb} {_listed(done.taken)} of {done.source}, as of {utc_text(done.as_of)}{left}."
    return f"{said} Nothing was changed (--dry-run)." if done.is_dry_run else said


def _warn_of_living(alive: int, *, as_json: bool) -> None:
    members = (
        "1 dispatcher or worker was" if alive == 1 else f"{alive} dispatchers and workers were"
    )
    print_aside(
        "warning",
        f"{members} alive at the source: this is a backup. Where both stores go on, both fire; to"
        " move, stop them all and use duly export --stopped",
        as_json=as_json,
    )


_NOUNS = {"queue": "paused queue", "delayed": "delayed run", "slot": "backfilled occurrence"}


def _listed(counts: dict[str, int]) -> str:
    """Return how many there are of what: `2 schedules, 1 run`."""
    parts: list[str] = []
    for kind, count in counts.items():
        noun = _NOUNS.get(kind, kind.replace("-", " "))
        if count and kind != "worker":
            parts.append(f"{count:,} {noun}{'' if count == 1 else 's'}")
    return ", ".join(parts) or "nothing"
