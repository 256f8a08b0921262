//! A client to be driven line by line, for tests against foreign centres (`scripts/smpp`).
//! `cargo run -p smpp --example esme -- PORT [window] [segments per second] [response ms]
//! [enquire ms]` connects to 127.0.0.1 as `user` with `password`.
//!
//! In: `send KEY TO TEXT`, `close`. Out: `phase …`, `outcome KEY …`, `late KEY …`,
//! `receipt ID STATE ERROR`, `mobile FROM TO REFERENCE/NUMBER/TOTAL TEXT`. `\n` in texts is written
//! as two characters.

#![expect(clippy::print_stdout, reason = "its output is what it is for")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use clock::Clock;
use smpp::{
    Address, Bind, BindKind, Delivery, EsmClass, Lane, Link, LinkSettings, Message, News,
    Operation, Outcome, Place, Receipt, Submission,
};
use sms_text::{Alphabet, Concatenation, Encoding, Reference, Segments, UserDataHeader};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let numbers: Vec<u32> =
        std::env::args().skip(1).map(|text| text.parse()).collect::<Result<_, _>>()?;
    let number = |at: usize, otherwise| numbers.get(at).copied().unwrap_or(otherwise);
    let place = Place { host: "127.0.0.1".to_owned(), port: u16::try_from(number(0, 2775))? };
    let bind = Bind::new("user", "password");
    let mut settings = LinkSettings::new(place, BindKind::Transceiver, bind);
    settings.session.window = usize::try_from(number(1, 10))?;
    settings.segments_per_second = number(2, 0);
    settings.session.response_ms = i64::from(number(3, 10_000));
    settings.session.enquire_ms = i64::from(number(4, 30_000));

    let clock = Clock::system();
    let (link, mut news, runner) = Link::open(settings, clock.clone());
    let mut phase = link.phase();
    let running = tokio::spawn(runner.run());
    tokio::spawn(async move {
        while phase.changed().await.is_ok() {
            println!("phase {:?}", *phase.borrow_and_update());
        }
    });
    tokio::spawn(async move {
        while let Some(news) = news.recv().await {
            match news {
                News::Delivery(delivery) => show(delivery),
                News::AnsweredLate { key, outcome } => println!("late {key} {}", word(&outcome)),
            }
        }
    });
    let mut lines = lines();
    let references = Arc::new(AtomicU16::new(0));
    while let Some(line) = lines.recv().await {
        let mut words = line.splitn(4, ' ');
        let (command, key) = (words.next(), words.next().unwrap_or_default().to_owned());
        match (command, words.next(), words.next()) {
            (Some("send"), Some(to), Some(text)) => {
                let reference = references.fetch_add(1, Ordering::Relaxed);
                let text = text.replace("\\n", "\n");
                for part in parts(to, &text, reference) {
                    let (link, key) = (link.clone(), key.clone());
                    let submission = submission(key.clone(), part, &clock);
                    tokio::spawn(async move {
                        println!("outcome {key} {}", word(&link.submit(submission).await));
                    });
                    // In the order of the lines.
                    tokio::task::yield_now().await;
                }
            }
            (Some("close"), ..) => break,
            _ => println!("error {line}"),
        }
    }
    link.close().await;
    running.await?;
    println!("closed");
    Ok(())
}

fn submission(key: String, message: Message, clock: &Clock) -> Submission<String> {
    let (operation, expires_at) = (Operation::Submit, clock.now() + clock::MINUTE);
    Submission {
        key,
        owner: String::new(),
        operation,
        message,
        segments: 1,
        lane: Lane::Normal,
        follows: false,
        expires_at,
        valid_until: None,
    }
}

fn parts(to: &str, text: &str, reference: u16) -> Vec<Message> {
    let Ok(segments) = Segments::of(text, Reference::Octet) else { return vec![] };
    let total = u8::try_from(segments.count()).unwrap_or(u8::MAX);
    let data_coding = if segments.encoding() == Encoding::Gsm7 { 0x00 } else { 0x08 };
    let part = |(number, part): (u8, sms_text::Part<'_>)| {
        let mut octets = vec![];
        if total > 1 {
            let kind = Reference::Octet;
            Concatenation { kind, reference, total, number }.encode_into(&mut octets);
        }
        part.encode_into(&mut octets);
        Message {
            source: Address::alphanumeric("ACME"),
            destination: Address::international(to),
            esm_class: EsmClass(if total > 1 { EsmClass::UDHI } else { 0 }),
            registered_delivery: 1,
            data_coding,
            short_message: octets.into(),
            ..Message::default()
        }
    };
    (1..).zip(segments.parts()).map(part).collect()
}

fn word(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Accepted { message_id } => format!("accepted {message_id}"),
        Outcome::Refused { status } => format!("refused {status}"),
        Outcome::Unknown => "unknown".to_owned(),
        Outcome::NotSent(why) => format!("not-sent {why}"),
    }
}

fn show(delivery: Delivery) {
    let message = delivery.message();
    if let Some(receipt) = Receipt::of(message) {
        let id = receipt.message_id.map(|id| id.to_string()).unwrap_or_default();
        let error = receipt.error.map(|error| error.to_string()).unwrap_or_default();
        println!("receipt {id} {:?} {error}", receipt.state);
    } else {
        let body = message.body();
        let header = message.esm_class.has_header().then(|| UserDataHeader::parse(&body)).flatten();
        let text = body.slice(header.map_or(0, |header| header.octets)..);
        let text = Alphabet::of(message.data_coding).decode(&text).unwrap_or_default();
        let part = header.and_then(|header| header.concatenation);
        let part = part.map(|part| (part.reference, part.number, part.total));
        let sar = message.sar().map(|part| (part.reference, part.number, part.total));
        let (reference, number, total) = part.or(sar).unwrap_or((0, 1, 1));
        let (from, to) = (&message.source.value, &message.destination.value);
        println!("mobile {from} {to} {reference}/{number}/{total} {}", text.replace('\n', "\\n"));
    }
    delivery.acknowledge();
}

/// The lines of the standard input, read by a thread of its own.
fn lines() -> UnboundedReceiver<String> {
    let (line_is, lines) = unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            let _gone = line_is.send(line);
        }
    });
    lines
}
