//! From request bodies to templates: every fault found and named.

use cloud_api::template::{self as rules, Button, Category, Fault, Kind};
use serde_json::Value;

use super::Declared;
use super::live::LONGEST_NAME;
use crate::app::App;
use crate::chatapp::messages::{DEFAULT_LANGUAGE, template_language};
use crate::kit::body::Fields;
use crate::kit::problem::Problem;
use crate::kit::problem_code::Code;

/// `POST /v1/chatapp/templates`.
pub(super) fn declare(app: &App, body: &[u8]) -> Result<Declared, Problem> {
    let mut fields = Fields::read(body)?;
    let name = name(&mut fields);
    let language = template_language(&mut fields, "language");
    let words = ["UTILITY", "MARKETING", "AUTHENTICATION"];
    let category = fields.choice("category", &words).and_then(Category::of);
    let text = fields.required_within("body", 1, rules::LONGEST_BODY);
    if let Some(Err(fault)) = text.as_deref().map(rules::variables) {
        note(&mut fields, "body", fault);
    }
    if text.as_ref().is_some_and(|text| text.trim().is_empty()) {
        fields.fault("body", "too_short", "must not be blank");
    }
    let footer = fields.text_within("footer", 1, rules::LONGEST_FOOTER);
    if let Some(fault) = footer.as_deref().and_then(rules::check_footer) {
        note(&mut fields, "footer", fault);
    }
    let buttons = buttons(&mut fields, app.is_strict());
    let submit = fields.flag("submit").unwrap_or(true);
    fields.finish(app.is_strict())?;
    Ok(Declared {
        name: name.ok_or(Code::InternalError)?,
        language: language.unwrap_or_else(|| DEFAULT_LANGUAGE.to_owned()),
        category: category.unwrap_or(Category::Utility),
        body: text.ok_or(Code::InternalError)?,
        footer,
        buttons,
        submit,
    })
}

fn name(fields: &mut Fields) -> Option<String> {
    let name = fields.required_within("name", 1, LONGEST_NAME)?;
    let is_good = rules::is_name(&name);
    if !is_good {
        let detail = "must be lower-case letters, digits and underscores";
        fields.fault("name", "invalid_enum", detail);
    }
    is_good.then_some(name)
}

fn buttons(fields: &mut Fields, strict: bool) -> Vec<Button> {
    let items = match fields.take("buttons") {
        None => return Vec::new(),
        Some(Value::Array(items)) => items,
        Some(_) => {
            fields.fault("buttons", "invalid_type", "must be an array of objects");
            return Vec::new();
        }
    };
    match rules::buttons(&items, strict) {
        Ok(buttons) => buttons,
        Err(faults) => {
            for fault in faults {
                note(fields, "buttons", fault);
            }
            Vec::new()
        }
    }
}

fn note(fields: &mut Fields, name: &str, fault: Fault) {
    let code = match fault.kind {
        Kind::Required => "required",
        Kind::Type => "invalid_type",
        Kind::Word => "invalid_enum",
        Kind::Short => "too_short",
        Kind::Long => "too_long",
        Kind::Unknown => "unknown_field",
        Kind::Variables => "invalid_template_params",
        Kind::Url => "invalid_url",
        Kind::Phone => "invalid_phone_number",
    };
    fields.fault(&format!("{name}{}", fault.place), code, fault.detail);
}
