//! Commands about people and accounts: `staff add`, `account add`, `credits add`, `key add`. What
//! they do is in the audit log under the command line's name.

use std::process::ExitCode;

use anyhow::{Context, bail, ensure};
use clock::Clock;
use serde_json::{Value, json};
use store::WriteSet;

use super::commands::{
    AccountCommand, CreditsArgs, CreditsCommand, KeyArgs, KeyCommand, LoginArgs, StaffCommand,
};
use super::output::Output;
use crate::access::api::NewKeyView;
use crate::access::idempotency::Claim;
use crate::access::{self, By, Credentials, Entry, NewKey, Scope, Who};
use crate::app::App;
use crate::config::Config;
use crate::credits;
use crate::kit::id::AccountId;
use crate::kit::secret::Secret;

/// The most credits in one go, either way, as over HTTP.
const MOST_CREDITS: i64 = 1_000_000_000_000;

/// `staff …`
pub(super) async fn staff(
    config: Config,
    command: StaffCommand,
    output: Output,
) -> anyhow::Result<ExitCode> {
    let StaffCommand::Add(login) = command;
    let service = super::open(config).await?;
    let password = Password::of(&login, &service.live.clock)?;
    let credentials = Credentials { email: &login.email, password: &password.secret };
    let id = access::add_staff(&service.live, credentials, By::CLI).await?;
    service.close().await;
    let object = password.shown_in(json!({ "staff_id": id.as_str() }));
    output.answer(&object, || format!("Added {} as staff: {id}{}", login.email, password.hint()));
    Ok(ExitCode::SUCCESS)
}

/// `account …`
pub(super) async fn account(
    config: Config,
    command: AccountCommand,
    output: Output,
) -> anyhow::Result<ExitCode> {
    let AccountCommand::Add(login) = command;
    let service = super::open(config).await?;
    let app = &service.live;
    let password = Password::of(&login, &app.clock)?;
    let credentials = Credentials { email: &login.email, password: &password.secret };
    let new = access::signup(app, credits::sandbox_grant, credentials, Some(&Who::Cli), "").await?;
    service.close().await;
    let object = password.shown_in(json!({
        "user_id": new.id.as_str(),
        "accounts": { "live": new.live.as_str(), "sandbox": new.sandbox.as_str() },
    }));
    output.answer(&object, || {
        format!(
            "Added {email} ({user})\nlive account     {live}\nsandbox account  {sandbox}{hint}\n\
             Next: estafette key add --account {sandbox} --name first",
            email = new.email,
            user = new.id,
            live = new.live,
            sandbox = new.sandbox,
            hint = password.hint(),
        )
    });
    Ok(ExitCode::SUCCESS)
}

/// `credits …`
pub(super) async fn credits(
    config: Config,
    command: CreditsCommand,
    output: Output,
) -> anyhow::Result<ExitCode> {
    let CreditsCommand::Add(args) = command;
    let range = -MOST_CREDITS..=MOST_CREDITS;
    ensure!(args.amount != 0 && range.contains(&args.amount), "--amount is 0 or too large");
    ensure!((1..=200).contains(&args.reason.chars().count()), "--reason has 1 to 200 characters");
    let id = account_id(&args.account)?;
    let service = super::open(config).await?;
    let balance = add_credits(&service.live, &id, &args).await?;
    service.close().await;
    output.answer(&json!({ "account_id": id.as_str(), "balance_credits": balance }), || {
        format!("{id} has {balance} credits now.")
    });
    Ok(ExitCode::SUCCESS)
}

async fn add_credits(app: &App, id: &AccountId, args: &CreditsArgs) -> anyhow::Result<i64> {
    let CreditsArgs { amount, reason, .. } = args;
    credits::balance(app, id).await?;
    let mut set = WriteSet::of(id.as_str());
    let transfer = if *amount > 0 {
        credits::grant(app, &mut set, id, *amount, reason)
    } else {
        credits::correct(app, &mut set, id, amount.saturating_neg(), reason)
    };
    let entry = Entry {
        actor: By::CLI.who,
        action: "credits.add",
        object_id: transfer.as_str(),
        account: Some(id),
        request_id: By::CLI.request_id,
        detail: json!({ "amount": amount, "reason": reason }),
    };
    access::record(app, &mut set, &entry);
    app.db.commit(set).await.map_err(credits::Error::from)?;
    Ok(credits::balance(app, id).await?.available)
}

/// `key …`
pub(super) async fn key(
    config: Config,
    command: KeyCommand,
    output: Output,
) -> anyhow::Result<ExitCode> {
    let KeyCommand::Add(args) = command;
    ensure!((1..=100).contains(&args.name.chars().count()), "--name has 1 to 100 characters");
    let id = account_id(&args.account)?;
    let wanted = NewKey { name: args.name.clone(), scopes: scopes(&args)? };
    let service = super::open(config).await?;
    let app = &service.live;
    let account = access::account(app, &id).await?.context("there is no such account")?;
    let (raw, key) = access::create_key(app, &account, &wanted, By::CLI, &Claim::default()).await?;
    service.close().await;
    let env = account.env.word();
    let text = format!("{}\n({} for {env}; shown this once)", raw.expose(), key.id);
    output.answer(&serde_json::to_value(NewKeyView::of(Some(&raw), key))?, || text);
    Ok(ExitCode::SUCCESS)
}

fn scopes(args: &KeyArgs) -> anyhow::Result<u16> {
    let mut chosen = 0;
    for word in &args.scopes {
        let Some(scope) = Scope::of(word) else {
            let known = Scope::words(Scope::set(Scope::ALL)).join(", ");
            bail!("there is no scope {word}; there are {known}");
        };
        chosen |= scope.bit();
    }
    Ok(if chosen == 0 { Scope::set(Scope::ALL) } else { chosen })
}

fn account_id(text: &str) -> anyhow::Result<AccountId> {
    AccountId::parse(text)
        .with_context(|| format!("{text} is no account id: acc_ and 26 characters"))
}

/// A password, and whether its owner does not know it yet.
struct Password {
    secret: Secret,
    is_made_up: bool,
}

impl Password {
    /// From the standard input if asked for, else made up.
    fn of(login: &LoginArgs, clock: &Clock) -> anyhow::Result<Self> {
        if !login.password_stdin {
            return Ok(Self { secret: Secret::new(made_up_password(clock)), is_made_up: true });
        }
        let mut line = String::new();
        std::io::stdin().read_line(&mut line).context("cannot read the password")?;
        let secret = Secret::new(line.trim_end_matches(['\r', '\n']).to_owned());
        Ok(Self { secret, is_made_up: false })
    }

    fn shown_in(&self, mut object: Value) -> Value {
        if let (true, Some(map)) = (self.is_made_up, object.as_object_mut()) {
            map.insert("password".to_owned(), Value::String(self.secret.expose().to_owned()));
        }
        object
    }

    fn hint(&self) -> String {
        if self.is_made_up {
            format!("\npassword         {} (shown this once)", self.secret.expose())
        } else {
            String::new()
        }
    }
}

/// Made up for somebody who gave none: 118 bits, in groups that can be read aloud.
pub(super) fn made_up_password(clock: &Clock) -> String {
    // Without letters and digits that look alike.
    const ALPHABET: &[u8; 31] = b"abcdefghjkmnpqrstuvwxyz23456789";
    let mut password = String::new();
    for at in 0..24 {
        if at > 0 && at % 6 == 0 {
            password.push('-');
        }
        let index = usize::try_from(clock.below(31)).unwrap_or_default();
        password.push(char::from(ALPHABET.get(index).copied().unwrap_or(b'a')));
    }
    password
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key_args(scopes: &[&str]) -> KeyArgs {
        let scopes = scopes.iter().map(|word| (*word).to_owned()).collect();
        KeyArgs { account: String::new(), name: String::new(), scopes }
    }

    #[test]
    fn no_scope_means_all_and_an_unknown_one_is_refused() {
        assert_eq!(scopes(&key_args(&[])).unwrap(), Scope::set(Scope::ALL));
        assert_eq!(scopes(&key_args(&["otp:send"])).unwrap(), Scope::OtpSend.bit());
        assert!(scopes(&key_args(&["otp:sned"])).unwrap_err().to_string().contains("otp:send"));
    }

    #[test]
    fn a_made_up_password_passes_the_rules_and_is_shown_only_then() {
        let clock = Clock::held(clock::Millis(0), 3);
        let password = made_up_password(&clock);
        assert!(access::password::check(&password).is_ok());
        assert_ne!(password, made_up_password(&clock));
        let given = Password { secret: Secret::new(password), is_made_up: false };
        assert_eq!(given.shown_in(json!({})), json!({}));
        let made_up = Password { is_made_up: true, ..given };
        assert!(made_up.shown_in(json!({})).get("password").is_some());
    }
}
