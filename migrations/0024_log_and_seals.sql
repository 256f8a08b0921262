-- The newest seal that the writer of a line knew; 0 = none. Covered by the line's hash: a chain that ends
-- before it was cut off.
ALTER TABLE audit_log ADD COLUMN seal_no BIGINT NOT NULL DEFAULT 0;
