-- SMS messages. recipient: + and digits, or a pseudonym once it is forgotten. sender: '' = the
-- carrier's own. text_sealed: what it says, sealed, while it may have to be sent (again).
-- status: queued, submitted, delivered, undelivered, failed, expired. error: why it did not arrive;
-- carrier_code: the carrier's own word for that. event_count: events so far, and the guard of every
-- change. Its attempt says when something is due.
CREATE TABLE sms_messages (
    account_id      TEXT NOT NULL,
    sms_id          TEXT NOT NULL,
    recipient       TEXT NOT NULL,
    reference       TEXT,
    sender          TEXT NOT NULL,
    text_sealed     BYTEA,
    class           TEXT NOT NULL,
    encoding        TEXT NOT NULL,
    segments        BIGINT NOT NULL,
    charged_credits BIGINT NOT NULL,
    attempt_id      TEXT NOT NULL,
    status          TEXT NOT NULL,
    error           TEXT,
    carrier_code    TEXT,
    event_count     BIGINT NOT NULL,
    valid_until     BIGINT NOT NULL,
    created_at      BIGINT NOT NULL,
    updated_at      BIGINT NOT NULL,
    PRIMARY KEY (account_id, sms_id)
);
CREATE INDEX sms_messages_by_recipient ON sms_messages (recipient, account_id, sms_id);
CREATE INDEX sms_messages_by_reference ON sms_messages (reference, account_id, sms_id) WHERE reference IS NOT NULL;
