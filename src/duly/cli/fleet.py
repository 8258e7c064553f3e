"""Commands about queues, workers and owners."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from difflib import get_close_matches

from cyclopts import App

from duly.app import App as Application
from duly.cli.confirm import (
    UNSAID,
    confirm,
    counted,
    print_undo,
    require_confirmation,
    undo_command,
)
from duly.cli.context import Target, open_app
from duly.cli.output import (
    TIMED_OUT,
    PollTimer,
    print_aside,
    print_empty_or_json,
    print_json,
    print_line,
    print_table,
    ticker,
)
from duly.cli.services import worker
from duly.client.limits import GoneOwner, Queue
from duly.client.status import MemberStatus
from duly.timetable.instants import distance_text, utc_text

TARGET = Target()
DECLINED, UNFINISHED = 1, 4
LISTED_MAX = 1_000
SHOWN_MAX = 20

owner_app = App(name="owner", help="Say which owners are gone: nothing fires for them.")


@owner_app.command
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
    with open_app(target, makes_store=False) as application:
        found = _firing(application, name)
        if not found:
            _note_unknown_owner(application, name, as_json=target.json)
        if dry_run:
            _tell(name, found, as_json=target.json)
            return 0
        if found and not yes:
            require_confirmation(len(found), noun="schedule")
            _print_firing(name, found)
            if not confirm("Pause", len(found), "schedule"):
                print_line("Nothing was changed.")
                return DECLINED
        answer = _carry_out(application, name, reason)
        taking_back = undo_command("owner", "back", name)
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


@owner_app.command
def back(name: str, /, *, reason: str | None = None, target: Target = TARGET) -> None:
    """Say that an owner is back; what was paused stays so until somebody resumes it.

    Parameters
    ----------
    name
        The owner.
    reason
        Why; it is recorded.
    """
    with open_app(target, makes_store=False) as application:
        was = application.owners.back(name, reason=reason)
        resuming = undo_command("schedule", "resume", "--owner", name, "--reason", "back")
        taking_back = undo_command("owner", "gone", name, "--reason", UNSAID, "--yes")
        if target.json:
            print_json({**was.to_json(), "resume": resuming, "undo": taking_back})
            return
        print_line(f"{name} is back. What was paused stays paused.")
        print_line(("to resume all of theirs, after a look at them: ", "dim"), resuming)
        print_undo(taking_back)


@owner_app.command(name="list")
def list_owners(*, limit: int = LISTED_MAX, target: Target = TARGET) -> None:
    """List owners who are gone, who said so, and how many schedules fire for them all the same.

    Parameters
    ----------
    limit
        At most so many, by name.
    """
    with open_app(target, makes_store=False) as application:
        found = application.owners.list(limit=limit)
        if print_empty_or_json(found, "No owner is gone.", as_json=target.json):
            return
        rows = [(one.owner, utc_text(one.gone_at), one.said_by, str(one.active)) for one in found]
        print_table(("owner", "gone since", "said by", "still active"), rows)


def _note_unknown_owner(application: Application, owner: str, *, as_json: bool) -> None:
    """Say that no schedule was made for an owner, who may be called otherwise."""
    if application.schedules.list(owner=owner, include_deleted=True):
        return
    owners = {one.owner for one in application.schedules.list() if one.owner is not None}
    close = get_close_matches(owner, sorted(owners), n=1)
    like = f"did you mean {close[0]}?" if close else "is it spelled right?"
    print_aside("note", f"no schedule is on record for {owner}; {like}", as_json=as_json)


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


DRAINED = "drained"
"""Why a queue is paused that somebody drains and says no more about."""

queue_app = App(name="queue", help="Look at queues; pause, resume and drain them.")


@queue_app.command(name="list")
def list_queues(*, target: Target = TARGET) -> None:
    """List queues that hold something or are paused, with the age of what waits longest."""
    with open_app(target, makes_store=False) as application:
        found = application.queues.list()
        if print_empty_or_json(
            found, "No queue holds anything, and none is paused.", as_json=target.json
        ):
            return
        now = application.status().now
        headings = ("queue", "queued", "running", "oldest waits for", "paused by", "since", "why")
        print_table(headings, [_row(one, now) for one in found])


@queue_app.command
def pause(name: str, /, *, reason: str, target: Target = TARGET) -> None:
    """Hand out nothing from a queue; what is running goes on, what comes in waits.

    Parameters
    ----------
    name
        The queue.
    reason
        Why; it is shown wherever its runs are asked about, and recorded.
    """
    with open_app(target, makes_store=False) as application:
        is_unheard_of = _is_unheard_of(application, name)
        paused = application.queues.pause(name, reason=reason)
        taking_back = undo_command("queue", "resume", name)
        if target.json:
            print_json({**paused.to_json(), "undo": taking_back})
            return
        print_line(f"Paused queue {name}. {_waiting(paused)}; {_running(paused)}.")
        print_undo(taking_back)
        if is_unheard_of:
            _note_unheard_of(name)


@queue_app.command
def resume(name: str, /, *, reason: str | None = None, target: Target = TARGET) -> None:
    """Hand out from a paused queue again.

    Parameters
    ----------
    name
        The queue.
    reason
        Why.
    """
    with open_app(target, makes_store=False) as application:
        before = _find(application, name)
        resumed = application.queues.resume(name, reason=reason)
        was_paused = before is not None and before.is_paused
        why = (before.reason if before is not None else None) or UNSAID
        taking_back = undo_command("queue", "pause", name, "--reason", why) if was_paused else None
        if target.json:
            print_json({**resumed.to_json(), "was_paused": was_paused, "undo": taking_back})
            return
        if taking_back is None:
            print_line(f"Queue {name} was not paused. Nothing was changed.")
            return
        print_line(f"Resumed queue {name}. {_waiting(resumed)}.")
        print_undo(taking_back)


@queue_app.command
def drain(
    name: str, /, *, reason: str = DRAINED, timeout: str | None = None, target: Target = TARGET
) -> int:
    """Pause a queue, and wait until nothing of it runs any more; it stays paused.

    The exit code is 124 when the time is up before that.

    Parameters
    ----------
    name
        The queue.
    reason
        Why; it is recorded.
    timeout
        How long to wait at the most: 30s, 10m. Without it, for ever.
    """
    patience = PollTimer(timeout)
    with open_app(target, makes_store=False) as application:
        is_unheard_of = _is_unheard_of(application, name)
        queue: Queue | None = application.queues.pause(name, reason=reason)
        with ticker() as told:
            while queue is not None and queue.running:
                told.tell(f"queue {name}: {_running(queue)}")
                if not patience.wait():
                    break
                queue = _find(application, name)
        running = 0 if queue is None else queue.running
        taking_back = undo_command("queue", "resume", name)
        if target.json:
            known = {"name": name} if queue is None else queue.to_json()
            print_json({**known, "is_drained": not running, "undo": taking_back})
        else:
            end = "is drained: nothing of it runs" if not running else f"is paused; {running:,} run"
            waiting = "" if queue is None else f" {_waiting(queue)}."
            print_line(f"Queue {name} {end}.{waiting}")
            print_undo(taking_back)
            if is_unheard_of:
                _note_unheard_of(name)
        return TIMED_OUT if running else 0


def _find(application: Application, name: str) -> Queue | None:
    return next((one for one in application.queues.list() if one.name == name), None)


def _is_unheard_of(application: Application, name: str) -> bool:
    """Say whether no run that is on record was ever in a queue of that name."""
    return _find(application, name) is None and not application.runs.list(queue=name, limit=1)


def _note_unheard_of(name: str) -> None:
    print_line(
        ("note: ", "bold yellow"),
        f"nothing was ever queued under the name {name}; is it spelled right? See duly queue list",
    )


def _waiting(queue: Queue) -> str:
    return "1 run waits" if queue.queued == 1 else f"{queue.queued:,} runs wait"


def _running(queue: Queue) -> str:
    if not queue.running:
        return "nothing of it runs"
    return "1 run goes on" if queue.running == 1 else f"{queue.running:,} runs go on"


def _row(queue: Queue, now: datetime) -> tuple[str, ...]:
    return (
        queue.name,
        f"{queue.queued:,}",
        f"{queue.running:,}",
        "-" if queue.oldest_at is None else distance_text(queue.oldest_at, now),
        queue.paused_by or ("somebody" if queue.is_paused else "-"),
        utc_text(queue.paused_at),
        queue.reason or "-",
    )


worker_app = App(name="worker", help="Execute queued runs; list workers, drain or quarantine them.")
worker_app.default(worker)


@worker_app.command(name="list")
def list_workers(*, target: Target = TARGET) -> None:
    """List workers that are alive, and those that are out of service."""
    with open_app(target, makes_store=False) as application:
        found, hosts = application.workers.list(), application.workers.quarantined_hosts()
        now = application.status().now
    if target.json:
        listed = [one.to_json() for one in found]
        print_json({"workers": listed, "quarantined_hosts": [one.to_json() for one in hosts]})
        return
    if not found:
        print_line("No worker is alive.")
    else:
        headings = ("worker", "host, process", "standing", "slots busy", "queues", "since")
        rows = [
            (
                str(one.id),
                f"{one.host}, {one.process}",
                one.standing or "in service",
                f"{one.running} of {one.slots}",
                ", ".join(one.queues) or "all",
                distance_text(one.started_at, now),
            )
            for one in found
        ]
        print_table(headings, rows)
    for host in hosts:
        why = "" if host.reason is None else f": {host.reason}"
        print_line(f"Host {host.host} is in quarantine, by {host.by}{why}.")


@worker_app.command(name="drain")
def drain_worker(worker: int, /, *, reason: str, target: Target = TARGET) -> None:
    """Let a worker claim nothing more, and end when what it holds is done.

    Parameters
    ----------
    worker
        Its number: duly worker list.
    reason
        Why; it is recorded.
    """
    with open_app(target, makes_store=False) as application:
        done = application.workers.drain(worker, reason=reason)
    _print_worker_order(done, f"Draining {_who(done)}", "; it ends when they are done", target)


@worker_app.command
def quarantine(  # noqa: PLR0913 - options of a command
    worker: int,
    /,
    *,
    reason: str,
    fence: bool = False,
    host: bool = False,
    target: Target = TARGET,
) -> None:
    """Let a worker claim nothing more until it is released; it stays, to be looked at.

    Parameters
    ----------
    worker
        Its number: duly worker list.
    reason
        Why; it is recorded.
    fence
        Take from it what it holds, as from one that has died: its runs are tried again by their
        budget; those that had begun an effect which may not be repeated wait for a person.
    host
        All workers of its host, and those that are started there from now on.
    """
    with open_app(target, makes_store=False) as application:
        done = application.workers.quarantine(worker, fence=fence, host=host, reason=reason)
    held = "; they are taken from it" if fence else "; it may finish them"
    also = f" and every other worker of {done.host}" if host else ""
    words = ("--host",) if host else ()
    _print_worker_order(done, f"Quarantined {_who(done)}{also}", held, target, *words)


@worker_app.command
def release(
    worker: int,
    /,
    *,
    host: bool = False,
    reason: str | None = None,
    target: Target = TARGET,
) -> None:
    """Let a worker claim again.

    Parameters
    ----------
    worker
        Its number: duly worker list.
    host
        All workers of its host.
    reason
        Why.
    """
    with open_app(target, makes_store=False) as application:
        done = application.workers.release(worker, host=host, reason=reason)
    if target.json:
        print_json(done.to_json())
        return
    whole = f" and every other worker of {done.host}" if host else ""
    print_line(f"W{_who(done)[1:]}{whole} may claim again.")


def _print_worker_order(
    done: MemberStatus, what: str, rest: str, target: Target, *words: str
) -> None:
    taking_back = undo_command("worker", "release", str(done.id), *words)
    if target.json:
        print_json({**done.to_json(), "undo": taking_back})
        return
    runs = "1 run" if done.running == 1 else f"{done.running} runs"
    held = f" It holds {runs}{rest}." if done.running else " It holds nothing."
    print_line(f"{what}: it claims nothing more.{held}")
    print_undo(taking_back)


def _who(done: MemberStatus) -> str:
    return f"worker {done.id} ({done.host}, process {done.process})"
