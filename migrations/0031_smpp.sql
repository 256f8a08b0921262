-- How many parts the message of a submission has: it is delivered when all of them are.
ALTER TABLE submissions ADD COLUMN parts BIGINT NOT NULL DEFAULT 1;
-- Where an early receipt came from, as a keyed hash: its id is a guess, to be believed only of a
-- message to that number. NULL = the id is certain.
ALTER TABLE early_receipts ADD COLUMN recipient_mac BYTEA;
-- Which node may have which connection to a carrier that counts them.
CREATE TABLE bind_slots (
    carrier     TEXT NOT NULL,
    slot        BIGINT NOT NULL,
    node        BIGINT NOT NULL,
    lease_until BIGINT NOT NULL,
    PRIMARY KEY (carrier, slot)
);
-- Parts of what somebody wrote, until all of them are there. group_mac: a keyed hash of what they
-- share. body: the part's text; body_mac: a keyed hash of it. done = 1: the message was put together;
-- the row stays for a while, without sender and body, so that a part that is brought again is known.
CREATE TABLE inbound_parts (
    group_mac   BYTEA NOT NULL,
    number      BIGINT NOT NULL,
    total       BIGINT NOT NULL,
    carrier     TEXT NOT NULL,
    sender      TEXT NOT NULL,
    recipient   TEXT NOT NULL,
    body        TEXT NOT NULL,
    body_mac    BYTEA NOT NULL,
    done        BIGINT NOT NULL,
    received_at BIGINT NOT NULL,
    PRIMARY KEY (group_mac, number)
);
CREATE INDEX inbound_parts_by_age ON inbound_parts (received_at);
CREATE INDEX inbound_parts_by_sender ON inbound_parts (sender);
-- The routes of SMS that staff put in force, as JSON; without a row those of the settings hold.
CREATE TABLE sms_routes (
    env        TEXT PRIMARY KEY,
    version    BIGINT NOT NULL,
    routes     TEXT NOT NULL,
    changed_at BIGINT NOT NULL
);
