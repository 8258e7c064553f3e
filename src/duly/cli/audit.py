"""Commands about what happened: audit, events, prove."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from duly.app import App as Application
from duly.cli.context import Target, is_server, named_tenant, of_all_tenants, open_app
from duly.cli.output import (
    PollTimer,
    json_line,
    neutral,
    print_aside,
    print_json,
    print_line,
    print_table,
    ticker,
)
from duly.cli.references import find_schedule
from duly.cli.times import exact_text, read_local_moment, zoned_text
from duly.client.schedule_history import HistoryEntry
from duly.domain.audit import Tampering
from duly.domain.verification import ProofStatus
from duly.errors import UsageError
from duly.store.ports.queries import PAGE_MAX
from duly.timetable.instants import utc_text

if TYPE_CHECKING:
    from duly.client.audit import ExportedTrail, Verified
    from duly.client.vitals import Proof, ProvenOccurrence

CHANGES_SHOWN_MAX = 4
VALUE_SHOWN_MAX = 40
_LEFT_OUT = frozenset({"version", "generation", "next_due", "held_for", "reason"})
"""Changes with every order, or is told in a column of its own."""


def print_entries(entries: Sequence[HistoryEntry], *, has_subject: bool) -> None:
    """Print audit entries, in the order given."""
    headings = ["when (UTC)", "who", "from", "action", "reason", "change"]
    if has_subject:
        headings.insert(4, "subject")
    rows = []
    for entry in entries:
        row = [
            utc_text(entry.at),
            entry.actor,
            source_text(entry),
            entry.action,
            entry.reason or "-",
            change_text(entry.before, entry.after),
        ]
        if has_subject:
            row.insert(4, subject_text(entry))
        rows.append(row)
    if not rows:
        print_line("Nothing is recorded.")
        return
    print_table(headings, rows)


def subject_text(entry: HistoryEntry) -> str:
    """Say what an order was about, as people call it; the id of a run beside its label."""
    return entry.subject if entry.label is None else f"{entry.label} ({entry.subject})"


def source_text(entry: HistoryEntry) -> str:
    """Say from where an order came: by which way, and over the network from which address."""
    return entry.source if entry.address is None else f"{entry.source}, {entry.address}"


def change_text(before: dict[str, Any] | None, after: dict[str, Any] | None) -> str:
    """Say what an order changed: "status: active → paused"."""
    changed = [f"{key}: {_shown(old)} → {_shown(new)}" for key, old, new in changes(before, after)]
    more = ", …" if len(changed) > CHANGES_SHOWN_MAX else ""
    return ", ".join(changed[:CHANGES_SHOWN_MAX]) + more if changed else "-"


def changes(
    before: dict[str, Any] | None, after: dict[str, Any] | None
) -> list[tuple[str, Any, Any]]:
    """Return each field that an order changed, with its value before and after."""
    if before is None or after is None:
        return []
    old, new = flat_facts(before), flat_facts(after)
    return [
        (key, old.get(key), new.get(key))
        for key in dict.fromkeys((*old, *new))
        if old.get(key) != new.get(key) and key not in _LEFT_OUT
    ]


def flat_facts(facts: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return facts without nesting; a definition's parts are called by their own names."""
    flat: dict[str, Any] = {}
    for key, value in facts.items():
        name = key if key != "definition" else ""
        if isinstance(value, dict) and key != "arguments":
            flat |= flat_facts(value, f"{name}." if name else "")
        elif prefix != "timetable." or key != "words":
            flat[f"{prefix}{key}"] = value
    return flat


def _shown(value: object) -> str:
    text = "none" if value is None else str(value)
    return text if len(text) <= VALUE_SHOWN_MAX else f"{text[:VALUE_SHOWN_MAX]}…"


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
    number: Annotated[int, Parameter(name=["--limit", "-n"])] = NUMBER_DEFAULT,
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
        raise UsageError("limit", number, "is out of range", f"give 1 to {PAGE_MAX:,}")
    terms: dict[str, Any] = {"subject": subject, "actor": actor, "action": action}
    for name, text in (("since", since), ("until", until)):
        if text is not None:
            terms[name] = read_local_moment(text, name, as_json=target.json)
    with open_app(target, makes_store=False) as application:
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
        from duly.client.audit import verify_file

        found = verify_file(file, known)
    else:
        with (
            open_app(of_all_tenants(target), makes_store=False, needs_store=True) as application,
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
    with open_app(of_all_tenants(target), makes_store=False, needs_store=True) as application:
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
    for sentence in found.undecided:
        print_line(sentence)
    sound = "sound as far as can be told" if found.undecided else "sound"
    print_line(f"{found.source}: {sound if found.is_sound else 'TAMPERED WITH'}. {sealed}{young}.")
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


def events(
    *,
    follow: Annotated[bool, Parameter(name=["--follow", "-f"])] = False,
    after: int | None = None,
    number: Annotated[int, Parameter(name=["--limit", "-n"])] = NUMBER_DEFAULT,
    target: Target = TARGET,
) -> None:
    """Show what was ordered and decided, oldest first: by people, programs and the system itself.

    With --json each is a document on a line of its own. Each has a number; whoever was interrupted
    goes on with --after and the last number that was seen, and misses nothing.

    Parameters
    ----------
    follow
        Go on, and show what comes until Ctrl-C.
    after
        Only those after this number; 0 for all there are. Else the last ones.
    number
        How many of the last ones to show first.
    """
    if not 0 <= number <= PAGE_MAX:
        raise UsageError("limit", number, "is out of range", f"give 0 to {PAGE_MAX:,}")
    with open_app(target, makes_store=False) as app:
        is_whole = named_tenant(target) is None
        if after is None:
            after = app.events.after(None, all_tenants=is_whole).through
            found = newest_entries(app, number, {}, is_whole=is_whole) if number else []
            _print_events(
                [one for one in reversed(found) if one.number <= after], as_json=target.json
            )
            if not follow:
                return
        if follow and is_server(app):
            for one in app.events.follow(after, all_tenants=is_whole):  # type: ignore[attr-defined]
                _print_events([one], as_json=target.json)
        _show_from(app, after, target, is_followed=follow)


def _show_from(app: Application, after: int, target: Target, *, is_followed: bool) -> None:
    patience = PollTimer(None)
    while True:
        page = app.events.after(after, all_tenants=named_tenant(target) is None)
        _print_events(page.items, as_json=target.json)
        if page.through > after:
            after = page.through
            patience.renew()
        elif is_followed:
            patience.wait()
        else:
            return


def _print_events(entries: Sequence[HistoryEntry], *, as_json: bool) -> None:
    for one in entries:
        # An event is told as it happened: nobody looks up what its subject is called by now.
        told = replace(one, label=None)
        sys.stdout.write(json_line(told.to_json()) if as_json else _text(told))
    sys.stdout.flush()


def _text(entry: HistoryEntry) -> str:
    why = f": {entry.reason}" if entry.reason else ""
    by = f"{entry.actor} ({entry.source})"
    text = f"#{entry.number} {entry.action} {entry.subject} by {by}{why}"
    return f"{exact_text(entry.at)} {neutral(text)}\n"


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
    with open_app(target, makes_store=False) as app:
        proof = app.prove(find_schedule(app, schedule, by_beginning=True).id, day)
    if target.json:
        print_json(proof.to_json())
    else:
        _print_proof(proof)
    if proof.is_ambiguous:
        return AMBIGUOUS
    return PROVEN if proof.is_proven else NOT_PROVEN


def _print_proof(proof: Proof) -> None:
    where = f"{proof.schedule} on {proof.day.isoformat()} ({proof.tz})"
    if not proof.occurrences:
        print_line(f"{where}: nothing was expected on that day.")
        return
    coming = [one for one in proof.occurrences if one.standing == ProofStatus.EXPECTED]
    due = [one for one in proof.occurrences if one.standing != ProofStatus.EXPECTED]
    if all(one.standing == ProofStatus.PROVEN for one in due):
        verdict = ("not proven yet", "bold yellow") if coming else ("proven", "bold green")
    else:
        verdict = ("not proven", "bold red")
    print_line(f"{where}: ", verdict)
    if due:
        rows = [_row(one) for one in due]
        print_table(("occurrence", "standing", "items", "check", "runs", "why"), rows)
    if coming:
        first = zoned_text(coming[0].occurrence.scheduled_for, proof.tz)
        print_line(f"not due yet: {_counted(len(coming), 'occurrence')}, the next {first}")
    for one in due:
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
