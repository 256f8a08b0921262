-- Only primary keys begin with the account. PostgreSQL takes any index that does for a look-up by
-- primary key while a table is small, and then reads all that the account has.
DROP INDEX challenges_open;
DROP INDEX challenges_by_recipient;
DROP INDEX challenges_by_reference;
DROP INDEX attempts_of_challenge;
CREATE UNIQUE INDEX challenges_open ON challenges (slot, account_id) WHERE slot IS NOT NULL;
CREATE INDEX challenges_by_recipient ON challenges (recipient, account_id, challenge_id);
CREATE INDEX challenges_by_reference ON challenges (reference, account_id, challenge_id) WHERE reference IS NOT NULL;
CREATE INDEX attempts_of_challenge ON attempts (challenge_id, account_id, attempt_id);
