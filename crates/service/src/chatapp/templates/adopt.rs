//! A template that an account's own business account has and that was not declared here: somebody
//! made it there. A sync that names it takes it over as it stands, and it is listed and sent from
//! then on. Only by name: what a business had there before, and wants nothing of here, stays out of
//! what an account may have, and out of what goes with it to another business account.

use ::store::{CommitError, WriteSet};
use cloud_api::business::Listed;
use cloud_api::template as rules;

use super::live::{LONGEST_NAME, Upstream};
use super::store as sql;
use super::told;
use super::{CHANGED, EXISTS, Error, FULL, Named, Status, Template, may_ask, object_id};
use crate::access::idempotency::Claim;
use crate::app::App;
use crate::kit::id::AccountId;

/// Takes over the template that a sync names.
///
/// # Errors
/// [`Error::Unknown`] where there is none, [`Error::Unfit`] where values alone do not fill it.
pub(super) async fn take_over(
    app: &App,
    account: &AccountId,
    of: Named<'_>,
    claim: &Claim,
) -> Result<Template, Error> {
    let upstream = Upstream::of(app, account).filter(Upstream::is_own).ok_or(Error::Unknown)?;
    if !rules::is_name(of.name) || upstream.is_deployments(account, of.name) {
        return Err(Error::Unknown);
    }
    may_ask(app, account)?;
    let listed = upstream.listed(of).await?.ok_or(Error::Unknown)?;
    if listed.is_gone() {
        return Err(Error::Unknown);
    }
    // What stands in for the language may be here already: then that one is synced.
    let stands_in = listed.language != of.language;
    if stands_in && super::find(app, account, of.name, of.language).await?.is_some() {
        return Err(Error::Unknown);
    }
    let template = template(app, account, &listed).ok_or(Error::Unfit)?;
    let mut set = WriteSet::of(account.as_str());
    claim.add_to(&mut set, &object_id(&template), None, app.now());
    // Another business account, on whichever node it was linked, has nothing of this one.
    sql::as_linked(&mut set, account, upstream.revision(), CHANGED);
    super::add(&mut set, &template);
    match app.db.commit(set).await {
        Ok(_) => Ok(template),
        // Somebody was faster.
        Err(CommitError::Rejected(EXISTS)) => {
            super::find(app, account, of.name, of.language).await?.ok_or(Error::Unknown)
        }
        Err(CommitError::Rejected(FULL)) => Err(Error::Full),
        Err(CommitError::Rejected(CHANGED)) => Err(Error::Silent),
        Err(error) => Err(error.into()),
    }
}

/// What is listed, as a template of an account; `None` = it cannot be one.
fn template(app: &App, account: &AccountId, listed: &Listed) -> Option<Template> {
    let Listed { id, name, language, category, contents, .. } = listed;
    let has_name = name.len() <= LONGEST_NAME && !language.is_empty();
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
    told::take_over(&mut template, listed);
    Some(template)
}
