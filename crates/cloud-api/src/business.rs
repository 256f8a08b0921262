//! The business account: templates are declared there, listed and judged.

use std::ops::RangeInclusive;

use serde_json::{Value, json};

use crate::answer::{Class, classify, of_status};
use crate::contents::{self, Contents};
use crate::template::{Button, Category, language, variables};

/// A template of the same name and language is there.
const EXISTS: i64 = 2_388_024;
/// There is no template of an id and name.
pub const NOT_FOUND: i64 = 2_593_002;
/// Seconds after which the upstream may drop a passcode that did not arrive.
const PASSCODE_TTL_S: RangeInclusive<i64> = 30..=900;
/// Minutes that may be said below a passcode.
const PASSCODE_MINUTES: RangeInclusive<i64> = 1..=90;
/// Longest sentence of the upstream's that is kept, characters.
const LONGEST_DETAIL: usize = 300;

/// A template to declare.
#[derive(Clone, Copy, Debug)]
pub struct Declaration<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its language.
    pub language: &'a str,
    /// What it is for.
    pub category: Category,
    /// What it says; the text of one that carries a passcode is the upstream's own.
    pub body: &'a str,
    /// A line below.
    pub footer: Option<&'a str>,
    /// Its buttons.
    pub buttons: &'a [Button],
    /// How long the passcode that it carries is good; nothing else heeds it.
    pub lifetime: Lifetime,
}

/// How long a passcode is good, and for how long the upstream tries to deliver it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetime {
    /// Said below the code, minutes.
    pub minutes: i64,
    /// After that it is not delivered any more, seconds.
    pub ttl_s: i64,
}

impl Lifetime {
    /// The nearest that the upstream takes.
    #[must_use]
    pub fn new(validity_s: i64, ttl_s: i64) -> Self {
        let (minutes, ttls) = (PASSCODE_MINUTES, PASSCODE_TTL_S);
        Self {
            minutes: (validity_s / 60).clamp(*minutes.start(), *minutes.end()),
            ttl_s: ttl_s.clamp(*ttls.start(), *ttls.end()),
        }
    }
}

/// The body of `POST /{waba_id}/message_templates`. Every variable has an example: without, the
/// upstream refuses it.
#[must_use]
pub fn declare(declaration: &Declaration<'_>) -> Value {
    let mut body = json!({
        "name": declaration.name, "language": declaration.language,
        "category": declaration.category.as_str(),
        "components": components(declaration),
    });
    if declaration.category == Category::Authentication {
        body["message_send_ttl_seconds"] = declaration.lifetime.ttl_s.into();
    }
    body
}

/// The body of `POST /{template_id}`, which puts another lifetime in the place of a passcode's.
#[must_use]
pub fn edit(declaration: &Declaration<'_>) -> Value {
    let (components, ttl_s) = (components(declaration), declaration.lifetime.ttl_s);
    json!({ "components": components, "message_send_ttl_seconds": ttl_s })
}

fn components(declaration: &Declaration<'_>) -> Vec<Value> {
    if declaration.category == Category::Authentication {
        let copy = if declaration.language.starts_with("fr") { "Copier" } else { "Copy" };
        return vec![
            json!({ "type": "BODY", "add_security_recommendation": true }),
            json!({ "type": "FOOTER", "code_expiration_minutes": declaration.lifetime.minutes }),
            json!({ "type": "BUTTONS", "buttons": [
                { "type": "OTP", "otp_type": "COPY_CODE", "text": copy },
            ] }),
        ];
    }
    let mut text = json!({ "type": "BODY", "text": declaration.body });
    let count = variables(declaration.body).unwrap_or(0);
    if count > 0 {
        let examples: Vec<String> = (1..=count).map(|number| format!("exemple {number}")).collect();
        text["example"] = json!({ "body_text": [examples] });
    }
    let mut parts = vec![text];
    parts.extend(declaration.footer.map(|footer| json!({ "type": "FOOTER", "text": footer })));
    if !declaration.buttons.is_empty() {
        let buttons: Vec<Value> = declaration.buttons.iter().map(button).collect();
        parts.push(json!({ "type": "BUTTONS", "buttons": buttons }));
    }
    parts
}

fn button(button: &Button) -> Value {
    let mut value = serde_json::to_value(button).unwrap_or_default();
    if let Button::Url { url, .. } = button
        && url.contains("{{")
    {
        value["example"] = json!(["1"]);
    }
    value
}

/// What became of a declaration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Declared {
    /// The upstream has it.
    Taken(Listed),
    /// It has one of this name and language.
    Exists,
    /// It does not take it.
    Refused {
        /// What to do about it.
        class: Class,
        /// Its number, for support.
        code: String,
        /// Its own sentence.
        detail: String,
    },
    /// Nobody can tell.
    Unclear,
}

/// A template as the upstream lists it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listed {
    /// Its id.
    pub id: String,
    /// Its name; empty in the answer to a declaration.
    pub name: String,
    /// Its language, with an underscore; empty in the answer to a declaration.
    pub language: String,
    /// The upstream's word for how it stands.
    pub status: String,
    /// What it is for, where it is one of the three. The upstream may have changed it.
    pub category: Option<Category>,
    /// Why it was rejected.
    pub reason: Option<String>,
    /// What it is made of, where the upstream was asked. One that carries a passcode has the
    /// upstream's own text.
    pub contents: Contents,
    /// Of one that carries a passcode: [`Lifetime::minutes`], where the upstream says it.
    pub minutes: Option<i64>,
    /// And [`Lifetime::ttl_s`].
    pub ttl_s: Option<i64>,
}

impl Listed {
    /// Whether a passcode in it would live otherwise; what the upstream does not say is as wanted.
    #[must_use]
    pub fn differs_from(&self, wanted: Lifetime) -> bool {
        let Lifetime { minutes, ttl_s } = wanted;
        self.minutes.is_some_and(|it| it != minutes) || self.ttl_s.is_some_and(|it| it != ttl_s)
    }

    /// Whether it says what another template says, however the upstream has set its spaces; what it
    /// does not tell is as wanted.
    #[must_use]
    pub fn says(&self, body: &str) -> bool {
        let is_same = |own: &String| own.split_whitespace().eq(body.split_whitespace());
        self.contents.body.as_ref().is_none_or(is_same)
    }

    /// Whether somebody deleted it: the upstream lists it for a while.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        matches!(self.status.as_str(), "DELETED" | "PENDING_DELETION")
    }

    /// Whether the upstream lets it be changed.
    #[must_use]
    pub fn is_editable(&self) -> bool {
        matches!(self.status.as_str(), "APPROVED" | "REJECTED" | "PAUSED")
    }
}

/// A page of templates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// What is on it.
    pub templates: Vec<Listed>,
    /// Where the next one begins.
    pub after: Option<String>,
}

/// Reads the answer to a declaration.
#[must_use]
pub fn read_declared(http: u16, body: &[u8]) -> Declared {
    let json: Option<Value> = serde_json::from_slice(body).ok();
    let error = json.as_ref().map(|json| &json["error"]).filter(|error| error.is_object());
    if let Some(error) = error {
        let code = error["code"].as_i64().unwrap_or_default();
        let number = error["error_subcode"].as_i64().unwrap_or(code);
        if code == EXISTS || number == EXISTS {
            return Declared::Exists;
        }
        let (class, detail) = (classify(code, http), sentence(error));
        return Declared::Refused { class, code: number.to_string(), detail };
    }
    let taken = json.as_ref().map(listed).filter(|listed| !listed.id.is_empty());
    match (http, taken) {
        (200..=299, Some(listed)) => Declared::Taken(listed),
        (200..=299 | 500..=599, _) => Declared::Unclear,
        _ => {
            let (class, code) = (of_status(http), http.to_string());
            Declared::Refused { class, code, detail: String::new() }
        }
    }
}

/// Reads the answer to an edit.
///
/// # Errors
/// Why nothing was changed, or may not have been, as the upstream says it.
pub fn read_edited(http: u16, body: &[u8]) -> Result<(), String> {
    let json: Value = serde_json::from_slice(body).unwrap_or_default();
    if http == 200 && json["success"] == true {
        return Ok(());
    }
    let said = Some(sentence(&json["error"])).filter(|said| !said.is_empty());
    Err(said.unwrap_or_else(|| format!("HTTP {http}")))
}

/// What became of a deletion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deleted {
    /// It is gone.
    Gone,
    /// The upstream has none of this id and name.
    Missing,
    /// It stays.
    Refused {
        /// The upstream's own sentence.
        detail: String,
    },
    /// Nobody can tell, or the upstream cannot now.
    Unclear,
}

/// Reads the answer to a deletion.
#[must_use]
pub fn read_deleted(http: u16, body: &[u8]) -> Deleted {
    let json: Option<Value> = serde_json::from_slice(body).ok();
    let error = json.as_ref().map(|json| &json["error"]).filter(|error| error.is_object());
    let Some(error) = error else {
        let is_done = json.is_some_and(|json| json["success"] == true);
        return if is_done && http == 200 { Deleted::Gone } else { Deleted::Unclear };
    };
    let code = error["code"].as_i64().unwrap_or_default();
    if error["error_subcode"] == NOT_FOUND || code == 132_001 {
        return Deleted::Missing;
    }
    match classify(code, http) {
        Class::Throttled | Class::PairThrottled | Class::Temporary | Class::Sender => {
            Deleted::Unclear
        }
        _ => Deleted::Refused { detail: sentence(error) },
    }
}

/// The upstream's own sentence for people.
fn sentence(error: &Value) -> String {
    let said = ["error_user_msg", "message"].into_iter().find_map(|name| error[name].as_str());
    said.unwrap_or_default().chars().take(LONGEST_DETAIL).collect()
}

/// Reads a page of templates; `None` = it is none.
#[must_use]
pub fn read_page(http: u16, body: &[u8]) -> Option<Page> {
    if !(200..300).contains(&http) {
        return None;
    }
    let json: Value = serde_json::from_slice(body).ok()?;
    let templates = json["data"].as_array()?.iter().map(listed).collect();
    let paging = &json["paging"];
    let after = paging["cursors"]["after"].as_str().filter(|_| paging["next"].is_string());
    Some(Page { templates, after: after.map(str::to_owned) })
}

fn listed(value: &Value) -> Listed {
    let word = |name: &str| value[name].as_str().unwrap_or_default().to_owned();
    let id = value["id"].as_i64().map_or_else(|| word("id"), |number| number.to_string());
    let reason = Some(word("rejected_reason")).filter(|it| !it.is_empty() && it != "NONE");
    let parts = value["components"].as_array().map_or(&[][..], Vec::as_slice);
    let minutes = |part: &Value| part["code_expiration_minutes"].as_i64();
    let category = Category::of(&word("category"));
    Listed {
        id,
        name: word("name"),
        language: language(&word("language")).unwrap_or_default(),
        status: word("status").to_ascii_uppercase(),
        category,
        reason,
        contents: contents::read(parts, category == Some(Category::Authentication)),
        minutes: parts.iter().find_map(minutes),
        ttl_s: value["message_send_ttl_seconds"].as_i64(),
    }
}

/// The contract's word for one of the upstream's, statuses and events alike; `None` = it says
/// nothing of whether the template can be sent.
#[must_use]
pub fn status(word: &str) -> Option<&'static str> {
    Some(match word {
        "APPROVED" | "REINSTATED" | "UNARCHIVED" => "APPROVED",
        "PENDING" | "IN_APPEAL" => "PENDING",
        "REJECTED" | "PAUSED" | "DISABLED" | "ARCHIVED" | "LIMIT_EXCEEDED" | "LOCKED"
        | "DELETED" | "PENDING_DELETION" => "REJECTED",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{
        Declaration, Declared, Deleted, Lifetime, declare, edit, read_declared, read_deleted,
        read_edited, read_page, status,
    };
    use crate::answer::Class;
    use crate::template::{Button, Category};

    #[test]
    fn a_template_is_declared_with_examples() {
        let buttons = [
            Button::Url { text: "Voir".into(), url: "https://ex.test/c/{{1}}".into() },
            Button::QuickReply { text: "STOP".into() },
        ];
        let body = declare(&Declaration {
            name: "bienvenue",
            language: "fr",
            category: Category::Utility,
            body: "Bonjour {{1}}, votre commande {{2}} est prête.",
            footer: Some("Estafette"),
            buttons: &buttons,
            lifetime: Lifetime::new(300, 300),
        });
        let expected = json!({"name": "bienvenue", "language": "fr", "category": "UTILITY",
            "components": [
                {"type": "BODY", "text": "Bonjour {{1}}, votre commande {{2}} est prête.",
                 "example": {"body_text": [["exemple 1", "exemple 2"]]}},
                {"type": "FOOTER", "text": "Estafette"},
                {"type": "BUTTONS", "buttons": [
                    {"type": "URL", "text": "Voir", "url": "https://ex.test/c/{{1}}",
                     "example": ["1"]},
                    {"type": "QUICK_REPLY", "text": "STOP"}]}]});
        assert_eq!(body, expected);
    }

    #[test]
    fn a_passcode_has_the_upstreams_own_text() {
        let declaration = Declaration {
            name: "otp",
            language: "fr",
            category: Category::Authentication,
            body: "preview",
            footer: None,
            buttons: &[],
            lifetime: Lifetime::new(300, 60),
        };
        let body = declare(&declaration);
        let expected = json!({"name": "otp", "language": "fr", "category": "AUTHENTICATION",
            "message_send_ttl_seconds": 60, "components": [
                {"type": "BODY", "add_security_recommendation": true},
                {"type": "FOOTER", "code_expiration_minutes": 5},
                {"type": "BUTTONS", "buttons": [
                    {"type": "OTP", "otp_type": "COPY_CODE", "text": "Copier"}]}]});
        assert_eq!(body, expected);
        let edit = edit(&Declaration { lifetime: Lifetime::new(600, 20), ..declaration });
        let (ttl_s, minutes) =
            (&edit["message_send_ttl_seconds"], &edit["components"][1]["code_expiration_minutes"]);
        assert_eq!((ttl_s, minutes), (&json!(30), &json!(10)), "30 s is the shortest there is");
        assert!(edit.get("name").is_none() && edit.get("category").is_none());
    }

    #[test]
    fn only_a_lifetime_that_is_said_can_differ() {
        let page = br#"{"data":[{"id":"1","name":"otp","language":"fr","status":"APPROVED",
            "message_send_ttl_seconds":60,"components":[{"type":"BODY"},
            {"type":"FOOTER","code_expiration_minutes":5}]},
            {"id":"2","name":"otp","language":"en","status":"PENDING"}]}"#;
        let page = read_page(200, page).unwrap().templates;
        assert!(!page[0].differs_from(Lifetime::new(300, 60)));
        assert!(page[0].differs_from(Lifetime::new(300, 30)));
        assert!(page[0].differs_from(Lifetime::new(600, 60)));
        assert!(!page[1].differs_from(Lifetime::new(600, 30)));
        assert!(page[0].is_editable() && !page[1].is_editable());
    }

    #[test]
    fn a_template_says_the_same_whatever_its_spaces() {
        let page = br#"{"data":[{"id":"1","name":"order","language":"fr","status":"APPROVED",
            "components":[{"type":"HEADER","format":"TEXT","text":"ACME"},
            {"type":"BODY","text":"Bonjour {{1}},\n\nc'est pr\u00eat. "}]},{"id":"2"}]}"#;
        let page = read_page(200, page).unwrap().templates;
        assert!(page[0].says("Bonjour {{1}}, c'est pr\u{ea}t."));
        assert!(!page[0].says("Bonjour {{1}}, c'est perdu.") && !page[0].says("ACME"));
        assert!(page[1].says("what it does not tell is as wanted"));
    }

    #[test]
    fn an_edit_is_done_or_says_why_not() {
        assert_eq!(read_edited(200, br#"{"success":true}"#), Ok(()));
        let kept = br#"{"error":{"code":100,"error_user_msg":"once a day"}}"#;
        assert_eq!(read_edited(400, kept), Err("once a day".to_owned()));
        assert_eq!(read_edited(502, b"<html>"), Err("HTTP 502".to_owned()));
    }

    #[test]
    fn a_deletion_is_done_or_not_and_what_is_gone_stays_gone() {
        assert_eq!(read_deleted(200, br#"{"success":true}"#), Deleted::Gone);
        let gone = br#"{"error":{"code":100,"error_subcode":2593002,"message":"x"}}"#;
        assert_eq!(read_deleted(400, gone), Deleted::Missing);
        let kept = br#"{"error":{"code":100,"message":"(#100) it is disabled"}}"#;
        let detail = "(#100) it is disabled".to_owned();
        assert_eq!(read_deleted(400, kept), Deleted::Refused { detail });
        for (http, body) in [(500, "<html>"), (200, "{}"), (401, r#"{"error":{"code":190}}"#)] {
            assert_eq!(read_deleted(http, body.as_bytes()), Deleted::Unclear, "{body}");
        }
    }

    #[test]
    fn answers_are_read() {
        let taken = br#"{"id":"1689556908129832","status":"PENDING","category":"MARKETING"}"#;
        let Declared::Taken(listed) = read_declared(200, taken) else { panic!("not taken") };
        assert_eq!(
            (listed.id.as_str(), listed.category),
            ("1689556908129832", Some(Category::Marketing))
        );
        let exists = br#"{"error":{"code":100,"error_subcode":2388024,"message":"x"}}"#;
        assert_eq!(read_declared(400, exists), Declared::Exists);
        let refused = br#"{"error":{"code":190,"message":"Invalid OAuth access token"}}"#;
        let Declared::Refused { class, .. } = read_declared(401, refused) else { panic!("taken") };
        assert_eq!(class, Class::Sender);
        for (http, body) in [(200, "{}"), (502, "<html>"), (200, "")] {
            assert_eq!(read_declared(http, body.as_bytes()), Declared::Unclear);
        }
        let page = br#"{"data":[{"id":"9","name":"x","language":"en-US","status":"approved",
            "category":"utility","rejected_reason":"NONE"}],
            "paging":{"cursors":{"before":"a","after":"b"},"next":"https://x"}}"#;
        let page = read_page(200, page).unwrap();
        assert_eq!(
            (page.after.as_deref(), page.templates[0].language.as_str()),
            (Some("b"), "en_US")
        );
        assert_eq!(
            (page.templates[0].status.as_str(), &page.templates[0].reason),
            ("APPROVED", &None)
        );
        assert!(read_page(500, b"{}").is_none() && read_page(200, b"x").is_none());
    }

    #[test]
    fn only_what_is_approved_can_be_sent() {
        for (word, meant) in [
            ("APPROVED", Some("APPROVED")),
            ("IN_APPEAL", Some("PENDING")),
            ("PAUSED", Some("REJECTED")),
            ("FLAGGED", None),
        ] {
            assert_eq!(status(word), meant, "{word}");
        }
    }
}
