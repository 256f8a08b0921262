//! `estafette serve`: runs the service until it is told to stop.

use std::process::ExitCode;

use ::clock::Clock;
use serde_json::json;

use super::health::reachable;
use super::logs;
use super::output::Output;
use super::signals::{told_again, told_to_stop};
use crate::config::{Config, LogFormat};
use crate::wiring;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Runs it. `strangers` are variables of the environment that look like settings.
pub(super) async fn run(
    config: Config,
    strangers: &[String],
    output: Output,
) -> anyhow::Result<ExitCode> {
    let shown = config.clone();
    logs::start(&config)?;
    let running = tokio::select! {
        running = start(config) => running.map_err(|error| with_remedy(&error, &shown, output))?,
        // Nothing runs yet that would have to end first.
        () = told_to_stop() => return Ok(ExitCode::SUCCESS),
    };
    let addresses = Addresses::of(&running.addresses, &shown);
    // A log of JSON lines stays one of nothing but JSON lines.
    let hint = |text: &str| {
        if shown.log.format == LogFormat::Text {
            output.hint(text);
        }
    };
    // Who starts it at a terminal reads first what it is, where, and how to begin.
    hint(&banner(&addresses, &shown));
    for name in strangers {
        tracing::warn!("{}", super::unread(name));
    }
    addresses.log(&shown);
    if output.is_json() {
        // Who serves goes on: its log says where.
        if let Err(unwritten) = output.answer(&addresses.json(), String::new) {
            tracing::warn!("{unwritten}");
        }
    }
    let gave_up = tokio::select! {
        () = told_to_stop() => None,
        why = running.gave_up() => Some(why),
    };
    tracing::info!("stopping");
    hint("Stopping: running requests are finished first. Ctrl-C again stops at once.");
    let code = stop(running).await;
    match gave_up {
        Some(why) => anyhow::bail!(why),
        None => Ok(code),
    }
}

async fn start(config: Config) -> anyhow::Result<wiring::Running> {
    if wiring::must_exist(&config).is_err() {
        // Whoever mistyped an address finds no new database and key afterwards.
        wiring::can_listen(&config)?;
    }
    wiring::start(wiring::open(config, Clock::system())?).await
}

/// An error of the start, what to do about it, and who knows more.
fn with_remedy(error: &anyhow::Error, config: &Config, output: Output) -> anyhow::Error {
    let told = super::with_remedy(error, config, output);
    if output.is_json() {
        return anyhow::anyhow!(told);
    }
    anyhow::anyhow!(
        "{told}\n`estafette doctor` checks all that a start needs, and says what to do."
    )
}

/// Stops gracefully, or at once when told a second time.
pub(super) async fn stop(running: wiring::Running) -> ExitCode {
    tokio::select! {
        () = running.stop() => {
            tracing::info!("stopped");
            ExitCode::SUCCESS
        }
        () = told_again() => ExitCode::FAILURE,
    }
}

/// Where a running service answers.
pub(super) struct Addresses {
    pub(super) live: String,
    pub(super) sandbox: String,
    pub(super) metrics: String,
    pub(super) data: String,
    /// The reference of the API, as a browser on this machine reaches it.
    pub(super) docs: String,
}

impl Addresses {
    pub(super) fn of(at: &wiring::Addresses, config: &Config) -> Self {
        let folder = config.data_dir.display().to_string();
        let data = if config.database.url.is_empty() {
            folder
        } else {
            format!("{}; files in {folder}", wiring::place_of(config))
        };
        let scheme = if config.server.has_tls() { "https" } else { "http" };
        Self {
            live: format!("{scheme}://{}", at.live),
            sandbox: format!("{scheme}://{}", at.sandbox),
            metrics: format!("http://{}/metrics", at.metrics),
            docs: format!("{scheme}://{}/docs", reachable(at.sandbox)),
            data,
        }
    }

    /// Says in the log what runs, where, and what it lacks.
    fn log(&self, config: &Config) {
        let Self { live, sandbox, metrics, .. } = self;
        tracing::info!(version = VERSION, live, sandbox, metrics, "serving");
        let missing = missing_for_live(config);
        if !missing.is_empty() {
            tracing::info!(missing = missing.join(", "), "not set up for live");
        }
    }

    fn json(&self) -> serde_json::Value {
        json!({ "live": self.live, "sandbox": self.sandbox, "metrics": self.metrics })
    }
}

fn banner(addresses: &Addresses, config: &Config) -> String {
    let Addresses { live, sandbox, metrics, data, docs } = addresses;
    let missing = missing_for_live(config);
    let missing = if missing.is_empty() {
        String::new()
    } else {
        format!(
            "Not set up for live: {}. Sends that need it answer 503 carrier_unavailable; \
             the sandbox needs none of it.\n",
            missing.join(", ")
        )
    };
    format!(
        "estafette {VERSION}: one-time passcodes and messages, self-hosted\n  \
         sandbox   {sandbox}  simulated carriers, play money\n  \
         live      {live}\n  \
         metrics   {metrics}\n  \
         data      {data}\n\
         Start at {docs}: from sign-up to your first passcode.\n\
         For live, in another shell{with}: estafette account add{named_by} --email \
         you@example.com\n\
         {missing}Ctrl-C stops.",
        with = if config.has_variables { " with the same ESTAFETTE__ variables" } else { "" },
        named_by = config.named_by,
    )
}

/// What live sends lack, in the words of the settings.
fn missing_for_live(config: &Config) -> Vec<&'static str> {
    let lacks = [
        (config.chatapp.access_token.is_empty(), "no chat-app account ([chatapp])"),
        (config.sms.carriers.is_empty(), "no SMS carrier ([sms.carriers.*])"),
        (
            !config.sms.carriers.is_empty() && config.sms.routes.is_empty(),
            "no SMS route ([[sms.routes]])",
        ),
        (config.email.relay_url.is_empty(), "no mail relay (email.relay_url)"),
    ];
    lacks.into_iter().filter_map(|(lacks, what)| lacks.then_some(what)).collect()
}
