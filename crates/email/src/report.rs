//! Reports that come back: delivery status notifications (RFC 3464) and complaints (RFC 5965, ARF).

use crate::parts::{Part, parts};
use crate::status::Enhanced;

/// Most bytes of a diagnostic that are kept.
const LONGEST_DIAGNOSTIC: usize = 300;

/// What a report says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// What became of a message, recipient by recipient.
    Delivery(Vec<Outcome>),
    /// What somebody thinks of a message.
    Complaint {
        /// What they think.
        feedback: Feedback,
        /// Where the message was first sent to, if the report says so.
        recipient: Option<String>,
        /// The return path that the message had.
        return_path: Option<String>,
    },
}

/// What a report is about (RFC 5965 §7.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feedback {
    /// A person does not want the message: `abuse`, `fraud`.
    Unwanted,
    /// Anything else, which no person said or meant: `not-spam`, `virus`, `auth-failure`, `other`.
    Other,
}

impl Feedback {
    fn of(word: &str) -> Self {
        match word.trim().to_ascii_lowercase().as_str() {
            "abuse" | "fraud" => Self::Unwanted,
            _ => Self::Other,
        }
    }
}

/// What became of it for one recipient.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Whom it is about.
    pub recipient: String,
    /// What happened.
    pub action: Action,
    /// The code.
    pub status: Option<Enhanced>,
    /// What the server said.
    pub diagnostic: String,
}

/// What a mail server did (RFC 3464 §2.3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// It gave up.
    Failed,
    /// It goes on trying.
    Delayed,
    /// The mailbox has it.
    Delivered,
    /// It went on to a server that reports nothing.
    Relayed,
    /// It went on to several.
    Expanded,
}

impl Action {
    fn of(word: &str) -> Option<Self> {
        Some(match word.trim().to_ascii_lowercase().as_str() {
            "failed" => Self::Failed,
            "delayed" => Self::Delayed,
            "delivered" => Self::Delivered,
            "relayed" => Self::Relayed,
            "expanded" => Self::Expanded,
            _ => return None,
        })
    }

    /// Whether a status may stand beside it (RFC 3464 §2.3.4): a report that contradicts itself
    /// says nothing.
    fn may_be(self, status: Enhanced) -> bool {
        match self {
            Self::Failed => status.class != 2,
            Self::Delivered => status.class == 2,
            Self::Delayed | Self::Relayed | Self::Expanded => true,
        }
    }
}

/// Reads a report; `None` when a message is none.
#[must_use]
pub fn read(bytes: &[u8]) -> Option<Report> {
    let parts = parts(bytes);
    if let Some(text) = part(&parts, "delivery-status") {
        let outcomes: Vec<Outcome> = groups(&text).iter().skip(1).filter_map(outcome).collect();
        return (!outcomes.is_empty()).then_some(Report::Delivery(outcomes));
    }
    let groups = groups(&part(&parts, "feedback-report")?);
    let fields = groups.first()?;
    let feedback = Feedback::of(&field(fields, "feedback-type")?);
    let address = |name| field(fields, name).map(|text| bare(&text));
    let recipient = address("original-rcpt-to");
    // Where the report does not say it, the message that it quotes may.
    let return_path = address("original-mail-from").or_else(|| quoted_return_path(&parts));
    Some(Report::Complaint { feedback, recipient, return_path })
}

/// The return path in the headers of the message that a report quotes.
fn quoted_return_path(parts: &[Part<'_>]) -> Option<String> {
    let quoted = part(parts, "rfc822").or_else(|| part(parts, "rfc822-headers"))?;
    let head = groups(&quoted).into_iter().next()?;
    field(&head, "return-path").map(|text| bare(&text))
}

/// The content of the first part of this subtype of `message`, which some call text.
fn part(parts: &[Part<'_>], subtype: &str) -> Option<String> {
    let is_it = |part: &&Part<'_>| {
        let (top, own) = part.kind.split_once('/').unwrap_or_default();
        own == subtype && ["message", "text"].contains(&top)
    };
    parts.iter().find(is_it).map(Part::text)
}

type Group = Vec<(String, String)>;

/// Groups of fields with empty lines between them, however lines end.
fn groups(text: &str) -> Vec<Group> {
    let mut all: Vec<Group> = vec![vec![]];
    for line in text.lines() {
        let Some(group) = all.last_mut() else { break };
        if line.trim().is_empty() {
            if !group.is_empty() {
                all.push(vec![]);
            }
        } else if line.starts_with([' ', '\t']) {
            if let Some((_, value)) = group.last_mut() {
                value.push(' ');
                value.push_str(line.trim());
            }
        } else if let Some((name, value)) = line.split_once(':') {
            group.push((name.trim().to_ascii_lowercase(), value.trim().to_owned()));
        }
    }
    all.retain(|group| !group.is_empty());
    all
}

fn field(group: &Group, name: &str) -> Option<String> {
    group.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
}

fn outcome(group: &Group) -> Option<Outcome> {
    let action = Action::of(&field(group, "action")?)?;
    let recipient =
        field(group, "original-recipient").or_else(|| field(group, "final-recipient"))?;
    let diagnostic = field(group, "diagnostic-code").unwrap_or_default();
    let diagnostic = diagnostic.split_once(';').map_or(diagnostic.as_str(), |(_, text)| text);
    let status = field(group, "status").and_then(|status| Enhanced::at_start(&status));
    if status.is_some_and(|status| !action.may_be(status)) {
        return None;
    }
    let clean = diagnostic.trim().chars().filter(|letter| !letter.is_control());
    Some(Outcome {
        recipient: bare(recipient.split_once(';').map_or(recipient.as_str(), |(_, text)| text)),
        action,
        status,
        diagnostic: clean.take(LONGEST_DIAGNOSTIC).collect(),
    })
}

/// What a server said without the addresses in it: they can be of people who are forgotten later.
#[must_use]
pub fn without_addresses(text: &str) -> String {
    let is_part = |letter: char| !letter.is_whitespace() && !"<>()[]{},;:\"'=".contains(letter);
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(begin) = rest.find(is_part) {
        let (front, word) = rest.split_at(begin);
        out.push_str(front);
        let (word, after) = word.split_at(word.find(|c| !is_part(c)).unwrap_or(word.len()));
        out.push_str(if word.contains('@') { "address" } else { word });
        rest = after;
    }
    out.push_str(rest);
    out
}

fn bare(text: &str) -> String {
    text.trim().trim_start_matches('<').trim_end_matches('>').to_owned()
}
