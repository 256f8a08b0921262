//! Every statement of this room, and the rows that come back.

use clock::Millis;
use store::{Error, FromRow, Row, Sql};

use crate::app::{Account, Env};
use crate::kit::id::{AccountId, KeyId};

pub(super) const ADD_USER: Sql = Sql("INSERT INTO users (user_id, email, password_hash, \
     failed_logins, next_login_at, created_at) VALUES ($1, $2, $3, 0, 0, $4) \
     ON CONFLICT (email) DO NOTHING");
pub(super) const ADD_STAFF: Sql = Sql("INSERT INTO staff (staff_id, email, password_hash, \
     failed_logins, next_login_at, created_at) VALUES ($1, $2, $3, 0, 0, $4) \
     ON CONFLICT (email) DO NOTHING");
pub(super) const ADD_ACCOUNT: Sql = Sql("INSERT INTO accounts (account_id, user_id, env, status, \
     billing_mode, credit_limit, posted, held, settings, created_at) \
     VALUES ($1, $2, $3, 'active', 'prepaid', 0, 0, 0, '{}', $4)");

pub(super) const USER_BY_EMAIL: Sql = Sql("SELECT user_id, email, password_hash, failed_logins, \
     next_login_at FROM users WHERE email = $1");
pub(super) const USER_BY_ID: Sql = Sql("SELECT user_id, email, password_hash, failed_logins, \
     next_login_at FROM users WHERE user_id = $1");
pub(super) const STAFF_BY_EMAIL: Sql = Sql("SELECT staff_id, email, password_hash, \
     failed_logins, next_login_at FROM staff WHERE email = $1");

pub(super) const CHARGE_USER_LOGIN: Sql = Sql("UPDATE users SET \
     failed_logins = failed_logins + 1, next_login_at = $1 \
     WHERE user_id = $2 AND failed_logins = $3");
pub(super) const CHARGE_STAFF_LOGIN: Sql = Sql("UPDATE staff SET \
     failed_logins = failed_logins + 1, next_login_at = $1 \
     WHERE staff_id = $2 AND failed_logins = $3");
pub(super) const CLEAR_USER_LOGIN: Sql = Sql("UPDATE users SET failed_logins = 0, \
     next_login_at = 0 WHERE user_id = $1 AND password_hash = $2");
pub(super) const CLEAR_STAFF_LOGIN: Sql = Sql("UPDATE staff SET failed_logins = 0, \
     next_login_at = 0 WHERE staff_id = $1 AND password_hash = $2");
pub(super) const CHANGE_PASSWORD: Sql = Sql("UPDATE users SET password_hash = $1, \
     failed_logins = 0, next_login_at = 0 WHERE user_id = $2 AND password_hash = $3");

pub(super) const ADD_TOKEN: Sql = Sql("INSERT INTO tokens (token_hash, kind, subject_id, \
     created_at, expires_at, revoked_at) VALUES ($1, $2, $3, $4, $5, NULL)");
pub(super) const TOKEN: Sql = Sql("SELECT kind, subject_id, expires_at, revoked_at \
     FROM tokens WHERE token_hash = $1");
pub(super) const REVOKE_TOKEN: Sql = Sql("UPDATE tokens SET revoked_at = $1 \
     WHERE token_hash = $2 AND revoked_at IS NULL");
pub(super) const REVOKE_TOKENS_OF_SUBJECT: Sql = Sql("UPDATE tokens SET revoked_at = $1 \
     WHERE subject_id = $2 AND token_hash <> $3 AND revoked_at IS NULL");

pub(super) const FORGET_EXPIRED_TOKENS: Sql = Sql("DELETE FROM tokens WHERE token_hash IN \
     (SELECT token_hash FROM tokens WHERE expires_at < $1 ORDER BY expires_at LIMIT $2 \
     /*SKIP LOCKED*/) RETURNING kind");
pub(super) const FORGET_REVOKED_TOKENS: Sql = Sql("DELETE FROM tokens WHERE token_hash IN \
     (SELECT token_hash FROM tokens WHERE revoked_at < $1 ORDER BY revoked_at LIMIT $2 \
     /*SKIP LOCKED*/) RETURNING kind");

pub(super) const ACCOUNTS: Sql = Sql("SELECT account_id, env FROM accounts \
     WHERE account_id > $1 ORDER BY account_id LIMIT $2");
pub(super) const ACCOUNT: Sql = Sql("SELECT account_id, env, status, settings FROM accounts \
     WHERE account_id = $1");
pub(super) const ACCOUNT_OF_USER: Sql = Sql("SELECT account_id, env, status, settings \
     FROM accounts WHERE user_id = $1 AND env = $2");

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

pub(super) const IDEMPOTENT: Sql = Sql("SELECT fingerprint, object_id, sealed, created_at \
     FROM idempotency WHERE account_id = $1 AND idem_key = $2");
pub(super) const ADD_IDEMPOTENT: Sql = Sql("INSERT INTO idempotency (account_id, idem_key, \
     fingerprint, object_id, sealed, created_at) VALUES ($1, $2, $3, $4, $5, $6) \
     ON CONFLICT (account_id, idem_key) DO UPDATE SET fingerprint = excluded.fingerprint, \
     object_id = excluded.object_id, sealed = excluded.sealed, \
     created_at = excluded.created_at WHERE idempotency.created_at < $7");
pub(super) const FORGET_IDEMPOTENT: Sql = Sql("DELETE FROM idempotency \
     WHERE (account_id, idem_key) IN (SELECT account_id, idem_key FROM idempotency \
     WHERE created_at < $1 ORDER BY created_at LIMIT $2 /*SKIP LOCKED*/) RETURNING created_at");
/// One stretch of an account's keys, for an erasure: what each stands for.
pub(super) const IDEMPOTENT_OBJECTS: Sql = Sql("SELECT idem_key, object_id FROM idempotency \
     WHERE account_id = $1 AND idem_key > $2 ORDER BY idem_key LIMIT $3");
pub(super) const FORGET_IDEMPOTENT_KEY: Sql =
    Sql("DELETE FROM idempotency WHERE account_id = $1 AND idem_key = $2");

pub(super) const ADD_AUDIT_ENTRY: Sql = Sql("INSERT INTO audit_log (entry_id, at, actor_kind, \
     actor_id, action, object_id, account_id, request_id, detail) \
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)");
/// Ids are in the order of time.
pub(super) const FORGET_AUDIT_ENTRIES: Sql = Sql("DELETE FROM audit_log WHERE entry_id IN \
     (SELECT entry_id FROM audit_log WHERE entry_id < $1 ORDER BY entry_id LIMIT $2 \
     /*SKIP LOCKED*/) RETURNING at");

/// A user or a member of staff, for a login.
pub(super) struct Person {
    pub(super) id: String,
    pub(super) email: String,
    pub(super) password_hash: String,
    pub(super) failed_logins: i64,
    pub(super) next_login_at: Millis,
}

impl FromRow for Person {
    fn from_row(mut row: Row) -> Result<Self, Error> {
        Ok(Self {
            id: row.take(0)?,
            email: row.take(1)?,
            password_hash: row.take(2)?,
            failed_logins: row.take(3)?,
            next_login_at: row.take(4)?,
        })
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
        let id: AccountId = row.take(0)?;
        let env = Env::of(&row.take::<String>(1)?).ok_or(Error::Corrupt { column: 1 })?;
        let suspended = row.take::<String>(2)? != "active";
        // Settings that cannot be read must not silently lift the limits in them.
        let settings = serde_json::from_str(&row.take::<String>(3)?);
        let settings = settings.map_err(|_| Error::Corrupt { column: 3 })?;
        Ok(Self(Account { id, env, suspended, settings }))
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
