//! Everything that becomes part of a header, with what would begin another one.

use serde_json::{Value, json};

use super::{FROM, mail, mailbox, send, until};
use crate::on_every_engine;
use crate::world::World;
use crate::world::tenant::Tenant;

on_every_engine!(no_field_of_an_email_adds_a_header_or_a_recipient,);

/// Who must never get anything.
const EVIL: &str = "evil@example.net";

/// What tries to end a header and begin another, a recipient or a body.
fn payloads() -> Vec<String> {
    let breaks = [
        "\r\n",
        "\n",
        "\r",
        "\n\r",
        "\r\n\r\n",
        "\r\n ",
        "\n\t",
        "\0\r\n",
        "\u{b}",
        "\u{c}",
        "\u{85}",
        "\u{2028}",
        "\u{10a}",
        "%0d%0a",
        "\\r\\n",
        "=?utf-8?q?=0D=0A?=",
        "=0D=0A",
        "\u{0}",
    ];
    breaks.iter().map(|line_break| format!("{line_break}Bcc: {EVIL}")).collect()
}

/// One email for each place where a payload can be.
fn emails(payload: &str) -> Vec<Value> {
    let with = |name: &str, value: Value| {
        let mut body = mail("ada@example.com");
        body[name] = value;
        body
    };
    let file = |name: &str, kind: &str| {
        with("attachments", json!([{"filename": name, "content": "eA==", "content_type": kind}]))
    };
    let named = |name: String| with("headers", json!({name: "x"}));
    vec![
        with("subject", json!(format!("Hello{payload}"))),
        with("from_email", json!(format!("Shop{payload} <shop@sandbox.estafette.test>"))),
        with("from_email", json!(format!("shop{payload}@sandbox.estafette.test"))),
        with("from_email", json!(format!("{FROM}{payload}"))),
        with("to", json!([format!("Ada{payload} <ada@example.com>")])),
        with("to", json!([format!("ada@example.com{payload}")])),
        with("cc", json!([format!("Ada{payload} <ada@example.com>")])),
        with("cc", json!([format!("ada{payload}@example.com")])),
        with("bcc", json!([format!("ada@example.com{payload}")])),
        with("reply_to", json!(format!("Ada{payload} <ada@example.com>"))),
        with("reply_to", json!(format!("ada@example.com{payload}"))),
        with("headers", json!({"X-Order": format!("7{payload}")})),
        named(format!("X-Order{payload}")),
        named(format!("X-Order: 7{payload}")),
        file(&format!("bill{payload}.txt"), "text/plain"),
        file("bill.txt", &format!("text/plain{payload}")),
        file("bill.txt", &format!("text/plain; name=x{payload}")),
    ]
}

/// The names of the headers of the newest email that ada got.
async fn names(ada: &Tenant<'_>) -> Vec<String> {
    let mails = mailbox(ada, "ada@example.com").await;
    let headers = mails[0]["headers"].as_array().unwrap();
    let name = |header: &Value| header["name"].as_str().unwrap().to_ascii_lowercase();
    let mut names: Vec<String> = headers.iter().map(name).collect();
    names.sort();
    names
}

async fn no_field_of_an_email_adds_a_header_or_a_recipient(world: &World) {
    let ada = world.account("ada").await;
    // What is added as it should be is seen.
    let mut good = mail("ada@example.com");
    good["headers"] = json!({"X-Order": "7"});
    good["reply_to"] = json!("ada@example.com");
    good["cc"] = json!(["bob@example.com"]);
    let sent = send(&ada, good).await.ok();
    until(&ada, sent.word("id"), "delivered").await;
    let all = names(&ada).await;
    for name in ["x-order", "reply-to", "cc"] {
        assert!(all.iter().any(|known| known == name), "{all:?}");
    }
    let (mut tried, mut refused) = (0, 0);
    for body in payloads().iter().flat_map(|payload| emails(payload)) {
        tried += 1;
        let answer = send(&ada, &body).await;
        if answer.status != 200 {
            assert_eq!((answer.status, answer.word("code")), (422, "validation_failed"), "{body}");
            refused += 1;
            continue;
        }
        until(&ada, answer.word("id"), "delivered").await;
        for name in names(&ada).await {
            assert!(all.contains(&name) || name.starts_with("content-"), "{name}: {body}");
        }
        let newest = mailbox(&ada, "ada@example.com").await.swap_remove(0);
        let text = newest["text"].as_str().unwrap();
        assert_eq!(text.trim(), "It arrives today.", "{body}");
    }
    assert!(tried >= 200 && refused >= tried / 2, "{refused} of {tried}");
    assert!(mailbox(&ada, EVIL).await.is_empty());
}
