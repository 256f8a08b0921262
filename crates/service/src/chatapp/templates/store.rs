//! The SQL of templates.

use clock::Millis;
use cloud_api::template::Category;
use store::{Error, FromRow, Reject, Row, Sql, WriteSet, args};

use super::{Named, Template};
use crate::app::App;
use crate::kit::id::AccountId;

const BY_NAME: Sql = Sql("SELECT account_id, name, language, category, body, footer, buttons, \
     is_draft, status, provider_status, provider_template_id, rejection_reason, approves_at, \
     created_at, updated_at FROM chatapp_templates \
     WHERE account_id = $1 AND name = $2 AND language = $3");
const ALL: Sql = Sql("SELECT account_id, name, language, category, body, footer, buttons, \
     is_draft, status, provider_status, provider_template_id, rejection_reason, approves_at, \
     created_at, updated_at FROM chatapp_templates \
     WHERE account_id = $1 ORDER BY name, language LIMIT $2");
/// Declares a template, or takes a draft's place.
const PUT: Sql = Sql("INSERT INTO chatapp_templates (account_id, name, language, category, body, \
     footer, buttons, is_draft, status, provider_status, provider_template_id, rejection_reason, \
     approves_at, created_at, updated_at) \
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $14) \
     ON CONFLICT (account_id, name, language) DO UPDATE SET category = excluded.category, \
     body = excluded.body, footer = excluded.footer, buttons = excluded.buttons, \
     is_draft = excluded.is_draft, status = excluded.status, \
     provider_status = excluded.provider_status, \
     provider_template_id = excluded.provider_template_id, \
     rejection_reason = excluded.rejection_reason, approves_at = excluded.approves_at, \
     updated_at = excluded.updated_at WHERE chatapp_templates.is_draft = 1");
/// Keeps how a template stands, unless it changed since it was read.
const KEEP: Sql = Sql("UPDATE chatapp_templates SET category = $1, body = $2, footer = $3, \
     buttons = $4, is_draft = $5, status = $6, provider_status = $7, provider_template_id = $8, \
     rejection_reason = $9, updated_at = $10 \
     WHERE account_id = $11 AND name = $12 AND language = $13 AND updated_at = $14");
/// The upstream took no message of a template: it is taken for rejected until the upstream says how
/// it stands. That is no word of the upstream's, which any word that it says outweighs.
const DOUBT: Sql = Sql("UPDATE chatapp_templates SET status = 'REJECTED', \
     rejection_reason = $1 WHERE account_id = $2 AND name = $3 AND language = $4 \
     AND status = 'APPROVED'");
/// What is submitted is to be submitted to another business account.
const BEGIN_ANEW: Sql = Sql("UPDATE chatapp_templates SET status = 'PENDING', \
     provider_status = 'SUBMITTING', provider_template_id = '', rejection_reason = NULL, \
     updated_at = $1 WHERE account_id = $2 AND is_draft = 0");
/// Holds the account's link as it is until the set is written.
const AS_LINKED: Sql =
    Sql("UPDATE chatapp_links SET revision = revision WHERE account_id = $1 AND revision = $2");
/// One that was declared anew meanwhile stays.
const REMOVE: Sql = Sql("DELETE FROM chatapp_templates WHERE account_id = $1 AND name = $2 \
     AND language = $3 AND provider_template_id = $4");
/// Whose template the upstream knows by this id, in an environment.
const BY_PROVIDER_ID: Sql = Sql("SELECT t.account_id, t.name, t.language, t.category, t.body, \
     t.footer, t.buttons, t.is_draft, t.status, t.provider_status, t.provider_template_id, \
     t.rejection_reason, t.approves_at, t.created_at, t.updated_at FROM chatapp_templates t \
     WHERE t.provider_template_id = $1 AND EXISTS (SELECT 1 FROM accounts a \
       WHERE a.account_id = t.account_id AND a.env = $2) LIMIT 1000");
/// Those that the upstream may not have yet.
const WAITING: Sql = Sql("SELECT account_id, name, language, category, body, footer, buttons, \
     is_draft, status, provider_status, provider_template_id, rejection_reason, approves_at, \
     created_at, updated_at FROM chatapp_templates \
     WHERE provider_status = 'SUBMITTING' AND account_id > $1 ORDER BY account_id LIMIT $2");
/// Those that are taken for rejected because of a message, until the upstream says how they stand.
const DOUBTED: Sql = Sql("SELECT account_id, name, language, category, body, footer, buttons, \
     is_draft, status, provider_status, provider_template_id, rejection_reason, approves_at, \
     created_at, updated_at FROM chatapp_templates \
     WHERE status = 'REJECTED' AND provider_status = 'APPROVED' AND account_id > $1 \
     ORDER BY account_id LIMIT $2");
/// The template that stands for all that an account may have, if there are so many and the one that
/// is declared is not among them.
const LAST_OF_ALL: Sql = Sql("SELECT name FROM chatapp_templates WHERE account_id = $1 \
     AND NOT EXISTS (SELECT name FROM chatapp_templates \
       WHERE account_id = $1 AND name = $2 AND language = $3) \
     ORDER BY name, language LIMIT 1 OFFSET $4");

impl FromRow for Template {
    fn from_row(mut row: Row) -> Result<Self, Error> {
        let category: String = row.take(3)?;
        let buttons: String = row.take(6)?;
        Ok(Self {
            account: row.take(0)?,
            name: row.take(1)?,
            language: row.take(2)?,
            category: Category::of(&category).ok_or(Error::Corrupt { column: 3 })?,
            body: row.take(4)?,
            footer: row.take(5)?,
            buttons: serde_json::from_str(&buttons).map_err(|_| Error::Corrupt { column: 6 })?,
            is_draft: row.take(7)?,
            status: row.take(8)?,
            provider_status: row.take(9)?,
            provider_id: row.take(10)?,
            rejection_reason: row.take(11)?,
            approves_at: row.take(12)?,
            created_at: row.take(13)?,
            updated_at: row.take(14)?,
        })
    }
}

pub(super) async fn template(
    app: &App,
    account: &AccountId,
    name: &str,
    language: &str,
) -> Result<Option<Template>, Error> {
    app.db.row(BY_NAME, args![account, name, language]).await
}

/// An account's templates, by name and language.
pub(super) async fn all(
    app: &App,
    account: &AccountId,
    limit: i64,
) -> Result<Vec<Template>, Error> {
    app.db.rows(ALL, args![account, limit]).await
}

/// Declares a template; refused where one is there that is no draft.
pub(super) fn put(set: &mut WriteSet, template: &Template, exists: Reject) {
    let args = args![
        &template.account,
        &template.name,
        &template.language,
        template.category.as_str(),
        &template.body,
        template.footer.as_deref(),
        stored_buttons(template),
        template.is_draft,
        template.status.as_str(),
        &template.provider_status,
        &template.provider_id,
        template.rejection_reason.as_deref(),
        template.approves_at,
        template.created_at
    ];
    set.guard(PUT, args, exists);
}

fn stored_buttons(template: &Template) -> String {
    serde_json::to_string(&template.buttons).unwrap_or_else(|_| "[]".to_owned())
}

/// Refuses the set where the account is linked otherwise by now.
pub(super) fn as_linked(set: &mut WriteSet, account: &AccountId, revision: i64, changed: Reject) {
    set.guard(AS_LINKED, args![account, revision], changed);
}

/// Keeps how a template stands; refused where it changed since it was read.
pub(super) fn keep(set: &mut WriteSet, template: &Template, now: Millis, changed: Reject) {
    let args = args![
        template.category.as_str(),
        &template.body,
        template.footer.as_deref(),
        stored_buttons(template),
        template.is_draft,
        template.status.as_str(),
        &template.provider_status,
        &template.provider_id,
        template.rejection_reason.as_deref(),
        now,
        &template.account,
        &template.name,
        &template.language,
        template.updated_at
    ];
    set.guard(KEEP, args, changed);
}

/// Has the templates of an account submitted again.
pub(super) fn begin_anew(set: &mut WriteSet, account: &AccountId, now: Millis) {
    set.push(BEGIN_ANEW, args![now, account]);
}

/// Takes an approved template for rejected until the upstream says how it stands.
pub(super) fn doubt(set: &mut WriteSet, account: &AccountId, of: Named<'_>, why: &str) {
    set.push(DOUBT, args![why, account, of.name, of.language]);
}

/// Deletes a template; refused where the upstream has it under another id by now, or it is gone.
pub(super) fn remove(set: &mut WriteSet, template: &Template, changed: Reject) {
    let Template { account, name, language, provider_id, .. } = template;
    set.guard(REMOVE, args![account, name, language, provider_id], changed);
}

/// The templates of this environment that the upstream knows by an id.
pub(super) async fn by_provider_id(app: &App, id: &str) -> Result<Vec<Template>, Error> {
    app.db.rows(BY_PROVIDER_ID, args![id, app.env.as_str()]).await
}

/// The templates of the accounts after one that the upstream may not have yet, up to `limit`, by
/// account; only live ones ever wait.
pub(super) async fn waiting(app: &App, after: &str, limit: i64) -> Result<Vec<Template>, Error> {
    app.db.rows(WAITING, args![after, limit]).await
}

/// The same of those that are doubted.
pub(super) async fn doubted(app: &App, after: &str, limit: i64) -> Result<Vec<Template>, Error> {
    app.db.rows(DOUBTED, args![after, limit]).await
}

/// Refuses the set where the account has `most` templates, and this is another.
pub(super) fn absent_if_full(set: &mut WriteSet, template: &Template, most: i64, full: Reject) {
    set.absent(
        LAST_OF_ALL,
        args![&template.account, &template.name, &template.language, most - 1],
        full,
    );
}
