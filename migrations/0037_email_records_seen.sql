-- What name servers said when the records of a domain were looked at last: an object in JSON, by
-- record. What names here are the domain's own, so nobody's data are in it.
ALTER TABLE email_domains ADD COLUMN seen TEXT NOT NULL DEFAULT '{}';
