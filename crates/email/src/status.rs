//! What mail servers mean by their replies: RFC 5321 codes, and RFC 3463 enhanced ones.

/// An enhanced status code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Enhanced {
    /// 2, 4 or 5.
    pub class: u8,
    /// What it is about.
    pub subject: u16,
    /// What of it.
    pub detail: u16,
}

impl Enhanced {
    /// Reads `5.1.1` at the start of a text.
    #[must_use]
    pub fn at_start(text: &str) -> Option<Self> {
        let word = text.trim_start().split([' ', '\t', '-', ';', ',']).next()?;
        let mut parts = word.split('.').map(|part| {
            let is_number =
                (1..=3).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit());
            is_number.then(|| part.parse::<u16>().ok()).flatten()
        });
        let class = u8::try_from(parts.next()??).ok()?;
        let (subject, detail) = (parts.next()??, parts.next()??);
        (matches!(class, 2 | 4 | 5) && parts.next().is_none()).then_some(Self {
            class,
            subject,
            detail,
        })
    }
}

/// What a failure means for the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bounce {
    /// There is no such mailbox, and there will be none: never write to it again.
    Hard,
    /// The mailbox exists and cannot take it now: full, or away.
    Soft,
    /// The server does not want this message or this sender; the mailbox may well exist.
    Policy,
}

/// The meaning of a refusal. Servers that say no enhanced code are judged by the basic one: 550 is
/// about the mailbox. 551 and 553 are said of relaying and of senders, too.
#[must_use]
pub fn bounce(code: u16, enhanced: Option<Enhanced>) -> Bounce {
    match enhanced {
        // X.2.2 is a full mailbox, whatever the class says.
        Some(Enhanced { subject: 2, detail: 2 | 3, .. } | Enhanced { class: 4, .. }) => {
            Bounce::Soft
        }
        // RFC 3463 §3.2, RFC 7505 §4.2: no such mailbox, no such domain, no mailbox can be called
        // so, moved and nobody knows whither, a domain that takes no mail. §3.5: unable to route.
        // §3.3: a mailbox that was disabled.
        Some(
            Enhanced { class: 5, subject: 1, detail: 1 | 2 | 3 | 6 | 10 }
            | Enhanced { class: 5, subject: 4, detail: 4 }
            | Enhanced { class: 5, subject: 2, detail: 1 },
        ) => Bounce::Hard,
        None if code == 550 => Bounce::Hard,
        None if (400..500).contains(&code) || code == 552 => Bounce::Soft,
        Some(_) | None => Bounce::Policy,
    }
}

/// Whether a reply without an enhanced code says that it is about whoever sends: then 550 says
/// nothing about the mailbox.
#[must_use]
pub fn is_about_sender(text: &str) -> bool {
    const WORDS: [&str; 12] = [
        "relay",
        "not permitted",
        "access denied",
        "authenticat",
        "not allowed",
        "unauthorized",
        "spam",
        "blocked",
        "blacklist",
        "blocklist",
        "policy",
        "reputation",
    ];
    let text = text.to_ascii_lowercase();
    // "User unknown in relay recipient table" is about the mailbox all the same.
    !text.contains("user unknown") && WORDS.iter().any(|word| text.contains(word))
}

#[cfg(test)]
mod tests {
    use super::{Bounce, Enhanced, bounce};

    #[test]
    fn what_a_policy_refuses_says_nothing_about_the_mailbox() {
        let meant = |code, text| bounce(code, Enhanced::at_start(text));
        for (code, text, meaning) in [
            (550, "5.1.1 no such user", Bounce::Hard),
            (550, "no such user", Bounce::Hard),
            (550, "5.4.4 no such domain", Bounce::Hard),
            (550, "5.2.1 mailbox disabled", Bounce::Hard),
            (556, "5.1.10 null MX", Bounce::Hard),
            (551, "user not local", Bounce::Policy),
            (553, "not in my list of hosts", Bounce::Policy),
            (550, "5.1.7 bad sender", Bounce::Policy),
            (550, "5.1.8 bad sender's domain", Bounce::Policy),
            (550, "5.4.1 no answer", Bounce::Policy),
            (552, "5.2.2 mailbox full", Bounce::Soft),
            (452, "4.2.2 mailbox full", Bounce::Soft),
            (451, "4.7.1 greylisted", Bounce::Soft),
            (451, "try later", Bounce::Soft),
            (550, "5.7.1 blocked", Bounce::Policy),
            (554, "5.7.26 unauthenticated", Bounce::Policy),
            (554, "no", Bounce::Policy),
        ] {
            assert_eq!(meant(code, text), meaning, "{code} {text}");
        }
    }

    #[test]
    fn enhanced_codes_are_read_strictly() {
        assert_eq!(Enhanced::at_start("5.7.26 x").map(|e| e.detail), Some(26));
        for bad in ["", "5", "5.1", "5.1.1.1", "3.1.1", "5.a.1", "55.1.1 x", "5.1.1x"] {
            assert_eq!(Enhanced::at_start(bad), None, "{bad}");
        }
    }
}
