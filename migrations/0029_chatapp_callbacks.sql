-- What the chat-app's upstream told us, as it came, sealed: stored before it is answered, gone once
-- every item of it is taken in. next_at: when a node looks at it (again).
CREATE TABLE chatapp_callbacks (
    callback_id TEXT PRIMARY KEY,
    body_sealed BYTEA NOT NULL,
    received_at BIGINT NOT NULL,
    next_at     BIGINT NOT NULL
);
CREATE INDEX chatapp_callbacks_due ON chatapp_callbacks (next_at);
-- A tapped button names the session alone.
CREATE UNIQUE INDEX chatapp_sessions_by_id ON chatapp_sessions (session_id);
