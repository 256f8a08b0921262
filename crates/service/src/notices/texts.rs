//! What notices say: in French, then in English, because nobody knows which of the two a user
//! reads.

use super::{Kind, Notice, place};
use crate::app::App;

/// A notice in words. No `Debug`: it may hold a proof.
pub struct Letter {
    /// The subject, in both languages.
    pub subject: &'static str,
    /// The text, in both languages.
    pub text: String,
}

/// The words of a notice; `None` when its proof is not kept any more.
#[must_use]
pub fn letter(app: &App, notice: &Notice) -> Option<Letter> {
    let proof = || {
        let opened =
            app.vault.open(&place(&notice.account, &notice.id), notice.sealed.as_ref()?)?;
        String::from_utf8(opened).ok()
    };
    let email = &app.config.email;
    Some(match notice.kind {
        Kind::VerifyEmail => Letter {
            subject: "Confirmez votre adresse / Confirm your address",
            text: both(
                &words(
                    "Quelqu'un, sans doute vous, a créé un compte avec cette adresse. Pour la \
                     confirmer :",
                    "Sinon, ignorez ce message.",
                ),
                &words(
                    "Somebody, probably you, signed up with this address. To confirm it:",
                    "If it was not you, ignore this message.",
                ),
                &way(&email.verify_url, &proof()?),
            ),
        },
        Kind::PasswordReset => Letter {
            subject: "Votre mot de passe / Your password",
            text: both(
                &words(
                    "Quelqu'un, sans doute vous, a demandé un nouveau mot de passe. Pour le \
                     choisir :",
                    "Sinon, ignorez ce message : votre mot de passe reste le même.",
                ),
                &words(
                    "Somebody, probably you, asked for a new password. To choose it:",
                    "If it was not you, ignore this message: your password stays as it is.",
                ),
                &way(&email.reset_url, &proof()?),
            ),
        },
        Kind::TicketAnswered => Letter {
            subject: "Réponse du support / Answer from support",
            text: both(
                &words(
                    "Le support a répondu à votre demande :",
                    "La réponse se lit dans le ticket (GET /v1/support/tickets/{id}/messages).",
                ),
                &words(
                    "Support has answered your ticket:",
                    "Read the answer in the ticket (GET /v1/support/tickets/{id}/messages).",
                ),
                &notice.object_id,
            ),
        },
        Kind::WebhookDisabled => Letter {
            subject: "Webhook désactivé / Webhook disabled",
            text: both(
                &words(
                    "Cette cible ne répond plus et a été désactivée :",
                    "Une fois réparée, réactivez-la (PATCH, \"active\": true), puis demandez ce \
                     qu'elle a manqué (recover).",
                ),
                &words(
                    "This target does not work any more and was disabled:",
                    "Once it is repaired, enable it (PATCH, \"active\": true), then ask for what \
                     it missed (recover).",
                ),
                &notice.object_id,
            ),
        },
    })
}

/// A notice in one language: what stands before and after what it is about.
struct Words {
    before: &'static str,
    after: &'static str,
}

const fn words(before: &'static str, after: &'static str) -> Words {
    Words { before, after }
}

/// Both languages, about the same.
fn both(french: &Words, english: &Words, middle: &str) -> String {
    let part = |words: &Words| format!("{}\n\n{middle}\n\n{}\n", words.before, words.after);
    format!("{}\n--\n\n{}", part(french), part(english))
}

/// The page that takes a proof, or the proof alone where there is none.
fn way(url: &str, proof: &str) -> String {
    if url.is_empty() { proof.to_owned() } else { url.replace("{token}", proof) }
}

#[cfg(test)]
mod tests {
    use super::{both, way, words};

    #[test]
    fn both_languages_lead_to_the_same_place() {
        assert_eq!(way("", "est_pf_x"), "est_pf_x");
        let way = way("https://a.example/reset#{token}", "est_pf_x");
        assert_eq!(way, "https://a.example/reset#est_pf_x");
        let both = both(&words("un", "deux"), &words("one", "two"), &way);
        assert_eq!(both.matches(&way).count(), 2);
    }
}
