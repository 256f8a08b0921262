-- What happened to an object, written in the write set that made it happen.
-- state: what was so at that moment, in the words of the object's room (or the data as JSON).
-- body: the JSON as it was pushed, kept so that every try sends the same bytes.
-- due: NULL = nobody listens, or all deliveries are made. Else the instant from which any node may
-- make them; the node that wrote the row may do so at once.
CREATE TABLE events (
    account_id TEXT NOT NULL,
    event_id   TEXT NOT NULL,
    kind       TEXT NOT NULL,
    object_id  TEXT NOT NULL,
    sequence   BIGINT NOT NULL,
    state      TEXT NOT NULL,
    body       TEXT,
    node       BIGINT NOT NULL,
    due        BIGINT,
    PRIMARY KEY (account_id, event_id)
);
CREATE INDEX events_due ON events (account_id, event_id) WHERE due IS NOT NULL;
-- Accounts that have or had a webhook. Events of all others are never due.
CREATE TABLE listeners (
    account_id TEXT PRIMARY KEY
);
-- Events of a challenge so far: the sequence of its next one.
ALTER TABLE challenges ADD COLUMN event_count BIGINT NOT NULL DEFAULT 0;
-- Webhook targets. One node at a time carries the deliveries of a target: holder and epoch say
-- which, until lease_until. next_at: when any node may take the target over; NULL = nothing to do.
-- work: raised by whoever leaves work, so that it is not overlooked while the holder lets go.
-- failures: tries that failed since the last success; streak: those in a row that may work later;
-- probes: how often the target was parked in a row.
-- recover_after, recover_until: the events that are still to be looked through again.
CREATE TABLE webhooks (
    account_id      TEXT NOT NULL,
    webhook_id      TEXT NOT NULL,
    url             TEXT NOT NULL,
    patterns        TEXT NOT NULL,
    secrets         BYTEA NOT NULL,
    active          BIGINT NOT NULL,
    disabled_reason TEXT,
    disabled_at     BIGINT,
    deleted         BIGINT NOT NULL,
    event_count     BIGINT NOT NULL,
    created_at      BIGINT NOT NULL,
    failures        BIGINT NOT NULL,
    failing_since   BIGINT,
    streak          BIGINT NOT NULL,
    probes          BIGINT NOT NULL,
    parked_until    BIGINT NOT NULL,
    last_success_at BIGINT,
    recover_after   TEXT,
    recover_until   TEXT,
    work            BIGINT NOT NULL,
    holder          BIGINT,
    epoch           BIGINT NOT NULL,
    lease_until     BIGINT NOT NULL,
    next_at         BIGINT,
    PRIMARY KEY (account_id, webhook_id)
);
CREATE INDEX webhooks_due ON webhooks (next_at) WHERE next_at IS NOT NULL;
CREATE INDEX webhooks_held ON webhooks (holder) WHERE holder IS NOT NULL;
-- One event on its way to one target. state: pending, delivered, failed, exhausted.
-- step: tries of the schedule so far; attempts: all tries. manual: the next try goes to a disabled
-- target, too.
CREATE TABLE webhook_deliveries (
    account_id  TEXT NOT NULL,
    webhook_id  TEXT NOT NULL,
    delivery_id TEXT NOT NULL,
    event_id    TEXT NOT NULL,
    kind        TEXT NOT NULL,
    state       TEXT NOT NULL,
    manual      BIGINT NOT NULL,
    step        BIGINT NOT NULL,
    attempts    BIGINT NOT NULL,
    due_at      BIGINT,
    settled_at  BIGINT,
    PRIMARY KEY (account_id, webhook_id, delivery_id)
);
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (account_id, webhook_id, due_at)
    WHERE due_at IS NOT NULL;
CREATE INDEX webhook_deliveries_manual ON webhook_deliveries (account_id, webhook_id, due_at)
    WHERE manual = 1;
-- Every try: the status of the answer, or the error; the first 4 KiB of its body.
CREATE TABLE webhook_attempts (
    account_id  TEXT NOT NULL,
    webhook_id  TEXT NOT NULL,
    delivery_id TEXT NOT NULL,
    number      BIGINT NOT NULL,
    at          BIGINT NOT NULL,
    status      BIGINT,
    error       TEXT,
    detail      TEXT,
    latency_ms  BIGINT NOT NULL,
    body        BYTEA,
    PRIMARY KEY (account_id, webhook_id, delivery_id, number)
);
