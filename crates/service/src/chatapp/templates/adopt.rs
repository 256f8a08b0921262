//! Templates that an account's own business account has and that were not declared here: somebody
//! made them there, before the account was linked or since. They are taken over as they stand, so
//! that they are listed and can be sent: at a sync that names one, when the account is linked, and
//! every six hours. One that needs more than values (a picture above it, a catalogue) is left
//! alone, and so are the deployment's own.

use std::collections::BTreeSet;

use ::store::{CommitError, WriteSet};
use cloud_api::business::Listed;
use cloud_api::template as rules;

use super::live::{self, LONGEST_NAME, Upstream};
use super::{EXISTS, Error, FULL, MOST, Named, Status, Template, may_ask, object_id};
use super::{own, store as sql};
use crate::access::idempotency::Claim;
use crate::access::limits::{self, Limited};
use crate::app::App;
use crate::carriers::cloud_api::Number;
use crate::kit::id::AccountId;

/// Takes over the template that a sync names.
///
/// # Errors
/// [`Error::Unknown`] where there is none, [`Error::Unfit`] where values alone do not fill it.
pub(super) async fn one(
    app: &App,
    account: &AccountId,
    of: Named<'_>,
    claim: &Claim,
) -> Result<Template, Error> {
    let upstream = Upstream::of(app, account).filter(Upstream::is_own).ok_or(Error::Unknown)?;
    if !rules::is_name(of.name) || own::is_one(app, of.name) {
        return Err(Error::Unknown);
    }
    may_ask(app, account)?;
    let listed = upstream.listed(of).await?.ok_or(Error::Unknown)?;
    let template = template(app, account, &listed).ok_or(Error::Unfit)?;
    let mut set = WriteSet::of(account.as_str());
    claim.add_to(&mut set, &object_id(&template), None, app.now());
    match put(app, set, &template).await {
        Ok(()) => Ok(template),
        // Somebody was faster.
        Err(Error::Exists { .. }) => {
            super::find(app, account, of.name, of.language).await?.ok_or(Error::Unknown)
        }
        Err(error) => Err(error),
    }
}

/// Takes over what a business account lists and the accounts that are linked to it do not have.
///
/// # Errors
/// When the database cannot be read or written.
pub(super) async fn all(app: &App, number: &Number, listed: &[Listed]) -> Result<(), Error> {
    let Some(cloud) = app.carriers.cloud() else { return Ok(()) };
    for (account, own) in cloud.numbers().linked().iter() {
        if own.waba_id == number.waba_id {
            all_of(app, &AccountId::stored(account.clone()), listed).await?;
        }
    }
    Ok(())
}

async fn all_of(app: &App, account: &AccountId, listed: &[Listed]) -> Result<(), Error> {
    let have = sql::all(app, account, MOST).await?;
    let have: BTreeSet<(&str, &str)> =
        have.iter().map(|it| (it.name.as_str(), it.language.as_str())).collect();
    for found in listed {
        let is_known = have.contains(&(found.name.as_str(), found.language.as_str()));
        if is_known || own::is_one(app, &found.name) {
            continue;
        }
        let Some(template) = template(app, account, found) else { continue };
        match put(app, WriteSet::of(account.as_str()), &template).await {
            Ok(()) | Err(Error::Exists { .. }) => {}
            Err(Error::Full) => {
                let account = account.as_str();
                tracing::warn!(account, "it has more templates than it may have here");
                return Ok(());
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The account was linked: what its business account has is there as soon as that says so. What
/// fails now comes with the look of every six hours.
pub(in crate::chatapp) async fn begin(app: App, account: AccountId) {
    let Some(upstream) = Upstream::of(&app, &account).filter(Upstream::is_own) else { return };
    let Some(listed) = upstream.all().await else {
        let account = account.as_str();
        return tracing::warn!(account, "the templates of its business account were not read");
    };
    if let Err(error) = all_of(&app, &account, &listed).await {
        let account = account.as_str();
        tracing::warn!(%error, account, "the templates of its business account are not kept");
    }
}

async fn put(app: &App, mut set: WriteSet, template: &Template) -> Result<(), Error> {
    limits::one_by_one(&mut set, &template.account, Limited::Templates);
    sql::absent_if_full(&mut set, template, MOST, FULL);
    sql::put(&mut set, template, EXISTS);
    match app.db.commit(set).await {
        Ok(_) => Ok(()),
        Err(CommitError::Rejected(EXISTS)) => {
            let Template { name, language, .. } = template.clone();
            Err(Error::Exists { name, language })
        }
        Err(CommitError::Rejected(FULL)) => Err(Error::Full),
        Err(error) => Err(error.into()),
    }
}

/// What is listed, as a template of an account; `None` = it cannot be one.
fn template(app: &App, account: &AccountId, listed: &Listed) -> Option<Template> {
    let Listed { id, name, language, category, contents, .. } = listed;
    let has_name = rules::is_name(name) && name.len() <= LONGEST_NAME && !language.is_empty();
    if !has_name || id.is_empty() || !contents.is_fillable {
        return None;
    }
    let now = app.now();
    let mut template = Template {
        account: account.clone(),
        name: name.clone(),
        language: language.clone(),
        category: (*category)?,
        body: contents.body.clone().unwrap_or_default(),
        footer: contents.footer.clone(),
        buttons: contents.buttons.clone(),
        is_draft: false,
        status: Status::Pending,
        provider_status: String::new(),
        provider_id: String::new(),
        rejection_reason: None,
        approves_at: None,
        created_at: now,
        updated_at: now,
    };
    live::take_over(&mut template, listed);
    Some(template)
}
