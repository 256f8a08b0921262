//! The numbers that send on the chat-app: the deployment's own, and those of accounts that staff
//! linked. Each has a gate of its own, so that one whose business account hangs keeps no other one
//! waiting.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use clock::Millis;
use hyper::body::Bytes;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};

use super::gate::Gate;
use crate::config;
use crate::kit::outgoing::{Answer, Destination, Fault, LONGEST, NoAnswer, Outgoing};
use crate::kit::secret::Secret;

/// One number, and the business account that it belongs to.
pub struct Number {
    /// Its id.
    pub phone_number_id: String,
    /// The business account's.
    pub waba_id: String,
    /// Signs its callbacks.
    pub app_secret: Secret,
    /// The word of their handshake.
    pub verify_token: Secret,
    /// Which of several links of the same account it is.
    pub revision: i64,
    base: String,
    allow_http: bool,
    messages: Destination,
    headers: HeaderMap,
    gate: Arc<Gate>,
}

impl Number {
    /// A number by settings; `None` = they name none.
    ///
    /// # Errors
    /// What of the settings cannot be used.
    pub fn of(settings: &config::Chatapp, revision: i64) -> Result<Option<Self>, String> {
        let config::Chatapp { base_url, api_version, phone_number_id, .. } = settings;
        let token = settings.access_token.expose();
        if token.is_empty() || phone_number_id.is_empty() {
            return Ok(None);
        }
        let allow_http = base_url.starts_with("http://");
        let base = format!("{}/{api_version}", base_url.trim_end_matches('/'));
        let messages =
            Destination::parse(&format!("{base}/{phone_number_id}/messages"), allow_http).map_err(
                |fault| match fault {
                    Fault::TooLong => format!("base_url is longer than {LONGEST} characters"),
                    Fault::Malformed => "base_url is not a URL with a host".to_owned(),
                    Fault::NotAllowed(words) => format!("base_url {words}"),
                },
            )?;
        let mut bearer = HeaderValue::try_from(format!("Bearer {token}"))
            .map_err(|_| "access_token has characters that no header can have".to_owned())?;
        bearer.set_sensitive(true);
        let json = HeaderValue::from_static("application/json");
        Ok(Some(Self {
            phone_number_id: phone_number_id.clone(),
            waba_id: settings.waba_id.clone(),
            app_secret: settings.app_secret.clone(),
            verify_token: settings.verify_token.clone(),
            revision,
            base,
            allow_http,
            messages,
            headers: HeaderMap::from_iter([(AUTHORIZATION, bearer), (CONTENT_TYPE, json)]),
            gate: Arc::new(Gate::new(settings.messages_per_s)),
        }))
    }

    /// The same behind the gate of another link of the same number, so that what they send counts
    /// together. Another token begins afresh: with it the number may work again.
    #[must_use]
    pub fn beside<'a>(mut self, others: impl Iterator<Item = &'a Arc<Self>>) -> Self {
        let is_same = |other: &&Arc<Self>| {
            other.phone_number_id == self.phone_number_id && other.headers == self.headers
        };
        if let Some(gate) = others.into_iter().find(is_same).map(|same| Arc::clone(&same.gate)) {
            self.gate = gate;
        }
        self
    }

    /// What its messages go through.
    pub(super) fn gate(&self) -> &Gate {
        &self.gate
    }

    /// Sends a message, once.
    pub(super) async fn send(&self, way: &Outgoing, body: Bytes) -> Result<Answer, NoAnswer> {
        way.post_once(&self.messages, self.headers.clone(), body).await
    }

    /// Declares a template.
    pub(super) async fn declare(&self, way: &Outgoing, body: Bytes) -> Result<Answer, NoAnswer> {
        way.post_once(&self.templates("")?, self.headers.clone(), body).await
    }

    /// Changes a template.
    pub(super) async fn edit(
        &self,
        way: &Outgoing,
        id: &str,
        body: Bytes,
    ) -> Result<Answer, NoAnswer> {
        way.post_once(&self.at(&format!("/{id}"))?, self.headers.clone(), body).await
    }

    /// Lists templates.
    pub(super) async fn list(&self, way: &Outgoing, query: &str) -> Result<Answer, NoAnswer> {
        way.get(&self.templates(query)?, self.headers.clone()).await
    }

    /// Deletes templates.
    pub(super) async fn delete(&self, way: &Outgoing, query: &str) -> Result<Answer, NoAnswer> {
        way.delete(&self.templates(query)?, self.headers.clone()).await
    }

    fn templates(&self, query: &str) -> Result<Destination, NoAnswer> {
        self.at(&format!("/{}/message_templates{query}", self.waba_id))
    }

    fn at(&self, path: &str) -> Result<Destination, NoAnswer> {
        let url = format!("{}{path}", self.base);
        Destination::parse(&url, self.allow_http).map_err(|_| NoAnswer::Protocol)
    }
}

/// All numbers of this deployment. Clones of the carriers see a change.
#[derive(Default)]
pub struct Numbers {
    shared: Option<Arc<Number>>,
    linked: RwLock<Arc<HashMap<String, Arc<Number>>>>,
    /// Held by whoever reads the links and puts them in force: when those in force were read.
    pub read_at: tokio::sync::Mutex<Millis>,
}

impl Numbers {
    pub(super) fn new(shared: Option<Number>) -> Self {
        let shared = shared.map(Arc::new);
        Self { shared, linked: RwLock::default(), read_at: tokio::sync::Mutex::new(Millis(0)) }
    }

    /// The deployment's own.
    #[must_use]
    pub fn shared(&self) -> Option<&Arc<Number>> {
        self.shared.as_ref()
    }

    /// Those that accounts are linked to, by account.
    #[must_use]
    pub fn linked(&self) -> Arc<HashMap<String, Arc<Number>>> {
        Arc::clone(&self.linked.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts other links in force.
    pub fn link(&self, linked: HashMap<String, Arc<Number>>) {
        *self.linked.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(linked);
    }

    /// The number that sends for an account.
    #[must_use]
    pub fn of(&self, account: &str) -> Option<Arc<Number>> {
        self.linked().get(account).or(self.shared.as_ref()).cloned()
    }

    /// Whether there is any.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.shared.is_none() && self.linked().is_empty()
    }
}
