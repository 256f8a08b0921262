//! Templates of the chat-app: what an account declared, and how the upstream judged it. In the
//! sandbox a template that is submitted is judged after a second: approved, unless its name ends in
//! `_rejected`.

mod adopt;
pub mod api;
pub mod live;
pub mod own;
mod parse;
mod store;
mod told;

use ::store::{CommitError, Error as DbError, Reject, WriteSet};
use clock::Millis;
use cloud_api::template::{self as rules, Button, Category};
use endpoints::ToSchema;
use serde::Serialize;

use self::live::Upstream;
use self::store as sql;
use crate::access::idempotency::Claim;
use crate::access::limits::{self, Limited};
use crate::app::{App, Env};
use crate::kit::id::AccountId;
use crate::kit::problem::Problem;
use crate::kit::throttle::Class;
use crate::kit::words::words;

/// Most templates of an account: what the upstream lets an unverified business have.
const MOST: i64 = 250;
/// How long the sandbox takes to judge, milliseconds.
const JUDGED_AFTER_MS: i64 = 1_000;
/// What the sandbox rejects, by the end of the name.
const REJECTED: &str = "_rejected";
/// A template of the name and language is there, and no draft.
const EXISTS: Reject = Reject("template_exists");
/// The account has all templates that it may have.
const FULL: Reject = Reject("templates_full");
/// Something else kept how a template stands since it was read.
const CHANGED: Reject = Reject("template_changed");
/// How often a template is deleted that something else changes meanwhile.
const TRIES: usize = 3;

words! {
    /// What the upstream says of a template.
    #[derive(Serialize, ToSchema)]
    #[serde(rename_all = "UPPERCASE")]
    #[schema(as = TemplateStatus)]
    pub enum Status {
        /// It is a draft, or waits to be judged.
        Pending = "PENDING",
        /// It can be sent.
        Approved = "APPROVED",
        /// It cannot be sent.
        Rejected = "REJECTED",
    }
}

/// A template as stored.
#[derive(Clone, Debug)]
pub(super) struct Template {
    account: AccountId,
    pub(super) name: String,
    pub(super) language: String,
    pub(super) category: Category,
    pub(super) body: String,
    pub(super) footer: Option<String>,
    buttons: Vec<Button>,
    is_draft: bool,
    status: Status,
    provider_status: String,
    pub(super) provider_id: String,
    rejection_reason: Option<String>,
    approves_at: Option<Millis>,
    created_at: Millis,
    /// When it was last known how it stands.
    updated_at: Millis,
}

impl Template {
    /// How it stands: that the sandbox has judged it is a fact of time, not of a sweep.
    pub(super) fn status(&self, now: Millis) -> Status {
        match (self.status, self.approves_at) {
            (Status::Pending, Some(at)) if at <= now => self.verdict(),
            (status, _) => status,
        }
    }

    /// What the sandbox says of it.
    fn verdict(&self) -> Status {
        if self.name.ends_with(REJECTED) { Status::Rejected } else { Status::Approved }
    }

    /// The upstream's own word for how it stands; a draft has none.
    fn provider_status(&self, now: Millis) -> &str {
        let is_judged = self.approves_at.is_some() && self.status == Status::Pending;
        match self.provider_status.as_str() {
            _ if is_judged => self.status(now).as_str(),
            // The upstream has said nothing yet.
            live::SUBMITTING => "",
            word => word,
        }
    }

    /// It was submitted, and the upstream has not said that it has it.
    fn is_unanswered(&self) -> bool {
        !self.is_draft && self.provider_status == live::SUBMITTING
    }

    fn rejection_reason(&self, now: Millis) -> Option<&str> {
        let is_rejected = self.status(now) == Status::Rejected;
        is_rejected.then(|| self.rejection_reason.as_deref().unwrap_or("NONE"))
    }

    /// How many values fill it. The text that carries a passcode is the upstream's own, with one.
    pub(super) fn params(&self) -> usize {
        match self.category {
            Category::Authentication => 1,
            Category::Utility | Category::Marketing => rules::variables(&self.body).unwrap_or(0),
        }
    }

    /// Its buttons.
    pub(super) fn buttons(&self) -> &[Button] {
        &self.buttons
    }

    /// What is written on its quick replies.
    pub(super) fn replies(&self) -> Vec<String> {
        let replies = self.buttons.iter().filter_map(|button| match button {
            Button::QuickReply { text } => Some(text.clone()),
            Button::Url { .. } | Button::PhoneNumber { .. } => None,
        });
        replies.collect()
    }

    fn has_url_button(&self) -> bool {
        let has_url = self.buttons.iter().any(|button| matches!(button, Button::Url { .. }));
        // The button that copies a passcode is one of them, upstream.
        has_url || self.category == Category::Authentication
    }
}

/// A template to declare, checked.
#[derive(Clone, Debug)]
pub(super) struct Declared {
    name: String,
    language: String,
    category: Category,
    body: String,
    footer: Option<String>,
    buttons: Vec<Button>,
    submit: bool,
}

/// Why a template was not declared or found.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// One of the name and language is there, and no draft.
    #[error(
        "A template {name} in {language} was submitted before: choose another name or language"
    )]
    Exists {
        /// Its name.
        name: String,
        /// Its language.
        language: String,
    },
    /// The upstream has one of the name and language that was not made here.
    #[error(
        "The chat-app's business account has a template {name} in {language} already, with another \
         text: choose another name or language, or declare the text that it has"
    )]
    Differs {
        /// Its name.
        name: String,
        /// Its language.
        language: String,
    },
    /// The account has all templates that it may have.
    #[error("The account has {MOST} templates, as many as it may have: ask the operator")]
    Full,
    /// There is no upstream to judge it.
    #[error(
        "No business account of the chat-app is linked: store the template as a draft, with \
         `submit: false`, and ask the operator"
    )]
    NoCarrier,
    /// The upstream does not take it as it is.
    #[error("{0}")]
    Refused(String),
    /// The upstream does not delete it.
    #[error("The chat-app keeps the template: {0}")]
    Kept(String),
    /// The upstream does not answer.
    #[error("The chat-app does not answer. Try again later")]
    Silent,
    /// The account has asked too often.
    #[error("The account asks the chat-app about templates too often")]
    TooOften(Problem),
    /// No such template of this account.
    #[error(
        "The account has no template of this name in this language (`fr` unless `language` says \
         another): GET /v1/chatapp/templates lists them"
    )]
    Unknown,
    /// The business account has one that values alone do not fill.
    #[error(
        "The template has more than a text, a footer and buttons, such as a header, a picture or a \
         catalogue, and cannot be sent from here"
    )]
    Unfit,
    /// Storage.
    #[error(transparent)]
    Db(#[from] DbError),
    /// Storage.
    #[error(transparent)]
    Commit(#[from] CommitError),
}

/// Declares a template: stores a draft, or submits it. A draft of the name and language is
/// replaced.
async fn declare(
    app: &App,
    account: &AccountId,
    declared: &Declared,
    claim: &Claim,
) -> Result<Template, Error> {
    let mut template = begin(app, account, declared.clone());
    let upstream = Upstream::of(app, account);
    if declared.submit && app.env == Env::Live {
        let upstream = upstream.as_ref().ok_or(Error::NoCarrier)?;
        // Every business account has those; whoever took one over could delete it for everybody.
        if upstream.is_deployments(account, &template.name) {
            return Err(Error::Exists { name: template.name, language: template.language });
        }
        may_ask(app, account)?;
    }
    let mut set = WriteSet::of(account.as_str());
    claim.add_to(&mut set, &object_id(&template), None, app.now());
    add(&mut set, &template);
    match app.db.commit(set).await {
        Ok(_) => {}
        Err(CommitError::Rejected(EXISTS)) => {
            return Err(Error::Exists { name: template.name, language: template.language });
        }
        Err(CommitError::Rejected(FULL)) => return Err(Error::Full),
        Err(error) => return Err(error.into()),
    }
    if let Some(upstream) = upstream.filter(|_| declared.submit) {
        let submitted = upstream.submit(&mut template).await;
        if submitted.is_err() {
            // The upstream does not take it: it is a draft, which can be declared again.
            template.is_draft = true;
            template.provider_status = String::new();
        }
        let is_kept = live::keep(app, &template).await?;
        submitted?;
        if !is_kept {
            let Template { name, language, .. } = &template;
            return sql::template(app, account, name, language).await?.ok_or(Error::Unknown);
        }
    }
    Ok(template)
}

/// Another template of an account, or one in a draft's place.
fn add(set: &mut WriteSet, template: &Template) {
    limits::one_by_one(set, &template.account, Limited::Templates);
    sql::absent_if_full(set, template, MOST, FULL);
    sql::put(set, template, EXISTS);
}

/// The chat-app counts what all accounts ask of a business account together: one alone may not
/// use all of it up.
fn may_ask(app: &App, account: &AccountId) -> Result<(), Error> {
    let taken = app.throttle.take(Class::Templates, account.as_str());
    taken.map(drop).map_err(Error::TooOften)
}

fn begin(app: &App, account: &AccountId, declared: Declared) -> Template {
    let Declared { name, language, category, body, footer, buttons, submit } = declared;
    let now = app.now();
    let is_live = app.env == Env::Live;
    let rejection = name.ends_with(REJECTED).then(|| "INVALID_FORMAT".to_owned());
    let mut digits = [0_u8; 6];
    app.clock.fill(&mut digits);
    let number = digits.iter().fold(0_u64, |sum, byte| sum * 256 + u64::from(*byte));
    Template {
        account: account.clone(),
        name,
        language,
        category,
        body,
        footer,
        buttons,
        is_draft: !submit,
        status: Status::Pending,
        provider_status: match (submit, is_live) {
            (true, true) => live::SUBMITTING.to_owned(),
            (true, false) => "PENDING".to_owned(),
            (false, _) => String::new(),
        },
        provider_id: if submit && !is_live {
            format!("{}", 1_000_000_000 + number)
        } else {
            String::new()
        },
        rejection_reason: rejection.filter(|_| submit && !is_live),
        approves_at: (submit && !is_live).then(|| now + JUDGED_AFTER_MS),
        created_at: now,
        updated_at: now,
    }
}

/// Asks the upstream how a template stands, and keeps what it says. A draft stays one.
async fn sync(
    app: &App,
    account: &AccountId,
    name: &str,
    language: &str,
    claim: &Claim,
) -> Result<Template, Error> {
    let mut template = match sql::template(app, account, name, language).await? {
        Some(template) => template,
        None => match adopt::take_over(app, account, Named { name, language }, claim).await {
            Err(Error::Unknown) => {
                find(app, account, name, language).await?.ok_or(Error::Unknown)?
            }
            done => return done,
        },
    };
    let now = app.now();
    if app.env == Env::Live && !template.is_draft {
        let upstream = Upstream::of(app, account).ok_or(Error::NoCarrier)?;
        may_ask(app, account)?;
        upstream.follow(&mut template).await?;
    } else {
        template.provider_status = template.provider_status(now).to_owned();
        template.status = template.status(now);
    }
    let mut set = WriteSet::of(account.as_str());
    claim.add_to(&mut set, &object_id(&template), None, now);
    sql::keep(&mut set, &template, now, CHANGED);
    match app.db.commit(set).await {
        // A callback or another sync was faster: how it stands then is newer than what was asked.
        Err(CommitError::Rejected(CHANGED)) => {
            let mut set = WriteSet::of(account.as_str());
            claim.add_to(&mut set, &object_id(&template), None, now);
            app.db.commit(set).await?;
            find(app, account, name, language).await?.ok_or(Error::Unknown)
        }
        done => done.map(|_done| template).map_err(Error::from),
    }
}

/// Deletes a template in one language: where the upstream has it, there first. Messages that wait
/// to go out with it fail, and cost nothing.
async fn remove(
    app: &App,
    account: &AccountId,
    name: &str,
    language: &str,
) -> Result<Template, Error> {
    for _ in 0..TRIES {
        match remove_as_read(app, account, Named { name, language }).await {
            // The upstream has said meanwhile that it has it.
            Err(Error::Commit(CommitError::Rejected(CHANGED))) => {}
            done => return done,
        }
    }
    Err(Error::Silent)
}

async fn remove_as_read(
    app: &App,
    account: &AccountId,
    Named { name, language }: Named<'_>,
) -> Result<Template, Error> {
    let template = sql::template(app, account, name, language).await?.ok_or(Error::Unknown)?;
    if app.env == Env::Live && !template.is_draft {
        // Without a way there, nothing can be sent with it either.
        let upstream = Upstream::of(app, account);
        if let Some(upstream) = upstream.filter(|it| !it.is_deployments(account, name)) {
            may_ask(app, account)?;
            upstream.delete(&template).await?;
        }
    }
    let mut set = WriteSet::of(account.as_str());
    sql::remove(&mut set, &template, CHANGED);
    app.db.commit(set).await?;
    Ok(template)
}

/// What an `Idempotency-Key` stands for.
fn object_id(template: &Template) -> String {
    format!("{} {}", template.language, template.name)
}

/// What a request with the same `Idempotency-Key` declared, as it stands now.
async fn seen(app: &App, account: &AccountId, object_id: &str) -> Result<Template, Error> {
    let (language, name) = object_id.split_once(' ').ok_or(Error::Unknown)?;
    sql::template(app, account, name, language).await?.ok_or(Error::Unknown)
}

/// A template of an account.
#[derive(Clone, Copy)]
pub(super) struct Named<'a> {
    pub(super) name: &'a str,
    pub(super) language: &'a str,
}

/// The account sends from another business account from now on: no template is sent until that one
/// has approved it.
pub(super) fn begin_anew(app: &App, set: &mut WriteSet, account: &AccountId) {
    sql::begin_anew(set, account, app.now());
}

/// A message of a template was refused for it: no other one is sent until the upstream says how the
/// template stands, which is asked within minutes ([`live::resubmit`]).
pub(super) fn doubt(set: &mut WriteSet, account: &AccountId, of: Named<'_>, code: &str) {
    let why = format!("The provider refused a message of it: {code}");
    sql::doubt(set, account, of, &why);
}

/// The template of a name in a language, else in the language without its region (`fr_FR`: `fr`).
pub(super) async fn find(
    app: &App,
    account: &AccountId,
    name: &str,
    language: &str,
) -> Result<Option<Template>, DbError> {
    let exact = sql::template(app, account, name, language).await?;
    match language.split_once('_') {
        Some((base, _)) if exact.is_none() => sql::template(app, account, name, base).await,
        _ => Ok(exact),
    }
}
