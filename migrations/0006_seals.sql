-- The proof of ledger and audit log. Each seal covers a block of rows and the seal before it, and is
-- keyed; rows are only ever added, and numbers have no gaps. What the kinds are: credits/seals.
CREATE TABLE seals (
    seal_no    BIGINT PRIMARY KEY,
    kind       TEXT NOT NULL,
    account_id TEXT NOT NULL,
    after_id   TEXT NOT NULL,
    until_id   TEXT NOT NULL,
    row_count  BIGINT NOT NULL,
    credits    BIGINT NOT NULL,
    digest     BYTEA NOT NULL,
    detail     TEXT NOT NULL,
    sealed_at  BIGINT NOT NULL,
    last_hash  BYTEA NOT NULL,
    hash       BYTEA NOT NULL,
    mac        BYTEA NOT NULL
);
CREATE INDEX seals_of_account ON seals (account_id, kind, seal_no);
-- Transfers whose id lies in a stretch that is sealed or about to be: the end of an old hold, a
-- late refund. seal_no: the seal that covers it, 0 = none yet.
CREATE TABLE late_transfers (
    account_id  TEXT NOT NULL,
    transfer_id TEXT NOT NULL,
    seal_no     BIGINT NOT NULL,
    PRIMARY KEY (account_id, transfer_id)
);
CREATE INDEX late_transfers_open ON late_transfers (transfer_id, account_id) WHERE seal_no = 0;
-- Keyed hash of the line; NULL in lines that are older than this column.
ALTER TABLE audit_log ADD COLUMN mac BYTEA;
