"""`duly audit …`: who did what, when, why and from where; and whether that was tampered with."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

from duly.app import App as Application
from duly.cli.audit_table import print_entries
from duly.cli.moments import read_moment
from duly.cli.output import print_aside, print_json, print_line
from duly.cli.target import Target, named_tenant, of_all_tenants, opened
from duly.cli.waiting import ticker
from duly.client.history import HistoryEntry
from duly.client.sealing import ExportedTrail, Verified, verify_file
from duly.clock import SystemClock
from duly.domain.sealing import Tampering
from duly.errors import UsageError
from duly.store.reading import PAGE_MAX

TARGET = Target()
NUMBER_DEFAULT = 20
STANDARD = "-"
TRACES_SHOWN = 20
TAMPERED = 1


app = App(name="audit", help="Show who did what, when and why; verify that nobody changed it.")


@app.default
def audit(  # noqa: PLR0913 - each filter is an argument
    *,
    subject: Annotated[str | None, Parameter(name=["--subject", "--object"])] = None,
    actor: str | None = None,
    action: str | None = None,
    since: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    until: Annotated[
        str | None, Parameter(name=["--until", "--as-of"], allow_leading_hyphen=True)
    ] = None,
    number: Annotated[int, Parameter(name=["--number", "-n"])] = NUMBER_DEFAULT,
    target: Target = TARGET,
) -> None:
    """Show what was ordered and decided, newest first; what the system did by itself too.

    Parameters
    ----------
    subject
        Only about this: a schedule's name, a delayed run's key, a run's id.
    actor
        Only by this person or program; the system's own name is duly.
    action
        Only this, such as schedule.paused.
    since
        Only what was recorded at this moment or later: an ISO time, today, -2h.
    until
        Only what was recorded before this moment: the trail as it was then.
    number
        How many entries to show at the most.
    """
    if not 1 <= number <= PAGE_MAX:
        raise UsageError("number", number, "is out of range", f"give 1 to {PAGE_MAX:,}")
    terms: dict[str, Any] = {"subject": subject, "actor": actor, "action": action}
    for name, text in (("since", since), ("until", until)):
        if text is not None:
            terms[name] = read_moment(text, "UTC", SystemClock(), name)
    with opened(target, makes_store=False) as application:
        entries = newest_entries(application, number, terms, is_whole=named_tenant(target) is None)
        if target.json:
            print_json([entry.to_json() for entry in entries])
        else:
            print_entries(entries, has_subject=True)


@app.command
def verify(
    file: str | None = None, /, *, known: str | None = None, target: Target = TARGET
) -> int | None:
    """Compare the audit trail with its seals; what was changed, removed or inserted is named.

    Parameters
    ----------
    file
        What `duly audit export` wrote; else the trail of the store.
    known
        The head that an earlier look told: its number and hash. Also a chain that was made anew is
        found then.
    """
    if file is not None:
        found = verify_file(file, known)
    else:
        with (
            opened(of_all_tenants(target), makes_store=False, needs_store=True) as application,
            ticker() as line,
        ):
            tell = line.counting("entries compared")
            found = application.audit.verify(known=known, tell=tell)
    if target.json:
        print_json(found.to_json())
    else:
        _print_verified(found)
    return None if found.is_sound else TAMPERED


@app.command
def export(file: str = STANDARD, /, *, target: Target = TARGET) -> None:
    """Write the whole audit trail with its seals, as JSON lines: `duly audit verify FILE` reads it.

    Parameters
    ----------
    file
        Where to; "-" is the standard output.
    """
    with opened(of_all_tenants(target), makes_store=False, needs_store=True) as application:
        to = sys.stdout.buffer if file == STANDARD else Path(file)
        with ticker() as line:
            done = application.audit.export(to, tell=line.counting("entries written"))
    if file == STANDARD:
        print_aside("note", _exported(done, "the standard output"), as_json=target.json)
    elif target.json:
        print_json(done.to_json())
    else:
        print_line(_exported(done, file))


def _exported(done: ExportedTrail, where: str) -> str:
    head = "" if done.head is None else f" Its head is {done.head}."
    counts = f"{_counted(done.entries, 'entry', 'entries')} and {_counted(done.seals, 'seal')}"
    return f"Exported {counts} of {done.source} to {where}.{head}"


def _print_verified(found: Verified) -> None:
    for one in found.traces[:TRACES_SHOWN]:
        what = "seal" if one.kind is Tampering.SEAL else f"{one.kind}: entry"
        print_line(f"{what} {one.number} {one.problem}")
    if len(found.traces) > TRACES_SHOWN:
        print_line(f"… and {len(found.traces) - TRACES_SHOWN:,} more: see --json")
    sealed = f"{_counted(found.entries, 'entry', 'entries')} under {_counted(found.seals, 'seal')}"
    young = f", {found.unsealed:,} not sealed yet" if found.unsealed else ""
    if found.uncovered:
        told = _counted(found.uncovered, "entry tells", "entries tell")
        print_line(
            f"{told} an address or credential that its seal, of an older program, leaves out"
        )
    verdict = "sound" if found.is_sound else "TAMPERED WITH"
    print_line(f"{found.source}: {verdict}. {sealed}{young}.")
    if found.head is not None:
        print_line(f"Head: {found.head} (keep it elsewhere; later: --known)")


def _counted(count: int, noun: str, nouns: str | None = None) -> str:
    return f"{count:,} {noun if count == 1 else nouns or noun + 's'}"


def newest_entries(
    application: Application, number: int, terms: dict[str, Any], *, is_whole: bool
) -> list[HistoryEntry]:
    """Return so many entries, page by page: a page may be short while there is more."""
    found: list[HistoryEntry] = []
    cursor: str | None = None
    while True:
        limit = number - len(found)
        page = application.audit.page(**terms, all_tenants=is_whole, limit=limit, cursor=cursor)
        found += page.items
        cursor = page.next_cursor
        if cursor is None or len(found) >= number:
            return found
