//! Deliveries: what is known of one, and the two ways in which somebody asks for one: a test, and
//! another try.

pub mod api;

use ::store::{WriteSet, args};
use clock::Millis;

use super::store as sql;
use super::{Error, delivery_id, find};
use crate::access::idempotency::Claim;
use crate::app::App;
use crate::events::{self, Kind};
use crate::kit::id::{AccountId, DeliveryId, EventId, WebhookId};

/// An event on its way to a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Its id.
    pub id: DeliveryId,
    /// To which target.
    pub webhook: WebhookId,
    /// Which event.
    pub event: EventId,
    /// The event's kind.
    pub kind: String,
    /// `pending`, `delivered`, `failed` (refused) or `exhausted` (the schedule is at its end).
    pub state: String,
    /// Tries so far.
    pub attempts: i64,
    /// When it is tried next, as far as is known.
    pub due_at: Option<Millis>,
    /// When it was delivered or given up.
    pub settled_at: Option<Millis>,
}

/// One try of a delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// 1, 2, …
    pub number: i64,
    /// When.
    pub at: Millis,
    /// The status of the answer.
    pub status: Option<u16>,
    /// Why there was no answer, for programs.
    pub error: Option<String>,
    /// The same for people.
    pub detail: Option<String>,
    /// From the beginning of the try to the end of the answer.
    pub latency_ms: i64,
    /// The first 4 KiB of the answer's body.
    pub body: Option<Vec<u8>>,
}

/// Sends a test event to one target, disabled or not.
///
/// # Errors
/// [`Error::Unknown`], [`Error::Db`], [`Error::Commit`].
pub async fn test(
    app: &App,
    account: &AccountId,
    id: &WebhookId,
    kind: Kind,
    claim: &Claim,
) -> Result<Delivery, Error> {
    let target = find(app, account, id).await?;
    let now = app.now();
    let event = EventId::new(&app.clock);
    let mut data = kind.example();
    if let Some(data) = data.as_object_mut() {
        data.remove("sequence");
        data.insert("test".to_owned(), true.into());
        if kind == Kind::WebhookTest {
            data.insert("webhook_id".to_owned(), id.as_str().into());
        }
    }
    let delivery = delivery_id(&event, id);
    let told = events::Event {
        account,
        id: &event,
        kind,
        object_id: id.as_str(),
        sequence: target.event_count + 1,
        data,
    };
    let mut set = WriteSet::of(account.as_str());
    claim.add_to(&mut set, delivery.as_str(), None, now);
    set.guard(sql::HURRY, args![now, account, id], sql::CHANGED);
    events::emit_to_one(&mut set, &told);
    set.push(sql::DELIVER, args![account, id, &delivery, &event, kind.as_str(), 1_i64, now]);
    set.ring(events::BELL);
    app.db.commit(set).await?;
    // Nothing that fails behind the commit hides it.
    let made = Delivery {
        id: delivery.clone(),
        webhook: id.clone(),
        event,
        kind: kind.as_str().to_owned(),
        state: "pending".to_owned(),
        attempts: 0,
        due_at: Some(now),
        settled_at: None,
    };
    Ok(delivery_of(app, account, &delivery).await.unwrap_or(made))
}

/// Tries a delivery now, whatever became of it, and then along the schedule.
///
/// # Errors
/// [`Error::Unknown`], [`Error::Forgotten`], [`Error::Db`], [`Error::Commit`].
pub async fn retry(
    app: &App,
    account: &AccountId,
    id: &DeliveryId,
    claim: &Claim,
) -> Result<Delivery, Error> {
    let found = delivery_of(app, account, id).await?;
    // It would end as exhausted, however it stands.
    events::find(app, account, &found.event).await?.ok_or(Error::Forgotten)?;
    let now = app.now();
    let mut set = WriteSet::of(account.as_str());
    claim.add_to(&mut set, id.as_str(), None, now);
    set.guard(sql::HURRY, args![now, account, &found.webhook], sql::CHANGED);
    set.guard(sql::RETRY, args![now, account, &found.webhook, id], sql::CHANGED);
    set.ring(events::BELL);
    app.db.commit(set).await?;
    // Nothing that fails behind the commit hides it.
    let again =
        Delivery { state: "pending".to_owned(), due_at: Some(now), settled_at: None, ..found };
    Ok(delivery_of(app, account, id).await.unwrap_or(again))
}

/// One delivery.
///
/// # Errors
/// [`Error::Unknown`], [`Error::Db`].
pub async fn delivery_of(
    app: &App,
    account: &AccountId,
    id: &DeliveryId,
) -> Result<Delivery, Error> {
    app.db.row(sql::DELIVERY, args![account, id]).await?.ok_or(Error::Unknown)
}
