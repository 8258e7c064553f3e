-- Effects: permission before what can't be taken back, a ledger of it, runs that are in doubt, checks of
-- results, scope. Only adds, but for one view and one trigger, so that older programs go on firing and
-- working. They know nothing of doubt, and would try again what an unsafe task's lost attempt has
-- begun: a program that declares such a task raises `program_min`, and from then on they are refused.
-- Until then they can't read that view in a lent transaction.
-- compatible-with: 1

-- When the attempt was first permitted to do what can't be taken back; NULL: never.
ALTER TABLE duly_claims ADD COLUMN effects_at INTEGER;
-- Under which class it was permitted goes with the claim: a program that knows its task by another
-- declaration must not decide by that what becomes of it. NULL: one that may be repeated.
ALTER TABLE duly_claims ADD COLUMN is_unsafe INTEGER;
ALTER TABLE duly_attempts ADD COLUMN effects_at INTEGER;
ALTER TABLE duly_outcomes ADD COLUMN effects_at INTEGER;

-- Runs of which nobody knows what they did: a sixth place for an open run.
CREATE TABLE duly_ambiguous (
    run_id BLOB PRIMARY KEY,
    fence INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    charged INTEGER NOT NULL,
    begun_at INTEGER,
    reason TEXT NOT NULL,
    since INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX duly_ambiguous_since ON duly_ambiguous (since, run_id);

-- The ledger: one row for each effect of a line of runs, which is a run and its repairs.
CREATE TABLE duly_effects (
    root BLOB NOT NULL,
    key TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('intended', 'done', 'unknown')),
    -- Who was permitted last.
    run_id BLOB NOT NULL,
    fence INTEGER NOT NULL,
    begun_at INTEGER NOT NULL,
    done_at INTEGER,
    result TEXT,
    tries INTEGER NOT NULL,
    PRIMARY KEY (root, key)
) STRICT, WITHOUT ROWID;

-- How many items a line of runs expects, and those that it has named or done.
CREATE TABLE duly_scopes (root BLOB PRIMARY KEY, expected INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE duly_scope_items (
    root BLOB NOT NULL,
    item TEXT NOT NULL,
    is_expected INTEGER NOT NULL,
    -- How many attempts say that it is done, and the last of them.
    times INTEGER NOT NULL,
    run_id BLOB,
    fence INTEGER,
    at INTEGER,
    PRIMARY KEY (root, item)
) STRICT, WITHOUT ROWID;

-- What checks have found, and people recorded, about the results of runs; numbered per run.
CREATE TABLE duly_verdicts (
    run_id BLOB NOT NULL,
    number INTEGER NOT NULL,
    at INTEGER NOT NULL,
    finding TEXT NOT NULL,
    evidence TEXT,
    by TEXT NOT NULL,
    -- The fence of the claim that had left the run in doubt when the check began to look, if it was.
    doubt INTEGER,
    PRIMARY KEY (run_id, number)
) STRICT, WITHOUT ROWID;

-- A row for each task whose retries are suspended, or whose reruns are blocked.
CREATE TABLE duly_task_orders (
    task TEXT PRIMARY KEY,
    is_suspended INTEGER NOT NULL,
    is_blocked INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- For the trigger alone: who else writes in a ledger.
CREATE INDEX duly_runs_repairs ON duly_runs (root)
WHERE origin IN ('repair', 'backfill') AND root IS NOT NULL;

DROP TRIGGER duly_runs_pruned;
CREATE TRIGGER duly_runs_pruned AFTER DELETE ON duly_runs BEGIN
    DELETE FROM duly_attempts WHERE run_id = OLD.id;
    DELETE FROM duly_progress WHERE run_id = OLD.id;
    DELETE FROM duly_lines WHERE run_id = OLD.id;
    DELETE FROM duly_checkpoints WHERE run_id = OLD.id;
    DELETE FROM duly_turns WHERE run_id = OLD.id;
    DELETE FROM duly_verdicts WHERE run_id = OLD.id;
END;
-- What a line of runs has in common goes with the last of them: a repair that is still there must
-- know what was done before.
CREATE TRIGGER duly_line_pruned AFTER DELETE ON duly_runs
WHEN NOT EXISTS (SELECT 1 FROM duly_runs r WHERE r.origin IN ('repair', 'backfill')
        AND r.root = iif(OLD.origin IN ('repair', 'backfill'), coalesce(OLD.root, OLD.id), OLD.id))
    AND NOT EXISTS (SELECT 1 FROM duly_runs r
        WHERE r.id = iif(OLD.origin IN ('repair', 'backfill'), coalesce(OLD.root, OLD.id), OLD.id))
BEGIN
    DELETE FROM duly_effects
    WHERE root = iif(OLD.origin IN ('repair', 'backfill'), coalesce(OLD.root, OLD.id), OLD.id);
    DELETE FROM duly_scopes
    WHERE root = iif(OLD.origin IN ('repair', 'backfill'), coalesce(OLD.root, OLD.id), OLD.id);
    DELETE FROM duly_scope_items
    WHERE root = iif(OLD.origin IN ('repair', 'backfill'), coalesce(OLD.root, OLD.id), OLD.id);
END;

DROP VIEW duly_public_runs;
CREATE VIEW duly_public_runs AS
SELECT r.id, r.tenant, r.schedule_id, r.key, r.task, r.queue, r.priority, r.origin, r.lane,
    r.scheduled_for, r.not_before, r.created_at, r.fired_at,
    coalesce(o.state, CASE WHEN x.run_id IS NOT NULL THEN 'dead'
        WHEN w.run_id IS NOT NULL THEN 'retrying' WHEN c.run_id IS NOT NULL THEN 'running'
        WHEN b.run_id IS NOT NULL THEN 'blocked' WHEN u.run_id IS NOT NULL THEN 'ambiguous'
        ELSE 'queued' END) AS state,
    coalesce(o.reason, x.reason, w.reason, u.reason, CASE WHEN substr(b.gate, 1, 4) = 'cap:'
        THEN 'cap ' || substr(b.gate, 5) WHEN b.run_id IS NOT NULL THEN 'overlap' END)
        AS state_reason, o.finished_at,
    coalesce(o.attempt, c.attempt, w.attempt, x.attempt, b.attempt, u.attempt, 0) AS attempt,
    coalesce(o.started_at, c.started_at) AS started_at, w.due_at AS next_at
FROM duly_runs r
LEFT JOIN duly_outcomes o ON o.run_id = r.id
LEFT JOIN duly_dead x ON x.run_id = r.id
LEFT JOIN duly_waiting w ON w.run_id = r.id
LEFT JOIN duly_claims c ON c.run_id = r.id
LEFT JOIN duly_blocked b ON b.run_id = r.id
LEFT JOIN duly_ambiguous u ON u.run_id = r.id;

-- What has come of each run, for whoever asks whether a day's work was done, and once (E6). A line is
-- a run and its repairs, which share effects and scope. NULL: nothing was said.
CREATE VIEW duly_public_results AS
SELECT r.id, r.tenant, r.schedule_id, r.task, r.origin, r.scheduled_for, r.state, r.finished_at,
    r.line, v.finding AS verdict, v.at AS verified_at, s.expected,
    (SELECT count(*) FROM duly_scope_items i WHERE i.root = r.line AND i.times > 0) AS done,
    (SELECT count(*) FROM duly_scope_items i WHERE i.root = r.line AND i.times > 1) AS repeated,
    (SELECT count(*) FROM duly_effects e WHERE e.root = r.line AND e.state = 'done') AS effects_done,
    (SELECT count(*) FROM duly_effects e WHERE e.root = r.line AND e.state = 'unknown')
        AS effects_unknown
FROM (SELECT p.id, p.tenant, p.schedule_id, p.task, p.origin, p.scheduled_for, p.state,
        p.finished_at, CASE WHEN q.origin IN ('repair', 'backfill') THEN coalesce(q.root, q.id) ELSE q.id END AS line
    FROM duly_public_runs p JOIN duly_runs q ON q.id = p.id) r
LEFT JOIN duly_scopes s ON s.root = r.line
LEFT JOIN duly_verdicts v ON v.run_id = r.id AND v.number =
    (SELECT max(w.number) FROM duly_verdicts w WHERE w.run_id = r.id);
