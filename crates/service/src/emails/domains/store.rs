//! The SQL of domains.

use store::{Error, FromRow, Row, Sql};

use super::{Domain, Found};

/// A new domain; one row for each name.
pub(super) const INSERT: Sql = Sql("INSERT INTO email_domains (account_id, domain_id, domain, \
     status, token, rsa_key, ed25519_key, keys_sealed, found, created_at) \
     VALUES ($1, $2, $3, 'pending', $4, $5, $6, $7, '', $8) ON CONFLICT DO NOTHING");
/// The domain that stands for all that an account may have, if there are so many and the one that
/// is asked for is not among them.
pub(super) const LAST_OF_ALL: Sql = Sql("SELECT domain_id FROM email_domains \
     WHERE account_id = $1 AND NOT EXISTS (SELECT 1 FROM email_domains \
       WHERE account_id = $1 AND domain = $2) ORDER BY domain_id LIMIT 1 OFFSET $3");
pub(super) const BY_NAME: Sql = Sql("SELECT domain_id, domain, status, token, rsa_key, \
     ed25519_key, found, created_at, checked_at, verified_at, missing_since, seen \
     FROM email_domains WHERE account_id = $1 AND domain = $2");
pub(super) const BY_ID: Sql =
    Sql("SELECT domain_id, domain, status, token, rsa_key, ed25519_key, \
     found, created_at, checked_at, verified_at, missing_since, seen \
     FROM email_domains WHERE account_id = $1 AND domain_id = $2");
pub(super) const PAGE: Sql = Sql("SELECT domain_id, domain, status, token, rsa_key, ed25519_key, \
     found, created_at, checked_at, verified_at, missing_since, seen \
     FROM email_domains WHERE account_id = $1 AND domain_id < $2 ORDER BY domain_id DESC LIMIT $3");
/// What a look at the records found.
pub(super) const CHECKED: Sql = Sql("UPDATE email_domains SET status = $1, found = $2, \
     checked_at = $3, verified_at = $4, missing_since = $5, seen = $6 \
     WHERE account_id = $7 AND domain_id = $8");
/// What a daily look at a verified domain found, unless the account had one meanwhile.
pub(super) const CHECKED_AGAIN: Sql = Sql("UPDATE email_domains SET status = $1, found = $2, \
     checked_at = $3, verified_at = $4, missing_since = $5, seen = $6 \
     WHERE account_id = $7 AND domain_id = $8 AND status = 'verified' AND checked_at = $9");
/// Verified domains of an account that were not looked at for a while.
pub(super) const TO_CHECK: Sql = Sql("SELECT domain_id, domain, status, token, rsa_key, \
     ed25519_key, found, created_at, checked_at, verified_at, missing_since, seen \
     FROM email_domains WHERE account_id = $1 AND status = 'verified' AND checked_at <= $2");
pub(super) const DELETE: Sql =
    Sql("DELETE FROM email_domains WHERE account_id = $1 AND domain_id = $2");
/// The keys of a domain.
pub(super) const KEYS: Sql = Sql("SELECT domain_id, keys_sealed FROM email_domains \
     WHERE account_id = $1 AND domain = $2");
/// Finds something where an account may not write from a domain.
pub(super) const IS_NOT_VERIFIED: Sql = Sql("SELECT 1 WHERE NOT EXISTS (SELECT domain_id \
     FROM email_domains WHERE account_id = $1 AND domain = $2 AND status = 'verified') /*BULK*/");

/// Finds something where some account writes from a domain.
pub(super) const IS_ANYBODYS: Sql = Sql("SELECT domain_id FROM email_domains WHERE domain = $1 \
     AND status = 'verified' LIMIT 1");

impl FromRow for Domain {
    fn from_row(mut row: Row) -> Result<Self, Error> {
        let (found, seen): (String, String) = (row.take(6)?, row.take(11)?);
        Ok(Self {
            id: row.take(0)?,
            name: row.take(1)?,
            status: row.take(2)?,
            token: row.take(3)?,
            rsa_key: row.take(4)?,
            ed25519_key: row.take(5)?,
            found: Found::stored(&found, &seen),
            created_at: row.take(7)?,
            checked_at: row.take(8)?,
            verified_at: row.take(9)?,
            missing_since: row.take(10)?,
        })
    }
}
