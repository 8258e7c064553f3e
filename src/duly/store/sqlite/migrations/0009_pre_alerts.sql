-- Alerts, their deliveries, and what people say about them. Only adds: programs of older schemas go
-- on, and watch nothing.
-- compatible-with: 1

-- Who watches: one row. Whatever a watcher writes carries holder and epoch.
CREATE TABLE duly_watch (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    epoch INTEGER NOT NULL,
    -- NULL: nobody.
    holder BLOB,
    renewed_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    name TEXT NOT NULL,
    -- What the next one is to know.
    notes TEXT NOT NULL
) STRICT;
INSERT INTO duly_watch (id, epoch, holder, renewed_at, expires_at, name, notes)
VALUES (1, 0, NULL, 0, 0, '', '');

CREATE TABLE duly_alerts (
    id BLOB PRIMARY KEY,
    kind TEXT NOT NULL,
    -- Empty: what all tenants share.
    tenant TEXT NOT NULL,
    subject TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('pending', 'open', 'resolved')),
    severity TEXT NOT NULL,
    rule TEXT NOT NULL,
    summary TEXT NOT NULL,
    remedy TEXT NOT NULL,
    evidence TEXT NOT NULL,
    labels TEXT NOT NULL,
    told_to TEXT NOT NULL,
    since INTEGER NOT NULL,
    seen_at INTEGER NOT NULL,
    raised_at INTEGER,
    told_at INTEGER,
    gone_at INTEGER,
    resolved_at INTEGER,
    acknowledged_at INTEGER,
    acknowledged_by TEXT,
    acknowledged_reason TEXT,
    CHECK ((state = 'resolved') = (resolved_at IS NOT NULL)),
    CHECK ((state = 'pending') = (raised_at IS NULL))
) STRICT, WITHOUT ROWID;
-- One alert about one thing at a time.
CREATE UNIQUE INDEX duly_alerts_live ON duly_alerts (kind, tenant, subject)
    WHERE state <> 'resolved';
CREATE INDEX duly_alerts_tenant ON duly_alerts (tenant, id);
CREATE INDEX duly_alerts_resolved ON duly_alerts (resolved_at) WHERE resolved_at IS NOT NULL;

-- One change of an alert on its way to one channel; its id is computed.
CREATE TABLE duly_alert_deliveries (
    id BLOB PRIMARY KEY,
    alert_id BLOB NOT NULL,
    told TEXT NOT NULL,
    channel TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('pending', 'done', 'given-up')),
    tries INTEGER NOT NULL,
    made_at INTEGER NOT NULL,
    next_at INTEGER NOT NULL,
    settled_at INTEGER,
    error TEXT,
    CHECK ((state = 'pending') = (settled_at IS NULL))
) STRICT, WITHOUT ROWID;
CREATE INDEX duly_alert_deliveries_alert ON duly_alert_deliveries (alert_id);
CREATE INDEX duly_alert_deliveries_due ON duly_alert_deliveries (next_at, id)
    WHERE state = 'pending';

-- Rules, channels and silences, as they were said.
CREATE TABLE duly_alert_terms (
    sort TEXT NOT NULL,
    name TEXT NOT NULL,
    tenant TEXT NOT NULL,
    terms TEXT NOT NULL,
    -- Of a silence.
    until INTEGER,
    set_at INTEGER NOT NULL,
    set_by TEXT NOT NULL,
    reason TEXT,
    PRIMARY KEY (sort, name)
) STRICT, WITHOUT ROWID;

-- What a watcher looks for: dead letters by when they died, runs that were tried several times.
CREATE INDEX duly_dead_age ON duly_dead (died_at);
CREATE INDEX duly_waiting_tried ON duly_waiting (charged) WHERE charged >= 2;
