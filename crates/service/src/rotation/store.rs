//! SQL of the master keys: which there are, which nodes know them, and the secrets that outlive the
//! change of one.

use clock::Millis;
use store::{Error, FromRow, Reject, Row, Sql};

use crate::kit::seal::{KeyRow, KeyState};

/// Another command has gone on with the rotation meanwhile.
pub(super) const MOVED: Reject = Reject("master_key_moved");

/// All keys that something may be written with.
pub(super) const KEYS: Sql = Sql("SELECT key_id, state, kept, changed_at, proof FROM master_keys \
     WHERE key_id > $1 ORDER BY key_id");
/// A key that the database has not met; there is at most one current and one next.
pub(super) const ADD: Sql = Sql("INSERT INTO master_keys (key_id, state, kept, changed_at, \
     proof) VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING");
/// Says that the service wrote the row of a key that is there.
pub(super) const PROVE: Sql = Sql("UPDATE master_keys SET proof = $1 WHERE key_id = $2");
/// Whether there is any account.
pub(super) const ACCOUNT: Sql =
    Sql("SELECT account_id FROM accounts WHERE account_id > $1 ORDER BY account_id LIMIT 1");
/// One step on its way.
pub(super) const MOVE: Sql = Sql("UPDATE master_keys SET state = $1, changed_at = $2 \
     WHERE key_id = $3 AND state = $4");
/// Nothing is written with it any more.
pub(super) const DROP: Sql =
    Sql("DELETE FROM master_keys WHERE key_id = $1 AND state <> 'current'");

/// This process serves.
pub(super) const SEEN: Sql = Sql("INSERT INTO nodes (node, process_id, key_ids, writes, seen_at) \
     VALUES ($1, $2, $3, $4, $5) ON CONFLICT (node) DO UPDATE SET key_ids = excluded.key_ids, \
     writes = excluded.writes, seen_at = excluded.seen_at");
/// All that serve, or did until they were killed.
pub(super) const NODES: Sql = Sql("SELECT process_id, key_ids, writes, seen_at FROM nodes \
     WHERE node > $1 ORDER BY node");
/// This process ends.
pub(super) const GONE: Sql = Sql("DELETE FROM nodes WHERE node = $1");
/// Processes that were killed.
pub(super) const FORGET: Sql = Sql("DELETE FROM nodes WHERE seen_at < $1 AND node <> $2");

/// One page of the signing secrets of webhooks.
pub(super) const SECRETS: Sql = Sql("SELECT account_id, webhook_id, secrets FROM webhooks \
     WHERE (account_id, webhook_id) > ($1, $2) ORDER BY account_id, webhook_id LIMIT $3");
/// One of them, if nobody else has changed it.
pub(super) const RESEAL_SECRETS: Sql = Sql("UPDATE webhooks SET secrets = $1 \
     WHERE account_id = $2 AND webhook_id = $3 AND secrets = $4");

/// One page of the texts of SMS that may still be sent.
pub(super) const TEXTS: Sql = Sql("SELECT account_id, sms_id, text_sealed FROM sms_messages \
     WHERE (account_id, sms_id) > ($1, $2) AND text_sealed IS NOT NULL \
     ORDER BY account_id, sms_id LIMIT $3");
/// One of them, if nobody else has changed it.
pub(super) const RESEAL_TEXTS: Sql = Sql("UPDATE sms_messages SET text_sealed = $1 \
     WHERE account_id = $2 AND sms_id = $3 AND text_sealed = $4");

/// One page of the keys that sign the mail of domains.
pub(super) const DOMAINS: Sql = Sql("SELECT account_id, domain_id, keys_sealed \
     FROM email_domains WHERE (account_id, domain_id) > ($1, $2) AND keys_sealed IS NOT NULL \
     ORDER BY account_id, domain_id LIMIT $3");
/// One of them, if nobody else has changed it.
pub(super) const RESEAL_DOMAINS: Sql = Sql("UPDATE email_domains SET keys_sealed = $1 \
     WHERE account_id = $2 AND domain_id = $3 AND keys_sealed = $4");

/// What emails say that somebody still has to get, page by page.
pub(super) const EMAILS: Sql = Sql("SELECT account_id, email_id, sealed FROM email_contents \
     WHERE (account_id, email_id) > ($1, $2) ORDER BY account_id, email_id LIMIT $3");
/// One of them, if nobody else has changed it.
pub(super) const RESEAL_EMAILS: Sql = Sql("UPDATE email_contents SET sealed = $1 \
     WHERE account_id = $2 AND email_id = $3 AND sealed = $4");

/// Secrets of linked business accounts; the second part of the key is empty.
pub(super) const LINKS: Sql = Sql("SELECT account_id, '', secrets_sealed FROM chatapp_links \
     WHERE (account_id, '') > ($1, $2) ORDER BY account_id LIMIT $3");
/// One of them, if nobody else has changed it.
pub(super) const RESEAL_LINKS: Sql = Sql("UPDATE chatapp_links SET secrets_sealed = $1 \
     WHERE account_id = $2 AND '' = $3 AND secrets_sealed = $4");
/// What the chat-app told us and is not taken in; the second part of the key is empty.
pub(super) const CALLBACKS: Sql =
    Sql("SELECT callback_id, '', body_sealed FROM chatapp_callbacks \
     WHERE (callback_id, '') > ($1, $2) ORDER BY callback_id LIMIT $3");
/// One of them, if nobody else has changed it.
pub(super) const RESEAL_CALLBACKS: Sql = Sql("UPDATE chatapp_callbacks SET body_sealed = $1 \
     WHERE callback_id = $2 AND '' = $3 AND body_sealed = $4");

/// A row of the keys.
pub(super) struct Known(pub(super) KeyRow);

impl FromRow for Known {
    fn from_row(mut row: Row) -> Result<Self, Error> {
        // Another word is nobody's: the row is judged by its key and its proof.
        let state = row.take::<String>(1)?.parse().unwrap_or(KeyState::Former);
        let (key_id, kept, changed_at) = (row.take(0)?, row.take(2)?, row.take(3)?);
        Ok(Self(KeyRow { key_id, state, kept, changed_at, proof: row.take(4)? }))
    }
}

/// A process that serves.
pub(super) struct Node {
    pub(super) process_id: i64,
    pub(super) key_ids: String,
    pub(super) writes: String,
    pub(super) seen_at: Millis,
}

impl FromRow for Node {
    fn from_row(mut row: Row) -> Result<Self, Error> {
        let (process_id, key_ids) = (row.take(0)?, row.take(1)?);
        Ok(Self { process_id, key_ids, writes: row.take(2)?, seen_at: row.take(3)? })
    }
}
