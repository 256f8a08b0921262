//! `devtools hello`: a server that answers with five letters, on the crates that the service uses.
//! It says the same to everybody else, so callbacks may go there.
//! Its CPU time per request is the unit of budgets, for a slow machine slows both.
#![expect(clippy::print_stdout, reason = "where it listens is what its caller waits for")]

use std::net::SocketAddr;

use anyhow::Result;
use axum::{Router, routing::get};

/// Options of `devtools hello`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  devtools hello --listen 127.0.0.1:8099
  devtools load --url http://127.0.0.1:8099 --key none --workload hello")]
pub(crate) struct Args {
    /// Where to listen; port 0 takes any that is free.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
}

/// Serves until it is killed.
///
/// # Errors
/// When the address is taken.
pub(crate) fn run(args: &Args) -> Result<bool> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind(args.listen).await?;
        println!("http://{}", listener.local_addr()?);
        let app = Router::new().route("/", get(hello)).fallback(hello);
        axum::serve(listener, app).await?;
        Ok(true)
    })
}

async fn hello() -> &'static str {
    "hello"
}
