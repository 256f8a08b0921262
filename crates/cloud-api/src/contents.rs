//! What a listed template is made of, and whether values alone make a message of it.

use serde_json::Value;

use crate::template::{Button, buttons, variables};

/// What the button of a passcode leads to.
const COPIES_CODE: &str = "https://www.whatsapp.com/otp/";

/// The parts of a template, as far as its author's rules know them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Its text, where the upstream says it.
    pub body: Option<String>,
    /// The line below.
    pub footer: Option<String>,
    /// Its buttons.
    pub buttons: Vec<Button>,
    /// Whether a message of it needs nothing but values for its text and for the address behind a
    /// button: nothing above it, no catalogue, no variables with names. Nobody can say it of one
    /// whose parts were not asked for.
    pub is_fillable: bool,
}

/// Reads the parts of a template; `is_passcode` = its text is the upstream's own.
pub(crate) fn read(parts: &[Value], is_passcode: bool) -> Contents {
    let text = |kind: &str| {
        let part = parts.iter().find(|part| is_kind(part, kind))?;
        part["text"].as_str().map(str::to_owned)
    };
    let values: Vec<Value> = parts
        .iter()
        .filter(|part| is_kind(part, "BUTTONS"))
        .flat_map(|part| part["buttons"].as_array().cloned().unwrap_or_default())
        .collect();
    let known = if is_passcode { Ok(Vec::new()) } else { buttons(&values, false) };
    // It is declared as `OTP`, and listed as an address of the upstream's own.
    let copies_code = |value: &Value| {
        let is_own = |url: &str| url.starts_with(COPIES_CODE);
        value["type"] == "OTP" || value["url"].as_str().is_some_and(is_own)
    };
    let is_fillable = if is_passcode {
        values.iter().any(copies_code)
    } else {
        known.is_ok() && parts.iter().all(needs_no_more)
    };
    Contents {
        body: text("BODY"),
        footer: text("FOOTER"),
        buttons: known.unwrap_or_default(),
        is_fillable: is_fillable && parts.iter().any(|part| is_kind(part, "BODY")),
    }
}

fn is_kind(part: &Value, kind: &str) -> bool {
    part["type"].as_str().is_some_and(|word| word.eq_ignore_ascii_case(kind))
}

/// Whether a part stays as it is, or is the text or the buttons, which values fill.
fn needs_no_more(part: &Value) -> bool {
    let text = part["text"].as_str().unwrap_or_default();
    if is_kind(part, "BODY") {
        return variables(text).is_ok();
    }
    is_kind(part, "FOOTER") || is_kind(part, "BUTTONS")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::read;
    use crate::template::Button;

    #[test]
    fn what_values_fill_is_known_from_what_needs_more() {
        let body = json!({"type": "BODY", "text": "Bonjour {{1}}", "example": {}});
        let more = |part| read(&[body.clone(), part], false).is_fillable;
        assert!(read(std::slice::from_ref(&body), false).is_fillable);
        assert!(more(json!({"type": "footer", "text": "STOP"})));
        assert!(more(json!({"type": "BUTTONS", "buttons": [
            {"type": "URL", "text": "Voir", "url": "https://ex.test/{{1}}", "example": ["1"]},
            {"type": "QUICK_REPLY", "text": "Oui"}]})));
        assert!(!more(json!({"type": "HEADER", "format": "IMAGE"})));
        assert!(
            !more(json!({"type": "HEADER", "format": "TEXT", "text": "ACME"})),
            "it has no place"
        );
        assert!(!more(json!({"type": "CAROUSEL", "cards": []})));
        assert!(!more(json!({"type": "BUTTONS", "buttons": [{"type": "CATALOG", "text": "V"}]})));
        assert!(!read(&[json!({"type": "BODY", "text": "Bonjour {{name}}"})], false).is_fillable);
        assert!(!read(&[], false).is_fillable, "nobody asked for its parts");
        let code = [
            json!({"type": "BODY"}),
            json!({"type": "BUTTONS", "buttons": [
            {"type": "OTP", "otp_type": "COPY_CODE", "text": "Copier"}]}),
        ];
        assert!(read(&code, true).is_fillable && !read(&code, false).is_fillable);
        let url = "https://www.whatsapp.com/otp/code/?otp_type=COPY_CODE&code=otp{{1}}";
        let button = json!({"type": "URL", "text": "Copy code", "url": url});
        let listed = [
            json!({"type": "BODY", "text": "*{{1}}* is your code."}),
            json!({"type": "BUTTONS", "buttons": [button]}),
        ];
        assert!(read(&listed, true).is_fillable);
        assert!(!read(&listed[..1], true).is_fillable, "it has no place for the code's button");
    }

    #[test]
    fn its_parts_are_read() {
        let parts = [
            json!({"type": "BODY", "text": "Bonjour {{1}}"}),
            json!({"type": "FOOTER", "text": "Estafette"}),
            json!({"type": "BUTTONS", "buttons": [{"type": "QUICK_REPLY", "text": "Oui"}]}),
        ];
        let contents = read(&parts, false);
        assert_eq!(contents.body.as_deref(), Some("Bonjour {{1}}"));
        assert_eq!(contents.footer.as_deref(), Some("Estafette"));
        assert_eq!(contents.buttons, [Button::QuickReply { text: "Oui".to_owned() }]);
    }
}
