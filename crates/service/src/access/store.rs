//! The SQL of this room, and the rows that it returns.

use clock::Millis;
use store::{Error, FromRow, Row, Sql};

use super::staff::StaffMember;
use crate::app::Account;
use crate::kit::id::{KeyId, SessionId};

pub(super) const ADD_USER: Sql = Sql("INSERT INTO users (user_id, email, password_hash, \
     created_at) VALUES ($1, $2, $3, $4) \
     ON CONFLICT (email) DO NOTHING");
pub(super) const ADD_STAFF: Sql = Sql("INSERT INTO staff (staff_id, email, password_hash, \
     created_at) VALUES ($1, $2, $3, $4) \
     ON CONFLICT (email) DO NOTHING");
pub(super) const ADD_ACCOUNT: Sql = Sql("INSERT INTO accounts (account_id, user_id, env, status, \
     billing_mode, credit_limit, posted, held, settings, created_at) \
     VALUES ($1, $2, $3, $4, $5, $6, 0, 0, '{}', $7)");

/// By any of three spellings.
pub(super) const USER_BY_EMAIL: Sql = Sql("SELECT user_id, email, password_hash FROM users \
     WHERE email IN ($1, $2, $3)");
pub(super) const USER_BY_ID: Sql =
    Sql("SELECT user_id, email, password_hash FROM users WHERE user_id = $1");
pub(super) const STAFF_BY_EMAIL: Sql = Sql("SELECT staff_id, email, password_hash FROM staff \
     WHERE email IN ($1, $2, $3)");
pub(super) const STAFF_BY_ID: Sql =
    Sql("SELECT staff_id, email, password_hash FROM staff WHERE staff_id = $1");
pub(super) const STAFF: Sql = Sql("SELECT staff_id, email, created_at, last_login_at FROM staff \
     WHERE staff_id < $1 ORDER BY staff_id DESC LIMIT $2");
/// Locks somebody who is to stay, so that two who remove each other do not both succeed.
pub(super) const KEEP_STAFF: Sql =
    Sql("UPDATE staff SET last_login_at = last_login_at WHERE staff_id = $1");
pub(super) const REMOVE_STAFF: Sql = Sql("DELETE FROM staff WHERE staff_id = $1");

/// Locks the person: whoever changes the password at the same moment ends the new token as well.
pub(super) const USER_LOGGED_IN: Sql = Sql("UPDATE users SET last_login_at = $1 \
     WHERE user_id = $2 AND password_hash = $3");
pub(super) const STAFF_LOGGED_IN: Sql = Sql("UPDATE staff SET last_login_at = $1 \
     WHERE staff_id = $2 AND password_hash = $3");
pub(super) const CHANGE_USER_PASSWORD: Sql = Sql("UPDATE users SET password_hash = $1 \
     WHERE user_id = $2 AND password_hash = $3");
/// The first proof counts.
pub(super) const PROVED_EMAIL: Sql = Sql("UPDATE users \
     SET email_verified_at = COALESCE(email_verified_at, $1) WHERE user_id = $2");
pub(super) const CHANGE_STAFF_PASSWORD: Sql = Sql("UPDATE staff SET password_hash = $1 \
     WHERE staff_id = $2 AND password_hash = $3");

pub(super) const FAILURES: Sql = Sql("SELECT failures, next_try_at, failed_at \
     FROM failed_logins WHERE guesser_mac = $1");
/// Counts one more, if they still are as they were read.
pub(super) const COUNT_FAILURE: Sql = Sql("INSERT INTO failed_logins (guesser_mac, failures, \
     next_try_at, failed_at) VALUES ($1, $2, $3, $4) \
     ON CONFLICT (guesser_mac) DO UPDATE SET failures = excluded.failures, \
     next_try_at = excluded.next_try_at, failed_at = excluded.failed_at \
     WHERE failed_logins.failures = $5 AND failed_logins.failed_at = $6");
pub(super) const FORGIVE_FAILURES: Sql = Sql("DELETE FROM failed_logins WHERE guesser_mac = $1");
pub(super) const FORGET_FAILURES: Sql = Sql("DELETE FROM failed_logins WHERE guesser_mac IN \
     (SELECT guesser_mac FROM failed_logins WHERE failed_at < $1 ORDER BY failed_at LIMIT $2 \
     /*SKIP LOCKED*/) RETURNING failures");

pub(super) const ADD_TOKEN: Sql = Sql("INSERT INTO tokens (token_hash, kind, subject_id, \
     session_id, created_at, expires_at, revoked_at) VALUES ($1, $2, $3, $4, $5, $6, NULL)");
pub(super) const TOKEN: Sql = Sql("SELECT kind, subject_id, expires_at, revoked_at \
     FROM tokens WHERE token_hash = $1");
pub(super) const REVOKE_TOKEN: Sql = Sql("UPDATE tokens SET revoked_at = $1 \
     WHERE token_hash = $2 AND revoked_at IS NULL");
pub(super) const REVOKE_TOKENS_OF_SUBJECT: Sql = Sql("UPDATE tokens SET revoked_at = $1 \
     WHERE subject_id = $2 AND token_hash <> $3 AND revoked_at IS NULL");
/// The table is that of `notices`, a room above this one; but what ends a user's logins ends what
/// would open the next, in the same write set.
pub(super) const END_RESETS: Sql = Sql("UPDATE notices SET used_at = $1 \
     WHERE user_id = $2 AND kind = 'password_reset' AND used_at IS NULL");

/// One page of a person's logins that are still good, newest first.
pub(super) const SESSIONS: Sql = Sql("SELECT session_id, token_hash, created_at, expires_at \
     FROM tokens WHERE subject_id = $1 AND session_id < $2 AND session_id > '' \
     AND revoked_at IS NULL AND expires_at > $3 ORDER BY session_id DESC LIMIT $4");
pub(super) const SESSION: Sql = Sql("SELECT session_id, token_hash, created_at, expires_at \
     FROM tokens WHERE subject_id = $1 AND session_id = $2 \
     AND revoked_at IS NULL AND expires_at > $3");

pub(super) const FORGET_EXPIRED_TOKENS: Sql = Sql("DELETE FROM tokens WHERE token_hash IN \
     (SELECT token_hash FROM tokens WHERE expires_at < $1 ORDER BY expires_at LIMIT $2 \
     /*SKIP LOCKED*/) RETURNING kind");
pub(super) const FORGET_REVOKED_TOKENS: Sql = Sql("DELETE FROM tokens WHERE token_hash IN \
     (SELECT token_hash FROM tokens WHERE revoked_at < $1 ORDER BY revoked_at LIMIT $2 \
     /*SKIP LOCKED*/) RETURNING kind");

pub(super) const ACCOUNTS: Sql = Sql("SELECT account_id, env FROM accounts \
     WHERE account_id > $1 ORDER BY account_id LIMIT $2 OFFSET $3");
pub(super) const ACCOUNT: Sql = Sql("SELECT account_id, env, status, settings FROM accounts \
     WHERE account_id = $1");
pub(super) const ACCOUNT_OF_USER: Sql = Sql("SELECT account_id, env, status, settings \
     FROM accounts WHERE user_id = $1 AND env = $2");

/// The active key that stands for all that an account may have, if there are so many. It reads no
/// disabled ones (`api_keys_active`), of which there is no limit.
pub(super) const LAST_OF_ALL: Sql = Sql("SELECT key_id FROM api_keys \
     WHERE account_id = $1 AND active = 1 ORDER BY key_id LIMIT 1 OFFSET $2");
pub(super) const ADD_KEY: Sql = Sql("INSERT INTO api_keys (account_id, key_id, name, \
     key_prefix, scopes, active, created_at, disabled_at) \
     VALUES ($1, $2, $3, $4, $5, 1, $6, NULL)");
pub(super) const ADD_KEY_HASH: Sql = Sql("INSERT INTO api_key_hashes (key_hash, account_id, \
     key_id) VALUES ($1, $2, $3)");
pub(super) const KEY_OF_HASH: Sql = Sql("SELECT account_id, key_id FROM api_key_hashes \
     WHERE key_hash = $1");
pub(super) const KEY: Sql = Sql("SELECT key_id, name, key_prefix, scopes, active, created_at \
     FROM api_keys WHERE account_id = $1 AND key_id = $2");
pub(super) const KEYS: Sql = Sql("SELECT key_id, name, key_prefix, scopes, active, created_at \
     FROM api_keys WHERE account_id = $1 AND key_id < $2 ORDER BY key_id DESC LIMIT $3");
pub(super) const DISABLE_KEY: Sql = Sql("UPDATE api_keys SET active = 0, disabled_at = $1 \
     WHERE account_id = $2 AND key_id = $3 AND active = 1");
/// The hashes of the keys that go next.
pub(super) const FORGET_KEY_HASHES: Sql = Sql("DELETE FROM api_key_hashes \
     WHERE (account_id, key_id) IN (SELECT account_id, key_id FROM api_keys \
       WHERE disabled_at < $1 ORDER BY disabled_at, account_id, key_id LIMIT $2)");
/// A key goes after its hash: another node that does the same chunk leaves no hash behind.
pub(super) const FORGET_KEYS: Sql = Sql("DELETE FROM api_keys \
     WHERE (account_id, key_id) IN (SELECT account_id, key_id FROM api_keys \
       WHERE disabled_at < $1 ORDER BY disabled_at, account_id, key_id LIMIT $2) \
     AND NOT EXISTS (SELECT 1 FROM api_key_hashes AS hashes \
       WHERE hashes.account_id = api_keys.account_id AND hashes.key_id = api_keys.key_id) \
     RETURNING key_id");

pub(super) const IDEMPOTENT: Sql =
    Sql("SELECT fingerprint, object_id, answer, sealed, created_at, account_id \
     FROM idempotency WHERE account_id = $1 AND namespace = $2 AND idem_key IN ($3, $4)");
pub(super) const ADD_IDEMPOTENT: Sql = Sql("INSERT INTO idempotency (account_id, namespace, \
     idem_key, fingerprint, object_id, sealed, created_at) VALUES ($1, $2, $3, $4, $5, $6, $7) \
     ON CONFLICT (account_id, namespace, idem_key) DO UPDATE SET \
     fingerprint = excluded.fingerprint, object_id = excluded.object_id, answer = NULL, \
     sealed = excluded.sealed, created_at = excluded.created_at \
     WHERE idempotency.created_at < $8 /*BULK*/");
pub(super) const ANSWER_IDEMPOTENT: Sql = Sql("UPDATE idempotency SET answer = $1 \
     WHERE account_id = $2 AND namespace = $3 AND idem_key = $4 AND answer IS NULL");
pub(super) const FORGET_IDEMPOTENT: Sql = Sql("DELETE FROM idempotency \
     WHERE (account_id, namespace, idem_key) IN \
     (SELECT account_id, namespace, idem_key FROM idempotency WHERE created_at < $1 \
     ORDER BY created_at LIMIT $2 /*SKIP LOCKED*/) RETURNING created_at");
/// One stretch of an account's keys, for an erasure: what each stands for.
pub(super) const IDEMPOTENT_OBJECTS: Sql = Sql("SELECT namespace, idem_key, object_id \
     FROM idempotency WHERE account_id = $1 AND (namespace, idem_key) > ($2, $3) \
     ORDER BY namespace, idem_key LIMIT $4");
/// The same of keys whose request was refused, and what it was told.
pub(super) const REFUSED_KEYS: Sql = Sql("SELECT namespace, idem_key, answer FROM idempotency \
     WHERE account_id = $1 AND object_id = '' AND (namespace, idem_key) > ($2, $3) \
     ORDER BY namespace, idem_key LIMIT $4");
pub(super) const RETELL_REFUSAL: Sql = Sql("UPDATE idempotency SET answer = $1 \
     WHERE account_id = $2 AND namespace = $3 AND idem_key = $4 AND object_id = ''");
/// Makes room for the name that an erasure gives to a key.
pub(super) const FORGET_IDEMPOTENT_KEY: Sql = Sql("DELETE FROM idempotency \
     WHERE account_id = $1 AND namespace = $2 AND idem_key = $3");
pub(super) const RENAME_IDEMPOTENT_KEY: Sql = Sql("UPDATE idempotency SET idem_key = $1 \
     WHERE account_id = $2 AND namespace = $3 AND idem_key = $4");

pub(super) const ADD_AUDIT_ENTRY: Sql = Sql("INSERT INTO audit_log (entry_id, at, actor_kind, \
     actor_id, action, object_id, account_id, request_id, detail, seal_no, mac) \
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)");
/// The audit log from a line on, oldest first.
pub(super) const AUDIT_LINES: Sql = Sql("SELECT entry_id, at, actor_kind, actor_id, action, \
     object_id, account_id, request_id, detail, seal_no, mac FROM audit_log \
     WHERE entry_id >= $1 ORDER BY entry_id LIMIT $2 OFFSET $3");
/// What was done to an account itself after a line, oldest first.
pub(super) const AUDIT_LINES_OF_ACCOUNT: Sql = Sql("SELECT entry_id, at, actor_kind, actor_id, \
     action, object_id, account_id, request_id, detail, seal_no, mac FROM audit_log \
     WHERE account_id = $1 AND entry_id > $2 AND action LIKE 'account.%' \
     ORDER BY entry_id LIMIT $3");
/// The newest of these.
pub(super) const NEWEST_LINE_OF_ACCOUNT: Sql = Sql("SELECT entry_id FROM audit_log \
     WHERE account_id = $1 AND action LIKE 'account.%' ORDER BY entry_id DESC LIMIT 1");
pub(super) const NEWER_LINE_OF_ACCOUNT: Sql = Sql("SELECT entry_id FROM audit_log \
     WHERE account_id = $1 AND entry_id > $2 AND action LIKE 'account.%' LIMIT 1");
/// The last line.
pub(super) const NEWEST_AUDIT_LINE: Sql =
    Sql("SELECT entry_id, at, actor_kind, actor_id, action, \
     object_id, account_id, request_id, detail, seal_no, mac FROM audit_log \
     WHERE entry_id > $1 ORDER BY entry_id DESC LIMIT 1");
/// The hash of a line that was written without one.
pub(super) const ADOPT_AUDIT_ENTRY: Sql =
    Sql("UPDATE audit_log SET mac = $1 WHERE entry_id = $2 AND mac IS NULL");
/// Ids are in the order of time.
pub(super) const FORGET_AUDIT_ENTRIES: Sql = Sql("DELETE FROM audit_log WHERE entry_id IN \
     (SELECT entry_id FROM audit_log WHERE entry_id < $1 ORDER BY entry_id LIMIT $2 \
     /*SKIP LOCKED*/) RETURNING at");

/// A user or a member of staff, for a login.
pub(super) struct Person {
    pub(super) id: String,
    pub(super) email: String,
    pub(super) password_hash: String,
}

impl FromRow for Person {
    fn from_row(mut row: Row) -> Result<Self, Error> {
        Ok(Self { id: row.take(0)?, email: row.take(1)?, password_hash: row.take(2)? })
    }
}

/// What is known of a guesser.
#[derive(Default)]
pub(super) struct Failures {
    pub(super) count: i64,
    pub(super) next_try_at: Millis,
    pub(super) failed_at: Millis,
}

impl FromRow for Failures {
    fn from_row(mut row: Row) -> Result<Self, Error> {
        let (count, next_try_at) = (row.take(0)?, row.take(1)?);
        Ok(Self { count, next_try_at, failed_at: row.take(2)? })
    }
}

impl FromRow for StaffMember {
    fn from_row(mut row: Row) -> Result<Self, Error> {
        let (id, email) = (row.take(0)?, row.take(1)?);
        Ok(Self { id, email, created_at: row.take(2)?, last_login_at: row.take(3)? })
    }
}

/// A login, with the hash of its token.
pub(super) struct SessionRow {
    pub(super) id: SessionId,
    pub(super) token_hash: Vec<u8>,
    pub(super) created_at: Millis,
    pub(super) expires_at: Millis,
}

impl FromRow for SessionRow {
    fn from_row(mut row: Row) -> Result<Self, Error> {
        let (id, token_hash) = (row.take(0)?, row.take(1)?);
        Ok(Self { id, token_hash, created_at: row.take(2)?, expires_at: row.take(3)? })
    }
}

/// A stored token, without the token.
pub(super) struct TokenRow {
    pub(super) kind: String,
    pub(super) subject_id: String,
    pub(super) expires_at: Millis,
    pub(super) revoked_at: Option<Millis>,
}

impl FromRow for TokenRow {
    fn from_row(mut row: Row) -> Result<Self, Error> {
        Ok(Self {
            kind: row.take(0)?,
            subject_id: row.take(1)?,
            expires_at: row.take(2)?,
            revoked_at: row.take(3)?,
        })
    }
}

/// The columns of an account that requests need.
pub(super) struct AccountRow(pub(super) Account);

impl FromRow for AccountRow {
    fn from_row(mut row: Row) -> Result<Self, Error> {
        let (id, env, standing) = (row.take(0)?, row.take(1)?, row.take(2)?);
        // Settings that cannot be read must not silently lift the limits in them.
        let settings = serde_json::from_str(&row.take::<String>(3)?);
        let settings = settings.map_err(|_| Error::Corrupt { column: 3 })?;
        Ok(Self(Account { id, env, standing, settings }))
    }
}

/// A stored API key, without the key.
pub(super) struct KeyRow {
    pub(super) id: KeyId,
    pub(super) name: String,
    pub(super) prefix: String,
    pub(super) scopes: String,
    pub(super) active: bool,
    pub(super) created_at: Millis,
}

impl FromRow for KeyRow {
    fn from_row(mut row: Row) -> Result<Self, Error> {
        Ok(Self {
            id: row.take(0)?,
            name: row.take(1)?,
            prefix: row.take(2)?,
            scopes: row.take(3)?,
            active: row.take(4)?,
            created_at: row.take(5)?,
        })
    }
}
