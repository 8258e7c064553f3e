-- Workers that people take out of service. Only adds: programs of older schemas go on. Their workers
-- don't hear of it, and go on claiming.
-- compatible-with: 1

-- Why a worker claims nothing, though it is alive; NULL: it does.
ALTER TABLE duly_members ADD COLUMN standing TEXT;

-- Hosts of which no worker claims anything, those to come included.
CREATE TABLE duly_quarantined_hosts (
    host TEXT PRIMARY KEY,
    since INTEGER NOT NULL,
    by TEXT NOT NULL,
    reason TEXT
) STRICT, WITHOUT ROWID;
