-- What the chat-app's upstream told us, as it came, sealed: stored before it is answered, gone once
-- every item of it is taken in. waba_id: the linked business account whose secret signed it; empty =
-- the deployment's own did, which may speak for all. next_at: when a node looks at it (again).
CREATE TABLE chatapp_callbacks (
    callback_id TEXT PRIMARY KEY,
    body_sealed BYTEA NOT NULL,
    waba_id     TEXT NOT NULL,
    received_at BIGINT NOT NULL,
    next_at     BIGINT NOT NULL
);
CREATE INDEX chatapp_callbacks_due ON chatapp_callbacks (next_at);
-- A tapped button names the session alone.
CREATE UNIQUE INDEX chatapp_sessions_by_id ON chatapp_sessions (session_id);
-- Business accounts of their own that staff linked accounts to. secrets_sealed: token, app
-- secret and the word of the handshake, as JSON. revision: another one with every change.
CREATE TABLE chatapp_links (
    account_id      TEXT PRIMARY KEY,
    phone_number_id TEXT NOT NULL,
    waba_id         TEXT NOT NULL,
    secrets_sealed  BYTEA NOT NULL,
    revision        BIGINT NOT NULL,
    linked_at       BIGINT NOT NULL
);
-- News of a template name it by the upstream's id. What the upstream may not have yet is submitted again.
CREATE INDEX chatapp_templates_by_provider ON chatapp_templates (provider_template_id);
CREATE INDEX chatapp_templates_waiting ON chatapp_templates (account_id)
    WHERE provider_status = 'SUBMITTING';
