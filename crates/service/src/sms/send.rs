//! Commit A: the message, its attempt and the hold on its price, all or nothing. Then `dispatch`
//! carries it, and the answer waits for nobody.

use store::{CommitError, WriteSet};

use super::parse::Order;
use super::store as sql;
use super::{Error, Message, Sms, Status, seal};
use crate::access::idempotency::{Claim, Seen};
use crate::app::{Account, App, Env};
use crate::carriers::{Address, Channel, Rehearsed};
use crate::credits;
use crate::dispatch::{self, Leg, NewLeg};
use crate::inbound::opt_outs::{self, OPTED_OUT};
use crate::kit::id::SmsId;
use crate::senders::{self, NOT_APPROVED};

/// What prices call SMS that are no passcodes.
const CATEGORY: &str = "message";

/// Takes a message, to be sent.
pub(super) async fn send(
    app: &App,
    account: &Account,
    order: &Order,
    claim: &Claim,
) -> Result<Message, Error> {
    let sender = sender(app, account, order)?;
    let credits = price(app, account, order).await?;
    dispatch::look_up(app, &order.to).await;
    let id = SmsId::new(&app.clock);
    let address = Address::Phone(order.to.clone());
    let leg = NewLeg {
        account: &account.id,
        object_id: id.as_str(),
        channel: Channel::Sms,
        to: &address,
        priority: order.class.priority(),
        credits,
        give_up_at: app.now() + order.validity_s * 1_000,
    };
    let slot = dispatch::slot(app, &leg).ok_or(Error::NoCarrier)?;
    let attempt = slot.attempt(app, &leg);
    let message = Message {
        account: account.id.clone(),
        recipient: order.to.e164().to_owned(),
        reference: order.reference.clone(),
        sender,
        text: Some(seal(app, &account.id, &id, &order.text)),
        created_at: id.time(),
        id,
        class: order.class,
        encoding: order.encoding,
        segments: order.segments,
        charged_credits: credits,
        attempt: attempt.id.clone(),
        status: Status::Queued,
        cause: None,
        carrier_code: None,
        event_count: 0,
        valid_until: attempt.give_up_at,
        updated_at: app.now(),
    };
    let mut set = WriteSet::of(account.id.as_str());
    opt_outs::guard(app, &mut set, &account.id, &order.to);
    if !message.sender.is_empty() {
        senders::guard(&mut set, &account.id, &message.sender);
    }
    claim.add_to(&mut set, message.id.as_str(), None, app.now());
    dispatch::open::<Sms>(app, &mut set, &attempt);
    sql::insert(&mut set, &message);
    match app.db.commit(set).await {
        Ok(_) => slot.go(app, Leg::<Sms>::new(message.clone(), attempt)),
        Err(CommitError::Rejected(NOT_APPROVED)) => {
            return Err(not_approved(app, order, &message).await);
        }
        Err(error) => return Err(refused(app, account, credits, error).await),
    }
    Ok(message)
}

async fn not_approved(app: &App, order: &Order, message: &Message) -> Error {
    let whose = if order.sender.is_some() { "The sender" } else { "The account's default sender" };
    match senders::why_not(app, &message.account, &message.sender).await {
        Ok(why) => Error::SenderNotApproved(format!("{whose}{why}")),
        Err(error) => error.into(),
    }
}

/// Why commit A did not happen.
async fn refused(app: &App, account: &Account, credits: i64, error: CommitError) -> Error {
    match error {
        CommitError::Rejected(OPTED_OUT) => Error::OptedOut,
        CommitError::Rejected(credits::INSUFFICIENT) => {
            credits::insufficient(app, &account.id, credits).await.into()
        }
        error => error.into(),
    }
}

/// The price of all segments, if the account may send to the recipient's country.
async fn price(app: &App, account: &Account, order: &Order) -> Result<i64, Error> {
    let country = order.to.country();
    let is_closed = |countries: &Vec<String>| !countries.iter().any(|open| open == country);
    let rehearsed = app.carriers.rehearsed(&order.to);
    if rehearsed == Some(Rehearsed::CountryNotAllowed)
        || account.settings.countries.as_ref().is_some_and(is_closed)
    {
        return Err(Error::CountryNotAllowed(country.to_owned()));
    }
    let price = credits::price(app, Channel::Sms.as_str(), CATEGORY, country).await?;
    let required = price.saturating_mul(order.segments);
    if rehearsed == Some(Rehearsed::InsufficientCredits) {
        return Err(credits::Error::Insufficient { required, available: 0 }.into());
    }
    Ok(required)
}

/// The sender that is asked for, else the account's own. Only simulated phones take messages from
/// nobody.
fn sender(app: &App, account: &Account, order: &Order) -> Result<String, Error> {
    let sender = order.sender.as_ref().or(account.settings.default_sender.as_ref());
    match (sender, app.env) {
        (Some(sender), _) => Ok(sender.clone()),
        (None, Env::Sandbox) => Ok(String::new()),
        (None, Env::Live) => Err(Error::SenderNotApproved(
            "Name an approved `sender`: the account has no default one".to_owned(),
        )),
    }
}

/// What a request with the same Idempotency-Key made, as it stands now.
pub(super) async fn seen(app: &App, account: &Account, seen: &Seen) -> Result<Message, Error> {
    let id = SmsId::parse(&seen.object_id).ok_or(Error::Unknown)?;
    sql::message(app, &account.id, &id).await?.ok_or(Error::Unknown)
}
