-- Seals of the audit trail. Only adds: programs of older schemas go on, and seal nothing.
-- compatible-with: 1

-- Each names the entries of a stretch of the trail by number and digest, and is hashed together
-- with the one before it. Entries stay as they were written.
CREATE TABLE duly.seals (
    number int8 PRIMARY KEY,
    after int8 NOT NULL,
    through int8 NOT NULL,
    sealed_at int8 NOT NULL,
    sealed_by int8 NOT NULL,
    format int4 NOT NULL,
    -- 40 bytes for each: its number, and the SHA-256 of all that it says.
    entries bytea NOT NULL,
    hash bytea NOT NULL,
    CHECK (after < through)
);
