-- The first schema. Tables are private; the views at the end are what others may read.
-- compatible-with: 1

CREATE TABLE duly_migrations (
    number INTEGER PRIMARY KEY,
    phase TEXT NOT NULL,
    name TEXT NOT NULL,
    checksum TEXT NOT NULL,
    applied_at INTEGER NOT NULL
) STRICT;

CREATE TABLE duly_cluster (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    shards INTEGER NOT NULL CHECK (shards > 0),
    incarnation INTEGER NOT NULL,
    tzdata TEXT NOT NULL,
    -- Nobody's membership is judged expired before this instant.
    judge_after INTEGER NOT NULL,
    -- The oldest schema number that a program may know and still use this file.
    program_min INTEGER NOT NULL,
    -- Where the walk over schedules that keeps the newest runs of each has got to.
    pruned_after BLOB
) STRICT;

-- How many there are of what grows with promises, so that nobody has to count them.
CREATE TABLE duly_tallies (
    name TEXT PRIMARY KEY,
    count INTEGER NOT NULL CHECK (count >= 0)
) STRICT, WITHOUT ROWID;
INSERT INTO duly_tallies (name, count)
VALUES ('active', 0), ('paused', 0), ('ended', 0), ('deleted', 0), ('delayed', 0);

CREATE TABLE duly_schedules (
    id BLOB PRIMARY KEY,
    tenant TEXT NOT NULL,
    name TEXT NOT NULL,
    owner TEXT,
    declared_by TEXT,
    status TEXT NOT NULL CHECK (status IN ('active', 'paused', 'ended', 'deleted')),
    reason TEXT,
    resume_at INTEGER,
    resume_missed TEXT,
    status_before TEXT,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    updated_by TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX duly_schedules_name ON duly_schedules (tenant, name) WHERE status <> 'deleted';
CREATE INDEX duly_schedules_order ON duly_schedules (tenant, name, id);
CREATE INDEX duly_schedules_resume ON duly_schedules (resume_at) WHERE resume_at IS NOT NULL;
CREATE INDEX duly_schedules_deleted ON duly_schedules (updated_at) WHERE status = 'deleted';

CREATE TABLE duly_schedule_definitions (
    schedule_id BLOB NOT NULL,
    number INTEGER NOT NULL,
    definition TEXT NOT NULL,
    made_at INTEGER NOT NULL,
    made_by TEXT NOT NULL,
    PRIMARY KEY (schedule_id, number)
) STRICT, WITHOUT ROWID;

-- The one row that a fire changes, with all that a fire copies into the run and the queue.
CREATE TABLE duly_schedule_state (
    schedule_id BLOB PRIMARY KEY,
    version INTEGER NOT NULL,
    definition_number INTEGER NOT NULL,
    shard INTEGER NOT NULL,
    next_for INTEGER,
    next_due INTEGER,
    last_for INTEGER,
    last_run BLOB,
    last_fired_at INTEGER,
    fires INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    task TEXT NOT NULL,
    queue TEXT NOT NULL,
    priority INTEGER NOT NULL,
    held_for INTEGER,
    pruned_through INTEGER,
    -- As in the schedule and in its definition, for whoever claims the run: he would look them up
    -- one by one. NULL: he has to, because they are long.
    name TEXT,
    arguments TEXT,
    CONSTRAINT one_instant CHECK ((next_for IS NULL) = (next_due IS NULL) AND next_for <= next_due)
) STRICT, WITHOUT ROWID;
CREATE INDEX duly_schedule_state_due ON duly_schedule_state (shard, next_due)
    WHERE next_due IS NOT NULL;

CREATE TABLE duly_delayed (
    id BLOB PRIMARY KEY,
    tenant TEXT NOT NULL,
    key TEXT,
    task TEXT NOT NULL,
    arguments TEXT NOT NULL,
    queue TEXT NOT NULL,
    priority INTEGER NOT NULL,
    origin TEXT NOT NULL,
    lane TEXT NOT NULL,
    schedule_id BLOB,
    definition_number INTEGER,
    shard INTEGER NOT NULL,
    due_at INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    fingerprint TEXT NOT NULL,
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX duly_delayed_key ON duly_delayed (tenant, key) WHERE key IS NOT NULL;
CREATE INDEX duly_delayed_order ON duly_delayed (tenant, due_at, id);

CREATE TABLE duly_timers (
    shard INTEGER NOT NULL,
    due_at INTEGER NOT NULL,
    ref BLOB NOT NULL,
    generation INTEGER NOT NULL,
    PRIMARY KEY (shard, due_at, ref)
) STRICT, WITHOUT ROWID;

-- Numbers are never reused: a reader's cursor means the same for ever.
CREATE TABLE duly_arrivals (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    shard INTEGER NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('schedule', 'delayed')),
    ref BLOB NOT NULL,
    at INTEGER NOT NULL
) STRICT;

-- Ids are never reused: a process that was declared dead comes back under a new one.
CREATE TABLE duly_members (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL,
    host TEXT NOT NULL,
    process INTEGER NOT NULL,
    started_at INTEGER NOT NULL,
    renewed_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    ended_at INTEGER,
    skew_us INTEGER NOT NULL,
    is_holding INTEGER NOT NULL,
    tzdata TEXT NOT NULL,
    wake_address TEXT NOT NULL
) STRICT;

CREATE TABLE duly_leases (
    shard INTEGER NOT NULL,
    lane TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    owner INTEGER,
    acquired_at INTEGER,
    PRIMARY KEY (shard, lane)
) STRICT, WITHOUT ROWID;

CREATE TABLE duly_runs (
    id BLOB PRIMARY KEY,
    tenant TEXT NOT NULL,
    schedule_id BLOB,
    definition_number INTEGER,
    key TEXT,
    task TEXT NOT NULL,
    -- NULL: as in the definition that the run refers to.
    arguments TEXT,
    queue TEXT NOT NULL,
    priority INTEGER NOT NULL,
    origin TEXT NOT NULL,
    lane TEXT NOT NULL,
    -- NULL: the run itself.
    root BLOB,
    scheduled_for INTEGER NOT NULL,
    not_before INTEGER NOT NULL,
    window_from INTEGER,
    created_at INTEGER NOT NULL,
    fired_at INTEGER,
    CONSTRAINT never_early CHECK
        (fired_at IS NULL OR (fired_at >= not_before AND not_before >= scheduled_for))
) STRICT, WITHOUT ROWID;
CREATE INDEX duly_runs_schedule ON duly_runs (schedule_id, id) WHERE schedule_id IS NOT NULL;
CREATE INDEX duly_runs_key ON duly_runs (tenant, key, created_at) WHERE key IS NOT NULL;
-- Empty for ever: counting early fires costs nothing.
CREATE INDEX duly_runs_early ON duly_runs (fired_at) WHERE fired_at < not_before;

CREATE TABLE duly_ready (
    queue TEXT NOT NULL,
    priority INTEGER NOT NULL,
    rank INTEGER NOT NULL,
    run_id BLOB NOT NULL,
    fired_at INTEGER NOT NULL,
    not_before INTEGER NOT NULL,
    PRIMARY KEY (queue, priority, rank, run_id),
    CONSTRAINT never_early CHECK (fired_at >= not_before)
) STRICT, WITHOUT ROWID;

CREATE TABLE duly_outcomes (
    run_id BLOB PRIMARY KEY,
    state TEXT NOT NULL,
    reason TEXT,
    finished_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX duly_outcomes_age ON duly_outcomes (state, finished_at);

CREATE TABLE duly_skips (
    schedule_id BLOB NOT NULL,
    first_for INTEGER NOT NULL,
    last_for INTEGER NOT NULL,
    count INTEGER,
    reason TEXT NOT NULL,
    into_run BLOB,
    at INTEGER NOT NULL,
    PRIMARY KEY (schedule_id, first_for)
) STRICT, WITHOUT ROWID;
CREATE INDEX duly_skips_age ON duly_skips (at);

CREATE TABLE duly_owed (
    schedule_id BLOB NOT NULL,
    first_for INTEGER NOT NULL,
    last_for INTEGER NOT NULL,
    definition_number INTEGER NOT NULL,
    shard INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (schedule_id, first_for),
    CHECK (first_for <= last_for)
) STRICT, WITHOUT ROWID;
CREATE INDEX duly_owed_order ON duly_owed (shard, created_at, schedule_id, first_for);

CREATE TABLE duly_audit (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    at INTEGER NOT NULL,
    actor TEXT NOT NULL,
    source TEXT NOT NULL,
    reason TEXT,
    action TEXT NOT NULL,
    tenant TEXT NOT NULL,
    subject TEXT NOT NULL,
    subject_id BLOB,
    before TEXT,
    after TEXT,
    -- Written afterwards by the sealer, which chains the entries.
    seal BLOB
) STRICT;
CREATE INDEX duly_audit_subject ON duly_audit (subject_id) WHERE subject_id IS NOT NULL;

CREATE TABLE duly_tasks (name TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;

CREATE VIEW duly_public_schedules AS
SELECT s.id, s.tenant, s.name, s.owner, s.status, s.reason, t.version, t.task, t.queue,
    t.next_for, t.next_due, t.last_for, t.last_run, t.last_fired_at, t.fires,
    s.created_at, s.updated_at
FROM duly_schedules s JOIN duly_schedule_state t ON t.schedule_id = s.id;

CREATE VIEW duly_public_runs AS
SELECT r.id, r.tenant, r.schedule_id, r.key, r.task, r.queue, r.priority, r.origin, r.lane,
    r.scheduled_for, r.not_before, r.created_at, r.fired_at,
    coalesce(o.state, 'queued') AS state, o.reason AS state_reason, o.finished_at
FROM duly_runs r LEFT JOIN duly_outcomes o ON o.run_id = r.id;
