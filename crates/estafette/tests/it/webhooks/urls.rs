//! Which URLs are taken, with the settings that a deployment has.

use estafette::events::Kind;
use playground::NameServer;
use serde_json::json;

use super::{ada, happen, log};
use crate::world::{Engine, World, eventually};

async fn strict(dns_server: String) -> World {
    World::with(Engine::Lite, |config| {
        config.webhooks.allow_http = false;
        config.webhooks.allow_networks = vec![];
        config.webhooks.dns_server = dns_server;
    })
    .await
}

#[tokio::test]
async fn urls_into_the_operators_network_are_refused() {
    let names = NameServer::start(|name| match name {
        "inside.test" => Some(vec!["10.0.0.7".parse().unwrap()]),
        "both.test" => Some(vec!["93.184.216.34".parse().unwrap(), "::1".parse().unwrap()]),
        "public.test" => Some(vec!["93.184.216.34".parse().unwrap()]),
        _ => None,
    })
    .await
    .unwrap();
    let world = strict(names.address().to_string()).await;
    let ada = ada(&world).await;
    let made = ada.desk("POST", "/v1/webhooks").json(json!({"url": "https://public.test/"})).await;
    let path = format!("/v1/webhooks/{}", made.ok().word("id"));
    for url in [
        "http://public.test/",
        "https://127.0.0.1/",
        "https://2130706433/",
        "https://0x7f.1/",
        "https://[::1]/",
        "https://[::ffff:169.254.169.254]/",
        "https://169.254.169.254/latest/meta-data/",
        "https://localhost/",
        "https://inside.test/",
        "https://both.test/",
        "https://user:password@public.test/",
        "https://public.test:25/",
        "https://public.test/#fragment",
        "ftp://public.test/",
    ] {
        let body = json!({"url": url});
        let refused = ada.desk("POST", "/v1/webhooks").json(&body).await;
        refused.problem("webhook_url_not_allowed");
        let refused = ada.desk("PATCH", &path).json(&body).await;
        refused.problem("webhook_url_not_allowed");
    }
    let told = async |url: &str| {
        let refused = ada.desk("POST", "/v1/webhooks").json(json!({"url": url})).await;
        refused.problem("webhook_url_not_allowed").word("detail").to_owned()
    };
    let inside = told("https://inside.test/").await;
    assert_eq!(told("https://both.test/").await, inside, "what a name leads to is not told");
    // What helps nobody is not advised.
    assert!(told("https://169.254.169.254/").await.contains("no setting opens this one"));
    // On a laptop both switches are needed; whoever is told one of them is refused again.
    for url in ["http://localhost:9099/", "http://127.0.0.1:9099/", "http://[::1]:9099/"] {
        let detail = told(url).await;
        for switch in ["allow_http = true", "allow_networks = [\"127.0.0.0/8\", \"::1/128\"]"] {
            assert!(detail.contains(switch), "{url}: {detail}");
        }
    }
    // Of what says by itself where it leads, the value is named.
    for (url, networks) in [
        ("https://localhost/", "[\"127.0.0.0/8\", \"::1/128\"]"),
        ("https://10.0.0.1/", "[\"10.0.0.1/32\"]"),
        ("https://[fd00::1]/", "[\"fd00::1/128\"]"),
    ] {
        let detail = told(url).await;
        assert!(detail.contains(&format!("allow_networks = {networks}")), "{url}: {detail}");
    }
    let other = told("ftp://example.com/").await;
    assert!(other.contains("https://") && !other.contains("http://"), "{other}");
    assert!(inside.contains("name its network in webhooks.allow_networks"), "{inside}");
    // Whether a name exists is looked at when it is called.
    ada.desk("POST", "/v1/webhooks").json(json!({"url": "https://new.test/"})).await.ok();
    world.finish().await;
}

#[tokio::test]
async fn a_name_that_moves_inside_is_refused_at_the_next_try() {
    let calls = std::sync::atomic::AtomicUsize::new(0);
    let names = NameServer::start(move |_| {
        let is_first = calls.fetch_add(1, std::sync::atomic::Ordering::SeqCst) < 2;
        Some(vec![if is_first { "93.184.216.34" } else { "127.0.0.1" }.parse().unwrap()])
    })
    .await
    .unwrap();
    let world = strict(names.address().to_string()).await;
    let ada = ada(&world).await;
    let body = json!({"url": "https://moving.test:9999/", "events": ["*"]});
    let hook = ada.desk("POST", "/v1/webhooks").json(body).await.ok();
    happen(&ada, Kind::SmsDelivery, 1).await;
    let tried = eventually(|| async {
        log(&ada, &hook).await.into_iter().find(|delivery| delivery["attempt_count"] == 1)
    })
    .await;
    assert_eq!(tried["attempts"][0]["error"], "address_not_allowed");
    assert_eq!(tried["attempts"][0]["detail"], "the host is not public");
    assert_eq!(tried["attempts"][0]["status"], json!(null));
    assert_eq!(tried["status"], "pending");
    world.finish().await;
}

#[tokio::test]
async fn networks_that_are_open_open_no_other_names() {
    let names = NameServer::start(|name| match name {
        "receiver.internal" => Some(vec!["10.0.0.7".parse().unwrap()]),
        "elsewhere.internal" | "metadata.google.internal" | "public.test" => {
            Some(vec!["93.184.216.34".parse().unwrap()])
        }
        "instance-data.ec2.internal" | "metadata.goog" => Some(vec!["10.0.0.8".parse().unwrap()]),
        "link.test" => Some(vec!["169.254.169.254".parse().unwrap()]),
        _ => None,
    })
    .await
    .unwrap();
    let server = names.address().to_string();
    let world = World::with(Engine::Lite, |config| {
        config.webhooks.allow_networks = vec!["10.0.0.0/8".to_owned(), "169.254.0.0/16".to_owned()];
        config.webhooks.dns_server = server;
    })
    .await;
    let ada = ada(&world).await;
    let made = async |url: &str| ada.desk("POST", "/v1/webhooks").json(json!({"url": url})).await;
    for url in ["https://receiver.internal/", "https://10.0.0.7/", "https://public.test/"] {
        made(url).await.ok();
    }
    for url in [
        "https://elsewhere.internal/",
        "https://metadata.google.internal/computeMetadata/v1/",
        "https://METADATA.google.internal./",
        "https://metadata.goog/",
        "https://instance-data.ec2.internal/latest/",
        "https://link.test/",
        "https://169.254.169.254/",
        "https://localhost/",
    ] {
        made(url).await.problem("webhook_url_not_allowed");
    }
    world.finish().await;
}
