"""`duly queue`: what waits where, and which queues hand out nothing."""

from __future__ import annotations

from datetime import datetime

from cyclopts import App

from duly.app import App as Application
from duly.cli.output import is_all_told, print_json, print_line, print_table
from duly.cli.target import Target, opened
from duly.cli.undoing import UNSAID, print_undo, undo_text
from duly.cli.waiting import TIMED_OUT, Patience, ticker
from duly.client.queues import Queue
from duly.domain.time_texts import distance_text, utc_text

TARGET = Target()
DRAINED = "drained"
"""Why a queue is paused that somebody drains and says no more about."""

app = App(name="queue", help="Look at queues; pause, resume and drain them.")


@app.command(name="list")
def list_queues(*, target: Target = TARGET) -> None:
    """List queues that hold something or are paused, with the age of what waits longest."""
    with opened(target, makes_store=False) as application:
        found = application.queues.list()
        if is_all_told(found, "No queue holds anything, and none is paused.", as_json=target.json):
            return
        now = application.status().now
        headings = ("queue", "queued", "running", "oldest waits for", "paused by", "since", "why")
        print_table(headings, [_row(one, now) for one in found])


@app.command
def pause(name: str, /, *, reason: str, target: Target = TARGET) -> None:
    """Hand out nothing from a queue; what is running goes on, what comes in waits.

    Parameters
    ----------
    name
        The queue.
    reason
        Why; it is shown wherever its runs are asked about, and recorded.
    """
    with opened(target, makes_store=False) as application:
        is_unheard_of = _is_unheard_of(application, name)
        paused = application.queues.pause(name, reason=reason)
        taking_back = undo_text("queue", "resume", name)
        if target.json:
            print_json({**paused.to_json(), "undo": taking_back})
            return
        print_line(f"Paused queue {name}. {_waiting(paused)}; {_running(paused)}.")
        print_undo(taking_back)
        if is_unheard_of:
            _note_unheard_of(name)


@app.command
def resume(name: str, /, *, reason: str | None = None, target: Target = TARGET) -> None:
    """Hand out from a paused queue again.

    Parameters
    ----------
    name
        The queue.
    reason
        Why.
    """
    with opened(target, makes_store=False) as application:
        before = _find(application, name)
        resumed = application.queues.resume(name, reason=reason)
        was_paused = before is not None and before.is_paused
        why = (before.reason if before is not None else None) or UNSAID
        taking_back = undo_text("queue", "pause", name, "--reason", why) if was_paused else None
        if target.json:
            print_json({**resumed.to_json(), "was_paused": was_paused, "undo": taking_back})
            return
        if taking_back is None:
            print_line(f"Queue {name} was not paused. Nothing was changed.")
            return
        print_line(f"Resumed queue {name}. {_waiting(resumed)}.")
        print_undo(taking_back)


@app.command
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
    patience = Patience(timeout)
    with opened(target, makes_store=False) as application:
        is_unheard_of = _is_unheard_of(application, name)
        queue: Queue | None = application.queues.pause(name, reason=reason)
        with ticker() as told:
            while queue is not None and queue.running:
                told.tell(f"queue {name}: {_running(queue)}")
                if not patience.wait():
                    break
                queue = _find(application, name)
        running = 0 if queue is None else queue.running
        taking_back = undo_text("queue", "resume", name)
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
