//! From request bodies to orders: every fault found and named.

use cloud_api::template;
use serde_json::Value;

use super::BillingMode;
use crate::app::App;
use crate::chatapp::sessions::prompts::PAYLOAD_PREFIX;
use crate::kit::body::{Element, Fields};
use crate::kit::msisdn::Msisdn;
use crate::kit::problem::Problem;
use crate::kit::problem_code::Code;

/// The language of templates where a request names none.
pub(in crate::chatapp) const DEFAULT_LANGUAGE: &str = "fr";
/// Longest text, characters: the upstream's own bound.
const LONGEST_TEXT: usize = 4096;
/// Most values of one template.
const MOST_PARAMS: usize = 200;
/// Longest of them, characters.
const LONGEST_PARAM: usize = 1024;
/// Most parts of one template.
const MOST_COMPONENTS: usize = 20;

/// A message to send, checked. No `Debug`: it holds what somebody is told.
pub(super) struct Order {
    pub(super) to: Msisdn,
    /// As the account says, else as the number does. The price goes by the number.
    pub(super) country: String,
    pub(super) what: What,
    pub(super) billing_mode: BillingMode,
    pub(super) reference: Option<String>,
    pub(super) client_id: Option<String>,
}

/// What is to be sent.
pub(super) enum What {
    Text(String),
    Template(Filled),
}

/// A template and what fills it.
pub(super) struct Filled {
    pub(super) name: String,
    pub(super) language: String,
    pub(super) provider_id: Option<String>,
    pub(super) params: Vec<String>,
    pub(super) components: Vec<Value>,
}

/// `POST /v1/chatapp/messages`.
pub(super) fn send(app: &App, body: &[u8]) -> Result<Order, Problem> {
    let mut fields = Fields::read(body)?;
    let to = fields.required("to").and_then(|text| match Msisdn::parse(&text) {
        Ok(number) => Some(number),
        Err(error) => {
            fields.fault("to", "invalid_phone_number", error.to_string());
            None
        }
    });
    let written = fields.text("text");
    let filled = filled(&mut fields);
    // Beside a template it is not sent.
    let text = written.filter(|_| filled.is_none());
    if let Some(text) = &text {
        check_text(&mut fields, text);
    }
    let is_silent = text.is_none() && filled.is_none();
    if is_silent && !fields.has_faults_of(&["text", "template_name"]) {
        let detail = "is required, unless template_name names a template";
        fields.fault("text", "text_or_template_required", detail);
    }
    let billing_mode = fields.required_word("billing_mode");
    let reference = fields.text_within("reference", 1, 128);
    let client_id = fields.text_within("client_id", 1, 128);
    let country = fields.text_within("country", 2, 2);
    if let (Some(country), Some(to)) = (&country, &to)
        && !to.may_be_of(country)
    {
        let detail = format!(
            "must be a country that shares the calling code of `to`, such as {}, or be left out",
            to.country()
        );
        fields.fault("country", "invalid_enum", detail);
    }
    fields.finish(app.is_strict())?;
    let what = match (filled, text) {
        (Some(filled), _) => What::Template(filled),
        (None, text) => What::Text(text.ok_or(Code::InternalError)?),
    };
    let to = to.ok_or(Code::InternalError)?;
    let billing_mode = billing_mode.ok_or(Code::InternalError)?;
    let country = country.unwrap_or_else(|| to.country().to_owned()).to_ascii_uppercase();
    Ok(Order { to, country, what, billing_mode, reference, client_id })
}

fn check_text(fields: &mut Fields, text: &str) {
    if text.trim().is_empty() {
        fields.fault("text", "too_short", "must not be blank");
    } else if text.chars().count() > LONGEST_TEXT {
        let detail = format!("must have at most {LONGEST_TEXT} characters");
        fields.fault("text", "too_long", detail);
    }
}

/// The template that a request names; all its fields are read in any case.
fn filled(fields: &mut Fields) -> Option<Filled> {
    let name = fields.text_within("template_name", 1, template::LONGEST_NAME);
    let language = template_language(fields, "template_language");
    let params = fields.texts("template_params", MOST_PARAMS).unwrap_or_default();
    for Element { index, text } in &params {
        if text.chars().count() > LONGEST_PARAM {
            let detail = format!("must have at most {LONGEST_PARAM} characters");
            fields.fault(&format!("template_params/{index}"), "too_long", detail);
        }
    }
    let provider_id = fields.text_within("template_id", 1, 128);
    let components = components(fields);
    Some(Filled {
        name: name?,
        language: language.unwrap_or_else(|| DEFAULT_LANGUAGE.to_owned()),
        provider_id,
        params: params.into_iter().map(|element| element.text).collect(),
        components,
    })
}

/// The language of a template, in the upstream's form; a fault where it is none.
pub fn template_language(fields: &mut Fields, name: &'static str) -> Option<String> {
    let text = fields.text_within(name, 2, 8)?;
    let language = template::language(&text);
    if language.is_none() {
        fields.fault(name, "invalid_enum", "must be a language code such as fr, en or en_US");
    }
    language
}

fn components(fields: &mut Fields) -> Vec<Value> {
    let items = match fields.take("components") {
        None => return Vec::new(),
        Some(Value::Array(items)) => items,
        Some(_) => {
            fields.fault("components", "invalid_type", "must be an array of objects");
            return Vec::new();
        }
    };
    if items.len() > MOST_COMPONENTS {
        let detail = format!("must have at most {MOST_COMPONENTS} elements");
        fields.fault("components", "too_long", detail);
    }
    for (index, item) in items.iter().enumerate() {
        if !item.is_object() {
            let pointer = format!("components/{index}");
            fields.fault(&pointer, "invalid_type", "must be an object");
        } else if answers_prompts(item) {
            let detail = "must not have a payload that begins with c1: answers to consent do";
            fields.fault(&format!("components/{index}"), "invalid_template_params", detail);
        }
    }
    items
}

/// Whether a button of a message would be taken for an answer to a prompt.
fn answers_prompts(component: &Value) -> bool {
    let is_answer = |one: &Value| {
        one["payload"].as_str().is_some_and(|payload| payload.starts_with(PAYLOAD_PREFIX))
    };
    component["parameters"].as_array().is_some_and(|all| all.iter().any(is_answer))
}

/// The texts that a request's own `body` part fills the template with; `None` = it has no such
/// part.
pub(super) fn params_of(components: &[Value]) -> Option<Vec<String>> {
    let is_body =
        |part: &&Value| part["type"].as_str().is_some_and(|kind| kind.eq_ignore_ascii_case("body"));
    let body = components.iter().find(is_body)?;
    let params = body["parameters"].as_array().map(Vec::as_slice).unwrap_or_default();
    Some(params.iter().map(|one| one["text"].as_str().unwrap_or_default().to_owned()).collect())
}
