-- Emails. from_email, reply_to: as the account wrote them. queued to suppressed: how many recipients
-- stand so. event_count: events so far. Of what is forgotten, subject and from_email are empty.
CREATE TABLE emails (
    account_id      TEXT NOT NULL,
    email_id        TEXT NOT NULL,
    from_email      TEXT NOT NULL,
    reply_to        TEXT,
    subject         TEXT NOT NULL,
    reference       TEXT,
    size_bytes      BIGINT NOT NULL,
    priority        BIGINT NOT NULL,
    queued          BIGINT NOT NULL,
    sent            BIGINT NOT NULL,
    delivered       BIGINT NOT NULL,
    bounced         BIGINT NOT NULL,
    failed          BIGINT NOT NULL,
    suppressed      BIGINT NOT NULL,
    charged_credits BIGINT NOT NULL,
    event_count     BIGINT NOT NULL,
    valid_until     BIGINT NOT NULL,
    created_at      BIGINT NOT NULL,
    updated_at      BIGINT NOT NULL,
    PRIMARY KEY (account_id, email_id)
);
CREATE INDEX emails_by_reference ON emails (reference, account_id, email_id) WHERE reference IS NOT NULL;
-- What an email says, sealed, while it may have to be sent to somebody.
CREATE TABLE email_contents (
    account_id TEXT NOT NULL,
    email_id   TEXT NOT NULL,
    sealed     BYTEA NOT NULL,
    PRIMARY KEY (account_id, email_id)
);
-- Who gets an email. kind: to, cc, bcc. mailbox: as it was written, '' once it is forgotten;
-- address_mac: a keyed hash of account and address, which stays. error: why it did not arrive;
-- detail: what the mail server said. An attempt's object is the email's id, a dot and the position.
-- change_count guards every change.
CREATE TABLE email_recipients (
    account_id   TEXT NOT NULL,
    email_id     TEXT NOT NULL,
    position     BIGINT NOT NULL,
    kind         TEXT NOT NULL,
    mailbox      TEXT NOT NULL,
    address_mac  BYTEA NOT NULL,
    status       TEXT NOT NULL,
    error        TEXT,
    detail       TEXT,
    attempt_id   TEXT NOT NULL,
    credits      BIGINT NOT NULL,
    change_count BIGINT NOT NULL,
    PRIMARY KEY (account_id, email_id, position)
);
CREATE INDEX email_recipients_by_address ON email_recipients (address_mac, account_id, email_id);
-- Addresses that an account does not write to. address: '' once the person is forgotten; the keyed
-- hash stays, and with it the wish. reason: bounced, complained, unsubscribed, manual.
CREATE TABLE email_suppressions (
    account_id     TEXT NOT NULL,
    address_mac    BYTEA NOT NULL,
    suppression_id TEXT NOT NULL,
    address        TEXT NOT NULL,
    reason         TEXT NOT NULL,
    created_at     BIGINT NOT NULL,
    PRIMARY KEY (account_id, suppression_id)
);
CREATE UNIQUE INDEX email_suppressions_by_address ON email_suppressions (address_mac, account_id);
-- Domains that an account may write from, once verified. found: which of its records were seen,
-- words with a space between them. token: what the ownership record says. keys_sealed: the keys
-- that sign. rsa_key, ed25519_key: their public halves.
CREATE TABLE email_domains (
    account_id  TEXT NOT NULL,
    domain_id   TEXT NOT NULL,
    domain      TEXT NOT NULL,
    status      TEXT NOT NULL,
    token       TEXT NOT NULL,
    rsa_key     BYTEA NOT NULL,
    ed25519_key BYTEA NOT NULL,
    keys_sealed BYTEA,
    found       TEXT NOT NULL,
    created_at  BIGINT NOT NULL,
    checked_at  BIGINT,
    verified_at BIGINT,
    PRIMARY KEY (account_id, domain_id)
);
CREATE UNIQUE INDEX email_domains_by_name ON email_domains (domain, account_id);
-- What mailboxes of the sandbox received. address_mac: a keyed hash of account and address. sealed:
-- the message as a reader sees it.
CREATE TABLE sandbox_mails (
    account_id  TEXT NOT NULL,
    address_mac BYTEA NOT NULL,
    mail_id     TEXT NOT NULL,
    sealed      BYTEA NOT NULL,
    received_at BIGINT NOT NULL,
    PRIMARY KEY (account_id, mail_id)
);
CREATE INDEX sandbox_mails_by_address ON sandbox_mails (address_mac, account_id, mail_id);
