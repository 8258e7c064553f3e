"""`duly prove`: whether a day's work completed, all of it and once."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from duly.cli.output import print_json, print_line, print_table
from duly.cli.references import find_schedule
from duly.cli.target import Target, opened
from duly.client.proving import Proof, ProvenOccurrence

TARGET = Target()
PROVEN, NOT_PROVEN, AMBIGUOUS = 0, 1, 6
MISSING_SHOWN_MAX = 20


def prove(
    schedule: str,
    /,
    *,
    day: Annotated[str, Parameter(name=("--for", "--day"))],
    target: Target = TARGET,
) -> int:
    """Say of each occurrence on a day whether all that it was to do is done, once.

    Exit code 0: proven; 1: not; 6: nobody knows what a run of it did.

    Parameters
    ----------
    schedule
        Its name or id.
    day
        The date in the schedule's own time zone, such as 2026-04-03.
    """
    with opened(target, makes_store=False) as app:
        proof = app.prove(find_schedule(app, schedule, by_beginning=True).id, day)
    if target.json:
        print_json(proof.to_json())
    else:
        _print(proof)
    if proof.is_ambiguous:
        return AMBIGUOUS
    return PROVEN if proof.is_proven else NOT_PROVEN


def _print(proof: Proof) -> None:
    where = f"{proof.schedule} on {proof.day.isoformat()} ({proof.tz})"
    if not proof.occurrences:
        print_line(f"{where}: nothing was expected on that day.")
        return
    verdict = ("proven", "bold green") if proof.is_proven else ("not proven", "bold red")
    print_line(f"{where}: ", verdict)
    rows = [_row(one) for one in proof.occurrences]
    print_table(("occurrence", "standing", "items", "check", "runs", "why"), rows)
    for one in proof.occurrences:
        _print_missing(one)


def _row(one: ProvenOccurrence) -> list[str]:
    scope = one.scope
    items = "-"
    if scope.is_known:
        items = f"{scope.done:,} of {'?' if scope.expected is None else f'{scope.expected:,}'}"
    runs = ", ".join(f"{run.origin} {run.state}" for run in one.runs) or "-"
    check = "-" if one.check is None else one.check.verdict
    return [one.occurrence.label, one.standing, items, check, runs, one.why]


def _print_missing(one: ProvenOccurrence) -> None:
    missing = one.scope.missing
    if not missing:
        return
    shown = ", ".join(missing[:MISSING_SHOWN_MAX])
    more = (
        f" … and {len(missing) - MISSING_SHOWN_MAX:,} more"
        if len(missing) > MISSING_SHOWN_MAX
        else ""
    )
    print_line(f"missing of {one.occurrence.label}: {shown}{more}")
