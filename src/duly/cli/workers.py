"""`duly worker …`: executes runs; lists workers, and takes them out of service and back (A1)."""

from __future__ import annotations

from cyclopts import App

from duly.cli.output import print_json, print_line, print_table
from duly.cli.target import Target, opened
from duly.cli.undoing import print_undo, undo_text
from duly.cli.worker import worker
from duly.client.status_view import MemberStatus
from duly.domain.time_texts import distance_text

TARGET = Target()

app = App(name="worker", help="Execute queued runs; list workers, drain or quarantine them.")
app.default(worker)


@app.command(name="list")
def list_workers(*, target: Target = TARGET) -> None:
    """List workers that are alive, and those that are out of service."""
    with opened(target, makes_store=False) as application:
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


@app.command
def drain(worker: int, /, *, reason: str, target: Target = TARGET) -> None:
    """Let a worker claim nothing more, and end when what it holds is done.

    Parameters
    ----------
    worker
        Its number: duly worker list.
    reason
        Why; it is recorded.
    """
    with opened(target, makes_store=False) as application:
        done = application.workers.drain(worker, reason=reason)
    _tell(done, f"Draining {_who(done)}", "; it ends when they are done", target)


@app.command
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
    with opened(target, makes_store=False) as application:
        done = application.workers.quarantine(worker, fence=fence, host=host, reason=reason)
    held = "; they are taken from it" if fence else "; it may finish them"
    also = f" and every other worker of {done.host}" if host else ""
    words = ("--host",) if host else ()
    _tell(done, f"Quarantined {_who(done)}{also}", held, target, *words)


@app.command
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
    with opened(target, makes_store=False) as application:
        done = application.workers.release(worker, host=host, reason=reason)
    if target.json:
        print_json(done.to_json())
        return
    whole = f" and every other worker of {done.host}" if host else ""
    print_line(f"W{_who(done)[1:]}{whole} may claim again.")


def _tell(done: MemberStatus, what: str, rest: str, target: Target, *words: str) -> None:
    taking_back = undo_text("worker", "release", str(done.id), *words)
    if target.json:
        print_json({**done.to_json(), "undo": taking_back})
        return
    runs = "1 run" if done.running == 1 else f"{done.running} runs"
    held = f" It holds {runs}{rest}." if done.running else " It holds nothing."
    print_line(f"{what}: it claims nothing more.{held}")
    print_undo(taking_back)


def _who(done: MemberStatus) -> str:
    return f"worker {done.id} ({done.host}, process {done.process})"
