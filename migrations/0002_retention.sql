-- Chores: what one of the nodes does again and again. holder does it now, until lease_until at
-- most; next_at = when it is due again; result = what came of it last, as JSON.
CREATE TABLE chores (
    chore       TEXT PRIMARY KEY,
    holder      TEXT NOT NULL,
    lease_until BIGINT NOT NULL,
    next_at     BIGINT NOT NULL,
    done_at     BIGINT,
    result      TEXT NOT NULL
);
-- How far a chore that leaves its rows in their place has come with each account.
CREATE TABLE retention_marks (
    account_id TEXT NOT NULL,
    chore      TEXT NOT NULL,
    done_until TEXT NOT NULL,
    PRIMARY KEY (account_id, chore)
);
CREATE INDEX tokens_by_expiry ON tokens (expires_at);
CREATE INDEX tokens_by_revocation ON tokens (revoked_at) WHERE revoked_at IS NOT NULL;
