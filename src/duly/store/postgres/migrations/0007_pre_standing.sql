-- Workers that people take out of service. Only adds: programs of older schemas go on. Their workers
-- don't hear of it, and go on claiming.
-- compatible-with: 1

-- Why a worker claims nothing, though it is alive; NULL: it does.
ALTER TABLE duly.members ADD COLUMN standing text;

-- Hosts of which no worker claims anything, those to come included.
CREATE TABLE duly.quarantined_hosts (
    host text COLLATE "C" PRIMARY KEY,
    since int8 NOT NULL,
    "by" text NOT NULL,
    reason text
);
