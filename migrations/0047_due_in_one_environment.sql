-- Each environment finds what is due of its own without reading what is due of the other's. NULL: made
-- by a node of an earlier version, or not due when this step ran; whoever finds it due writes it.
ALTER TABLE challenges ADD COLUMN env TEXT;
DROP INDEX challenges_due;
CREATE INDEX challenges_due ON challenges (env, next_at) WHERE next_at IS NOT NULL;
UPDATE challenges SET env = (SELECT a.env FROM accounts a WHERE a.account_id = challenges.account_id)
    WHERE next_at IS NOT NULL;
ALTER TABLE attempts ADD COLUMN env TEXT;
DROP INDEX attempts_due;
CREATE INDEX attempts_due ON attempts (env, next_at) WHERE next_at IS NOT NULL;
UPDATE attempts SET env = (SELECT a.env FROM accounts a WHERE a.account_id = attempts.account_id)
    WHERE next_at IS NOT NULL;
ALTER TABLE chatapp_sessions ADD COLUMN env TEXT;
DROP INDEX chatapp_sessions_due;
CREATE INDEX chatapp_sessions_due ON chatapp_sessions (env, next_at) WHERE next_at IS NOT NULL;
UPDATE chatapp_sessions
    SET env = (SELECT a.env FROM accounts a WHERE a.account_id = chatapp_sessions.account_id)
    WHERE next_at IS NOT NULL;
