//! The command line. Each command opens the same database that a running service uses, does one
//! thing and prints one answer: text for people, or with `--json` one object for programs.

mod accounts;
mod carriers;
mod clock;
mod commands;
mod demo;
mod doctor;
mod health;
mod keys;
mod logs;
mod output;
mod password;
mod playground;
mod rotate_key;
mod serve;
mod signals;
mod staff;
mod upkeep;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use ::clock::Clock;
use clap::Parser;
use futures_util::FutureExt;
use store::Engines;

use crate::config::{self, Config};
use crate::kit::secret::Secret;
use crate::telemetry;
use crate::wiring::{self, OpenError, Service};
use commands::{Cli, Command, ConfigArgs};
use output::Output;

/// Runs what the arguments say: 0 when it worked, 1 when it did not, 2 for wrong arguments. Not
/// generic: the whole program would be compiled in the binary, after the library.
#[must_use]
pub fn run(
    arguments: Vec<OsString>,
    environment: Vec<(String, String)>,
    engines: Engines,
) -> ExitCode {
    // What is written is for this user alone: customers' files, copies of the database, keys.
    #[cfg(unix)]
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    let is_json = arguments.iter().any(|argument| argument == "--json");
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => return refused(&error, Output::new(is_json)),
    };
    let output = Output::new(cli.global.json);
    let code = run_within_runtime(cli, environment, engines, output);
    code.unwrap_or_else(|error| {
        output.failed(&format!("{error:#}"));
        ExitCode::FAILURE
    })
}

/// Says what is wrong with the arguments. Help and version come this way too, for the standard
/// output and with code 0.
fn refused(error: &clap::Error, output: Output) -> ExitCode {
    if error.use_stderr() && output.is_json() {
        let told = error.render().to_string();
        output.failed(told.trim_start_matches("error: ").trim_end());
    } else {
        let shown = error.print().and_then(|()| std::io::stdout().flush());
        if let Err(unwritten) = output::answered(shown) {
            output.failed(&unwritten.to_string());
            return ExitCode::FAILURE;
        }
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

fn run_within_runtime(
    cli: Cli,
    environment: Vec<(String, String)>,
    engines: Engines,
    output: Output,
) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    // Without its type: all commands would be compiled once for each way of blocking on them.
    let code = runtime.block_on(dispatch(cli, environment, engines, output).boxed_local());
    telemetry::flush();
    // Whatever still runs now was told to stop and did not: the process does not wait for it.
    runtime.shutdown_background();
    code
}

async fn dispatch(
    cli: Cli,
    environment: Vec<(String, String)>,
    engines: Engines,
    output: Output,
) -> anyhow::Result<ExitCode> {
    signals::outlive_large_files();
    let file = cli.global.config.clone();
    let mut flags = cli.global.flags(engines);
    let command = cli.command.unwrap_or(Command::Serve);
    // The demo touches no database but its own, unless its very command line names one.
    let demo_database =
        if let Command::Demo(_) = command { flags.database_url.take() } else { None };
    let strangers: Vec<String> =
        config::strangers(&environment).into_iter().map(str::to_owned).collect();
    // A service says it in its log, where that is one of nothing but JSON lines; to the doctor it
    // is a finding.
    if !matches!(command, Command::Serve | Command::Doctor) {
        for name in &strangers {
            output.hint(&format!("warning: {}", unread(name)));
        }
    }
    // These need no settings, but a file that is named is one that is there.
    if file.is_some() && matches!(command, Command::Playground(_) | Command::Openapi) {
        config::load(file.as_deref(), environment.iter().cloned(), flags.clone())?;
    }
    let load = || config::load(file.as_deref(), environment.into_iter(), flags);
    match command {
        Command::Playground(args) => return playground::run(&args, output).await,
        Command::Openapi => return upkeep::openapi(output),
        Command::Config(ConfigArgs { template: true }) => return upkeep::template(output),
        // What cannot be loaded is a finding.
        Command::Doctor => return doctor::run(load(), &strangers, output).await,
        _ => {}
    }
    let config = load()?;
    let settings = config.clone();
    let surroundings = Surroundings { strangers, demo_database };
    let done = carry_out(command, config, surroundings, output).boxed_local().await;
    done.map_err(|error| anyhow::anyhow!(with_remedy(&error, &settings, output)))
}

/// What is told of an error, and below it what the doctor would say to do.
fn with_remedy(error: &anyhow::Error, config: &Config, output: Output) -> String {
    match doctor::remedies::of_error(config, error) {
        // A program asks the doctor.
        Some(remedy) if !output.is_json() => format!("{error:#}\n-> {remedy}"),
        _ => format!("{error:#}"),
    }
}

/// What of the command line and the environment only some commands look at.
struct Surroundings {
    /// Variables that look like settings.
    strangers: Vec<String>,
    demo_database: Option<Secret>,
}

/// Runs a command that needs settings.
async fn carry_out(
    command: Command,
    config: Config,
    Surroundings { strangers, demo_database }: Surroundings,
    output: Output,
) -> anyhow::Result<ExitCode> {
    match command {
        Command::Serve => serve::run(config, &strangers, output).await,
        Command::Demo(args) => demo::run(config, demo_database, args.once, output).await,
        Command::Migrate => upkeep::migrate(config, output).await,
        Command::Staff(command) => staff::staff(config, command, output).await,
        Command::Account(command) => accounts::account(config, command, output).await,
        Command::Credits(command) => accounts::credits(config, command, output).await,
        Command::Key(command) => keys::key(config, command, output).await,
        Command::Health(args) => health::run(&config, &args, output).await,
        Command::Erase(args) => upkeep::erase(config, &args, output).await,
        Command::Compact => upkeep::compact(config, output).await,
        Command::Audit(args) => upkeep::audit(config, &args, output).await,
        Command::Backup(args) => upkeep::backup(config, &args.file, output).await,
        Command::RotateKey(args) => rotate_key::run(config, &args, output).await,
        Command::Clock(args) => clock::run(config, &args, output).await,
        Command::Carriers(command) => carriers::run(&config, &command, output).await,
        Command::Config(_) => upkeep::config(&config, output),
        Command::Playground(_) | Command::Openapi | Command::Doctor => Ok(ExitCode::SUCCESS),
    }
}

/// What is said of a variable that looks like a setting.
fn unread(variable: &str) -> String {
    format!("{variable} is not read: settings begin with ESTAFETTE__ (two underscores)")
}

/// Opens the database that a service made, and brings its schema up to date, so that every command
/// works after an upgrade. A directory without a database is refused: a new one would answer for
/// the one that was meant.
async fn open(config: Config, output: Output) -> anyhow::Result<Service> {
    let (place, is_shared) = (wiring::place_of(&config), config.database.is_shared());
    let service = open_as_it_is(config, output).await?;
    let migrated = service.migrate().await.map_err(|error| match error {
        OpenError::Key(..) => anyhow::Error::from(error),
        other => anyhow::Error::from(other).context("cannot bring the database up to date"),
    });
    migrated.map_err(|error| placed(error, &place, is_shared))?;
    Ok(service)
}

/// Opens the database that a service made as it is, for what is done before an upgrade.
async fn open_as_it_is(config: Config, output: Output) -> anyhow::Result<Service> {
    log_for(&config, output)?;
    wiring::must_exist(&config)?;
    let (place, is_shared) = (wiring::place_of(&config), config.database.is_shared());
    let service = wiring::open(config, Clock::system())?;
    let ready = service.must_have_tables().await;
    ready.map_err(|error| placed(error, &place, is_shared))?;
    Ok(service)
}

/// An error of a database on a server, with its place and where the remedy is.
fn placed(error: anyhow::Error, place: &str, is_shared: bool) -> anyhow::Error {
    if !is_shared || !is_of_database(&error) {
        return error;
    }
    let told = "(database.url) cannot be used; `estafette doctor` says what to do";
    error.context(format!("{place} {told}"))
}

/// Whether the database is to blame, rather than what is asked of it.
fn is_of_database(error: &anyhow::Error) -> bool {
    let opened = error.downcast_ref::<OpenError>();
    error.is::<store::Error>() || matches!(opened, Some(OpenError::Db(_)))
}

/// The same for the commands that make a database where there is none.
fn open_or_make(config: Config, output: Output) -> anyhow::Result<Service> {
    log_for(&config, output)?;
    wiring::open(config, Clock::system())
}

/// A program reads the error output of a command with `--json`: it gets one object, or nothing.
fn log_for(config: &Config, output: Output) -> anyhow::Result<()> {
    if output.is_json() { Ok(()) } else { logs::start(config) }
}

/// Refuses what the API refuses as well: a text that is shown in lists, also on terminals.
fn must_be_line(flag: &str, text: &str, max: usize) -> anyhow::Result<()> {
    let length = text.chars().count();
    anyhow::ensure!((1..=max).contains(&length), "{flag} must have 1 to {max} characters");
    let is_clean = !text.contains(char::is_control);
    anyhow::ensure!(is_clean, "{flag} must have no line breaks or other control characters");
    anyhow::ensure!(!text.trim().is_empty(), "{flag} must not be blank");
    Ok(())
}

/// The lines of a list, and whether there are more.
fn listing(lines: &[String], more: bool) -> String {
    match (lines, more) {
        ([], _) => "There are none.".to_owned(),
        (lines, false) => lines.join("\n"),
        (lines, true) => format!("{}\nThere are more: --limit sets how many.", lines.join("\n")),
    }
}

/// The first `limit` of rows that were read with one more than that, and whether there are more.
fn first<T>(rows: &mut Vec<T>, limit: i64) -> (std::vec::Drain<'_, T>, bool) {
    let limit = usize::try_from(limit).unwrap_or_default();
    let more = rows.len() > limit;
    rows.truncate(limit);
    (rows.drain(..), more)
}
