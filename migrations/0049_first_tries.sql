-- The first try of a delivery is in the delivery's own row, since nearly every first try is the
-- last: what is written down of it costs no row and no index entry of its own. Later tries stay in
-- webhook_attempts, and so do first ones from before.
ALTER TABLE webhook_deliveries ADD COLUMN first_at BIGINT;
ALTER TABLE webhook_deliveries ADD COLUMN first_status BIGINT;
ALTER TABLE webhook_deliveries ADD COLUMN first_error TEXT;
ALTER TABLE webhook_deliveries ADD COLUMN first_detail TEXT;
ALTER TABLE webhook_deliveries ADD COLUMN first_latency_ms BIGINT;
ALTER TABLE webhook_deliveries ADD COLUMN first_body BYTEA;
