-- The index that finds due events begins with the node, as the look for them does: a database that
-- was not analysed yet read the whole table of events at each look instead.
DROP INDEX events_due;
CREATE INDEX events_due ON events (node, account_id, event_id) WHERE due IS NOT NULL;
