-- Master keys that something in this database may be written with, by an id that tells nothing of
-- the key. state: next (all nodes learn of it), current (what is written carries it), former (what
-- was written may still). kept: the keys of hashes that stand for ever, sealed with this key.
CREATE TABLE master_keys (
    key_id     TEXT PRIMARY KEY,
    state      TEXT NOT NULL,
    kept       BYTEA NOT NULL,
    changed_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX master_keys_by_state ON master_keys (state) WHERE state <> 'former';
-- Processes that serve, so that a new master key waits for all of them: the ids of the keys that
-- each has, and of the one that it writes with.
CREATE TABLE nodes (
    node       BIGINT PRIMARY KEY,
    process_id BIGINT NOT NULL,
    key_ids    TEXT NOT NULL,
    writes     TEXT NOT NULL,
    seen_at    BIGINT NOT NULL
);
CREATE INDEX nodes_by_age ON nodes (seen_at);
