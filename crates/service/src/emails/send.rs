//! Commit A: the email, what it says, and for each recipient its row, its attempt and the hold on
//! its price, all or nothing. Then `dispatch` carries it, and the answer waits for nobody.

use std::sync::Arc;

use clock::HOUR;
use futures_util::future::try_join_all;
use store::{CommitError, WriteSet};

use super::domains::Signers;
use super::large::Large;
use super::parse::Order;
use super::store::{self as sql, Change};
use super::{
    Cause, Email, Error, Kind, Letter, Piece, Said, Status, Tally, address_mac, domains, place,
    suppressions, unsubscribe,
};
use crate::access::idempotency::{Claim, Seen};
use crate::app::{Account, App};
use crate::carriers::{Address, Channel, Priority, Script};
use crate::credits;
use crate::dispatch::{self, Leg, NewLeg, Slot};
use crate::kit::id::{AccountId, AttemptId, EmailId};

/// What prices call emails.
const CATEGORY: &str = "message";
/// How long after its last try an email that no relay took may still be looked at.
const SLACK_MS: i64 = HOUR;

/// How an email is taken.
pub(super) struct Taking<'a> {
    pub(super) id: EmailId,
    pub(super) priority: Priority,
    pub(super) claim: &'a Claim,
}

/// A recipient's copy on its way out; without a slot it goes nowhere.
struct Out {
    kind: Kind,
    piece: Piece,
    way: Option<(Slot, dispatch::Attempt)>,
}

/// Takes an email, to be sent.
pub(super) async fn send(
    app: &App,
    account: &Account,
    order: Order,
    taking: Taking<'_>,
) -> Result<Letter, Error> {
    let price = credits::price(app, Channel::Email.as_str(), CATEGORY, "").await?;
    let screened = Screened { people: screen(app, &account.id, &order).await?, price };
    let is_open = domains::is_shared(app, &order.from);
    let domain = order.from.address.domain().to_owned();
    let signers = if is_open { None } else { domains::signers(app, &account.id, &domain).await? };
    let written = Large::of(app).bench.work(order.size(), || {
        // Places at the relay are taken when it is this one's turn: they are not for waiting.
        let outs = outs(app, account, &order, &screened, &taking)?;
        let (mut letter, message) = letter(app, account, order, &taking, &outs);
        let message = signed(app, signers.as_ref(), message)?;
        letter.size_bytes = i64::try_from(message.len()).unwrap_or(i64::MAX);
        let goes_out = outs.iter().any(|out| out.way.is_some());
        let sealed = goes_out.then(|| app.vault.seal(&place(&account.id, &letter.id), &message));
        Ok::<_, Error>(Written { letter, outs, message: Arc::new(message), sealed })
    });
    let Written { letter, outs, message, sealed } = written.await?;
    let mut set = WriteSet::of(account.id.as_str());
    if !is_open {
        domains::guard(&mut set, &account.id, &domain);
    }
    taking.claim.add_to(&mut set, letter.id.as_str(), None, app.now());
    sql::insert(&mut set, &letter);
    if let Some(sealed) = sealed {
        sql::insert_content(&mut set, &account.id, &letter.id, sealed);
    }
    for Out { kind, piece, way } in &outs {
        if let Some((_, attempt)) = way {
            dispatch::open::<Email>(app, &mut set, attempt);
        }
        sql::insert_recipient(&mut set, piece, *kind);
    }
    for out in outs.iter().filter(|out| out.way.is_none()) {
        sql::tell(app, &mut set, &out.piece, Change::default());
    }
    match app.db.commit(set).await {
        Ok(_) => go(app, outs, &message),
        // Another request under the same key was faster.
        Err(CommitError::Rejected(sql::EXISTS)) => {
            return Ok(sql::letter(app, &account.id, &letter.id).await?.unwrap_or(letter));
        }
        Err(error) => {
            return Err(refused(app, account, domain, letter.charged_credits, error).await);
        }
    }
    Ok(letter)
}

fn go(app: &App, outs: Vec<Out>, message: &Arc<Vec<u8>>) {
    for Out { mut piece, way, .. } in outs {
        if let Some((slot, attempt)) = way {
            piece.said = Some(Said::Opened(Arc::clone(message)));
            slot.go(app, Leg::<Email>::new(piece, attempt));
        }
    }
}

/// An email that is to be stored, and what goes out of it.
struct Written {
    letter: Letter,
    outs: Vec<Out>,
    message: Arc<Vec<u8>>,
    /// As it is stored, where it goes out at all.
    sealed: Option<Vec<u8>>,
}

/// What was looked up for an order.
struct Screened {
    /// Its recipients, in its order, compared with the account's suppression list.
    people: Vec<Person>,
    /// Credits for each.
    price: i64,
}

/// What is known of a recipient.
struct Person {
    address_mac: Vec<u8>,
    /// The account does not write to them.
    is_suppressed: bool,
}

async fn screen(app: &App, account: &AccountId, order: &Order) -> Result<Vec<Person>, Error> {
    let looks = order.recipients.iter().map(|(_, mailbox)| async move {
        let address_mac = address_mac(app, account, &mailbox.address);
        let is_scripted = app.carriers.scripted(&mailbox.address) == Some(Script::Suppressed);
        let is_suppressed = is_scripted || suppressions::has(app, account, &address_mac).await?;
        Ok::<_, Error>(Person { address_mac, is_suppressed })
    });
    try_join_all(looks).await
}

fn outs(
    app: &App,
    account: &Account,
    order: &Order,
    Screened { people, price }: &Screened,
    taking: &Taking<'_>,
) -> Result<Vec<Out>, Error> {
    let last_try_s: i64 = app.config.email.retry_schedule_s.iter().sum();
    let give_up_at = app.now() + last_try_s * 1_000 + SLACK_MS;
    let mut outs = Vec::with_capacity(people.len());
    let recipients = (0_i64..).zip(&order.recipients).zip(people);
    for ((position, (kind, mailbox)), person) in recipients {
        let mut piece = Piece {
            account: account.id.clone(),
            email: taking.id.clone(),
            position,
            mailbox: mailbox.to_string(),
            address_mac: person.address_mac.clone(),
            status: Status::Queued,
            cause: None,
            detail: None,
            attempt: AttemptId::stored(String::new()),
            credits: *price,
            change_count: 0,
            from_email: order.from.address.as_str().to_owned(),
            valid_until: give_up_at,
            is_suppressed: false,
            said: None,
        };
        if person.is_suppressed {
            piece.status = Status::Suppressed;
            piece.cause = Some(Cause::Suppressed);
            piece.credits = 0;
            outs.push(Out { kind: *kind, piece, way: None });
            continue;
        }
        let address = Address::Email(mailbox.address.clone());
        let object_id = piece.object_id();
        let leg = NewLeg {
            account: &account.id,
            object_id: &object_id,
            channel: Channel::Email,
            to: &address,
            priority: taking.priority,
            credits: *price,
            give_up_at,
        };
        let slot = dispatch::slot(app, &leg).ok_or(Error::NoCarrier)?;
        let attempt = slot.attempt(app, &leg);
        piece.attempt = attempt.id.clone();
        outs.push(Out { kind: *kind, piece, way: Some((slot, attempt)) });
    }
    Ok(outs)
}

/// The row, and what it says.
fn letter(
    app: &App,
    account: &Account,
    order: Order,
    taking: &Taking<'_>,
    outs: &[Out],
) -> (Letter, Vec<u8>) {
    let now = app.now();
    let Order { from, from_email, to, cc, reply_to, subject, text, html, .. } = order;
    let domain = from.address.domain().to_owned();
    let reply_to_text = reply_to.as_ref().map(ToString::to_string);
    let unique = taking.id.as_str().trim_start_matches("eml_").to_owned();
    let mut headers = order.headers;
    if taking.priority == Priority::Bulk && outs.len() == 1 {
        unsubscribe::offer(app, &account.id, &taking.id, &mut headers);
    }
    let message = email::compose::compose(email::Draft {
        message_id: format!("{unique}@{domain}"),
        date_s: now.0.div_euclid(1_000),
        subject: subject.clone(),
        headers,
        attachments: order.attachments,
        from,
        to,
        cc,
        reply_to,
        text,
        html,
    });
    let letter = Letter {
        account: account.id.clone(),
        id: taking.id.clone(),
        from_email,
        reply_to: reply_to_text,
        subject,
        reference: order.reference,
        size_bytes: 0,
        priority: taking.priority,
        tally: Tally::of(outs.iter().map(|out| out.piece.status)),
        charged_credits: outs.iter().map(|out| out.piece.credits).sum(),
        valid_until: outs.first().map_or(now, |out| out.piece.valid_until),
        created_at: taking.id.time(),
        updated_at: now,
    };
    (letter, message)
}

/// A message with its signatures in front of it, where its domain has keys.
fn signed(app: &App, signers: Option<&Signers>, mut message: Vec<u8>) -> Result<Vec<u8>, Error> {
    let Some(signers) = signers else { return Ok(message) };
    let mut signed = signers.sign(&message, app.clock.now().0 / 1_000).ok_or(Error::NoKeys)?;
    signed.append(&mut message);
    Ok(signed)
}

/// Why commit A did not happen.
async fn refused(
    app: &App,
    account: &Account,
    domain: String,
    credits: i64,
    error: CommitError,
) -> Error {
    match error {
        CommitError::Rejected(domains::NOT_VERIFIED) if domains::is_on_shared(app, &domain) => {
            Error::Reserved
        }
        CommitError::Rejected(domains::NOT_VERIFIED) => Error::DomainNotVerified(domain),
        CommitError::Rejected(credits::INSUFFICIENT) => {
            credits::insufficient(app, &account.id, credits).await.into()
        }
        error => error.into(),
    }
}

/// What a request with the same Idempotency-Key made, as it stands now.
pub(super) async fn seen(app: &App, account: &Account, seen: &Seen) -> Result<Letter, Error> {
    let id = EmailId::parse(&seen.object_id).ok_or(Error::Unknown)?;
    sql::letter(app, &account.id, &id).await?.ok_or(Error::Unknown)
}
