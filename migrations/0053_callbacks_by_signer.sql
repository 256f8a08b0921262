-- Callbacks are taken in signer by signer, so that nobody waits behind what another signed; and how
-- many of one wait is bounded. waba_id: whose secret signed it, empty = the deployment's own.
DROP INDEX chatapp_callbacks_due;
CREATE INDEX chatapp_callbacks_due ON chatapp_callbacks (waba_id, next_at);
