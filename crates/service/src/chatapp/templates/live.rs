//! Templates on live: submitted to the business account that the template's account is linked to,
//! or to the deployment's. A row is written before the upstream is asked, so that a template that
//! it has is always known here; what it says of it comes by its answer, by a callback, by a sync,
//! and every six hours. What it did not answer is submitted again every five minutes.
//!
//! On the deployment's business account names of several accounts meet, so they have the account's
//! own ending there; nobody sees it but the upstream.

use std::collections::BTreeSet;
use std::sync::Arc;

use ::store::{CommitError, WriteSet};
use clock::{HOUR, MINUTE, Millis};
use cloud_api::answer::Class;
use cloud_api::business::{self, Declaration, Declared as Answer, Deleted, Lifetime, Listed, Page};
use cloud_api::callback::Template as News;
use cloud_api::template::{self as rules, Category};

use super::told::{hear_of, is_unfit, take_over, take_over_parts};
use super::{CHANGED, Error, MOST, Named, Status, Template, own, store as sql};
use crate::app::{App, Env};
use crate::carriers::CloudApi;
use crate::carriers::cloud_api::{Number, Wanted};
use crate::chatapp::CLOCKS_DIFFER_MS;
use crate::chores::Turn;
use crate::kit::id::AccountId;

/// How often everything is compared, milliseconds.
pub const RECONCILE_MS: i64 = 6 * HOUR;
/// How often what the upstream may not have yet is submitted again, milliseconds.
pub const RESUBMIT_MS: i64 = 5 * MINUTE;
/// The row of a template that the upstream may not have yet.
pub(super) const SUBMITTING: &str = "SUBMITTING";
/// Within what time of its first news a template has its id here, milliseconds: a submission that
/// was not answered is followed up every five minutes.
const SUBMITTED_WITHIN_MS: i64 = 2 * RESUBMIT_MS;
/// Pages of a business account that are read at a time: more than it may have templates.
const MOST_PAGES: usize = 100;
/// Waiting templates that are read at a time: more than an account may have.
const WAITING_PAGE: i64 = 4 * MOST;
/// How often a callback is taken in where something else changes the template meanwhile.
const TRIES: usize = 4;
/// Characters of an account's id that end its names on the deployment's business account.
const ENDING: usize = 12;
/// Longest name of a template here, characters: with its ending the upstream still takes it.
pub(super) const LONGEST_NAME: usize = rules::LONGEST_NAME - "_".len() - ENDING;

/// The way to a template's business account.
pub(super) struct Upstream<'a> {
    app: &'a App,
    cloud: &'a CloudApi,
    number: Arc<Number>,
    is_shared: bool,
}

/// Whether a business account says anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// It does, if only that it does not take this now.
    Answers,
    /// It does not.
    Silent,
}

impl<'a> Upstream<'a> {
    /// The one of an account; `None` = it has none, or none that is whole.
    pub(super) fn of(app: &'a App, account: &AccountId) -> Option<Self> {
        let cloud = app.carriers.cloud()?;
        let number = cloud.numbers().of(account.as_str())?;
        let is_shared = !cloud.numbers().linked().contains_key(account.as_str());
        let upstream = Self { app, cloud, number, is_shared };
        (!upstream.number.waba_id.is_empty()).then_some(upstream)
    }

    /// Whether it is the account's own: not the deployment's, on which names of several meet.
    pub(super) fn is_own(&self) -> bool {
        let shared = self.cloud.numbers().shared();
        !self.is_shared && shared.is_none_or(|shared| shared.waba_id != self.number.waba_id)
    }

    /// Which of the account's links it is.
    pub(super) fn revision(&self) -> i64 {
        self.number.revision
    }

    /// The template of a name there, in a language, else in the language without its region.
    ///
    /// # Errors
    /// [`Error::Silent`] where it does not say.
    pub(super) async fn listed(&self, of: Named<'_>) -> Result<Option<Listed>, Error> {
        if let Some(found) = self.named(of, true).await? {
            return Ok(Some(found));
        }
        let Some((base, _)) = of.language.split_once('_') else { return Ok(None) };
        self.named(Named { language: base, ..of }, true).await
    }

    /// What is there under a name, in one language: of all of them, an answer may be too long. With
    /// what it is made of, where that is asked.
    async fn named(&self, of: Named<'_>, has_parts: bool) -> Result<Option<Listed>, Error> {
        let (name, language) = (Some(of.name), Some(of.language));
        let wanted = Wanted { name, language, has_parts, ..Wanted::default() };
        let page = self.cloud.list(&self.number, wanted).await.ok_or(Error::Silent)?;
        let is_it = |it: &Listed| it.name == of.name && it.language == of.language;
        Ok(page.templates.into_iter().find(is_it))
    }

    /// Whether a template of an account would be, there, one of the deployment's own.
    pub(super) fn is_deployments(&self, account: &AccountId, name: &str) -> bool {
        own::is_one(self.app, &self.name(account, name))
    }

    /// What a template is called there.
    fn name(&self, account: &AccountId, name: &str) -> String {
        if self.is_shared { shared_name(account, name) } else { name.to_owned() }
    }

    /// Submits a template, and changes it to how it stands then. One that the upstream cannot take
    /// now waits: a sync submits it again, and so does [`resubmit`].
    ///
    /// # Errors
    /// [`Error::Refused`] where it is not what the upstream takes, [`Error::Differs`] where it has
    /// another of this name and language.
    pub(super) async fn submit(&self, template: &mut Template) -> Result<Reach, Error> {
        let name = self.name(&template.account, &template.name);
        let validity_s = self.app.config.otp.validity_s;
        let body = business::declare(&Declaration {
            name: &name,
            language: &template.language,
            category: template.category,
            body: &template.body,
            footer: template.footer.as_deref(),
            buttons: &template.buttons,
            // No SMS follows: it is of use for as long as its code is.
            lifetime: Lifetime::new(validity_s, validity_s),
        });
        match self.cloud.declare(&self.number, &body).await {
            Answer::Taken(listed) => {
                take_over(template, &listed);
                Ok(Reach::Answers)
            }
            // An earlier try whose answer was lost, or somebody else's.
            Answer::Exists => match self.sync(template).await {
                Err(Error::Silent) => Ok(Reach::Silent),
                done => done.map(|_found| Reach::Answers),
            },
            Answer::Refused { class: Class::Request | Class::Params, detail, .. } => {
                Err(Error::Refused(detail))
            }
            Answer::Refused { .. } => Ok(Reach::Answers),
            Answer::Unclear => Ok(Reach::Silent),
        }
    }

    /// Asks how a template stands; one whose submission was lost is submitted again, and one that
    /// somebody deleted there can no longer be sent.
    pub(super) async fn follow(&self, template: &mut Template) -> Result<Reach, Error> {
        match self.sync(template).await? {
            true => Ok(Reach::Answers),
            false if template.provider_status == SUBMITTING => self.submit(template).await,
            false => {
                hear_of(template, "DELETED", None);
                Ok(Reach::Answers)
            }
        }
    }

    /// Deletes a template. One that the upstream does not have is gone already.
    ///
    /// # Errors
    /// [`Error::Kept`] where the upstream keeps it, [`Error::Silent`] where it does not say.
    pub(super) async fn delete(&self, template: &Template) -> Result<(), Error> {
        let mut template = template.clone();
        // It may have one whose answer to the submission was lost.
        if template.provider_id.is_empty() {
            match self.sync(&mut template).await {
                Ok(true) => {}
                Ok(false) | Err(Error::Differs { .. } | Error::Unfit) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        let name = self.name(&template.account, &template.name);
        match self.cloud.delete(&self.number, &template.provider_id, &name).await {
            Deleted::Gone | Deleted::Missing => Ok(()),
            Deleted::Refused { detail } => Err(Error::Kept(detail)),
            Deleted::Unclear => Err(Error::Silent),
        }
    }

    /// Asks how a template stands, and changes it to that; `false` = the upstream has none.
    ///
    /// # Errors
    /// [`Error::Differs`] where the upstream has one that was not made here and says something
    /// else: what is sent would not be what the account declared. [`Error::Unfit`] where its owner
    /// has made something of it that values alone do not fill.
    async fn sync(&self, template: &mut Template) -> Result<bool, Error> {
        let name = self.name(&template.account, &template.name);
        let is_unknown = template.provider_id.is_empty();
        let of = Named { name: &name, language: &template.language };
        let has_own_text = template.category != Category::Authentication;
        // Whoever owns the business account may have edited it there.
        let may_differ = has_own_text && self.is_own();
        let found = self.named(of, is_unknown || may_differ).await?;
        let Some(listed) = found else { return Ok(false) };
        let is_deployments = own::is_one(self.app, &name);
        if is_unknown && (is_deployments || (has_own_text && !listed.says(&template.body))) {
            let (name, language) = (template.name.clone(), template.language.clone());
            return Err(Error::Differs { name, language });
        }
        let is_fit = !may_differ || listed.is_gone() || take_over_parts(template, &listed);
        if is_unknown && !is_fit {
            return Err(Error::Unfit);
        }
        take_over(template, &listed);
        if !is_fit {
            template.status = Status::Rejected;
            template.rejection_reason = Some(Error::Unfit.to_string());
        } else if is_unfit(template) {
            // It is fit again.
            template.rejection_reason = None;
            take_over(template, &listed);
        }
        Ok(true)
    }
}

/// What a template of an account is called where it is sent from.
pub(in crate::chatapp) fn upstream_name(app: &App, account: &AccountId, name: &str) -> String {
    Upstream::of(app, account).map_or_else(|| name.to_owned(), |it| it.name(account, name))
}

/// A name as the deployment's business account has it.
fn shared_name(account: &AccountId, name: &str) -> String {
    let id = account.as_str();
    let ending = id.get(id.len().saturating_sub(ENDING)..).unwrap_or(id);
    format!("{name}_{ending}")
}

/// Takes in what a callback tells of a template. One that the upstream knows by no id of ours is
/// none of ours; what is older than what is known changes nothing.
///
/// # Errors
/// When it cannot be kept.
pub(in crate::chatapp) async fn hear(app: &App, news: &News) -> Result<(), Error> {
    own::hear(app, news);
    for _ in 0..TRIES {
        if take_in(app, news).await? {
            return Ok(());
        }
    }
    // The upstream says it again.
    Err(CommitError::Overloaded.into())
}

/// Keeps what a callback tells; `false` = not of all, since one changed meanwhile.
async fn take_in(app: &App, news: &News) -> Result<bool, Error> {
    let mut is_kept = true;
    let known = sql::by_provider_id(app, &news.id).await?;
    if known.is_empty() && may_be_submitted(app, news).await? {
        return Err(Error::Silent);
    }
    for mut template in known {
        let upstream = Upstream::of(app, &template.account);
        let is_old = Millis(news.at_ms) + CLOCKS_DIFFER_MS < template.updated_at;
        if !is_old && upstream.is_some_and(|upstream| upstream.number.waba_id == news.waba_id) {
            hear_of(&mut template, &news.event.to_ascii_uppercase(), news.reason.clone());
            template.category = news.category.unwrap_or(template.category);
            // As old as it is there: what comes late, in order, is all taken in.
            let at = Millis(news.at_ms).min(app.now()).max(template.updated_at + 1);
            is_kept &= keep_as_of(app, &template, at).await?;
        }
    }
    Ok(is_kept)
}

/// Whether these may be news of a template whose id the upstream is just telling us.
async fn may_be_submitted(app: &App, news: &News) -> Result<bool, Error> {
    if Millis(news.at_ms) + SUBMITTED_WITHIN_MS < app.now() {
        return Ok(false);
    }
    let is_it = |template: &Template| {
        template.language == news.language
            && Upstream::of(app, &template.account).is_some_and(|upstream| {
                upstream.number.waba_id == news.waba_id
                    && upstream.name(&template.account, &template.name) == news.name
            })
    };
    Ok(sql::waiting(app, "", WAITING_PAGE).await?.iter().any(is_it))
}

/// Keeps how a template stands; `false` = it changed since it was read, and stays as it is: what
/// was asked before a callback came would undo what the callback said.
pub(super) async fn keep(app: &App, template: &Template) -> Result<bool, CommitError> {
    keep_as_of(app, template, app.now()).await
}

async fn keep_as_of(app: &App, template: &Template, at: Millis) -> Result<bool, CommitError> {
    let mut set = WriteSet::of(template.account.as_str());
    sql::keep(&mut set, template, at, CHANGED);
    match app.db.commit(set).await {
        Err(CommitError::Rejected(CHANGED)) => Ok(false),
        done => done.map(|_done| true),
    }
}

/// Compares all templates with what their business accounts say, and makes those of the deployment
/// that are missing. Answers how many it looked at.
///
/// # Errors
/// When the database cannot be read or written.
pub async fn reconcile(app: &App, turn: &Turn) -> Result<u64, Error> {
    // Chores run for the process; only live has an upstream.
    let Some(cloud) = app.carriers.cloud().filter(|_| app.env == Env::Live) else { return Ok(0) };
    let mut count = 0;
    for number in &own::business_accounts(cloud) {
        let asked_at = turn.now();
        let Some(listed) = read_all(cloud, number).await else {
            tracing::warn!(waba_id = number.waba_id, "its templates could not be read");
            continue;
        };
        own::look(app, cloud, number).await;
        for found in listed.iter().filter(|found| !found.id.is_empty()) {
            for mut template in sql::by_provider_id(app, &found.id).await? {
                let upstream = Upstream::of(app, &template.account);
                // What changed since the upstream was asked is newer than its answer. News are as
                // old as its clock says.
                let is_newer = template.updated_at + CLOCKS_DIFFER_MS > asked_at;
                if !is_newer && upstream.is_some_and(|it| it.number.waba_id == number.waba_id) {
                    take_over(&mut template, found);
                    keep(app, &template).await?;
                    count += 1;
                }
            }
        }
        if !turn.rest().await {
            break;
        }
    }
    Ok(count)
}

/// Submits what the upstream may not have yet, unless it has it, and asks how those stand of which
/// it refused a message. A business account that says nothing is asked once, whatever waits for it.
/// Answers how many it looked at.
///
/// # Errors
/// When the database cannot be read or written.
pub async fn resubmit(app: &App, turn: &Turn) -> Result<u64, Error> {
    let mut silent = BTreeSet::new();
    let waiting = ask_about(app, turn, Open::Waiting, &mut silent).await?;
    Ok(waiting + ask_about(app, turn, Open::Doubted, &mut silent).await?)
}

/// What the upstream is asked about.
#[derive(Clone, Copy)]
enum Open {
    /// What it may not have.
    Waiting,
    /// What it refused a message of.
    Doubted,
}

async fn ask_about(
    app: &App,
    turn: &Turn,
    open: Open,
    silent: &mut BTreeSet<String>,
) -> Result<u64, Error> {
    let mut count = 0;
    let mut after = String::new();
    loop {
        let mut page = match open {
            Open::Waiting => sql::waiting(app, &after, WAITING_PAGE).await?,
            Open::Doubted => sql::doubted(app, &after, WAITING_PAGE).await?,
        };
        let is_full = i64::try_from(page.len()).is_ok_and(|found| found >= WAITING_PAGE);
        // The last account of a full page may have more: it begins the next.
        let cut = page.last().filter(|_| is_full).map(|template| template.account.clone());
        page.retain(|template| Some(&template.account) != cut.as_ref());
        for mut template in page {
            template.account.as_str().clone_into(&mut after);
            // What is passed over costs nothing to rest from.
            if submit_again(app, &mut template, silent).await? {
                count += 1;
                if !turn.rest().await {
                    return Ok(count);
                }
            }
        }
        if !is_full {
            return Ok(count);
        }
    }
}

/// Submits one, unless its business account is among the `silent`; answers whether it looked.
async fn submit_again(
    app: &App,
    template: &mut Template,
    silent: &mut BTreeSet<String>,
) -> Result<bool, Error> {
    let Some(upstream) = Upstream::of(app, &template.account) else { return Ok(false) };
    let waba_id = &upstream.number.waba_id;
    if silent.contains(waba_id) {
        return Ok(false);
    }
    match upstream.follow(template).await {
        Ok(reach) => {
            // One that is refused for now may be refused for ever, and keeps no other waiting.
            if reach == Reach::Silent {
                silent.insert(waba_id.clone());
            }
            keep(app, template).await?;
        }
        Err(Error::Silent) => {
            silent.insert(waba_id.clone());
        }
        Err(error @ (Error::Refused(_) | Error::Differs { .. } | Error::Unfit)) => {
            hear_of(template, "REJECTED", Some(error.to_string()));
            keep(app, template).await?;
        }
        Err(error) => return Err(error),
    }
    Ok(true)
}

/// All templates of a business account; `None` = it does not say.
async fn read_all(cloud: &CloudApi, number: &Number) -> Option<Vec<Listed>> {
    let mut all = Vec::new();
    let mut after: Option<String> = None;
    for _ in 0..MOST_PAGES {
        let wanted = Wanted { after: after.as_deref(), ..Wanted::default() };
        let Page { templates, after: next } = cloud.list(number, wanted).await?;
        all.extend(templates);
        if next.is_none() {
            break;
        }
        // A cursor that leads to itself would never end.
        if next == after {
            tracing::warn!(
                waba_id = number.waba_id,
                "the cursor of a page of templates leads to the same page; reading stopped"
            );
            break;
        }
        after = next;
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::{LONGEST_NAME, rules, shared_name};
    use crate::kit::id::AccountId;

    #[test]
    fn names_on_the_shared_business_account_are_the_accounts_own() {
        let one = AccountId::stored("acc_01h455vb4pex5vsknk084sn02q".to_owned());
        let name = shared_name(&one, "order");
        assert_eq!(name, "order_sknk084sn02q");
        assert!(rules::is_name(&name));
        let longest = "a".repeat(LONGEST_NAME);
        assert!(rules::is_name(&shared_name(&one, &longest)));
        assert!(!rules::is_name(&shared_name(&one, &format!("{longest}a"))));
    }
}
