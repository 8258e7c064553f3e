"""`duly owner`: who is gone, so that nothing fires for them until somebody takes over."""

from __future__ import annotations

from dataclasses import replace

from cyclopts import App

from duly.app import App as Application
from duly.cli.agreeing import counted, is_agreed, require_answer
from duly.cli.output import is_all_told, print_json, print_line, print_table
from duly.cli.target import Target, opened
from duly.cli.undoing import UNSAID, print_undo, undo_text
from duly.client.owners import GoneOwner
from duly.domain.time_texts import utc_text

TARGET = Target()
DECLINED, UNFINISHED = 1, 4
LISTED_MAX = 1_000
SHOWN_MAX = 20

app = App(name="owner", help="Say which owners are gone: nothing fires for them.")


@app.command
def gone(  # noqa: PLR0913 - each choice is an option
    name: str,
    /,
    *,
    reason: str,
    dry_run: bool = False,
    yes: bool = False,
    target: Target = TARGET,
) -> int:
    """Say that an owner is gone: their schedules are paused, and nothing new is made for them.

    Nothing is deleted. Alerts tell of each schedule until somebody takes it over. Given again, the
    order goes on with whatever is still active; the exit code is 4 while something is.

    Parameters
    ----------
    name
        The owner, as schedules name them.
    reason
        Why; it is shown wherever the schedules are, and recorded.
    dry_run
        Show which schedules would be paused, and change nothing.
    yes
        Do not ask.
    """
    with opened(target, makes_store=False) as application:
        found = _firing(application, name)
        if dry_run:
            _tell(name, found, as_json=target.json)
            return 0
        if found and not yes:
            require_answer(len(found), noun="schedule")
            _print_firing(name, found)
            if not is_agreed("Pause", len(found), "schedule"):
                print_line("Nothing was changed.")
                return DECLINED
        answer = _carry_out(application, name, reason)
        taking_back = undo_text("owner", "back", name)
        if target.json:
            print_json({**answer.to_json(), "undo": taking_back})
        else:
            paused = counted(answer.paused, "schedule")
            print_line(f"{name} is gone. Paused {paused}; nothing new is made for them.")
            print_line(
                "To go on with one, give it to somebody: duly schedule edit SCHEDULE --owner WHO,"
                " then duly schedule resume SCHEDULE"
            )
            print_undo(taking_back)
            if answer.active:
                print_line(f"{counted(answer.active, 'schedule')} kept changing: say it again.")
        return UNFINISHED if answer.active else 0


@app.command
def back(name: str, /, *, reason: str | None = None, target: Target = TARGET) -> None:
    """Say that an owner is back; what was paused stays so until somebody resumes it.

    Parameters
    ----------
    name
        The owner.
    reason
        Why; it is recorded.
    """
    with opened(target, makes_store=False) as application:
        was = application.owners.back(name, reason=reason)
        resuming = undo_text("schedule", "resume", "--owner", name, "--reason", "back")
        taking_back = undo_text("owner", "gone", name, "--reason", UNSAID, "--yes")
        if target.json:
            print_json({**was.to_json(), "resume": resuming, "undo": taking_back})
            return
        print_line(f"{name} is back. What was paused stays paused.")
        print_line(("to resume all of theirs, after a look at them: ", "dim"), resuming)
        print_undo(taking_back)


@app.command(name="list")
def list_owners(*, limit: int = LISTED_MAX, target: Target = TARGET) -> None:
    """List owners who are gone, who said so, and how many schedules fire for them all the same.

    Parameters
    ----------
    limit
        At most so many, by name.
    """
    with opened(target, makes_store=False) as application:
        found = application.owners.list(limit=limit)
        if is_all_told(found, "No owner is gone.", as_json=target.json):
            return
        rows = [(one.owner, utc_text(one.gone_at), one.said_by, str(one.active)) for one in found]
        print_table(("owner", "gone since", "said by", "still active"), rows)


def _firing(application: Application, owner: str) -> list[str]:
    """Return the names of an owner's schedules that fire, or will again by themselves."""
    return [
        one.name
        for one in application.schedules.list(owner=owner)
        if one.status == "active" or (one.status == "paused" and one.resume_at is not None)
    ]


def _carry_out(application: Application, owner: str, reason: str) -> GoneOwner:
    """Give the order until nothing is left, or it does not get on."""
    paused = 0
    while True:
        answer = application.owners.gone(owner, reason=reason)
        paused += answer.paused
        if not (answer.active and answer.paused):
            return replace(answer, paused=paused)


def _tell(owner: str, names: list[str], *, as_json: bool) -> None:
    if as_json:
        print_json({"owner": owner, "would_pause": names})
        return
    _print_firing(owner, names)
    print_line("Nothing was changed.")


def _print_firing(owner: str, names: list[str]) -> None:
    print_line(f"{counted(len(names), 'schedule')} of {owner} would be paused:")
    for name in names[:SHOWN_MAX]:
        print_line(f"  {name}")
    if len(names) > SHOWN_MAX:
        print_line(f"  … and {len(names) - SHOWN_MAX:,} more; --dry-run --json names all of them")
