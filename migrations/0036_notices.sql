-- Emails that the service writes itself, to users. No address: it is read from users when the mail
-- goes out. account_id: the user's live account. kind: verify_email, password_reset,
-- webhook_disabled, ticket_answered. object_id: what it is about. token_hash: of the proof in it, good
-- until valid_until or used_at. sealed: the proof, while it may have to be sent. state: waiting, queued,
-- sent, failed. change_count guards every change.
CREATE TABLE notices (
    account_id   TEXT NOT NULL,
    notice_id    TEXT NOT NULL,
    user_id      TEXT NOT NULL,
    kind         TEXT NOT NULL,
    object_id    TEXT NOT NULL,
    token_hash   BYTEA,
    sealed       BYTEA,
    state        TEXT NOT NULL,
    attempt_id   TEXT NOT NULL,
    change_count BIGINT NOT NULL,
    used_at      BIGINT,
    valid_until  BIGINT NOT NULL,
    created_at   BIGINT NOT NULL,
    PRIMARY KEY (account_id, notice_id)
);
-- Emails that another password was asked for, for a second: whether there is such a user is looked up
-- behind the answer. notice_id: what the notice will be. sealed: the email.
CREATE TABLE reset_requests (
    notice_id  TEXT PRIMARY KEY,
    sealed     BYTEA NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE INDEX reset_requests_by_age ON reset_requests (created_at);
CREATE UNIQUE INDEX notices_by_token ON notices (token_hash) WHERE token_hash IS NOT NULL;
CREATE INDEX notices_waiting ON notices (notice_id) WHERE state = 'waiting';
CREATE INDEX notices_of_user ON notices (user_id, kind, created_at);
CREATE INDEX notices_by_age ON notices (created_at);
