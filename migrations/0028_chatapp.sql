-- Messages over the chat-app. recipient: + and digits, or a pseudonym once it is forgotten.
-- billing_mode: direct or session; billing_kind: what the price is of. session_id: the session that
-- covered it. content_sealed: what it says, sealed, while it may have to be sent. status: submitted,
-- sent, delivered, read, failed. error: why it failed; carrier_code: the carrier's own word for that.
-- event_count: events so far, and the guard of every change. Its attempt says when something is due.
CREATE TABLE chatapp_messages (
    account_id      TEXT NOT NULL,
    message_id      TEXT NOT NULL,
    recipient       TEXT NOT NULL,
    country         TEXT NOT NULL,
    reference       TEXT,
    client_id       TEXT,
    billing_mode    TEXT NOT NULL,
    billing_kind    TEXT NOT NULL,
    template        TEXT,
    language        TEXT,
    content_sealed  BYTEA,
    charged_credits BIGINT NOT NULL,
    session_id      TEXT,
    attempt_id      TEXT NOT NULL,
    status          TEXT NOT NULL,
    error           TEXT,
    carrier_code    TEXT,
    event_count     BIGINT NOT NULL,
    valid_until     BIGINT NOT NULL,
    created_at      BIGINT NOT NULL,
    updated_at      BIGINT NOT NULL,
    PRIMARY KEY (account_id, message_id)
);
CREATE INDEX chatapp_messages_by_recipient ON chatapp_messages (recipient, account_id, message_id);
-- Templates that an account declared. is_draft: 1 = not submitted. status: PENDING, APPROVED,
-- REJECTED; provider_status: the upstream's own word. approves_at: when one of the sandbox is judged.
-- buttons: as declared, JSON.
CREATE TABLE chatapp_templates (
    account_id           TEXT NOT NULL,
    name                 TEXT NOT NULL,
    language             TEXT NOT NULL,
    category             TEXT NOT NULL,
    body                 TEXT NOT NULL,
    footer               TEXT,
    buttons              TEXT NOT NULL,
    is_draft             BIGINT NOT NULL,
    status               TEXT NOT NULL,
    provider_status      TEXT NOT NULL,
    provider_template_id TEXT NOT NULL,
    rejection_reason     TEXT,
    approves_at          BIGINT,
    created_at           BIGINT NOT NULL,
    updated_at           BIGINT NOT NULL,
    PRIMARY KEY (account_id, name, language)
);
-- Consent sessions, from the moment on that a person is to be asked. challenge_id: the passcode that
-- they were asked after. attempt_id: of the prompt; '' = it is not out yet. status: pending, active,
-- declined, expired, failed. reason: why it stands so. expires_at: of a pending one, when the prompt
-- ends. event_count: events so far, and the guard of every change. next_at: when something is due.
CREATE TABLE chatapp_sessions (
    account_id     TEXT NOT NULL,
    session_id     TEXT NOT NULL,
    recipient      TEXT NOT NULL,
    country        TEXT NOT NULL,
    challenge_id   TEXT NOT NULL,
    language       TEXT NOT NULL,
    consent_status TEXT NOT NULL,
    status         TEXT NOT NULL,
    reason         TEXT NOT NULL,
    billed_credits BIGINT NOT NULL,
    attempt_id     TEXT NOT NULL,
    event_count    BIGINT NOT NULL,
    expires_at     BIGINT NOT NULL,
    consent_at     BIGINT,
    ended_at       BIGINT,
    created_at     BIGINT NOT NULL,
    next_at        BIGINT,
    PRIMARY KEY (account_id, session_id)
);
CREATE INDEX chatapp_sessions_by_recipient ON chatapp_sessions (recipient, account_id, session_id);
CREATE INDEX chatapp_sessions_due ON chatapp_sessions (next_at) WHERE next_at IS NOT NULL;
-- A person is asked by an account once at a time.
CREATE UNIQUE INDEX chatapp_sessions_open ON chatapp_sessions (recipient, account_id)
    WHERE status IN ('pending', 'active');
-- Whether the person is asked for a messaging session once the passcode is delivered.
ALTER TABLE challenges ADD COLUMN asks_consent BIGINT NOT NULL DEFAULT 0;
