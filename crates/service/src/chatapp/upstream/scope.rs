//! Whom a callback may speak for. The deployment's own secret signs for all; that of a linked
//! business account for the accounts that are linked to it, and nobody else: its owner could sign
//! what they like.

use std::collections::HashMap;
use std::sync::Arc;

use ::store::Error;
use cloud_api::callback::{self, Message};

use super::super::sessions::prompts::read_payload;
use super::store as sql;
use crate::app::App;
use crate::carriers::cloud_api::{NAME, Number};
use crate::carriers::{Channel, Receipt};
use crate::kit::id::AccountId;
use crate::kit::msisdn::Msisdn;
use crate::kit::signature::is_signed;

/// For so long the last message that an account sent makes it the one that an answer is for.
const MEMORY_MS: i64 = 72 * clock::HOUR;

/// Business accounts of one body whose secrets are tried.
const MOST_ACCOUNTS: usize = 32;

/// Whose secret signed a body: empty for the deployment's own, else the ids of linked business
/// accounts that it tells of and that have this secret; none = nobody's.
pub(super) fn signers(app: &App, body: &[u8], signature: &str) -> Vec<String> {
    let own = app.config.chatapp.app_secret.expose();
    if is_signed(own.as_bytes(), body, signature) {
        return vec![String::new()];
    }
    let Some(cloud) = app.carriers.cloud() else { return Vec::new() };
    let numbers = cloud.numbers().linked();
    if numbers.is_empty() {
        return Vec::new();
    }
    let signs =
        |number: &Arc<Number>| is_signed(number.app_secret.expose().as_bytes(), body, signature);
    let is_signer =
        |waba_id: &String| numbers.values().any(|it| it.waba_id == *waba_id && signs(it));
    let told = callback::business_accounts(body).into_iter().take(MOST_ACCOUNTS);
    told.filter(is_signer).collect()
}

/// Whom a callback may speak for.
pub(super) struct Scope {
    /// Empty = everybody.
    waba_id: String,
    /// The deployment's number, by the upstream's id.
    shared: String,
    linked: Arc<HashMap<String, Arc<Number>>>,
}

impl Scope {
    pub(super) fn of(app: &App, waba_id: &str) -> Self {
        let linked = app.carriers.cloud().map(|cloud| cloud.numbers().linked());
        let shared = app.config.chatapp.phone_number_id.clone();
        Self { waba_id: waba_id.to_owned(), shared, linked: linked.unwrap_or_default() }
    }

    fn is_everybodys(&self) -> bool {
        self.waba_id.is_empty()
    }

    /// Whether the business account that signed is linked to nobody, as far as this node knows:
    /// another may have linked it a moment ago.
    pub(super) fn is_strange(&self) -> bool {
        let is_linked = self.linked.values().any(|number| number.waba_id == self.waba_id);
        !self.is_everybodys() && !is_linked
    }

    /// Whether it may speak of this business account.
    pub(super) fn is_of(&self, waba_id: &str) -> bool {
        self.is_everybodys() || self.waba_id == waba_id
    }

    /// Whether it may tell of this message: the account is linked to it whose message it is, by our
    /// own id or, where that did not come back, by the upstream's.
    pub(super) async fn covers(&self, app: &App, receipt: &Receipt) -> Result<bool, Error> {
        if self.is_everybodys() {
            return Ok(true);
        }
        let account = match (&receipt.echo, &receipt.provider_id) {
            (Some(echo), _) => Some(echo.account_id.clone()),
            (None, Some(id)) => sql::of_message(app, NAME, id).await?.map(String::from),
            (None, None) => None,
        };
        let number = account.and_then(|account| self.linked.get(&account));
        Ok(number.is_some_and(|number| self.is_of(&number.waba_id)))
    }

    /// Whether it may tell what people wrote to this number. The upstream tells of all numbers of a
    /// business account: what somebody wrote to one that nobody here has is for nobody here.
    pub(super) fn speaks_for(&self, phone_number_id: &str) -> bool {
        match self.owners(phone_number_id) {
            Some(owners) => !owners.is_empty(),
            None => phone_number_id.is_empty() || phone_number_id == self.shared,
        }
    }

    /// The accounts that are linked to a number; `None` = nobody is, and the deployment speaks.
    fn owners(&self, phone_number_id: &str) -> Option<Vec<AccountId>> {
        let is_own = |number: &Number| {
            number.phone_number_id == phone_number_id && self.is_of(&number.waba_id)
        };
        let mut owners: Vec<AccountId> = self
            .linked
            .iter()
            .filter(|(_, number)| is_own(number))
            .map(|(account, _)| AccountId::stored(account.clone()))
            .collect();
        owners.sort_by(|one, other| one.as_str().cmp(other.as_str()));
        (!owners.is_empty() || !self.is_everybodys()).then_some(owners)
    }

    /// Whom a message is for, where the chat-app can tell.
    pub(super) async fn account_for(
        &self,
        app: &App,
        message: &Message,
    ) -> Result<Option<AccountId>, Error> {
        let owners = self.owners(&message.phone_number_id);
        let is_everybodys = self.is_everybodys() && message.phone_number_id == self.shared;
        let heirs = owners.clone().unwrap_or_default();
        let owners = owners.filter(|_| !is_everybodys);
        let may = |account: &AccountId| match &owners {
            Some(owners) => owners.contains(account),
            // Nobody writes to the deployment's number who is answered on one of their own.
            None => self.is_on(account, &message.phone_number_id),
        };
        // What somebody answers was sent from there, even if its account has its own number by now.
        let speaks = |account: &AccountId| owners.is_none() || may(account);
        if let Some((session, _)) = message.button.as_deref().and_then(read_payload)
            && let Some(account) = sql::of_session(app, &session).await?.filter(speaks)
        {
            return Ok(Some(account));
        }
        if let Some(context) = &message.context
            && let Some(account) = sql::of_message(app, NAME, context).await?.filter(speaks)
        {
            return Ok(Some(account));
        }
        let person = Msisdn::parse(&message.from).ok();
        if let Some(person) = &person
            && let Some(account) = sql::with_session(app, person.e164(), may).await?
        {
            return Ok(Some(account));
        }
        let last = match (&owners, person) {
            (Some(owners), _) if owners.len() == 1 => None,
            (_, Some(person)) => last_sent(app, &person, may).await?,
            (_, None) => None,
        };
        Ok(last.or_else(|| heirs.into_iter().next()))
    }

    /// Whether an account sends from this number: the one that it is linked to, or else the
    /// deployment's.
    fn is_on(&self, account: &AccountId, phone_number_id: &str) -> bool {
        let linked = self.linked.get(account.as_str());
        linked.is_none_or(|number| number.phone_number_id == phone_number_id)
    }
}

/// Which of the accounts that may be meant wrote to a person last.
async fn last_sent(
    app: &App,
    person: &Msisdn,
    may: impl Fn(&AccountId) -> bool,
) -> Result<Option<AccountId>, Error> {
    let since = app.now() - MEMORY_MS;
    let mut all = Vec::new();
    for sent_to in app.correspondence.sent_to {
        all.extend(sent_to(app, Channel::Chatapp, person.e164(), since).await?);
    }
    let own = all.into_iter().filter(|sent| may(&sent.account));
    Ok(own.max_by_key(|sent| (sent.at, sent.account.clone())).map(|sent| sent.account))
}
