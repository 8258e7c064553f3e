-- Policies: gates for runs that may not overlap, backfills, limits, fair shares. Only adds, but for one
-- view, one trigger and the queue's key. Programs of schemas 1 and 2 go on firing, and know of none of
-- them. Until they are gone they can't read that view in a lent transaction.
-- compatible-with: 1

-- What becomes of an occurrence while an earlier run is open, and through which gate its runs go.
ALTER TABLE duly_schedule_state ADD COLUMN overlap TEXT NOT NULL DEFAULT 'allow';
ALTER TABLE duly_schedule_state ADD COLUMN gate TEXT;
-- The last run that went ahead; NULL: the last that was made; empty: none has.
ALTER TABLE duly_schedule_state ADD COLUMN active_run BLOB;
ALTER TABLE duly_schedule_state ADD COLUMN overlaps INTEGER NOT NULL DEFAULT 0;

-- The queue with another key: within a priority each tenant has a line of his own, so that no claim
-- has to pass over all of one's runs to find another's.
CREATE TABLE duly_ready_shared (
    queue TEXT NOT NULL,
    priority INTEGER NOT NULL,
    -- Empty for the default tenant, and for what programs of schema 2 have queued.
    tenant TEXT NOT NULL DEFAULT '',
    rank INTEGER NOT NULL,
    run_id BLOB NOT NULL,
    fired_at INTEGER NOT NULL,
    not_before INTEGER NOT NULL,
    fence INTEGER NOT NULL DEFAULT 0,
    attempt INTEGER NOT NULL DEFAULT 0,
    charged INTEGER NOT NULL DEFAULT 0,
    begun_at INTEGER,
    schedule_name TEXT,
    arguments TEXT,
    -- Whether the run holds a gate: its end is looked at by itself.
    is_gated INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (queue, priority, tenant, rank, run_id),
    CONSTRAINT never_early CHECK (fired_at >= not_before)
) STRICT, WITHOUT ROWID;
INSERT INTO duly_ready_shared (queue, priority, rank, run_id, fired_at, not_before, fence, attempt,
    charged, begun_at, schedule_name, arguments)
SELECT queue, priority, rank, run_id, fired_at, not_before, fence, attempt, charged, begun_at,
    schedule_name, arguments
FROM duly_ready;
DROP TABLE duly_ready;
ALTER TABLE duly_ready_shared RENAME TO duly_ready;
CREATE INDEX duly_ready_again ON duly_ready (run_id) WHERE fence > 0;
ALTER TABLE duly_claims ADD COLUMN is_gated INTEGER NOT NULL DEFAULT 0;
-- To find one that may have been hurried; plain runs never touch it.
CREATE INDEX duly_ready_gated ON duly_ready (run_id) WHERE is_gated;
-- For whom it was asked to make way.
ALTER TABLE duly_claims ADD COLUMN replaced_by BLOB;
-- The run that stands for one that was coalesced or replaced.
ALTER TABLE duly_outcomes ADD COLUMN into_run BLOB;

-- One open run at a time goes through a gate, and holds it until it is over.
CREATE TABLE duly_held_gates (
    run_id BLOB PRIMARY KEY,
    gate TEXT NOT NULL UNIQUE
) STRICT, WITHOUT ROWID;

-- Runs that wait at a gate: a fifth place for an open run.
CREATE TABLE duly_blocked (
    run_id BLOB PRIMARY KEY,
    gate TEXT NOT NULL,
    priority INTEGER NOT NULL,
    number INTEGER NOT NULL,
    since INTEGER NOT NULL,
    fence INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    charged INTEGER NOT NULL,
    begun_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX duly_blocked_gate ON duly_blocked (gate, priority, number);

CREATE TABLE duly_backfills (
    id BLOB PRIMARY KEY,
    tenant TEXT NOT NULL,
    schedule_id BLOB NOT NULL,
    definition_number INTEGER NOT NULL,
    since INTEGER NOT NULL,
    until INTEGER NOT NULL,
    mode TEXT NOT NULL,
    "order" TEXT NOT NULL,
    -- As a list of words with blanks between them.
    classes TEXT NOT NULL,
    per_minute INTEGER NOT NULL,
    concurrency INTEGER NOT NULL,
    status TEXT NOT NULL,
    version INTEGER NOT NULL,
    cursor INTEGER,
    total INTEGER NOT NULL,
    looked_at INTEGER NOT NULL,
    made INTEGER NOT NULL,
    reason TEXT,
    created_at INTEGER NOT NULL,
    created_by TEXT NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX duly_backfills_active ON duly_backfills (id) WHERE status = 'active';
CREATE INDEX duly_backfills_schedule ON duly_backfills (schedule_id, id);

-- What a backfill has done about each occurrence.
CREATE TABLE duly_backfill_slots (
    backfill_id BLOB NOT NULL,
    scheduled_for INTEGER NOT NULL,
    kind TEXT NOT NULL,
    run_id BLOB,
    -- Until it has been seen to be over.
    is_open INTEGER NOT NULL,
    PRIMARY KEY (backfill_id, scheduled_for)
) STRICT, WITHOUT ROWID;
CREATE INDEX duly_backfill_slots_open ON duly_backfill_slots (backfill_id, run_id) WHERE is_open;

-- How much somebody may ask for (S7); NULL: no bound. A tenant is named where an owner is.
CREATE TABLE duly_quotas (
    scope TEXT NOT NULL,
    tenant TEXT NOT NULL,
    counted TEXT NOT NULL CHECK (counted IN ('schedules', 'creations', 'pending')),
    most INTEGER CHECK (most >= 0),
    version INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    updated_by TEXT NOT NULL,
    PRIMARY KEY (scope, tenant, counted)
) STRICT, WITHOUT ROWID;
-- An owner's schedules are counted when there is one more of them.
CREATE INDEX duly_schedules_owner ON duly_schedules (tenant, owner) WHERE owner IS NOT NULL;

-- Limits: what code and people say about them; a part that is NULL or empty limits nothing.
CREATE TABLE duly_limits (
    scope TEXT NOT NULL,
    source TEXT NOT NULL CHECK (source IN ('person', 'code')),
    running INTEGER,
    rate TEXT,
    -- By parameter, as a JSON object.
    running_by TEXT,
    set_at INTEGER NOT NULL,
    set_by TEXT NOT NULL,
    reason TEXT,
    PRIMARY KEY (scope, source)
) STRICT, WITHOUT ROWID;
-- Grows with every change of a limit; every beat of a worker tells it.
ALTER TABLE duly_cluster ADD COLUMN limits_version INTEGER NOT NULL DEFAULT 0;

-- Places at limits, held for as long as an attempt is claimed. Fence 0: let go from a gate, and not
-- claimed since. Who stands for a place is in duly_blocked, at the gate 'cap:' of that place.
CREATE TABLE duly_held_places (
    run_id BLOB NOT NULL,
    place TEXT NOT NULL,
    fence INTEGER NOT NULL,
    PRIMARY KEY (run_id, place)
) STRICT, WITHOUT ROWID;
CREATE INDEX duly_held_places_place ON duly_held_places (place);

-- Turns at rates that were given to runs, which have not begun since; of a run that is over, when
-- the limit is, one may be left until the run is pruned.
CREATE TABLE duly_turns (run_id BLOB PRIMARY KEY, at INTEGER NOT NULL) STRICT, WITHOUT ROWID;
DROP TRIGGER duly_runs_pruned;
CREATE TRIGGER duly_runs_pruned AFTER DELETE ON duly_runs BEGIN
    DELETE FROM duly_attempts WHERE run_id = OLD.id;
    DELETE FROM duly_progress WHERE run_id = OLD.id;
    DELETE FROM duly_lines WHERE run_id = OLD.id;
    DELETE FROM duly_checkpoints WHERE run_id = OLD.id;
    DELETE FROM duly_turns WHERE run_id = OLD.id;
END;
CREATE TABLE duly_paces (
    place TEXT PRIMARY KEY,
    promised_at INTEGER NOT NULL,
    begun_at INTEGER NOT NULL,
    again_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What is known of destinations.
CREATE TABLE duly_breakers (
    destination TEXT PRIMARY KEY,
    state TEXT NOT NULL CHECK (state IN ('closed', 'open', 'half-open')),
    counted_from INTEGER NOT NULL,
    succeeded INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    opened_at INTEGER,
    retry_at INTEGER,
    pause_us INTEGER NOT NULL,
    probe BLOB,
    epoch INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

DROP VIEW duly_public_runs;
CREATE VIEW duly_public_runs AS
SELECT r.id, r.tenant, r.schedule_id, r.key, r.task, r.queue, r.priority, r.origin, r.lane,
    r.scheduled_for, r.not_before, r.created_at, r.fired_at,
    coalesce(o.state, CASE WHEN x.run_id IS NOT NULL THEN 'dead'
        WHEN w.run_id IS NOT NULL THEN 'retrying' WHEN c.run_id IS NOT NULL THEN 'running'
        WHEN b.run_id IS NOT NULL THEN 'blocked' ELSE 'queued' END) AS state,
    coalesce(o.reason, x.reason, w.reason, CASE WHEN substr(b.gate, 1, 4) = 'cap:'
        THEN 'cap ' || substr(b.gate, 5) WHEN b.run_id IS NOT NULL THEN 'overlap' END)
        AS state_reason, o.finished_at,
    coalesce(o.attempt, c.attempt, w.attempt, x.attempt, b.attempt, 0) AS attempt,
    coalesce(o.started_at, c.started_at) AS started_at, w.due_at AS next_at
FROM duly_runs r
LEFT JOIN duly_outcomes o ON o.run_id = r.id
LEFT JOIN duly_dead x ON x.run_id = r.id
LEFT JOIN duly_waiting w ON w.run_id = r.id
LEFT JOIN duly_claims c ON c.run_id = r.id
LEFT JOIN duly_blocked b ON b.run_id = r.id;
