//! Rank 1: the settings of one process. One struct per concern, units in the names, unknown keys
//! are errors. The defaults and their explanations are in `default.toml`.

mod bounds;
mod carriers;
mod check;
mod choices;
mod fault;
mod layers;
mod load;
mod plain;
mod relay;
mod show;
mod sms;
mod template;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::path::PathBuf;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use store::Engines;

use crate::kit::secret::Secret;

pub use carriers::{BindMode, LongText, MessageId, Smpp, SmsCarrier, SmsHttp, ValidityForm};
pub use choices::{FraudGuard, HandsetStore, LogFormat};
pub use fault::{LoadError, LoadErrors, Source};
pub(crate) use load::quoted;
pub use load::{Flags, address_of, load, strangers};
pub use relay::{BadRelay, RelayUrl};
pub use show::{show, show_json};
pub use sms::{Sms, SmsChoice, SmsClass, SmsLookup, SmsRoute, SmsShare};
pub use template::template;

/// Everything that can be set.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Where the embedded database, the master key and files live.
    pub data_dir: PathBuf,
    /// Master keys, 64 hexadecimal digits each; empty = `master.key` in `data_dir`.
    pub master_key: Secret,
    /// The file that `master_key` was read from, where it was one: it is read again for new keys.
    #[serde(skip)]
    pub master_key_path: Option<PathBuf>,
    /// The flags that name these settings, with a space in front, for commands that are suggested.
    #[serde(skip)]
    pub named_by: String,
    /// Whether variables of the environment set any of them.
    #[serde(skip)]
    pub has_variables: bool,
    /// The files that secrets were read from, but for the master key.
    #[serde(skip)]
    pub secret_files: Vec<PathBuf>,
    /// Addresses.
    pub server: Server,
    /// Storage.
    pub database: Database,
    /// Users and tokens.
    pub access: Access,
    /// Requests per second.
    pub limits: Limits,
    /// Credits.
    pub credits: Credits,
    /// Passcodes.
    pub otp: Otp,
    /// Virtual handsets.
    pub sandbox: Sandbox,
    /// Webhooks.
    pub webhooks: Webhooks,
    /// Support tickets.
    pub support: Support,
    /// How long things are kept.
    pub retention: Retention,
    /// The shared chat-app business account of the live environment.
    pub chatapp: Chatapp,
    /// SMS carriers and routes of the live environment.
    pub sms: Sms,
    /// Email.
    pub email: Email,
    /// Logs.
    pub log: Log,
    /// Traces.
    pub telemetry: Telemetry,
}

impl Config {
    /// The file of the master keys; `None` = they are in the environment or among the settings.
    #[must_use]
    pub fn master_key_file(&self) -> Option<PathBuf> {
        let own = || self.master_key.is_empty().then(|| self.data_dir.join("master.key"));
        self.master_key_path.clone().or_else(own)
    }

    /// What the service is called before mail servers: the shared domain, or its public host.
    #[must_use]
    pub fn mail_name(&self) -> String {
        let shared = &self.email.shared_domain;
        if !shared.is_empty() {
            return shared.clone();
        }
        let url = url::Url::parse(&self.server.live_url).ok();
        url.as_ref().and_then(url::Url::domain).unwrap_or("localhost").to_owned()
    }

    /// Whether a process that serves keeps the sandbox's handsets to itself.
    #[must_use]
    pub fn keeps_handsets_in_memory(&self) -> bool {
        match self.sandbox.handsets {
            HandsetStore::Auto => !self.database.is_shared(),
            HandsetStore::Memory => true,
            HandsetStore::Database => false,
        }
    }
}

/// Listening and public addresses.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// The live environment listens here.
    pub live: SocketAddr,
    /// The sandbox listens here.
    pub sandbox: SocketAddr,
    /// Prometheus metrics, on a listener of their own.
    pub metrics: SocketAddr,
    /// The public address of the live environment, without a trailing slash.
    pub live_url: String,
    /// The public address of the sandbox.
    pub sandbox_url: String,
    /// Longest time for one request, milliseconds.
    pub request_timeout_ms: u64,
    /// How long a stop waits for running requests, milliseconds.
    pub drain_timeout_ms: u64,
    /// How long a stop goes on accepting connections and refuses what they ask, milliseconds.
    pub drain_accept_ms: u64,
    /// For the TLS handshake, and again for the head of a request, milliseconds.
    pub header_timeout_ms: u64,
    /// How long the body of a request may pause, milliseconds.
    pub body_timeout_ms: u64,
    /// How long a client may pause in taking an answer, milliseconds.
    pub write_timeout_ms: u64,
    /// The slowest pace of bodies and of clients that read, bytes per second.
    pub slowest_bytes_per_s: u32,
    /// How long a connection may be without a request, milliseconds.
    pub idle_timeout_ms: u64,
    /// Open connections of both environments together; 0 = what the limit of open files allows.
    pub max_connections: usize,
    /// Open connections from one address that is no trusted proxy.
    pub max_connections_per_address: usize,
    /// Requests at a time on one HTTP/2 connection.
    pub http2_streams: u32,
    /// Networks of proxies whose `X-Forwarded-For` is believed.
    #[serde(deserialize_with = "bounds::networks")]
    pub trusted_proxies: Vec<IpNet>,
    /// The certificate chain, PEM; empty = plain HTTP.
    pub tls_cert_file: PathBuf,
    /// Its private key, PEM.
    pub tls_key_file: PathBuf,
}

impl Server {
    /// Whether the API speaks TLS itself.
    #[must_use]
    pub fn has_tls(&self) -> bool {
        !self.tls_cert_file.as_os_str().is_empty()
    }
}

/// Which database.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Database {
    /// Empty = SQLite in `data_dir`; `sqlite:PATH`; `postgres://…`. May hold a password.
    pub url: Secret,
    /// Write sets that may wait; more are answered 503 `overloaded`.
    pub queue: usize,
    /// PostgreSQL: connections that write.
    pub batchers: usize,
    /// PostgreSQL: connections that read.
    pub readers: usize,
    /// PostgreSQL: whether statements are prepared once for each connection.
    pub prepared_statements: bool,
    /// PostgreSQL: how long a server that does not answer is waited for, milliseconds.
    pub patience_ms: u64,
    /// What opens it.
    #[serde(skip)]
    pub engines: Engines,
}

impl Database {
    /// Whether several processes may serve from it at the same time.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.url.expose().starts_with("postgres")
    }

    /// Whose clock the service goes by, in the words of errors.
    #[must_use]
    pub fn whose_clock(&self) -> &'static str {
        if self.is_shared() { "the database server's" } else { "this machine's" }
    }
}

/// Virtual handsets of the sandbox.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Sandbox {
    /// Where they keep their messages: `auto`, `memory` or `database`.
    pub handsets: HandsetStore,
    /// Messages that an account keeps in the database.
    pub handset_messages: i64,
    /// Messages that people sent to an account, which it keeps.
    pub inbound_messages: i64,
}

/// Users, logins and tokens.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Access {
    /// Whether anyone may sign up at the live address.
    pub signup_live: bool,
    /// Whether anyone may sign up at the sandbox address.
    pub signup_sandbox: bool,
    /// Life of a portal token, seconds.
    pub portal_token_s: i64,
    /// Life of a staff token, seconds.
    pub staff_token_s: i64,
    /// Passwords of guests and users hashed at a time, 19 MiB each. Staff have one more.
    pub password_hashers: usize,
}

/// Requests per second for each API key or token; bursts may be twice that.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Sends.
    pub send_per_s: u32,
    /// Everything else.
    pub read_per_s: u32,
    /// Logins, sign-ups and changes of passwords in a minute from one address.
    pub guest_per_min: u32,
    /// New users in a minute from one address; at once twice as many.
    pub signup_per_min: u32,
    /// Replies of an account's virtual handsets in an hour, all of which may come at once.
    pub handset_replies_per_hour: u32,
}

/// Credits and prices.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Credits {
    /// Play money of a new sandbox account.
    pub sandbox_grant: i64,
    /// Prices of a new database.
    pub prices: Vec<DefaultPrice>,
    /// Seconds between two audits in the background; 0 = none.
    pub audit_every_s: i64,
    /// Seconds between two rounds of sealing.
    pub seal_every_s: i64,
}

/// One price of a new database.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct DefaultPrice {
    /// `chatapp`, `sms` or `email`.
    pub channel: String,
    /// `authentication`, `utility`, `marketing`, `service`, `session` or `message`.
    pub category: String,
    /// ISO 3166 code, or `*` for all others.
    pub country: String,
    /// Credits for one message or segment.
    pub credits: i64,
}

/// Passcodes.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Otp {
    /// How long an answer waits for the first receipt, milliseconds; 0 = not at all.
    pub receipt_wait_ms: u64,
    /// Seconds without a `delivered` receipt until SMS takes over, where the account sets none.
    pub fallback_after_s: i64,
    /// Validity, seconds, where the account sets none.
    pub validity_s: i64,
    /// Guesses for each challenge.
    pub max_attempts: i64,
    /// Seconds between two sends to one recipient on one channel (live).
    pub resend_after_s: i64,
    /// Sends to one recipient in 10 minutes (live); at most 10.
    pub recipient_per_10_min: u32,
    /// Sends to one recipient in a day (live); at most 10.
    pub recipient_per_day: u32,
    /// Wrong guesses at a recipient in a day, then live sends are an hour apart; at most 20.
    pub wrong_guesses_per_day: u32,
    /// Against passcodes that nobody verifies (live).
    pub fraud_guard: FraudGuard,
}

/// Webhooks.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Webhooks {
    /// Development only: plain http targets.
    pub allow_http: bool,
    /// Development only: networks that targets may be in although they are not public (CIDR).
    pub allow_networks: Vec<String>,
    /// Pauses between tries, seconds.
    pub retry_schedule_s: Vec<i64>,
    /// Time for one try, the answer's body included, milliseconds.
    pub timeout_ms: u64,
    /// Time for the name, TCP and TLS of one try, milliseconds.
    pub connect_timeout_ms: u64,
    /// Tries of one process at the same time; each may need a connection.
    pub parallel: usize,
    /// `host:port`; empty = the system's.
    pub dns_server: String,
    /// PEM file of authorities that are trusted besides the public ones; empty = none.
    pub ca_file: String,
}

/// Support tickets, their files and live chat.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Support {
    /// Days until a resolved ticket is closed.
    pub close_after_d: i64,
    /// Minutes until staff's first reply is due; 0 = no target.
    pub first_reply_min: ByPriority,
    /// Minutes until a ticket is due to be resolved; 0 = no target.
    pub resolution_min: ByPriority,
    /// Tickets of one account that are not closed.
    pub open_tickets: i64,
    /// Where attachments are: empty = `files` in `data_dir`; a directory; `s3://bucket/prefix`.
    pub storage: String,
    /// Address of the S3-compatible store; empty = that of AWS for the region.
    pub s3_endpoint: String,
    /// Its region.
    pub s3_region: String,
    /// The key's id.
    pub s3_access_key_id: Secret,
    /// The key.
    pub s3_secret_access_key: Secret,
    /// What an account's attachments may take, MiB.
    pub account_storage_mib: i64,
    /// The virus scanner: `host:port` or `unix:PATH`; empty = none.
    pub clamd: String,
    /// How long it is waited for, milliseconds.
    pub clamd_timeout_ms: u64,
    /// Origins of pages that may open live chat, besides the service's own.
    pub origins: Vec<String>,
    /// Whether portal and staff tokens open live chat, or only one-use tokens.
    pub long_tokens_in_chat: bool,
    /// Sockets of one person.
    pub sockets_per_person: usize,
    /// Seconds between two pings.
    pub ping_s: u64,
    /// The time over which the farewells of a stop are spread, milliseconds.
    pub drain_spread_ms: u64,
}

/// One figure for each priority.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ByPriority {
    /// For `low`.
    pub low: i64,
    /// For `normal`.
    pub normal: i64,
    /// For `high`.
    pub high: i64,
}

/// How long personal data is kept, and how fast it is forgotten.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Retention {
    /// Days that a token is kept after its end.
    pub tokens_d: i64,
    /// Days until a passcode's recipient becomes a keyed hash.
    pub recipients_d: i64,
    /// Days until passcodes and attempts are deleted.
    pub challenges_d: i64,
    /// The same on the sandbox, where that is sooner.
    pub sandbox_d: i64,
    /// Days until messages that people sent are deleted.
    pub inbound_d: i64,
    /// Days until lines of the audit log are deleted.
    pub audit_log_d: i64,
    /// Days from a ticket's end until its attachments are deleted.
    pub ticket_files_d: i64,
    /// Days from a ticket's end until it is deleted.
    pub tickets_d: i64,
    /// Rows of one step.
    pub chunk: i64,
    /// Shortest pause between two steps, milliseconds.
    pub pause_ms: u64,
}

/// The deployment's shared chat-app business account.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chatapp {
    /// Address of the Cloud API.
    pub base_url: String,
    /// Its version.
    pub api_version: String,
    /// The sending number's id.
    pub phone_number_id: String,
    /// The business account's id.
    pub waba_id: String,
    /// Token for sending.
    pub access_token: Secret,
    /// Signs callbacks.
    pub app_secret: Secret,
    /// Handshake of callbacks.
    pub verify_token: Secret,
    /// Messages a second that one number may send from each node.
    pub messages_per_s: u32,
    /// Template of passcodes where a request names none.
    pub otp_template: String,
    /// Template that asks for consent.
    pub consent_template: String,
}

/// Email.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Email {
    /// `smtp://host:port` or `smtps://…`, credentials in the URL.
    pub relay_url: Secret,
    /// A PEM file with authorities that are trusted besides the public ones; empty = none.
    pub ca_file: String,
    /// A domain of the service that every account may send from.
    pub shared_domain: String,
    /// Pauses between tries, seconds.
    pub retry_schedule_s: Vec<i64>,
    /// Where reports of other mail servers come in, `address:port`; empty = nowhere.
    pub reports: String,
    /// `host:port`; empty = the system's.
    pub dns_server: String,
    /// The page that confirms an address; `{token}` in it is the proof. Empty = the proof alone.
    pub verify_url: String,
    /// The page that sets another password, likewise.
    pub reset_url: String,
    /// How long a proof of an address is good, seconds.
    pub verify_life_s: i64,
    /// How long a reset of a password is good, seconds.
    pub reset_life_s: i64,
    /// Resets that one user gets in an hour.
    pub resets_per_hour: i64,
}

/// Logs.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Log {
    /// `text` or `json`.
    pub format: LogFormat,
    /// `error`, `warn`, `info`, `debug`, or directives of tracing-subscriber.
    pub level: String,
}

/// Traces for OpenTelemetry.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Telemetry {
    /// `http://host:port` of the collector; empty = no traces.
    pub otlp_endpoint: String,
    /// Percent of the requests that are traced.
    pub sample_percent: u8,
}
