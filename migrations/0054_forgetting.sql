-- An erasure finds the keys of requests that were refused, which stand for nothing: few do.
CREATE INDEX idempotency_refused ON idempotency (account_id, namespace, idem_key) WHERE object_id = '';
-- And the parts of messages that somebody wrote to one number: one index leads there and to all of
-- the same person.
DROP INDEX inbound_parts_by_sender;
CREATE INDEX inbound_parts_by_sender ON inbound_parts (sender, recipient);
