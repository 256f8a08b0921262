-- Verified domains are checked again daily. missing_since: since when a record that has to be there was
-- not seen; the domain stays verified for three days more.
ALTER TABLE email_domains ADD COLUMN missing_since BIGINT;
