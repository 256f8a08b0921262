//! Due work as it is stored: a delivery and its event, of which the JSON is made.

use hyper::body::Bytes;
use store::{Error, FromRow, Row};

use super::held::Engine;
use super::tries::Job;
use crate::events::{self, Stored};

/// A row of due work.
pub(super) struct Due {
    pub(super) job: Job,
    /// None when the event is gone.
    pub(super) event: Option<Stored>,
}

impl Due {
    /// The JSON to send.
    pub(super) async fn body(&self, engine: &Engine) -> Result<Option<Bytes>, Error> {
        let Some(event) = &self.event else { return Ok(None) };
        if event.body.is_none()
            && let Some(body) = engine.bodies.of(event)
        {
            return Ok(Some(body));
        }
        let body = Bytes::from(events::render(&engine.app, event).await?);
        if event.body.is_none() {
            engine.bodies.keep(event, &body);
        }
        Ok(Some(body))
    }

    /// Whether the JSON is to be kept from now on, because it was sent before.
    pub(super) fn is_to_keep(&self) -> bool {
        self.job.attempts > 0 && self.event.as_ref().is_some_and(|event| event.body.is_none())
    }
}

impl FromRow for Due {
    fn from_row(mut row: Row) -> Result<Self, Error> {
        let job = Job {
            delivery: row.take(0)?,
            event: row.take(1)?,
            step: row.take(2)?,
            attempts: row.take(3)?,
            due_at: row.take(4)?,
            is_asked_for: row.take(5)?,
            body: Bytes::new(),
        };
        let Some(account) = row.take(6)? else { return Ok(Self { job, event: None }) };
        let event = Stored {
            account,
            id: job.event.clone(),
            kind: row.take(7)?,
            object_id: row.take(8)?,
            sequence: row.take(9)?,
            state: row.take(10)?,
            body: row.take(11)?,
            is_in_hand: false,
        };
        Ok(Self { job, event: Some(event) })
    }
}
