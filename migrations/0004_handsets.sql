-- What virtual handsets of the sandbox received, where a service has several nodes. phone_mac: a
-- keyed hash of the number. sealed: text, code and buttons.
CREATE TABLE handset_messages (
    account_id  TEXT NOT NULL,
    phone_mac   BYTEA NOT NULL,
    message_id  TEXT NOT NULL,
    sealed      BYTEA NOT NULL,
    received_at BIGINT NOT NULL,
    PRIMARY KEY (account_id, phone_mac, message_id)
);
CREATE INDEX handset_messages_by_age ON handset_messages (received_at);
