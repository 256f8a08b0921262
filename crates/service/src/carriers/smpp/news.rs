//! What a centre brings: receipts, what phones write, and answers that come late. The centre is
//! answered when it is durable.

use std::sync::Arc;

use ::smpp::{
    COctets, Delivery, Message, MessageState, News, Outcome, Receipt as Told, Status, message_id,
    tlv::tag,
};
use serde_json::json;
use sms_text::{Alphabet, UserDataHeader, ucs2};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::verdict::{MOST_ID_OCTETS, Verdict};
use super::{Inner, Key, Place, id_form, word};
use crate::carriers::{
    Channel, Echo, Fate, Guess, Guesses, Inbound, InboundPart, NotNow, Outbound, Receipt, Refusal,
    code_of,
};
use crate::kit::seal::hex;
use crate::kit::task;

/// Tries to store what a centre does not bring again, and the pause between them, milliseconds.
const TRIES: usize = 20;
const PAUSE_MS: u64 = 500;

/// Phones that are served at the same time.
const DESKS: usize = 32;

/// Takes in what a link tells, until it is closed. As much at a time as the session lets in; what
/// comes from one phone in its order, for the first final word about a message counts.
pub(super) async fn take_all(inner: Arc<Inner>, mut told: UnboundedReceiver<News<Key>>) {
    let desks: Vec<UnboundedSender<Delivery>> = (0..DESKS).map(|_| desk(&inner)).collect();
    while let Some(news) = told.recv().await {
        match news {
            News::Delivery(delivery) => {
                let phone = delivery.message().source.value.as_bytes();
                let sum: usize = phone.iter().map(|octet| usize::from(*octet)).sum();
                // One that is dropped goes back to the centre.
                if let Some(desk) = desks.get(sum % DESKS) {
                    let _gone = desk.send(delivery);
                }
            }
            News::AnsweredLate { key, outcome } => Arc::clone(&inner).answered_late(key, outcome),
        }
    }
}

/// Serves one phone after the other.
fn desk(inner: &Arc<Inner>) -> UnboundedSender<Delivery> {
    let (desk, mut brought) = unbounded_channel();
    let inner = Arc::clone(inner);
    task::spawn(async move {
        while let Some(delivery) = brought.recv().await {
            take(&inner, delivery).await;
        }
    });
    desk
}

async fn take(inner: &Inner, delivery: Delivery) {
    let taken = match Told::of(delivery.message()) {
        Some(told) => inner.report(delivery.message(), told).await,
        None => inner.door.part(inner.part_of(delivery.message())).await,
    };
    match taken {
        Ok(()) => delivery.acknowledge(),
        Err(NotNow) => delivery.refuse(Status::RX_T_APPN),
    }
}

impl Inner {
    async fn report(&self, message: &Message, told: Told) -> Result<(), NotNow> {
        // One that names no message leads nowhere, and is kept and counted as such.
        let id = told.message_id.filter(is_usable);
        let form = id_form(self.settings.message_id);
        let found = id.map(|id| message_id::candidates(&id, form));
        let (likely, guessed) = found.map(|found| (found.likely, found.guessed)).unzip();
        let network_error = told.network_error.map(|error| error.code.to_string());
        let receipt = Receipt {
            hint: None,
            carrier: self.name.clone(),
            echo: None,
            provider_id: likely,
            fate: fate(told.state),
            error: told.error.and_then(|error| code_of(&error.to_string())).or(network_error),
        };
        // A receipt comes from where the message went to (SMPP 3.4 §2.11).
        let number = digits(&message.source.value.to_string());
        let guess = |it: message_id::Guess| Guess { setting: word(it.form), provider_id: it.key };
        let guesses = guessed.into_iter().flatten().map(guess).collect();
        self.door.guess(receipt, Guesses { guesses, number }).await
    }

    /// What a phone wrote. Octets that are no text are shown, so that nothing is lost in silence.
    fn part_of(&self, message: &Message) -> InboundPart {
        let body = message.body();
        let header = message.esm_class.has_header().then(|| UserDataHeader::parse(&body)).flatten();
        let octets = body.get(header.map_or(0, |header| header.octets)..).unwrap_or_default();
        let by_header = header.and_then(|header| header.concatenation).map(|part| {
            let kind = format!("udh{:?}", part.kind);
            (format!("{kind}{}", part.reference), part.number, part.total)
        });
        let by_fields = message.sar();
        let by_fields =
            by_fields.map(|part| (format!("sar{}", part.reference), part.number, part.total));
        let named = message.tlvs.get(tag::USER_MESSAGE_REFERENCE);
        let alone = || (named.map(|name| format!("{name:?}")).unwrap_or_default(), 1, 1);
        let (reference, number, total) = by_header.or(by_fields).unwrap_or_else(alone);
        let alphabet = Alphabet::of(message.data_coding);
        // A part may begin or end with half a letter.
        let words = match alphabet {
            Alphabet::Ucs2 if total > 1 => Some(ucs2::decode_part(octets)),
            _ => alphabet.decode(octets),
        };
        let is_words = words.is_some();
        let text = words.unwrap_or_else(|| format!("[binary] {}", hex(octets)));
        let sender = address(&message.source);
        let recipient = address(&message.destination);
        let raw = json!({
            "protocol": "smpp",
            "source_addr": sender, "destination_addr": recipient,
            "esm_class": message.esm_class.0, "data_coding": message.data_coding,
            "part": number, "parts": total,
        });
        let message = Inbound {
            carrier: self.name.clone(),
            upstream_id: String::new(),
            channel: Channel::Sms,
            account_id: None,
            sender,
            recipient,
            text,
            is_words,
            button: None,
            context: None,
            received_at: self.now(),
            raw,
        };
        InboundPart { message, reference, number, total }
    }

    /// An answer came that nobody waits for any more.
    fn answered_late(self: Arc<Self>, key: Key, outcome: Outcome) {
        let (fate, provider_id, error) = match (Verdict::of(&self.settings, outcome), key.place) {
            (Verdict::Accepted(id), Place::Whole) => {
                (Fate::Sent, Some(id).filter(|id| !id.is_empty()), None)
            }
            // Nothing else of it went out.
            (Verdict::Refused(class, code), Place::Whole | Place::First) => {
                (Fate::Refused(class), None, Some(code))
            }
            // Of another part, nothing follows for the message.
            _ => return,
        };
        let Key { account_id, attempt_id, .. } = key;
        let (carrier, echo) = (self.name.clone(), Some(Echo { account_id, attempt_id }));
        self.bring(Receipt { carrier, echo, hint: None, provider_id, fate, error });
    }

    /// A part was refused for good while others went out: the message does not arrive.
    pub(super) fn tell_undelivered(&self, message: &Outbound, code: String) {
        let Outbound { account_id, attempt_id, .. } = message.clone();
        let receipt = Receipt {
            hint: None,
            carrier: self.name.clone(),
            echo: Some(Echo { account_id, attempt_id }),
            provider_id: None,
            fate: Fate::Failed(Refusal::Undelivered),
            error: Some(code),
        };
        self.bring(receipt);
    }

    /// Brings a receipt of our own until it is taken.
    fn bring(&self, receipt: Receipt) {
        let (door, clock) = (self.door.clone(), self.clock.clone());
        task::spawn(async move {
            for _ in 0..TRIES {
                if door.receipt(receipt.clone()).await.is_ok() {
                    return;
                }
                clock.tick(PAUSE_MS).await;
            }
        });
    }
}

/// Whether an id can be kept and looked up.
fn is_usable(id: &COctets) -> bool {
    (1..=MOST_ID_OCTETS).contains(&id.as_bytes().len())
}

/// What a state means. `UNKNOWN` says nothing, so the message stays as it is.
const fn fate(state: MessageState) -> Fate {
    match state {
        MessageState::Delivered => Fate::Delivered,
        MessageState::Expired => Fate::Failed(Refusal::Expired),
        MessageState::Undeliverable | MessageState::Deleted | MessageState::Skipped => {
            Fate::Failed(Refusal::Undelivered)
        }
        MessageState::Rejected => Fate::Failed(Refusal::Permanent),
        MessageState::Scheduled
        | MessageState::Enroute
        | MessageState::Accepted
        | MessageState::Unknown => Fate::Sent,
    }
}

/// `+` and digits where the centre says that it is international (SMPP 3.4 §5.2.5).
fn address(address: &::smpp::Address) -> String {
    let value = address.value.to_string();
    let is_number = !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit());
    if address.ton == 1 && is_number { format!("+{value}") } else { value }
}

fn digits(text: &str) -> String {
    text.chars().filter(char::is_ascii_digit).collect()
}
