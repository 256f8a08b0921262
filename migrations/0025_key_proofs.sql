-- A keyed hash that says that the service wrote the row: one that somebody else made up must not
-- stop every start with the demand for a key that never was. NULL = of a version without it; the
-- next start fills it in where the key is there.
ALTER TABLE master_keys ADD COLUMN proof BYTEA;
