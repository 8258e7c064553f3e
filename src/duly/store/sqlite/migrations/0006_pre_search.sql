-- Search: indexes for looking at runs, attempts and the audit trail. Only adds. What fires and ends as
-- planned is in none of them, but for runs of tenants other than the default one, which have one entry
-- each.
-- compatible-with: 1

-- All runs of a tenant. Those of the default one are walked by their primary key.
CREATE INDEX duly_runs_tenant ON duly_runs (tenant, id) WHERE tenant <> 'default';
-- Runs that are found by another time than their id begins with: moved ones, repetitions, ids that a
-- caller chose. An occurrence's id is computed from its time.
CREATE INDEX duly_runs_strays ON duly_runs (tenant, scheduled_for)
    WHERE (scheduled_for < 0 OR (origin NOT IN ('schedule', 'catch-up')
        AND hex(substr(id, 1, 6)) NOT BETWEEN format('%012X', scheduled_for / 1000 - 3600000)
            AND format('%012X', scheduled_for / 1000 + 3600000)));
-- What repeats a run.
CREATE INDEX duly_runs_root ON duly_runs (root, id) WHERE root IS NOT NULL;

-- Rows that are out of the ordinary.
CREATE INDEX duly_outcomes_noted ON duly_outcomes (state, run_id)
    WHERE (state <> 'succeeded' OR reason IS NOT NULL);
CREATE INDEX duly_outcomes_failed ON duly_outcomes (run_id) WHERE error IS NOT NULL;
CREATE INDEX duly_attempts_failed ON duly_attempts (run_id) WHERE error IS NOT NULL;
CREATE INDEX duly_attempts_worker ON duly_attempts (worker, run_id);

-- The audit trail by what people ask for; each has the order in which it was written.
CREATE INDEX duly_audit_name ON duly_audit (subject);
CREATE INDEX duly_audit_action ON duly_audit (action);
CREATE INDEX duly_audit_people ON duly_audit (actor) WHERE actor <> 'duly';
CREATE INDEX duly_audit_tenant ON duly_audit (tenant);
CREATE INDEX duly_audit_time ON duly_audit (at);
