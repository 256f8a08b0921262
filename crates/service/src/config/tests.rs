//! The settings as an operator gives them: by file, by environment, by secrets in files.

use std::path::PathBuf;

use super::layers::leaves;
use super::load::DEFAULTS;
use super::*;

/// With databases, whose URLs are checked.
fn flags() -> Flags {
    Flags { engines: engines::ALL, ..Flags::default() }
}

fn from_environment(pairs: &[(&str, &str)]) -> Result<Config, LoadErrors> {
    let pairs = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    load(None, pairs, flags())
}

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    }
}

fn from_file(content: &str) -> Result<Config, LoadErrors> {
    let folder = Folder::new();
    let file = folder.file("estafette.toml", content);
    load(Some(&file), std::iter::empty(), flags())
}

fn fault(result: Result<Config, LoadErrors>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn the_defaults_load_and_are_those_of_the_contract() {
    let config = from_environment(&[]).unwrap();
    assert_eq!(config.server.live_url, "http://127.0.0.1:8080");
    assert_eq!(config.webhooks.retry_schedule_s.len(), 9);
    assert_eq!(config.otp.receipt_wait_ms, 1500);
    assert!(config.sms.carriers.is_empty() && config.sms.routes.is_empty());
    assert!(config.access.signup_sandbox && !config.access.signup_live);
}

#[test]
fn every_key_of_the_defaults_is_explained() {
    let lines: Vec<&str> = DEFAULTS.lines().collect();
    for pair in lines.windows(2) {
        let is_key = pair[1].contains(" = ") && !pair[1].starts_with(['#', ' ']);
        let is_explained = pair[0].starts_with("# ") || pair[1].contains(" # ");
        assert!(!is_key || is_explained, "no comment for: {}", pair[1]);
    }
}

#[test]
fn every_key_of_the_defaults_is_shown() {
    let keys = |text: &str| -> Vec<String> {
        leaves(toml::from_str(text).unwrap()).into_iter().map(|(path, _)| path.join(".")).collect()
    };
    assert_eq!(keys(&show(&from_environment(&[]).unwrap())), keys(DEFAULTS));
}

#[test]
fn an_unknown_key_is_refused_with_its_source() {
    let text = fault(from_file("[otp]\nvalidity = 60\n"));
    assert!(text.contains("otp.validity:") && text.contains("estafette.toml"), "{text}");
    let text = fault(from_file("[oops]\n"));
    assert!(text.contains("oops:") && text.contains("no such setting"), "{text}");
    let text = fault(from_environment(&[("ESTAFETTE__OTP__VALIDITY", "60")]));
    assert!(text.contains("otp.validity:") && text.contains("ESTAFETTE__OTP__VALIDITY"), "{text}");
}

#[test]
fn all_that_is_wrong_is_told_at_once() {
    let text = fault(from_file("[otp]\nvalidity = 60\n[server]\nlive = 5\nsandbox = 'nowhere'\n"));
    assert!(text.starts_with("the settings have 3 errors:\n  "), "{text}");
    for key in ["otp.validity:", "server.live:", "server.sandbox:"] {
        assert_eq!(text.matches(key).count(), 1, "{key} {text}");
    }
    let text = fault(from_file("[limits]\nsend_per_s = 0\n[otp]\nvalidity_s = 1\n"));
    assert!(text.contains("limits.send_per_s:") && text.contains("otp.validity_s:"), "{text}");
    let pairs = [("ESTAFETTE__NONE", "1"), ("ESTAFETTE__OTP__MAX_ATTEMPTS", "many")];
    let garbled = fault(from_environment(&[("ESTAFETTE__DATA_DIR", "donn\u{fffd}es")]));
    assert_eq!(garbled, "the environment variable ESTAFETTE__DATA_DIR is not UTF-8");
    let text = fault(from_environment(&pairs));
    assert!(text.contains("ESTAFETTE__NONE") && text.contains("otp.max_attempts:"), "{text}");
}

#[test]
fn a_fault_in_a_carrier_names_its_key_and_its_file() {
    let told = |lines: &str| fault(from_file(&format!("[sms.carriers.main]\n{lines}\n")));
    for (lines, key) in [
        ("kind = \"smpp\"\nmessage_id = \"octal\"", "sms.carriers.main.message_id:"),
        ("kind = \"smpp\"\nport = \"x\"", "sms.carriers.main.port:"),
        ("kind = \"smpp\"\nwindows = 5", "sms.carriers.main.windows:"),
        ("kind = \"http\"", "sms.carriers.main.preset:"),
        ("host = \"h\"", "sms.carriers.main.kind:"),
    ] {
        let text = told(lines);
        assert!(text.starts_with(key) && text.contains("estafette.toml"), "{text}");
    }
    let text = fault(from_file("[sms.carriers.\"my own\"]\nkind = \"smpp\"\n"));
    assert!(text.starts_with("sms.carriers.my own:") && text.contains(".toml, line 2)"), "{text}");
}

#[test]
fn addresses_that_no_browser_or_mail_server_takes_are_refused() {
    for (key, bad) in [
        ("VERIFY_URL", "javascript:alert({token})"),
        ("RESET_URL", "{token}"),
        ("SHARED_DOMAIN", "not a domain"),
        ("SHARED_DOMAIN", "Mail.example"),
    ] {
        let name = format!("ESTAFETTE__EMAIL__{key}");
        let text = fault(from_environment(&[(&name, bad)]));
        assert!(text.contains("must be empty") && text.contains(&name), "{text}");
    }
}

#[test]
fn a_relay_that_nothing_can_be_sent_to_is_refused_without_its_password() {
    let name = "ESTAFETTE__EMAIL__RELAY_URL";
    for (bad, why) in [
        ("smtp://ada:hidden@h:99999", "the port must be 1 to 65535"),
        ("smtp://ada:hidden@", "the host must be a name"),
        ("smtp://ada:hidden word@h", "percent-encoded"),
    ] {
        let text = fault(from_environment(&[(name, bad)]));
        assert!(text.starts_with("email.relay_url: ") && text.contains(why), "{text}");
        assert!(text.contains(name) && !text.contains("hidden"), "{text}");
    }
}

#[test]
fn a_level_that_would_silence_the_log_is_refused() {
    for good in ["warn", "INFO", "info,store=debug", "off, estafette::otp=trace"] {
        let config = from_environment(&[("ESTAFETTE__LOG__LEVEL", good)]).unwrap();
        assert_eq!(config.log.level, good);
    }
    for bad in ["verbose", "", "x y", ":::", "info,chatty", "=debug", "store=loud"] {
        let text = fault(from_environment(&[("ESTAFETTE__LOG__LEVEL", bad)]));
        assert!(text.starts_with("log.level: must be"), "{bad}: {text}");
    }
}

#[test]
fn digits_stay_text_where_text_is_expected() {
    let key = "0".repeat(63) + "7";
    let config = from_environment(&[
        ("ESTAFETTE__CHATAPP__PHONE_NUMBER_ID", "012345"),
        ("ESTAFETTE__MASTER_KEY", &key),
        ("ESTAFETTE__SMS__CARRIERS__MAIN__KIND", "smpp"),
        ("ESTAFETTE__SMS__CARRIERS__MAIN__PASSWORD", "0123"),
        ("ESTAFETTE__SMS__CARRIERS__MAIN__PORT", "2776"),
        ("ESTAFETTE__SMS__ROUTES", r#"[{prefix = "+", carriers = ["main"]}]"#),
    ])
    .unwrap();
    assert_eq!(config.chatapp.phone_number_id, "012345");
    assert_eq!(config.master_key.expose(), key);
    let carrier = &config.sms.carriers["main"];
    assert_eq!(carrier["password"].as_str(), Some("0123"));
    assert_eq!(carrier["port"].as_integer(), Some(2776));
    assert_eq!(config.sms.routes[0].carriers[0].name(), "main");
}

#[test]
fn lists_from_the_environment_are_toml_arrays() {
    let name = "ESTAFETTE__WEBHOOKS__RETRY_SCHEDULE_S";
    let config = from_environment(&[(name, "[5, 300]")]).unwrap();
    assert_eq!(config.webhooks.retry_schedule_s, [5, 300]);
    for wrong in ["5, 300", "5", "[5]\nx = 1", "[\"5\"]"] {
        let text = fault(from_environment(&[(name, wrong)]));
        assert!(text.contains("webhooks.retry_schedule_s") && text.contains(name), "{text}");
    }
    let networks = ("ESTAFETTE__WEBHOOKS__ALLOW_NETWORKS", r#"["127.0.0.0/8", "::1/128"]"#);
    assert_eq!(from_environment(&[networks]).unwrap().webhooks.allow_networks.len(), 2);
    assert!(from_environment(&[(networks.0, r#"["127.0.0.0/33"]"#)]).is_err());
}

#[test]
fn a_secret_may_be_in_a_file() {
    let folder = Folder::new();
    let secret = folder.file("token", "a b \r\n");
    let secret = secret.to_str().unwrap();
    let config = from_environment(&[("ESTAFETTE__CHATAPP__ACCESS_TOKEN_FILE", secret)]).unwrap();
    assert_eq!(config.chatapp.access_token.expose(), "a b ");

    let s3 = format!("[support]\ns3_access_key_id_file = '{secret}'\n");
    assert_eq!(from_file(&s3).unwrap().support.s3_access_key_id.expose(), "a b ");

    let carrier = format!("[sms.carriers.main]\nkind = 'smpp'\npassword_file = '{secret}'\n");
    let config = from_file(&carrier).unwrap();
    assert_eq!(config.sms.carriers["main"]["password"].as_str(), Some("a b "));
    assert!(!config.sms.carriers["main"].contains_key("password_file"));

    let file = folder.file("all.toml", "master_key_file = '/nowhere'\n");
    assert!(fault(load(Some(&file), std::iter::empty(), Flags::default())).contains("/nowhere"));
    let key = ("ESTAFETTE__MASTER_KEY".to_owned(), "ab".repeat(32));
    let config = load(Some(&file), std::iter::once(key), Flags::default()).unwrap();
    assert_eq!(config.master_key.expose(), "ab".repeat(32));

    let both =
        [("ESTAFETTE__DATABASE__URL", "sqlite:x"), ("ESTAFETTE__DATABASE__URL_FILE", secret)];
    assert!(fault(from_environment(&both)).contains("given twice"));
    let no_secret = [("ESTAFETTE__OTP__VALIDITY_S_FILE", secret)];
    assert!(fault(from_environment(&no_secret)).contains("no such setting"));
}

#[test]
fn the_later_layer_wins_and_public_addresses_follow_the_listeners() {
    let folder = Folder::new();
    let file = folder.file("e.toml", "[server]\nlive = '127.0.0.1:1'\nsandbox = '0.0.0.0:2'\n");
    let variable = ("ESTAFETTE__SERVER__LIVE".to_owned(), "127.0.0.1:18080".to_owned());
    let load = |flags| load(Some(&file), std::iter::once(variable.clone()), flags).unwrap();
    let server = load(Flags::default()).server;
    assert_eq!(server.live_url, "http://127.0.0.1:18080");
    assert_eq!(server.sandbox_url, "http://127.0.0.1:2");
    let flags = Flags { live: Some("[::1]:3".parse().unwrap()), ..Flags::default() };
    assert_eq!(load(flags).server.live_url, "http://[::1]:3");
    let config = from_file("[server]\nlive = '0.0.0.0:80'\nlive_url = 'https://otp.example'\n");
    assert_eq!(config.unwrap().server.live_url, "https://otp.example");
}

#[test]
fn values_that_cannot_work_are_refused() {
    for (key, file) in [
        ("otp.validity_s", "[otp]\nvalidity_s = 59"),
        ("otp.fallback_after_s", "[otp]\nfallback_after_s = 121"),
        ("otp.recipient_per_day", "[otp]\nrecipient_per_day = 11"),
        ("otp.max_attempts", "[otp]\nmax_attempts = '5'"),
        ("limits.send_per_s", "[limits]\nsend_per_s = -1"),
        ("server.live", "[server]\nlive = 'localhost'"),
        ("server.sandbox", "[server]\nsandbox = '0.0.0.0:8080'"),
        ("server.live_url", "[server]\nlive_url = 'https://otp.example/'"),
        ("database.url", "[database]\nurl = 'mysql://x'"),
        ("master_key", "master_key = 'abc'"),
        ("master_key", "[database]\nurl = 'postgres://db/otp'"),
        ("sms.routes", "[[sms.routes]]\nprefix = '+'\ncarriers = ['main']"),
        ("sms.carriers.main.kind", "[sms.carriers.main]\nhost = 'x'"),
        ("credits.prices", "[[credits.prices]]\nchannel = 'sms'"),
        ("otp", "otp = 5"),
        ("otp.fraud_guard", "[otp]\nfraud_guard = 'on'"),
        ("log.format", "[log]\nformat = 'xml'"),
        ("sandbox.handsets", "[sandbox]\nhandsets = 'disk'"),
    ] {
        let text = fault(from_file(file));
        assert!(text.starts_with(key), "{key}: {text}");
    }
}

#[test]
fn routes_that_no_start_would_take_are_refused() {
    let told = |routes: &str| {
        let main = "[sms.carriers.main]\nkind = 'smpp'\nsender = '%s'\n".replace("%s", "ACME");
        from_file(&format!("{main}[sms]\nroutes = [{routes}]\n"))
    };
    let route = |prefix: &str| format!("{{ prefix = '{prefix}', carriers = ['main'] }}");
    assert!(told(&[route("+"), route("+33")].join(", ")).is_ok());
    let whole = |more: &str, of: &str| {
        format!("{{ prefix = '+33', {more}, carriers = [{{ name = 'main', {of} }}] }}")
    };
    let bulk = whole("class = 'bulk', max_price = 5", "price = 5, weight = 2, priority = 1");
    assert!(
        told(
            &[
                route("+33"),
                bulk,
                whole("account_id = 'acc_01kdvdna01esbsavx1e2vae545'", "price = 5")
            ]
            .join(", ")
        )
        .is_ok()
    );
    for (routes, says) in [
        (whole("class = 'bulk', max_price = 4", "price = 5"), "below all of its prices"),
        (whole("class = 'bulk'", "weight = 0"), "must give main a weight of 1 to 1000"),
        (vec![whole("class = 'bulk'", "price = 5"); 2].join(", "), "two routes for +33 alike"),
        (whole("class = 'bulk'", "cost = 1"), "by tables with name, priority, weight and price"),
        (whole("class = 'spam'", "price = 1"), "must be one of passcode, transactional, bulk"),
        ([route("+33"), route("+33")].join(", "), "two routes for +33 alike"),
        (route("+1234567890123456"), "+ and at most 15 digits"),
        (route("33"), "+ and at most 15 digits"),
        (whole("account_id = 'a'", "price = 1"), "must be acc_ and 26 characters"),
        ("{ prefix = '+', carriers = [] }".to_owned(), "must name 1 to 20 carriers"),
        ("{ prefix = '+', carriers = ['other'] }".to_owned(), "no table under sms.carriers"),
        ("{ prefix = '+', carriers = ['main', 'main'] }".to_owned(), "names main more than once"),
        (
            "{ prefix = '+', carriers = ['main', { name = 'main', weight = 2 }] }".to_owned(),
            "names main more than once",
        ),
    ] {
        let text = fault(told(&routes));
        assert!(text.starts_with("sms.routes") && text.contains(says), "{routes}: {text}");
        assert!(text.contains(".toml, line 5)"), "{text}");
    }
}

#[test]
fn a_sender_that_fits_no_network_is_refused() {
    let load = |sender: &str| {
        from_file(&format!("[sms.carriers.main]\nkind = 'smpp'\nsender = '{sender}'\n"))
    };
    for good in ["", "ACME", "A & B Ltd.", "+491511234567", "12345", "12345678901234567890"] {
        assert!(load(good).is_ok(), "{good}");
    }
    for bad in ["ACME Germany", "Bücher", "123456789012345678901"] {
        let text = fault(load(bad));
        assert!(text.starts_with("sms.carriers.main.sender: must be empty"), "{text}");
    }
}

#[test]
fn a_broken_file_is_named_with_the_line_but_not_quoted() {
    let text = fault(from_file("[chatapp]\naccess_token = \"hunter2\n"));
    assert!(text.contains("line 2") && !text.contains("hunter2"), "{text}");
}

#[test]
fn secrets_are_masked_without_their_length() {
    let config = from_file(
        "[chatapp]\naccess_token = 'hunter2'\n[database]\nurl = 'sqlite:hunter2'\n\
         [sms.carriers.main]\nkind = 'smpp'\nhost = 'smsc'\npassword = 'hunter2'\n",
    )
    .unwrap();
    let shown = show(&config);
    assert!(!shown.contains("hunter2") && !show_json(&config).to_string().contains("hunter2"));
    assert!(!format!("{config:?}").contains("hunter2"));
    assert!(shown.contains("access_token = \"***\"") && shown.contains("app_secret = \"\""));
    let text = fault(from_file(&shown));
    for key in ["chatapp.access_token:", "database.url:", "sms.carriers.main.password:"] {
        assert!(text.contains(&format!("{key} *** is what")), "{text}");
    }
}

#[test]
fn telemetry_needs_a_program_that_was_built_for_it() {
    let endpoint = |url| from_environment(&[("ESTAFETTE__TELEMETRY__OTLP_ENDPOINT", url)]);
    let with_collector = endpoint("http://127.0.0.1:4318");
    if cfg!(feature = "otlp") {
        assert_eq!(with_collector.unwrap().telemetry.otlp_endpoint, "http://127.0.0.1:4318");
        assert!(fault(endpoint("https://127.0.0.1:4318")).contains("must be http://"));
    } else {
        assert!(fault(with_collector).contains("without the feature `otlp`"));
    }
}

#[test]
fn passcodes_are_not_deleted_before_their_recipient_is_forgotten() {
    let text = fault(from_file("[retention]\nrecipients_d = 30\nchallenges_d = 29\n"));
    assert!(text.contains("retention.challenges_d") && text.contains("30"), "{text}");
    assert!(from_file("[retention]\nrecipients_d = 30\nchallenges_d = 30\n").is_ok());
    let text = fault(from_environment(&[("ESTAFETTE__RETENTION__TOKENS_D", "0")]));
    assert!(text.contains("retention.tokens_d"), "{text}");
}

#[test]
fn a_built_in_value_that_does_not_fit_to_another_is_nobodys_line() {
    let text = fault(from_file("[webhooks]\nallow_http = true\ntimeout_ms = 1000\n"));
    let told = "webhooks.connect_timeout_ms: must be at most webhooks.timeout_ms, which is 1000, \
                and is 5000";
    assert_eq!(text, told);
}

#[test]
fn a_fault_says_what_would_be_right_and_in_which_line() {
    for (file, told) in [
        (
            "\n[server]\nlive = 127.0.0.1:80\n",
            "line 3: server.live: invalid float (text goes between quotes)",
        ),
        ("[server]\n\nhttp2_streams = 9999999999\n", "must be 1 to 10000, is 9999999999 (from"),
        ("[telemetry]\nsample_percent = 300\n", "must be 0 to 100, is 300"),
        ("[telemetry]\nsample_percent = -1\n", "must not be negative: -1"),
        ("[server]\ntrusted_proxies = ['x']\n", "\"x\" is not a network such as 10.0.0.0/8"),
        ("[server]\ntrusted_proxies = 'x'\n", "must be a list of networks, such as [\"10."),
        ("[sms]\nroutes = ['x']\n", "must be a table with keys"),
        ("[[sms.routes]]\nprefix = '+'\ncarriers = 'x'\n", "must be a list"),
        ("[[credits.prices]]\nchannel = 'sms'\n", "category is missing"),
        ("[server]\nliev = ''\n", "did you mean server.live?"),
        ("[otp]\nsend_per_s = 1\n", "did you mean limits.send_per_s?"),
        ("[server]\ntls_key_file = 'x'\n", "server.tls_key_file: needs server.tls_cert_file"),
        ("[support]\nclamd = 'nonsense'\n", "host:port or unix:PATH"),
        ("[chatapp]\napi_version = '25'\n", "such as v23.0"),
        ("[chatapp]\nmessages_per_s = 0\n", "must be 1 to 100000, is 0"),
        ("[database]\nurl = 'postgres://'\n", "must name a host"),
        ("[sms.carriers.m]\nkind = 'smpp'\nwindows = 1\n", "did you mean window?"),
        ("[server]\nlive = 'http://127.0.0.1:80/'\n", "not a URL: write 127.0.0.1:80"),
        ("[support]\nstorage = 's3://bu cket/p'\n", "support.storage: must name a bucket"),
        ("[support]\nstorage = 's3://'\n", "support.storage: must name a bucket"),
        ("[support]\nstorage = 'ftp://x/y'\n", "must be empty, a directory, or s3://"),
        ("[database]\nurl = 'sqlite://otp.db'\n", "without //, such as sqlite:otp.db"),
        ("data_dir = ''\n", "data_dir: must name a directory"),
        ("[email]\nreports = '127.0.0.1:9090'\n", "email.reports: 127.0.0.1:9090 clashes"),
        ("[chatapp]\notp_template = 'My code'\n", "must be the name of a template"),
        (
            "\n[otp]\nvalidity_s = 99999999999999999999\n",
            "line 3: otp.validity_s: the number is too",
        ),
        (
            "\n[otp]\nvalidity_s = 9999999999999999999999999999999999999999999\n",
            "line 3: otp.validity_s: the number is too large",
        ),
    ] {
        let text = fault(from_file(file));
        assert!(text.contains(told), "{file}: {text}");
        let line = if file.starts_with('\n') { "line 3" } else { "toml, line " };
        assert!(text.contains(line), "{file}: {text}");
        let words = ["usize", "u32", "i64", "u8", "struct ", "invalid type", "`"];
        // Where it comes from is a folder with any letters.
        let told = text.split(" (from ").next().unwrap_or_default();
        assert!(!words.iter().any(|word| told.contains(word)), "{text}");
    }
    let postgres = "master_key = '%k'\n[database]\nurl = 'postgres://u:hush@h/x?pool=1'\n";
    let text = fault(from_file(&postgres.replace("%k", &"ab".repeat(32))));
    assert!(text.contains("unknown option \"pool\"") && !text.contains("hush"), "{text}");
    let text = fault(from_environment(&[("ESTAFETTE__OTP_VALIDITY_S", "60")]));
    assert!(text.ends_with("did you mean ESTAFETTE__OTP__VALIDITY_S?"), "{text}");
    let slips =
        ["ESTAFFETTE__OTP__VALIDITY_S", "ESTAFETE__DATA_DIR", "estafette_x", "ESTAFETTE__X"];
    let given = slips.map(|name| (name.to_owned(), String::new()));
    let others =
        ["ESTATE__X", "PATH", "ESTAFETTE_TEST_X"].map(|name| (name.to_owned(), String::new()));
    assert_eq!(strangers(&given), slips[..3], "the last is a setting that there is not");
    assert!(strangers(&others).is_empty());
    let text = fault(from_environment(&[("ESTAFETTE__", "1")]));
    assert_eq!(text, "the environment variable ESTAFETTE__ names no setting");
}
