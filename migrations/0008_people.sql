-- Failed logins are counted by email and address together, whether or not the email exists:
-- counted by email alone, a stranger could lock somebody out, and learn which emails exist.
-- guesser_mac: a keyed hash of what was tried and from where. Rows live for an hour.
CREATE TABLE failed_logins (
    guesser_mac BYTEA PRIMARY KEY,
    failures    BIGINT NOT NULL,
    next_try_at BIGINT NOT NULL,
    failed_at   BIGINT NOT NULL
);
CREATE INDEX failed_logins_by_age ON failed_logins (failed_at);
ALTER TABLE users DROP COLUMN failed_logins;
ALTER TABLE users DROP COLUMN next_login_at;
ALTER TABLE users ADD COLUMN last_login_at BIGINT;
ALTER TABLE users ADD COLUMN email_verified_at BIGINT;
ALTER TABLE staff DROP COLUMN failed_logins;
ALTER TABLE staff DROP COLUMN next_login_at;
ALTER TABLE staff ADD COLUMN last_login_at BIGINT;
-- A token as its owner sees it. Older tokens have none: they end with their time or the password.
ALTER TABLE tokens ADD COLUMN session_id TEXT NOT NULL DEFAULT '';
DROP INDEX tokens_of_subject;
CREATE INDEX tokens_of_subject ON tokens (subject_id, session_id);
