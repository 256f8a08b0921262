//! Nanoseconds that a text of 160 characters takes: to be counted and cut, and to be encoded.
//! `cargo run --release -p sms-text --example pace`

#![expect(clippy::print_stdout, reason = "its output is the result")]

use std::hint::black_box;
use std::time::Instant;

use sms_text::{Reference, Segments};

/// Few enough to fit between two preemptions; the best of many such bursts counts.
const ROUNDS: u32 = 500;

#[expect(clippy::disallowed_methods, reason = "measures the machine")]
fn timed(what: &str, mut work: impl FnMut()) {
    let best = (0..2_000).map(|_| {
        let start = Instant::now();
        (0..ROUNDS).for_each(|_| work());
        start.elapsed() / ROUNDS
    });
    println!("{what}: {} ns", best.min().unwrap_or_default().as_nanos());
}

fn main() {
    let texts = [
        ("GSM-7, 160 characters", "Your code is 123456. ".repeat(8)[..160].to_owned()),
        ("GSM-7, 459 characters", "a".repeat(459)),
        ("UCS-2, 160 characters", "Привет, это код. ".chars().cycle().take(160).collect()),
    ];
    for (what, text) in &texts {
        let text: &str = text;
        timed(&format!("{what}, cut"), || {
            black_box(Segments::of(black_box(text), Reference::Octet).ok());
        });
        let mut octets = Vec::with_capacity(2_000);
        timed(&format!("{what}, cut and encoded"), || {
            octets.clear();
            if let Ok(segments) = Segments::of(black_box(text), Reference::Octet) {
                segments.parts().for_each(|part| part.encode_into(&mut octets));
            }
            black_box(&octets);
        });
    }
}
