//! Notices as a channel: they go out as emails of the service itself, from its shared domain, free
//! of charge. Users write them at either address; only live has a relay, so live takes them out.

use std::sync::atomic::Ordering;

use ::store::{CommitError, Error, WriteSet};

use super::decide::{first_may_have_arrived, may_go_again, once_more};
use super::domains::NOTICES_FROM;
use crate::app::App;
use crate::carriers::{Address, Channel, Content, Mail, Outbound, Priority, Refusal};
use crate::dispatch::{
    self, Attempt, Failure, Leg, NewLeg, News, Owner, STALE, State as Sending, Then, Unsure,
};
use crate::kit::id::{AccountId, NoticeId};
use crate::notices::{self, MOVED, Notice, State, resets};

/// Notices taken out at a time.
const BATCH: i64 = 50;
/// How often somebody looks for them, milliseconds.
const PAUSE_MS: u64 = 1_000;
/// How long before a notice ends it goes to the relay for the last time.
const LAST_TRY_MS: i64 = 1_000;
/// What ids of notices begin with.
const PREFIX: &str = "ntc_";

/// The channel of notices.
pub struct Notices;

impl Owner for Notices {
    const KIND: &'static str = "notice";
    const IS_FREE_AT_ZERO: bool = true;
    type Message = Notice;

    fn reason(_: Channel) -> &'static str {
        "notice"
    }

    async fn load(app: &App, account: &AccountId, id: &str) -> Result<Option<Notice>, Error> {
        match NoticeId::parse(id) {
            Some(id) => notices::find(app, account, &id).await,
            None => Ok(None),
        }
    }

    fn content(app: &App, notice: &Notice, attempt: &Attempt) -> Option<Outbound> {
        if app.now() >= notice.valid_until {
            return None;
        }
        let letter = notices::letter(app, notice)?;
        let domain = &app.config.email.shared_domain;
        let from = email::Mailbox::parse(&format!("{NOTICES_FROM}@{domain}")).ok()?;
        let to = email::Mailbox::parse(&notice.email).ok()?;
        let (sender, address) = (from.address.to_string(), to.address.clone());
        let unique = notice.id.as_str().trim_start_matches(PREFIX);
        let message = email::compose::compose(email::Draft {
            message_id: format!("{unique}@{domain}"),
            date_s: notice.created_at.0.div_euclid(1_000),
            subject: letter.subject.to_owned(),
            // RFC 3834 §5: no machine answers it.
            headers: vec![("Auto-Submitted".to_owned(), "auto-generated".to_owned())],
            attachments: Vec::new(),
            from,
            to: vec![to],
            cc: Vec::new(),
            reply_to: None,
            text: Some(letter.text),
            html: None,
        });
        let mail = Mail { return_path: sender.clone(), front: Vec::new(), message: message.into() };
        Some(Outbound {
            account_id: notice.account.as_str().to_owned(),
            attempt_id: attempt.id.as_str().to_owned(),
            priority: attempt.priority,
            to: Address::Email(address),
            sender,
            content: Content::Email(mail),
            valid_until: notice.valid_until,
        })
    }

    fn wait_ms(_: &App) -> u64 {
        0
    }

    fn waits_on(_: Channel) -> bool {
        false
    }

    fn may_name(_: &Notice) -> bool {
        true
    }

    /// What may work later goes to the relay again, by the schedule of emails. So does a second
    /// copy: a letter that comes twice is better than none.
    fn after(app: &App, notice: &Notice, attempt: &Attempt, why: &Failure) -> Then {
        let passes = matches!(
            why.refusal,
            Some(Refusal::Temporary | Refusal::Down | Refusal::Throttled { .. })
        );
        let last = notice.valid_until - LAST_TRY_MS;
        if why.state != Sending::Refused || !passes || app.now() >= last {
            return Then::End;
        }
        let step = usize::try_from(attempt.tries.saturating_sub(1)).unwrap_or(usize::MAX);
        match app.config.email.retry_schedule_s.get(step) {
            Some(wait_s) => Then::Retry { at: last.min(app.now() + wait_s * 1_000) },
            None => Then::End,
        }
    }

    /// It goes once more, with the same Message-ID, by which mailboxes know it again.
    fn unknown(_: &App, _: &Notice, attempt: &Attempt) -> Unsure {
        once_more(attempt)
    }

    /// A second copy that is refused leaves the first where it is.
    fn may_have_arrived(attempt: &Attempt, why: &Failure) -> bool {
        first_may_have_arrived(attempt, why)
    }

    /// There is no other way for a notice.
    fn adopt(_: &App, _: &mut WriteSet, _: &mut Notice, _: &Attempt, _: &Failure) {}

    fn decide(_: &App, set: &mut WriteSet, notice: &mut Notice, attempt: &Attempt, news: News<'_>) {
        if notice.state != State::Queued {
            return;
        }
        match news {
            News::Unknown if may_go_again(attempt) => {}
            News::Accepted { .. } | News::Unknown | News::Delivered { .. } | News::Read { .. } => {
                notices::shift(set, notice, State::Sent, STALE);
            }
            News::Over(_) => notices::shift(set, notice, State::Failed, STALE),
            News::Retry { .. } | News::Owed(_) => {}
        }
    }
}

/// Takes out what waits, until the process drains.
pub async fn run(app: App) {
    while !app.draining.load(Ordering::SeqCst) {
        match run_due(&app).await {
            Ok(0) => app.rest(PAUSE_MS).await,
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(%error, "notices not taken out; trying again");
                app.rest(PAUSE_MS).await;
            }
        }
    }
}

/// Takes out what waits now, and says how many could go.
///
/// # Errors
/// When the database cannot be read or written. What was not reached still waits.
pub async fn run_due(app: &App) -> Result<usize, CommitError> {
    if !notices::is_on(app) {
        return Ok(0);
    }
    let mut count = 0;
    for asked in resets::asked(app, BATCH).await? {
        match resets::answer(app, &asked).await {
            Ok(()) => count += 1,
            // Another node was faster.
            Err(CommitError::Rejected(MOVED)) => {}
            Err(error) => return Err(error),
        }
    }
    for notice in notices::waiting(app, BATCH).await? {
        match take_out(app, notice).await {
            Ok(is_moved) => count += usize::from(is_moved),
            // Another node was faster.
            Err(CommitError::Rejected(MOVED)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(count)
}

/// Commit A of one; `false` while no carrier leads there.
async fn take_out(app: &App, mut notice: Notice) -> Result<bool, CommitError> {
    let mut set = WriteSet::of(notice.account.as_str());
    let address = email::Address::parse(&notice.email).ok();
    let Some(address) = address.filter(|_| app.now() < notice.valid_until) else {
        notices::shift(&mut set, &mut notice, State::Failed, MOVED);
        return app.db.commit(set).await.map(|_| true);
    };
    let to = Address::Email(address);
    let (account, object_id) = (notice.account.clone(), notice.id.to_string());
    let leg = NewLeg {
        account: &account,
        object_id: &object_id,
        channel: Channel::Email,
        to: &to,
        priority: Priority::Transactional,
        credits: 0,
        give_up_at: notice.valid_until,
    };
    let Some(slot) = dispatch::slot(app, &leg) else { return Ok(false) };
    let attempt = slot.attempt(app, &leg);
    notice.attempt = attempt.id.clone();
    notices::shift(&mut set, &mut notice, State::Queued, MOVED);
    dispatch::open::<Notices>(app, &mut set, &attempt);
    app.db.commit(set).await?;
    slot.go(app, Leg::<Notices>::new(notice, attempt));
    Ok(true)
}
