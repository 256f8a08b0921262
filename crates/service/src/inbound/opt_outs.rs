//! Who asked an account for silence, and the guard that keeps it. A wish holds for all channels of
//! the account and everything but passcodes, which people ask for themselves.
//!
//! The number is kept as a keyed hash only: erasing a person must not undo what they asked for.

use ::store::{Error as DbError, Reject, WriteSet, args};
use clock::Millis;

use super::message::{Address, Message};
use super::store as sql;
use crate::app::App;
use crate::carriers::Channel;
use crate::kit::id::AccountId;
use crate::kit::keywords::Keyword;
use crate::kit::msisdn::Msisdn;

/// The recipient said STOP to this account: 403 `recipient_opted_out`.
pub const OPTED_OUT: Reject = Reject("recipient_opted_out");

/// Refuses the set with [`OPTED_OUT`] if the recipient opted out. It writes nothing: in front of
/// everything else it is the cheapest guard.
pub fn guard(app: &App, set: &mut WriteSet, account: &AccountId, recipient: &Msisdn) {
    let mac = app.vault.recipient_mac(account.as_str(), recipient.e164());
    set.absent(sql::IS_OPTED_OUT, args![account, mac], OPTED_OUT);
}

/// Whether the recipient said STOP to this account, for who has another reason to refuse.
///
/// # Errors
/// When it cannot be read.
pub async fn is_opted_out(
    app: &App,
    account: &AccountId,
    recipient: &Msisdn,
) -> Result<bool, DbError> {
    let mac = app.vault.recipient_mac(account.as_str(), recipient.e164());
    let said: Option<(i64,)> = app.db.row(sql::IS_OPTED_OUT, args![account, mac]).await?;
    Ok(said.is_some())
}

/// Whether a recipient has not said STOP to this account. Of one who is forgotten (`None`) nobody
/// knows, and nothing is left that could go out.
///
/// # Errors
/// When it cannot be read.
pub async fn still_wants(
    app: &App,
    account: &AccountId,
    number: Option<&str>,
) -> Result<bool, DbError> {
    let Some(number) = number else { return Ok(true) };
    Ok(!is_opted_out(app, account, &Msisdn::stored(number.to_owned())).await?)
}

/// Whether a message asks for what does not hold: such a one repeats nothing, even where the same
/// words came before.
pub(super) async fn is_new_wish(
    app: &App,
    account: Option<&AccountId>,
    message: &Message,
) -> Result<bool, DbError> {
    let (Some(account), Address::Phone(person), Some(keyword)) =
        (account, &message.sender, message.keyword)
    else {
        return Ok(false);
    };
    let is_silent = is_opted_out(app, account, person).await?;
    Ok(is_silent != (keyword == Keyword::Stop))
}

/// What a person asked for, where and when.
#[derive(Clone, Copy, Debug)]
pub struct Wish<'a> {
    /// Who.
    pub person: &'a Msisdn,
    /// What.
    pub keyword: Keyword,
    /// Where they said it.
    pub channel: Channel,
    /// When.
    pub said_at: Millis,
}

/// Notes a wish. The latest one holds, in whatever order they come; of two of the same instant, the
/// one that comes later: upstreams tell time in seconds.
pub fn note(app: &App, set: &mut WriteSet, account: &AccountId, wish: Wish<'_>) {
    let mac = app.vault.recipient_mac(account.as_str(), wish.person.e164());
    let opted_out = wish.keyword == Keyword::Stop;
    let args = args![account, mac, opted_out, wish.channel.as_str(), wish.said_at];
    set.push(sql::SET_OPT_OUT, args);
}

/// Notes that the chat-app tells of a message: the person wants no more. As of the message, since
/// what they said after it is newer.
pub fn note_told(
    app: &App,
    set: &mut WriteSet,
    account: &AccountId,
    person: &Msisdn,
    sent_at: Millis,
) {
    let (keyword, channel) = (Keyword::Stop, Channel::Chatapp);
    note(app, set, account, Wish { person, keyword, channel, said_at: sent_at });
}
