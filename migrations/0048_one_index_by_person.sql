-- One index finds a person's sessions and keeps two of an account from being open at once: a prompt
-- writes one entry where it wrote two, each on a page of its own. Its last column says that the
-- session is open, or else its id. Active sessions have an index of their own, across accounts:
-- few are.
DROP INDEX chatapp_sessions_open;
DROP INDEX chatapp_sessions_by_recipient;
CREATE UNIQUE INDEX chatapp_sessions_by_recipient ON chatapp_sessions (recipient, account_id, (CASE WHEN status IN ('pending', 'active') THEN 'open' ELSE session_id END));
CREATE INDEX chatapp_sessions_active ON chatapp_sessions (recipient, account_id) WHERE status = 'active';
