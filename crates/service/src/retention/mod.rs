//! Rank 9: how long things are kept, and how a person's data is erased before that. Each room knows
//! how to forget what is its own; here is the list of them, for the chores and for an erasure. A
//! room that keeps a recipient somewhere new adds itself to both.

pub mod api;
mod turns;
mod view;

use std::collections::BTreeSet;
use std::sync::Arc;

use ::store::{CommitError, WriteSet};
use clock::{DAY, HOUR, MINUTE};
use futures_util::future::{BoxFuture, join_all};
use serde_json::json;

use crate::access::retention::{self as of_access, Accounts};
use crate::access::{self, By, Entry};
use crate::app::{App, Env};
use crate::chatapp::templates::live;
use crate::chatapp::{self, retention as of_chatapp};
use crate::chores::{self, Chore, Turn};
use crate::credits::seals::{self, Forgotten};
use crate::dispatch::retention as of_dispatch;
use crate::emails::{self, retention as of_emails};
use crate::inbound::{self, retention as of_inbound};
use crate::kit::id::AccountId;
use crate::kit::msisdn::Msisdn;
use crate::kit::seal::hex;
use crate::otp::{self, retention as of_otp};
use crate::sms::{self, retention as of_sms};
use crate::support::retention::{self as of_support, Known};
use crate::{credits, events, sandbox, support, webhooks};

/// Accounts that are looked through at the same time for an erasure.
const PARALLEL: usize = 16;

/// Everything that is forgotten when its time has come, and what is due again and again. Each list
/// is for a worker of its own: what is wanted within minutes does not wait for hours of deleting,
/// and neither for somebody's name servers.
#[must_use]
pub fn chores(app: &App) -> Vec<Vec<Chore>> {
    macro_rules! chore {
        ($name:literal, $every_ms:expr, $forget:path) => {{
            let app = app.clone();
            let every_ms = $every_ms;
            let work = move |turn: Arc<Turn>| -> futures_util::future::BoxFuture<'static, _> {
                let app = app.clone();
                Box::pin(async move { Ok(json!({ "rows": $forget(&app, &turn).await? })) })
            };
            Chore { name: $name, every_ms, work: Box::new(work) }
        }};
    }
    let soon = vec![
        chore!("forget_idempotency_keys", 5 * MINUTE, of_access::forget_idempotency_keys),
        chore!("forget_failed_logins", 5 * MINUTE, of_access::forget_failed_logins),
        chore!("settle_inbound_parts", 5 * MINUTE, of_inbound::settle_parts),
        chore!("sweep_objects", 5 * MINUTE, of_support::sweep_objects),
    ];
    let templates = vec![
        chore!("reconcile_templates", live::RECONCILE_MS, live::reconcile),
        chore!("resubmit_templates", live::RESUBMIT_MS, live::resubmit),
    ];
    let domains = vec![chore!("check_email_domains", DAY, emails::domains::check_again)];
    let in_time = vec![
        chore!("forget_tokens", HOUR, of_access::forget_tokens),
        chore!("forget_api_keys", HOUR, of_access::forget_api_keys),
        chore!("forget_notices", HOUR, crate::notices::retention::forget),
        chore!("forget_audit_log", HOUR, forget_audit_log),
        chore!("forget_limits", 6 * HOUR, of_otp::forget_recipients),
        chore!("mask_recipients", HOUR, of_otp::mask_recipients),
        chore!("mask_sms_recipients", HOUR, of_sms::mask_recipients),
        chore!("mask_emails", HOUR, of_emails::mask),
        chore!("mask_chatapp_recipients", HOUR, of_chatapp::mask_recipients),
        chore!("forget_challenges", HOUR, forget_challenges),
        chore!("forget_conversion", HOUR, otp::fraud::forget),
        chore!("forget_receipts", HOUR, of_dispatch::forget_receipts),
        chore!("forget_events", HOUR, webhooks::forget_events),
        chore!("forget_deliveries", HOUR, webhooks::forget_deliveries),
        chore!("forget_inbound", HOUR, of_inbound::forget),
        chore!("forget_ticket_files", HOUR, of_support::forget_files),
        chore!("forget_tickets", HOUR, of_support::forget_tickets),
        chore!("forget_chat_tokens", HOUR, support::chat::forget_tokens),
        chore!("forget_handset_messages", HOUR, sandbox::forget_old),
        chore!("forget_mailbox_messages", HOUR, sandbox::forget_old_mail),
    ];
    vec![soon, templates, domains, in_time]
}

/// What an erasure found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Erased {
    /// Of passcodes.
    pub passcodes: of_otp::Erased,
    /// Of SMS.
    pub sms: of_sms::Erased,
    /// Of emails.
    pub emails: of_emails::Erased,
    /// Of chat-app messages and sessions.
    pub chatapp: of_chatapp::Erased,
    /// Of what the person wrote.
    pub inbound: of_inbound::Erased,
    /// Messages of support tickets that named the person.
    pub ticket_messages: u64,
}

impl Erased {
    fn add(&mut self, other: Self) {
        self.passcodes.add(other.passcodes);
        self.sms.add(other.sms);
        self.emails.add(other.emails);
        self.chatapp.add(other.chatapp);
        self.inbound.add(other.inbound);
        self.ticket_messages += other.ticket_messages;
    }
}

/// Notes that somebody believes the clock, and believes it: what it makes look old goes.
///
/// # Errors
/// See [`CommitError`].
pub async fn confirm_clock(app: &App, by: By<'_>) -> Result<(), CommitError> {
    let entry = Entry {
        actor: by.who,
        action: "clock.confirm",
        object_id: "",
        account: None,
        request_id: by.request_id,
        detail: json!({ "clock": app.now().to_string() }),
    };
    let mut set = WriteSet::of("clock");
    access::record(app, &mut set, &entry);
    chores::confirm(&mut set, &app.clock);
    app.db.commit(set).await.map(drop)
}

/// Deletes old lines of the audit log, once what they say is sealed. The seals say so first: a line
/// that is gone without that was removed by somebody else.
async fn forget_audit_log(app: &App, turn: &Turn) -> Result<u64, Error> {
    let until = turn.now() - app.config.retention.audit_log_d * DAY;
    let until = until.min(seals::sealed_until(app).await?);
    seals::forgotten(app, Forgotten::AuditLog, until).await?;
    Ok(of_access::forget_audit_log(app, turn, until).await?)
}

/// Deletes old passcodes, SMS and their attempts, after the seals said so.
async fn forget_challenges(app: &App, turn: &Turn) -> Result<u64, Error> {
    // One instant for what the seals are told and for what is deleted, however long that takes.
    let now = turn.now();
    let until = |env| now - of_otp::kept_d(app, env) * DAY;
    for env in [Env::Live, Env::Sandbox] {
        seals::forgotten(app, Forgotten::Attempts(env), until(env)).await?;
    }
    let attempts = of_dispatch::forget_attempts(app, turn, until).await?;
    let sms = of_sms::forget_messages(app, turn, until).await?;
    let messages = sms + of_chatapp::forget_messages(app, turn, until).await?;
    let messages = messages + of_emails::forget_emails(app, turn, until).await?;
    Ok(attempts + messages + of_otp::forget_challenges(app, turn, until).await?)
}

/// Why an erasure did not come to its end. Doing it again goes on where it stopped.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no such account.
    #[error("there is no such account")]
    NoAccount,
    /// A room failed.
    #[error(transparent)]
    Otp(#[from] otp::Error),
    /// A room failed.
    #[error(transparent)]
    Sms(#[from] sms::Error),
    /// A room failed.
    #[error(transparent)]
    Emails(#[from] emails::Error),
    /// A room failed.
    #[error(transparent)]
    Chatapp(#[from] chatapp::Error),
    /// A room failed.
    #[error(transparent)]
    Access(#[from] access::Error),
    /// A room failed.
    #[error(transparent)]
    Webhooks(#[from] webhooks::Error),
    /// A room failed.
    #[error(transparent)]
    Credits(#[from] credits::Error),
    /// A room failed.
    #[error(transparent)]
    Dispatch(#[from] of_dispatch::Error),
    /// A room failed.
    #[error(transparent)]
    Inbound(#[from] inbound::Fault),
    /// A room failed.
    #[error(transparent)]
    Support(#[from] support::Error),
    /// A read failed.
    #[error(transparent)]
    Db(#[from] ::store::Error),
    /// A write failed.
    #[error(transparent)]
    Commit(#[from] CommitError),
}

/// A person, as messages name them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Person {
    /// By a phone number.
    Phone(Msisdn),
    /// By an email address.
    Email(email::Address),
}

/// Erases a recipient from one account, or from all accounts of both environments: ends what is
/// open, puts a keyed hash in the place of number or address, and empties what the database keeps
/// of deleted rows. The audit log says so first, with a keyed hash of it.
///
/// # Errors
/// See [`Error`].
pub async fn erase(
    app: &App,
    recipient: &Person,
    account: Option<&AccountId>,
    by: By<'_>,
) -> Result<Erased, Error> {
    if let Some(account) = account
        && access::account(app, account).await?.is_none()
    {
        return Err(Error::NoAccount);
    }
    note(app, recipient, account, by).await?;
    let mut erased = Erased::default();
    if let Some(account) = account {
        erased.add(of_account(app, account, recipient).await?);
    } else {
        erased = erase_everywhere(app, recipient).await?;
    }
    app.db.scrub().await?;
    app.metrics.erased();
    let of_otp::Erased { challenges, ended, .. } = erased.passcodes;
    let (sms, inbound) = (erased.sms.messages, erased.inbound.messages);
    let emails = erased.emails.emails;
    tracing::info!(challenges, ended, sms, emails, inbound, "recipient erased");
    Ok(erased)
}

/// What was sent to the person first, so that nothing more goes out: a pseudonym leads to it when
/// an erasure that stopped is repeated. Then the events that show this, what they wrote, or tickets
/// that name them, and what receivers answered to those; then what they wrote and the tickets.
/// Events that happened meanwhile are gone through once more.
///
/// Boxed, as it is long and awaited in several places: each would be compiled with all of it.
fn of_account<'a>(
    app: &'a App,
    account: &'a AccountId,
    person: &'a Person,
) -> BoxFuture<'a, Result<Erased, Error>> {
    Box::pin(erased_of(app, account, person))
}

async fn erased_of(app: &App, account: &AccountId, person: &Person) -> Result<Erased, Error> {
    let recipient = match person {
        Person::Phone(number) => number,
        Person::Email(address) => return of_mailbox(app, account, address).await,
    };
    let number = recipient.e164();
    follow_the_fence(app).await?;
    // Before what tells whose it is: the messages that were sent to the person.
    of_inbound::erase_unfinished(app, account, recipient).await?;
    let mut passcodes = of_otp::erase(app, account, number).await?;
    let digits = number.trim_start_matches('+');
    passcodes.idempotency_keys += of_access::erase_refusals::<Error>(app, account, digits).await?;
    let sms = of_sms::erase(app, account, number).await?;
    let chatapp = of_chatapp::erase(app, account, number).await?;
    let mut objects = sent_to(app, account, number).await?;
    objects.append(&mut of_inbound::of_person(app, account, recipient).await?);
    objects.append(&mut of_support::naming(app, account, Known::Number(number)).await?);
    // Before what leads to them is gone: an erasure that stops here finds it again.
    erase_events(app, account, number, &objects).await?;
    let inbound = of_inbound::erase(app, account, recipient, &mut objects).await?;
    let mut wiped = of_support::erase(app, account, Known::Number(number)).await?;
    objects.append(&mut wiped.objects);
    erase_events(app, account, number, &objects).await?;
    // Those in memory may have what no row leads to any more.
    if !objects.is_empty() || app.config.keeps_handsets_in_memory() {
        app.handsets.forget(account.as_str(), number).await?;
    }
    let emails = of_emails::Erased::default();
    let ticket_messages = wiped.messages;
    Ok(Erased { passcodes, sms, emails, chatapp, inbound, ticket_messages })
}

/// What was sent to a number, also what names its pseudonym by now.
async fn sent_to(app: &App, account: &AccountId, number: &str) -> Result<BTreeSet<String>, Error> {
    let mut objects = of_otp::challenges_of(app, account, number).await?;
    objects.append(&mut of_sms::messages_of(app, account, number).await?);
    objects.append(&mut of_chatapp::objects_of(app, account, number).await?);
    Ok(objects)
}

/// A command has no upkeep beside it, and what was before may have taken long: what is given back
/// now is behind the fence of now.
async fn follow_the_fence(app: &App) -> Result<(), Error> {
    Ok(seals::refresh(app).await?)
}

/// The same of somebody who is known by an email address.
async fn of_mailbox(
    app: &App,
    account: &AccountId,
    address: &email::Address,
) -> Result<Erased, Error> {
    follow_the_fence(app).await?;
    let mut emails = of_emails::erase(app, account, address).await?;
    let key = address.key();
    emails.idempotency_keys += of_access::erase_refusals::<Error>(app, account, &key).await?;
    // By its hash, an email is found without the address.
    let mut objects = of_emails::emails_of(app, account, address).await?;
    objects.append(&mut of_support::naming(app, account, Known::Address(address)).await?);
    for text in [key.as_str(), address.as_str()] {
        erase_events(app, account, text, &objects).await?;
    }
    let mut wiped = of_support::erase(app, account, Known::Address(address)).await?;
    objects.append(&mut wiped.objects);
    erase_events(app, account, &key, &objects).await?;
    sandbox::forget_mail_of(app, account, address).await?;
    Ok(Erased { emails, ticket_messages: wiped.messages, ..Erased::default() })
}

/// Most accounts never heard of the recipient, so their events are not read.
async fn erase_events(
    app: &App,
    account: &AccountId,
    number: &str,
    objects: &BTreeSet<String>,
) -> Result<(), Error> {
    if objects.is_empty() {
        return Ok(());
    }
    let events = events::erase(app, account, number, objects).await;
    let events = events.map_err(webhooks::Error::from)?;
    Ok(webhooks::erase(app, account, &events).await?)
}

/// Goes through all accounts; most of them never heard of the recipient.
async fn erase_everywhere(app: &App, recipient: &Person) -> Result<Erased, Error> {
    let mut erased = Erased::default();
    if let Person::Phone(number) = recipient {
        erased.inbound = of_inbound::erase_parked(app, number).await?;
        of_dispatch::erase_receipts(app, number.e164().trim_start_matches('+')).await?;
    }
    let mut accounts = Accounts::default();
    loop {
        let mut some = Vec::with_capacity(PARALLEL);
        while some.len() < PARALLEL
            && let Some(account) = accounts.next(app).await?
        {
            some.push(account);
        }
        if some.is_empty() {
            return Ok(erased);
        }
        let erasures = some.iter().map(|account| of_account(app, account, recipient));
        for done in join_all(erasures).await {
            erased.add(done?);
        }
        // Reads of the embedded database are done in place: let others have the thread.
        tokio::task::yield_now().await;
    }
}

/// What stands for a person where nobody is to be named.
fn mac_of(app: &App, person: &Person) -> [u8; 32] {
    match person {
        Person::Phone(number) => app.vault.recipient_mac("", number.e164()),
        Person::Email(address) => app.vault.recipient_mac("", &address.key()),
    }
}

/// The line of the audit log.
async fn note(
    app: &App,
    recipient: &Person,
    account: Option<&AccountId>,
    by: By<'_>,
) -> Result<(), CommitError> {
    let mac = mac_of(app, recipient);
    let detail = match recipient {
        Person::Phone(number) => json!({ "country": number.country() }),
        Person::Email(_) => json!({}),
    };
    let entry = Entry {
        actor: by.who,
        action: "recipient.erase",
        object_id: &hex(&mac),
        account,
        request_id: by.request_id,
        detail,
    };
    let mut set = WriteSet::of(account.map_or("erasures", AccountId::as_str));
    access::record(app, &mut set, &entry);
    app.db.commit(set).await.map(drop)
}
