-- Alerts, their deliveries, and what people say about them. Only adds: programs of older schemas go
-- on, and watch nothing.
-- compatible-with: 1

-- Who watches: one row. Whatever a watcher writes carries holder and epoch.
CREATE TABLE duly.watch (
    id int4 PRIMARY KEY CHECK (id = 1),
    epoch int8 NOT NULL,
    renewed_at int8 NOT NULL,
    expires_at int8 NOT NULL,
    -- NULL: nobody.
    holder bytea,
    name text NOT NULL,
    -- What the next one is to know.
    notes text NOT NULL
) WITH (fillfactor = 50);
INSERT INTO duly.watch (id, epoch, renewed_at, expires_at, holder, name, notes)
VALUES (1, 0, 0, 0, NULL, '', '');

CREATE TABLE duly.alerts (
    id uuid PRIMARY KEY,
    since int8 NOT NULL,
    seen_at int8 NOT NULL,
    raised_at int8,
    told_at int8,
    gone_at int8,
    resolved_at int8,
    acknowledged_at int8,
    kind text COLLATE "C" NOT NULL,
    -- Empty: what all tenants share.
    tenant text COLLATE "C" NOT NULL,
    subject text COLLATE "C" NOT NULL,
    state text NOT NULL CHECK (state IN ('pending', 'open', 'resolved')),
    severity text NOT NULL,
    rule text NOT NULL,
    summary text NOT NULL,
    remedy text NOT NULL,
    evidence text NOT NULL,
    labels text NOT NULL,
    told_to text NOT NULL,
    acknowledged_by text,
    acknowledged_reason text,
    CHECK ((state = 'resolved') = (resolved_at IS NOT NULL)),
    CHECK ((state = 'pending') = (raised_at IS NULL))
);
-- One alert about one thing at a time.
CREATE UNIQUE INDEX alerts_live ON duly.alerts (kind, tenant, subject) WHERE state <> 'resolved';
CREATE INDEX alerts_tenant ON duly.alerts (tenant, id);
CREATE INDEX alerts_resolved ON duly.alerts (resolved_at) WHERE resolved_at IS NOT NULL;

-- One change of an alert on its way to one channel; its id is computed.
CREATE TABLE duly.alert_deliveries (
    id uuid PRIMARY KEY,
    alert_id uuid NOT NULL,
    made_at int8 NOT NULL,
    next_at int8 NOT NULL,
    settled_at int8,
    tries int4 NOT NULL,
    told text NOT NULL,
    channel text COLLATE "C" NOT NULL,
    state text NOT NULL CHECK (state IN ('pending', 'done', 'given-up')),
    error text,
    CHECK ((state = 'pending') = (settled_at IS NULL))
);
CREATE INDEX alert_deliveries_alert ON duly.alert_deliveries (alert_id);
CREATE INDEX alert_deliveries_due ON duly.alert_deliveries (next_at, id) WHERE state = 'pending';

-- Rules, channels and silences, as they were said.
CREATE TABLE duly.alert_terms (
    until int8,
    set_at int8 NOT NULL,
    sort text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    tenant text COLLATE "C" NOT NULL,
    terms text NOT NULL,
    set_by text NOT NULL,
    reason text,
    PRIMARY KEY (sort, name)
);

-- What a watcher looks for: dead letters by when they died, runs that were tried several times.
CREATE INDEX dead_age ON duly.dead (died_at);
CREATE INDEX waiting_tried ON duly.waiting (charged) WHERE charged >= 2;
