//! A mail relay: takes email by SMTP, over connections that are used again. One transaction carries
//! one recipient's copy, so that each has a return path and an outcome of its own.

mod connect;

use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use email::report::without_addresses;
use email::status::{Bounce, Enhanced, bounce, is_about_sender};
use futures_util::future::BoxFuture;
use smtp::{Client, Envelope, Error, Reply, Sent, Stage, Transcript};
use tokio::time::Instant;

use super::{Address, Answered, Carrier, Content, Mail, Outbound, Outcome, Pace, Refusal};
use crate::config::{self, BadRelay};
use connect::{Stream, Way};

pub use connect::NoConnection;

/// How long the relay may take for each answer.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long a connection is kept that nothing is sent on.
const IDLE: Duration = Duration::from_secs(30);
/// Submissions under way at the same time, and connections.
const WINDOW: usize = 16;
/// Most characters of a reply that are kept.
const MOST_REPLY_CHARS: usize = 300;

/// A mail relay.
pub struct Relay {
    way: Way,
    patience: Duration,
    idle: Mutex<Vec<(Client<Stream>, Instant)>>,
}

impl Relay {
    /// The relay at this URL (`smtp://` or `smtps://`), which we tell this name of ours.
    ///
    /// # Errors
    /// [`BadRelay`].
    pub fn new(url: &str, own_name: &str) -> Result<Self, BadRelay> {
        Ok(Self { way: Way::read(url, own_name)?, patience: PATIENCE, idle: Mutex::default() })
    }

    /// The relay of the settings, if there is one.
    ///
    /// # Errors
    /// Which of them cannot be used, and why.
    pub fn of(email: &config::Email, own_name: &str) -> Result<Option<Self>, String> {
        let url = email.relay_url.expose();
        if url.is_empty() {
            return Ok(None);
        }
        let named = |error: BadRelay| format!("email.relay_url: {error}");
        let mut relay = Self::new(url, own_name).map_err(named)?;
        if !email.ca_file.is_empty() {
            let trusted = relay.way.trust(Path::new(&email.ca_file));
            trusted.map_err(|error| format!("email.ca_file cannot be used: {error}"))?;
        }
        Ok(Some(relay))
    }

    /// With so much time for each answer, where 20 s are too many.
    #[must_use]
    pub fn with_patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// Its host and port.
    #[must_use]
    pub fn place(&self) -> String {
        self.way.place()
    }

    /// Connects, encrypts and logs in, as for a message, and leaves.
    ///
    /// # Errors
    /// What a message would meet.
    pub async fn probe(&self) -> Result<(), NoConnection> {
        self.way.connect(self.patience, &Transcript::default()).await?.quit().await;
        Ok(())
    }

    /// A connection that was used before and still lives, else a new one.
    async fn connection(&self, transcript: &Transcript) -> Result<Client<Stream>, NoConnection> {
        loop {
            let kept = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let Some((mut client, since)) = kept else {
                return self.way.connect(self.patience, transcript).await;
            };
            // Whether it lives is between the two of us, and no part of this message.
            client.record(Transcript::default());
            if since.elapsed() < IDLE && client.is_alive().await {
                client.record(transcript.clone());
                return Ok(client);
            }
        }
    }

    fn keep(&self, client: Client<Stream>) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|(_, since)| since.elapsed() < IDLE);
        if idle.len() < WINDOW {
            idle.push((client, Instant::now()));
        }
    }

    async fn act(&self, message: &Outbound) -> Answered {
        let (Address::Email(to), Content::Email(mail)) = (&message.to, &message.content) else {
            return refused(Refusal::BadRecipient, "no_address").into();
        };
        let transcript = Transcript::default();
        let outcome = self.send(to.as_str(), mail, &transcript).await;
        // What was taken needs no explanation, and most is.
        let is_kept = !matches!(outcome, Outcome::Accepted { .. });
        let transcript =
            is_kept.then(|| without_addresses(&masked(&transcript.text(), to.as_str())));
        Answered { outcome, transcript }
    }

    async fn send(&self, to: &str, mail: &Mail, transcript: &Transcript) -> Outcome {
        let mut client = match self.connection(transcript).await {
            Ok(client) => client,
            Err(error) => {
                let relay = self.way.place();
                tracing::warn!(%error, relay, "no connection to the mail relay");
                return refused(Refusal::Down, "no_connection");
            }
        };
        let parts: [&[u8]; 2] = [&mail.front, &mail.message];
        let envelope = Envelope { from: &mail.return_path, to, parts: &parts };
        let sent = client.send(envelope).await;
        if matches!(sent, Sent::Taken(_) | Sent::Refused(..)) {
            self.keep(client);
        }
        outcome(sent, to)
    }
}

fn refused(class: Refusal, code: &str) -> Outcome {
    Outcome::Refused { class, code: code.to_owned() }
}

/// What the relay's answer means. Kept is what it said, without the address.
fn outcome(sent: Sent, to: &str) -> Outcome {
    match sent {
        Sent::Taken(reply) => Outcome::Accepted { provider_id: said(&reply, to) },
        Sent::Refused(stage, reply) | Sent::Last(stage, reply) => {
            refused(class(stage, &reply), &said(&reply, to))
        }
        Sent::NotTaken(Error::Refused(reply)) if reply.is_passing() => {
            refused(Refusal::Temporary, &said(&reply, to))
        }
        // The relay greeted us and read the last message: it is this one that it hangs up on. Were
        // it for the relay as a whole, whose recipients are refused so would rest it for everybody.
        Sent::NotTaken(_) => refused(Refusal::Temporary, "connection_lost"),
        Sent::Unknown(_) => Outcome::Unknown,
    }
}

fn class(stage: Stage, reply: &Reply) -> Refusal {
    if reply.is_passing() {
        return Refusal::Temporary;
    }
    let enhanced = Enhanced::at_start(&reply.text);
    // Without a code that says so, 550 may be about us instead of the mailbox.
    if enhanced.is_none() && is_about_sender(&without_addresses(&reply.text)) {
        return if stage == Stage::Sender { Refusal::BadSender } else { Refusal::Permanent };
    }
    let meaning = bounce(reply.code, enhanced);
    match (stage, meaning) {
        (Stage::Sender, _) => Refusal::BadSender,
        (Stage::Recipient, Bounce::Hard) => Refusal::BadRecipient,
        _ => Refusal::Permanent,
    }
}

fn said(reply: &Reply, to: &str) -> String {
    let text = without_addresses(&masked(&format!("{} {}", reply.code, reply.text), to));
    text.chars().take(MOST_REPLY_CHARS).collect()
}

/// A text without the address.
fn masked(text: &str, to: &str) -> String {
    let lower = text.to_ascii_lowercase();
    let to = to.to_ascii_lowercase();
    let mut out = String::new();
    let mut rest = 0;
    for (at, _) in lower.match_indices(&to) {
        out.push_str(text.get(rest..at).unwrap_or_default());
        out.push_str("recipient");
        rest = at + to.len();
    }
    out.push_str(text.get(rest..).unwrap_or_default());
    out
}

impl Carrier for Relay {
    fn name(&self) -> &'static str {
        "relay"
    }

    fn pace(&self) -> Pace {
        Pace { window: WINDOW, ..Pace::default() }
    }

    fn submit<'a>(&'a self, message: &'a Outbound) -> BoxFuture<'a, Outcome> {
        Box::pin(async { self.act(message).await.outcome })
    }

    fn submit_on_record<'a>(&'a self, message: &'a Outbound) -> BoxFuture<'a, Answered> {
        Box::pin(self.act(message))
    }
}

#[cfg(test)]
mod tests {
    use super::{Error, Outcome, Refusal, Reply, Sent, Stage, outcome};

    fn reply(code: u16, text: &str) -> Reply {
        Reply { code, text: text.to_owned(), lines: vec![text.to_owned()] }
    }

    #[test]
    fn what_a_relay_says_is_told_from_what_nobody_knows() {
        let meant =
            |stage, code, text| match outcome(Sent::Refused(stage, reply(code, text)), "a@b.c") {
                Outcome::Refused { class, .. } => Some(class),
                _ => None,
            };
        let (sender, recipient, message) = (Stage::Sender, Stage::Recipient, Stage::Message);
        assert_eq!(meant(recipient, 550, "5.1.1 no such user"), Some(Refusal::BadRecipient));
        assert_eq!(meant(recipient, 554, "5.7.1 policy"), Some(Refusal::Permanent));
        assert_eq!(meant(recipient, 451, "4.7.1 greylisted"), Some(Refusal::Temporary));
        assert_eq!(meant(sender, 550, "5.1.0 no"), Some(Refusal::BadSender));
        assert_eq!(meant(message, 550, "no such user"), Some(Refusal::Permanent));
        let last = Sent::Last(recipient, reply(550, "5.1.1 no such user"));
        let hard = Outcome::Refused {
            class: Refusal::BadRecipient,
            code: "550 5.1.1 no such user".to_owned(),
        };
        assert_eq!(outcome(last, "a@b.c"), hard, "that it hangs up changes nothing");
        assert_eq!(meant(recipient, 550, "relay not permitted"), Some(Refusal::Permanent));
        assert_eq!(meant(recipient, 550, "Access denied"), Some(Refusal::Permanent));
        let named = "no such user <bob@relay.example>";
        assert_eq!(meant(recipient, 550, named), Some(Refusal::BadRecipient));
        let closing = Sent::NotTaken(Error::Refused(reply(421, "4.3.2 closing")));
        let temporary = |found| matches!(found, Outcome::Refused { class: Refusal::Temporary, .. });
        assert!(temporary(outcome(closing, "a@b.c")));
        assert!(temporary(outcome(Sent::NotTaken(Error::Broken), "a@b.c")), "nobody else rests");
        assert_eq!(outcome(Sent::Unknown(Error::Broken), "a@b.c"), Outcome::Unknown);
    }

    #[test]
    fn replies_are_kept_without_the_address() {
        let sent = Sent::Refused(
            Stage::Recipient,
            reply(550, "5.1.1 <Ada@B.example>: ada@b.example is none (from eve@c.example)"),
        );
        let Outcome::Refused { code, .. } = outcome(sent, "ada@b.example") else { unreachable!() };
        assert_eq!(code, "550 5.1.1 <recipient>: recipient is none (from address)");
    }
}
