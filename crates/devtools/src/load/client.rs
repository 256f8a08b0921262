//! One client of the load: take a turn, make the request, note how it went.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::Result;

use super::{Args, Workload, pacer::Pacer, tally::Tally};
use crate::{
    api::{self, Api, Send},
    chance::{self, Chance},
    numbers::Numbers,
    stopwatch,
    wire::{Conn, Reply},
};

/// How long behind the end an overloaded open loop is drained.
const DRAIN: Duration = Duration::from_secs(10);

/// One segment.
const SMS: &str = "Your parcel arrives today between 2 and 4 pm.";

/// What all clients share.
#[derive(Debug)]
pub(crate) struct Shared {
    /// Where and as whom.
    pub(crate) api: Api,
    /// The nodes that clients spread over.
    pub(crate) addresses: Vec<String>,
    /// The recipients.
    pub(crate) numbers: Numbers,
    /// The seed of codes and choices.
    pub(crate) seed: u64,
    /// Ids of prefilled challenges; index = send index.
    pub(crate) filled: Vec<Box<str>>,
    /// Operations that begin earlier are warm-up.
    pub(crate) measure_from: Instant,
    /// When a closed loop ends.
    pub(crate) stop_at: Instant,
    /// The closed loop's next operation.
    pub(crate) next: AtomicU64,
    /// The open loop's schedule.
    pub(crate) pacer: Option<Pacer>,
    /// The figures.
    pub(crate) tally: Mutex<Tally>,
    /// The options of the run.
    pub(crate) args: Args,
}

/// A rendered operation and what its answer should be.
struct Step {
    expect: &'static [u16],
    /// Set for a send of the mixed workload: its index.
    sent: Option<u64>,
}

/// What the mixed workload does next with its latest challenge.
#[derive(Default)]
struct Own {
    index: u64,
    id: Option<String>,
    verified: bool,
}

/// Runs client number `at` to the end of the run.
///
/// # Errors
/// When a request cannot be rendered.
pub(crate) async fn drive(shared: Arc<Shared>, at: u64) -> Result<()> {
    let node = usize::try_from(at)? % shared.addresses.len().max(1);
    let mut conn = Conn::new(shared.addresses.get(node).unwrap_or(&shared.api.address));
    let mut out = Vec::with_capacity(512);
    let mut own = Own::default();
    while let Some((turn, intended)) = take_turn(&shared).await {
        let measured = intended >= shared.measure_from;
        if shared.pacer.is_some() && stopwatch::now() > shared.stop_at + DRAIN {
            note(&shared, |tally| tally.unsent(intended.elapsed()));
            continue;
        }
        let Some(step) = render(&shared, &mut out, turn, &mut own)? else {
            note(&shared, |tally| tally.exhausted = true);
            break;
        };
        let answer = conn.call(&out).await;
        let latency = stopwatch::now().saturating_duration_since(intended);
        if let (Some(index), Ok(reply)) = (step.sent, &answer) {
            own = remember(index, reply);
        }
        if measured {
            note(&shared, |tally| match &answer {
                Ok(reply) if step.expect.contains(&reply.status) => tally.answered(latency),
                Ok(reply) => tally.refused(reply),
                Err(error) => tally.broken(error, latency),
            });
        }
    }
    Ok(())
}

async fn take_turn(shared: &Shared) -> Option<(u64, Instant)> {
    if let Some(pacer) = &shared.pacer {
        return pacer.turn().await;
    }
    let now = stopwatch::now();
    (now < shared.stop_at).then(|| (shared.next.fetch_add(1, Ordering::Relaxed), now))
}

fn note(shared: &Shared, change: impl FnOnce(&mut Tally)) {
    if let Ok(mut tally) = shared.tally.lock() {
        change(&mut tally);
    }
}

fn remember(index: u64, reply: &Reply) -> Own {
    let id = api::challenge(&reply.body).filter(|_| reply.status == 200);
    Own { index, id: id.map(|challenge| challenge.id), verified: false }
}

/// Renders the operation of `turn`; `None` when the prefilled challenges are used up.
fn render(shared: &Shared, out: &mut Vec<u8>, turn: u64, own: &mut Own) -> Result<Option<Step>> {
    let filled = shared.filled.len() as u64;
    match shared.args.workload {
        Workload::Send | Workload::Prompt => {
            render_send(shared, out, filled + turn, false).map(Some)
        }
        Workload::Mixed => render_mixed(shared, out, filled + turn, own).map(Some),
        Workload::Sms => render_sms(shared, out, turn, None).map(Some),
        Workload::Bulk => render_sms(shared, out, turn, Some("bulk".to_owned())).map(Some),
        Workload::Email => render_email(shared, out, turn).map(Some),
        Workload::Verify => {
            let index = if shared.args.wrong { turn.checked_rem(filled) } else { Some(turn) };
            let Some((index, id)) = index.and_then(|index| filled_at(shared, index)) else {
                return Ok(None);
            };
            let right = chance::code(shared.seed, index);
            if shared.args.wrong {
                let wrong = chance::wrong_code(&right, turn / filled.max(1));
                shared.api.verify(out, index, id, &wrong)?;
                return Ok(Some(Step { expect: &[422, 410], sent: None }));
            }
            shared.api.verify(out, index, id, &right)?;
            Ok(Some(Step { expect: &[200], sent: None }))
        }
        Workload::Status => {
            let index = Chance::new(shared.seed, turn).below(filled);
            let Some((index, id)) = filled_at(shared, index) else { return Ok(None) };
            shared.api.get(out, index, &format!("/v1/otp/{id}"))?;
            Ok(Some(Step { expect: &[200], sent: None }))
        }
        Workload::Callback => {
            let Some((_, body)) = filled_at(shared, turn) else { return Ok(None) };
            let secret = &shared.args.app_secret;
            let signature = playground::cloud_api::signature(secret, body.as_bytes());
            let header = format!("X-Hub-Signature-256: {signature}");
            shared.api.post(out, "/v1/upstream/chatapp", Some(&header), body.as_bytes())?;
            Ok(Some(Step { expect: &[200], sent: None }))
        }
        Workload::Get => {
            let to = shared.numbers.plain(turn);
            let path = shared.args.path.replace("{to}", to.trim_start_matches('+'));
            shared.api.get(out, 0, &path)?;
            Ok(Some(Step { expect: &[200, 202], sent: None }))
        }
        Workload::Livez => render_get(shared, out, "/livez").map(Some),
        Workload::Hello => render_get(shared, out, "/").map(Some),
    }
}

fn filled_at(shared: &Shared, index: u64) -> Option<(u64, &str)> {
    let id = shared.filled.get(usize::try_from(index).ok()?)?;
    Some((index, id))
}

fn render_send(shared: &Shared, out: &mut Vec<u8>, index: u64, own_code: bool) -> Result<Step> {
    let code = own_code.then(|| chance::code(shared.seed, index));
    let mode = shared.args.delivery_mode.clone();
    let mut send = send_request(&shared.numbers, index, code, mode);
    send.request_messaging_consent = shared.args.no_consent.then_some(false);
    shared.api.send(out, index, &send, None)?;
    Ok(Step { expect: &[200], sent: own_code.then_some(index) })
}

fn render_sms(
    shared: &Shared,
    out: &mut Vec<u8>,
    index: u64,
    class: Option<String>,
) -> Result<Step> {
    let to = shared.numbers.plain(index);
    let send = Send { to, text: Some(SMS.to_owned()), class, ..Send::default() };
    shared.api.send(out, index, &send, None)?;
    Ok(Step { expect: &[200], sent: None })
}

fn render_email(shared: &Shared, out: &mut Vec<u8>, index: u64) -> Result<Step> {
    let to = format!("ada+{}-{index}@example.com", shared.seed);
    let (subject, text) = (Some("Your order".to_owned()), Some(SMS.to_owned()));
    shared.api.send(out, index, &Send { to, subject, text, ..Send::default() }, None)?;
    Ok(Step { expect: &[200], sent: None })
}

fn render_get(shared: &Shared, out: &mut Vec<u8>, path: &str) -> Result<Step> {
    shared.api.get(out, 0, path)?;
    Ok(Step { expect: &[200], sent: None })
}

fn render_mixed(shared: &Shared, out: &mut Vec<u8>, index: u64, own: &mut Own) -> Result<Step> {
    let Some(id) = own.id.take() else { return render_send(shared, out, index, true) };
    if own.verified {
        shared.api.get(out, own.index, &format!("/v1/otp/{id}"))?;
    } else {
        shared.api.verify(out, own.index, &id, &chance::code(shared.seed, own.index))?;
        own.verified = true;
        own.id = Some(id);
    }
    Ok(Step { expect: &[200], sent: None })
}

/// A send to the recipient of `index`.
pub(crate) fn send_request(
    numbers: &Numbers,
    index: u64,
    code: Option<String>,
    delivery_mode: Option<String>,
) -> Send {
    Send { to: numbers.plain(index), code, delivery_mode, ..Send::default() }
}
