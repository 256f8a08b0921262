//! The layers of settings laid over each other. `default.toml` is the shape: it says which keys
//! exist and of which type each is, so that a text from the environment needs no guessing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use toml::{Table, Value};

use super::fault::{LoadError, Source};

/// What a layer gives for one key.
pub(super) enum Given {
    /// From a file, typed.
    Typed(Value),
    /// From the environment or a flag; the shape says what it means.
    Text(String),
}

/// The type of a key.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Integer,
    Bool,
    List,
    /// A key of a carrier's table: its kind of carrier checks it.
    Any,
    Section,
}

impl Kind {
    fn of(value: &Value) -> Self {
        match value {
            Value::String(_) => Self::Text,
            Value::Integer(_) => Self::Integer,
            Value::Boolean(_) => Self::Bool,
            Value::Array(_) => Self::List,
            Value::Table(_) => Self::Section,
            Value::Float(_) | Value::Datetime(_) => Self::Any,
        }
    }

    /// What is right for a key of this type.
    fn expected(self, key: &str) -> &'static str {
        match self {
            Self::Text => "text, between quotes",
            Self::Integer => "a whole number",
            Self::Bool => "true or false",
            Self::List => list_of(key),
            Self::Any => "a single value",
            Self::Section => "a section with keys, not a value",
        }
    }
}

/// What a list holds, by its key.
fn list_of(key: &str) -> &'static str {
    match key {
        "server.trusted_proxies" | "webhooks.allow_networks" => {
            "a list of networks, such as [\"10.0.0.0/8\"]"
        }
        "support.origins" => "a list of origins, such as [\"https://desk.example.com\"]",
        "sms.routes" => "a list of routes, such as [{ prefix = \"+49\", carriers = [\"main\"] }]",
        "credits.prices" => {
            "a list of prices, such as [{ channel = \"sms\", category = \"message\", country = \
             \"*\", credits = 5 }]"
        }
        "sms.lookup.network" => "a list of JSON pointers, such as [\"/mcc\", \"/mnc\"]",
        _ => "a list of whole numbers, such as [5, 300]",
    }
}

/// Who gave a key, and in which layer.
struct Origin {
    layer: u8,
    source: Source,
}

/// The values in force so far.
pub(super) struct Layers {
    shape: Table,
    values: Table,
    origins: BTreeMap<String, Origin>,
    /// Secrets given as files, read at the end: a later layer may overrule them.
    files: BTreeMap<String, PathBuf>,
}

impl Layers {
    pub(super) fn new(shape: Table) -> Self {
        let values = shape.clone();
        Self { shape, values, origins: BTreeMap::new(), files: BTreeMap::new() }
    }

    /// Lays one value over what is there.
    pub(super) fn set(
        &mut self,
        layer: u8,
        path: &[String],
        given: Given,
        source: Source,
    ) -> Result<(), LoadError> {
        if let Some(secret) = secret_of_file_key(path) {
            let key = secret.join(".");
            let Some(file) = text_of(given) else {
                return Err(mistyped(path, source, Kind::Text));
            };
            self.claim(layer, &key, source)?;
            self.files.insert(key, PathBuf::from(file));
            return Ok(());
        }
        let key = path.join(".");
        let Some(kind) = self.kind(path) else {
            let meant = self.nearest(&key);
            return Err(LoadError::Unknown { key, from: source, meant });
        };
        if kind == Kind::Section {
            let is_table = matches!(&given, Given::Typed(Value::Table(_)));
            return if is_table { Ok(()) } else { Err(mistyped(path, source, kind)) };
        }
        let Some(value) = convert(kind, given) else {
            return Err(mistyped(path, source, kind));
        };
        self.claim(layer, &key, source)?;
        self.files.remove(&key);
        put(&mut self.values, path, value);
        Ok(())
    }

    /// The file that a secret is read from, if it is one.
    pub(super) fn file_of(&self, key: &str) -> Option<PathBuf> {
        self.files.get(key).cloned()
    }

    /// The files that have secrets: those that settings name for one, and the file of settings.
    pub(super) fn secret_files(&self) -> Vec<PathBuf> {
        let named = self.files.iter().filter(|(key, _)| *key != "master_key");
        let named = named.map(|(_, file)| file);
        let holding = self.origins.iter().filter_map(|(key, origin)| match &origin.source {
            Source::File { file, .. } if is_secret(key) && !self.files.contains_key(key) => {
                Some(file)
            }
            _ => None,
        });
        let all: BTreeSet<&PathBuf> = named.chain(holding).collect();
        all.into_iter().cloned().collect()
    }

    /// Who set a key; [`Source::Default`] if nobody did.
    pub(super) fn source(&self, key: &str) -> Source {
        self.origins.get(key).map_or(Source::Default, |origin| origin.source.clone())
    }

    /// Who set the longest known beginning of `key`, for faults deep inside a list. Of a table, who
    /// set something in it: what is missing there is missing from them.
    pub(super) fn source_above(&self, key: &str) -> Source {
        let path: Vec<String> = key.split('.').map(str::to_owned).collect();
        if matches!(self.kind(&path), Some(Kind::Text | Kind::Integer | Kind::Bool)) {
            return self.source(key);
        }
        let mut key = key;
        loop {
            if let Some(origin) = self.origins.get(key) {
                return origin.source.clone();
            }
            let inside = format!("{key}.");
            let first = self.origins.range(inside.clone()..).next();
            if let Some((_, origin)) = first.filter(|(known, _)| known.starts_with(&inside)) {
                return origin.source.clone();
            }
            let Some((above, _)) = key.rsplit_once('.') else { return Source::Default };
            key = above;
        }
    }

    /// Reads the secrets that were given as files. Answers which cannot be read.
    pub(super) fn read_secrets(&mut self) -> Vec<LoadError> {
        let mut errors = Vec::new();
        for (key, file) in std::mem::take(&mut self.files) {
            match secret_in(&file) {
                Ok(secret) => {
                    let path: Vec<String> = key.split('.').map(str::to_owned).collect();
                    put(&mut self.values, &path, Value::String(secret));
                }
                Err(reason) => {
                    let from = self.source(&key);
                    errors.push(LoadError::SecretFile { key, file, from, reason });
                }
            }
        }
        errors
    }

    /// The values in force.
    pub(super) fn values(&self) -> Table {
        self.values.clone()
    }

    /// Notes who gave `key`; twice in one layer is an error.
    fn claim(&mut self, layer: u8, key: &str, source: Source) -> Result<(), LoadError> {
        if let Some(before) = self.origins.get(key)
            && before.layer == layer
        {
            let first = before.source.clone();
            return Err(LoadError::Twice { key: key.to_owned(), first, second: source });
        }
        self.origins.insert(key.to_owned(), Origin { layer, source });
        Ok(())
    }

    /// The setting that a key was probably meant to be: spelt almost like it, or elsewhere.
    fn nearest(&self, key: &str) -> Option<String> {
        let known = || leaves(self.shape.clone()).into_iter().map(|(path, _)| path.join("."));
        let last = |key: &str| key.rsplit('.').next().unwrap_or_default().to_owned();
        let spelt = |known: &String| known.replace('.', "_") == key.replace('.', "_");
        let distance = |known: &String| strsim::osa_distance(known, key);
        known()
            .find(spelt)
            .or_else(|| known().filter(|known| distance(known) <= 2).min_by_key(distance))
            .or_else(|| known().find(|known| last(known) == last(key)))
    }

    fn kind(&self, path: &[String]) -> Option<Kind> {
        if let Some((name, key)) = carrier_key(path) {
            return Some(self.carrier_kind(name, key));
        }
        // `[sms.carriers.main]` without keys.
        if path.len() == 3 && is_below_carriers(path) {
            return Some(Kind::Section);
        }
        find(&self.shape, path).map(Kind::of)
    }

    /// A type that the file gave holds for the environment too; else the name decides.
    fn carrier_kind(&self, name: &str, key: &str) -> Kind {
        let path = ["sms", "carriers", name, key].map(str::to_owned);
        match find(&self.values, &path).map(Kind::of) {
            Some(Kind::Integer) => Kind::Integer,
            Some(Kind::Bool) => Kind::Bool,
            Some(Kind::List) => Kind::List,
            _ if matches!(key, "port" | "window" | "rate" | "binds" | "max_binds")
                || key.ends_with("_ton")
                || key.ends_with("_npi")
                || key.ends_with("_s")
                || key.ends_with("_ms") =>
            {
                Kind::Integer
            }
            _ if is_secret_word(key) => Kind::Text,
            _ if key == "tls" => Kind::Bool,
            _ if key.ends_with("_codes") => Kind::List,
            _ => Kind::Any,
        }
    }
}

/// Every key of a table with its value, in order; an empty table counts as a value.
pub(super) fn leaves(table: Table) -> Vec<(Vec<String>, Value)> {
    let mut found = Vec::new();
    for (key, value) in table {
        match value {
            Value::Table(inner) if !inner.is_empty() => {
                for (mut path, value) in leaves(inner) {
                    path.insert(0, key.clone());
                    found.push((path, value));
                }
            }
            value => found.push((vec![key], value)),
        }
    }
    found
}

/// Whether a key of a carrier's table holds a secret, by its name.
pub(super) fn is_secret_word(key: &str) -> bool {
    ["password", "secret", "token", "api_key", "auth"].iter().any(|word| key.ends_with(word))
}

const SECRETS: [&str; 10] = [
    "master_key",
    "database.url",
    "chatapp.access_token",
    "chatapp.app_secret",
    "chatapp.verify_token",
    "email.relay_url",
    "sms.lookup.token",
    "sms.lookup.url",
    "support.s3_access_key_id",
    "support.s3_secret_access_key",
];

fn secret_in(file: &Path) -> Result<String, String> {
    let content = std::fs::read_to_string(file).map_err(|why| why.to_string())?;
    let secret = content.trim_end_matches(['\r', '\n']);
    if secret.is_empty() { Err("it is empty".to_owned()) } else { Ok(secret.to_owned()) }
}

/// The path of the secret, if `path` is that and `_file`.
fn secret_of_file_key(path: &[String]) -> Option<Vec<String>> {
    let (last, above) = path.split_last()?;
    let stem = last.strip_suffix("_file")?;
    let mut secret = above.to_vec();
    secret.push(stem.to_owned());
    is_secret(&secret.join(".")).then_some(secret)
}

/// Whether a key, written with dots, holds a secret. Names of carriers have no dots.
fn is_secret(key: &str) -> bool {
    let path: Vec<String> = key.split('.').map(str::to_owned).collect();
    let of_carrier = carrier_key(&path).is_some_and(|(_, key)| is_secret_word(key));
    of_carrier || SECRETS.contains(&key)
}

fn is_below_carriers(path: &[String]) -> bool {
    path.len() > 2 && path.iter().map(String::as_str).take(2).eq(["sms", "carriers"])
}

/// The carrier's name and the key, if `path` is `sms.carriers.NAME.KEY`.
fn carrier_key(path: &[String]) -> Option<(&str, &str)> {
    match path {
        [_, _, name, key] if is_below_carriers(path) => Some((name, key)),
        _ => None,
    }
}

fn find<'a>(table: &'a Table, path: &[String]) -> Option<&'a Value> {
    let (first, rest) = path.split_first()?;
    let value = table.get(first)?;
    if rest.is_empty() { Some(value) } else { find(value.as_table()?, rest) }
}

fn put(table: &mut Table, path: &[String], value: Value) {
    let Some((first, rest)) = path.split_first() else { return };
    if rest.is_empty() {
        table.insert(first.clone(), value);
        return;
    }
    let inner = table.entry(first.clone()).or_insert_with(|| Value::Table(Table::new()));
    if let Value::Table(inner) = inner {
        put(inner, rest, value);
    }
}

fn text_of(given: Given) -> Option<String> {
    match given {
        Given::Text(text) | Given::Typed(Value::String(text)) => Some(text),
        Given::Typed(_) => None,
    }
}

fn convert(kind: Kind, given: Given) -> Option<Value> {
    match given {
        Given::Typed(value) if kind == Kind::Any => {
            (Kind::of(&value) != Kind::Section).then_some(value)
        }
        Given::Typed(value) => (Kind::of(&value) == kind).then_some(value),
        Given::Text(text) => match kind {
            Kind::Text | Kind::Any => Some(Value::String(text)),
            Kind::Integer => text.trim().parse().ok().map(Value::Integer),
            Kind::Bool => text.trim().parse().ok().map(Value::Boolean),
            Kind::List => list(&text),
            Kind::Section => None,
        },
    }
}

fn list(text: &str) -> Option<Value> {
    let mut table: Table = toml::from_str(&format!("list = {text}")).ok()?;
    // More than one key would mean that the text was not one value.
    let value = if table.len() == 1 { table.remove("list")? } else { return None };
    value.is_array().then_some(value)
}

fn mistyped(path: &[String], source: Source, kind: Kind) -> LoadError {
    let key = path.join(".");
    LoadError::Mistyped { expected: kind.expected(&key), key, from: source }
}
