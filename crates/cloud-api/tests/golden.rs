//! What goes over the wire, file by file: requests as they are written, answers and callbacks with
//! what is read out of them. `BLESS=1` writes the expectations anew; a change of them is a change
//! of the wire.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fmt::Debug;
use std::path::{Path, PathBuf};

use cloud_api::answer;
use cloud_api::business::{self, Declaration, Lifetime};
use cloud_api::callback;
use cloud_api::message::{Content, Message, Template, encode};
use cloud_api::template::{Button, Category};
use serde_json::Value;

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

/// Compares with a file, or writes it.
fn is_golden(file: &Path, found: &str) {
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(file, found).unwrap();
    }
    let expected = std::fs::read_to_string(file).unwrap_or_default();
    assert_eq!(found, expected, "{}", file.display());
}

fn is_request(name: &str, body: &Value) {
    let text = serde_json::to_string_pretty(body).unwrap() + "\n";
    is_golden(&folder("requests").join(format!("{name}.json")), &text);
}

/// Reads each file of a folder with this ending; answers how many there are.
fn each<T: Debug>(of: &str, ending: &str, read: fn(&str) -> T) -> usize {
    let files = std::fs::read_dir(folder(of)).unwrap().map(|file| file.unwrap().path());
    let inputs: Vec<PathBuf> =
        files.filter(|file| file.extension().is_some_and(|found| found == ending)).collect();
    for input in &inputs {
        let found = read(&std::fs::read_to_string(input).unwrap());
        is_golden(&input.with_extension("txt"), &format!("{found:#?}\n"));
    }
    inputs.len()
}

#[test]
fn messages_are_written_so() {
    let sent = |content| encode(&Message { to: "+16505551234", echo: "acc_1 att_1", content });
    is_request("text", &sent(Content::Text("Bonjour, ça va ?\n\"Oui\"")));
    let buttons = [("c1:x:y", "Oui"), ("c1:x:n", "Non")];
    is_request("question", &sent(Content::Question { text: "Pouvons-nous ?", buttons: &buttons }));
    let (name, language, code) = ("verification_code", "en_US", "123456");
    is_request("passcode", &sent(Content::Passcode { name, language, code }));
    let template = Template {
        name: "bienvenue",
        language: "fr",
        params: &["Ana", "12"],
        payloads: &["", "c1:x:y"],
        components: &[],
    };
    is_request("template", &sent(Content::Template(template)));
}

#[test]
fn templates_are_declared_and_changed_so() {
    let buttons = [
        Button::Url { text: "Voir".into(), url: "https://ex.test/c/{{1}}".into() },
        Button::QuickReply { text: "STOP".into() },
    ];
    let utility = Declaration {
        name: "bienvenue",
        language: "fr",
        category: Category::Utility,
        body: "Bonjour {{1}}, votre commande {{2}} est prête.",
        footer: Some("Estafette"),
        buttons: &buttons,
        lifetime: Lifetime::new(300, 20),
    };
    is_request("declare_utility", &business::declare(&utility));
    let passcode = Declaration {
        name: "verification_code",
        category: Category::Authentication,
        body: "",
        footer: None,
        buttons: &[],
        ..utility
    };
    is_request("declare_passcode", &business::declare(&passcode));
    is_request("edit_passcode", &business::edit(&passcode));
}

#[test]
fn answers_are_read_so() {
    let read = |text: &str| {
        let (status, body) = text.split_once('\n').unwrap();
        answer::decode(status.parse().unwrap(), body.as_bytes())
    };
    assert!(each("answers", "http", read) >= 12);
}

#[test]
fn callbacks_are_read_so() {
    let read = |text: &str| callback::decode(text.as_bytes(), 0).map(|read| read.items);
    assert!(each("callbacks", "json", read) >= 12);
}
