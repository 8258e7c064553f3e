-- Search: indexes for looking at runs, attempts and the audit trail. Only adds, but for one index that
-- another takes the place of. What fires and ends as planned is in none of them, but for runs of tenants
-- other than the default one, which have one entry each.
-- compatible-with: 1

-- When an id begins, in milliseconds since 1970.
CREATE FUNCTION duly.stamp_ms(id uuid) RETURNS int8 LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT ('x' || pg_catalog.encode(pg_catalog.substring(pg_catalog.uuid_send(id), 1, 6), 'hex'))
        ::pg_catalog.bit(48)::int8 $$;

-- All runs of a tenant. Those of the default one are walked by their primary key.
CREATE INDEX runs_tenant ON duly.runs (tenant, id) WHERE tenant <> 'default';
-- Runs that are found by another time than their id begins with: moved ones, repetitions, ids that a
-- caller chose. An occurrence's id is computed from its time.
CREATE INDEX runs_strays ON duly.runs (tenant, scheduled_for)
    WHERE (scheduled_for < 0 OR (origin NOT IN ('schedule', 'catch-up')
        AND abs(duly.stamp_ms(id) - scheduled_for / 1000) > 3600000));
-- What repeats a run.
CREATE INDEX runs_root ON duly.runs (root, id) WHERE root IS NOT NULL;

-- Of whom are rows that are out of the ordinary, for these alone to be found by. NULL: an outcome that
-- nobody has to look for by what it is.
ALTER TABLE duly.outcomes ADD COLUMN tenant text COLLATE "C";
ALTER TABLE duly.attempts ADD COLUMN tenant text COLLATE "C";
ALTER TABLE duly.dead ADD COLUMN tenant text COLLATE "C";
ALTER TABLE duly.ambiguous ADD COLUMN tenant text COLLATE "C";
UPDATE duly.outcomes t SET tenant = r.tenant FROM duly.runs r
WHERE r.id = t.run_id AND (t.state <> 'succeeded' OR t.reason IS NOT NULL OR t.error IS NOT NULL);
UPDATE duly.attempts t SET tenant = r.tenant FROM duly.runs r
WHERE r.id = t.run_id AND t.error IS NOT NULL;
UPDATE duly.dead t SET tenant = r.tenant FROM duly.runs r WHERE r.id = t.run_id;
UPDATE duly.ambiguous t SET tenant = r.tenant FROM duly.runs r WHERE r.id = t.run_id;

-- By a trigger, so that programs of older schemas do it, too. The condition is looked at for every
-- outcome, the function is called for few.
CREATE FUNCTION duly.note_tenant() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
    NEW.tenant := (SELECT tenant FROM duly.runs WHERE id = NEW.run_id)
    ; RETURN NEW
; END $$;
CREATE TRIGGER note_tenant BEFORE INSERT ON duly.outcomes FOR EACH ROW
    WHEN (NEW.state <> 'succeeded' OR NEW.reason IS NOT NULL OR NEW.error IS NOT NULL)
    EXECUTE FUNCTION duly.note_tenant();
CREATE TRIGGER note_tenant BEFORE INSERT ON duly.attempts FOR EACH ROW
    WHEN (NEW.error IS NOT NULL) EXECUTE FUNCTION duly.note_tenant();
CREATE TRIGGER note_tenant BEFORE INSERT ON duly.dead
    FOR EACH ROW EXECUTE FUNCTION duly.note_tenant();
CREATE TRIGGER note_tenant BEFORE INSERT ON duly.ambiguous
    FOR EACH ROW EXECUTE FUNCTION duly.note_tenant();

-- A statement that makes a run and closes it shows the run to nobody before it is done.
CREATE FUNCTION duly.note_tenant_at_last() RETURNS trigger LANGUAGE plpgsql
    SET enable_seqscan = off AS $$
BEGIN
    UPDATE duly.outcomes SET tenant = (SELECT tenant FROM duly.runs WHERE id = NEW.run_id)
    WHERE run_id = NEW.run_id
    ; RETURN NULL
; END $$;
CREATE TRIGGER note_tenant_at_last AFTER INSERT ON duly.outcomes FOR EACH ROW
    WHEN (NEW.tenant IS NULL
        AND (NEW.state <> 'succeeded' OR NEW.reason IS NOT NULL OR NEW.error IS NOT NULL))
    EXECUTE FUNCTION duly.note_tenant_at_last();

CREATE INDEX outcomes_noted ON duly.outcomes (tenant, state, run_id) WHERE tenant IS NOT NULL;
CREATE INDEX outcomes_failed ON duly.outcomes (tenant, run_id) WHERE error IS NOT NULL;
CREATE INDEX attempts_failed ON duly.attempts (tenant, run_id) WHERE error IS NOT NULL;
CREATE INDEX attempts_worker ON duly.attempts (worker, run_id);
CREATE INDEX dead_tenant ON duly.dead (tenant, run_id);
CREATE INDEX ambiguous_tenant ON duly.ambiguous (tenant, run_id);

-- The audit trail by what people ask for, each in the order in which it was written.
DROP INDEX duly.audit_subject;
CREATE INDEX audit_subject ON duly.audit (subject_id, number) WHERE subject_id IS NOT NULL;
CREATE INDEX audit_name ON duly.audit (subject, number);
CREATE INDEX audit_action ON duly.audit (action, number);
CREATE INDEX audit_people ON duly.audit (actor, number) WHERE actor <> 'duly';
CREATE INDEX audit_tenant ON duly.audit (tenant, number);
CREATE INDEX audit_time ON duly.audit (at);
