//! Commit A: the message, its attempt and the hold on its price, all or nothing, if the rules of
//! the chat-app allow it at that moment. Then `dispatch` carries it, and the answer waits for
//! nobody.

use cloud_api::judge::{self, Fault, Known};
use cloud_api::message::{Template as Wire, copies, filled as rendered};
use cloud_api::template::{self as rules, Category};
use serde_json::Value;
use store::{CommitError, WriteSet};

use super::parse::{Filled, Order, What, params_of};
use super::store as sql;
use super::{BillingKind, BillingMode, Chatapp, Error, Message, Said, Status, VALIDITY_MS};
use crate::access::idempotency::{Claim, Seen};
use crate::app::{Account, App};
use crate::carriers::{Address, Channel, Priority, Rehearsed};
use crate::chatapp::sessions::{self, NO_SESSION};
use crate::chatapp::templates::{self, Template};
use crate::credits;
use crate::dispatch::{self, Leg, NewLeg};
use crate::inbound::opt_outs::{self, OPTED_OUT};
use crate::inbound::windows;
use crate::kit::id::MessageId;

/// Longest text of a template with its values, characters: a value may stand in it many times.
const LONGEST_FILLED: usize = 32_768;

/// What goes out, and what it counts as.
struct Made {
    said: Said,
    /// Name and language of a template.
    template: Option<(String, String)>,
    kind: BillingKind,
}

/// Takes a message, to be sent.
pub(super) async fn send(
    app: &App,
    account: &Account,
    order: &Order,
    claim: &Claim,
) -> Result<Message, Error> {
    check(app, account, order)?;
    let made = make(app, account, order).await?;
    let session = match order.billing_mode {
        BillingMode::Direct => None,
        BillingMode::Session => {
            match sessions::active(app, &account.id, &order.to).await? {
                Some(session) => Some(session),
                // STOP ended it: another way of billing would be refused as well.
                None if opt_outs::is_opted_out(app, &account.id, &order.to).await? => {
                    return Err(Error::OptedOut);
                }
                None => return Err(Error::NoActiveSession),
            }
        }
    };
    let credits = price(app, order, made.kind).await?;
    let id = MessageId::new(&app.clock);
    let address = Address::Phone(order.to.clone());
    let leg = NewLeg {
        account: &account.id,
        object_id: id.as_str(),
        channel: Channel::Chatapp,
        to: &address,
        priority: Priority::Transactional,
        credits,
        give_up_at: app.now() + VALIDITY_MS,
    };
    let slot = dispatch::slot(app, &leg).ok_or(Error::NoCarrier)?;
    let attempt = slot.attempt(app, &leg);
    let (template, language) = made.template.clone().unzip();
    let message = Message {
        account: account.id.clone(),
        recipient: order.to.e164().to_owned(),
        country: order.country.clone(),
        reference: order.reference.clone(),
        client_id: order.client_id.clone(),
        billing_mode: order.billing_mode,
        billing_kind: made.kind,
        template,
        language,
        content_sealed: Some(made.said.seal(app, &account.id, &id)),
        created_at: id.time(),
        id,
        charged_credits: credits,
        session,
        attempt: attempt.id.clone(),
        status: Status::Submitted,
        cause: None,
        carrier_code: None,
        event_count: 0,
        valid_until: attempt.give_up_at,
        updated_at: app.now(),
    };
    let mut set = WriteSet::of(account.id.as_str());
    guard(app, &mut set, account, order, &message);
    claim.add_to(&mut set, message.id.as_str(), None, app.now());
    dispatch::open::<Chatapp>(app, &mut set, &attempt);
    sql::insert(&mut set, &message);
    match app.db.commit(set).await {
        Ok(_) => slot.go(app, Leg::<Chatapp>::new(message.clone(), attempt)),
        Err(error) => return Err(refused(app, account, credits, error).await),
    }
    Ok(message)
}

/// What must be so at the moment of commit A. None of it writes anything.
fn guard(app: &App, set: &mut WriteSet, account: &Account, order: &Order, message: &Message) {
    opt_outs::guard(app, set, &account.id, &order.to);
    if let Some(session) = &message.session {
        sessions::guard(app, set, &account.id, session);
    }
    if matches!(order.what, What::Text(_)) {
        windows::guard(app, set, &account.id, &order.to);
    }
}

/// Why commit A did not happen.
async fn refused(app: &App, account: &Account, credits: i64, error: CommitError) -> Error {
    match error {
        CommitError::Rejected(OPTED_OUT) => Error::OptedOut,
        CommitError::Rejected(NO_SESSION) => Error::NoActiveSession,
        CommitError::Rejected(windows::CLOSED) => Error::WindowClosed,
        CommitError::Rejected(credits::INSUFFICIENT) => {
            credits::insufficient(app, &account.id, credits).await.into()
        }
        error => error.into(),
    }
}

/// What can be refused before anything is read.
fn check(app: &App, account: &Account, order: &Order) -> Result<(), Error> {
    let country = order.to.country();
    let is_closed = |countries: &Vec<String>| !countries.iter().any(|open| open == country);
    if app.carriers.rehearsed(&order.to) == Some(Rehearsed::CountryNotAllowed)
        || account.settings.countries.as_ref().is_some_and(is_closed)
    {
        return Err(Error::CountryNotAllowed(country.to_owned()));
    }
    if !app.carriers.offers(Channel::Chatapp, account.id.as_str()) {
        return Err(Error::NoCarrier);
    }
    Ok(())
}

async fn price(app: &App, order: &Order, kind: BillingKind) -> Result<i64, Error> {
    if kind == BillingKind::Session {
        return Ok(0);
    }
    let price = credits::price(app, Channel::Chatapp.as_str(), kind.as_str(), order.to.country());
    let required = price.await?;
    if app.carriers.rehearsed(&order.to) == Some(Rehearsed::InsufficientCredits) {
        return Err(credits::Error::Insufficient { required, available: 0 }.into());
    }
    Ok(required)
}

/// Makes what is sent from what is asked for.
async fn make(app: &App, account: &Account, order: &Order) -> Result<Made, Error> {
    let direct = |kind| match order.billing_mode {
        BillingMode::Direct => kind,
        BillingMode::Session => BillingKind::Session,
    };
    match &order.what {
        What::Text(text) => {
            let (params, components, replies) = (Vec::new(), Vec::new(), Vec::new());
            let said = Said { text: text.clone(), params, components, replies };
            Ok(Made { said, template: None, kind: direct(BillingKind::Service) })
        }
        What::Template(filled) => {
            let found = templates::find(app, &account.id, &filled.name, &filled.language).await?;
            let template = approved(app, filled, found)?;
            let kind = direct(match template.category {
                Category::Utility => BillingKind::Utility,
                Category::Marketing => BillingKind::Marketing,
                Category::Authentication => BillingKind::Authentication,
            });
            let said = fill(&template, filled)?;
            Ok(Made { said, template: Some((template.name, template.language)), kind })
        }
    }
}

/// Only an approved one may be sent.
fn approved(app: &App, filled: &Filled, found: Option<Template>) -> Result<Template, Error> {
    let (name, language) = (&filled.name, &filled.language);
    let refusal = |why: String| Err(Error::TemplateNotApproved(why));
    let Some(template) = found else {
        return refusal(format!(
            "There is no template {name} in {language}: declare it with POST /v1/chatapp/templates"
        ));
    };
    let status = template.status(app.now());
    if status != templates::Status::Approved {
        let advice = match status {
            templates::Status::Pending if template.provider_id.is_empty() => {
                "it is a draft, to be submitted with POST /v1/chatapp/templates"
            }
            templates::Status::Pending => {
                "the provider has not decided yet; POST /v1/chatapp/templates/{name}/sync asks"
            }
            _ => "declare another one with POST /v1/chatapp/templates",
        };
        let status = status.as_str();
        return refusal(format!("The template {name} in {language} is {status}: {advice}"));
    }
    let is_meant = filled.provider_id.as_ref().is_none_or(|id| *id == template.provider_id);
    if !is_meant {
        return refusal(format!(
            "The template {name} in {language} has another `template_id`: leave the field out, or \
             send the id that GET /v1/chatapp/templates shows"
        ));
    }
    Ok(template)
}

/// The filled template, as a phone shows it.
fn fill(template: &Template, filled: &Filled) -> Result<Said, Error> {
    let params = params_of(&filled.components).unwrap_or_else(|| filled.params.clone());
    let (given, wanted) = (params.len(), template.params());
    if given != wanted {
        let detail = format!(
            "must have as many values as the body has variables: {wanted}, and not {given}"
        );
        let is_in_params = filled.components.is_empty() || !filled.params.is_empty();
        let pointer = if is_in_params { "/template_params" } else { "/components" };
        return Err(Error::Params { pointer, detail });
    }
    let values: Vec<&str> = params.iter().map(String::as_str).collect();
    if rules::filled_chars(&template.body, &values) > LONGEST_FILLED {
        let detail =
            format!("make a text of more than {LONGEST_FILLED} characters: shorten the values");
        let is_in_params = params_of(&filled.components).is_none();
        let pointer = if is_in_params { "/template_params" } else { "/components" };
        return Err(Error::Params { pointer, detail });
    }
    let mut text = rules::fill(&template.body, &values);
    if let Some(footer) = &template.footer {
        text = format!("{text}\n\n{footer}");
    }
    let replies = template.replies();
    let mut components = filled.components.clone();
    let is_button = |part: &Value| {
        part["type"].as_str().is_some_and(|kind| kind.eq_ignore_ascii_case("button"))
    };
    // A passcode stands in the text and behind the button that copies it.
    if template.category == Category::Authentication && !components.iter().any(is_button) {
        components.extend(values.first().map(|code| copies(code)));
    }
    judged(template, &values, &components)?;
    Ok(Said { text, params, components, replies })
}

/// Refuses what the upstream would refuse, before it costs anything.
fn judged(template: &Template, params: &[&str], components: &[Value]) -> Result<(), Error> {
    let (name, language) = (template.name.as_str(), template.language.as_str());
    let wire = rendered(&Wire { name, language, params, payloads: &[], components });
    let known = Known::of(template.category, &template.body, template.buttons());
    let at = |pointer: &'static str, fault: Fault| {
        let detail = format!("is not what the chat-app takes: {}", fault.detail);
        Error::Params { pointer, detail }
    };
    let values = if components.is_empty() { "/template_params" } else { "/components" };
    judge::template(&wire).map_err(|fault| at(values, fault))?;
    // The body has its values by now: what is missing are those of the header and of buttons.
    known.check(&wire).map_err(|fault| at("/components", fault))
}

/// What a request with the same Idempotency-Key made, as it stands now.
pub(super) async fn seen(app: &App, account: &Account, seen: &Seen) -> Result<Message, Error> {
    let id = MessageId::parse(&seen.object_id).ok_or(Error::Unknown)?;
    sql::message(app, &account.id, &id).await?.ok_or(Error::Unknown)
}
