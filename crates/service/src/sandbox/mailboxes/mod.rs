//! Mailboxes of the sandbox: kept in the database for a day, sealed, so that every node shows them;
//! of the address there is a keyed hash.

pub(super) mod api;

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use ::store::{Db, Error, WriteSet, args};
use clock::{DAY, Millis};
use futures_util::future::BoxFuture;
use serde_json::Value;

use super::store as sql;
use crate::access;
use crate::access::retention::{Accounts, sweep};
use crate::app::App;
use crate::carriers::mailboxes::{Rack, ReceivedMail};
use crate::chores::Turn;
use crate::kit::id::{AccountId, MailId};
use crate::kit::page::Page;
use crate::kit::seal::Vault;
use crate::kit::wipe::Spellings;

/// How long a mailbox keeps an email, milliseconds.
const LIFE: i64 = DAY;

/// Emails that an account keeps, in all its mailboxes together; older ones go once an hour.
const MOST_MAILS: i64 = 1_000;

/// Bytes of them that it keeps, as they are stored.
const MOST_BYTES: i64 = 16 * 1024 * 1024;
/// Bytes that this node adds for an account before it looks at how much there is.
const UNSEEN_BYTES: usize = 2 * 1024 * 1024;
/// Emails that an erasure opens at a time.
const STRETCH: i64 = 20;
/// Accounts of which it is known how much was added.
const MOST_COUNTED: usize = 10_000;

/// Mailboxes in a database.
pub struct StoredRack {
    db: Db,
    vault: Vault,
    /// Bytes that came since an account's mail was looked at.
    unseen: Mutex<HashMap<String, usize>>,
}

impl StoredRack {
    /// Mailboxes in this database, sealed by this vault.
    #[must_use]
    pub fn new(db: Db, vault: Vault) -> Self {
        Self { db, vault, unseen: Mutex::default() }
    }

    /// Counts what comes in for an account; whether it is time to look at all that it keeps. So an
    /// ordinary email costs nothing, and no account has much more than its share, ever.
    fn is_to_trim(&self, account_id: &str, bytes: usize) -> bool {
        let mut unseen = self.unseen.lock().unwrap_or_else(PoisonError::into_inner);
        if unseen.len() >= MOST_COUNTED {
            unseen.clear();
        }
        let since = unseen.entry(account_id.to_owned()).or_default();
        *since += bytes;
        let is_much = *since > UNSEEN_BYTES;
        if is_much {
            *since = 0;
        }
        is_much
    }
}

fn place<'a>(account_id: &'a str, mail_id: &'a str) -> [&'a str; 3] {
    ["sandbox_mails", account_id, mail_id]
}

fn mac(vault: &Vault, account_id: &str, address: &email::Address) -> Vec<u8> {
    vault.recipient_mac(account_id, &address.key()).to_vec()
}

impl Rack for StoredRack {
    fn deliver<'a>(
        &'a self,
        account_id: &'a str,
        address: &'a email::Address,
        mail: &'a ReceivedMail,
    ) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            let json = serde_json::to_vec(mail).map_err(|_| Error::Corrupt { column: 3 })?;
            let sealed = self.vault.seal(&place(account_id, &mail.id), &json);
            let mac = mac(&self.vault, account_id, address);
            let is_to_trim = self.is_to_trim(account_id, sealed.len());
            let mut set = WriteSet::of(account_id);
            let args = args![account_id, mac, mail.id.clone(), sealed, Millis(mail.received_at)];
            set.push(sql::INSERT_MAIL, args);
            if is_to_trim {
                set.push(sql::TRIM_MAILS, args![account_id, MOST_BYTES]);
            }
            let committed = self.db.commit(set).await;
            committed.map(drop).map_err(Error::from)
        })
    }
}

/// Empties all mailboxes, account by account, of what is older than a day and of what is more than
/// an account may keep, in number or in bytes.
///
/// # Errors
/// When the database cannot be read or written.
pub async fn forget_old_mail(app: &App, turn: &Turn) -> Result<u64, access::Error> {
    let day_ago = MailId::bound(turn.now() - LIFE);
    let (mut accounts, mut deleted) = (Accounts::default(), 0);
    while turn.breathe().await
        && let Some(account) = accounts.next(app).await?
    {
        let args = args![&account, MOST_MAILS.min(app.config.sandbox.handset_messages) - 1];
        let nth: Option<(MailId,)> = app.db.row(sql::NTH_MAIL, args).await?;
        let args = args![&account, MOST_BYTES];
        let kept: Option<(Option<MailId>,)> = app.db.row(sql::OLDEST_KEPT, args).await?;
        let bounds = [nth.map(|(id,)| id), kept.and_then(|(id,)| id), Some(day_ago.clone())];
        let before = bounds.into_iter().flatten().max_by(|a, b| a.as_str().cmp(b.as_str()));
        let before = before.unwrap_or_else(|| day_ago.clone());
        let args = args![&account, &before, app.config.retention.chunk];
        deleted += sweep(app, turn, "sandbox_mails", sql::FORGET_MAILS, &args).await?;
    }
    Ok(deleted)
}

/// Empties the mailbox of a person, of what this account sent, and deletes what names them in those
/// of others.
///
/// # Errors
/// When the database cannot be read or written.
pub async fn forget_mail_of(
    app: &App,
    account: &AccountId,
    address: &email::Address,
) -> Result<(), access::Error> {
    let mut set = WriteSet::of(account.as_str());
    set.push(sql::EMPTY_MAILBOX, args![account, mac(&app.vault, account.as_str(), address)]);
    app.db.commit(set).await?;
    let (trace, mut after) = (Spellings::of(address), String::new());
    loop {
        let args = args![account, &after, STRETCH];
        let rows: Vec<(String, Vec<u8>)> = app.db.rows(sql::MAILS_AFTER, args).await?;
        let Some((last, _)) = rows.last() else { return Ok(()) };
        after.clone_from(last);
        let mut set = WriteSet::of(account.as_str());
        for (id, sealed) in rows {
            let json = app.vault.open(&place(account.as_str(), &id), &sealed).unwrap_or_default();
            let mail = serde_json::from_slice(&json).unwrap_or_default();
            if names(&mail, &trace) {
                set.push(sql::DELETE_MAIL, args![account, id]);
            }
        }
        if !set.is_empty() {
            app.db.commit(set).await?;
        }
        // Reads of the embedded database are done in place: let others have the thread.
        tokio::task::yield_now().await;
    }
}

/// Whether an email names a person, anywhere.
fn names(mail: &Value, trace: &Spellings) -> bool {
    match mail {
        Value::String(text) => trace.is_in(text),
        Value::Array(all) => all.iter().any(|one| names(one, trace)),
        Value::Object(all) => all.values().any(|one| names(one, trace)),
        _ => false,
    }
}

/// What a mailbox received from this account before an id, newest first.
async fn received(
    app: &App,
    account: &AccountId,
    address: &email::Address,
    page: &Page,
) -> Result<Vec<ReceivedMail>, Error> {
    let account = account.as_str();
    let mac = mac(&app.vault, account, address);
    let args = args![account, mac, &page.after, page.limit.saturating_add(1)];
    let rows: Vec<(String, Vec<u8>)> = app.db.rows(sql::NEWEST_MAILS, args).await?;
    let open = |(id, sealed): (String, Vec<u8>)| {
        let json = app.vault.open(&place(account, &id), &sealed);
        let mail = json.and_then(|json| serde_json::from_slice(&json).ok());
        mail.ok_or(Error::Corrupt { column: 1 })
    };
    rows.into_iter().map(open).collect()
}
