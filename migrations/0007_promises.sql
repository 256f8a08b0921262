-- Prices: valid_until = the end of a promotion, NULL = a base price. replaced_at = from when on a
-- newer base price holds in its place.
ALTER TABLE prices ADD COLUMN replaced_at BIGINT;
-- Until now every new price cut the one before it short. What a base price cut stays replaced; what
-- a promotion cut stands again when that ends.
UPDATE prices SET replaced_at = valid_until, valid_until = NULL WHERE EXISTS (SELECT 1 FROM prices n
    WHERE n.channel = prices.channel AND n.category = prices.category
    AND n.country = prices.country AND n.valid_from = prices.valid_until);
UPDATE prices SET replaced_at = NULL WHERE EXISTS (SELECT 1 FROM prices n
    WHERE n.channel = prices.channel AND n.category = prices.category
    AND n.country = prices.country AND n.valid_from = prices.replaced_at
    AND n.valid_until IS NOT NULL);
-- Which price holds is read in the order of this index: nothing is sorted.
DROP INDEX prices_by_kind;
CREATE INDEX prices_by_kind ON prices (channel, category, country, valid_from, price_id);
-- Idempotency keys. namespace: tenant or staff, who each choose keys of their own. fingerprint: a
-- keyed hash of the request; NULL = taken before there were such hashes, and compared with nothing.
-- answer: the verdict that the first request was told, where a repeat must tell the same.
ALTER TABLE idempotency RENAME TO idempotency_before;
DROP INDEX idempotency_by_age;
CREATE TABLE idempotency (
    account_id  TEXT NOT NULL,
    namespace   TEXT NOT NULL,
    idem_key    TEXT NOT NULL,
    fingerprint BYTEA,
    object_id   TEXT NOT NULL,
    answer      TEXT,
    sealed      BYTEA,
    created_at  BIGINT NOT NULL,
    PRIMARY KEY (account_id, namespace, idem_key)
);
-- Fingerprints without a key gave away what they were made of, so none is kept. Transfers by hand
-- are what staff asked for.
INSERT INTO idempotency (account_id, namespace, idem_key, object_id, sealed, created_at)
    SELECT account_id, CASE WHEN object_id LIKE 'txn~_%' ESCAPE '~' THEN 'staff' ELSE 'tenant' END,
    idem_key, object_id, sealed, created_at FROM idempotency_before;
DROP TABLE idempotency_before;
CREATE INDEX idempotency_by_age ON idempotency (created_at);
-- Instants of the last 20 wrong guesses at a recipient's codes: 13 digits each, newest first.
ALTER TABLE recipients ADD COLUMN wrong_at TEXT NOT NULL DEFAULT '';
