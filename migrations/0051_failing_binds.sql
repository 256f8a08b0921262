-- A node whose bind fails leaves its messages to nodes whose bind stands: these must know which does.
-- The lease_until of a lease whose bind fails; any other number: it stands.
ALTER TABLE bind_slots ADD COLUMN failing BIGINT NOT NULL DEFAULT 0;
