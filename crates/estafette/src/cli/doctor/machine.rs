//! The machine: the data directory, its disk, and the addresses to listen on.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use clock::{Clock, DAY};
use rustix::fs::{Access, access, statvfs};
use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use super::Finding;
use crate::cli::health::{self, Asked};
use crate::config::{Config, Server};
use crate::wiring;

/// How long a greeting may take.
const PATIENCE: Duration = Duration::from_secs(3);
/// A certificate that ends sooner than this should have been renewed, days.
const SOON_D: i64 = 14;
const MIB: u64 = 1 << 20;
/// Below this the service soon cannot write, MiB.
const TOO_LITTLE: u64 = 100;
/// Below this an operator should look after it, MiB.
const LITTLE: u64 = 2_048;

pub(super) async fn examine(config: &Config) -> Vec<Finding> {
    let mut findings = vec![directory(&config.data_dir)];
    findings.extend(disk(&config.data_dir));
    if config.server.has_tls() {
        findings.push(match wiring::check_tls(&config.server) {
            Ok(()) => expiry(&config.server),
            Err(error) => {
                let remedy = "correct server.tls_cert_file and server.tls_key_file";
                Finding::fault("tls", format!("{error:#}"), remedy)
            }
        });
    }
    for (about, address, path) in [
        ("live", config.server.live, "livez"),
        ("sandbox", config.server.sandbox, "livez"),
        ("metrics", config.server.metrics, "metrics"),
    ] {
        let has_tls = config.server.has_tls() && about != "metrics";
        findings.push(
            listener(about, address, health::is_well(Asked { address, has_tls, path })).await,
        );
    }
    if let Ok(address) = config.email.reports.parse() {
        findings.push(listener("email.reports", address, greets(address)).await);
    }
    findings
}

/// When the certificate of the service's own listeners ends.
fn expiry(server: &Server) -> Finding {
    let about = "tls";
    let Some(ends) = wiring::certificate_ends(server) else {
        return Finding::fine(about, "certificate and key fit together");
    };
    let left_d = (ends - Clock::system().now()) / DAY;
    let remedy = "renew it and replace the files: they are read again within ten seconds";
    match left_d {
        ..0 => Finding::fault(about, format!("the certificate ended on {ends}"), remedy),
        0..SOON_D => Finding::warning(about, format!("the certificate ends on {ends}"), remedy),
        _ => Finding::fine(about, format!("certificate and key fit together, until {ends}")),
    }
}

/// Whether a mail server answers there (RFC 5321 §4.2).
async fn greets(address: SocketAddr) -> bool {
    let greeting = async {
        let mut connection = TcpStream::connect(health::reachable(address)).await?;
        let mut code = [0; 3];
        connection.read_exact(&mut code).await?;
        Ok::<bool, std::io::Error>(&code == b"220")
    };
    timeout(PATIENCE, greeting).await.is_ok_and(|greeting| greeting.unwrap_or(false))
}

fn directory(folder: &Path) -> Finding {
    let about = "data directory";
    let shown = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    let shown = shown.display();
    let Ok(metadata) = folder.metadata() else {
        let found = format!("{shown} does not exist");
        let above = folder.ancestors().find(|above| above.exists());
        let above = above.unwrap_or_else(|| Path::new("."));
        let is_open = access(above, Access::WRITE_OK | Access::EXEC_OK).is_ok();
        if !is_open || above.starts_with("/proc") || above.starts_with("/sys") {
            let found = format!("{found}, and this user cannot make it");
            return Finding::fault(about, found, "name another one with --data-dir");
        }
        return Finding::warning(about, found, "the first `estafette serve` makes it");
    };
    if !metadata.is_dir() {
        let found = format!("{shown} is not a directory");
        return Finding::fault(about, found, "name another one with --data-dir");
    }
    if access(folder, Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK).is_err() {
        let found = format!("{shown} cannot be written by this user");
        return Finding::fault(about, found, "run this as the user of the service, or chown it");
    }
    if is_open_to_others(folder) {
        let found = format!("{shown} can be read by every user of this machine");
        return Finding::warning(about, found, format!("chmod 700 {shown}"));
    }
    Finding::fine(about, shown.to_string())
}

/// Whether users who are neither the owner nor of the group may do anything with it.
#[cfg(unix)]
pub(super) fn is_open_to_others(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata().is_ok_and(|metadata| metadata.permissions().mode() & 0o007 != 0)
}

#[cfg(not(unix))]
pub(super) fn is_open_to_others(_path: &Path) -> bool {
    false
}

/// Free space where the data is, or will be.
fn disk(folder: &Path) -> Option<Finding> {
    let absolute = std::path::absolute(folder).ok()?;
    let there = absolute.ancestors().find(|ancestor| ancestor.exists())?;
    let disk = statvfs(there).ok()?;
    let free_mib = disk.f_bavail.saturating_mul(disk.f_frsize) / MIB;
    let found = format!("{free_mib} MiB free");
    let remedy = "make room: a full disk refuses every write, and loses none that was answered";
    Some(match free_mib {
        ..TOO_LITTLE => Finding::fault("disk", found, remedy),
        TOO_LITTLE..LITTLE => Finding::warning("disk", found, remedy),
        _ => Finding::fine("disk", found),
    })
}

/// Whether the service could listen there, or does.
async fn listener(
    about: &str,
    address: SocketAddr,
    is_ours: impl Future<Output = bool>,
) -> Finding {
    let setting = if about.contains('.') { about.to_owned() } else { format!("server.{about}") };
    match TcpListener::bind(address).await {
        Ok(_bound) => Finding::fine(about, format!("{address} is free")),
        Err(error) if error.kind() == ErrorKind::AddrInUse => {
            if is_ours.await {
                Finding::fine(about, format!("{address}: the service answers"))
            } else {
                let found = format!("{address} is taken by something other than estafette");
                let remedy =
                    format!("end what listens there, or choose another address ({setting})");
                Finding::fault(about, found, remedy)
            }
        }
        Err(error) => {
            let found = format!("{address} cannot be listened on: {error}");
            let remedy = match error.kind() {
                ErrorKind::PermissionDenied => {
                    "ports below 1024 need CAP_NET_BIND_SERVICE; the unit file shows how".to_owned()
                }
                _ => format!("choose an address of this machine ({setting})"),
            };
            Finding::fault(about, found, remedy)
        }
    }
}
