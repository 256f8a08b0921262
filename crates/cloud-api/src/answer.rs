//! What the upstream answers to a message, and what its error codes mean.

use serde_json::Value;

/// What became of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It has the message.
    Accepted {
        /// Its id of it.
        id: String,
    },
    /// It does not have it, and says so for certain.
    Refused(Refusal),
    /// Nobody can tell: the answer is not whole, or none of the two.
    Unclear,
}

/// An error of the upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What to do about it.
    pub class: Class,
    /// Its own number, or the HTTP status where there is none: for support.
    pub code: String,
}

/// Kinds of errors, by what to do about them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// The recipient cannot be reached on the chat-app now.
    Unreachable,
    /// The recipient is none.
    BadRecipient,
    /// A free-form text, and the recipient's window is closed.
    WindowClosed,
    /// The recipient wants no more of this business.
    OptedOut,
    /// The platform lets nobody send this to the recipient now.
    Suppressed,
    /// The template is not there, paused or disabled.
    Template,
    /// What fills the template does not fit.
    Params,
    /// Slow down: the app, the number, or this pair of number and recipient.
    Throttled,
    /// Slow down with this recipient.
    PairThrottled,
    /// It may work in a moment.
    Temporary,
    /// The token, a permission, the account or its configuration: nothing of this sender works.
    Sender,
    /// The request itself.
    Request,
}

/// What a number of the upstream means. `http` decides where the number is unknown.
#[must_use]
pub const fn classify(code: i64, http: u16) -> Class {
    match code {
        131_026 | 130_403 => Class::Unreachable,
        // To oneself, and to who is not on the list of a number for tests: of this recipient alone.
        131_021 | 131_030 => Class::BadRecipient,
        131_047 => Class::WindowClosed,
        131_050 => Class::OptedOut,
        // Of this person, their country or the kind of message: the number goes on.
        131_049 | 130_472 | 130_497 | 131_063 => Class::Suppressed,
        132_001 | 132_007 | 132_015 | 132_016 => Class::Template,
        131_008 | 132_000 | 132_005 | 132_008 | 132_012 | 132_018 => Class::Params,
        4 | 80_007 | 130_429 => Class::Throttled,
        131_056 => Class::PairThrottled,
        1 | 2 | 131_000 | 131_016 | 131_053 | 131_057 | 133_004 => Class::Temporary,
        0
        | 3
        | 10
        | 33
        | 190
        | 200..=299
        | 368
        | 131_005
        | 131_031
        | 131_037
        | 131_042
        | 131_045
        | 131_048
        | 131_064
        | 133_010 => Class::Sender,
        100 | 131_009 | 131_051 | 131_052 | 131_062 | 135_000 | 137_000 => Class::Request,
        _ => of_status(http),
    }
}

pub(crate) const fn of_status(http: u16) -> Class {
    match http {
        429 => Class::Throttled,
        401 | 403 => Class::Sender,
        500..=599 => Class::Temporary,
        _ => Class::Request,
    }
}

/// Reads an answer to a message.
#[must_use]
pub fn decode(http: u16, body: &[u8]) -> Answer {
    let json: Option<Value> = serde_json::from_slice(body).ok();
    if let Some(code) = json.as_ref().and_then(|json| json["error"]["code"].as_i64()) {
        let class = classify(code, http);
        return Answer::Refused(Refusal { class, code: code.to_string() });
    }
    match http {
        200..=299 => {
            let id = json.as_ref().and_then(|json| json["messages"][0]["id"].as_str());
            id.filter(|id| !id.is_empty())
                .map_or(Answer::Unclear, |id| Answer::Accepted { id: id.to_owned() })
        }
        // Something between here and there may have answered after the upstream had it.
        500..=599 => Answer::Unclear,
        _ => Answer::Refused(Refusal { class: of_status(http), code: http.to_string() }),
    }
}

#[cfg(test)]
mod tests {
    use super::{Answer, Class, classify, decode};

    #[test]
    fn an_acceptance_has_an_id_whatever_else_is_there() {
        let body = br#"{"messaging_product":"whatsapp","contacts":[{"input":"+16505551234"}],
            "messages":[{"id":"wamid.HBgL","message_status":"accepted"}],"new":1}"#;
        assert_eq!(decode(200, body), Answer::Accepted { id: "wamid.HBgL".to_owned() });
        for body in ["", "{}", "<html>", r#"{"messages":[]}"#, r#"{"messages":[{"id":""}]}"#] {
            assert_eq!(decode(200, body.as_bytes()), Answer::Unclear, "{body}");
        }
    }

    #[test]
    fn errors_are_told_by_their_number_not_their_status() {
        let body = br#"{"error":{"message":"(#131026)","type":"OAuthException","code":131026,
            "error_data":"x","fbtrace_id":"A"}}"#;
        for http in [200, 400, 500] {
            let Answer::Refused(refusal) = decode(http, body) else { panic!("{http}") };
            assert_eq!((refusal.class, refusal.code.as_str()), (Class::Unreachable, "131026"));
        }
        for (http, class) in [(429, Class::Throttled), (401, Class::Sender), (404, Class::Request)]
        {
            let Answer::Refused(refusal) = decode(http, b"no json") else { panic!("{http}") };
            assert_eq!(refusal.class, class);
        }
        assert_eq!(decode(502, b"<html>"), Answer::Unclear);
    }

    #[test]
    fn the_numbers_mean_what_the_notes_say() {
        for (code, class) in [
            (190, Class::Sender),
            (131_048, Class::Sender),
            (130_429, Class::Throttled),
            (131_056, Class::PairThrottled),
            (131_047, Class::WindowClosed),
            (132_015, Class::Template),
            (132_000, Class::Params),
            (131_000, Class::Temporary),
            (131_050, Class::OptedOut),
            (100, Class::Request),
        ] {
            assert_eq!(classify(code, 400), class, "{code}");
        }
        assert_eq!(classify(999_999, 503), Class::Temporary);
        assert_eq!(classify(999_999, 400), Class::Request);
    }
}
