//! Talks with the receiving side.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::sync::Mutex;
use std::time::Duration;

use smtp::server::{Bounds, Desk, Letter, Verdict, serve};
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tokio::time::{Instant, sleep};

const BOUNDS: Bounds = Bounds {
    patience: Duration::from_secs(30),
    session: Duration::from_mins(5),
    message_bytes: 100_000,
    recipients: 2,
    commands: 500,
};

#[derive(Default)]
struct Tray(Mutex<Vec<Letter>>);

impl Desk for Tray {
    async fn knows(&self, recipient: &str) -> Option<bool> {
        (recipient != "later@b.example").then_some(recipient == "a@b.example")
    }

    async fn take(&self, letter: Letter) -> Verdict {
        self.0.lock().unwrap().push(letter);
        Verdict::Taken
    }
}

/// Says pieces with a pause between them; answers what was heard, and after how long it ended.
async fn heard(tray: &Tray, pieces: &[&str], pause: Duration) -> (String, Duration) {
    let (mut client, server) = duplex(1_000_000);
    let began = Instant::now();
    let talk = async {
        for piece in pieces {
            // The server may be gone.
            if client.write_all(piece.as_bytes()).await.is_err() {
                break;
            }
            sleep(pause).await;
        }
        let mut heard = String::new();
        client.read_to_string(&mut heard).await.unwrap();
        heard
    };
    let (heard, ()) = tokio::join!(talk, serve(server, "me", BOUNDS, tray));
    (heard, began.elapsed())
}

#[tokio::test(start_paused = true)]
async fn a_message_is_taken_with_its_dots() {
    let tray = Tray::default();
    let talk = "EHLO x\r\nMAIL FROM:<>\r\nRCPT TO:<a@b.example>\r\n\
        RCPT TO:<later@b.example>\r\nRCPT TO:<c@d.example>\r\n\
        DATA\r\nSubject: x\r\n\r\n..\r\n..x\r\ny.\r\n.\r\nQUIT\r\n";
    let (said, _) = heard(&tray, &[talk], Duration::ZERO).await;
    assert!(
        said.ends_with(
            "451 4.3.0 come back later\r\n550 5.1.1 no such address\r\n\
        354 go on, and end with a dot\r\n\
        250 2.0.0 taken\r\n221 2.0.0 bye\r\n"
        ),
        "{said}"
    );
    let [letter] = tray.0.lock().unwrap().clone().try_into().unwrap();
    assert_eq!((letter.sender.as_str(), letter.recipients.len()), ("", 1));
    assert_eq!(letter.message, b"Subject: x\r\n\r\n.\r\n.x\r\ny.\r\n");
}

#[tokio::test(start_paused = true)]
async fn a_line_of_any_length_ends_before_the_final_dot() {
    for length in 65_530..65_540 {
        let tray = Tray::default();
        let talk = format!(
            "EHLO x\r\nMAIL FROM:<>\r\nRCPT TO:<a@b.example>\r\nDATA\r\n{}\r\n.\r\nQUIT\r\n",
            "x".repeat(length)
        );
        let (said, _) = heard(&tray, &[&talk], Duration::ZERO).await;
        assert!(said.ends_with("250 2.0.0 taken\r\n221 2.0.0 bye\r\n"), "{length}: {said}");
        let [letter] = tray.0.lock().unwrap().clone().try_into().unwrap();
        assert_eq!(letter.message.len(), length + 2);
    }
}

#[tokio::test(start_paused = true)]
async fn who_is_slow_is_cut_off() {
    let tray = Tray::default();
    let silent = heard(&tray, &["EHLO x\r\n"], Duration::from_mins(10)).await.0;
    assert!(silent.ends_with("421 4.4.2 too slow\r\n"), "{silent}");
    // A word every 20 seconds is quick enough for each command, and too slow for all of it.
    let (dripping, _) = heard(&tray, &["NOOP\r\n"; 30], Duration::from_secs(20)).await;
    let answers = dripping.matches("250 2.0.0 ok").count();
    assert!((14..=16).contains(&answers), "{answers} of 30 in five minutes");
    let head = "EHLO x\r\nMAIL FROM:<>\r\nRCPT TO:<a@b.example>\r\nDATA\r\n";
    let (stuck, _) = heard(&tray, &[head, "half a line"], Duration::from_mins(10)).await;
    assert!(stuck.ends_with("421 4.4.2 too slow\r\n"), "it may come again: {stuck}");
    let large = format!("{head}{}\r\n.\r\n", "x".repeat(100_001));
    let (large, _) = heard(&tray, &[&large], Duration::ZERO).await;
    assert!(large.ends_with("552 5.3.4 too large\r\n"), "{large}");
    assert!(tray.0.lock().unwrap().is_empty());
}
