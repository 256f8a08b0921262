//! Addresses that an account does not write to: because mail to them bounced, because the person
//! complained or unsubscribed, or because the account says so. Looked at when an email is taken,
//! and again whenever it is about to go out.

pub mod api;
mod store;

use ::store::{Error, WriteSet, args};
use clock::Millis;
use endpoints::ToSchema;
use serde::Serialize;

use self::store as sql;
use super::address_mac;
use crate::access::audit::{By, Entry};
use crate::app::App;
use crate::kit::id::{AccountId, SuppressionId};
use crate::kit::page::Page;
use crate::kit::words::words;

words! {
    /// Why an address is not written to.
    #[derive(Serialize, ToSchema)]
    #[serde(rename_all = "snake_case")]
    #[schema(as = SuppressionReason)]
    pub enum Reason {
        /// Mail to it bounced: there is no such mailbox.
        Bounced = "bounced",
        /// The person reported a message as unwanted.
        Complained = "complained",
        /// The person unsubscribed.
        Unsubscribed = "unsubscribed",
        /// The account said so.
        Manual = "manual",
    }
}

/// An address that is not written to.
#[derive(Clone, Debug)]
pub(super) struct Suppression {
    id: SuppressionId,
    /// Empty once the person is forgotten.
    address: String,
    reason: Reason,
    created_at: Millis,
}

/// Puts an address on the list; one that is on it stays as it is. Answers the id of a new one.
pub(super) fn add(
    app: &App,
    set: &mut WriteSet,
    account: &AccountId,
    address: &email::Address,
    reason: Reason,
) -> SuppressionId {
    let (id, mac) = (SuppressionId::new(&app.clock), address_mac(app, account, address));
    let args = args![account, mac.clone(), &id, address.key(), reason.as_str(), id.time()];
    set.push(sql::INSERT, args);
    if reason == Reason::Manual {
        set.push(sql::NAME, args![address.key(), account, mac]);
    }
    id
}

/// Puts a person on the list of whom only the keyed hash is known any more.
pub(super) fn add_forgotten(
    app: &App,
    set: &mut WriteSet,
    account: &AccountId,
    mac: &[u8],
    reason: Reason,
) {
    let id = SuppressionId::new(&app.clock);
    set.push(sql::INSERT, args![account, mac.to_vec(), &id, "", reason.as_str(), id.time()]);
}

/// Whether an account does not write to the address with this keyed hash.
pub(super) async fn has(app: &App, account: &AccountId, mac: &[u8]) -> Result<bool, Error> {
    let found: Option<Suppression> = app.db.row(sql::BY_MAC, args![account, mac.to_vec()]).await?;
    Ok(found.is_some())
}

/// Takes the address itself out of the list; its keyed hash stays.
pub(super) fn forget(set: &mut WriteSet, account: &AccountId, mac: &[u8]) {
    set.push(sql::FORGET, args![account, mac.to_vec()]);
}

async fn find(
    app: &App,
    account: &AccountId,
    address: &email::Address,
) -> Result<Option<Suppression>, Error> {
    let mac = address_mac(app, account, address);
    app.db.row(sql::BY_MAC, args![account, mac]).await
}

async fn page(app: &App, account: &AccountId, page: &Page) -> Result<Vec<Suppression>, Error> {
    let args = args![account, &page.after, page.limit.saturating_add(1)];
    app.db.rows(sql::PAGE, args).await
}

fn remove(app: &App, set: &mut WriteSet, account: &AccountId, address: &email::Address) {
    set.push(sql::DELETE, args![account, address_mac(app, account, address)]);
}

/// A line of the audit log about an address of the list, which it does not name.
fn entry<'a>(
    account: &'a AccountId,
    id: &'a SuppressionId,
    by: By<'a>,
    action: &'static str,
) -> Entry<'a> {
    Entry::of_account(account, id.as_str(), by, action, serde_json::json!({}))
}
