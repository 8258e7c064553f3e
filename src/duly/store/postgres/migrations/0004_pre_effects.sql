-- Effects: permission before what can't be taken back, doubt, verdicts, and the scope of runs. Only adds,
-- but for one view. What a plain run has nothing to say about is NULL in the rows that every run
-- writes: there it takes up no space. Programs of older schemas know of no doubt, and would try again
-- what an unsafe task's lost attempt has begun. So they go on until a program declares such a task:
-- that raises `program_min`, and from then on they are refused.
-- compatible-with: 1

-- When an attempt was first permitted to do what can't be taken back; it stays with the attempt.
-- Under which class it was permitted goes with the claim: a program that knows its task by another
-- declaration must not decide by that what becomes of it. NULL: one that may be repeated.
ALTER TABLE duly.claims
    ADD COLUMN effects_at int8,
    ADD COLUMN is_unsafe bool;
ALTER TABLE duly.attempts ADD COLUMN effects_at int8;
ALTER TABLE duly.outcomes ADD COLUMN effects_at int8;

-- Runs of which nobody knows what they did: a sixth place for an open run.
CREATE TABLE duly.ambiguous (
    run_id uuid PRIMARY KEY,
    since int8 NOT NULL,
    begun_at int8,
    fence int4 NOT NULL,
    attempt int4 NOT NULL,
    charged int4 NOT NULL,
    reason text NOT NULL
);
CREATE INDEX ambiguous_order ON duly.ambiguous (since, run_id);

-- The ledger: what is known of each effect. It belongs to the first run of a line, because repairs go
-- on with it; `run_id` and `fence` name the attempt that was last permitted to do it.
CREATE TABLE duly.effects (
    root uuid NOT NULL,
    run_id uuid NOT NULL,
    begun_at int8 NOT NULL,
    done_at int8,
    fence int4 NOT NULL,
    tries int4 NOT NULL DEFAULT 1,
    state text NOT NULL CHECK (state IN ('intended', 'done', 'unknown')),
    key text COLLATE "C" NOT NULL,
    -- As JSON text.
    result text,
    PRIMARY KEY (root, key)
) WITH (fillfactor = 70);
-- To know whether a ledger is still somebody's; plain runs never touch it.
CREATE INDEX runs_repairs ON duly.runs (root)
    WHERE origin IN ('repair', 'backfill') AND root IS NOT NULL;

-- How many items a line of runs expects, and which are done: `times` by different attempts.
CREATE TABLE duly.scopes (
    root uuid PRIMARY KEY,
    expected int8 NOT NULL
);
CREATE TABLE duly.scope_items (
    root uuid NOT NULL,
    run_id uuid,
    at int8,
    fence int4,
    times int4 NOT NULL,
    is_expected bool NOT NULL,
    item text COLLATE "C" NOT NULL,
    PRIMARY KEY (root, item)
);

CREATE TABLE duly.verdicts (
    run_id uuid NOT NULL,
    at int8 NOT NULL,
    number int4 NOT NULL,
    -- The fence of the claim that had left the run in doubt when the check began to look, if it was.
    doubt int4,
    finding text NOT NULL CHECK (finding IN ('present', 'absent', 'partial', 'unknown')),
    -- As JSON text.
    evidence text,
    "by" text NOT NULL,
    PRIMARY KEY (run_id, number)
);

-- A row for each task about which people have ordered something.
CREATE TABLE duly.task_orders (
    task text COLLATE "C" PRIMARY KEY,
    is_suspended bool NOT NULL,
    is_blocked bool NOT NULL
);

CREATE OR REPLACE VIEW duly.public_runs AS
SELECT r.id, r.tenant, r.schedule_id, r.key, r.task, r.queue, r.priority, r.origin, r.lane,
    r.scheduled_for, r.not_before, r.created_at, r.fired_at,
    coalesce(o.state, CASE WHEN x.run_id IS NOT NULL THEN 'dead'
        WHEN w.run_id IS NOT NULL THEN 'retrying' WHEN c.run_id IS NOT NULL THEN 'running'
        WHEN b.run_id IS NOT NULL THEN 'blocked' WHEN u.run_id IS NOT NULL THEN 'ambiguous'
        ELSE 'queued' END) AS state,
    coalesce(o.reason, x.reason, w.reason, u.reason, CASE WHEN substr(b.gate, 1, 4) = 'cap:'
        THEN 'cap ' || substr(b.gate, 5) COLLATE "default"
        WHEN b.run_id IS NOT NULL THEN 'overlap' END)
        AS state_reason, o.finished_at,
    coalesce(o.attempt, c.attempt, w.attempt, x.attempt, b.attempt, u.attempt, 0) AS attempt,
    coalesce(o.started_at, c.started_at) AS started_at, w.due_at AS next_at
FROM duly.runs r
LEFT JOIN duly.outcomes o ON o.run_id = r.id
LEFT JOIN duly.dead x ON x.run_id = r.id
LEFT JOIN duly.waiting w ON w.run_id = r.id
LEFT JOIN duly.claims c ON c.run_id = r.id
LEFT JOIN duly.blocked b ON b.run_id = r.id
LEFT JOIN duly.ambiguous u ON u.run_id = r.id;

-- What has come of each run: its outcome, the newest verdict, and what its line has done (E6).
CREATE VIEW duly.public_results AS
SELECT r.id, r.tenant, r.schedule_id, r.task, r.origin, r.scheduled_for, r.state, r.finished_at,
    r.line, v.finding AS verdict, v.at AS verified_at, s.expected,
    (SELECT count(*) FROM duly.scope_items i WHERE i.root = r.line AND i.times > 0) AS done,
    (SELECT count(*) FROM duly.scope_items i WHERE i.root = r.line AND i.times > 1) AS repeated,
    (SELECT count(*) FROM duly.effects e WHERE e.root = r.line AND e.state = 'done') AS effects_done,
    (SELECT count(*) FROM duly.effects e WHERE e.root = r.line AND e.state = 'unknown')
        AS effects_unknown
FROM (SELECT p.id, p.tenant, p.schedule_id, p.task, p.origin, p.scheduled_for, p.state,
        p.finished_at, CASE WHEN q.origin IN ('repair', 'backfill') THEN coalesce(q.root, q.id) ELSE q.id END AS line
    FROM duly.public_runs p JOIN duly.runs q ON q.id = p.id) r
LEFT JOIN duly.scopes s ON s.root = r.line
LEFT JOIN LATERAL (
    SELECT w.finding, w.at FROM duly.verdicts w WHERE w.run_id = r.id
    ORDER BY w.number DESC LIMIT 1) v ON true;
