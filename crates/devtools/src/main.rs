//! The drivers that measure and torment a running service: load, races, slow clients, kill -9 and
//! nodes that fail.

mod api;
mod chance;
mod chat;
mod crash;
mod gateway;
mod hello;
mod load;
mod machine;
mod nodes;
mod numbers;
mod race;
mod slow;
mod stopwatch;
mod webhooks;
mod wire;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Load, race, slow-client, crash and fault drivers for the service.
#[derive(Debug, Parser)]
#[command(name = "devtools", version, about, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Measure throughput, latency and CPU per operation of a running service.
    Load(Box<load::Args>),
    /// Send passcodes as a gateway in front of Redis does: what others are content with.
    Gateway(gateway::Args),
    /// Answer `hello`: what the figures of `load` are compared with.
    Hello(hello::Args),
    /// Prove that parallel guesses are counted exactly and a code verifies once.
    Race(race::Args),
    /// Hold connections in every slow way and see them ended while decent clients are served.
    Slow(slow::Args),
    /// Kill the service with SIGKILL again and again and look for what it lost.
    Crash(crash::Args),
    /// Live chat under many sockets, restarts and kills, and over two nodes.
    Chat(chat::Args),
    /// Kill, pause and restart nodes on one database under load, and the database itself.
    Nodes(nodes::Args),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Load(args) => load::run(*args),
        Command::Gateway(args) => gateway::run(&args),
        Command::Hello(args) => hello::run(&args),
        Command::Race(args) => race::run(&args),
        Command::Slow(args) => slow::run(&args),
        Command::Crash(args) => crash::run(args),
        Command::Chat(args) => chat::run(&args),
        Command::Nodes(args) => nodes::run(args),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("devtools: {error:#}");
            ExitCode::from(2)
        }
    }
}
