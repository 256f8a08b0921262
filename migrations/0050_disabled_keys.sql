-- Only active API keys are counted when another is made, however many were disabled before.
CREATE INDEX api_keys_active ON api_keys (account_id, key_id) WHERE active = 1;
-- Keys that were disabled long ago are deleted, and the hash that leads to each.
CREATE INDEX api_keys_disabled ON api_keys (disabled_at, account_id, key_id) WHERE disabled_at IS NOT NULL;
CREATE INDEX api_key_hashes_of_key ON api_key_hashes (account_id, key_id);
