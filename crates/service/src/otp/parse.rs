//! From request bodies to orders and guesses: every fault found and named.

use crate::app::App;
use crate::carriers::Channel;
use crate::chatapp;
use crate::kit::body::Fields;
use crate::kit::digits::digit;
use crate::kit::id::ChallengeId;
use crate::kit::msisdn::Msisdn;
use crate::kit::problem::Problem;
use crate::kit::problem_code::Code;
use crate::kit::secret::Secret;

use super::Mode;
use super::order::Order;
use super::verify::Address;

/// `POST /v1/otp/send`.
pub(super) fn send(app: &App, body: &[u8]) -> Result<Order, Problem> {
    let mut fields = Fields::read(body)?;
    let to = recipient(&mut fields, "to", true);
    let reference = fields.text_within("reference", 1, 128);
    let code = fields.text("code").and_then(|code| exact_code(&mut fields, code));
    let mode = fields.choice("delivery_mode", &["auto", "chatapp", "sms"]);
    let mode = mode.and_then(|word| word.parse().ok()).unwrap_or(Mode::Auto);
    let sender = fields.text_within("sms_sender", 1, 16);
    let (template, language) = template(&mut fields);
    let length = fields.integer("code_length", 4, 8).unwrap_or(6);
    let asks_consent = fields.flag("request_messaging_consent").unwrap_or(true);
    fields.finish(app.is_strict())?;
    let to = to.ok_or(Code::InternalError)?;
    let code_length = u32::try_from(length).unwrap_or(6);
    Ok(Order { to, reference, code, code_length, mode, sender, template, language, asks_consent })
}

/// `POST /v1/chatapp/otp/send`: the order and the `client_id` to echo.
pub(super) fn chatapp_send(app: &App, body: &[u8]) -> Result<(Order, Option<String>), Problem> {
    let mut fields = Fields::read(body)?;
    let to = recipient(&mut fields, "to", true);
    let code = fields.required("code").and_then(|code| exact_code(&mut fields, code));
    let client_id = fields.text_within("client_id", 1, 128);
    let reference = fields.text_within("reference", 1, 128);
    let (template, language) = template(&mut fields);
    fields.finish(app.is_strict())?;
    let to = to.ok_or(Code::InternalError)?;
    let mode = Mode::Only(Channel::Chatapp);
    let (code_length, sender) = (6, None);
    // Nothing in such a request could ask for no prompt.
    let asks_consent = false;
    let order =
        Order { to, reference, code, code_length, mode, sender, template, language, asks_consent };
    Ok((order, client_id))
}

/// `POST /v1/otp/verify`.
pub(super) fn verify(app: &App, body: &[u8]) -> Result<(Address, Secret), Problem> {
    let mut fields = Fields::read(body)?;
    let code = fields.required("code").and_then(|code| typed_code(&mut fields, &code));
    let id = fields.text("challenge_id");
    if id.as_deref() == Some("") {
        fields.fault("challenge_id", "too_short", "must not be empty; leave it out instead");
    }
    let reference = fields.text_within("reference", 1, 128);
    let to = recipient(&mut fields, "to", false);
    let is_nowhere = id.is_none() && reference.is_none() && to.is_none();
    if is_nowhere && !fields.has_faults_of(&["challenge_id", "reference", "to"]) {
        let detail = "is required, unless reference or to addresses the challenge";
        fields.fault("challenge_id", "required", detail);
    }
    fields.finish(app.is_strict())?;
    let id = match id {
        // An id of another shape is no id of ours: unknown, like any other wrong one.
        Some(text) => Some(ChallengeId::parse(&text).ok_or(Code::NotFound)?),
        None => None,
    };
    Ok((Address { id, reference, to }, code.ok_or(Code::InternalError)?))
}

fn recipient(fields: &mut Fields, name: &'static str, required: bool) -> Option<Msisdn> {
    let text = if required { fields.required(name) } else { fields.text(name) }?;
    let read = if required { Msisdn::parse_for_passcode } else { Msisdn::parse };
    match read(&text) {
        Ok(number) => Some(number),
        Err(error) => {
            fields.fault(name, "invalid_phone_number", error.to_string());
            None
        }
    }
}

/// A code that a program supplies: digits and nothing else.
fn exact_code(fields: &mut Fields, code: String) -> Option<Secret> {
    let good = (4..=8).contains(&code.len()) && code.bytes().all(|byte| byte.is_ascii_digit());
    if !good {
        fields.fault("code", "invalid_code", "must be 4 to 8 digits");
    }
    good.then(|| Secret::new(code))
}

/// Characters of a code that a person typed, with all that is dropped.
const MOST_TYPED: usize = 64;

/// A code that a person typed: spaces and dashes dropped, other scripts' digits mapped.
fn typed_code(fields: &mut Fields, code: &str) -> Option<Secret> {
    let mut digits = String::with_capacity(8);
    // What goes on beyond what anybody types is not read half.
    let code = if code.chars().nth(MOST_TYPED).is_none() { code } else { "" };
    for letter in code.chars() {
        match letter {
            '-' | '\u{2010}'..='\u{2015}' | '\u{2212}' => {}
            space if space.is_whitespace() => {}
            // What is no digit of any script stays in as a mark that makes the code malformed.
            _ => digits.push(digit(letter).unwrap_or('?')),
        }
    }
    exact_code(fields, digits)
}

fn template(fields: &mut Fields) -> (Option<String>, Option<String>) {
    let name = fields.text_within("template_name", 1, 512);
    let name = name.filter(|name| {
        let good = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        if !good {
            let detail = "must be letters, digits and underscores";
            fields.fault("template_name", "invalid_enum", detail);
        }
        good
    });
    let language = chatapp::template_language(fields, "template_language");
    (name, language)
}

#[cfg(test)]
mod tests {
    use super::{digit, template, typed_code};
    use crate::kit::body::Fields;

    fn typed(code: &str) -> Option<String> {
        let mut fields = Fields::read(b"{}").unwrap();
        typed_code(&mut fields, code).map(|code| code.expose().to_owned())
    }

    #[test]
    fn codes_are_read_as_people_type_and_paste_them() {
        for code in
            ["123456", "123 456", "12-34–56", "١٢٣٤٥٦", "１２３４５６", "१२३४५६", "123\u{a0}456"]
        {
            assert_eq!(typed(code).as_deref(), Some("123456"), "{code}");
        }
        for code in ["", "123", "123456789", "12a456", "123.456", "²³⁴⁵"] {
            assert_eq!(typed(code), None, "{code}");
        }
        assert_eq!(digit('٩'), Some('9'));
    }

    #[test]
    fn a_language_is_taken_as_the_upstream_writes_it() {
        let read = |text: &str| {
            let body = serde_json::json!({"template_language": text}).to_string();
            template(&mut Fields::read(body.as_bytes()).unwrap()).1
        };
        assert_eq!(read("pt-BR").as_deref(), Some("pt_BR"));
        assert_eq!(read("fil").as_deref(), Some("fil"));
        assert!(["f", "FR", "fr_", "en_USAAA", "e n"].iter().all(|text| read(text).is_none()));
    }
}
