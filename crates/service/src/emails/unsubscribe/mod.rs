//! One-click unsubscribe (RFC 8058), for emails of a bulk request: a mailbox shows a button, and
//! presses it with a POST to the address in the headers. A GET only asks, because scanners follow
//! every link. The address names the email under a keyed hash; whoever has it can do nothing but
//! stop the account's mail to whom it went to.

pub mod api;

use ::store::{CommitError, Error as DbError, WriteSet};

use super::suppressions::Reason;
use super::{Email, Piece, decide, suppressions};
use crate::app::{App, Env};
use crate::dispatch::Owner;
use crate::kit::id::{AccountId, EmailId};
use crate::kit::seal::hex;
use crate::kit::signature::is_same;

/// Where it is, before the token.
const PATH: &str = "/unsubscribe/";
/// The header with the address.
const HEADER: &str = "List-Unsubscribe";
/// The header that says that one POST is enough (RFC 8058 §3.1).
const ONE_CLICK: (&str, &str) = ("List-Unsubscribe-Post", "List-Unsubscribe=One-Click");
/// Hexadecimal digits of the keyed hash.
const HASH_DIGITS: usize = 32;
/// What the ids begin with.
const PREFIXES: (&str, &str) = ("acc_", "eml_");

/// Adds the headers to an email with one recipient, unless the account brings its own.
pub(super) fn offer(
    app: &App,
    account: &AccountId,
    email: &EmailId,
    headers: &mut Vec<(String, String)>,
) {
    let is_ours =
        |name: &str| name.eq_ignore_ascii_case(HEADER) || name.eq_ignore_ascii_case(ONE_CLICK.0);
    if headers.iter().any(|(name, _)| is_ours(name)) {
        return;
    }
    let url = format!("<{}{PATH}{}>", app.base_url(), token(app, account, email));
    headers.push((HEADER.to_owned(), url));
    headers.push((ONE_CLICK.0.to_owned(), ONE_CLICK.1.to_owned()));
}

fn token(app: &App, account: &AccountId, email: &EmailId) -> String {
    let bare = |id: &str, prefix: &str| id.trim_start_matches(prefix).to_owned();
    let account_part = bare(account.as_str(), PREFIXES.0);
    format!("{account_part}.{}.{}", bare(email.as_str(), PREFIXES.1), hash(app, account, email))
}

fn hash(app: &App, account: &AccountId, email: &EmailId) -> String {
    // A link acts at the address that it leads to, and at no other.
    let purpose = match app.env {
        Env::Live => "unsubscribe",
        Env::Sandbox => "unsubscribe in the sandbox",
    };
    let mac = app.vault.upstream_mac(&[purpose, account.as_str(), email.as_str()]);
    hex(&mac).chars().take(HASH_DIGITS).collect()
}

/// The only recipient of the email that a token names; `None` when we did not make the token, or
/// the email is not kept any more.
async fn find(app: &App, token: &str) -> Result<Option<Piece>, DbError> {
    let mut parts = token.split('.');
    let mut id = |prefix: &str| parts.next().map(|part| format!("{prefix}{part}"));
    let account = id(PREFIXES.0).and_then(|id| AccountId::parse(&id));
    let email = id(PREFIXES.1).and_then(|id| EmailId::parse(&id));
    let (Some((account, email)), Some(given), None) =
        (account.zip(email), parts.next(), parts.next())
    else {
        return Ok(None);
    };
    if !is_same(&hash(app, &account, &email), given) {
        return Ok(None);
    }
    Email::load(app, &account, &format!("{email}.0")).await
}

/// Puts the recipient on the account's suppression list; one that is on it stays as it is.
async fn act(app: &App, piece: &Piece) -> Result<(), CommitError> {
    let mut set = WriteSet::of(piece.account.as_str());
    if piece.address().is_some() {
        decide::suppress(app, &mut set, piece, Reason::Unsubscribed);
    } else {
        let Piece { account, address_mac, .. } = piece;
        suppressions::add_forgotten(app, &mut set, account, address_mac, Reason::Unsubscribed);
    }
    app.db.commit(set).await.map(drop)
}
