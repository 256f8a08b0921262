//! The endpoints of virtual handsets.

use axum::Json;
use axum::extract::{Path, RawQuery, State};
use axum::response::{IntoResponse, Response};
use clock::Millis;
use endpoints::{ApiRouter, ToSchema, routes};
use serde::{Deserialize, Serialize};
use store::WriteSet;

use super::mailboxes;
use super::replies::{self, Button, Fault, Reply, Said};
use crate::access::caller::{Caller, TestCaller};
use crate::access::idempotency::{self, Claim, Repeatable, Seen};
use crate::app::App;
use crate::carriers::Channel;
use crate::carriers::handsets::Received;
use crate::kit::body::Fields;
use crate::kit::id::{AccountId, HandsetReplyId};
use crate::kit::msisdn::Msisdn;
use crate::kit::page::{self, Query};
use crate::kit::posted::{PathPart, Posted};
use crate::kit::problem::{Item, Problem};
use crate::kit::problem_code::Code;
use crate::kit::throttle::Class;
use crate::kit::words::words;

/// The routes of this room.
pub fn routes() -> ApiRouter<App> {
    routes!(list_handset_messages, reply_from_handset).merge(mailboxes::api::routes())
}

/// A message on a virtual handset.
#[derive(Serialize, ToSchema)]
pub struct HandsetMessage {
    /// Its id.
    #[schema(example = "hms_01kdvqh6m4e5s8w2t9zb3y7n1f")]
    id: String,
    /// `chatapp` or `sms`.
    #[schema(value_type = ReplyChannel)]
    channel: &'static str,
    /// Who it came from, as the phone shows it.
    sender: String,
    /// What it says.
    text: String,
    /// The passcode; null for what is none.
    #[schema(required = true, example = "482915")]
    code: Option<String>,
    /// Quick-reply buttons.
    buttons: Vec<String>,
    /// When the phone got it.
    #[schema(format = DateTime)]
    received_at: String,
}

/// What the person does: writes a text or taps a button.
#[derive(Deserialize, ToSchema)]
pub struct ReplyRequest {
    /// What they write.
    #[schema(min_length = 1, max_length = 4096, example = "Yes")]
    pub text: Option<String>,
    /// The button of the last prompt that they tap, instead of `text`. By the chat-app only.
    pub button: Option<ButtonWord>,
    /// `chatapp` (default) or `sms`.
    pub channel: Option<ReplyChannel>,
}

/// A button of a consent prompt.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ButtonWord {
    /// Consents.
    Yes,
    /// Declines.
    No,
}

words! {
    /// Where a reply comes from.
    #[derive(Deserialize, ToSchema)]
    #[serde(rename_all = "lowercase")]
    pub enum ReplyChannel {
        /// The chat-app.
        Chatapp = "chatapp",
        /// SMS.
        Sms = "sms",
    }
}

/// A reply that was taken.
#[derive(Serialize, ToSchema)]
pub struct ReplyView {
    /// Whether the phone's message was taken.
    accepted: bool,
    /// `chatapp` or `sms`.
    #[schema(value_type = crate::carriers::Channel)]
    channel: &'static str,
}

/// Read a virtual handset.
///
/// What it received, newest first; only messages of your own account.
#[endpoints::path(get, path = "/v1/sandbox/handsets/{phone}/messages", tag = "Sandbox",
    params(
        ("phone" = String, Path, description = "International format"),
        ("limit" = Option<i64>, Query),
        ("cursor" = Option<String>, Query),
    ),
    security(("api_key" = []), ("portal_token" = [])),
    responses((status = 200, body = [HandsetMessage], description = "Messages, newest first")))]
async fn list_handset_messages(
    caller: Caller<TestCaller>,
    State(app): State<App>,
    Path(phone): Path<String>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let phone = read_phone(&phone)?;
    let path = format!("/v1/sandbox/handsets/{}/messages", phone.e164());
    let query = Query::read(query.as_deref(), &["limit", "cursor"])?;
    let page = query.page_of(&app.vault, caller.account.id.as_str(), &path)?;
    let handsets = app.carriers.handsets().ok_or(Code::RouteNotFound)?;
    let found = handsets.messages(caller.account.id.as_str(), phone.e164()).await?;
    let limit = usize::try_from(page.limit).unwrap_or(50);
    let rows = found.into_iter().filter(|message| message.id < page.after);
    let rows: Vec<_> = rows.take(limit + 1).map(view).collect();
    Ok(page::answer(&app.vault, &path, &page, rows, |row| row.id.clone()))
}

/// Reply from a virtual handset.
///
/// The message comes in as a carrier would bring it: see `GET /v1/inbound-notifications`. It is
/// addressed to the sender of the last message that the phone got by this channel. How often an
/// account's handsets reply in an hour is limited.
#[endpoints::path(post, path = "/v1/sandbox/handsets/{phone}/replies", tag = "Sandbox",
    params(("phone" = String, Path, description = "International format")),
    request_body = ReplyRequest,
    security(("api_key" = []), ("portal_token" = [])),
    responses((status = 200, body = ReplyView, description = "The phone's message was taken")))]
async fn reply_from_handset(
    caller: Caller<TestCaller>,
    State(app): State<App>,
    Posted { id: phone, headers, body }: Posted<Msisdn>,
) -> Result<Response, Problem> {
    let handsets = app.carriers.handsets().ok_or(Code::RouteNotFound)?;
    let (said, channel) = read_reply(&app, &body)?;
    let account = &caller.account;
    let route = format!("POST /v1/sandbox/handsets/{}/replies", phone.e164());
    let request = Repeatable::by_tenant(&account.id, &headers, &route, &body);
    let fresh = async |claim: Claim| {
        let id = HandsetReplyId::new(&app.clock);
        app.throttle.take(Class::Replies, account.id.as_str())?;
        // What cannot be tapped uses no key up.
        replies::check(handsets, account, &phone, &said).await?;
        claim_it(&app, &account.id, &claim, &id).await?;
        Ok(Claimed { id, at: app.now(), is_repeat: false })
    };
    // It may have been claimed and not sent: the door knows what it has.
    let again = async |seen: Seen| {
        let id = HandsetReplyId::stored(seen.object_id);
        Ok(Claimed { id, at: seen.created_at, is_repeat: true })
    };
    let once = idempotency::once(&app, request, fresh, again).await?;
    let Claimed { id, at, is_repeat } = once.answer();
    let reply = Reply { phone: &phone, channel, said: &said, id: id.as_str(), at: *at };
    match replies::send(&app, handsets, account, reply).await {
        // The handset has forgotten the prompt since.
        Err(Fault::NoPrompt) if *is_repeat => {}
        done => done?,
    }
    let view = ReplyView { accepted: true, channel: channel.as_str() };
    Ok(once.map(|_| Json(view)).into_response())
}

/// A reply that its key stands for.
struct Claimed {
    id: HandsetReplyId,
    at: Millis,
    is_repeat: bool,
}

/// The key stands for the reply before there is one: a repeat then sends it, and once.
async fn claim_it(
    app: &App,
    account: &AccountId,
    claim: &Claim,
    id: &HandsetReplyId,
) -> Result<(), Problem> {
    if claim.is_empty() {
        return Ok(());
    }
    let mut set = WriteSet::of(account.as_str());
    claim.add_to(&mut set, id.as_str(), None, app.now());
    Ok(app.db.commit(set).await.map(drop)?)
}

fn read_reply(app: &App, body: &[u8]) -> Result<(Said, Channel), Problem> {
    let mut fields = Fields::read(body)?;
    let text = fields.text_within("text", 1, 4096);
    let button = fields.word::<Button>("button");
    let channel = match fields.word("channel") {
        Some(ReplyChannel::Sms) => Channel::Sms,
        Some(ReplyChannel::Chatapp) | None => Channel::Chatapp,
    };
    match (&text, button) {
        (None, None) if !fields.has_faults_of(&["text", "button"]) => {
            fields.fault("text", "required", "is required, unless button is given");
        }
        (Some(_), Some(_)) => {
            fields.fault("button", "invalid_enum", "cannot be combined with text");
        }
        (None, Some(_)) if channel == Channel::Sms => {
            fields.fault("button", "invalid_enum", "is available on the channel chatapp only");
        }
        _ => {}
    }
    fields.finish(app.is_strict())?;
    let said = match (text, button) {
        (Some(text), _) => Said::Text(text),
        (None, button) => Said::Button(button.ok_or(Code::InternalError)?),
    };
    Ok((said, channel))
}

impl From<Fault> for Problem {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::NoPrompt => {
                let item = Item::at("/button", "invalid_enum", fault.to_string());
                Self::invalid(vec![item])
            }
            Fault::NotNow => Code::StorageUnavailable.into(),
            Fault::Db(error) => error.into(),
        }
    }
}

impl PathPart for Msisdn {
    fn read(part: String) -> Result<Self, Problem> {
        read_phone(&part)
    }
}

fn read_phone(text: &str) -> Result<Msisdn, Problem> {
    Msisdn::parse(text).map_err(|error| {
        Problem::new(Code::InvalidRequest).detail(format!("The phone number in the path {error}."))
    })
}

fn view(message: Received) -> HandsetMessage {
    HandsetMessage {
        id: message.id,
        channel: message.channel,
        sender: message.sender,
        text: message.text,
        code: message.code,
        buttons: message.buttons,
        received_at: message.received_at.to_string(),
    }
}
