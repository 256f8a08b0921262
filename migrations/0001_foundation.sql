-- Access: who may call.
CREATE TABLE users (
    user_id       TEXT PRIMARY KEY,
    email         TEXT NOT NULL UNIQUE,
    password_hash TEXT NOT NULL,
    failed_logins BIGINT NOT NULL,
    next_login_at BIGINT NOT NULL,
    created_at    BIGINT NOT NULL
);
CREATE TABLE staff (
    staff_id      TEXT PRIMARY KEY,
    email         TEXT NOT NULL UNIQUE,
    password_hash TEXT NOT NULL,
    failed_logins BIGINT NOT NULL,
    next_login_at BIGINT NOT NULL,
    created_at    BIGINT NOT NULL
);
-- One account per user and environment. available credits = posted - held (+ credit_limit if postpaid).
CREATE TABLE accounts (
    account_id   TEXT PRIMARY KEY,
    user_id      TEXT NOT NULL,
    env          TEXT NOT NULL,
    status       TEXT NOT NULL,
    billing_mode TEXT NOT NULL,
    credit_limit BIGINT NOT NULL CHECK (credit_limit >= 0),
    posted       BIGINT NOT NULL,
    held         BIGINT NOT NULL CHECK (held >= 0),
    settings     TEXT NOT NULL,
    created_at   BIGINT NOT NULL,
    CHECK (posted - held + credit_limit >= 0)
);
CREATE UNIQUE INDEX accounts_of_user ON accounts (user_id, env);
-- Portal and staff tokens; kind is portal or staff, subject_id the user or the staff member.
CREATE TABLE tokens (
    token_hash BYTEA PRIMARY KEY,
    kind       TEXT NOT NULL,
    subject_id TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    revoked_at BIGINT
);
CREATE INDEX tokens_of_subject ON tokens (subject_id);
CREATE TABLE api_keys (
    account_id  TEXT NOT NULL,
    key_id      TEXT NOT NULL,
    name        TEXT NOT NULL,
    key_prefix  TEXT NOT NULL,
    scopes      TEXT NOT NULL,
    active      BIGINT NOT NULL,
    created_at  BIGINT NOT NULL,
    disabled_at BIGINT,
    PRIMARY KEY (account_id, key_id)
);
-- Global look-up: the hash of a key leads to its account.
CREATE TABLE api_key_hashes (
    key_hash   BYTEA PRIMARY KEY,
    account_id TEXT NOT NULL,
    key_id     TEXT NOT NULL
);
CREATE TABLE idempotency (
    account_id  TEXT NOT NULL,
    idem_key    TEXT NOT NULL,
    fingerprint BYTEA NOT NULL,
    object_id   TEXT NOT NULL,
    sealed      BYTEA,
    created_at  BIGINT NOT NULL,
    PRIMARY KEY (account_id, idem_key)
);
CREATE INDEX idempotency_by_age ON idempotency (created_at);
-- Everything staff and keys' owners did; rows are only ever added.
CREATE TABLE audit_log (
    entry_id   TEXT PRIMARY KEY,
    at         BIGINT NOT NULL,
    actor_kind TEXT NOT NULL,
    actor_id   TEXT NOT NULL,
    action     TEXT NOT NULL,
    object_id  TEXT NOT NULL,
    account_id TEXT,
    request_id TEXT NOT NULL,
    detail     TEXT NOT NULL
);
CREATE INDEX audit_log_of_account ON audit_log (account_id, entry_id);
-- Ledger: transfers never change. kind: topup, correction, hold, post, void, refund.
CREATE TABLE transfers (
    account_id  TEXT NOT NULL,
    transfer_id TEXT NOT NULL,
    kind        TEXT NOT NULL,
    amount      BIGINT NOT NULL,
    of_transfer TEXT,
    reason      TEXT NOT NULL,
    object_id   TEXT NOT NULL,
    created_at  BIGINT NOT NULL,
    mac         BYTEA NOT NULL,
    PRIMARY KEY (account_id, transfer_id)
);
-- country '*' is the price of every country without its own. valid_until NULL = until replaced.
CREATE TABLE prices (
    price_id    TEXT PRIMARY KEY,
    channel     TEXT NOT NULL,
    category    TEXT NOT NULL,
    country     TEXT NOT NULL,
    credits     BIGINT NOT NULL CHECK (credits >= 0),
    valid_from  BIGINT NOT NULL,
    valid_until BIGINT
);
CREATE INDEX prices_by_kind ON prices (channel, category, country, valid_from);
CREATE TABLE senders (
    account_id TEXT NOT NULL,
    sender_id  TEXT NOT NULL,
    value      TEXT NOT NULL,
    status     TEXT NOT NULL,
    reason     TEXT,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (account_id, sender_id)
);
CREATE UNIQUE INDEX senders_by_value ON senders (account_id, value);
CREATE UNIQUE INDEX senders_by_id ON senders (sender_id);
-- Passcodes. slot = recipient and reference while open: one open challenge for each, NULL after.
-- settled = 1 once the fate of the current attempt's hold is known.
-- next_at = when the challenge has due work (lease end, fallback, expiry), NULL when it has none.
CREATE TABLE challenges (
    account_id          TEXT NOT NULL,
    challenge_id        TEXT NOT NULL,
    recipient           TEXT NOT NULL,
    reference           TEXT,
    slot                TEXT,
    mode                TEXT NOT NULL,
    channel             TEXT NOT NULL,
    status              TEXT NOT NULL,
    failure_reason      TEXT,
    attempt_id          TEXT NOT NULL,
    provider_message_id TEXT NOT NULL,
    code_mac            BYTEA NOT NULL,
    code_sealed         BYTEA,
    attempts            BIGINT NOT NULL,
    max_attempts        BIGINT NOT NULL,
    fallback_used       BIGINT NOT NULL,
    fallback_ms         BIGINT NOT NULL,
    settled             BIGINT NOT NULL,
    wording             TEXT NOT NULL,
    expires_at          BIGINT NOT NULL,
    verified_at         BIGINT,
    created_at          BIGINT NOT NULL,
    next_at             BIGINT,
    PRIMARY KEY (account_id, challenge_id)
);
CREATE UNIQUE INDEX challenges_open ON challenges (account_id, slot) WHERE slot IS NOT NULL;
CREATE INDEX challenges_by_recipient ON challenges (account_id, recipient, challenge_id);
CREATE INDEX challenges_by_reference ON challenges (account_id, reference, challenge_id) WHERE reference IS NOT NULL;
CREATE INDEX challenges_due ON challenges (next_at) WHERE next_at IS NOT NULL;
-- One submission to a carrier. state: sending, accepted, delivered, refused, failed, unknown, lapsed.
-- The hold in the ledger has the same uuid. code: the carrier's error code.
CREATE TABLE attempts (
    account_id   TEXT NOT NULL,
    attempt_id   TEXT NOT NULL,
    challenge_id TEXT NOT NULL,
    channel      TEXT NOT NULL,
    state        TEXT NOT NULL,
    provider_id  TEXT,
    credits      BIGINT NOT NULL,
    error        TEXT,
    lease_until  BIGINT NOT NULL,
    created_at   BIGINT NOT NULL,
    PRIMARY KEY (account_id, attempt_id)
);
CREATE INDEX attempts_of_challenge ON attempts (account_id, challenge_id, attempt_id);
-- What is remembered of a recipient: sends for the limits (newest first) and reachability.
CREATE TABLE recipients (
    account_id        TEXT NOT NULL,
    recipient         TEXT NOT NULL,
    unreachable_until BIGINT NOT NULL,
    chatapp_sent_at   BIGINT NOT NULL,
    sms_sent_at       BIGINT NOT NULL,
    sent_1  BIGINT NOT NULL,
    sent_2  BIGINT NOT NULL,
    sent_3  BIGINT NOT NULL,
    sent_4  BIGINT NOT NULL,
    sent_5  BIGINT NOT NULL,
    sent_6  BIGINT NOT NULL,
    sent_7  BIGINT NOT NULL,
    sent_8  BIGINT NOT NULL,
    sent_9  BIGINT NOT NULL,
    sent_10 BIGINT NOT NULL,
    PRIMARY KEY (account_id, recipient)
);
