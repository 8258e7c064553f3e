-- Policies: gates for runs that may not overlap, backfills, fair shares. Only adds, but for one view and
-- two indexes. Programs of schemas 1 and 2 go on firing, and know of no gates and shares. What a plain
-- run has nothing to say about is NULL in the rows that every run writes: there it takes up no space.
-- compatible-with: 1

-- What becomes of an occurrence while an earlier run is open, and through which gate its runs go.
ALTER TABLE duly.schedule_state
    -- NULL: they may overlap.
    ADD COLUMN overlap text,
    ADD COLUMN gate text COLLATE "C",
    -- The last run that went ahead; NULL: the last that was made; all zeros: none has.
    ADD COLUMN active_run uuid,
    ADD COLUMN overlap_count int8;

-- Whether the run holds a gate: its end is looked at by itself. NULL: it holds none.
ALTER TABLE duly.ready ADD COLUMN is_gated bool;
ALTER TABLE duly.claims
    ADD COLUMN is_gated bool,
    -- For whom it was asked to make way.
    ADD COLUMN replaced_by uuid;
-- The run that stands for one that was coalesced or replaced.
ALTER TABLE duly.outcomes ADD COLUMN into_run uuid;
-- To find one that was claimed before, or that may have been hurried; plain runs never touch it.
DROP INDEX duly.ready_again;
CREATE INDEX ready_again ON duly.ready (run_id) WHERE fence > 0 OR is_gated;

-- A row for each gate, to be locked while somebody decides about it.
CREATE TABLE duly.gates (
    name text COLLATE "C" PRIMARY KEY
) WITH (fillfactor = 50);

-- One open run at a time goes through a gate, and holds it until it is over.
CREATE TABLE duly.held_gates (
    run_id uuid PRIMARY KEY,
    gate text COLLATE "C" NOT NULL UNIQUE
);

-- Runs that wait at a gate: a fifth place for an open run.
CREATE TABLE duly.blocked (
    run_id uuid PRIMARY KEY,
    -- Grows along a gate, because it is drawn by whoever has locked that.
    number int8 GENERATED ALWAYS AS IDENTITY,
    since int8 NOT NULL,
    begun_at int8,
    priority int4 NOT NULL,
    fence int4 NOT NULL,
    attempt int4 NOT NULL,
    charged int4 NOT NULL,
    gate text COLLATE "C" NOT NULL
);
CREATE INDEX blocked_gate ON duly.blocked (gate, priority, number);

-- How much somebody may ask for (S7); NULL: no bound. A tenant is named where an owner is.
CREATE TABLE duly.quotas (
    updated_at int8 NOT NULL,
    most int4 CHECK (most >= 0),
    version int4 NOT NULL,
    scope text COLLATE "C" NOT NULL,
    tenant text COLLATE "C" NOT NULL,
    counted text NOT NULL CHECK (counted IN ('schedules', 'creations', 'pending')),
    updated_by text NOT NULL,
    PRIMARY KEY (scope, tenant, counted)
);
-- An owner's schedules are counted when there is one more of them.
CREATE INDEX schedules_owner ON duly.schedules (tenant, owner) WHERE owner IS NOT NULL;

CREATE OR REPLACE VIEW duly.public_runs AS
SELECT r.id, r.tenant, r.schedule_id, r.key, r.task, r.queue, r.priority, r.origin, r.lane,
    r.scheduled_for, r.not_before, r.created_at, r.fired_at,
    coalesce(o.state, CASE WHEN x.run_id IS NOT NULL THEN 'dead'
        WHEN w.run_id IS NOT NULL THEN 'retrying' WHEN c.run_id IS NOT NULL THEN 'running'
        WHEN b.run_id IS NOT NULL THEN 'blocked' ELSE 'queued' END) AS state,
    coalesce(o.reason, x.reason, w.reason, CASE WHEN substr(b.gate, 1, 4) = 'cap:'
        THEN 'cap ' || substr(b.gate, 5) COLLATE "default"
        WHEN b.run_id IS NOT NULL THEN 'overlap' END)
        AS state_reason, o.finished_at,
    coalesce(o.attempt, c.attempt, w.attempt, x.attempt, b.attempt, 0) AS attempt,
    coalesce(o.started_at, c.started_at) AS started_at, w.due_at AS next_at
FROM duly.runs r
LEFT JOIN duly.outcomes o ON o.run_id = r.id
LEFT JOIN duly.dead x ON x.run_id = r.id
LEFT JOIN duly.waiting w ON w.run_id = r.id
LEFT JOIN duly.claims c ON c.run_id = r.id
LEFT JOIN duly.blocked b ON b.run_id = r.id;

-- Fair shares: within a priority each tenant has a line of his own in the queue, so that no claim has
-- to pass over all of one's runs to find another's. The name is empty for the default tenant, where
-- it fills a gap in the index's rows, and for what programs of schema 2 queue.
ALTER TABLE duly.ready ADD COLUMN tenant text COLLATE "C" NOT NULL DEFAULT '';
DROP INDEX duly.ready_order;
CREATE INDEX ready_order ON duly.ready (queue, priority, tenant, rank, run_id);

-- Backfills: history made on purpose, each a row with a cursor.
CREATE TABLE duly.backfills (
    id uuid PRIMARY KEY,
    schedule_id uuid NOT NULL,
    since int8 NOT NULL,
    until int8 NOT NULL,
    -- NULL: there is nothing left to look at.
    cursor int8,
    total int8 NOT NULL,
    looked_at int8 NOT NULL,
    made int8 NOT NULL,
    created_at int8 NOT NULL,
    updated_at int8 NOT NULL,
    definition_number int4 NOT NULL,
    per_minute int4 NOT NULL,
    concurrency int4 NOT NULL,
    version int4 NOT NULL,
    tenant text COLLATE "C" NOT NULL,
    mode text NOT NULL,
    "order" text NOT NULL,
    -- As a list of words with blanks between them.
    classes text NOT NULL,
    status text NOT NULL,
    created_by text NOT NULL,
    reason text
) WITH (fillfactor = 50);
CREATE INDEX backfills_active ON duly.backfills (id) WHERE status = 'active';
CREATE INDEX backfills_tenant ON duly.backfills (tenant, id);
CREATE INDEX backfills_schedule ON duly.backfills (schedule_id, id);

-- What a backfill has done about each occurrence.
CREATE TABLE duly.backfill_slots (
    backfill_id uuid NOT NULL,
    scheduled_for int8 NOT NULL,
    run_id uuid,
    -- Until it has been seen to be over.
    is_open bool NOT NULL,
    kind text NOT NULL,
    PRIMARY KEY (backfill_id, scheduled_for)
);
CREATE INDEX backfill_slots_open ON duly.backfill_slots (backfill_id, run_id) WHERE is_open;

-- Limits: what code and people say about them; a part that is NULL limits nothing.
CREATE TABLE duly.limits (
    scope text COLLATE "C" NOT NULL,
    source text COLLATE "C" NOT NULL CHECK (source IN ('person', 'code')),
    set_at int8 NOT NULL,
    running int4,
    rate text,
    -- By parameter, as a JSON object.
    running_by text,
    set_by text NOT NULL,
    reason text,
    PRIMARY KEY (scope, source)
);
-- Grows with every change of a limit; every beat of a worker tells it.
ALTER TABLE duly.cluster ADD COLUMN limits_version int8 NOT NULL DEFAULT 0;

-- Places at limits, held for as long as an attempt is claimed. Fence 0: let go from a gate, and not
-- admitted since. Who stands for a place is in duly.blocked, at the gate 'cap:' of that place.
CREATE TABLE duly.held_places (
    run_id uuid NOT NULL,
    fence int4 NOT NULL,
    place text COLLATE "C" NOT NULL,
    PRIMARY KEY (run_id, place)
);
CREATE INDEX held_places_place ON duly.held_places (place);

-- Turns at rates that were given to runs, which have not begun since; of a run that is over, when
-- the limit is, one may be left until the run is pruned.
CREATE TABLE duly.turns (
    run_id uuid PRIMARY KEY,
    at int8 NOT NULL
);
-- To call those back who were put off, when a limit has changed; retries never touch it.
CREATE INDEX waiting_put_off ON duly.waiting (reason)
    WHERE reason ^@ 'rate ' OR reason ^@ 'breaker ';
CREATE TABLE duly.paces (
    place text COLLATE "C" PRIMARY KEY,
    promised_at int8 NOT NULL,
    begun_at int8 NOT NULL,
    again_at int8 NOT NULL
) WITH (fillfactor = 50);

-- What is known of destinations.
CREATE TABLE duly.breakers (
    destination text COLLATE "C" PRIMARY KEY,
    counted_from int8 NOT NULL,
    opened_at int8,
    retry_at int8,
    pause_us int8 NOT NULL,
    epoch int8 NOT NULL,
    updated_at int8 NOT NULL,
    probe uuid,
    succeeded int4 NOT NULL,
    failed int4 NOT NULL,
    state text NOT NULL CHECK (state IN ('closed', 'open', 'half-open'))
) WITH (fillfactor = 50);
