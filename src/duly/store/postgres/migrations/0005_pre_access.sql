-- Access: tokens, sessions of browsers, one-time codes, answers to orders that may come again, and frozen
-- sets of runs. Only adds; programs of older schemas know nothing of it, and need not.
-- compatible-with: 1

-- Of a secret its SHA-256 is kept, and nothing else.
CREATE TABLE duly.tokens (
    id uuid PRIMARY KEY,
    created_at int8 NOT NULL,
    -- NULL: never.
    expires_at int8,
    revoked_at int8,
    last_used_at int8,
    prefix text COLLATE "C" NOT NULL UNIQUE,
    hash bytea NOT NULL,
    -- '*' for one that may name any.
    tenant text COLLATE "C" NOT NULL,
    role text NOT NULL CHECK (role IN ('viewer', 'operator', 'admin', 'worker')),
    name text NOT NULL,
    created_by text NOT NULL,
    revoked_by text
);

CREATE TABLE duly.sessions (
    hash bytea PRIMARY KEY,
    id uuid NOT NULL,
    -- The token that it was begun with, and ends with; NULL: it was begun with a code.
    token_id uuid,
    created_at int8 NOT NULL,
    expires_at int8 NOT NULL,
    tenant text COLLATE "C" NOT NULL,
    role text NOT NULL CHECK (role IN ('viewer', 'operator', 'admin', 'worker')),
    name text NOT NULL
);
CREATE INDEX sessions_expiry ON duly.sessions (expires_at);

CREATE TABLE duly.codes (
    hash bytea PRIMARY KEY,
    expires_at int8 NOT NULL
);

-- What was answered to an order, by whom it was given and its idempotency key.
CREATE TABLE duly.answers (
    principal uuid NOT NULL,
    -- When it was first begun, and when last; 0: nobody carries it out.
    first_at int8 NOT NULL,
    begun_at int8 NOT NULL,
    expires_at int8 NOT NULL,
    fence int4 NOT NULL,
    -- NULL until it is answered.
    status int4,
    tenant text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    request_hash bytea NOT NULL,
    headers text,
    body bytea,
    PRIMARY KEY (tenant, principal, key)
);
CREATE INDEX answers_expiry ON duly.answers (expires_at);

-- Runs as somebody has chosen them, for one order about all of them.
CREATE TABLE duly.frozen_sets (
    id uuid PRIMARY KEY,
    as_of int8 NOT NULL,
    expires_at int8 NOT NULL,
    tenant text COLLATE "C" NOT NULL,
    made_by text COLLATE "C" NOT NULL,
    -- As JSON text.
    chosen_by text NOT NULL,
    -- Ids of runs, one after the other.
    ids bytea NOT NULL
);
CREATE INDEX frozen_sets_expiry ON duly.frozen_sets (expires_at);
CREATE INDEX frozen_sets_owner ON duly.frozen_sets (tenant, made_by, id);
