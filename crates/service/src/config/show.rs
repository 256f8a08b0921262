//! Shows the settings in force with every secret masked, for `estafette config`.

use std::fmt;

use serde::Serialize;
use toml::{Table, Value};

use super::layers::is_secret_word;
use super::{Chatapp, Config, Database, Email, Sms, SmsLookup, Support};
use crate::kit::secret::Secret;

/// The same for every secret: not even its length shows.
pub(super) const MASK: &str = "***";

/// The settings as TOML.
#[must_use]
pub fn show(config: &Config) -> String {
    toml::to_string_pretty(&table(config)).unwrap_or_default()
}

/// The settings as JSON.
#[must_use]
pub fn show_json(config: &Config) -> serde_json::Value {
    serde_json::to_value(table(config)).unwrap_or_default()
}

fn table(config: &Config) -> Table {
    let mut shown = Table::new();
    let data_dir = config.data_dir.to_string_lossy().into_owned();
    shown.insert("data_dir".to_owned(), Value::String(data_dir));
    shown.insert("master_key".to_owned(), masked(&config.master_key));
    let sections = [
        ("server", plain(&config.server)),
        ("database", database(&config.database)),
        ("access", plain(&config.access)),
        ("limits", plain(&config.limits)),
        ("credits", plain(&config.credits)),
        ("otp", plain(&config.otp)),
        ("sandbox", plain(&config.sandbox)),
        ("webhooks", plain(&config.webhooks)),
        ("support", support(&config.support)),
        ("retention", plain(&config.retention)),
        ("chatapp", chatapp(&config.chatapp)),
        ("sms", sms(&config.sms)),
        ("email", email(&config.email)),
        ("log", plain(&config.log)),
        ("telemetry", plain(&config.telemetry)),
    ];
    shown.extend(sections.map(|(name, section)| (name.to_owned(), section)));
    shown
}

fn database(database: &Database) -> Value {
    section([
        ("url", masked(&database.url)),
        ("queue", plain(&database.queue)),
        ("batchers", plain(&database.batchers)),
        ("readers", plain(&database.readers)),
        ("prepared_statements", plain(&database.prepared_statements)),
        ("patience_ms", plain(&database.patience_ms)),
    ])
}

fn support(support: &Support) -> Value {
    section([
        ("close_after_d", plain(&support.close_after_d)),
        ("first_reply_min", plain(&support.first_reply_min)),
        ("resolution_min", plain(&support.resolution_min)),
        ("open_tickets", plain(&support.open_tickets)),
        ("storage", plain(&support.storage)),
        ("s3_endpoint", plain(&support.s3_endpoint)),
        ("s3_region", plain(&support.s3_region)),
        ("s3_access_key_id", masked(&support.s3_access_key_id)),
        ("s3_secret_access_key", masked(&support.s3_secret_access_key)),
        ("account_storage_mib", plain(&support.account_storage_mib)),
        ("clamd", plain(&support.clamd)),
        ("clamd_timeout_ms", plain(&support.clamd_timeout_ms)),
        ("origins", plain(&support.origins)),
        ("long_tokens_in_chat", plain(&support.long_tokens_in_chat)),
        ("sockets_per_person", plain(&support.sockets_per_person)),
        ("ping_s", plain(&support.ping_s)),
        ("drain_spread_ms", plain(&support.drain_spread_ms)),
    ])
}

fn chatapp(chatapp: &Chatapp) -> Value {
    section([
        ("base_url", plain(&chatapp.base_url)),
        ("api_version", plain(&chatapp.api_version)),
        ("phone_number_id", plain(&chatapp.phone_number_id)),
        ("waba_id", plain(&chatapp.waba_id)),
        ("access_token", masked(&chatapp.access_token)),
        ("app_secret", masked(&chatapp.app_secret)),
        ("verify_token", masked(&chatapp.verify_token)),
        ("messages_per_s", plain(&chatapp.messages_per_s)),
        ("otp_template", plain(&chatapp.otp_template)),
        ("consent_template", plain(&chatapp.consent_template)),
    ])
}

fn sms(sms: &Sms) -> Value {
    let carriers = sms.carriers.iter().map(|(name, table)| (name.clone(), carrier(table)));
    let carriers = Value::Table(carriers.collect());
    let routes = plain(&sms.routes);
    section([("carriers", carriers), ("lookup", lookup(&sms.lookup)), ("routes", routes)])
}

fn lookup(lookup: &SmsLookup) -> Value {
    section([
        ("url", masked(&lookup.url)),
        ("header", plain(&lookup.header)),
        ("token", masked(&lookup.token)),
        ("network", plain(&lookup.network)),
        ("timeout_ms", plain(&lookup.timeout_ms)),
        ("cache_s", plain(&lookup.cache_s)),
        ("cache_numbers", plain(&lookup.cache_numbers)),
    ])
}

fn carrier(table: &Table) -> Value {
    let shown = table.iter().map(|(key, value)| {
        let is_empty = value.as_str() == Some("");
        // A URL may carry a user and a password.
        let is_secret = is_secret_word(key)
            || value.as_str().is_some_and(|text| text.contains("://") && text.contains('@'));
        let value = if is_secret && !is_empty { plain(&MASK) } else { value.clone() };
        (key.clone(), value)
    });
    Value::Table(shown.collect())
}

fn email(email: &Email) -> Value {
    section([
        ("relay_url", masked(&email.relay_url)),
        ("ca_file", plain(&email.ca_file)),
        ("shared_domain", plain(&email.shared_domain)),
        ("retry_schedule_s", plain(&email.retry_schedule_s)),
        ("reports", plain(&email.reports)),
        ("dns_server", plain(&email.dns_server)),
        ("verify_url", plain(&email.verify_url)),
        ("reset_url", plain(&email.reset_url)),
        ("verify_life_s", plain(&email.verify_life_s)),
        ("reset_life_s", plain(&email.reset_life_s)),
        ("resets_per_hour", plain(&email.resets_per_hour)),
    ])
}

fn section<const N: usize>(keys: [(&str, Value); N]) -> Value {
    Value::Table(keys.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

fn masked(secret: &Secret) -> Value {
    Value::String(if secret.is_empty() { String::new() } else { MASK.to_owned() })
}

fn plain(value: &impl Serialize) -> Value {
    Value::try_from(value).unwrap_or_else(|_| Value::String("(cannot be shown)".to_owned()))
}

impl fmt::Debug for Sms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sms({})", sms(self))
    }
}
