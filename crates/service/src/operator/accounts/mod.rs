//! Accounts as staff create, view and change them.

pub mod api;

use ::store::{CommitError, Error, Reject, WriteSet, args};
use clock::Millis;
use serde_json::{Map, Value, json};

use super::store;
use crate::access::audit::{By, Entry, newest_of_account, record_after};
use crate::access::caller::forget_account;
use crate::access::idempotency::Claim;
use crate::access::{self, NewUser, Newcomer, Terms};
use crate::app::{App, BillingMode, Env, Settings, Standing};
use crate::credits;
use crate::kit::body::{Fields, whole};
use crate::kit::id::{AccountId, UserId};
use crate::kit::json::escaped;
use crate::kit::msisdn;
use crate::kit::page::{Page, Since};
use crate::kit::secret::Secret;
use crate::senders;

/// The account is not as it was read, or its credits do not allow the new limit.
const NOT_AS_READ: Reject = Reject("account_not_as_read");
/// Tries against others who change the same account.
const TRIES: usize = 20;
/// Most places that the guard against fraud leaves alone.
const MOST_ALLOWED: usize = 300;
/// The highest credit limit.
pub const HIGHEST_LIMIT: i64 = 1_000_000_000_000;
/// What staff can make of it.
pub const SETTABLE: &[&str] = &[Standing::Active.as_str(), Standing::Suspended.as_str()];

/// Why an account was not made or changed.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// There is no such account.
    #[error("there is no such account")]
    Unknown,
    /// More than the new limit is used already.
    #[error("the account is using {used} credits of its limit")]
    LimitInUse {
        /// Credits beyond zero.
        used: i64,
    },
    /// A prepaid account with a credit limit.
    #[error("prepaid accounts have no credit limit")]
    PrepaidLimit,
    /// The default sender is none that the account may use.
    #[error("the default sender is not approved for the account")]
    SenderNotApproved,
    /// Others changed the account all the time.
    #[error("the account is being changed by another request")]
    Busy,
    /// The access room refused.
    #[error(transparent)]
    Access(#[from] access::Error),
    /// A read failed.
    #[error(transparent)]
    Db(#[from] Error),
    /// A commit failed.
    #[error(transparent)]
    Commit(CommitError),
}

/// An account with its user's email.
#[derive(Clone, Debug)]
pub struct AccountRow {
    /// Its id.
    pub id: AccountId,
    /// Whose it is.
    pub user: UserId,
    /// The user's email.
    pub email: String,
    /// When somebody proved that it reaches them.
    pub email_verified_at: Option<Millis>,
    /// `live` or `sandbox`.
    pub env: String,
    /// A [`Standing`].
    pub status: String,
    /// How it pays.
    pub billing_mode: BillingMode,
    /// How far below zero it may go.
    pub credit_limit: i64,
    /// All posted movements.
    pub posted: i64,
    /// Held for messages whose fate is open.
    pub held: i64,
    /// [`Settings`] as JSON.
    pub settings: String,
    /// When it was made.
    pub created_at: Millis,
}

/// Which accounts a list shows.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Only the accounts of this email, unless it is empty.
    pub email: String,
    /// Only this environment.
    pub env: Option<Env>,
    /// Only with this status.
    pub status: Option<Standing>,
    /// The end of the list.
    pub since: Since,
}

/// How a new account pays.
#[derive(Clone, Debug)]
pub struct Billing {
    /// Before it sends, or afterwards.
    pub mode: BillingMode,
    /// How far below zero it may go.
    pub credit_limit: i64,
}

/// What is to change in an account; `None` = nothing.
#[derive(Clone, Debug, Default)]
pub struct Patch {
    /// A [`Standing`].
    pub status: Option<&'static str>,
    /// How it pays.
    pub billing_mode: Option<BillingMode>,
    /// 0 to [`HIGHEST_LIMIT`].
    pub credit_limit: Option<i64>,
    /// Settings that are named; null = the deployment's.
    pub settings: SettingsPatch,
}

/// Settings that are to change: outer `None` = stays, inner `None` = the deployment's.
#[expect(clippy::option_option, reason = "absent, null and a value are three things in a PATCH")]
#[derive(Clone, Debug, Default)]
pub struct SettingsPatch {
    otp_validity_s: Option<Option<i64>>,
    otp_fallback_after_s: Option<Option<i64>>,
    countries: Option<Option<Vec<String>>>,
    default_sender: Option<Option<String>>,
    otp_fraud_allow: Option<Option<Vec<String>>>,
}

impl SettingsPatch {
    /// Reads the object in `settings`; faults go to `fields`.
    #[must_use]
    pub fn read(fields: &mut Fields, strict: bool) -> Self {
        let mut map = match fields.take("settings") {
            None => return Self::default(),
            Some(Value::Object(map)) => map,
            Some(_) => {
                fields.fault("settings", "invalid_type", "must be an object");
                return Self::default();
            }
        };
        let patch = Self {
            otp_validity_s: seconds(fields, &mut map, "otp_validity_s", 60, 600),
            otp_fallback_after_s: seconds(fields, &mut map, "otp_fallback_after_s", 5, 120),
            countries: countries(fields, &mut map),
            default_sender: default_sender(fields, &mut map),
            otp_fraud_allow: fraud_allow(fields, &mut map),
        };
        if strict {
            for name in map.keys() {
                let name = escaped(name);
                let known = "is not a setting; known: otp_validity_s, otp_fallback_after_s, \
                             countries, default_sender, otp_fraud_allow";
                fields.fault(&format!("settings/{name}"), "unknown_field", known);
            }
        }
        patch
    }

    fn apply(&self, mut settings: Settings) -> Settings {
        if let Some(value) = self.otp_validity_s {
            settings.otp_validity_s = value;
        }
        if let Some(value) = self.otp_fallback_after_s {
            settings.otp_fallback_after_s = value;
        }
        if let Some(value) = &self.countries {
            settings.countries.clone_from(value);
        }
        if let Some(value) = &self.default_sender {
            settings.default_sender.clone_from(value);
        }
        if let Some(value) = &self.otp_fraud_allow {
            settings.otp_fraud_allow.clone_from(value);
        }
        settings
    }
}

#[expect(clippy::option_option, reason = "absent, null and a value are three things in a PATCH")]
fn seconds(
    fields: &mut Fields,
    map: &mut Map<String, Value>,
    name: &str,
    min: i64,
    max: i64,
) -> Option<Option<i64>> {
    let value = map.remove(name)?;
    if value.is_null() {
        return Some(None);
    }
    let seconds = whole(&value).filter(|seconds| (min..=max).contains(seconds));
    if seconds.is_none() {
        let code = if value.is_number() { "out_of_range" } else { "invalid_type" };
        let detail = format!("must be an integer from {min} to {max}");
        fields.fault(&format!("settings/{name}"), code, detail);
    }
    Some(seconds)
}

#[expect(clippy::option_option, reason = "absent, null and a value are three things in a PATCH")]
fn countries(fields: &mut Fields, map: &mut Map<String, Value>) -> Option<Option<Vec<String>>> {
    let items = match map.remove("countries")? {
        Value::Null => return Some(None),
        Value::Array(items) => items,
        _ => {
            fields.fault("settings/countries", "invalid_type", "must be an array or null");
            return None;
        }
    };
    let detail = "must be the ISO 3166 code of a country, like DE or GB";
    Some(Some(items_of(fields, "settings/countries", &items, msisdn::is_country, detail)))
}

/// Countries and beginnings of numbers.
#[expect(clippy::option_option, reason = "absent, null and a value are three things in a PATCH")]
fn fraud_allow(fields: &mut Fields, map: &mut Map<String, Value>) -> Option<Option<Vec<String>>> {
    let name = "settings/otp_fraud_allow";
    let items = match map.remove("otp_fraud_allow")? {
        Value::Null => return Some(None),
        Value::Array(items) if items.len() > MOST_ALLOWED => {
            fields.fault(name, "too_long", "must have at most 300 items");
            return None;
        }
        Value::Array(items) => items,
        _ => {
            fields.fault(name, "invalid_type", "must be an array or null");
            return None;
        }
    };
    let is_place = |text: &str| match text.strip_prefix('+') {
        // No country code begins with 0.
        Some(digits) => {
            (1..=15).contains(&digits.len())
                && !digits.starts_with('0')
                && digits.bytes().all(|b| b.is_ascii_digit())
        }
        None => msisdn::is_country(text),
    };
    let detail = "must be an ISO 3166 code like DE, or the beginning of numbers like +4915";
    Some(Some(items_of(fields, name, &items, is_place, detail)))
}

/// The texts of an array, each once. What is none of them is noted where it stands.
fn items_of(
    fields: &mut Fields,
    name: &str,
    items: &[Value],
    is_valid: impl Fn(&str) -> bool,
    detail: &str,
) -> Vec<String> {
    let mut texts: Vec<String> = Vec::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        let Some(text) = item.as_str().filter(|text| is_valid(text)) else {
            fields.fault(&format!("{name}/{index}"), "invalid_enum", detail);
            continue;
        };
        if !texts.iter().any(|known| known == text) {
            texts.push(text.to_owned());
        }
    }
    texts
}

#[expect(clippy::option_option, reason = "absent, null and a value are three things in a PATCH")]
fn default_sender(fields: &mut Fields, map: &mut Map<String, Value>) -> Option<Option<String>> {
    match map.remove("default_sender")? {
        Value::Null => Some(None),
        Value::String(value) => match senders::check(&value) {
            Ok(()) => Some(Some(value)),
            Err(fault) => {
                fields.fault("settings/default_sender", "invalid_type", fault.to_string());
                None
            }
        },
        _ => {
            fields.fault("settings/default_sender", "invalid_type", "must be a string or null");
            None
        }
    }
}

/// A user to be made by staff.
#[derive(Clone, Debug)]
pub struct Order {
    /// The email as stored.
    pub email: String,
    /// The password.
    pub password: Secret,
    /// Whether nobody chose the password: then whoever makes the user is shown it.
    pub is_made_up: bool,
    /// How the live account pays.
    pub billing: Billing,
}

/// Makes a user with both accounts: the live one pays as the order says, the sandbox has its play
/// money. `hash` is the password's.
///
/// # Errors
/// [`Fault::Access`] when the email is taken, [`Fault::PrepaidLimit`].
pub async fn create(
    app: &App,
    order: &Order,
    hash: &str,
    by: By<'_>,
    claim: &Claim,
) -> Result<NewUser, Fault> {
    let Order { email, password, is_made_up, billing } = order;
    if billing.mode == BillingMode::Prepaid && billing.credit_limit != 0 {
        return Err(Fault::PrepaidLimit);
    }
    let newcomer = Newcomer {
        email,
        password_hash: hash,
        live: Terms {
            standing: Standing::Active,
            billing_mode: billing.mode,
            credit_limit: billing.credit_limit,
        },
        maker: Some(by.who),
        request_id: by.request_id,
    };
    let (new, mut set) = access::new_user_set(app, &newcomer);
    let shown = is_made_up.then(|| claim.seal(app, new.id.as_str(), password)).flatten();
    claim.add_to(&mut set, new.id.as_str(), shown, app.now());
    credits::sandbox_grant(app, &mut set, &new.sandbox);
    app.db.commit(set).await.map_err(access::Error::from)?;
    Ok(new)
}

/// One account.
///
/// # Errors
/// [`Fault::Unknown`], [`Fault::Db`].
pub async fn find(app: &App, id: &AccountId) -> Result<AccountRow, Fault> {
    app.db.row(store::ACCOUNT, args![id]).await?.ok_or(Fault::Unknown)
}

/// One page of accounts, newest first, with one row more when there are more.
///
/// # Errors
/// When the database cannot be read.
pub async fn list(app: &App, filter: &Filter, page: &Page) -> Result<Vec<AccountRow>, Error> {
    let Filter { email, env, status, since } = filter;
    let (env, status) = (env.map_or("", Env::as_str), status.map_or("", Standing::as_str));
    let rows: Vec<AccountRow> = if email.is_empty() {
        let args = args![&page.after, env, status, page.limit.saturating_add(1)];
        app.db.rows(store::ACCOUNTS, args).await?
    } else {
        let [first, second, third] =
            access::spellings(email).unwrap_or_else(|| std::array::from_fn(|_| email.clone()));
        let args = args![first, second, third, &page.after, env, status];
        let mut rows: Vec<AccountRow> = app.db.rows(store::ACCOUNTS_OF_EMAIL, args).await?;
        // A user has two accounts: sorted here, the statement needs no sorter.
        rows.sort_by(|a, b| b.id.cmp(&a.id));
        rows
    };
    Ok(since.keep(rows, |row| row.id.as_str()))
}

/// Changes an account, and makes this node forget what it remembers of it.
///
/// # Errors
/// See [`Fault`].
pub async fn change(
    app: &App,
    id: &AccountId,
    patch: &Patch,
    by: By<'_>,
) -> Result<AccountRow, Fault> {
    for _ in 0..TRIES {
        let (before, newest) = (find(app, id).await?, newest_of_account(app, id).await?);
        let mode = patch.billing_mode.unwrap_or(before.billing_mode);
        let limit = match patch.credit_limit {
            Some(limit) if mode == BillingMode::Prepaid && limit > 0 => {
                return Err(Fault::PrepaidLimit);
            }
            Some(limit) => limit,
            None if mode == BillingMode::Prepaid => 0,
            None => before.credit_limit,
        };
        let used = before.held.saturating_sub(before.posted);
        if used > limit {
            return Err(Fault::LimitInUse { used });
        }
        let status = patch.status.unwrap_or(&before.status);
        // Defaults in their place would lift the limits that are in them.
        let known: Settings =
            serde_json::from_str(&before.settings).map_err(|_| Error::Corrupt { column: 0 })?;
        if let Some(Some(sender)) = &patch.settings.default_sender
            && !senders::is_approved(app, id, sender).await?
        {
            return Err(Fault::SenderNotApproved);
        }
        let settings = json!(patch.settings.apply(known)).to_string();
        let mut set = WriteSet::of(id.as_str());
        let (old, held) = (&before, before.credit_limit);
        let args = args![
            status,
            mode.as_str(),
            limit,
            &settings,
            id,
            &old.status,
            old.billing_mode.as_str(),
            held,
            &old.settings
        ];
        set.contended(store::CHANGE, args, NOT_AS_READ);
        let entry = Entry {
            actor: by.who,
            action: "account.update",
            object_id: id.as_str(),
            account: Some(id),
            request_id: by.request_id,
            detail: json!({
                "status": status, "billing_mode": mode.as_str(), "credit_limit": limit,
                "settings": serde_json::from_str::<Value>(&settings).unwrap_or_default(),
            }),
        };
        record_after(app, &mut set, &entry, newest.as_ref(), NOT_AS_READ);
        match app.db.commit(set).await {
            Ok(_) => {
                forget_account(app, id);
                let (status, billing_mode) = (status.to_owned(), mode);
                let changed =
                    AccountRow { status, billing_mode, credit_limit: limit, settings, ..before };
                // Nothing that fails behind the commit hides that it was changed.
                return Ok(find(app, id).await.unwrap_or(changed));
            }
            Err(CommitError::Rejected(NOT_AS_READ)) => {}
            Err(error) => return Err(Fault::Commit(error)),
        }
    }
    Err(Fault::Busy)
}
