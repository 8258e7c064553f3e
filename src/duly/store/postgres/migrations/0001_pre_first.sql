-- The first schema. Tables are private; the views at the end are what others may read.
-- compatible-with: 1

-- The store's clock. All that is due, late or expired is so by this one.
CREATE FUNCTION duly.now_us() RETURNS int8 LANGUAGE sql VOLATILE PARALLEL SAFE
    AS $$ SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::int8 $$;

CREATE TABLE duly.migrations (
    number int4 PRIMARY KEY,
    phase text NOT NULL,
    name text NOT NULL,
    checksum text NOT NULL,
    applied_at int8 NOT NULL
);

CREATE TABLE duly.cluster (
    id int4 PRIMARY KEY CHECK (id = 1),
    -- Tells this store from any other, so that nobody promises into the wrong database.
    identity uuid NOT NULL DEFAULT gen_random_uuid(),
    shards int4 NOT NULL CHECK (shards BETWEEN 1 AND 4096),
    incarnation int4 NOT NULL,
    tzdata text NOT NULL,
    -- The oldest schema number that a program may know and still use this database.
    program_min int4 NOT NULL,
    -- Where the walk over schedules that keeps the newest runs of each has got to.
    pruned_after uuid,
    -- Which leaf of the queue and of the feed is written to, and since when.
    era int2 NOT NULL DEFAULT 0,
    era_since int8 NOT NULL DEFAULT 0
);

-- How many there are of what grows with promises, so that nobody has to count them. A change is
-- appended, because a counter that everybody updates is a lock that everybody waits for; what has
-- been appended is folded into the count by maintenance.
CREATE TABLE duly.tallies (
    name text PRIMARY KEY,
    count int8 NOT NULL
);
INSERT INTO duly.tallies (name, count)
VALUES ('active', 0), ('paused', 0), ('ended', 0), ('deleted', 0), ('delayed', 0);
CREATE TABLE duly.tally_changes (
    name text NOT NULL,
    change int8 NOT NULL
);

CREATE TABLE duly.schedules (
    id uuid PRIMARY KEY,
    tenant text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    owner text,
    declared_by text,
    status text NOT NULL CHECK (status IN ('active', 'paused', 'ended', 'deleted')),
    reason text,
    resume_at int8,
    resume_missed text,
    status_before text,
    created_at int8 NOT NULL,
    updated_at int8 NOT NULL,
    updated_by text NOT NULL
);
CREATE UNIQUE INDEX schedules_name ON duly.schedules (tenant, name) WHERE status <> 'deleted';
CREATE INDEX schedules_order ON duly.schedules (tenant, name, id);
CREATE INDEX schedules_resume ON duly.schedules (resume_at) WHERE resume_at IS NOT NULL;
CREATE INDEX schedules_deleted ON duly.schedules (updated_at) WHERE status = 'deleted';

CREATE TABLE duly.schedule_definitions (
    schedule_id uuid NOT NULL,
    number int4 NOT NULL,
    definition text NOT NULL,
    made_at int8 NOT NULL,
    made_by text NOT NULL,
    PRIMARY KEY (schedule_id, number)
);

-- The arguments of a definition, if they are short. What no text can hold is left to who reads JSON.
CREATE FUNCTION duly.short_arguments(definition text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN pg_catalog.length(found.arguments) <= 200 THEN found.arguments END
    FROM (SELECT CASE WHEN pg_catalog.strpos(definition, '\u0000') = 0 THEN
        pg_catalog.json_extract_path(definition::pg_catalog.json, 'arguments')::text END
        AS arguments) found $$;

-- The one row that a fire changes, with all that a fire copies into the run and the queue. Half of
-- each page is left free, so that a fire that moves no indexed column stays within its page. What
-- holds of its instants is made so by every statement and looked for by `check`: the server would
-- read a constraint anew from its text for every batch, which took as long as three fires.
CREATE TABLE duly.schedule_state (
    schedule_id uuid PRIMARY KEY,
    next_for int8,
    next_due int8,
    -- A lower bound of next_due, and the only instant with an index: it is moved when it has fallen
    -- far behind, and not by every fire.
    load_at int8,
    last_for int8,
    -- What last_for was before a plain fire, for that fire's own run to tell: where its window begins.
    before_last int8,
    last_fired_at int8,
    last_run uuid,
    fires int8 NOT NULL,
    held_for int8,
    pruned_through int8,
    version int4 NOT NULL,
    definition_number int4 NOT NULL,
    shard int4 NOT NULL,
    priority int4 NOT NULL,
    tenant text NOT NULL,
    task text NOT NULL,
    queue text NOT NULL,
    -- As in the schedule and in its definition, for whoever claims the run: he would look them up
    -- one by one. NULL: he has to, because they are long.
    name text,
    arguments text
) WITH (fillfactor = 50);
CREATE INDEX schedule_state_load ON duly.schedule_state (shard, load_at) WHERE load_at IS NOT NULL;

CREATE TABLE duly.delayed (
    id uuid PRIMARY KEY,
    due_at int8 NOT NULL,
    created_at int8 NOT NULL,
    schedule_id uuid,
    definition_number int4,
    shard int4 NOT NULL,
    generation int4 NOT NULL,
    priority int4 NOT NULL,
    tenant text COLLATE "C" NOT NULL,
    key text COLLATE "C",
    task text NOT NULL,
    arguments text NOT NULL,
    queue text NOT NULL,
    origin text NOT NULL,
    lane text NOT NULL,
    fingerprint text NOT NULL
);
CREATE UNIQUE INDEX delayed_key ON duly.delayed (tenant, key) WHERE key IS NOT NULL;
CREATE INDEX delayed_order ON duly.delayed (tenant, due_at, id);
CREATE INDEX delayed_due ON duly.delayed (shard, due_at, id);

-- What was written shortly before it falls due. Its transaction's number lets a reader take what
-- became visible since its last look, whatever the order in which transactions were committed.
CREATE TABLE duly.arrivals (
    arrived xid8 NOT NULL DEFAULT pg_current_xact_id(),
    at int8 NOT NULL,
    ref uuid NOT NULL,
    shard int4 NOT NULL,
    era int2 NOT NULL,
    is_schedule bool NOT NULL
) PARTITION BY LIST (era);
CREATE TABLE duly.arrivals_0 PARTITION OF duly.arrivals FOR VALUES IN (0);
CREATE TABLE duly.arrivals_1 PARTITION OF duly.arrivals FOR VALUES IN (1);
CREATE TABLE duly.arrivals_2 PARTITION OF duly.arrivals FOR VALUES IN (2);
CREATE TABLE duly.arrivals_3 PARTITION OF duly.arrivals FOR VALUES IN (3);
CREATE INDEX arrivals_arrived ON duly.arrivals (arrived);

-- Ids are never reused: a process that was declared dead comes back under a new one.
CREATE TABLE duly.members (
    id int8 GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    started_at int8 NOT NULL,
    renewed_at int8 NOT NULL,
    expires_at int8 NOT NULL,
    ended_at int8,
    skew_us int8 NOT NULL,
    process int8 NOT NULL,
    is_holding bool NOT NULL,
    kind text NOT NULL,
    host text NOT NULL,
    tzdata text NOT NULL,
    wake_address text NOT NULL,
    -- Its leases with their epochs, as in duly.leases: a firing that locks this row knows them all.
    held int8[] NOT NULL DEFAULT '{}'
) WITH (fillfactor = 50);

CREATE TABLE duly.leases (
    shard int4 NOT NULL,
    lane text COLLATE "C" NOT NULL,
    epoch int8 NOT NULL,
    owner int8,
    acquired_at int8,
    PRIMARY KEY (shard, lane)
);
CREATE INDEX leases_owner ON duly.leases (owner) WHERE owner IS NOT NULL;

CREATE TABLE duly.runs (
    id uuid PRIMARY KEY,
    scheduled_for int8 NOT NULL,
    not_before int8 NOT NULL,
    window_from int8,
    created_at int8 NOT NULL,
    fired_at int8,
    schedule_id uuid,
    -- NULL: the run itself.
    root uuid,
    definition_number int4,
    priority int4 NOT NULL,
    tenant text COLLATE "C" NOT NULL,
    task text NOT NULL,
    queue text NOT NULL,
    origin text NOT NULL,
    lane text NOT NULL,
    key text COLLATE "C",
    -- NULL: as in the definition that the run refers to.
    arguments text,
    -- Short, as it is read anew for every batch; one that has not fired passes.
    CONSTRAINT never_early CHECK (fired_at >= not_before AND not_before >= scheduled_for)
);
CREATE INDEX runs_schedule ON duly.runs (schedule_id, id) WHERE schedule_id IS NOT NULL;
CREATE INDEX runs_key ON duly.runs (tenant, key, created_at) WHERE key IS NOT NULL;
-- Empty for ever: counting early fires costs nothing.
CREATE INDEX runs_early ON duly.runs (fired_at) WHERE fired_at < not_before;

-- No id is both pending and a run, although those are two tables and two requests may come at once.
-- Who has made some pending claims their ids among the runs, for this transaction; who has made runs
-- looks afterwards whether they are pending. Both see what was committed while their statement ran,
-- and both go by an index however small the table was when they were planned: an id of many is
-- compared with all that are asked for in a scan.
CREATE FUNCTION duly.claim_ids(claimed uuid[]) RETURNS bool LANGUAGE sql VOLATILE
    SET enable_seqscan = off AS $$
    INSERT INTO duly.runs (id, scheduled_for, not_before, created_at, priority, tenant, task, queue,
        origin, lane)
    SELECT claim, 0, 0, 0, 0, '', '', '', '', '' FROM pg_catalog.unnest(claimed) claim
    ; DELETE FROM duly.runs WHERE id = ANY(claimed)
    ; SELECT true $$;
CREATE FUNCTION duly.are_pending(asked uuid[]) RETURNS bool LANGUAGE sql VOLATILE
    SET enable_seqscan = off AS $$
    SELECT EXISTS (SELECT 1 FROM duly.delayed WHERE id = ANY(asked)) $$;

-- Rows come and go; leaves are emptied by TRUNCATE and never by vacuum, so that a transaction that
-- is left open elsewhere in the database can't fill the queue with dead rows.
CREATE TABLE duly.ready (
    rank int8 NOT NULL,
    fired_at int8 NOT NULL,
    not_before int8 NOT NULL,
    run_id uuid NOT NULL,
    priority int4 NOT NULL,
    era int2 NOT NULL,
    queue text COLLATE "C" NOT NULL,
    CONSTRAINT never_early CHECK (fired_at >= not_before)
) PARTITION BY LIST (era);
CREATE TABLE duly.ready_0 PARTITION OF duly.ready FOR VALUES IN (0) WITH (autovacuum_enabled = off);
CREATE TABLE duly.ready_1 PARTITION OF duly.ready FOR VALUES IN (1) WITH (autovacuum_enabled = off);
CREATE TABLE duly.ready_2 PARTITION OF duly.ready FOR VALUES IN (2) WITH (autovacuum_enabled = off);
CREATE TABLE duly.ready_3 PARTITION OF duly.ready FOR VALUES IN (3) WITH (autovacuum_enabled = off);
CREATE INDEX ready_order ON duly.ready (queue, priority, rank, run_id);

CREATE TABLE duly.outcomes (
    run_id uuid PRIMARY KEY,
    finished_at int8 NOT NULL,
    state text COLLATE "C" NOT NULL,
    reason text
);
CREATE INDEX outcomes_age ON duly.outcomes (state, finished_at);

CREATE TABLE duly.skips (
    schedule_id uuid NOT NULL,
    first_for int8 NOT NULL,
    last_for int8 NOT NULL,
    count int8,
    at int8 NOT NULL,
    into_run uuid,
    reason text NOT NULL,
    PRIMARY KEY (schedule_id, first_for)
);
CREATE INDEX skips_age ON duly.skips (at);

CREATE TABLE duly.owed (
    schedule_id uuid NOT NULL,
    first_for int8 NOT NULL,
    last_for int8 NOT NULL,
    created_at int8 NOT NULL,
    definition_number int4 NOT NULL,
    shard int4 NOT NULL,
    PRIMARY KEY (schedule_id, first_for),
    CHECK (first_for <= last_for)
);
CREATE INDEX owed_order ON duly.owed (shard, created_at, schedule_id, first_for);

CREATE TABLE duly.audit (
    number int8 GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at int8 NOT NULL,
    subject_id uuid,
    actor text NOT NULL,
    source text NOT NULL,
    reason text,
    action text NOT NULL,
    tenant text NOT NULL,
    subject text NOT NULL,
    before text,
    after text,
    -- Written afterwards by the sealer, which chains the entries.
    seal bytea
);
CREATE INDEX audit_subject ON duly.audit (subject_id) WHERE subject_id IS NOT NULL;

CREATE TABLE duly.tasks (name text COLLATE "C" PRIMARY KEY);

CREATE VIEW duly.public_schedules AS
SELECT s.id, s.tenant, s.name, s.owner, s.status, s.reason, t.version, t.task, t.queue,
    t.next_for, t.next_due, t.last_for, t.last_run, t.last_fired_at, t.fires,
    s.created_at, s.updated_at
FROM duly.schedules s JOIN duly.schedule_state t ON t.schedule_id = s.id;

CREATE VIEW duly.public_runs AS
SELECT r.id, r.tenant, r.schedule_id, r.key, r.task, r.queue, r.priority, r.origin, r.lane,
    r.scheduled_for, r.not_before, r.created_at, r.fired_at,
    coalesce(o.state, 'queued') AS state, o.reason AS state_reason, o.finished_at
FROM duly.runs r LEFT JOIN duly.outcomes o ON o.run_id = r.id;
