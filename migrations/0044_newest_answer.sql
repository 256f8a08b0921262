-- When the newest answer to a consent prompt was said, by the clock of the upstream: an older one
-- that is heard later changes nothing. NULL: nobody answered, or nobody has since this column is
-- here.
ALTER TABLE chatapp_sessions ADD COLUMN answered_at BIGINT;
