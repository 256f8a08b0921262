//! Checks that no type can express: ranges, conflicting addresses, names that must exist.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use cloud_api::template::is_name;
use ipnet::IpNet;

use super::bounds::{Check, Fault, ensure, no_network, url, within};
use super::{
    Access, Chatapp, Config, Credits, Email, Limits, Otp, RelayUrl, Retention, Server, Support,
    Telemetry, Webhooks, sms,
};
use crate::kit::seal::MOST_KEYS;
use crate::kit::{msisdn, words};

const YEAR_S: i64 = 366 * 86_400;

/// What is wrong, in the order of `default.toml`: of each section the first.
pub(super) fn all(config: &Config) -> Vec<Fault> {
    let sections = [
        data_dir(config),
        master_key(config),
        server(&config.server),
        listeners(config),
        database(config),
        access(&config.access),
        limits(&config.limits),
        credits(&config.credits),
        otp(&config.otp, config.server.request_timeout_ms),
        webhooks(&config.webhooks),
        support(&config.support),
        retention(&config.retention),
        chatapp(&config.chatapp),
        sms::check(&config.sms),
        email(&config.email),
        log_level(&config.log.level),
        within("sandbox.handset_messages", config.sandbox.handset_messages, 1, 100_000_000),
        within("sandbox.inbound_messages", config.sandbox.inbound_messages, 1, 100_000_000),
        telemetry(&config.telemetry),
    ];
    sections.into_iter().filter_map(Result::err).collect()
}

fn data_dir(config: &Config) -> Check {
    ensure(!config.data_dir.as_os_str().is_empty(), "data_dir", "must name a directory")
}

fn limits(limits: &Limits) -> Check {
    within("limits.send_per_s", limits.send_per_s.into(), 1, 1_000_000)?;
    within("limits.read_per_s", limits.read_per_s.into(), 1, 1_000_000)?;
    within("limits.guest_per_min", limits.guest_per_min.into(), 1, 1_000_000)?;
    within("limits.signup_per_min", limits.signup_per_min.into(), 1, 1_000_000)?;
    let replies = limits.handset_replies_per_hour;
    within("limits.handset_replies_per_hour", replies.into(), 1, 1_000_000)
}

/// What is no level would be taken for the name of a part of the program, and everything else
/// would be silent.
fn log_level(directives: &str) -> Check {
    let is_level = |word: &str| {
        let word = word.trim().to_ascii_lowercase();
        ["off", "error", "warn", "info", "debug", "trace"].contains(&word.as_str())
    };
    let is_good = |directive: &str| match directive.rsplit_once('=') {
        None => is_level(directive),
        Some((target, level)) => {
            !target.trim().is_empty() && !target.contains('=') && is_level(level)
        }
    };
    let says = "must be error, warn, info, debug or trace, or such as info,store=debug";
    ensure(directives.split(',').all(is_good), "log.level", says)
}

fn master_key(config: &Config) -> Check {
    let key = config.master_key.expose();
    let is_key = |key: &str| key.len() == 64 && key.bytes().all(|b| b.is_ascii_hexdigit());
    let says = "must be 64 hexadecimal digits (several keys: one to a line, at most 4), or empty \
                for the file master.key in data_dir";
    let is_some = key.is_empty() || (1..=MOST_KEYS).contains(&key.split_whitespace().count());
    ensure(is_some && key.split_whitespace().all(is_key), "master_key", says)
}

fn listeners(config: &Config) -> Check {
    let server = &config.server;
    let mut taken = vec![("server.live", server.live)];
    let reports = config.email.reports.parse().ok();
    for (name, address) in [
        ("server.sandbox", Some(server.sandbox)),
        ("server.metrics", Some(server.metrics)),
        ("email.reports", reports),
    ] {
        let Some(address) = address else { continue };
        if let Some((other, _)) = taken.iter().find(|(_, taken)| clash(address, *taken)) {
            let says = format!("{address} clashes with {other}: each needs a port of its own");
            ensure(false, name, &says)?;
        }
        taken.push((name, address));
    }
    Ok(())
}

fn server(server: &Server) -> Check {
    url("server.live_url", &server.live_url)?;
    url("server.sandbox_url", &server.sandbox_url)?;
    within("server.request_timeout_ms", signed(server.request_timeout_ms), 100, 600_000)?;
    within("server.drain_timeout_ms", signed(server.drain_timeout_ms), 0, 600_000)?;
    within("server.drain_accept_ms", signed(server.drain_accept_ms), 0, 60_000)?;
    connections(server)
}

fn connections(server: &Server) -> Check {
    for (key, ms, most) in [
        ("server.header_timeout_ms", server.header_timeout_ms, 600_000),
        ("server.body_timeout_ms", server.body_timeout_ms, 600_000),
        ("server.write_timeout_ms", server.write_timeout_ms, 600_000),
        ("server.idle_timeout_ms", server.idle_timeout_ms, 3_600_000),
    ] {
        within(key, signed(ms), 100, most)?;
    }
    within("server.slowest_bytes_per_s", server.slowest_bytes_per_s.into(), 1, 1_000_000_000)?;
    let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
    within("server.max_connections", count(server.max_connections), 0, 1_000_000)?;
    let each = count(server.max_connections_per_address);
    within("server.max_connections_per_address", each, 1, 1_000_000)?;
    within("server.http2_streams", server.http2_streams.into(), 1, 10_000)?;
    let has_key = !server.tls_key_file.as_os_str().is_empty();
    let says = "needs server.tls_key_file too: a certificate and its key go together";
    ensure(has_key || !server.has_tls(), "server.tls_cert_file", says)?;
    let says = "needs server.tls_cert_file too: a certificate and its key go together";
    ensure(!has_key || server.has_tls(), "server.tls_key_file", says)
}

fn clash(one: SocketAddr, other: SocketAddr) -> bool {
    let any = |ip: IpAddr| ip.is_unspecified();
    let same_ip = one.ip() == other.ip() || any(one.ip()) || any(other.ip());
    one.port() != 0 && one.port() == other.port() && same_ip
}

fn database(config: &Config) -> Check {
    let url = config.database.url.expose();
    let is_postgres = url.starts_with("postgres://") || url.starts_with("postgresql://");
    let path = url.strip_prefix("sqlite:");
    let says = "must be empty, sqlite:PATH or postgres://…";
    let is_file = path.is_some_and(|path| !path.is_empty());
    ensure(url.is_empty() || is_file || is_postgres, "database.url", says)?;
    // As a path it would be one from the root on, which few mean.
    let is_url = path.is_some_and(|path| path.starts_with("//"));
    let says = "must be sqlite:PATH without //, such as sqlite:otp.db or sqlite:/var/lib/otp.db";
    ensure(!is_url, "database.url", says)?;
    if is_postgres {
        (config.database.engines.check_url)(url)
            .or_else(|why| ensure(false, "database.url", &why))?;
    }
    let says = "must be given on PostgreSQL, the same for every process: `openssl rand -hex 32` \
                makes one";
    ensure(!(is_postgres && config.master_key.is_empty()), "master_key", says)?;
    let queue = i64::try_from(config.database.queue).unwrap_or(i64::MAX);
    within("database.queue", queue, 1, 1_000_000)?;
    for (key, connections) in [
        ("database.batchers", config.database.batchers),
        ("database.readers", config.database.readers),
    ] {
        within(key, i64::try_from(connections).unwrap_or(i64::MAX), 1, 100)?;
    }
    within("database.patience_ms", signed(config.database.patience_ms), 100, 60_000)
}

fn access(access: &Access) -> Check {
    within("access.portal_token_s", access.portal_token_s, 60, YEAR_S)?;
    within("access.staff_token_s", access.staff_token_s, 60, YEAR_S)?;
    let hashers = i64::try_from(access.password_hashers).unwrap_or(i64::MAX);
    within("access.password_hashers", hashers, 1, 64)
}

fn credits(credits: &Credits) -> Check {
    within("credits.sandbox_grant", credits.sandbox_grant, 0, 1_000_000_000_000)?;
    within("credits.audit_every_s", credits.audit_every_s, 0, YEAR_S)?;
    within("credits.seal_every_s", credits.seal_every_s, 60, 86_400)?;
    let mut seen = BTreeSet::new();
    for (at, price) in credits.prices.iter().enumerate() {
        let key = |name: &str| format!("credits.prices.{at}.{name}");
        one_of(&key("channel"), &price.channel, &["chatapp", "sms", "email"])?;
        let categories =
            ["authentication", "utility", "marketing", "service", "session", "message"];
        one_of(&key("category"), &price.category, &categories)?;
        let country = price.country.as_str();
        let says = "must be * or the ISO 3166 code of a country, like DE or GB";
        ensure(country == "*" || msisdn::is_country(country), &key("country"), says)?;
        within(&key("credits"), price.credits, 0, 1_000_000_000)?;
        let is_new = seen.insert((&price.channel, &price.category, country));
        ensure(is_new, &key("country"), "there are two prices for this")?;
    }
    Ok(())
}

fn otp(otp: &Otp, request_timeout_ms: u64) -> Check {
    let longest = signed(request_timeout_ms).saturating_sub(1).min(20_000);
    within("otp.receipt_wait_ms", signed(otp.receipt_wait_ms), 0, longest)?;
    within("otp.fallback_after_s", otp.fallback_after_s, 5, 120)?;
    within("otp.validity_s", otp.validity_s, 60, 600)?;
    within("otp.max_attempts", otp.max_attempts, 1, 10)?;
    within("otp.resend_after_s", otp.resend_after_s, 0, 600)?;
    within("otp.recipient_per_10_min", otp.recipient_per_10_min.into(), 1, 10)?;
    within("otp.recipient_per_day", otp.recipient_per_day.into(), 1, 10)?;
    within("otp.wrong_guesses_per_day", otp.wrong_guesses_per_day.into(), 1, 20)
}

fn webhooks(webhooks: &Webhooks) -> Check {
    for network in &webhooks.allow_networks {
        let is_network = network.parse::<IpNet>().is_ok();
        ensure(is_network, "webhooks.allow_networks", &no_network(network))?;
    }
    schedule("webhooks.retry_schedule_s", &webhooks.retry_schedule_s)?;
    within("webhooks.timeout_ms", signed(webhooks.timeout_ms), 100, 60_000)?;
    let (connecting, longest) = (signed(webhooks.connect_timeout_ms), signed(webhooks.timeout_ms));
    within("webhooks.connect_timeout_ms", connecting, 50, 60_000)?;
    let detail =
        format!("must be at most webhooks.timeout_ms, which is {longest}, and is {connecting}");
    ensure(connecting <= longest, "webhooks.connect_timeout_ms", &detail)?;
    let parallel = i64::try_from(webhooks.parallel).unwrap_or(i64::MAX);
    within("webhooks.parallel", parallel, 2, 100_000)?;
    let dns = webhooks.dns_server.as_str();
    let is_dns = dns.is_empty() || dns.parse::<SocketAddr>().is_ok();
    ensure(is_dns, "webhooks.dns_server", "must be empty or an address and port, as 10.0.0.2:53")
}

fn support(support: &Support) -> Check {
    /// A year.
    const LONGEST_MIN: i64 = 366 * 24 * 60;
    within("support.close_after_d", support.close_after_d, 1, 366)?;
    for (name, targets) in [
        ("support.first_reply_min", support.first_reply_min),
        ("support.resolution_min", support.resolution_min),
    ] {
        for (priority, minutes) in
            [("low", targets.low), ("normal", targets.normal), ("high", targets.high)]
        {
            within(&format!("{name}.{priority}"), minutes, 0, LONGEST_MIN)?;
        }
    }
    within("support.open_tickets", support.open_tickets, 1, 100_000)?;
    storage(support)?;
    within("support.account_storage_mib", support.account_storage_mib, 1, 1_000_000_000)?;
    let clamd = support.clamd.as_str();
    let is_scanner = match clamd.strip_prefix("unix:") {
        Some(path) => !path.is_empty(),
        None => clamd.is_empty() || is_host_and_port(clamd),
    };
    let says = "must be empty, host:port or unix:PATH";
    ensure(is_scanner, "support.clamd", says)?;
    within("support.clamd_timeout_ms", signed(support.clamd_timeout_ms), 100, 20_000)?;
    support.origins.iter().try_for_each(|origin| url("support.origins", origin))?;
    let sockets = i64::try_from(support.sockets_per_person).unwrap_or(i64::MAX);
    within("support.sockets_per_person", sockets, 1, 1_000_000)?;
    within("support.ping_s", signed(support.ping_s), 1, 60)?;
    within("support.drain_spread_ms", signed(support.drain_spread_ms), 0, 60_000)
}

fn storage(support: &Support) -> Check {
    let key = "support.storage";
    let place = support.storage.as_str();
    if let Some(place) = place.strip_prefix("s3://") {
        let bucket = place.split('/').next().unwrap_or_default();
        // More than AWS takes; other stores have more names.
        let is_bucket = (1..=255).contains(&bucket.len())
            && bucket.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b));
        let says = "must name a bucket: s3://BUCKET or s3://BUCKET/PREFIX, and a bucket's name \
                    has only letters, digits, dots, - and _";
        ensure(is_bucket, key, says)?;
        let has_key =
            !support.s3_access_key_id.is_empty() && !support.s3_secret_access_key.is_empty();
        let says = "is s3://, which needs support.s3_access_key_id and s3_secret_access_key";
        ensure(has_key, key, says)?;
        let region = support.s3_region.as_str();
        let is_region = !region.is_empty()
            && region.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b));
        ensure(is_region, "support.s3_region", "must be a region such as eu-central-1")?;
    } else {
        let says = "must be empty, a directory, or s3://BUCKET/PREFIX";
        ensure(!place.contains("://") && !place.starts_with("s3:"), key, says)?;
    }
    if support.s3_endpoint.is_empty() {
        return Ok(());
    }
    url("support.s3_endpoint", &support.s3_endpoint)
}

fn retention(retention: &Retention) -> Check {
    // A hundred years: for ever, as far as this program is concerned.
    const LONGEST_D: i64 = 36_500;
    within("retention.tokens_d", retention.tokens_d, 1, LONGEST_D)?;
    within("retention.recipients_d", retention.recipients_d, 1, LONGEST_D)?;
    let challenges_d = retention.challenges_d;
    within("retention.challenges_d", challenges_d, retention.recipients_d, LONGEST_D)?;
    within("retention.sandbox_d", retention.sandbox_d, 1, LONGEST_D)?;
    within("retention.inbound_d", retention.inbound_d, 1, LONGEST_D)?;
    within("retention.audit_log_d", retention.audit_log_d, 1, LONGEST_D)?;
    within("retention.ticket_files_d", retention.ticket_files_d, 1, LONGEST_D)?;
    within("retention.tickets_d", retention.tickets_d, retention.ticket_files_d, LONGEST_D)?;
    within("retention.chunk", retention.chunk, 1, 10_000)?;
    within("retention.pause_ms", signed(retention.pause_ms), 0, 10_000)
}

fn telemetry(telemetry: &Telemetry) -> Check {
    let endpoint = telemetry.otlp_endpoint.as_str();
    let key = "telemetry.otlp_endpoint";
    let says = "must be empty: this program was built without the feature `otlp`";
    ensure(endpoint.is_empty() || cfg!(feature = "otlp"), key, says)?;
    let says = "must be http://host:port; a collector on this machine or network takes it on";
    ensure(endpoint.is_empty() || endpoint.starts_with("http://"), key, says)?;
    within("telemetry.sample_percent", telemetry.sample_percent.into(), 0, 100)
}

fn email(email: &Email) -> Check {
    let relay = email.relay_url.expose();
    if !relay.is_empty()
        && let Err(error) = RelayUrl::read(relay)
    {
        return ensure(false, "email.relay_url", &error.to_string());
    }
    let shared = email.shared_domain.as_str();
    let is_domain = shared.is_empty() || ::email::domain_of(shared).as_deref() == Some(shared);
    let says = "must be empty or a domain in lower-case ASCII, such as mail.example.com";
    ensure(is_domain, "email.shared_domain", says)?;
    schedule("email.retry_schedule_s", &email.retry_schedule_s)?;
    let is_address = email.reports.parse::<std::net::SocketAddr>().is_ok();
    let says = "must be empty or address:port, such as 0.0.0.0:25";
    ensure(email.reports.is_empty() || is_address, "email.reports", says)?;
    let dns = email.dns_server.as_str();
    let is_dns = dns.is_empty() || is_host_and_port(dns);
    ensure(is_dns, "email.dns_server", "must be empty or host:port")?;
    for (key, url) in
        [("email.verify_url", &email.verify_url), ("email.reset_url", &email.reset_url)]
    {
        let is_web = |url: url::Url| matches!(url.scheme(), "http" | "https") && url.has_host();
        let is_page = url.contains("{token}") && url::Url::parse(url).is_ok_and(is_web);
        let says = "must be empty, or the http or https address of a page, with {token} in it";
        ensure(url.is_empty() || is_page, key, says)?;
    }
    within("email.verify_life_s", email.verify_life_s, 60, 86_400)?;
    within("email.reset_life_s", email.reset_life_s, 60, 86_400)?;
    within("email.resets_per_hour", email.resets_per_hour, 1, 100)
}

fn is_host_and_port(text: &str) -> bool {
    let is_port = |port: &str| port.parse::<u16>().is_ok_and(|port| port != 0);
    text.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && is_port(port))
}

fn chatapp(chatapp: &Chatapp) -> Check {
    url("chatapp.base_url", &chatapp.base_url)?;
    let number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    let version = chatapp.api_version.strip_prefix('v').and_then(|rest| rest.split_once('.'));
    let is_version = version.is_some_and(|(major, minor)| number(major) && number(minor));
    ensure(is_version, "chatapp.api_version", "must be a version such as v23.0")?;
    let says = "must be the name of a template: a-z, 0-9 and _";
    ensure(is_name(&chatapp.otp_template), "chatapp.otp_template", says)?;
    let consent = chatapp.consent_template.as_str();
    let says = "must be empty or the name of a template: a-z, 0-9 and _";
    ensure(consent.is_empty() || is_name(consent), "chatapp.consent_template", says)?;
    within("chatapp.messages_per_s", chatapp.messages_per_s.into(), 1, 100_000)
}

fn schedule(key: &str, pauses: &[i64]) -> Check {
    ensure(pauses.len() <= 30, key, "has more than 30 pauses")?;
    pauses.iter().try_for_each(|pause| within(key, *pause, 1, 30 * 86_400))
}

fn one_of(key: &str, value: &str, choices: &[&str]) -> Check {
    ensure(choices.contains(&value), key, &words::one_of(choices))
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
