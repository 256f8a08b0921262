//! What holds on every endpoint: problems, headers, limits, bodies, the pages that the service
//! itself serves.

use estafette::app::Env;
use estafette::config::Config;
use estafette::kit::item_code::ItemCode;
use estafette::kit::problem_code::Code;
use serde_json::json;

use crate::on_every_engine;
use crate::world::World;
use crate::world::contract::{CODES, ITEM_CODES, is_id};
use crate::world::tenant::phone;

on_every_engine!(
    an_unknown_path_is_told_from_an_unknown_object,
    a_wrong_method_lists_the_right_ones,
    faulty_bodies_are_refused,
    bodies_are_limited_to_256_kib,
    the_nul_character_is_refused_everywhere,
    a_path_that_cannot_be_read_is_said_to_be_malformed,
    what_stands_in_lists_is_one_line_that_says_something,
    a_wrong_content_type_is_refused,
    an_unacceptable_answer_is_refused,
    unknown_fields_are_refused_in_the_sandbox_and_ignored_on_live,
    unknown_query_parameters_are_refused_everywhere,
    every_answer_has_its_own_request_id,
    limits_are_shown_on_every_answer,
    every_code_has_a_page,
    the_service_says_how_it_is,
    the_reference_is_served with elsewhere,
    too_many_requests_wait with few_requests,
);

const BOTH: [Env; 2] = [Env::Live, Env::Sandbox];

#[test]
fn the_codes_are_those_of_the_contract() {
    let mut product: Vec<(u16, &str)> =
        Code::ALL.iter().map(|code| (code.status(), code.as_str())).collect();
    let mut contract: Vec<(u16, &str)> = vec![];
    for (status, codes) in CODES {
        contract.extend(codes.iter().map(|code| (*status, *code)));
    }
    product.sort_unstable();
    contract.sort_unstable();
    assert_eq!(product, contract);
}

#[test]
fn the_codes_of_items_are_those_of_the_contract() {
    let product: Vec<&str> = ItemCode::ALL.iter().map(|code| code.as_str()).collect();
    assert_eq!(product, ITEM_CODES);
}

/// The words that stand in the sources where a code of an item does.
fn words_of_items(source: &str) -> Vec<&str> {
    let calls = [".fault(", "Item::at(", "bad_request("];
    let mut found = vec![];
    for call in calls {
        for (at, _) in source.match_indices(call) {
            let arguments = source.get(at + call.len()..).unwrap_or_default();
            // The code is the second argument, and the first has no comma but in brackets.
            let mut depth = 0;
            let comma = arguments.find(|letter| {
                depth += i32::from("([{".contains(letter)) - i32::from(")]}".contains(letter));
                depth < 0 || (depth == 0 && letter == ',')
            });
            let code = comma.and_then(|comma| arguments.get(comma + 1..)).unwrap_or_default();
            let code = code.trim_start().strip_prefix('"');
            found.extend(code.and_then(|code| code.split('"').next()));
        }
    }
    found
}

#[test]
fn no_source_makes_up_a_code_of_an_item() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../service/src");
    let (mut folders, mut count) = (vec![folder], 0);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let source = std::fs::read_to_string(&path).unwrap();
                for word in words_of_items(&source) {
                    assert!(ITEM_CODES.contains(&word), "{word} in {}", path.display());
                    count += 1;
                }
            }
        }
    }
    assert!(count > 60, "{count} were found");
    assert_eq!(words_of_items("x.fault(\"a\", \"made_up\", \"b\")"), ["made_up"]);
    assert_eq!(words_of_items("Item::at(&format!(\"/{}\", a), \"b\", c)"), ["b"]);
}

async fn an_unknown_path_is_told_from_an_unknown_object(world: &World) {
    let ada = world.account("ada").await;
    for env in BOTH {
        for path in ["/v1/pigeons", "/nothing", "/v1", "/v1/otp/send/more", "/v2/me"] {
            world.get(env, path).await.problem("route_not_found");
        }
    }
    ada.get("/v1/otp/otp_01kdv00000000000000000000z").await.problem("not_found");
}

async fn a_wrong_method_lists_the_right_ones(world: &World) {
    let ada = world.account("ada").await;
    let cases = [
        ("GET", "/v1/otp/verify", "POST"),
        ("DELETE", "/v1/otp/send", "POST"),
        ("PUT", "/v1/me", "GET"),
        ("PATCH", "/v1/api-keys", "POST"),
        ("POST", "/livez", "GET"),
    ];
    for (method, path, allowed) in cases {
        let answer = ada.desk(method, path).await;
        if path == "/v1/otp/verify" && answer.status == 401 {
            // `GET /v1/otp/{challenge_id}` also has this form; it wants a key.
            continue;
        }
        let answer = answer.problem("method_not_allowed");
        let allow = answer.head("allow");
        assert!(allow.split(',').any(|word| word.trim() == allowed), "{path}: {allow}");
    }
    // A typo is found where the answer says what it was taken for.
    let answer = ada.desk("POST", "/v1/otp/sned").await.problem("method_not_allowed");
    let detail = answer.word("detail");
    assert!(detail.starts_with("`/v1/otp/{challenge_id}` takes GET only."), "{detail}");
    let answer = ada.desk("PUT", "/v1/api-keys").await.problem("method_not_allowed");
    let detail = answer.word("detail");
    assert!(detail.starts_with("`/v1/api-keys` takes GET and POST."), "{detail}");
}

async fn faulty_bodies_are_refused(world: &World) {
    let ada = world.account("ada").await;
    let send = |body: &'static [u8]| ada.call("POST", "/v1/otp/send").raw("application/json", body);
    for body in [&b"{"[..], b"nonsense", b"{\"to\": }", b"{\"to\":\"\xff\"}", b"{} {}"] {
        send(body).await.problem("invalid_json");
    }
    for body in [&b"[]"[..], b"7", b"\"text\"", b"null", b"true"] {
        send(body).await.problem("validation_failed");
    }
    for (body, pointer) in [
        (&br#"{"to": "+33612345678", "to": "+33612345679"}"#[..], "/to"),
        (br#"{"to": "+33612345678", "more": [{"a": 1, "\u0061": 1}]}"#, "/more/0/a"),
    ] {
        let refused = send(body).await.problem("invalid_json");
        assert_eq!(refused.item(pointer), Some("invalid_type".to_owned()), "{}", refused.text);
        assert!(refused.word("detail").contains(pointer), "{}", refused.text);
    }
    let deep = "[".repeat(100_000);
    let answer = ada.call("POST", "/v1/otp/send").raw("application/json", deep).await;
    answer.problem("invalid_json");
    send(b"").await.fault("/to", "required");
}

async fn bodies_are_limited_to_256_kib(world: &World) {
    let ada = world.account("ada").await;
    let body = |length: usize| {
        let mut body = br#"{"to":"+33612345678"}"#.to_vec();
        body.resize(length, b' ');
        body
    };
    let send = |body: Vec<u8>| ada.call("POST", "/v1/otp/send").raw("application/json", body);
    send(body(256 * 1024)).await.ok();
    send(body(256 * 1024 + 1)).await.problem("payload_too_large");
    send(body(2 * 1024 * 1024)).await.problem("payload_too_large");
    // Also one that means nothing.
    let read = ada.call("GET", "/v1/balance").raw("application/json", body(300 * 1024));
    read.await.problem("payload_too_large");
}

async fn what_stands_in_lists_is_one_line_that_says_something(world: &World) {
    let ada = world.account("ada").await;
    let name = |name: &str| ada.desk("POST", "/v1/api-keys").json(json!({"name": name}));
    let path = format!("/v1/admin/accounts/{}/credits", ada.account_id);
    let staff = world.staff().await;
    let reason = |reason: &str| {
        world.post(ada.env, &path).bearer(staff).json(json!({"amount": 1, "reason": reason}))
    };
    for (text, code) in [("", "too_short"), (" ", "too_short"), ("a\nb", "invalid_type")] {
        name(text).await.fault("/name", code);
        reason(text).await.fault("/reason", code);
    }
    name("the shop's").await.ok();
    reason("paid by transfer").await.ok();
}

async fn a_wrong_content_type_is_refused(world: &World) {
    let ada = world.account("ada").await;
    let body = r#"{"to":"+33612345678"}"#;
    for kind in ["text/plain", "application/x-www-form-urlencoded", "application/xml", "x"] {
        let answer = ada.call("POST", "/v1/otp/send").raw(kind, body).await;
        answer.problem("unsupported_media_type");
    }
    for kind in ["application/json", "application/json; charset=utf-8", "Application/JSON"] {
        ada.call("POST", "/v1/otp/send").raw(kind, body).await.ok();
    }
    // What does not exist has no type that would be right.
    for path in ["/v1/otp/send", "/v1/support/tickets/x/files"] {
        let answer = ada.call("PUT", path).raw("text/plain", body).await;
        answer.problem("method_not_allowed");
    }
    let answer = ada.call("POST", "/v1/nothing").raw("text/plain", body).await;
    answer.problem("route_not_found");
}

async fn an_unacceptable_answer_is_refused(world: &World) {
    let ada = world.account("ada").await;
    for accept in
        ["application/xml", "image/png", "text/csv, text/xml;q=0.5", "application/json;q=0"]
    {
        let answer = ada.desk("GET", "/v1/me").header("accept", accept).await;
        answer.problem("not_acceptable");
    }
    for accept in ["*/*", "application/*", "text/html, application/json;q=0.1", "application/json"]
    {
        ada.desk("GET", "/v1/me").header("accept", accept).await.ok();
    }
    ada.desk("GET", "/v1/me").header("accept", "application/problem+json, */*;q=0.1").await.ok();
}

async fn unknown_fields_are_refused_in_the_sandbox_and_ignored_on_live(world: &World) {
    let ada = world.account("ada").await;
    let live = ada.on_live().await;
    let body = json!({"name": "x", "nmae": "y", "a/b~c": 1});
    let strict = ada.desk("POST", "/v1/api-keys").json(&body).await.problem("validation_failed");
    assert_eq!(strict.item("/nmae").as_deref(), Some("unknown_field"));
    assert_eq!(strict.item("/a~1b~0c").as_deref(), Some("unknown_field"));
    live.desk("POST", "/v1/api-keys").json(&body).await.ok();
}

async fn unknown_query_parameters_are_refused_everywhere(world: &World) {
    let ada = world.account("ada").await;
    let live = ada.on_live().await;
    for tenant in [&ada, &live] {
        for path in ["/v1/me?x=1", "/v1/api-keys?x=1", "/v1/ledger?x=1&limit=2"] {
            let answer = tenant.desk("GET", path).await.problem("invalid_request");
            assert!(answer.item("?x").is_some(), "{path}: {}", answer.text);
        }
        let body = json!({"to": phone("5678")});
        for path in
            ["/v1/otp/send?debug=1", "/v1/chatapp/otp/send?debug=1", "/v1/otp/verify?debug="]
        {
            let answer = tenant.call("POST", path).json(&body).await;
            let answer = answer.problem("invalid_request");
            assert!(answer.item("?debug").is_some(), "{path}: {}", answer.text);
        }
        let read = tenant.get("/v1/otp/otp_01kdv00000000000000000000z?x=1").await;
        read.problem("invalid_request");
    }
    assert!(ada.handset(&phone("5678")).await.is_empty());
}

async fn every_answer_has_its_own_request_id(world: &World) {
    let ada = world.account("ada").await;
    let mut seen = std::collections::BTreeSet::new();
    for path in
        ["/livez", "/readyz", "/v1/me", "/v1/nothing", "/v1/openapi.json", "/errors/not_found"]
    {
        for _ in 0..2 {
            let answer = world.get(Env::Sandbox, path).await;
            let id = answer.head("x-request-id").to_owned();
            assert!(is_id("req", &id), "{path}: {id:?}");
            assert!(seen.insert(id), "{path}: not its own");
        }
    }
    let answer = ada.send_to(&phone("5678")).await.ok();
    assert!(is_id("req", answer.head("x-request-id")));
    let answer = world.delete(Env::Live, "/livez").await.problem("method_not_allowed");
    assert!(is_id("req", answer.head("x-request-id")));
}

async fn limits_are_shown_on_every_answer(world: &World) {
    let ada = world.account("ada").await;
    for answer in [
        ada.send_to(&phone("5678")).await,
        ada.send_to("12").await,
        ada.desk("GET", "/v1/me").await,
        ada.get("/v1/otp/otp_01kdv00000000000000000000z").await,
    ] {
        assert!(answer.head("ratelimit-policy").contains("q="), "{:?}", answer.headers);
        assert!(answer.head("ratelimit").contains("r="), "{:?}", answer.headers);
    }
}

fn few_requests(config: &mut Config) {
    config.limits.send_per_s = 1;
    config.limits.read_per_s = 50;
}

async fn too_many_requests_wait(world: &World) {
    let ada = world.account("ada").await;
    let mut refused = 0;
    for number in 0..6 {
        let answer = ada.send_to(&phone(&format!("560{number}"))).await;
        if answer.status == 429 {
            let answer = answer.problem("rate_limited");
            assert!(answer.head("ratelimit").contains("r=0"), "{:?}", answer.headers);
            refused += 1;
        } else {
            answer.ok();
        }
    }
    assert!((2..=4).contains(&refused), "a burst of two, then one each second: {refused}");
    // Reads have a budget of their own, and so has another key.
    ada.get("/v1/otp/otp_01kdv00000000000000000000z").await.problem("not_found");
    let other = ada.new_key("other", &["otp:send"]).await;
    let body = json!({"to": phone("5678")});
    world.post(Env::Sandbox, "/v1/otp/send").key(other.word("api_key")).json(body).await.ok();
}

async fn every_code_has_a_page(world: &World) {
    for code in Code::ALL {
        let page = world.get(Env::Sandbox, &format!("/errors/{}", code.as_str())).await.ok();
        assert!(page.head("content-type").starts_with("text/html"), "{}", code.as_str());
        assert!(page.text.contains(code.as_str()) && page.text.contains(code.title()));
        assert!(page.text.contains(&code.status().to_string()));
        assert!(!page.text.contains('`'), "Markdown: {}", page.text);
    }
    let page = world.get(Env::Sandbox, "/errors/rate_limited").await.ok();
    assert!(page.text.contains("<code>Retry-After</code>"), "{}", page.text);
    let all = world.get(Env::Live, "/errors").await.ok();
    assert_eq!(all.text.matches("href=\"/errors/").count(), Code::ALL.len());
    world.get(Env::Live, "/errors/not_found").await.ok();
    let unknown = world.get(Env::Sandbox, "/errors/pigeon").await;
    let detail = unknown.problem("not_found").word("detail").to_owned();
    assert!(detail.contains("`/errors` lists all"), "{detail}");
    // The address in `type` is one of these pages, on the address that was asked.
    for env in BOTH {
        let problem = world.get(env, "/v1/me").await.problem("missing_credentials");
        let kind = problem.word("type").to_owned();
        let path = kind.find("/errors/").map(|at| &kind[at..]).expect("a page");
        let server = &world.config().server;
        let base = if env == Env::Live { &server.live_url } else { &server.sandbox_url };
        assert_eq!(kind, format!("{base}{path}"), "an address of ours");
        world.get(env, path).await.ok();
    }
}

async fn the_service_says_how_it_is(world: &World) {
    let ada = world.account("ada").await;
    ada.send_to(&phone("5678")).await.ok();
    for env in BOTH {
        for path in ["/livez", "/readyz"] {
            world.get(env, path).await.ok();
        }
        world.get(env, "/metrics").await.problem("route_not_found");
    }
    let metrics = world.metrics().await.ok();
    assert!(metrics.text.contains("# TYPE") && metrics.text.contains("/v1/otp/send"));
    assert!(!metrics.text.contains("3361234"), "no phone numbers in labels");
    assert!(!metrics.text.contains(&ada.key));
}

/// Addresses that no guide has.
fn elsewhere(config: &mut Config) {
    "https://api.acme.example".clone_into(&mut config.server.live_url);
    "https://sandbox.acme.example".clone_into(&mut config.server.sandbox_url);
}

/// What stands around a word.
fn around<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    let at = text.find(word)?;
    let (from, to) = (text.floor_char_boundary(at.saturating_sub(80)), text.len().min(at + 80));
    text.get(from..text.floor_char_boundary(to))
}

async fn the_reference_is_served(world: &World) {
    for env in BOTH {
        let document = world.get(env, "/v1/openapi.json").await.ok();
        assert!(document.word("openapi").starts_with("3.1"), "{}", document.word("openapi"));
        let mut page = world.get(env, "/docs").await;
        if (300..400).contains(&page.status) {
            let target = page.head("location").to_owned();
            page = world.get(env, &target).await;
        }
        let page = page.ok();
        assert!(page.head("content-type").starts_with("text/html"));
        assert!(page.text.to_ascii_lowercase().contains("<html"));
        assert!(page.text.contains("<title>estafette API reference</title>"), "{}", page.text);
        assert!(page.head("content-security-policy").starts_with("default-src 'none'"));
        let front = world.get(env, "/").await;
        assert_eq!((front.status, front.head("location")), (307, "/docs/"));
        let shown = world.get(env, "/docs/openapi.json").await.ok();
        let tags = shown.body["tags"].as_array().unwrap();
        let guide = tags.iter().find(|tag| tag["name"] == "OTP").expect("passcodes");
        assert!(guide["description"].as_str().unwrap().contains("## "), "{guide}");
        // Nothing leads to files of the repository, or to what only an operator has.
        for trace in [".md", "docs/", "estafette audit", "[sms.carriers", "127.0.0.1:808"] {
            let around = around(&shown.text, trace);
            assert_eq!(around, None, "{env:?}");
        }
        // What may be left out of a query is left out of snippets.
        let status = shown.body.pointer("/paths/~1v1~1otp/get/parameters").unwrap();
        let status = status.as_array().unwrap().iter().find(|one| one["name"] == "status");
        assert_eq!(status.unwrap()["examples"]["unasked"]["x-disabled"], true);
        // What the guides do is done where this service is.
        let server = &world.config().server;
        assert!(shown.text.contains(&server.live_url) && shown.text.contains(&server.sandbox_url));
        let begin = shown.body["info"]["description"].as_str().unwrap();
        assert!(begin.starts_with("# First steps"), "{begin}");
        let script = world.get(env, "/docs/viewer.js").await.ok();
        assert_eq!(script.head("content-encoding"), "gzip");
        // Handsets are in the description of the address that has them.
        for document in [&document.body, &shown.body] {
            let has_handsets = document.to_string().contains("/v1/sandbox/handsets");
            let paths = document["paths"].as_object().unwrap();
            let is_listed = paths.keys().any(|path| path.starts_with("/v1/sandbox/"));
            assert_eq!(is_listed, env == Env::Sandbox, "{env:?}");
            assert!(has_handsets || env == Env::Live, "{env:?}");
        }
    }
}

async fn a_path_that_cannot_be_read_is_said_to_be_malformed(world: &World) {
    let ada = world.account("ada").await;
    ada.call("GET", "/v1/otp/%FF").await.problem("invalid_request");
    ada.call("POST", "/v1/otp/%FF/verified").await.problem("invalid_request");
    let reply = ada.call("POST", "/v1/sandbox/handsets/%FF/replies").json(json!({"text": "x"}));
    reply.await.problem("invalid_request");
    for path in ["/v1/webhooks/%FF/test", "/v1/support/tickets/%FF/messages"] {
        ada.desk("POST", path).json(json!({})).await.problem("invalid_request");
    }
    // Control: what can be read is nobody's.
    ada.call("GET", "/v1/otp/ff").await.problem("not_found");
}

/// PostgreSQL has no text with it: whatever lets it through answers 503 there.
async fn the_nul_character_is_refused_everywhere(world: &World) {
    let ada = world.account("ada").await;
    let to = phone("5678");
    for body in [
        json!({"to": "\0"}),
        json!({"to": to, "reference": "a\0b"}),
        json!({"to": to, "code": "\0"}),
        json!({"to": to, "delivery_mode": "\0"}),
        json!({"to": to, "template_language": "\0"}),
    ] {
        ada.send(body).await.problem("validation_failed");
    }
    for body in [
        json!({"challenge_id": "\0", "code": "123456"}),
        json!({"reference": "\0", "code": "123456"}),
        json!({"to": "\0", "code": "123456"}),
    ] {
        let answer = world.post(ada.env, "/v1/otp/verify").key(&ada.key).json(body).await;
        answer.problem("validation_failed");
    }
    let login = json!({"email": "a\0@example.com", "password": "correct horse battery"});
    for path in ["/v1/auth/login", "/v1/auth/signup"] {
        world.post(Env::Sandbox, path).json(&login).await.problem("validation_failed");
    }
    for (method, path) in [
        ("GET", "/v1/chatapp/templates/a%00b"),
        ("DELETE", "/v1/chatapp/templates/a%00b"),
        ("POST", "/v1/chatapp/templates/a%00b/sync"),
    ] {
        ada.call(method, path).await.problem("not_found");
    }
    let key = json!({"name": "a\0b", "scopes": ["\0"]});
    let key = world.post(ada.env, "/v1/api-keys").bearer(&ada.token).json(key);
    key.await.problem("validation_failed");
    let staff = world.staff().await;
    for path in [
        "/v1/admin/accounts?status=%00",
        "/v1/admin/accounts?email=a%00",
        "/v1/admin/audit-log?actor_id=%00",
        "/v1/admin/prices?country=%00",
        "/v1/admin/accounts?cursor=%00",
        "/v1/admin/accounts/%00",
    ] {
        let answer = world.get(Env::Live, path).bearer(staff).await;
        assert!((400..500).contains(&answer.status), "{path}: {}", answer.text);
    }
    // Nor is anything that is not UTF-8 read as something else.
    for path in ["/v1/otp?reference=%ff", "/v1/otp?reference=a%C3", "/v1/otp?%ff=1"] {
        ada.get(path).await.problem("invalid_request");
    }
    ada.get("/v1/otp?reference=%C3%A9").await.ok();
    let path = "/v1/sandbox/handsets/%00/messages";
    let answer = world.get(Env::Sandbox, path).key(&ada.key).await;
    assert!((400..500).contains(&answer.status), "{}", answer.text);
}
