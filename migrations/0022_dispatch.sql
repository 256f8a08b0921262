-- Attempts belong to any channel's messages now, not to passcodes alone. kind and object_id say to
-- which; carrier, by whom it goes. The others are for attempts that go out through a queue:
-- queued_at: since when its carrier's lane may take it (NULL = it is not in the queue); next_at: when
-- due work looks at it (NULL = its message's own row keeps the time); node: which process has it;
-- tries: submissions so far; resends: how many of them followed one of unknown fate. give_up_at: when
-- its message ends whatever became of it, so that no hold is older.
DROP INDEX attempts_of_challenge;
ALTER TABLE attempts RENAME COLUMN challenge_id TO object_id;
ALTER TABLE attempts RENAME COLUMN created_at TO started_at;
ALTER TABLE attempts DROP COLUMN provider_id;
ALTER TABLE attempts ADD COLUMN kind TEXT NOT NULL DEFAULT 'otp';
ALTER TABLE attempts ADD COLUMN carrier TEXT NOT NULL DEFAULT '';
ALTER TABLE attempts ADD COLUMN priority BIGINT NOT NULL DEFAULT 0;
ALTER TABLE attempts ADD COLUMN tries BIGINT NOT NULL DEFAULT 1;
ALTER TABLE attempts ADD COLUMN resends BIGINT NOT NULL DEFAULT 0;
ALTER TABLE attempts ADD COLUMN node BIGINT;
ALTER TABLE attempts ADD COLUMN queued_at BIGINT;
ALTER TABLE attempts ADD COLUMN next_at BIGINT;
ALTER TABLE attempts ADD COLUMN give_up_at BIGINT NOT NULL DEFAULT 0;
UPDATE attempts SET give_up_at = lease_until + 600000;
CREATE INDEX attempts_of_object ON attempts (object_id, account_id, attempt_id);
-- Passcodes have no entry in these two, and what changes with every message (state) is in neither, so
-- that its update stays cheap.
CREATE INDEX attempts_queued ON attempts (carrier, priority, account_id, queued_at)
    WHERE queued_at IS NOT NULL;
CREATE INDEX attempts_due ON attempts (next_at) WHERE next_at IS NOT NULL;
-- Leads from a carrier's own id to the attempt, for carriers that do not bring our id back. part:
-- which part of the message; fate: what became of that part, NULL = nothing is known.
CREATE TABLE submissions (
    carrier     TEXT NOT NULL,
    provider_id TEXT NOT NULL,
    account_id  TEXT NOT NULL,
    attempt_id  TEXT NOT NULL,
    part        BIGINT NOT NULL,
    fate        TEXT,
    PRIMARY KEY (carrier, provider_id)
);
CREATE INDEX submissions_of_attempt ON submissions (attempt_id, account_id);
-- Receipts that lead nowhere yet: the id that they name may be stored a moment later. digest: of the
-- receipt, so that a repeat of it is kept once.
CREATE TABLE early_receipts (
    carrier     TEXT NOT NULL,
    provider_id TEXT NOT NULL,
    digest      BYTEA NOT NULL,
    env         TEXT NOT NULL,
    fate        TEXT NOT NULL,
    error       TEXT,
    received_at BIGINT NOT NULL,
    PRIMARY KEY (carrier, provider_id, digest)
);
CREATE INDEX early_receipts_by_age ON early_receipts (received_at);
