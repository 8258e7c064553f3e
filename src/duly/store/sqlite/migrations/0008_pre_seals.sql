-- Seals of the audit trail. Only adds: programs of older schemas go on, and seal nothing.
-- compatible-with: 1

-- Each names the entries of a stretch of the trail by number and digest, and is hashed together
-- with the one before it. Entries stay as they were written.
CREATE TABLE duly_seals (
    number INTEGER PRIMARY KEY,
    after INTEGER NOT NULL,
    through INTEGER NOT NULL,
    format INTEGER NOT NULL,
    -- 40 bytes for each: its number, and the SHA-256 of all that it says.
    entries BLOB NOT NULL,
    hash BLOB NOT NULL,
    sealed_at INTEGER NOT NULL,
    sealed_by INTEGER NOT NULL,
    CHECK (after < through)
) STRICT;
