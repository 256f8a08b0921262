//! How the centre behaves where the destination asks for nothing: set at the start, and changed
//! over HTTP while it runs. The names are those of `scripts/smsc_peer.js`.

use clock::{Clock, Millis};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use smpp::{BindKind, Status};

/// How the centre behaves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SmscOptions {
    /// What every login's password has to be; `None` = any.
    #[serde(skip)]
    pub password: Option<String>,
    /// How many messages it remembers.
    #[serde(skip)]
    pub keep: usize,
    /// How ids are written.
    #[serde(rename = "idFormat")]
    pub ids: IdStyle,
    /// How long after the answer a receipt comes, milliseconds.
    #[serde(rename = "dlrDelay")]
    pub receipt_ms: i64,
    /// What receipts are written in.
    #[serde(rename = "dlr")]
    pub receipts: ReceiptForm,
    /// How long an answer takes, milliseconds.
    #[serde(rename = "respDelay")]
    pub answer_ms: i64,
    /// Sessions of one login; 0 = no limit.
    pub max_binds: usize,
    /// Whether only transmitters and receivers may bind, as with some carriers.
    pub pairs_only: bool,
    /// Messages a second of a session, above which it throttles; 0 = no limit.
    pub tps: u32,
    /// The share of messages that are throttled, 0 to 1.
    pub throttle_rate: f64,
    /// The share that fails with a system error.
    pub sysfail_rate: f64,
    /// The share for which the queue is full.
    pub queue_full_rate: f64,
    /// The share that is taken and never answered.
    pub no_resp_rate: f64,
    /// The connection is cut at every so many messages, instead of an answer; 0 = never.
    pub drop_every: u64,
}

impl Default for SmscOptions {
    fn default() -> Self {
        Self {
            password: None,
            keep: 1_000,
            ids: IdStyle::Decimal,
            receipt_ms: 500,
            receipts: ReceiptForm::Both,
            answer_ms: 0,
            max_binds: 0,
            pairs_only: false,
            tps: 0,
            throttle_rate: 0.0,
            sysfail_rate: 0.0,
            queue_full_rate: 0.0,
            no_resp_rate: 0.0,
            drop_every: 0,
        }
    }
}

/// How a centre writes the ids of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum IdStyle {
    /// In decimal.
    #[serde(rename = "dec")]
    Decimal,
    /// In hexadecimal.
    #[serde(rename = "hex")]
    Hexadecimal,
    /// Answers in hexadecimal, receipts in decimal.
    #[serde(rename = "hexdec")]
    Mixed,
    /// Answers in decimal, receipts in hexadecimal.
    #[serde(rename = "dechex")]
    Reversed,
}

/// What a receipt is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ReceiptForm {
    /// Text and fields.
    Both,
    /// Text alone.
    Text,
    /// Fields alone.
    Tlv,
    /// There are no receipts.
    None,
}

impl SmscOptions {
    /// The same with what is given in their place.
    ///
    /// # Errors
    /// What of it is not known, or no value for it.
    pub(super) fn changed(&self, given: Value) -> Result<Self, String> {
        let Value::Object(given) = given else { return Err("must be an object".to_owned()) };
        let mut all = serde_json::to_value(self).map_err(|error| error.to_string())?;
        if let Value::Object(all) = &mut all {
            all.extend(given);
        }
        let new: Self = serde_json::from_value(all).map_err(|error| error.to_string())?;
        let rates = [
            ("throttleRate", new.throttle_rate),
            ("sysfailRate", new.sysfail_rate),
            ("queueFullRate", new.queue_full_rate),
            ("noRespRate", new.no_resp_rate),
        ];
        if let Some((name, _)) = rates.iter().find(|(_, rate)| !(0.0..=1.0).contains(rate)) {
            return Err(format!("{name} must be 0 to 1"));
        }
        let delays = [("dlrDelay", new.receipt_ms), ("respDelay", new.answer_ms)];
        if let Some((name, _)) = delays.iter().find(|(_, delay_ms)| *delay_ms < 0) {
            return Err(format!("{name} must not be negative"));
        }
        Ok(Self { password: self.password.clone(), keep: self.keep, ..new })
    }

    /// Why a bind of this kind is refused, beside so many of its login.
    pub(super) fn refuses_bind(&self, kind: BindKind, beside: usize) -> Option<Status> {
        if self.pairs_only && kind == BindKind::Transceiver {
            return Some(Status::RBINDFAIL);
        }
        (self.max_binds > 0 && beside >= self.max_binds).then_some(Status::RALYBND)
    }

    /// Why a message is refused by chance.
    pub(super) fn fails(&self, clock: &Clock) -> Option<Status> {
        let shares = [
            (self.throttle_rate, Status::RTHROTTLED),
            (self.sysfail_rate, Status::RSYSERR),
            (self.queue_full_rate, Status::RMSGQFUL),
        ];
        shares.into_iter().find_map(|(share, status)| happens(clock, share).then_some(status))
    }

    /// Whether a message that was taken stays unanswered by chance.
    pub(super) fn is_silent(&self, clock: &Clock) -> bool {
        happens(clock, self.no_resp_rate)
    }
}

/// Whether something happens that has this chance.
fn happens(clock: &Clock, share: f64) -> bool {
    const ALL: u32 = 1_000_000;
    let drawn = u32::try_from(clock.below(ALL.into())).unwrap_or(0);
    f64::from(drawn) < share * f64::from(ALL)
}

/// How fast a session may submit: what is above is throttled.
#[derive(Debug)]
pub(super) struct Meter {
    tokens: f64,
    at: Millis,
}

impl Meter {
    pub(super) const fn new(now: Millis) -> Self {
        Self { tokens: 1.0, at: now }
    }

    /// Whether one more is above the rate.
    pub(super) fn is_full(&mut self, tps: u32, now: Millis) -> bool {
        if tps == 0 {
            return false;
        }
        let tps = f64::from(tps);
        let passed = u32::try_from(now - self.at).unwrap_or(0);
        self.tokens = (self.tokens + f64::from(passed) * tps / 1_000.0).min((tps / 10.0).max(1.0));
        self.at = now;
        if self.tokens < 1.0 {
            return true;
        }
        self.tokens -= 1.0;
        false
    }
}
