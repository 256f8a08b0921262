-- One index finds a recipient's passcodes and keeps two from being open at once: a send without a
-- reference writes one entry where it wrote two, each on a page of its own. Its last column is the
-- slot of the open challenge without a reference, the id of any other. Slots with a reference have
-- their own index as before.
DROP INDEX challenges_open;
DROP INDEX challenges_by_recipient;
CREATE UNIQUE INDEX challenges_open ON challenges (slot, account_id) WHERE slot IS NOT NULL AND reference IS NOT NULL;
CREATE UNIQUE INDEX challenges_by_recipient ON challenges (recipient, account_id, (COALESCE(CASE WHEN reference IS NULL THEN slot END, challenge_id)));
