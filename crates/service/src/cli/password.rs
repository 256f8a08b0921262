//! Passwords at the command line: read from the standard input, or made up and shown once.

use anyhow::Context;
use clock::Clock;
use serde_json::Value;

use super::commands::LoginArgs;
use crate::access::key;
use crate::kit::secret::Secret;

/// A password, and whether its owner does not know it yet.
pub(super) struct Password {
    pub(super) secret: Secret,
    is_made_up: bool,
}

impl Password {
    /// From the standard input if asked for, else made up.
    pub(super) fn of(login: &LoginArgs, clock: &Clock) -> anyhow::Result<Self> {
        if !login.password_stdin {
            return Ok(Self { secret: key::made_up_password(clock), is_made_up: true });
        }
        let mut line = String::new();
        std::io::stdin().read_line(&mut line).context("cannot read the password")?;
        let secret = Secret::new(line.trim_end_matches(['\r', '\n']).to_owned());
        Ok(Self { secret, is_made_up: false })
    }

    /// The answer for programs, with the password if it was made up.
    pub(super) fn shown_in(&self, mut object: Value) -> Value {
        if let (true, Some(map)) = (self.is_made_up, object.as_object_mut()) {
            map.insert("password".to_owned(), Value::String(self.secret.expose().to_owned()));
        }
        object
    }

    /// The same for people: a line of its own, or nothing.
    pub(super) fn hint(&self) -> String {
        if self.is_made_up {
            format!("\npassword         {} (shown this once)", self.secret.expose())
        } else {
            String::new()
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::access::password;

    #[test]
    fn a_made_up_password_passes_the_rules_and_is_shown_only_then() {
        let clock = Clock::held(clock::Millis(0), 3);
        let secret = key::made_up_password(&clock);
        assert!(password::check(secret.expose(), "").is_ok());
        assert_ne!(secret.expose(), key::made_up_password(&clock).expose());
        let given = Password { secret, is_made_up: false };
        assert_eq!(given.shown_in(json!({})), json!({}));
        let made_up = Password { is_made_up: true, ..given };
        assert!(made_up.shown_in(json!({})).get("password").is_some());
    }
}
