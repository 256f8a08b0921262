-- What an account may have only so many of: whoever adds one locks the row, so that counting sees
-- all that others added. turn only changes so that there is something to lock.
CREATE TABLE limits (
    account_id TEXT NOT NULL,
    limited    TEXT NOT NULL,
    turn       BIGINT NOT NULL,
    PRIMARY KEY (account_id, limited)
);
-- Handset messages go account by account now, old ones and those that are too many. The condition
-- is true of all rows; it keeps look-ups by the primary key from taking this index.
DROP INDEX handset_messages_by_age;
CREATE INDEX handset_messages_of_account ON handset_messages (account_id, message_id)
    WHERE received_at > 0;
-- Webhooks: how long the tries of a target take, NULL before the first; the environment that the
-- account is of.
ALTER TABLE webhooks ADD COLUMN pace_ms BIGINT;
ALTER TABLE webhooks ADD COLUMN env TEXT NOT NULL DEFAULT 'sandbox';
UPDATE webhooks SET env = 'live'
    WHERE account_id IN (SELECT account_id FROM accounts WHERE env = 'live');
