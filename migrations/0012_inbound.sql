-- Messages that people sent. account_id: whom it is for; '' = nobody could be found (parked).
-- sender, recipient: + and digits where they are numbers. raw_json: the carrier's payload.
CREATE TABLE inbound (
    account_id  TEXT NOT NULL,
    inbound_id  TEXT NOT NULL,
    channel     TEXT NOT NULL,
    carrier     TEXT NOT NULL,
    upstream_id TEXT NOT NULL,
    sender      TEXT NOT NULL,
    recipient   TEXT NOT NULL,
    message     TEXT NOT NULL,
    raw_json    TEXT NOT NULL,
    received_at BIGINT NOT NULL,
    created_at  BIGINT NOT NULL,
    PRIMARY KEY (account_id, inbound_id)
);
CREATE INDEX inbound_by_sender ON inbound (sender, account_id, inbound_id);
-- Global look-up: a keyed hash of carrier and its id. What was taken in once is not taken in again,
-- whoever it would be for by now.
CREATE TABLE inbound_seen (
    upstream_mac BYTEA PRIMARY KEY,
    seen_at      BIGINT NOT NULL
);
CREATE INDEX inbound_seen_by_age ON inbound_seen (seen_at);
-- Who asked an account for silence. recipient_mac: a keyed hash of account and number, so that the
-- wish outlives the number. opted_out = 0: it was lifted, kept for a while against a late STOP.
-- said_at: when the person said so, by the carrier's clock. channel: where.
CREATE TABLE opt_outs (
    account_id    TEXT NOT NULL,
    recipient_mac BYTEA NOT NULL,
    opted_out     BIGINT NOT NULL,
    channel       TEXT NOT NULL,
    said_at       BIGINT NOT NULL,
    PRIMARY KEY (account_id, recipient_mac)
);
CREATE INDEX opt_outs_lifted ON opt_outs (said_at) WHERE opted_out = 0;
-- Whose number was written to.
CREATE INDEX senders_of_value ON senders (value, account_id);
