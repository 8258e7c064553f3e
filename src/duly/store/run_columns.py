"""What has become of a run, as columns that both databases read alike.

They speak of a run `r` beside the places it may be in: outcomes `o`, claims `c`, waiting `w`, dead
letters `x`, those that wait at a gate `b`, those in doubt `u`, and of the queue `y` only what was
claimed before, since others have no tries.
"""

from __future__ import annotations

RUN_STATE = """coalesce(o.state, CASE WHEN x.run_id IS NOT NULL THEN 'dead'
        WHEN w.run_id IS NOT NULL THEN 'retrying' WHEN c.run_id IS NOT NULL THEN 'running'
        WHEN b.run_id IS NOT NULL THEN 'blocked' WHEN u.run_id IS NOT NULL THEN 'ambiguous'
        ELSE 'queued' END)"""
"""A run's state by the place it is in."""

RUN_REASON = """coalesce(o.reason, x.reason, w.reason, u.reason,
        CASE WHEN substr(b.gate, 1, 4) = 'cap:' THEN 'cap ' || substr(b.gate, 5)
            WHEN b.run_id IS NOT NULL THEN 'overlap' END)"""
"""Why it is there; of one that waits at a gate, as `gates.blocked_reason` says it."""

RUN_BECAME = f"""{RUN_STATE}, {RUN_REASON}, o.finished_at,
    coalesce(o.fence, c.fence, w.fence, x.fence, b.fence, u.fence, y.fence, 0),
    coalesce(o.attempt, c.attempt, w.attempt, x.attempt, b.attempt, u.attempt, y.attempt, 0),
    coalesce(o.charged, c.charged, w.charged, x.charged, b.charged, u.charged, y.charged, 0),
    coalesce(o.begun_at, c.begun_at, w.begun_at, x.begun_at, b.begun_at, u.begun_at, y.begun_at),
    coalesce(o.worker, c.worker), coalesce(o.claimed_at, c.claimed_at),
    coalesce(o.started_at, c.started_at), coalesce(o.progress_done, c.progress_done),
    coalesce(o.progress_total, c.progress_total), coalesce(o.progress_note, c.progress_note),
    coalesce(o.cancel_asked_at, c.cancel_asked_at), w.due_at"""
"""From its state to when its next attempt falls due, in the order that `records` reads them."""

RUN_VITALS = f"""r.task, r.origin, r.lane, r.scheduled_for, r.not_before, r.fired_at,
    {RUN_STATE}, {RUN_REASON}, o.finished_at,
    coalesce(o.attempt, c.attempt, w.attempt, x.attempt, b.attempt, u.attempt, y.attempt, 0),
    coalesce(o.begun_at, c.begun_at, w.begun_at, x.begun_at, b.begun_at, u.begun_at, y.begun_at),
    coalesce(o.worker, c.worker), coalesce(o.claimed_at, c.claimed_at),
    coalesce(o.started_at, c.started_at), coalesce(o.progress_done, c.progress_done),
    coalesce(o.progress_total, c.progress_total), coalesce(o.progress_at, c.progress_at),
    w.due_at, m.renewed_at,
    coalesce(CASE WHEN o.worker IS NOT NULL THEN o.finished_at END, e.ended_at),
    v.finding, v.at, CASE WHEN o.state = 'failed' THEN o.state ELSE a.state END,
    CASE WHEN o.state = 'failed' THEN o.reason ELSE a.reason END,
    {{0}}(CASE WHEN o.state = 'failed' THEN coalesce(o.error, a.error) ELSE a.error END, {{1}}),
    CASE WHEN o.state = 'failed' THEN o.finished_at ELSE a.ended_at END"""
"""Of vitals, all but the ids, in the order that `records.run_vital` reads them; beside the places
the worker `m` that holds the run, its last attempt `e`, its last that went wrong `a`, and its last
verdict `v`. To be filled in: how a database takes the end of a text."""
