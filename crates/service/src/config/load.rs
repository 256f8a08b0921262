//! Reads the settings: `default.toml`, then a file, then the environment, then flags. Every error
//! names the key and where its value came from, and never shows the value of a secret.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs as _};
use std::path::{Path, PathBuf};

use store::Engines;
use toml::{Table, Value};

use super::fault::{LoadError, LoadErrors, Source};
use super::layers::{Given, Layers, leaves};
use super::plain::{PREFIX, variable_of};
use super::show::MASK;
use super::{Config, check, plain};
use crate::kit::secret::Secret;

/// The built-in settings.
pub(super) const DEFAULTS: &str = include_str!("../../../../default.toml");

/// What a variable begins with that was meant to be a setting.
const LIKE_PREFIX: &str = "ESTAFETTE";
/// Variables that begin so are somebody else's: those of the tests, and those that Kubernetes gives
/// every container where a service is called `estafette`.
const FOREIGN: [&str; 3] = ["ESTAFETTE_TEST_", "ESTAFETTE_SERVICE_", "ESTAFETTE_PORT"];
/// Settings that are addresses to listen on.
const LISTENERS: [(&str, &str); 4] =
    [("server", "live"), ("server", "sandbox"), ("server", "metrics"), ("email", "reports")];

/// The one of them that may be empty.
const NOT_NEEDED: (&str, &str) = ("email", "reports");

/// What the program and its command line say; it overrules everything.
#[derive(Clone, Debug, Default)]
pub struct Flags {
    /// `--live`.
    pub live: Option<SocketAddr>,
    /// `--sandbox`.
    pub sandbox: Option<SocketAddr>,
    /// `--metrics`.
    pub metrics: Option<SocketAddr>,
    /// `--data-dir`.
    pub data_dir: Option<PathBuf>,
    /// `--database-url`.
    pub database_url: Option<Secret>,
    /// The databases that the program can open.
    pub engines: Engines,
}

/// The settings in force.
///
/// # Errors
/// What was found until something kept the rest from being judged: names and types of settings
/// first, then their values.
pub fn load(
    file: Option<&Path>,
    environment: impl Iterator<Item = (String, String)>,
    flags: Flags,
) -> Result<Config, LoadErrors> {
    let mut layers = Layers::new(table_of(DEFAULTS, Path::new("default.toml"))?);
    let mut errors = Vec::new();
    if let Some(file) = file {
        errors.extend(lay_file(&mut layers, file)?);
    }
    let mut has_variables = false;
    errors.extend(environment.filter_map(|(name, value)| {
        has_variables |= name.starts_with(PREFIX);
        lay_variable(&mut layers, name, value).err()
    }));
    let engines = flags.engines;
    let named_by = named_by(file, &flags);
    errors.extend(lay_flags(&mut layers, flags));
    let master_key_path = layers.file_of("master_key");
    let secret_files = layers.secret_files();
    errors.extend(layers.read_secrets());
    let mut values = layers.values();
    errors.extend(look_up(&mut values, &layers));
    errors.extend(masks(&values, &layers));
    LoadErrors::of(errors)?;
    let mut config = typed(values, &layers)?;
    config.master_key_path = master_key_path;
    config.named_by = named_by;
    config.has_variables = has_variables;
    config.secret_files = secret_files;
    config.database.engines = engines;
    follow_listeners(&mut config, &layers);
    let invalid = check::all(&config).into_iter().map(|fault| LoadError::Invalid {
        from: layers.source_above(&fault.key),
        key: fault.key,
        reason: fault.reason,
    });
    LoadErrors::of(invalid.collect())?;
    Ok(config)
}

/// The flags without which another command finds other settings.
fn named_by(file: Option<&Path>, flags: &Flags) -> String {
    let shown = |path: &Path| path.display().to_string();
    let given = [
        ("--config", file.map(shown)),
        ("--data-dir", flags.data_dir.as_deref().map(shown)),
        ("--database-url", flags.database_url.as_ref().map(without_password)),
    ];
    let flag = |(name, value): (&str, Option<String>)| {
        value.map(|value| format!(" {name} {}", quoted(&value)))
    };
    given.into_iter().filter_map(flag).collect()
}

/// A URL of a database as it was given, or `URL` where it may have a password.
fn without_password(url: &Secret) -> String {
    let text = url.expose();
    let has_none = |url: url::Url| url.password().is_none() && !text.contains("password");
    let is_open = text.starts_with("sqlite:") || url::Url::parse(text).is_ok_and(has_none);
    if is_open { text.to_owned() } else { "URL".to_owned() }
}

/// As a shell takes it.
pub(crate) fn quoted(text: &str) -> String {
    let is_plain = |each: char| each.is_ascii_alphanumeric() || "/._-:@+,".contains(each);
    if text.chars().all(is_plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

/// Who starts from what `estafette config` shows has masks for secrets.
fn masks(values: &Table, layers: &Layers) -> Vec<LoadError> {
    let masked = leaves(values.clone()).into_iter().filter(|(_, it)| it.as_str() == Some(MASK));
    let faults = masked.map(|(path, _)| {
        let key = path.join(".");
        let reason = format!("{MASK} is what `estafette config` shows in the place of a secret");
        LoadError::Invalid { from: layers.source_above(&key), key, reason }
    });
    faults.collect()
}

fn lay_variable(layers: &mut Layers, name: String, value: String) -> Result<(), LoadError> {
    let Some(path) = name.strip_prefix(PREFIX) else { return must_not_be_meant(&name) };
    let path: Vec<String> = path.split("__").map(str::to_ascii_lowercase).collect();
    if name.contains(char::REPLACEMENT_CHARACTER) || value.contains(char::REPLACEMENT_CHARACTER) {
        return Err(LoadError::NotText { name });
    }
    layers.set(2, &path, Given::Text(value), Source::Variable(name))
}

/// Names of variables that look like settings and are none.
#[must_use]
pub fn strangers(environment: &[(String, String)]) -> Vec<&str> {
    let names = environment.iter().map(|(name, _)| name.as_str());
    // One that was meant to be a setting is an error, and told as one.
    names.filter(|name| is_strange(name) && must_not_be_meant(name).is_ok()).collect()
}

/// In any case: names of variables differ by it, which few know of.
fn is_strange(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    // One letter too many or two that changed places still mean us.
    let is_like = |head: &str| strsim::osa_distance(head, LIKE_PREFIX) <= 2;
    let is_meant = upper.starts_with(LIKE_PREFIX)
        || upper.split_once("__").is_some_and(|(head, _)| is_like(head));
    is_meant
        && !name.starts_with(PREFIX)
        && !FOREIGN.iter().any(|foreign| upper.starts_with(foreign))
}

/// A variable that only lacks underscores or capitals was meant to be that setting, and somebody
/// relies on it.
fn must_not_be_meant(name: &str) -> Result<(), LoadError> {
    if !is_strange(name) {
        return Ok(());
    }
    let defaults = table_of(DEFAULTS, Path::new("default.toml"))?;
    let mut variables = leaves(defaults).into_iter().map(|(path, _)| variable_of(&path.join(".")));
    let bare = |name: &str| name.replace('_', "").to_ascii_uppercase();
    match variables.find(|known| bare(known) == bare(name)) {
        Some(meant) => Err(LoadError::Misspelt { name: name.to_owned(), meant }),
        None => Ok(()),
    }
}

/// An address with its port; a name is looked up, and has an IPv4 address rather than another.
///
/// # Errors
/// What is wrong with it.
pub fn address_of(text: &str) -> Result<SocketAddr, String> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    if let Some((_, rest)) = text.split_once("://") {
        let place = rest.split('/').next().unwrap_or_default();
        return Err(format!("must be an address and a port, not a URL: write {place}"));
    }
    if text.starts_with('[') && text.contains('%') {
        let says = "must have its zone as a number, such as [fe80::1%2]:8080; `ip link` shows it";
        return Err(says.to_owned());
    }
    let parts = text.rsplit_once(':').filter(|(name, _)| !name.is_empty());
    let Some((name, _)) = parts.filter(|(_, port)| port.parse::<u16>().is_ok()) else {
        return Err("must be an address or a name, and a port, such as 127.0.0.1:8080".to_owned());
    };
    let found = text.to_socket_addrs().map(Iterator::collect::<Vec<_>>).unwrap_or_default();
    let best = found.iter().find(|address| address.is_ipv4()).or(found.first());
    best.copied().ok_or_else(|| format!("the name {name} cannot be looked up"))
}

/// Puts addresses in the places of names to listen on. Answers which cannot be looked up.
fn look_up(values: &mut Table, layers: &Layers) -> Vec<LoadError> {
    let mut errors = Vec::new();
    for (section, key) in LISTENERS {
        let value = values.get_mut(section).and_then(|section| section.get_mut(key));
        let Some(Value::String(text)) = value else { continue };
        if text.is_empty() && (section, key) == NOT_NEEDED {
            continue;
        }
        let key = format!("{section}.{key}");
        let from = layers.source_above(&key);
        match address_of(text) {
            Ok(address) => *text = address.to_string(),
            Err(reason) => errors.push(LoadError::Invalid { key, from, reason }),
        }
    }
    errors
}

/// Lays the settings of a file; answers those that cannot be.
fn lay_file(layers: &mut Layers, file: &Path) -> Result<Vec<LoadError>, LoadError> {
    let text = std::fs::read_to_string(file)
        .map_err(|why| LoadError::Unreadable { file: file.to_owned(), why })?;
    let table = table_of(&text, file)?;
    let lines: BTreeMap<Vec<String>, usize> = plain::lines(&text).into_iter().collect();
    let lay = |(path, value): (Vec<String>, Value)| {
        let source = Source::File { file: file.to_owned(), line: lines.get(&path).copied() };
        layers.set(1, &path, Given::Typed(value), source).err()
    };
    Ok(leaves(table).into_iter().filter_map(lay).collect())
}

/// Lays the settings of the command line; answers those that cannot be.
fn lay_flags(layers: &mut Layers, flags: Flags) -> Vec<LoadError> {
    let given = [
        ("--live", "server.live", flags.live.map(|a| a.to_string())),
        ("--sandbox", "server.sandbox", flags.sandbox.map(|a| a.to_string())),
        ("--metrics", "server.metrics", flags.metrics.map(|a| a.to_string())),
        ("--data-dir", "data_dir", flags.data_dir.map(|d| d.to_string_lossy().into_owned())),
        ("--database-url", "database.url", flags.database_url.map(|s| s.expose().to_owned())),
    ];
    let lay = |(flag, key, value): (&'static str, &str, Option<String>)| {
        let path: Vec<String> = key.split('.').map(str::to_owned).collect();
        layers.set(3, &path, Given::Text(value?), Source::Flag(flag)).err()
    };
    given.into_iter().filter_map(lay).collect()
}

/// A parsed file. The parser's own error text quotes the line, which may hold a secret, so only its
/// message and the line's number are passed on.
fn table_of(text: &str, file: &Path) -> Result<Table, LoadError> {
    toml::from_str(text).map_err(|e| {
        let at = e.span().map_or(0, |span| span.start);
        let line = plain::line_at(text, at);
        let key = plain::key_at(text, at).map(|key| format!("{key}: ")).unwrap_or_default();
        let reason = format!("line {line}: {key}{}", plain::syntax(&e));
        LoadError::File { file: file.to_owned(), reason }
    })
}

/// Into the structs. Keys and the types of single values are known to be right by now, so what can
/// fail is an address, a number out of its type's range, or the inside of a list.
fn typed(values: Table, layers: &Layers) -> Result<Config, LoadError> {
    Value::Table(values.clone()).try_into().map_err(|e: toml::de::Error| {
        let text = e.to_string();
        let key = text.split('`').nth_back(1).unwrap_or("settings").to_owned();
        let reason = bounds_of(values, &key, &e).unwrap_or_else(|| plain::reason(&e));
        LoadError::Invalid { from: layers.source_above(&key), key, reason }
    })
}

/// The bounds of a number that its type cannot even hold: what is said of the nearest that it can.
fn bounds_of(mut values: Table, key: &str, error: &toml::de::Error) -> Option<String> {
    let plain::OutOfRange { given, nearest } = plain::out_of_range(error)?;
    plain::replace(&mut values, key, nearest);
    let config: Config = Value::Table(values).try_into().ok()?;
    let fault = check::all(&config).into_iter().find(|fault| fault.key == key)?;
    let bounds = fault.reason.strip_suffix(&format!("is {nearest}"))?;
    Some(format!("{bounds}is {given}"))
}

/// A public address that nobody set is where the service listens.
fn follow_listeners(config: &mut Config, layers: &Layers) {
    let server = &mut config.server;
    let scheme = if server.has_tls() { "https" } else { "http" };
    if layers.source("server.live_url") == Source::Default {
        server.live_url = format!("{scheme}://{}", as_called(server.live));
    }
    if layers.source("server.sandbox_url") == Source::Default {
        server.sandbox_url = format!("{scheme}://{}", as_called(server.sandbox));
    }
}

/// The address of a listener, for callers on this machine when it listens on every address.
fn as_called(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}
