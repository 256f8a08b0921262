//! What a send takes: fields and their faults, and headers that nobody can add to.

use serde_json::{Value, json};

use super::{FROM, mail, mailbox, send, until};
use crate::on_every_engine;
use crate::world::World;

on_every_engine!(
    every_fault_of_an_email_is_named,
    no_field_adds_a_header_or_a_recipient,
    a_key_needs_the_scope_of_email,
    files_come_as_base64_is_printed,
    what_is_said_of_a_fault_is_true,
    white_space_around_a_header_is_no_part_of_it,
);

async fn every_fault_of_an_email_is_named(world: &World) {
    let ada = world.account("ada").await;
    let nothing = send(&ada, json!({})).await.problem("validation_failed");
    for pointer in ["/from_email", "/to", "/subject", "/text"] {
        assert_eq!(nothing.item(pointer).as_deref(), Some("required"), "{}", nothing.text);
    }
    let bad = json!({
        "to": ["nobody", "ada@example.com", "Ada <a@b>"], "cc": "carl@example.com",
        "from_email": "shop", "reply_to": "x", "subject": "a\nb", "text": 5, "reference": "",
        "headers": {"Bcc": "x@example.com", "X A": "b", "X-B": "a\r\nc", "X-C": 5},
        "attachments": [
            {"filename": "a/b", "content": "!", "content_type": "multipart/mixed", "inline": true},
            {},
            "a.txt",
        ],
        "colour": "red",
    });
    let refused = send(&ada, bad).await.problem("validation_failed");
    for (pointer, code) in [
        ("/to/0", "invalid_email"),
        ("/to/2", "invalid_email"),
        ("/cc", "invalid_type"),
        ("/from_email", "invalid_email"),
        ("/reply_to", "invalid_email"),
        ("/subject", "invalid_type"),
        ("/text", "invalid_type"),
        ("/reference", "too_short"),
        ("/headers/Bcc", "invalid_type"),
        ("/headers/X A", "invalid_type"),
        ("/headers/X-B", "invalid_type"),
        ("/headers/X-C", "invalid_type"),
        ("/attachments/0/filename", "invalid_type"),
        ("/attachments/0/content", "invalid_type"),
        ("/attachments/0/content_type", "invalid_type"),
        ("/attachments/0/inline", "unknown_field"),
        ("/attachments/1/filename", "required"),
        ("/attachments/1/content", "required"),
        ("/attachments/2", "invalid_type"),
    ] {
        assert_eq!(refused.item(pointer).as_deref(), Some(code), "{pointer}: {}", refused.text);
    }
    let with = |name: &str, value: Value| {
        let mut body = mail("ada@example.com");
        body[name] = value;
        body
    };
    send(&ada, with("colour", json!("red"))).await.fault("/colour", "unknown_field");
    for several in ["Ann <ann@example.com>, Bob <bob@example.com>", "a@b.example <c@d.example>"] {
        send(&ada, with("to", json!([several]))).await.fault("/to/0", "invalid_email");
        send(&ada, with("reply_to", json!(several))).await.fault("/reply_to", "invalid_email");
    }
    // A name that readers decode, and nobody else has read.
    let hidden = "=?utf-8?Q?no-reply=40mail.example?= <shop@sandbox.estafette.test>";
    send(&ada, with("from_email", json!(hidden))).await.fault("/from_email", "invalid_email");
    send(&ada, with("text", json!(""))).await.fault("/text", "required");
    let half = send(&ada, json!({"to": [], "from_email": "zz", "subject": "s"})).await;
    let half = half.fault("/to", "too_short").fault("/from_email", "invalid_email");
    half.fault("/text", "required");
    send(&ada, with("to", json!([]))).await.fault("/to", "too_short");
    send(&ada, with("to", json!(null))).await.fault("/to", "required");
    let many: Vec<String> = (0..30).map(|number| format!("a{number}@example.com")).collect();
    let mut body = with("to", json!(many));
    body["cc"] = json!(many);
    send(&ada, body).await.fault("/to", "too_long");
    let many: Vec<String> = (0..900).map(|number| format!("a{number}@example.com")).collect();
    send(&ada, with("to", json!(many))).await.fault("/to", "too_long");
    send(&ada, with("html", json!("x".repeat(2 * 1024 * 1024 + 1))))
        .await
        .fault("/html", "too_long");
}

/// The corpus of crates/email shows each check; this shows that every field has one.
async fn no_field_adds_a_header_or_a_recipient(world: &World) {
    let ada = world.account("ada").await;
    for line_break in ["\r\n", "\n", "\r", "\u{85}"] {
        let attack = format!("x{line_break}Bcc: evil@example.com");
        for (name, value) in [
            ("to", json!([format!("{attack} <ada@example.com>")])),
            ("cc", json!([format!("ada@example.com{attack}")])),
            ("bcc", json!([attack.clone()])),
            ("from_email", json!(format!("{attack} <shop@sandbox.estafette.test>"))),
            ("reply_to", json!(format!("{attack} <ada@example.com>"))),
            ("subject", json!(attack)),
            ("headers", json!({"X-A": attack})),
            ("headers", json!({attack.clone(): "x"})),
            ("attachments", json!([{"filename": attack, "content": ""}])),
            ("attachments", json!([{"filename": "a", "content": "", "content_type": attack}])),
        ] {
            let mut body = mail("ada@example.com");
            body[name] = value;
            send(&ada, body).await.problem("validation_failed");
        }
    }
    // In what is said they are only words.
    let mut body = mail("ada@example.com");
    body["text"] = json!("x\r\n.\r\nMAIL FROM:<a@b.example>\r\n\r\nBcc: evil@example.com");
    body["html"] = body["text"].clone();
    let sent = send(&ada, body).await.ok();
    until(&ada, sent.word("id"), "delivered").await;
    assert_eq!(mailbox(&ada, "ada@example.com").await.len(), 1);
    assert!(mailbox(&ada, "evil@example.com").await.is_empty());
}

async fn a_key_needs_the_scope_of_email(world: &World) {
    let ada = world.account("ada").await;
    let key = ada.new_key("sms", &["sms:send", "account:read"]).await;
    let call =
        |path: &str| world.post(ada.env, path).key(key.word("api_key")).json(mail("a@b.example"));
    for path in ["/v1/emails", "/v1/emails/bulk"] {
        let refused = call(path).await.problem("insufficient_scope");
        assert!(refused.word("detail").contains("email:send"));
    }
    let body = json!({"from_email": FROM});
    ada.desk("POST", "/v1/emails").json(body).await.problem("missing_credentials");
}

async fn files_come_as_base64_is_printed(world: &World) {
    let ada = world.account("ada").await;
    for content in ["aGVsbG8gd29ybGQ=", "aGVsbG8gd29ybGQ", "aGVsbG8g\r\nd29y\nbGQ=\n"] {
        let mut body = mail("ada@example.com");
        body["attachments"] = json!([{"filename": "a.txt", "content": content}]);
        let sent = send(&ada, &body).await.ok();
        until(&ada, sent.word("id"), "delivered").await;
        let got = mailbox(&ada, "ada@example.com").await;
        assert_eq!(got[0]["attachments"][0]["size"], 11, "{content:?}: {}", got[0]);
    }
    let mut body = mail("ada@example.com");
    body["attachments"] = json!([{"filename": "a.txt", "content": "aGV*"}]);
    let refused = send(&ada, &body).await.problem("validation_failed");
    assert_eq!(refused.item("/attachments/0/content").as_deref(), Some("invalid_type"));
}

async fn what_is_said_of_a_fault_is_true(world: &World) {
    let ada = world.account("ada").await;
    let nul = "Must not contain the NUL character.";
    let controls = "control characters";
    for (name, pointer, value, said) in [
        ("to", "/to/0", json!(["ada\0@example.com"]), nul),
        ("from_email", "/from_email", json!("shop\0@example.com"), nul),
        ("reply_to", "/reply_to", json!("shop\0@example.com"), nul),
        ("subject", "/subject", json!("a\0b"), nul),
        ("text", "/text", json!("a\0b"), nul),
        ("html", "/html", json!("a\0b"), nul),
        ("reference", "/reference", json!("a\0b"), nul),
        ("headers", "/headers/X-A", json!({"X-A": "a\0b"}), controls),
        (
            "attachments",
            "/attachments/0/filename",
            json!([{"filename": "a\0b", "content": ""}]),
            controls,
        ),
        (
            "attachments",
            "/attachments/0/content",
            json!([{"filename": "a", "content": "aGVs\0"}]),
            "Must be base64",
        ),
        (
            "attachments",
            "/attachments/0/content_type",
            json!([{"filename": "a", "content": "", "content_type": "message/rfc822"}]),
            "neither multipart/* nor message/*",
        ),
    ] {
        let mut body = mail("ada@example.com");
        body[name] = value;
        let refused = send(&ada, body).await.problem("validation_failed");
        let all = refused.field("errors").as_array().unwrap();
        let [fault] = all.as_slice() else { panic!("{name}: one fault: {}", refused.text) };
        assert_eq!(fault["pointer"], pointer, "{}", refused.text);
        assert!(fault["detail"].as_str().unwrap().contains(said), "{}", refused.text);
    }
}

async fn white_space_around_a_header_is_no_part_of_it(world: &World) {
    let ada = world.account("ada").await;
    let mut body = mail("ada@example.com");
    body["headers"] = json!({"X-Order": "\t 4711 b ", "X-Two": "a  b"});
    let sent = send(&ada, body).await.ok();
    until(&ada, sent.word("id"), "delivered").await;
    let got = mailbox(&ada, "ada@example.com").await;
    let headers = got[0]["headers"].as_array().unwrap();
    let value = |name: &str| {
        let found = headers.iter().find(|header| header["name"] == name).unwrap();
        found["value"].as_str().unwrap().trim().to_owned()
    };
    assert_eq!(value("X-Order"), "4711 b", "not encoded");
}
