//! Reports as mail servers write them.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use email::report::{Action, Feedback, Report, read, without_addresses};
use email::status::{Bounce, bounce};
use proptest::prelude::*;

const DSN: &str = "From: MAILER-DAEMON@mx.example.org (Mail Delivery System)\r\n\
Subject: Undelivered Mail Returned to Sender\r\n\
To: bounce+x@rp.example.com\r\n\
MIME-Version: 1.0\r\n\
Content-Type: multipart/report; report-type=delivery-status;\r\n\
\tboundary=\"ABC.1/mx.example.org\"\r\n\
\r\n\
--ABC.1/mx.example.org\r\n\
Content-Description: Notification\r\n\
Content-Type: text/plain; charset=us-ascii\r\n\
\r\n\
I'm sorry to have to inform you.\r\n\
--ABC.1/mx.example.org\r\n\
Content-Description: Delivery report\r\n\
Content-Type: message/delivery-status\r\n\
\r\n\
Reporting-MTA: dns; mx.example.org\r\n\
X-Postfix-Queue-ID: 123\r\n\
\r\n\
Final-Recipient: rfc822; hard@example.org\r\n\
Original-Recipient: rfc822;Hard@example.org\r\n\
Action: failed\r\n\
Status: 5.1.1\r\n\
Remote-MTA: dns; mx2.example.org\r\n\
Diagnostic-Code: smtp; 550 5.1.1 <hard@example.org>:\r\n\
\x20   no such user\r\n\
\r\n\
Final-Recipient: rfc822; <slow@example.org>\r\n\
Action: delayed\r\n\
Status: 4.4.1\r\n\
\r\n\
--ABC.1/mx.example.org\r\n\
Content-Type: message/rfc822\r\n\
\r\n\
Subject: the message\r\n\
\r\n\
text\r\n\
--ABC.1/mx.example.org--\r\n";

const ARF: &str = "From: fbl@example.org\r\n\
MIME-Version: 1.0\r\n\
Content-Type: multipart/report; report-type=feedback-report; boundary=\"b\"\r\n\
\r\n\
--b\r\n\
Content-Type: text/plain\r\n\
\r\n\
A complaint.\r\n\
--b\r\n\
Content-Type: message/feedback-report\r\n\
\r\n\
Feedback-Type: abuse\r\n\
User-Agent: Loop/1.0\r\n\
Version: 1\r\n\
Original-Mail-From: <bounce+x@rp.example.com>\r\n\
Original-Rcpt-To: <ada@example.org>\r\n\
\r\n\
--b\r\n\
Content-Type: message/rfc822\r\n\
\r\n\
Subject: x\r\n\
\r\n\
--b--\r\n";

#[test]
fn a_report_of_postfix_names_each_recipient() {
    for text in [DSN.to_owned(), DSN.replace("\r\n", "\n")] {
        let Some(Report::Delivery(outcomes)) = read(text.as_bytes()) else { unreachable!() };
        let [hard, slow] = outcomes.as_slice() else { unreachable!("{outcomes:?}") };
        assert_eq!((hard.recipient.as_str(), hard.action), ("Hard@example.org", Action::Failed));
        assert_eq!(hard.diagnostic, "550 5.1.1 <hard@example.org>: no such user");
        assert_eq!(bounce(550, hard.status), Bounce::Hard);
        assert_eq!((slow.recipient.as_str(), slow.action), ("slow@example.org", Action::Delayed));
    }
}

#[test]
fn a_complaint_says_whose_message_it_is_about() {
    let found = read(ARF.as_bytes()).unwrap();
    let expected = Report::Complaint {
        feedback: Feedback::Unwanted,
        recipient: Some("ada@example.org".into()),
        return_path: Some("bounce+x@rp.example.com".into()),
    };
    assert_eq!(found, expected);
    for (kind, meant) in [
        ("Fraud", Feedback::Unwanted),
        ("not-spam", Feedback::Other),
        ("auth-failure", Feedback::Other),
        ("virus", Feedback::Other),
        ("opt-out-list", Feedback::Other),
        ("other", Feedback::Other),
    ] {
        let text = ARF.replace("Feedback-Type: abuse", &format!("Feedback-Type: {kind}"));
        let Some(Report::Complaint { feedback, .. }) = read(text.as_bytes()) else {
            panic!("{kind}")
        };
        assert_eq!(feedback, meant, "{kind}");
    }
}

#[test]
fn a_report_that_contradicts_itself_says_nothing() {
    for (action, status, counts) in [
        ("failed", "5.1.1", true),
        ("failed", "4.4.7", true),
        ("failed", "2.0.0", false),
        ("delivered", "2.1.5", true),
        ("delivered", "5.1.1", false),
    ] {
        let one = DSN.split("Final-Recipient: rfc822; <slow@").next().unwrap_or_default();
        let text =
            one.replace("failed", action).replace("Status: 5.1.1", &format!("Status: {status}"));
        let text = format!("{text}--ABC.1/mx.example.org--\r\n");
        assert_eq!(read(text.as_bytes()).is_some(), counts, "{action} {status}");
    }
}

#[test]
fn what_is_no_report_is_none() {
    for text in ["", "Subject: x\r\n\r\nhello", "\0\0\0", &DSN.replace("Action:", "Auction:")] {
        assert_eq!(read(text.as_bytes()), None, "{text}");
    }
}

#[test]
fn a_report_of_any_form_ends_soon() {
    // Parts in parts, and lines without end.
    let nested = "Content-Type: multipart/report; boundary=b\r\n\r\n--b\r\n".repeat(2_000);
    let long = DSN.replace("no such user", &"x".repeat(1_000_000));
    assert_eq!(read(nested.as_bytes()), None);
    let Some(Report::Delivery(outcomes)) = read(long.as_bytes()) else { unreachable!() };
    assert_eq!(outcomes[0].diagnostic.len(), 300);
}

/// A megabyte each, of which a parser that goes back makes minutes, or a stack that is too deep.
#[test]
fn a_letter_that_is_made_to_hurt_is_no_report() {
    let letters = "Content-Type:message/rfc822\n\n".repeat(36_000);
    let within = |encoding: &str, letters: &str| {
        let head = "Content-Type: message/rfc822\r\nContent-Transfer-Encoding: ";
        format!("{head}{encoding}\r\n\r\n{letters}")
    };
    let part = "--a\nContent-Type:multipart/x;boundary=zz\n\n".repeat(25_000);
    let names = (0..90_000).fold(String::new(), |names, name| names + &format!("a{name}*1=x;"));
    let bad = [
        letters.clone(),
        within("base64", &STANDARD.encode(&letters)),
        within("quoted-printable", &letters),
        format!("Subject: {}\r\n\r\n", "=?aa?q?x".repeat(130_000)),
        format!("Content-Type: multipart/x; boundary=a\n\n{part}"),
        format!("Content-Type: x/y;{names}\n\n"),
        format!("Content-Type: multipart/report; boundary=a\n\n{}", "--a\n\n".repeat(200_000)),
    ];
    // Control: a report may be as long.
    let long = format!("{}\r\n", DSN.trim_end()).replace(
        "--ABC.1/mx.example.org--",
        &format!(
            "--ABC.1/mx.example.org\r\nContent-Type: message/rfc822\r\n\r\n{}\r\n\
         --ABC.1/mx.example.org--",
            "x\r\n".repeat(300_000)
        ),
    );
    assert!(long.len() > 900_000 && read(long.as_bytes()).is_some());
    // As a thread of the service has it.
    let stack = std::thread::Builder::new().stack_size(2 << 20);
    let (tell, told) = std::sync::mpsc::channel();
    let reading = stack.spawn(move || {
        let all_are_none = bad.iter().all(|letter| read(letter.as_bytes()).is_none());
        tell.send(all_are_none)
    });
    let read = told.recv_timeout(Duration::from_secs(30));
    assert_eq!(read, Ok(true), "minutes, where it goes back");
    reading.unwrap().join().unwrap().unwrap();
}

#[test]
fn what_servers_say_is_kept_without_addresses() {
    for (said, kept) in [
        ("550 5.1.1 <ada@b.example>: no such user", "550 5.1.1 <address>: no such user"),
        ("ada@b.example (was bob@c.example) moved", "address (was address) moved"),
        ("452 4.2.2 mailbox full", "452 4.2.2 mailbox full"),
        ("x \u{e9}@\u{e9}.example,", "x address,"),
        ("", ""),
    ] {
        assert_eq!(without_addresses(said), kept);
    }
}

#[test]
fn a_complaint_that_quotes_the_message_names_its_return_path() {
    let quoted = ARF
        .replace("Original-Mail-From: <bounce+x@rp.example.com>\r\n", "")
        .replace("Subject: x\r\n", "Return-Path: <bounce+y@rp.example.com>\r\nSubject: x\r\n");
    for text in [quoted.clone(), quoted.replace("message/rfc822", "text/rfc822-headers")] {
        let Some(Report::Complaint { return_path, .. }) = read(text.as_bytes()) else {
            unreachable!("{text}")
        };
        assert_eq!(return_path.as_deref(), Some("bounce+y@rp.example.com"), "{text}");
    }
}

proptest! {
    #[test]
    fn nothing_that_comes_in_stops_the_reader(
        bytes in prop::collection::vec(any::<u8>(), 0..2_000),
        place in 0..DSN.len(),
        cut in 0..DSN.len(),
        is_complaint in any::<bool>(),
    ) {
        let _garbage = read(&bytes);
        let report = if is_complaint { ARF } else { DSN }.as_bytes();
        let (place, cut) = (place.min(report.len()), cut.min(report.len()));
        let broken = [&report[..place], &bytes, &report[place.max(cut)..]].concat();
        if let Some(Report::Delivery(outcomes)) = read(&broken) {
            for outcome in outcomes {
                prop_assert!(outcome.diagnostic.chars().count() <= 300);
                prop_assert!(!without_addresses(&outcome.diagnostic).contains('@'));
            }
        }
    }
}
