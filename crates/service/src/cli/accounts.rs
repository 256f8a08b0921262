//! Commands about users and their accounts: `account add`, `account list`, `account suspend`,
//! `account activate`, `account set-password`, `credits add`. What they do is in the audit log
//! under the command line's name.

use std::process::ExitCode;

use anyhow::{Context, ensure};
use serde_json::json;
use store::WriteSet;

use super::commands::{
    AccountArgs, AccountCommand, AccountsArgs, CreditsArgs, CreditsCommand, LoginArgs,
};
use super::output::Output;
use super::password::Password;
use crate::access::token::Kind;
use crate::access::{self, By, Credentials, Entry, MadeBy, NewUser};
use crate::app::{App, Standing};
use crate::config::{Config, quoted};
use crate::credits;
use crate::kit::id::{AccountId, TransferId};
use crate::kit::page::Page;
use crate::operator::accounts::api::AdminAccountView;
use crate::operator::accounts::{self, Filter, Patch};

/// The most credits in one go, either way, as over HTTP.
const MOST_CREDITS: i64 = 1_000_000_000_000;

/// `account …`
pub(super) async fn account(
    config: Config,
    command: AccountCommand,
    output: Output,
) -> anyhow::Result<ExitCode> {
    match command {
        AccountCommand::Add(login) => add(config, &login, output).await?,
        AccountCommand::List(args) => list(config, args, output).await?,
        AccountCommand::Suspend(args) => set(config, &args, Standing::Suspended, output).await?,
        AccountCommand::Activate(args) => set(config, &args, Standing::Active, output).await?,
        AccountCommand::SetPassword(login) => {
            set_password(config, Kind::Portal, &login, output).await?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn add(config: Config, login: &LoginArgs, output: Output) -> anyhow::Result<()> {
    let named_by = config.named_by.clone();
    let service = super::open(config, output).await?;
    let app = &service.live;
    let password = Password::of(login, &app.clock)?;
    let credentials = Credentials { email: &login.email, password: &password.secret };
    let grant = |set: &mut WriteSet, new: &NewUser| credits::sandbox_grant(app, set, &new.sandbox);
    let added = access::signup(app, credentials, MadeBy::Operator, grant).await;
    let (new, ()) = added.map_err(|error| match error {
        access::Error::EmailTaken => anyhow::anyhow!(
            "{error}: `estafette account list{named_by} --email {}` shows its accounts, and \
             `estafette account activate{named_by} --account ID` opens the live one",
            quoted(&login.email)
        ),
        other => other.into(),
    })?;
    service.close().await;
    let object = password.shown_in(json!({
        "user_id": new.id.as_str(),
        "accounts": { "live": new.live.as_str(), "sandbox": new.sandbox.as_str() },
    }));
    let shown = output.answer(&object, || {
        format!(
            "Added {email} ({user})\nlive account     {live}\nsandbox account  {sandbox}{hint}\n\
             Next: estafette key add{named_by} --account {sandbox} --name first",
            email = new.email,
            user = new.id,
            live = new.live,
            sandbox = new.sandbox,
            hint = password.hint(),
        )
    });
    shown.map_err(|unwritten| {
        unwritten.beside(&format!(
            "Added {} ({}) with the accounts {} (live) and {} (sandbox). `estafette account \
             set-password{named_by} --email {}` gives another password",
            new.email,
            new.id,
            new.live,
            new.sandbox,
            quoted(&new.email)
        ))
    })
}

async fn list(config: Config, args: AccountsArgs, output: Output) -> anyhow::Result<()> {
    let email = args.email.as_deref().map(str::trim);
    ensure!(email != Some(""), "--email must not be empty; leave it out to list all accounts");
    let service = super::open(config, output).await?;
    let filter = Filter {
        email: email.unwrap_or_default().to_lowercase(),
        env: args.env.and_then(|env| env.parse().ok()),
        status: args.status.and_then(|status| status.parse().ok()),
        ..Filter::default()
    };
    let limit = args.list.limit;
    let page = Page::first(limit);
    let mut rows = accounts::list(&service.live, &filter, &page).await?;
    service.close().await;
    let (rows, more) = super::first(&mut rows, limit);
    let views: Vec<AdminAccountView> = rows.map(AdminAccountView::from).collect();
    let line = |view: &AdminAccountView| {
        let AdminAccountView { id, env, status, balance_credits, email, .. } = view;
        format!("{id}  {env:<7}  {status:<9}  {balance_credits:>12}  {email}")
    };
    let text = super::listing(&views.iter().map(line).collect::<Vec<_>>(), more);
    output.answer(&json!({ "accounts": views, "more": more }), || text)?;
    Ok(())
}

async fn set(
    config: Config,
    args: &AccountArgs,
    standing: Standing,
    output: Output,
) -> anyhow::Result<()> {
    let id = account_id(&args.account)?;
    let service = super::open(config, output).await?;
    let patch = Patch { status: Some(standing.as_str()), ..Patch::default() };
    let row = accounts::change(&service.live, &id, &patch, By::CLI).await?;
    service.close().await;
    output.answer(&json!({ "account_id": id.as_str(), "status": row.status }), || {
        format!("{id} is {}; running nodes know within five seconds.", row.status)
    })?;
    Ok(())
}

/// `account set-password`, `staff set-password`
pub(super) async fn set_password(
    config: Config,
    kind: Kind,
    login: &LoginArgs,
    output: Output,
) -> anyhow::Result<()> {
    let service = super::open(config, output).await?;
    let app = &service.live;
    let password = Password::of(login, &app.clock)?;
    let credentials = Credentials { email: &login.email, password: &password.secret };
    let id = access::set_password(app, kind, credentials, By::CLI).await?;
    service.close().await;
    let name = match kind {
        Kind::Portal => "user_id",
        Kind::Staff => "staff_id",
    };
    let object = password.shown_in(json!({ name: id }));
    let shown = output.answer(&object, || {
        format!("{id} has a new password; all their logins have ended.{}", password.hint())
    });
    shown.map_err(|unwritten| {
        unwritten.beside(&format!("{id} has a new password nonetheless; set another one"))
    })
}

/// `credits …`
pub(super) async fn credits(
    config: Config,
    command: CreditsCommand,
    output: Output,
) -> anyhow::Result<ExitCode> {
    let CreditsCommand::Add(args) = command;
    let range = -MOST_CREDITS..=MOST_CREDITS;
    ensure!(
        args.amount != 0 && range.contains(&args.amount),
        "--amount must be from -{MOST_CREDITS} to {MOST_CREDITS}, and not 0"
    );
    super::must_be_line("--reason", &args.reason, 200)?;
    let id = account_id(&args.account)?;
    let named_by = config.named_by.clone();
    let service = super::open(config, output).await?;
    // Read before: nothing that fails behind the commit hides that it was made.
    let account = access::account(&service.live, &id).await?;
    let (transfer, balance) = add_credits(&service.live, &id, &args).await?;
    service.close().await;
    let note = account.map(|account| standing_note(account.standing, &id, &named_by));
    let note = note.unwrap_or_default();
    output
        .answer(&json!({ "account_id": id.as_str(), "balance_credits": balance }), || {
            format!("{id} has {balance} credits now.{note}")
        })
        .map_err(|unwritten| {
            let made = format!("The transfer {transfer} was made: {id} has {balance} credits now");
            unwritten.beside(&made)
        })?;
    Ok(ExitCode::SUCCESS)
}

/// What whoever prepares an account is told beside the answer, while it cannot send.
pub(super) fn standing_note(standing: Standing, id: &AccountId, named_by: &str) -> String {
    let why = match standing {
        Standing::Active => return String::new(),
        Standing::Pending => "pending and sends nothing yet",
        Standing::Suspended => "suspended and its keys open nothing",
    };
    format!("\nThe account is {why}: estafette account activate{named_by} --account {id}")
}

/// The transfer, and what is the account's own after it.
async fn add_credits(
    app: &App,
    id: &AccountId,
    args: &CreditsArgs,
) -> anyhow::Result<(TransferId, i64)> {
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
    let done = app.db.commit(set).await.map_err(credits::Error::from)?;
    let (own,): (i64,) =
        done.only().with_context(|| format!("the transfer {transfer} was made"))?;
    Ok((transfer, own))
}

/// The id of an account, as typed.
pub(super) fn account_id(text: &str) -> anyhow::Result<AccountId> {
    AccountId::parse(text)
        .with_context(|| format!("{text} is not an account id (acc_ and 26 characters)"))
}
