//! The command-line grammar: the commands, their flags and their help.

mod numbers;
mod people;

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use store::Engines;

use crate::config::{Flags, address_of};
use crate::kit::secret::Secret;
use numbers::whole;
pub(super) use people::{
    AccountArgs, AccountCommand, AccountsArgs, DisableKeyArgs, EraseArgs, KeyArgs, KeyCommand,
    KeysArgs, ListArgs, LoginArgs, RemoveStaffArgs, StaffCommand,
};

/// One-time passcodes and messages over chat-app, SMS and email, self-hosted.
#[derive(Parser)]
#[command(
    name = "estafette",
    bin_name = "estafette",
    version,
    after_help = "\
Examples:
  estafette demo                          see it work, nothing to set up
  estafette                               serve, with SQLite in ./estafette-data
  estafette account add --email a@b.example
  estafette --config /etc/estafette.toml serve

Settings: default.toml < --config FILE < environment (ESTAFETTE__OTP__VALIDITY_S=120) < flags.
`estafette config` prints those in force."
)]
pub(super) struct Cli {
    #[command(flatten)]
    pub(super) global: Global,
    #[command(subcommand)]
    pub(super) command: Option<Command>,
}

/// Flags of every command.
#[derive(Args)]
#[command(next_help_heading = "Settings, for every command")]
pub(super) struct Global {
    /// A file with settings of your own, TOML.
    #[arg(long, global = true, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// Print one JSON object on the standard output, and nothing else there; where a command
    /// cannot answer, {"error": "…"} on the error output.
    #[arg(long, global = true)]
    pub(super) json: bool,
    /// Where the live environment listens.
    #[arg(long, global = true, value_name = "ADDRESS:PORT", value_parser = address_of)]
    live: Option<SocketAddr>,
    /// Where the sandbox listens.
    #[arg(long, global = true, value_name = "ADDRESS:PORT", value_parser = address_of)]
    sandbox: Option<SocketAddr>,
    /// Where Prometheus metrics are.
    #[arg(long, global = true, value_name = "ADDRESS:PORT", value_parser = address_of)]
    metrics: Option<SocketAddr>,
    /// Where the embedded database, the master key and files live.
    #[arg(long, global = true, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// sqlite:PATH or postgres://…; other users see flags, so give a password in the environment
    /// or a file.
    #[arg(long, global = true, value_name = "URL", value_parser = secret)]
    database_url: Option<Secret>,
}

impl Global {
    /// What overrules all other settings.
    pub(super) fn flags(self, engines: Engines) -> Flags {
        Flags {
            live: self.live,
            sandbox: self.sandbox,
            metrics: self.metrics,
            data_dir: self.data_dir,
            database_url: self.database_url,
            engines,
        }
    }
}

#[expect(clippy::unnecessary_wraps, reason = "the shape that clap asks for")]
fn secret(text: &str) -> Result<Secret, std::convert::Infallible> {
    Ok(Secret::new(text.to_owned()))
}

/// The commands.
#[derive(Subcommand)]
pub(super) enum Command {
    /// Run the service (the default).
    #[command(after_help = "\
Brings the database up to date, then serves the live environment, the sandbox and the metrics.
SIGTERM or Ctrl-C finishes what is running and stops; a second one stops at once.

Examples:
  estafette serve
  estafette serve --live 0.0.0.0:8080 --data-dir /var/lib/estafette
  ESTAFETTE__LOG__FORMAT=json estafette serve

--json prints {live, sandbox, metrics} (URLs) once all three answer.")]
    Serve,
    /// Show the whole service at work on this machine, step by step.
    #[command(after_help = "\
Starts the service with a database of its own (DATA_DIR/demo, removed before and after), signs up,
sends passcodes to virtual handsets, verifies one, and says where everything is. No carrier and no
account of anybody is needed. Takes free ports when the usual ones are in use. With --database-url
(and no other setting) it uses that database, which must have no tables yet, and drops
those that it made at the end.

Examples:
  estafette demo
  estafette demo --once --json
  estafette demo --database-url postgres://localhost/demo")]
    Demo(DemoArgs),
    /// Look at everything that a start relies on, and say what to do about what is wrong.
    #[command(after_help = "\
Settings, data directory, disk, addresses, database, clock, master key, carriers, webhooks: a line
each, ok, warning or error, with what to do. Changes nothing, and works beside a running service.
Exit code 1: something is an error.

Examples:
  estafette doctor
  estafette --config /etc/estafette.toml doctor
  estafette doctor --json

--json prints {ok, errors, warnings, findings}; a finding is {about, health, found, remedy}.")]
    Doctor,
    /// Bring the database up to date and stop.
    #[command(after_help = "\
`serve` does this by itself; this is for deployments that want it as a step of its own. Makes the
database where there is none, as only `serve` and `demo` do besides.

Examples:
  estafette migrate
  estafette migrate --json                {\"version\": N}, the newest migration")]
    Migrate,
    /// People who operate the service.
    #[command(subcommand)]
    Staff(StaffCommand),
    /// Users and their accounts.
    #[command(subcommand)]
    Account(AccountCommand),
    /// Credits of accounts.
    #[command(subcommand)]
    Credits(CreditsCommand),
    /// API keys.
    #[command(subcommand)]
    Key(KeyCommand),
    /// Prove that the ledger adds up; exit code 1 if it does not.
    #[command(after_help = "\
Recomputes every balance from its transfers, and checks that nothing in the ledger and the audit log
was changed, made up or removed. Works beside a running service. Only a seal that was kept elsewhere
shows that the whole database is an old copy: print the newest one now and then, and compare later.

Examples:
  estafette audit
  estafette audit --head > /elsewhere/ledger.head
  estafette audit --since-head /elsewhere/ledger.head
  estafette audit --json     {ok, accounts, transfers, unsealed, seals, log_lines, holds_open,
                             attempts_unknown, violations_found, violations, dangling_found,
                             dangling}; the first 1,000 findings are named

--head --json: {head, seal, hash, sealed_at}; head is null where nothing is sealed yet.")]
    Audit(AuditArgs),
    /// Ask the running service on this machine whether it is well; exit code 1 if it is not.
    #[command(after_help = "\
For supervisors that can only run a command, such as a container's health check. Finds the service
by the settings, as it was started.

Examples:
  estafette health                        it answers
  estafette health --ready                it can serve: not while it stops or lacks its database

--json: {ok}.")]
    Health(HealthArgs),
    /// Erase a person, by phone number or email address, from everything sent to or by them.
    #[command(after_help = "\
What is still open ends, and what is held for it is given back; a keyed hash takes the place of the
number or address, and texts are emptied. Works beside a running service; a second time changes
nothing. The audit log notes it without the number. Backups keep what they have: erase again after
restoring one. At the end it searches the files of the embedded database, and says whether the
number is still in an unused part of them.

Examples:
  estafette erase --recipient +33612345678
  estafette erase --recipient ada@example.com --account acc_01h455vb4pex5vsknk084sn02q
  echo +33612345678 | estafette erase --recipient - --json

With -, the recipient is read from the standard input: other users of this machine can see flags.
--json: {challenges, messages, emails, ended, idempotency_keys, inbound_notifications,
ticket_messages, files_clean, handsets_in_memory}; files_clean is null on PostgreSQL.")]
    Erase(EraseArgs),
    /// Write the embedded database anew, without anything that was deleted.
    #[command(after_help = "\
Gives the space of deleted rows back, and leaves no byte of them in unused parts of the file. Needs
room for the database twice, and nobody can write meanwhile: beside a running service, in a quiet
hour. On PostgreSQL use VACUUM FULL.

Examples:
  estafette compact
  estafette compact --json                {\"bytes_before\": 4096000, \"bytes_after\": 172032}")]
    Compact,
    /// Copy the database to a file while it is in use.
    #[command(after_help = "\
The copy is consistent, and a database of the embedded engine, also when it comes from PostgreSQL:
--database-url sqlite:FILE opens it. Back up the master key (DATA_DIR/master.key) too, in another
place: without it the copy cannot be used.

Examples:
  estafette backup /backup/estafette.db
  estafette backup --json copy.db         {\"file\": \"copy.db\", \"bytes\": 172032}")]
    Backup(BackupArgs),
    /// Put a new master key in the place of the one that writes, beside a running service.
    #[command(after_help = "\
With DATA_DIR/master.key it makes the new key itself. Where the key is given by master_key_file, put
a new one in its first line, at every node, before. Waits until every node knows the new key, lets
it write, and seals anew what lasts. Killed half-way, the same command goes on. The former key stays
in the file for 25 hours, while something may still need it; then --drop takes it out.

Examples:
  estafette rotate-key
  estafette rotate-key --drop

--json: {begun, key_id, former: [{key_id, until}], resealed}; begun is false where an earlier \
        rotation was continued. With --drop {key_id, dropped: [KEY_ID], \
        removed: [KEY_ID]}; removed lists the keys taken out of DATA_DIR/master.key.")]
    RotateKey(RotateKeyArgs),
    /// Show whether the machine's clock is believed, or say that it is right.
    #[command(after_help = "\
Nothing is deleted for its age on the word of a clock that jumped ahead by more than a day. That is
also how it looks when a service was off for longer, or when an old backup was restored. If the
clock is right, say so; nodes hear of it within a minute, and the audit log notes it.

Examples:
  estafette clock
  estafette clock --confirm

--json: {clock, witnessed, ahead_s, holds_back}.")]
    Clock(ClockArgs),
    /// Print the settings in force, secrets masked.
    #[command(after_help = "\
Examples:
  estafette config --template > estafette.toml   a start for a file of your own
  ESTAFETTE__OTP__VALIDITY_S=120 estafette config --json")]
    Config(ConfigArgs),
    /// Print the OpenAPI 3.1 description of the API.
    #[command(after_help = "\
The same document as at /v1/openapi.json. It is JSON with and without --json.

Example:
  estafette openapi > openapi.json")]
    Openapi,
    /// Look at carriers of the settings.
    #[command(subcommand)]
    Carriers(CarriersCommand),
    /// Run simulated upstreams on this machine.
    #[command(after_help = "\
A webhook sink: takes any POST, prints it and whether its signature is right, and lists the last
1,000 at GET /requests. Give it the webhook's secret with --webhook-secret, or while it runs with
  curl -X PUT 127.0.0.1:9099/secrets -d whsec_...
To let the service reach it, start that with
  ESTAFETTE__WEBHOOKS__ALLOW_HTTP=true
  ESTAFETTE__WEBHOOKS__ALLOW_NETWORKS='[\"127.0.0.0/8\", \"::1/128\"]'

An SMPP message centre: takes any login. The end of a number scripts what happens:
  9001          throttled twice, then accepted
  9002, 9003    refused: bad destination, system error
  9004, 9005    accepted and never answered; accepted and the connection cut
  9006          accepted, no receipt
  9011 to 9015  receipt UNDELIV, EXPIRED, REJECTD, DELETED, UNKNOWN
  9016, 9017    receipt ENROUTE, then DELIVRD; receipt before the answer
  9018, 9019    receipt twice; receipt DELIVRD, then UNDELIV
To send live SMS by it, start the service with
  ESTAFETTE__SMS__CARRIERS__MAIN__KIND=smpp ESTAFETTE__SMS__CARRIERS__MAIN__PORT=2775
  ESTAFETTE__SMS__ROUTES='[{prefix = \"+\", carriers = [\"main\"]}]'

Examples:
  estafette playground
  curl 127.0.0.1:2780/messages
  curl 127.0.0.1:2780/mo -H 'Content-Type: application/json' \\
    -d '{\"from\": \"+33612345678\", \"to\": \"38000\", \"text\": \"STOP\"}'")]
    Playground(PlaygroundArgs),
}

/// Of `config`.
#[derive(Args)]
pub(super) struct ConfigArgs {
    /// Print a file with every setting, its default and what it is for, all of it as comments.
    #[arg(long)]
    pub(super) template: bool,
}

/// Of `demo`.
#[derive(Args)]
pub(super) struct DemoArgs {
    /// Stop after the last step instead of serving on.
    #[arg(long, visible_alias = "exit")]
    pub(super) once: bool,
}

/// Of `audit`.
#[derive(Args)]
pub(super) struct AuditArgs {
    /// Print the newest seal, for keeping elsewhere, and audit nothing.
    #[arg(long, conflicts_with = "since_head")]
    pub(super) head: bool,
    /// A seal that was kept elsewhere, or a file with it; - reads it from the standard input.
    #[arg(long, value_name = "SEAL")]
    pub(super) since_head: Option<String>,
}

/// Of `health`.
#[derive(Args)]
pub(super) struct HealthArgs {
    /// Ask for readiness, not only for an answer.
    #[arg(long)]
    pub(super) ready: bool,
}

/// Of `rotate-key`.
#[derive(Args)]
pub(super) struct RotateKeyArgs {
    /// Drop former keys, once nothing needs them any more.
    #[arg(long)]
    pub(super) drop: bool,
    /// How long to wait for nodes, seconds.
    #[arg(long, value_name = "S", default_value_t = 240, value_parser = whole::<u64>)]
    pub(super) patience_s: u64,
}

/// Of `clock`.
#[derive(Args)]
pub(super) struct ClockArgs {
    /// The clock is right: believe it.
    #[arg(long)]
    pub(super) confirm: bool,
}

/// Of `backup`.
#[derive(Args)]
pub(super) struct BackupArgs {
    /// The copy; it must not exist yet.
    pub(super) file: PathBuf,
}

/// Of `playground`.
#[derive(Args)]
pub(super) struct PlaygroundArgs {
    /// Where the webhook sink listens.
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = address_of,
        default_value = "127.0.0.1:9099")]
    pub(super) webhook_sink: SocketAddr,
    /// Signing secrets of webhooks, to look at their signatures with.
    #[arg(long, value_name = "WHSEC")]
    pub(super) webhook_secret: Vec<String>,
    /// Where the message centre listens.
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = address_of,
        default_value = "127.0.0.1:2775")]
    pub(super) smsc: SocketAddr,
    /// Where it can be told what its phones write.
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = address_of,
        default_value = "127.0.0.1:2780")]
    pub(super) smsc_control: SocketAddr,
    /// How it writes ids.
    #[arg(long, value_enum, default_value = "decimal")]
    pub(super) smsc_ids: SmscIds,
    /// How long after its answer a receipt comes.
    #[arg(long, value_name = "MS", default_value_t = 500, value_parser = whole::<i64>)]
    pub(super) smsc_receipt_ms: i64,
    /// Where the chat-app's Cloud API listens.
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = address_of,
        default_value = "127.0.0.1:2790")]
    pub(super) cloud_api: SocketAddr,
    /// Where it calls back: the live address of the service.
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = address_of,
        default_value = "127.0.0.1:8080")]
    pub(super) service: SocketAddr,
}

/// How the message centre writes ids.
#[derive(Clone, Copy, clap::ValueEnum)]
pub(super) enum SmscIds {
    /// In decimal.
    Decimal,
    /// In hexadecimal.
    Hex,
    /// Answers in hexadecimal, receipts in decimal.
    Mixed,
}

/// `carriers …`
#[derive(Subcommand)]
pub(super) enum CarriersCommand {
    /// Connect to a carrier of the settings, and say what it is like.
    #[command(after_help = "\
By SMPP: binds, asks whether the centre is there (enquire_link), and unbinds. Nothing is sent. A
carrier that allows one connection refuses it while the service runs: that, too, is said. By HTTP:
prints the request that a message would make, without the secrets, and does not make it. A rule of a
description says accepted, throttled, later, temporary, bad_recipient, bad_sender, unfit, permanent
or unknown (sms.md in the documentation).

Example:
  estafette carriers check main

--json: {carrier, kind, ok, error, system_id, version, bind_ms, answers_enquire_link, deliveries,
fields, binds: [{as, error, …}]}, or of an HTTP carrier {carrier, kind, ok, error, method, url,
headers, body}. All of them are there when the check fails as well: what is not known is null.")]
    Check {
        /// Its name under sms.carriers.
        name: String,
        /// Of an HTTP carrier: the number that the request is shown for.
        #[arg(long, default_value = "+33612345678")]
        to: String,
        /// The text that it is shown for.
        #[arg(long, default_value = "hello")]
        text: String,
    },
}

/// `credits …`
#[derive(Subcommand)]
pub(super) enum CreditsCommand {
    /// Give credits to an account; a negative amount takes back what is not held or spent.
    #[command(after_help = "\
Works beside a running service, on its database.

Examples:
  estafette credits add --account acc_01h455vb4pex5vsknk084sn02q --amount 5000
  estafette credits add --account acc_01h455vb4pex5vsknk084sn02q --amount -200 --reason slip

--json: {account_id, balance_credits}.")]
    Add(CreditsArgs),
}

/// Of `credits add`.
#[derive(Args)]
pub(super) struct CreditsArgs {
    /// The account's id.
    #[arg(long)]
    pub(super) account: String,
    /// Credits.
    #[arg(long, allow_negative_numbers = true, value_parser = whole::<i64>)]
    pub(super) amount: i64,
    /// Why, for the ledger and the audit log.
    #[arg(long, default_value = "command line")]
    pub(super) reason: String,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn no_command_means_serve_and_flags_may_stand_anywhere() {
        let cli = Cli::parse_from(["estafette", "--json"]);
        assert!(cli.command.is_none() && cli.global.json);
        let cli = Cli::parse_from(["estafette", "audit", "--data-dir", "x", "--json"]);
        assert!(cli.global.json && matches!(cli.command, Some(Command::Audit(_))));
    }

    #[test]
    fn a_negative_amount_is_not_taken_for_a_flag() {
        let args = ["estafette", "credits", "add", "--account", "acc_1", "--amount", "-5"];
        let Some(Command::Credits(CreditsCommand::Add(args))) = Cli::parse_from(args).command
        else {
            panic!("not credits add");
        };
        assert_eq!(args.amount, -5);
    }

    #[test]
    fn every_command_has_examples_in_its_help() {
        fn look(command: &clap::Command) {
            if command.has_subcommands() {
                command.get_subcommands().for_each(look);
            } else {
                let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
                assert!(help.contains("Example"), "{}", command.get_name());
            }
        }
        look(&Cli::command());
    }
}
