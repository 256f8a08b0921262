//! The machine: the data directory, its disk, open files, and the certificate of the listeners.

use std::path::{Path, PathBuf};

use clock::{Clock, DAY};
use rustix::fs::statvfs;

use super::Finding;
use crate::config::{Config, Server};
use crate::kit::folder::{self, Folder};
use crate::wiring;

/// A certificate that ends sooner than this should have been renewed, days.
const SOON_D: i64 = 14;
const MIB: u64 = 1 << 20;
/// Below this a start cannot even change the schema, MiB.
const TOO_LITTLE: u64 = 16;
/// Fewer open files are soon too few.
const FEW: u64 = 4_096;
/// With fewer no start gets as far as to listen.
const TOO_FEW: u64 = 28;
/// Below this an operator should look after it, MiB.
const LITTLE: u64 = 2_048;

pub(super) fn examine(config: &Config) -> Vec<Finding> {
    let mut findings = vec![directory(config)];
    findings.extend(disk(config));
    findings.extend(open_files());
    if config.server.has_tls() {
        findings.push(match wiring::check_tls(&config.server) {
            Ok(()) => expiry(&config.server),
            Err(error) => {
                let remedy = "correct server.tls_cert_file and server.tls_key_file";
                Finding::fault("tls", format!("{error:#}"), remedy)
            }
        });
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
        ..0 => Finding::warning(about, format!("the certificate ended on {ends}"), remedy),
        0..SOON_D => Finding::warning(about, format!("the certificate ends on {ends}"), remedy),
        _ => Finding::fine(about, format!("certificate and key fit together, until {ends}")),
    }
}

/// What a file may not be made for, where neither rights nor room on the disk are in the way.
pub(super) fn lacking(config: &Config) -> Option<Finding> {
    open_files().into_iter().chain(disk(config)).find(Finding::is_fault)
}

fn directory(config: &Config) -> Finding {
    let about = "data directory";
    let folder = config.data_dir.as_path();
    let at = folder::shown(folder);
    let at = at.display();
    match folder::look(folder) {
        Folder::Useless(why) => Finding::fault(about, why.found, why.remedy),
        Folder::Missing => {
            let found = format!("{at} does not exist");
            Finding::warning(about, found, "the first `estafette serve` makes it")
        }
        Folder::Closed(why) => match needed(config).find(|file| !file.exists()) {
            Some(missing) => {
                let name = missing.file_name().unwrap_or_default().display();
                let found = format!("{at} {}, and {name} is not in it", why.words());
                Finding::fault(about, found, why.remedy())
            }
            None => Finding::warning(about, format!("{at} {}", why.words()), why.remedy()),
        },
        Folder::Usable if is_open_to_others(folder) => {
            let may = if may_others(folder, 0o002) { "changed" } else { "read" };
            let found = format!("{at} can be {may} by every user of this machine");
            Finding::warning(about, found, format!("chmod 700 {at}"))
        }
        Folder::Usable => Finding::fine(about, at.to_string()),
    }
}

/// Files with secrets that everybody on this machine can read or change.
pub(super) fn open_secrets(config: &Config) -> impl Iterator<Item = Finding> {
    let open = config.secret_files.iter().filter(|file| is_open_to_others(file));
    open.map(|file| {
        let at = folder::shown(file);
        let at = at.display();
        let found = format!("{at} has secrets and is open to every user of this machine");
        Finding::warning("secrets", found, format!("chmod 600 {at}, as the service's user"))
    })
}

/// What a start makes in the data directory where it is not there.
fn needed(config: &Config) -> impl Iterator<Item = PathBuf> {
    let database = wiring::database_file(config);
    let lock = database.as_ref().map(|file| file.with_added_extension("lock"));
    let files = config.support.storage.is_empty().then(|| config.data_dir.join("files"));
    let key = config.master_key_file();
    let folder = config.data_dir.clone();
    [database, lock, files, key]
        .into_iter()
        .flatten()
        .filter(move |file| file.parent() == Some(folder.as_path()))
}

/// Whether users who are neither the owner nor of the group may do anything with it.
pub(super) fn is_open_to_others(path: &Path) -> bool {
    may_others(path, 0o007)
}

/// Whether everybody may do any of these with it, as bits of a mode.
#[cfg(unix)]
fn may_others(path: &Path, bits: u32) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata().is_ok_and(|metadata| metadata.permissions().mode() & bits != 0)
}

#[cfg(not(unix))]
fn may_others(_path: &Path, _bits: u32) -> bool {
    false
}

/// How many files the service may open: it raises the soft limit to the hard one by itself.
#[cfg(unix)]
fn open_files() -> Option<Finding> {
    use rustix::process::{Resource, getrlimit};
    let about = "open files";
    let files = getrlimit(Resource::Nofile).maximum?;
    if files >= FEW {
        return Some(Finding::fine(about, format!("up to {files}")));
    }
    let found = format!("up to {files}, and each connection needs one");
    let remedy = "LimitNOFILE=65536 in the unit file, or `ulimit -n 65536` before the start";
    Some(match files {
        ..TOO_FEW => Finding::fault(about, found, remedy),
        _ => Finding::warning(about, found, remedy),
    })
}

#[cfg(not(unix))]
fn open_files() -> Option<Finding> {
    None
}

/// Free space on the disk of the database; where a server has that, of what is beside it.
fn disk(config: &Config) -> Option<Finding> {
    let database = wiring::database_file(config);
    let folder = database.as_deref().and_then(Path::parent).unwrap_or(&config.data_dir);
    let absolute = std::path::absolute(folder).ok()?;
    let there = absolute.ancestors().find(|ancestor| ancestor.exists())?;
    let disk = statvfs(there).ok()?;
    // A file system that counts none has them as it needs them.
    if database.is_some() && disk.f_files > 0 && disk.f_favail == 0 {
        let remedy = "remove files there, or name another place";
        return Some(Finding::fault("disk", "no inodes free: no file can be made", remedy));
    }
    let free_mib = disk.f_bavail.saturating_mul(disk.f_frsize) / MIB;
    let found = format!("{free_mib} MiB free");
    let remedy = match database {
        Some(_) => "make room: a full disk refuses every write, and loses none that was answered",
        None => "make room: what people attach to tickets is kept there",
    };
    Some(match free_mib {
        ..TOO_LITTLE if database.is_some() => Finding::fault("disk", found, remedy),
        ..LITTLE => Finding::warning("disk", found, remedy),
        _ => Finding::fine("disk", found),
    })
}
