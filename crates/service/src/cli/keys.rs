//! Commands about API keys: `key add`, `key list`, `key disable`.

use std::process::ExitCode;

use anyhow::{Context, bail};
use serde_json::json;

use super::accounts::{account_id, standing_note};
use super::commands::{DisableKeyArgs, KeyArgs, KeyCommand, KeysArgs};
use super::output::Output;
use crate::access::api::{DisabledKeyView, KeyView, NewKeyView};
use crate::access::idempotency::Claim;
use crate::access::{self, By, NewKey, Scope};
use crate::config::Config;
use crate::kit::id::KeyId;
use crate::kit::page::Page;

/// `key …`
pub(super) async fn key(
    config: Config,
    command: KeyCommand,
    output: Output,
) -> anyhow::Result<ExitCode> {
    match command {
        KeyCommand::Add(args) => add(config, &args, output).await?,
        KeyCommand::List(args) => list(config, &args, output).await?,
        KeyCommand::Disable(args) => disable(config, &args, output).await?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn add(config: Config, args: &KeyArgs, output: Output) -> anyhow::Result<()> {
    super::must_be_line("--name", &args.name, 100)?;
    let id = account_id(&args.account)?;
    let wanted = NewKey { name: args.name.clone(), scopes: scopes(args)? };
    let named_by = config.named_by.clone();
    let service = super::open(config, output).await?;
    let app = &service.live;
    let account = access::account(app, &id).await?.context("there is no such account")?;
    let (raw, key) = access::create_key(app, &account, &wanted, By::CLI, &Claim::default()).await?;
    service.close().await;
    let env = account.env.as_str();
    let made = format!(
        "The key {0} was made, and nobody has seen it: `estafette key disable{named_by} --account \
         {id} --key {0}`, then make another",
        key.id
    );
    let text = format!(
        "{}\n({} for {env}; shown this once){}",
        raw.expose(),
        key.id,
        standing_note(account.standing, &id, &named_by)
    );
    let object = serde_json::to_value(NewKeyView::of(Some(&raw), key))?;
    output.answer(&object, || text).map_err(|unwritten| unwritten.beside(&made))
}

async fn list(config: Config, args: &KeysArgs, output: Output) -> anyhow::Result<()> {
    let id = account_id(&args.account)?;
    let service = super::open(config, output).await?;
    let app = &service.live;
    access::account(app, &id).await?.context("there is no such account")?;
    let page = Page::first(args.list.limit);
    let mut keys = access::list_keys(app, &id, &page).await?;
    service.close().await;
    let (keys, more) = super::first(&mut keys, args.list.limit);
    let views: Vec<KeyView> = keys.map(KeyView::from).collect();
    let line = |view: &KeyView| {
        let state = if view.active { "active" } else { "disabled" };
        format!("{}  {state:<8}  {}…  {}", view.id, view.key_prefix, view.name.escape_debug())
    };
    let text = super::listing(&views.iter().map(line).collect::<Vec<_>>(), more);
    output.answer(&json!({ "keys": views, "more": more }), || text)?;
    Ok(())
}

async fn disable(config: Config, args: &DisableKeyArgs, output: Output) -> anyhow::Result<()> {
    let account = account_id(&args.account)?;
    let id = KeyId::parse(&args.key).context("--key is not a key id (key_ and 26 characters)")?;
    let service = super::open(config, output).await?;
    access::disable_key(&service.live, &account, &id, By::CLI).await?;
    service.close().await;
    let view = DisabledKeyView { id: id.to_string(), active: false };
    output.answer(&serde_json::to_value(view)?, || {
        format!("{id} no longer works: a running service refuses it within five seconds.")
    })?;
    Ok(())
}

fn scopes(args: &KeyArgs) -> anyhow::Result<u16> {
    let mut chosen = 0;
    for word in &args.scopes {
        let Ok(scope) = word.parse::<Scope>() else {
            let known = Scope::words(Scope::set(Scope::ALL)).join(", ");
            bail!("there is no scope {word}; there are {known}");
        };
        chosen |= scope.bit();
    }
    Ok(if chosen == 0 { Scope::set(Scope::ALL) } else { chosen })
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
}
