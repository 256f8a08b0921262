//! `estafette health`: asks the running service, for supervisors that can only run a command.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::ensure;
use serde_json::json;

use super::commands::HealthArgs;
use super::output::Output;
use crate::config::Config;

/// Longer than this is not well.
const PATIENCE: Duration = Duration::from_secs(2);

/// Asks the live address, where it listens.
pub(super) async fn run(
    config: &Config,
    args: &HealthArgs,
    output: Output,
) -> anyhow::Result<ExitCode> {
    let address = reachable(config.server.live);
    ensure!(address.port() != 0, "server.live has port 0: nobody can know where the service is");
    let path = if args.ready { "readyz" } else { "livez" };
    let is_well = is_well(address, path).await;
    output.answer(&json!({ "ok": is_well }), || {
        let verdict = if is_well { "well" } else { "NOT well" };
        format!("{address}/{path}: {verdict}")
    });
    Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Whether a path is answered with success, soon.
pub(super) async fn is_well(listener: SocketAddr, path: &str) -> bool {
    let client = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build();
    let Ok(client) = client else { return false };
    let answer = client.get(format!("http://{}/{path}", reachable(listener))).send().await;
    answer.is_ok_and(|answer| answer.status().is_success())
}

/// All addresses are reached by the loopback one.
fn reachable(listener: SocketAddr) -> SocketAddr {
    let ip = match listener.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listener.port())
}

#[cfg(test)]
mod tests {
    use super::reachable;

    #[test]
    fn a_listener_on_all_addresses_is_asked_on_the_loopback_one() {
        for (listener, expected) in [
            ("0.0.0.0:8080", "127.0.0.1:8080"),
            ("[::]:8080", "[::1]:8080"),
            ("192.0.2.7:80", "192.0.2.7:80"),
        ] {
            assert_eq!(reachable(listener.parse().unwrap()), expected.parse().unwrap());
        }
    }
}
