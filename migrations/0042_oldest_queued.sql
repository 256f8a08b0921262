-- What has waited longest for a carrier, for the operator.
CREATE INDEX attempts_oldest_queued ON attempts (carrier, queued_at) WHERE queued_at IS NOT NULL;
