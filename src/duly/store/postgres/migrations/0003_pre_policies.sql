-- Policies. Programs of schema 2 go on firing.
-- compatible-with: 2

-- Fair shares: within a priority each tenant has a line of his own in the queue, so that no claim has
-- to pass over all of one's runs to find another's. The name is empty for the default tenant, where
-- it fills a gap in the index's rows, and for what programs of schema 2 queue.
ALTER TABLE duly.ready ADD COLUMN tenant text COLLATE "C" NOT NULL DEFAULT '';
DROP INDEX duly.ready_order;
CREATE INDEX ready_order ON duly.ready (queue, priority, tenant, rank, run_id);
