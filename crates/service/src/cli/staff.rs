//! Commands about the operator's staff: `staff add`, `staff list`, `staff remove`, `staff
//! set-password`.

use std::process::ExitCode;

use anyhow::{Context, anyhow};
use serde_json::json;

use super::commands::{ListArgs, LoginArgs, RemoveStaffArgs, StaffCommand};
use super::output::Output;
use super::password::Password;
use crate::access::idempotency::Claim;
use crate::access::staff::{self, api::StaffView};
use crate::access::token::Kind;
use crate::access::{self, By, Credentials};
use crate::config::{Config, quoted};
use crate::kit::id::StaffId;
use crate::kit::page::Page;

/// `staff …`
pub(super) async fn staff(
    config: Config,
    command: StaffCommand,
    output: Output,
) -> anyhow::Result<ExitCode> {
    match command {
        StaffCommand::Add(login) => add(config, &login, output).await?,
        StaffCommand::List(args) => list(config, &args, output).await?,
        StaffCommand::Remove(args) => remove(config, &args, output).await?,
        StaffCommand::SetPassword(login) => {
            let named_by = config.named_by.clone();
            let done = super::accounts::set_password(config, Kind::Staff, &login, output).await;
            done.map_err(|error| match error.downcast::<access::Error>() {
                Ok(error) => told(error, &named_by, &login.email),
                Err(error) => error,
            })?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Of the staff, where the room of access speaks of users, and what to do about it.
fn told(error: access::Error, named_by: &str, email: &str) -> anyhow::Error {
    match error {
        access::Error::NoSuchPerson => anyhow!(
            "nobody on the staff has this email; `estafette staff list{named_by}` shows who is"
        ),
        access::Error::EmailTaken => anyhow!(
            "somebody on the staff has this email: `estafette staff list{named_by}` shows who is, \
             and a new password comes from `estafette staff set-password{named_by} --email {}`",
            quoted(email)
        ),
        error => error.into(),
    }
}

async fn add(config: Config, login: &LoginArgs, output: Output) -> anyhow::Result<()> {
    let named_by = config.named_by.clone();
    let service = super::open(config, output).await?;
    let password = Password::of(login, &service.live.clock)?;
    let credentials = Credentials { email: &login.email, password: &password.secret };
    let claim = Claim::default();
    let added = access::add_staff(&service.live, credentials, By::CLI, &claim, false).await;
    let id = added.map_err(|error| told(error, &named_by, &login.email))?;
    service.close().await;
    let object = password.shown_in(json!({ "staff_id": id.as_str() }));
    let added = format!("Added {} as staff: {id}", login.email);
    let shown = output.answer(&object, || format!("{added}{}", password.hint()));
    shown.map_err(|unwritten| {
        unwritten.beside(&format!(
            "{added}. `estafette staff remove{named_by} --id {id}` undoes it, and `estafette staff \
             set-password{named_by} --email {}` gives another password",
            quoted(&login.email)
        ))
    })
}

async fn list(config: Config, args: &ListArgs, output: Output) -> anyhow::Result<()> {
    let service = super::open(config, output).await?;
    let page = Page::first(args.limit);
    let mut members = staff::list_staff(&service.live, &page).await?;
    service.close().await;
    let (members, more) = super::first(&mut members, args.limit);
    let views: Vec<StaffView> = members.map(StaffView::from).collect();
    let line = |view: &StaffView| {
        let last = view.last_login_at.as_deref().unwrap_or("never");
        format!("{}  {}  last login {last}", view.id, view.email)
    };
    let text = super::listing(&views.iter().map(line).collect::<Vec<_>>(), more);
    output.answer(&json!({ "staff": views, "more": more }), || text)?;
    Ok(())
}

async fn remove(config: Config, args: &RemoveStaffArgs, output: Output) -> anyhow::Result<()> {
    let named_by = config.named_by.clone();
    let service = super::open(config, output).await?;
    let app = &service.live;
    let id = match (&args.id, &args.email) {
        (Some(id), _) => {
            StaffId::parse(id).context("--id is not a staff id (stf_ and 26 characters)")?
        }
        (None, email) => {
            let email = email.as_deref().unwrap_or_default();
            let found = staff::staff_of(app, email).await;
            found.map_err(|error| told(error, &named_by, email))?
        }
    };
    staff::remove_staff(app, &id, By::CLI).await?;
    service.close().await;
    output.answer(&json!({ "staff_id": id.as_str() }), || {
        format!("{id} is no longer on the staff; their tokens have ended.")
    })?;
    Ok(())
}
