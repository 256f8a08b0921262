-- The first try of a delivery stands in the delivery's own row: nearly every delivery has no other.
-- Further tries, and those from before, are in webhook_attempts.
ALTER TABLE webhook_deliveries ADD COLUMN first_at BIGINT;
ALTER TABLE webhook_deliveries ADD COLUMN first_status BIGINT;
ALTER TABLE webhook_deliveries ADD COLUMN first_error TEXT;
ALTER TABLE webhook_deliveries ADD COLUMN first_detail TEXT;
ALTER TABLE webhook_deliveries ADD COLUMN first_latency_ms BIGINT;
ALTER TABLE webhook_deliveries ADD COLUMN first_body BYTEA;
