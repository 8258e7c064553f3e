-- Where the audit trail's orders came from. Only adds: programs of older schemas go on, and tell
-- neither.
-- compatible-with: 1

-- The address of the network that an order came from; NULL for one that came over none.
ALTER TABLE duly.audit ADD COLUMN address text;
-- By which token or session: its kind and its id.
ALTER TABLE duly.audit ADD COLUMN credential text;
