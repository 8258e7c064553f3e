-- Workers: claims, attempts, retries, dead letters, queues that are paused. Only adds, but for one
-- view, so that programs of schema 1 go on firing and pruning. What they queue begins with no tries.
-- Until they are gone they can't read that view in a lent transaction, and their `check` takes a run
-- that is claimed for one in no place.
-- compatible-with: 1

-- An open run is in one of four places: ready, claims, waiting, dead. Each carries its tries.
ALTER TABLE duly_ready ADD COLUMN fence INTEGER NOT NULL DEFAULT 0;
ALTER TABLE duly_ready ADD COLUMN attempt INTEGER NOT NULL DEFAULT 0;
ALTER TABLE duly_ready ADD COLUMN charged INTEGER NOT NULL DEFAULT 0;
ALTER TABLE duly_ready ADD COLUMN begun_at INTEGER;
-- From the schedule's state, for whoever claims it; NULL: to be looked up.
ALTER TABLE duly_ready ADD COLUMN schedule_name TEXT;
ALTER TABLE duly_ready ADD COLUMN arguments TEXT;
-- To find one that was claimed before; any other is found by what its run says. A run that is
-- claimed once and done never touches it.
CREATE INDEX duly_ready_again ON duly_ready (run_id) WHERE fence > 0;

-- As many rows as workers have slots; each lives for one attempt.
CREATE TABLE duly_claims (
    run_id BLOB PRIMARY KEY,
    worker INTEGER NOT NULL,
    fence INTEGER NOT NULL CHECK (fence > 0),
    attempt INTEGER NOT NULL,
    charged INTEGER NOT NULL,
    begun_at INTEGER NOT NULL,
    claimed_at INTEGER NOT NULL,
    -- By the task's time-out; NULL for none.
    deadline_at INTEGER,
    started_at INTEGER,
    cancel_asked_at INTEGER,
    progress_done INTEGER,
    progress_total INTEGER,
    progress_note TEXT,
    progress_at INTEGER,
    -- How many lines the attempt has written.
    lines INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

CREATE TABLE duly_waiting (
    run_id BLOB PRIMARY KEY,
    shard INTEGER NOT NULL,
    due_at INTEGER NOT NULL,
    fence INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    charged INTEGER NOT NULL,
    begun_at INTEGER,
    reason TEXT
) STRICT, WITHOUT ROWID;
-- Loading reads each shard in order of due.
CREATE INDEX duly_waiting_due ON duly_waiting (shard, due_at, run_id);

CREATE TABLE duly_dead (
    run_id BLOB PRIMARY KEY,
    fence INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    charged INTEGER NOT NULL,
    begun_at INTEGER,
    reason TEXT NOT NULL,
    died_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

INSERT INTO duly_tallies (name, count) VALUES ('retrying', 0), ('dead', 0);

-- Of a run that was closed: its tries, and of the claim that closed it (if one did: `worker`) what
-- an attempt tells.
ALTER TABLE duly_outcomes ADD COLUMN fence INTEGER NOT NULL DEFAULT 0;
ALTER TABLE duly_outcomes ADD COLUMN attempt INTEGER NOT NULL DEFAULT 0;
ALTER TABLE duly_outcomes ADD COLUMN charged INTEGER NOT NULL DEFAULT 0;
ALTER TABLE duly_outcomes ADD COLUMN begun_at INTEGER;
ALTER TABLE duly_outcomes ADD COLUMN worker INTEGER;
ALTER TABLE duly_outcomes ADD COLUMN claimed_at INTEGER;
ALTER TABLE duly_outcomes ADD COLUMN started_at INTEGER;
ALTER TABLE duly_outcomes ADD COLUMN cancel_asked_at INTEGER;
ALTER TABLE duly_outcomes ADD COLUMN progress_done INTEGER;
ALTER TABLE duly_outcomes ADD COLUMN progress_total INTEGER;
ALTER TABLE duly_outcomes ADD COLUMN progress_note TEXT;
ALTER TABLE duly_outcomes ADD COLUMN progress_at INTEGER;
ALTER TABLE duly_outcomes ADD COLUMN error TEXT;
ALTER TABLE duly_outcomes ADD COLUMN result TEXT;
ALTER TABLE duly_outcomes ADD COLUMN late_state TEXT;
ALTER TABLE duly_outcomes ADD COLUMN late_at INTEGER;
ALTER TABLE duly_outcomes ADD COLUMN late_error TEXT;
ALTER TABLE duly_outcomes ADD COLUMN late_result TEXT;

-- Claims that ended without closing their run.
CREATE TABLE duly_attempts (
    run_id BLOB NOT NULL,
    fence INTEGER NOT NULL,
    -- NULL: given back before it was started.
    number INTEGER,
    worker INTEGER NOT NULL,
    state TEXT NOT NULL,
    reason TEXT,
    claimed_at INTEGER NOT NULL,
    started_at INTEGER,
    cancel_asked_at INTEGER,
    ended_at INTEGER NOT NULL,
    progress_done INTEGER,
    progress_total INTEGER,
    progress_note TEXT,
    progress_at INTEGER,
    error TEXT,
    -- What its worker still said when it had been taken away.
    late_state TEXT,
    late_at INTEGER,
    late_error TEXT,
    late_result TEXT,
    PRIMARY KEY (run_id, fence)
) STRICT, WITHOUT ROWID;

-- Numbered per run.
CREATE TABLE duly_progress (
    run_id BLOB NOT NULL,
    number INTEGER NOT NULL,
    fence INTEGER NOT NULL,
    at INTEGER NOT NULL,
    done INTEGER NOT NULL,
    total INTEGER,
    note TEXT,
    PRIMARY KEY (run_id, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE duly_lines (
    run_id BLOB NOT NULL,
    number INTEGER NOT NULL,
    fence INTEGER NOT NULL,
    at INTEGER NOT NULL,
    level TEXT NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY (run_id, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE duly_checkpoints (
    run_id BLOB NOT NULL,
    partition TEXT NOT NULL,
    fence INTEGER NOT NULL,
    state TEXT NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (run_id, partition)
) STRICT, WITHOUT ROWID;

-- Also when a program of schema 1 prunes: what is told of a run goes with it.
CREATE TRIGGER duly_runs_pruned AFTER DELETE ON duly_runs BEGIN
    DELETE FROM duly_attempts WHERE run_id = OLD.id;
    DELETE FROM duly_progress WHERE run_id = OLD.id;
    DELETE FROM duly_lines WHERE run_id = OLD.id;
    DELETE FROM duly_checkpoints WHERE run_id = OLD.id;
END;

-- A row for each queue that is paused.
CREATE TABLE duly_queues (
    name TEXT PRIMARY KEY,
    paused_at INTEGER NOT NULL,
    paused_by TEXT NOT NULL,
    reason TEXT
) STRICT, WITHOUT ROWID;

-- Slots of tasks whose retries are spaced, as ranges without a gap: each retry takes one.
CREATE TABLE duly_retry_slots (
    task TEXT NOT NULL,
    first_at INTEGER NOT NULL,
    last_at INTEGER NOT NULL,
    PRIMARY KEY (task, first_at)
) STRICT, WITHOUT ROWID;

-- NULL: nobody has told.
ALTER TABLE duly_tasks ADD COLUMN policy TEXT;
ALTER TABLE duly_tasks ADD COLUMN timeout_us INTEGER;

ALTER TABLE duly_members ADD COLUMN slots INTEGER NOT NULL DEFAULT 0;
ALTER TABLE duly_members ADD COLUMN leaked INTEGER NOT NULL DEFAULT 0;
ALTER TABLE duly_members ADD COLUMN queues TEXT NOT NULL DEFAULT '[]';

CREATE TABLE duly_worker_tasks (
    task TEXT NOT NULL,
    worker INTEGER NOT NULL,
    PRIMARY KEY (task, worker)
) STRICT, WITHOUT ROWID;
-- For the trigger alone, which finds the rows of one worker.
CREATE INDEX duly_worker_tasks_worker ON duly_worker_tasks (worker);

-- Workers that are members no more: what their attempts tell stays readable (R2).
CREATE TABLE duly_workers (
    id INTEGER PRIMARY KEY,
    host TEXT NOT NULL,
    process INTEGER NOT NULL,
    started_at INTEGER NOT NULL,
    renewed_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    ended_at INTEGER
) STRICT;
CREATE INDEX duly_workers_expired ON duly_workers (expires_at);

-- Also when a program of schema 1 prunes.
CREATE TRIGGER duly_members_pruned AFTER DELETE ON duly_members BEGIN
    DELETE FROM duly_worker_tasks WHERE worker = OLD.id;
    INSERT OR IGNORE INTO duly_workers
    SELECT OLD.id, OLD.host, OLD.process, OLD.started_at, OLD.renewed_at, OLD.expires_at,
        OLD.ended_at WHERE OLD.kind = 'worker';
END;

DROP VIEW duly_public_runs;
CREATE VIEW duly_public_runs AS
SELECT r.id, r.tenant, r.schedule_id, r.key, r.task, r.queue, r.priority, r.origin, r.lane,
    r.scheduled_for, r.not_before, r.created_at, r.fired_at,
    coalesce(o.state, CASE WHEN x.run_id IS NOT NULL THEN 'dead'
        WHEN w.run_id IS NOT NULL THEN 'retrying' WHEN c.run_id IS NOT NULL THEN 'running'
        ELSE 'queued' END) AS state,
    coalesce(o.reason, x.reason, w.reason) AS state_reason, o.finished_at,
    coalesce(o.attempt, c.attempt, w.attempt, x.attempt, 0) AS attempt,
    coalesce(o.started_at, c.started_at) AS started_at, w.due_at AS next_at
FROM duly_runs r
LEFT JOIN duly_outcomes o ON o.run_id = r.id
LEFT JOIN duly_dead x ON x.run_id = r.id
LEFT JOIN duly_waiting w ON w.run_id = r.id
LEFT JOIN duly_claims c ON c.run_id = r.id;
