-- Workers: claims, attempts, retries, dead letters, queues that are paused. Only adds, but for one
-- view, so that programs of schema 1 go on firing and pruning. What they queue begins with no tries.
-- compatible-with: 1

-- An open run is in one of four places: ready, claims, waiting, dead. Each carries its tries.
ALTER TABLE duly.ready
    ADD COLUMN begun_at int8,
    ADD COLUMN fence int4 NOT NULL DEFAULT 0,
    ADD COLUMN attempt int4 NOT NULL DEFAULT 0,
    ADD COLUMN charged int4 NOT NULL DEFAULT 0,
    -- As in the schedule's state, so that a claim need not look them up; NULL: it does.
    ADD COLUMN schedule_name text,
    ADD COLUMN arguments text;
-- To find one that was claimed before; any other is found by what its run says. A run that is
-- claimed once and done never touches it.
CREATE INDEX ready_again ON duly.ready (run_id) WHERE fence > 0;

-- As many rows as workers have slots, and each lives for one attempt. The key is the run alone: a
-- plan for any other key may turn out quadratic. What an attempt tells is in no index, and stays
-- within its page. Dead rows are many, and vacuumed often.
CREATE TABLE duly.claims (
    run_id uuid PRIMARY KEY,
    worker int8 NOT NULL,
    claimed_at int8 NOT NULL,
    begun_at int8 NOT NULL,
    -- By the task's time-out; NULL for none.
    deadline_at int8,
    started_at int8,
    cancel_asked_at int8,
    progress_at int8,
    progress_done int8,
    progress_total int8,
    fence int4 NOT NULL CHECK (fence > 0),
    attempt int4 NOT NULL,
    charged int4 NOT NULL,
    -- How many lines the attempt has written.
    lines int4 NOT NULL DEFAULT 0,
    progress_note text
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000,
    autovacuum_vacuum_cost_delay = 0);
-- For whoever settles what a worker has left: all of a dead one's, and of each the overdue ones.
CREATE INDEX claims_worker ON duly.claims (worker, deadline_at);

CREATE TABLE duly.waiting (
    run_id uuid PRIMARY KEY,
    due_at int8 NOT NULL,
    begun_at int8,
    shard int4 NOT NULL,
    fence int4 NOT NULL,
    attempt int4 NOT NULL,
    charged int4 NOT NULL,
    reason text
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000);
CREATE INDEX waiting_due ON duly.waiting (shard, due_at, run_id);

CREATE TABLE duly.dead (
    run_id uuid PRIMARY KEY,
    died_at int8 NOT NULL,
    begun_at int8,
    fence int4 NOT NULL,
    attempt int4 NOT NULL,
    charged int4 NOT NULL,
    reason text NOT NULL
);

-- Of a run that was closed: its tries; and what an attempt tells, if a claim closed it (`worker`).
ALTER TABLE duly.outcomes
    ADD COLUMN worker int8,
    ADD COLUMN claimed_at int8,
    ADD COLUMN started_at int8,
    ADD COLUMN begun_at int8,
    ADD COLUMN fence int4 NOT NULL DEFAULT 0,
    ADD COLUMN attempt int4 NOT NULL DEFAULT 0,
    ADD COLUMN charged int4 NOT NULL DEFAULT 0,
    ADD COLUMN result text,
    ADD COLUMN error text,
    ADD COLUMN cancel_asked_at int8,
    ADD COLUMN progress_at int8,
    ADD COLUMN progress_done int8,
    ADD COLUMN progress_total int8,
    ADD COLUMN progress_note text,
    -- What its worker still said when it had been taken away.
    ADD COLUMN late_at int8,
    ADD COLUMN late_state text,
    ADD COLUMN late_error text,
    ADD COLUMN late_result text;

-- Claims that ended without closing their run.
CREATE TABLE duly.attempts (
    run_id uuid NOT NULL,
    worker int8 NOT NULL,
    claimed_at int8 NOT NULL,
    started_at int8,
    ended_at int8 NOT NULL,
    cancel_asked_at int8,
    progress_at int8,
    progress_done int8,
    progress_total int8,
    late_at int8,
    fence int4 NOT NULL,
    -- NULL: given back before it was started.
    number int4,
    state text NOT NULL,
    reason text,
    error text,
    progress_note text,
    late_state text,
    late_error text,
    late_result text,
    PRIMARY KEY (run_id, fence)
);

CREATE TABLE duly.progress (
    run_id uuid NOT NULL,
    number int8 GENERATED ALWAYS AS IDENTITY,
    at int8 NOT NULL,
    done int8 NOT NULL,
    total int8,
    fence int4 NOT NULL,
    note text,
    PRIMARY KEY (run_id, number)
);

CREATE TABLE duly.lines (
    run_id uuid NOT NULL,
    number int8 GENERATED ALWAYS AS IDENTITY,
    at int8 NOT NULL,
    fence int4 NOT NULL,
    level text NOT NULL,
    text text NOT NULL,
    PRIMARY KEY (run_id, number)
);

CREATE TABLE duly.checkpoints (
    run_id uuid NOT NULL,
    partition text COLLATE "C" NOT NULL,
    at int8 NOT NULL,
    fence int4 NOT NULL,
    state text NOT NULL,
    PRIMARY KEY (run_id, partition)
);

-- A row for each queue that is paused.
CREATE TABLE duly.queues (
    name text COLLATE "C" PRIMARY KEY,
    paused_at int8 NOT NULL,
    paused_by text NOT NULL,
    reason text
);

-- A row for each task whose retries are spaced, to be locked while its calendar is written.
CREATE TABLE duly.retry_budgets (
    task text COLLATE "C" PRIMARY KEY
) WITH (fillfactor = 50);

-- Slots of these tasks, as ranges without a gap: each retry takes one.
CREATE TABLE duly.retry_slots (
    task text COLLATE "C" NOT NULL,
    first_at int8 NOT NULL,
    last_at int8 NOT NULL,
    PRIMARY KEY (task, first_at)
) WITH (fillfactor = 50);

-- NULL: nobody has told.
ALTER TABLE duly.tasks
    ADD COLUMN policy text,
    ADD COLUMN timeout_us int8;

ALTER TABLE duly.members
    ADD COLUMN slots int4 NOT NULL DEFAULT 0,
    ADD COLUMN leaked int4 NOT NULL DEFAULT 0,
    ADD COLUMN queues text[] NOT NULL DEFAULT '{}';

-- Not a column of the member's row, which every beat writes anew.
CREATE TABLE duly.worker_tasks (
    worker int8 NOT NULL REFERENCES duly.members ON DELETE CASCADE,
    task text COLLATE "C" NOT NULL,
    PRIMARY KEY (task, worker)
);
CREATE INDEX worker_tasks_worker ON duly.worker_tasks (worker);

-- Workers that are members no more: what their attempts tell stays readable (R2).
CREATE TABLE duly.workers (
    id int8 PRIMARY KEY,
    started_at int8 NOT NULL,
    renewed_at int8 NOT NULL,
    expires_at int8 NOT NULL,
    ended_at int8,
    process int8 NOT NULL,
    host text NOT NULL
);
CREATE INDEX workers_expired ON duly.workers (expires_at);

-- Who holds claims is kept, also when a program of schema 1 prunes: by the member's row they are
-- found and settled. Any other is remembered among the workers.
CREATE FUNCTION duly.keep_holder() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM duly.claims WHERE worker = OLD.id) THEN RETURN NULL
    ; END IF
    ; IF OLD.kind = 'worker' THEN
        INSERT INTO duly.workers (id, started_at, renewed_at, expires_at, ended_at, process, host)
        VALUES (OLD.id, OLD.started_at, OLD.renewed_at, OLD.expires_at, OLD.ended_at, OLD.process,
            OLD.host) ON CONFLICT DO NOTHING
    ; END IF
    ; RETURN OLD
; END $$;
CREATE TRIGGER keep_holder BEFORE DELETE ON duly.members
    FOR EACH ROW EXECUTE FUNCTION duly.keep_holder();

CREATE OR REPLACE VIEW duly.public_runs AS
SELECT r.id, r.tenant, r.schedule_id, r.key, r.task, r.queue, r.priority, r.origin, r.lane,
    r.scheduled_for, r.not_before, r.created_at, r.fired_at,
    coalesce(o.state, CASE WHEN x.run_id IS NOT NULL THEN 'dead'
        WHEN w.run_id IS NOT NULL THEN 'retrying' WHEN c.run_id IS NOT NULL THEN 'running'
        ELSE 'queued' END) AS state,
    coalesce(o.reason, x.reason, w.reason) AS state_reason, o.finished_at,
    coalesce(o.attempt, c.attempt, w.attempt, x.attempt, 0) AS attempt,
    coalesce(o.started_at, c.started_at) AS started_at, w.due_at AS next_at
FROM duly.runs r
LEFT JOIN duly.outcomes o ON o.run_id = r.id
LEFT JOIN duly.dead x ON x.run_id = r.id
LEFT JOIN duly.waiting w ON w.run_id = r.id
LEFT JOIN duly.claims c ON c.run_id = r.id;
