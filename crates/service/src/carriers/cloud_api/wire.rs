//! A message on its way out as the Cloud API takes it.

use cloud_api::judge;
use cloud_api::message::{Content as Wire, Message, Template, encode};
use serde_json::Value;

use super::LANGUAGES;
use crate::carriers::{Content, Outbound};
use crate::kit::secret::Secret;

/// Names of the deployment's own templates, for messages that name none.
#[derive(Clone, Copy)]
pub(super) struct Names<'a> {
    pub(super) otp: &'a str,
    pub(super) consent: &'a str,
}

impl Names<'_> {
    /// Whether it is a passcode in a template that the deployment makes itself.
    pub(super) fn is_own_passcode(self, content: &Content) -> bool {
        let Content::Passcode { template, .. } = content else { return false };
        or(&template.name, self.otp) == self.otp && LANGUAGES.contains(&template.language.as_str())
    }
}

/// The body of the request; `None`: it is nothing that a chat shows.
pub(super) fn body(message: &Outbound, to: &str, echo: &str, names: Names<'_>) -> Option<Value> {
    let encode = |content: Wire<'_>| Some(encode(&Message { to, echo, content }));
    match &message.content {
        Content::Text { text, .. } => encode(Wire::Text(text.expose())),
        Content::Passcode { code, template, .. } => {
            let name = or(&template.name, names.otp);
            encode(Wire::Passcode { name, language: &template.language, code: code.expose() })
        }
        Content::Template { template, params, components, replies, .. } => {
            let params: Vec<&str> = params.iter().map(Secret::expose).collect();
            let payloads: Vec<&str> = replies.iter().map(|reply| reply.payload.as_str()).collect();
            encode(Wire::Template(Template {
                name: or(&template.name, names.consent),
                language: &template.language,
                params: &params,
                payloads: &payloads,
                components,
            }))
        }
        Content::Question { text, replies } => {
            let buttons: Vec<(&str, &str)> =
                replies.iter().map(|it| (it.payload.as_str(), it.label.as_str())).collect();
            encode(Wire::Question { text: text.expose(), buttons: &buttons })
        }
        Content::Email(_) => None,
    }
}

fn or<'a>(name: &'a str, own: &'a str) -> &'a str {
    if name.is_empty() { own } else { name }
}

/// The number with which the Cloud API refuses to read a message; `None` = it does not.
pub(in crate::carriers) fn refuses(message: &Outbound, to: &str) -> Option<String> {
    let body = body(message, to, "", Names { otp: "otp", consent: "consent" })?;
    judge::message(&body).err().map(|fault| fault.code.to_string())
}
