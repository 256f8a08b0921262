//! Messages written and read again: what goes in comes out, and nothing else.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use email::compose::{HeaderError, check_header, compose, is_filename, is_media_type, is_value};
use email::read::{Message, read};
use email::{Attachment, Draft, Mailbox};
use proptest::prelude::{ProptestConfig, proptest};

fn mailbox(text: &str) -> Mailbox {
    Mailbox::parse(text).unwrap()
}

fn draft() -> Draft {
    Draft {
        from: mailbox("Büro <shop@bücher.example>"),
        to: vec![mailbox("Ada <ada@example.com>"), mailbox("bob@example.com")],
        cc: vec![mailbox("\"Last, First\" <cc@example.com>")],
        reply_to: Some(mailbox("help@example.com")),
        subject: "Grüße, 世界".into(),
        text: Some("Hello\nWörld".into()),
        html: Some("<p>Hello</p>".into()),
        headers: vec![("X-Order".into(), "4711 ü".into())],
        attachments: vec![Attachment {
            filename: "Rechnung März.pdf".into(),
            content_type: "application/pdf".into(),
            content: b"a\nb\0\xff".to_vec(),
        }],
        message_id: "01kdvqh6m4@example.com".into(),
        date_s: 1_767_225_600,
    }
}

fn through(draft: Draft) -> (String, Message) {
    let bytes = compose(draft);
    let message = read(&bytes).unwrap();
    (String::from_utf8(bytes).unwrap(), message)
}

#[test]
fn what_was_written_is_what_is_read() {
    let (raw, message) = through(draft());
    assert_eq!(message.from, "Büro <shop@xn--bcher-kva.example>");
    assert_eq!(message.to, ["Ada <ada@example.com>", "bob@example.com"]);
    assert_eq!(message.cc, ["Last, First <cc@example.com>"]);
    assert_eq!(message.reply_to.as_deref(), Some("help@example.com"));
    assert_eq!(message.subject, "Grüße, 世界");
    assert_eq!(
        message.text.as_deref().map(|text| text.replace('\r', "")),
        Some("Hello\nWörld".into())
    );
    assert_eq!(message.html.as_deref(), Some("<p>Hello</p>"));
    let file = &message.attachments[0];
    assert_eq!(
        (file.filename.as_str(), file.content_type.as_str()),
        ("Rechnung März.pdf", "application/pdf")
    );
    assert_eq!(file.content, b"a\nb\0\xff");
    assert!(raw.contains("Message-ID: <01kdvqh6m4@example.com>\r\n"), "{raw}");
    assert!(raw.contains("Date: Thu, 1 Jan 2026 00:00:00 +0000\r\n"), "{raw}");
    assert!(raw.is_ascii());
    assert!(!raw.replace("\r\n", "").contains(['\r', '\n']), "every line ends in CR LF");
    assert!(raw.lines().all(|line| line.len() <= 998));
    assert_eq!(compose(draft()), compose(draft()), "the same draft gives the same bytes");
}

#[test]
fn each_kind_of_body_is_written() {
    for (text, html) in [(Some("t"), None), (None, Some("<b>h</b>")), (Some("t"), Some("<b>h</b>"))]
    {
        for has_file in [false, true] {
            let mut draft = draft();
            draft.text = text.map(str::to_owned);
            draft.html = html.map(str::to_owned);
            draft.attachments.truncate(usize::from(has_file));
            let (raw, message) = through(draft);
            assert_eq!((message.text.as_deref(), message.html.as_deref()), (text, html), "{raw}");
            assert_eq!(message.attachments.len(), usize::from(has_file), "{raw}");
        }
    }
}

#[test]
fn a_carriage_return_of_its_own_ends_a_line_and_never_leaves_alone() {
    for said in ["a\rb", "a\r", "\r", "a\r\rb\r\n.\r", "é\rb"] {
        for rich in [false, true] {
            let mut draft = draft();
            let body = Some(said.to_owned());
            (draft.text, draft.html) = if rich { (None, body) } else { (body, None) };
            let (raw, message) = through(draft);
            assert!(!raw.replace("\r\n", "").contains(['\r', '\n']), "{said:?}: {raw:?}");
            let read = message.text.or(message.html).unwrap_or_default();
            let lines = |text: &str| text.replace("\r\n", "\n").replace('\r', "\n");
            assert_eq!(lines(&read).trim_end(), lines(said).trim_end());
        }
    }
}

#[test]
fn a_text_file_is_base64_whatever_is_in_it() {
    for (content, kind) in [
        (&b"a\rb"[..], "text/csv"),
        (b"x\r.\r\nMAIL FROM:<a@b.example>\r\n", "text/csv"),
        (b"\0\x01", "text/csv"),
        ("\u{e9}t\u{e9}\n".as_bytes(), "text/csv; charset=utf-8"),
        (b"\xe9t\xe9\n", "text/csv"),
    ] {
        let mut draft = draft();
        let file = Attachment {
            filename: "a.csv".into(),
            content_type: "text/csv".into(),
            content: content.to_vec(),
        };
        draft.attachments = vec![file];
        let (raw, message) = through(draft);
        assert!(!raw.replace("\r\n", "").contains(['\r', '\n', '\0']), "{raw:?}");
        assert!(raw.contains(&format!("Content-Type: {kind}\r\n")), "{raw}");
        // The reader takes a text for UTF-8.
        if std::str::from_utf8(content).is_ok() {
            assert_eq!(message.attachments[0].content, content);
        }
    }
}

#[test]
fn a_media_type_may_have_plain_parameters() {
    for good in ["text/csv; charset=utf-8", "text/calendar;method=REQUEST; charset=utf-8"] {
        assert!(is_media_type(good), "{good}");
    }
    for bad in [
        "text/plain; boundary=x",
        "text/plain; x=\"a\"",
        "text/plain;",
        "text/plain; x",
        "message/rfc822; x=y",
        "; charset=utf-8",
    ] {
        assert!(!is_media_type(bad), "{bad}");
    }
}

#[test]
fn a_link_is_no_encoded_word() {
    let link = format!("<https://shop.example/u/{}YWJj=?c=1>", "x".repeat(70));
    let mut draft = draft();
    draft.headers = vec![("List-Unsubscribe".into(), link.clone())];
    let (raw, _) = through(draft);
    assert!(raw.contains(&link), "{raw}");
    for word in ["=?utf-8?B?YWJj?=", "=?utf-8?B?YQ==?=", "=?utf-8?Q?x=?="] {
        for more in [String::new(), "x".repeat(80), "é".repeat(300)] {
            let value = format!("{word} {more}").trim().to_owned();
            let mut draft = self::draft();
            draft.headers = vec![("X-Word".into(), value.clone())];
            draft.subject.clone_from(&value);
            let (raw, read) = through(draft);
            assert!(!raw.replace("\r\n", "").contains(&value), "{raw}");
            assert!(raw.lines().all(|line| line.len() <= 78), "{raw}");
            assert_eq!(read.subject, value, "people read what was given");
        }
    }
}

/// What people put into fields to add headers or recipients of their own.
fn attacks() -> Vec<String> {
    let breaks =
        ["\r\n", "\n", "\r", "\r\n\r\n", "\0", "\u{b}", "\u{c}", "\u{85}", "%0d%0a\n", "\r\n "];
    let headers = [
        "Bcc: evil@example.com",
        "X-Injected: yes",
        "Content-Type: text/html",
        "To: evil@example.com",
        "DATA",
        ".",
        "MAIL FROM:<evil@example.com>",
        "From: ceo@example.com",
        "Subject: other",
        "DKIM-Signature: v=1",
    ];
    let mut all = vec![];
    for line_break in breaks {
        for header in headers {
            all.push(format!("x{line_break}{header}"));
            all.push(format!("{line_break}{header}{line_break}x"));
        }
    }
    assert!(all.len() >= 200);
    all
}

#[test]
fn no_attack_passes_any_field() {
    for attack in attacks() {
        assert!(!is_value(&attack), "{attack:?}");
        assert!(!is_filename(&attack), "{attack:?}");
        assert!(!is_media_type(&format!("text/{attack}")), "{attack:?}");
        assert_eq!(check_header("X-A", &attack), Err(HeaderError::Value), "{attack:?}");
        assert_eq!(check_header(&attack, "x"), Err(HeaderError::Name), "{attack:?}");
        for text in [
            attack.clone(),
            format!("{attack}@example.com"),
            format!("ada@{attack}.com"),
            format!("{attack} <ada@example.com>"),
            format!("\"{attack}\" <ada@example.com>"),
            format!("Ada <ada@example.com{attack}>"),
        ] {
            assert!(Mailbox::parse(&text).is_err(), "{text:?}");
        }
    }
}

#[test]
fn what_stands_in_a_body_stays_there() {
    for attack in attacks() {
        let mut draft = draft();
        draft.text = Some(attack.clone());
        draft.html = Some(attack.clone());
        let (raw, message) = through(draft);
        let plain = through(self::draft()).1;
        assert_eq!(message.headers.len(), plain.headers.len(), "{raw}");
        assert_eq!(message.to, plain.to);
        assert_eq!(message.attachments, plain.attachments);
    }
}

#[test]
fn headers_of_the_service_cannot_be_given() {
    for name in
        ["Bcc", "FROM", "dkim-signature", "Content-Type", "content-foo", "Message-ID", "Received"]
    {
        assert_eq!(check_header(name, "x"), Err(HeaderError::Ours), "{name}");
    }
    for name in ["X-Order", "In-Reply-To", "References", "List-Unsubscribe", "Auto-Submitted"] {
        assert_eq!(check_header(name, "x"), Ok(()), "{name}");
    }
    for name in ["", "X A", "X:A", "Ä", &"x".repeat(77)] {
        assert_eq!(check_header(name, "x"), Err(HeaderError::Name), "{name}");
    }
    assert_eq!(check_header("X-A", &"x".repeat(999)), Err(HeaderError::Value));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_text_survives(
        subject in "[^\\p{Cc}]{1,120}",
        text in "[^\\r\\x00]{0,400}",
        name in "[^\\p{Cc}<>\"\\\\]{1,40}",
    ) {
        let mut draft = draft();
        draft.subject.clone_from(&subject);
        draft.text = Some(text.clone());
        let name = Some(name.trim().to_owned()).filter(|name| !name.is_empty());
        draft.to = vec![Mailbox { name, ..mailbox("ada@example.com") }];
        let (raw, message) = through(draft);
        let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(squeezed(&message.subject), squeezed(&subject), "{raw}");
        assert_eq!(message.text.unwrap_or_default().replace('\r', ""), text, "{raw}");
        assert_eq!(message.to.len(), 1, "{raw}");
        assert!(message.to[0].contains("ada@example.com"), "{raw}");
    }
}

#[test]
fn what_a_header_points_to_stays_whole() {
    let url = format!("<https://shop.example/{}>", "x".repeat(800));
    let ids = ["<a@b.example>"; 20].join(" ");
    let given = [("List-Unsubscribe", url), ("References", ids)];
    let headers = given.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    let bytes = compose(Draft { headers, ..draft() });
    let text = String::from_utf8(bytes.clone()).unwrap();
    assert!(text.lines().all(|line| line.len() <= 998));
    let message = email::read::read(&bytes).unwrap();
    for (name, value) in given {
        let found = message.headers.iter().find(|(known, _)| known == name);
        assert_eq!(found.unwrap().1, value);
    }
}
