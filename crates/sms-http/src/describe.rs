//! The description of a gateway, as TOML has it.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use serde::Deserialize;

use crate::answer::Meaning;
use crate::callback::Fate;

/// A gateway, described.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gateway {
    pub(crate) request: RequestShape,
    pub(crate) answer: AnswerShape,
    #[serde(default)]
    pub(crate) report: Option<ReportShape>,
    #[serde(default)]
    pub(crate) inbound: Option<InboundShape>,
    #[serde(default)]
    pub(crate) verify: Verify,
    /// What a callback is answered with.
    #[serde(default)]
    pub(crate) reply: String,
    /// The shortest and the longest validity that it takes, seconds.
    #[serde(default)]
    pub(crate) validity_s: Option<[i64; 2]>,
    /// Settings with the values that they have where nobody says otherwise.
    #[serde(default)]
    pub(crate) defaults: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RequestShape {
    pub(crate) method: Method,
    pub(crate) url: String,
    #[serde(default)]
    pub(crate) auth: Auth,
    #[serde(default)]
    pub(crate) headers: BTreeMap<String, String>,
    /// Names and values of a form or a query. One whose value is empty is left out.
    #[serde(default)]
    pub(crate) fields: BTreeMap<String, String>,
    /// The body, as JSON with variables in its strings.
    #[serde(default)]
    pub(crate) json: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub(crate) enum Method {
    Get,
    Post,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Auth {
    #[default]
    None,
    Basic,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AnswerShape {
    /// Where the parts of a message are, each with an id and a status of its own.
    #[serde(default)]
    pub(crate) list: Option<String>,
    /// Whether each segment has an id of its own, and receipts too: so it is where there is a list,
    /// unless this says otherwise.
    #[serde(default)]
    pub(crate) per_segment: Option<bool>,
    #[serde(default)]
    pub(crate) id: Option<Finder>,
    /// The gateway's own word for what went wrong.
    #[serde(default)]
    pub(crate) code: Option<Finder>,
    /// The first that fits counts; where none does, the HTTP status.
    #[serde(default)]
    pub(crate) rules: Vec<Rule>,
}

/// Where something is in a body.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum Finder {
    /// A JSON pointer (RFC 6901), or the name of a form field.
    At(String),
    /// Between two texts; the second may be empty: up to the end.
    Between([String; 2]),
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rule {
    /// HTTP statuses from and to.
    #[serde(default)]
    pub(crate) status: Option<[u16; 2]>,
    /// A place in the part, else in the whole answer.
    #[serde(default)]
    pub(crate) at: Option<String>,
    /// Values of it; as texts, whatever they are in JSON.
    #[serde(default, rename = "in")]
    pub(crate) values: Vec<String>,
    /// How the body begins.
    #[serde(default)]
    pub(crate) begins: Option<String>,
    pub(crate) is: Meaning,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReportShape {
    /// Where several are in one callback.
    #[serde(default)]
    pub(crate) list: Option<String>,
    /// The gateway's id of the message; none where the URL of the callback brings ours back.
    #[serde(default)]
    pub(crate) id: Option<String>,
    pub(crate) status: String,
    /// A more exact word; it counts where `states` knows it.
    #[serde(default)]
    pub(crate) detail: Option<String>,
    #[serde(default)]
    pub(crate) error: Option<String>,
    /// What its words mean, in lower case. Others say nothing.
    pub(crate) states: BTreeMap<String, Fate>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct InboundShape {
    #[serde(default)]
    pub(crate) list: Option<String>,
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) text: String,
    #[serde(default)]
    pub(crate) id: Option<String>,
    /// When the gateway received it: RFC 3339 or alike, UTC where no offset is given, or seconds
    /// since 1970.
    #[serde(default)]
    pub(crate) at: Option<String>,
    /// The media type of what was sent beside the text or instead of it.
    #[serde(default)]
    pub(crate) media: Option<String>,
    /// Where a long message is brought in parts.
    #[serde(default)]
    pub(crate) parts: Option<PartsShape>,
    /// Where UCS-2 is not brought as text.
    #[serde(default)]
    pub(crate) ucs2: Option<Ucs2Shape>,
}

/// How the parts of a message are numbered.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PartsShape {
    /// What the parts of one message share.
    pub(crate) reference: String,
    /// Which part it is, from 1.
    pub(crate) number: String,
    /// How many there are.
    pub(crate) total: String,
}

/// Where the octets of UCS-2 are.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Ucs2Shape {
    /// The coding of the message, and its value for UCS-2.
    pub(crate) coding: String,
    pub(crate) is: String,
    /// The octets in hexadecimal.
    #[serde(default)]
    pub(crate) hex: Option<String>,
    /// Or the octets as they are, in this parameter of the URL.
    #[serde(default)]
    pub(crate) octets: Option<String>,
}

/// How a callback proves where it comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case", tag = "by", deny_unknown_fields)]
pub(crate) enum Verify {
    /// By the token in its URL, which is the gateway's own secret.
    #[default]
    Token,
    /// HMAC-SHA1 of the URL and the sorted form fields, in base64.
    Twilio,
    /// By the address that it comes from.
    Addresses {
        /// Addresses, or networks such as `192.0.2.0/24`.
        networks: Vec<String>,
    },
    /// HMAC-SHA256 of the body in a header, in hexadecimal.
    HmacSha256 {
        /// The header.
        header: String,
    },
}

/// What is wrong with a description.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// It is not TOML, or has not the shape.
    #[error("{0}")]
    Shape(String),
    /// The template of the body is no JSON.
    #[error("request.json is no JSON: {0}")]
    Json(String),
    /// A setting that is empty, or a variable that there is not.
    #[error("{0} is needed here: no setting of this name has a value")]
    Variable(String),
    /// There is no such gateway here.
    #[error("there is no preset {0:?}; there are {list}", list = crate::PRESETS.join(", "))]
    Preset(String),
}

/// An address, or a network.
pub(crate) fn network(text: &str) -> Option<IpNet> {
    text.parse().ok().or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from))
}

impl Gateway {
    /// Reads a description.
    ///
    /// # Errors
    /// See [`Fault`].
    pub fn read_description(text: &str) -> Result<Self, Fault> {
        let gateway: Self =
            toml::from_str(text).map_err(|error| Fault::Shape(error.message().to_owned()))?;
        if let Verify::Addresses { networks } = &gateway.verify {
            let wrong = networks.iter().find(|text| network(text).is_none());
            if networks.is_empty() || wrong.is_some() {
                let given = wrong.map_or("an empty list", String::as_str);
                let says = format!("verify.networks must name addresses or networks, has {given}");
                return Err(Fault::Shape(says));
            }
        }
        if matches!(gateway.verify, Verify::HmacSha256 { .. })
            && gateway.report.as_ref().is_some_and(|report| report.id.is_none())
        {
            let says = "report.id is needed with verify.by = \"hmac_sha256\": only the body is \
                        signed, so the URL cannot say which message a receipt is for";
            return Err(Fault::Shape(says.to_owned()));
        }
        gateway.must_make_sense()?;
        if let Some(json) = &gateway.request.json {
            let _body: serde_json::Value =
                serde_json::from_str(json).map_err(|error| Fault::Json(error.to_string()))?;
        }
        Ok(gateway)
    }

    /// What would be left out of a request, or never met, is told at once.
    fn must_make_sense(&self) -> Result<(), Fault> {
        let is_token = |name: &String| {
            // RFC 9110 §5.6.2.
            let is_fit = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
            !name.is_empty() && name.bytes().all(is_fit)
        };
        if let Some(name) = self.request.headers.keys().find(|name| !is_token(name)) {
            return Err(Fault::Shape(format!(
                "request.headers: {name:?} is not the name of a header"
            )));
        }
        let statuses = self.answer.rules.iter().filter_map(|rule| rule.status);
        for [from, to] in statuses {
            if from > to {
                let says = format!(
                    "answer.rules: status = [{from}, {to}] is never met; the lower one is first"
                );
                return Err(Fault::Shape(says));
            }
        }
        Ok(())
    }

    /// A gateway that is described here.
    ///
    /// # Errors
    /// There is none of this name.
    pub fn preset(name: &str) -> Result<Self, Fault> {
        let text = match name {
            "africastalking" => include_str!("../presets/africastalking.toml"),
            "infobip" => include_str!("../presets/infobip.toml"),
            "jasmin" => include_str!("../presets/jasmin.toml"),
            "kannel" => include_str!("../presets/kannel.toml"),
            "twilio" => include_str!("../presets/twilio.toml"),
            "vonage" => include_str!("../presets/vonage.toml"),
            _ => return Err(Fault::Preset(name.to_owned())),
        };
        Self::read_description(text)
    }

    /// Whether callbacks are proved by the token in their URL alone.
    #[must_use]
    pub fn needs_token(&self) -> bool {
        self.verify == Verify::Token
    }

    /// Whether receipts bring our own ids back.
    #[must_use]
    pub fn echoes(&self) -> bool {
        self.report.as_ref().is_none_or(|report| report.id.is_none())
    }

    /// Whether a receipt may be about one segment of a message, which only its id tells.
    #[must_use]
    pub fn reports_segments(&self) -> bool {
        !self.echoes() && self.answer.per_segment.unwrap_or(self.answer.list.is_some())
    }

    /// What callbacks are answered with.
    #[must_use]
    pub fn reply(&self) -> &str {
        &self.reply
    }
}
