//! Clients that ask for more than their share: of answers, and of requests.

use estafette::app::Env;
use futures_util::future::join_all;
use serde_json::json;
use tokio::net::TcpStream;

use super::wire::Raw;
use crate::world::tenant::{SCOPES, phone};
use crate::world::{Engine, World, eventually};

const LARGE: &str = "/docs/openapi.json";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_of_85_000_bad_values_gets_a_short_answer() {
    let world = World::new(Engine::Lite).await;
    let ada = world.account("ada").await;
    let send = |path: &str, body: String| ada.desk("POST", path).raw("application/json", body);
    let bad = vec!["{}"; 85_000].join(",");
    for (path, field) in [("/v1/webhooks", "events"), ("/v1/api-keys", "scopes")] {
        let body = format!("{{\"{field}\":[{bad}]}}");
        let answer = send(path, body).await.fault(&format!("/{field}"), "too_long");
        assert!(answer.text.len() < 2_000, "{} bytes", answer.text.len());
        let body = format!("{{\"{field}\":[{}]}}", vec!["0"; 51].join(","));
        send(path, body).await.fault(&format!("/{field}"), "too_long");
    }
    let names: Vec<String> = (0..900).map(|n| format!("\"{n}{}\":0", "x".repeat(250))).collect();
    let body = format!("{{\"url\":\"https://example.com/\",{}}}", names.join(","));
    let answer = send("/v1/webhooks", body).await.problem("validation_failed");
    assert_eq!(answer.field("errors").as_array().unwrap().len(), 20);
    let detail = answer.word("detail");
    assert!(detail.ends_with(" 900 fields are invalid; see `errors`."), "{detail}");
    assert!(answer.text.len() < 20_000, "{} bytes", answer.text.len());
    world.finish().await;
}

/// A connection whose client asks for the same again and again and takes no byte of the answers;
/// the statuses that it is told.
async fn ask_and_do_not_take(world: &World, times: u32) -> (Vec<u16>, impl Sized + use<>) {
    let tcp = TcpStream::connect(world.address(Env::Sandbox)).await.unwrap();
    let mut builder = h2::client::Builder::new();
    let (mut client, connection) =
        builder.initial_window_size(0).handshake::<_, axum::body::Bytes>(tcp).await.unwrap();
    let connection = tokio::spawn(connection);
    let mut answers = vec![];
    for _ in 0..times {
        let request = http::Request::get(format!("http://x{LARGE}")).body(()).unwrap();
        client = client.ready().await.unwrap();
        answers.push(client.send_request(request, true).unwrap().0);
    }
    let answers: Vec<_> = join_all(answers).await.into_iter().map(Result::unwrap).collect();
    let statuses = answers.iter().map(|answer| answer.status().as_u16()).collect();
    (statuses, (client, answers, AbortOnDrop(connection)))
}

struct AbortOnDrop<T>(tokio::task::JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_that_a_client_does_not_take_have_a_bound() {
    let world = World::new(Engine::Lite).await;
    let size = world.get(Env::Sandbox, LARGE).await.ok().text.len();
    let (statuses, greedy) = ask_and_do_not_take(&world, 60).await;
    let told = |status: u16| statuses.iter().filter(|told| **told == status).count();
    assert_eq!(told(200) + told(503), 60);
    let bytes = told(200) * size;
    let quarter = 16 * 1024 * 1024;
    assert!(bytes <= quarter && bytes > quarter - 2 * size, "{bytes} bytes are held");
    world.get(Env::Sandbox, LARGE).await.problem("overloaded");
    // Small answers, and what changes something, are not refused, and others have their own share.
    world.account("ada").await;
    let mut raw = Raw::from(&world, 66).await;
    raw.send(format!("GET {LARGE} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")).await;
    let (bytes, _) = raw.rest().await;
    assert!(bytes.starts_with(b"HTTP/1.1 200") && bytes.len() > size);
    drop(greedy);
    eventually(async || (world.get(Env::Sandbox, LARGE).await.status == 200).then_some(())).await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_keys_of_an_account_together_have_five_times_the_limit_of_one() {
    let world = World::with(Engine::Lite, |config| config.limits.send_per_s = 1).await;
    let (ada, eve) = (world.account("ada").await, world.account("eve").await);
    let mut keys = vec![];
    for number in 0..20 {
        keys.push(ada.new_key(&number.to_string(), &SCOPES).await.word("api_key").to_owned());
    }
    let send = async |key: &String| {
        let call = world.post(Env::Sandbox, "/v1/otp/send").key(key);
        call.json(json!({"to": phone("5678"), "delivery_mode": "sms"})).await
    };
    let answers = join_all(keys.iter().chain(&keys).map(send)).await;
    let (taken, refused): (Vec<_>, Vec<_>) = answers.into_iter().partition(|a| a.status == 200);
    assert!(taken.len() >= 10, "a burst of ten is taken: {}", taken.len());
    assert!(!refused.is_empty(), "twenty keys could send forty at once");
    for answer in refused {
        let answer = answer.problem("rate_limited");
        assert_eq!(answer.head("ratelimit-policy"), "\"account-send\";q=10;w=2");
    }
    eve.send_to(&phone("5678")).await.ok();
    world.finish().await;
}
