-- Access: tokens, sessions of browsers, one-time codes, answers to orders that may come again, and frozen
-- sets of runs. Only adds; programs of older schemas know nothing of it, and need not.
-- compatible-with: 1

-- Of a secret its SHA-256 is kept, and nothing else.
CREATE TABLE duly_tokens (
    id BLOB PRIMARY KEY,
    name TEXT NOT NULL,
    -- '*' for one that may name any.
    tenant TEXT NOT NULL,
    role TEXT NOT NULL CHECK (role IN ('viewer', 'operator', 'admin', 'worker')),
    prefix TEXT NOT NULL UNIQUE,
    hash BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    created_by TEXT NOT NULL,
    -- NULL: never.
    expires_at INTEGER,
    revoked_at INTEGER,
    revoked_by TEXT,
    last_used_at INTEGER
) STRICT, WITHOUT ROWID;

CREATE TABLE duly_sessions (
    hash BLOB PRIMARY KEY,
    id BLOB NOT NULL,
    tenant TEXT NOT NULL,
    name TEXT NOT NULL,
    role TEXT NOT NULL CHECK (role IN ('viewer', 'operator', 'admin', 'worker')),
    -- The token that it was begun with, and ends with; NULL: it was begun with a code.
    token_id BLOB,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX duly_sessions_expiry ON duly_sessions (expires_at);

CREATE TABLE duly_codes (hash BLOB PRIMARY KEY, expires_at INTEGER NOT NULL) STRICT, WITHOUT ROWID;

-- What was answered to an order, by whom it was given and its idempotency key.
CREATE TABLE duly_answers (
    tenant TEXT NOT NULL,
    principal BLOB NOT NULL,
    key TEXT NOT NULL,
    request_hash BLOB NOT NULL,
    fence INTEGER NOT NULL,
    -- When it was first begun, and when last; 0: nobody carries it out.
    first_at INTEGER NOT NULL,
    begun_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    -- NULL until it is answered.
    status INTEGER,
    headers TEXT,
    body BLOB,
    PRIMARY KEY (tenant, principal, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX duly_answers_expiry ON duly_answers (expires_at);

-- Runs as somebody has chosen them, for one order about all of them.
CREATE TABLE duly_frozen_sets (
    id BLOB NOT NULL PRIMARY KEY,
    tenant TEXT NOT NULL,
    made_by TEXT NOT NULL,
    -- As JSON text.
    chosen_by TEXT NOT NULL,
    -- Ids of runs, one after the other.
    ids BLOB NOT NULL,
    as_of INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT;
CREATE INDEX duly_frozen_sets_expiry ON duly_frozen_sets (expires_at);
CREATE INDEX duly_frozen_sets_owner ON duly_frozen_sets (tenant, made_by, id);
