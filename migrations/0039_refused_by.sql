-- Carriers that did not take an attempt since its last round over all of them, by name, with commas
-- between: its next try goes by another. NULL = none.
ALTER TABLE attempts ADD COLUMN refused_by TEXT;
