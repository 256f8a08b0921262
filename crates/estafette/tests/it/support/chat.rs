//! Live chat from outside: both sockets of a ticket, what they carry, how they end, and how nothing
//! is lost between two of them.

use std::net::SocketAddr;
use std::time::Duration;

use estafette::app::Env;
use estafette::config::Config;
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{Bytes, Message};
use tokio_tungstenite::{WebSocketStream, client_async};

use super::{answer, change, each, messages, open, staff, write};
use crate::on_every_engine;
use crate::world::tenant::Tenant;
use crate::world::{Engine, World, eventually};

on_every_engine!(
    both_sides_talk_and_notes_stay_with_staff,
    a_reconnect_loses_nothing_and_keeps_the_order,
    other_frames_come_only_when_asked_for,
    errors_are_close_codes with impatient,
    a_one_use_token_opens_one_socket,
    a_stop_tells_all_to_come_again,
    who_sends_too_much_is_closed with few_sockets,
);

const PATIENCE: Duration = Duration::from_secs(20);

/// One end of a socket.
pub struct Socket {
    ws: WebSocketStream<TcpStream>,
}

/// What came next.
#[derive(Debug, PartialEq)]
pub enum Next {
    Frame(Value),
    Closed(u16),
    Gone,
}

impl Socket {
    pub async fn open(
        address: SocketAddr,
        path: &str,
        origin: Option<&str>,
    ) -> Result<Self, String> {
        let headers: Vec<_> = origin.map(|origin| ("origin", origin)).into_iter().collect();
        Self::open_as(address, path, &headers).await
    }

    /// With other headers.
    pub async fn open_as(
        address: SocketAddr,
        path: &str,
        headers: &[(&'static str, &str)],
    ) -> Result<Self, String> {
        let mut request = format!("ws://{address}{path}").into_client_request().unwrap();
        for (name, value) in headers {
            request.headers_mut().insert(*name, value.parse().unwrap());
        }
        let stream = TcpStream::connect(address).await.unwrap();
        match client_async(request, stream).await {
            Ok((ws, _)) => Ok(Self { ws }),
            Err(error) => Err(error.to_string()),
        }
    }

    /// The user's side.
    pub async fn user(ada: &Tenant<'_>, ticket: &str, token: &str, more: &str) -> Self {
        let path = format!("/v1/support/tickets/{ticket}/ws?token={token}{more}");
        Self::open(ada.world.address(ada.env), &path, None).await.unwrap()
    }

    /// The staff's side.
    pub async fn staff(world: &World, ticket: &str, more: &str) -> Self {
        let token = world.staff().await;
        let path = format!("/v1/admin/support/tickets/{ticket}/ws?token={token}{more}");
        Self::open(world.address(Env::Live), &path, None).await.unwrap()
    }

    pub async fn send(&mut self, frame: Value) {
        self.ws.send(Message::text(frame.to_string())).await.unwrap();
    }

    /// The next frame, or how it ended.
    pub async fn next(&mut self) -> Next {
        loop {
            let next = timeout(PATIENCE, self.ws.next()).await.expect("something comes");
            return match next {
                Some(Ok(Message::Text(text))) => Next::Frame(serde_json::from_str(&text).unwrap()),
                Some(Ok(Message::Close(Some(frame)))) => {
                    assert!(is_sentence(&frame.reason), "{frame:?}");
                    Next::Closed(frame.code.into())
                }
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => continue,
                Some(Ok(_) | Err(_)) | None => Next::Gone,
            };
        }
    }

    pub async fn frame(&mut self) -> Value {
        match self.next().await {
            Next::Frame(frame) => frame,
            other => panic!("no frame: {other:?}"),
        }
    }

    /// The text of the next message.
    pub async fn said(&mut self) -> String {
        let frame = self.frame().await;
        assert_eq!(frame["type"], "message", "{frame}");
        frame["message"]["message"].as_str().unwrap().to_owned()
    }

    /// Whether nothing comes for a while.
    pub async fn is_quiet(&mut self) -> bool {
        let mut next = std::pin::pin!(self.next());
        timeout(Duration::from_millis(300), &mut next).await.is_err()
    }
}

/// What is said with a close is read by people.
fn is_sentence(reason: &str) -> bool {
    reason.starts_with(char::is_uppercase) && reason.ends_with('.')
}

async fn both_sides_talk_and_notes_stay_with_staff(world: &World) {
    let ada = world.account("ada").await;
    let id = open(&ada, "a", "first").await;
    let mut user = Socket::user(&ada, &id, &ada.token, "").await;
    let mut other = Socket::user(&ada, &id, &ada.token, "").await;
    let mut staff = Socket::staff(world, &id, "").await;
    user.send(json!({"message": "from the user"})).await;
    let frame = user.frame().await;
    assert_eq!((&frame["type"], &frame["ticket_id"]), (&json!("message"), &json!(id)));
    let message = &frame["message"];
    assert_eq!((&message["sender_type"], &message["seq"]), (&json!("user"), &json!(2)));
    assert_eq!(
        (other.said().await, staff.said().await),
        ("from the user".into(), "from the user".into())
    );
    staff.send(json!({"message": "hidden", "internal": true})).await;
    staff.send(json!({"message": "from staff"})).await;
    let note = staff.frame().await;
    assert_eq!((&note["message"]["internal"], &note["message"]["seq"]), (&json!(true), &json!(3)));
    let frame = user.frame().await;
    assert_eq!(frame["message"]["message"], "from staff");
    assert!(!frame.to_string().contains("sender_id") && !frame.to_string().contains("internal"));
    // A user cannot make notes, and what they take for one does not become public.
    assert_eq!(staff.said().await, "from staff");
    assert_eq!(other.said().await, "from staff");
    other.send(json!({"message": "trick", "internal": true})).await;
    assert_eq!(other.next().await, Next::Closed(1008));
    // What is written over HTTP comes, too.
    answer(world, &id, json!({"message": "by HTTP"})).await.ok();
    assert_eq!((user.said().await, staff.said().await), ("by HTTP".into(), "by HTTP".into()));
    answer(world, &id, json!({"message": "hidden by HTTP", "internal": true})).await.ok();
    assert_eq!(staff.said().await, "hidden by HTTP");
    assert!(user.is_quiet().await);
    assert_eq!(each(&messages(&ada, &id).await, "seq"), [1, 2, 4, 5]);
    let mut replayed = Socket::user(&ada, &id, &ada.token, "&since=0").await;
    for text in ["first", "from the user", "from staff", "by HTTP"] {
        assert_eq!(replayed.said().await, text);
    }
    assert!(replayed.is_quiet().await, "no note is replayed");
}

async fn a_reconnect_loses_nothing_and_keeps_the_order(world: &World) {
    let ada = world.account("ada").await;
    let id = open(&ada, "a", "0").await;
    let mut user = Socket::user(&ada, &id, &ada.token, "").await;
    answer(world, &id, json!({"message": "1"})).await.ok();
    assert_eq!(user.frame().await["message"]["seq"], 2);
    drop(user);
    for number in 2..230 {
        write(&ada, &id, &number.to_string()).await.ok();
    }
    // One writes on while the other comes back.
    let writing = async {
        for number in 230..260 {
            answer(world, &id, json!({"message": number.to_string()})).await.ok();
        }
    };
    let reading = async {
        let mut user = Socket::user(&ada, &id, &ada.token, "&since=2").await;
        for seq in 3..=260 {
            let frame = user.frame().await;
            assert_eq!(
                (&frame["message"]["seq"], frame["message"]["message"].as_str()),
                (&json!(seq), Some(&*(seq - 1).to_string()))
            );
        }
        user
    };
    let ((), mut user) = tokio::join!(writing, reading);
    assert!(user.is_quiet().await, "none comes twice");
    let mut asking = Socket::user(&ada, &id, &ada.token, "&since=0&features=resync").await;
    for seq in 1..=200 {
        assert_eq!(asking.frame().await["message"]["seq"], seq);
    }
    let resync = asking.frame().await;
    assert_eq!((&resync["type"], &resync["last_seq"]), (&json!("resync"), &json!(260)));
    write(&ada, &id, "live again").await.ok();
    assert_eq!(asking.said().await, "live again");
    // A repeat over a new socket is no second message.
    user.send(json!({"message": "once", "client_message_id": "c"})).await;
    assert_eq!(user.said().await, "live again");
    assert_eq!(user.said().await, "once");
    user.send(json!({"message": "once", "client_message_id": "c"})).await;
    assert!(user.is_quiet().await);
}

async fn other_frames_come_only_when_asked_for(world: &World) {
    let ada = world.account("ada").await;
    let id = open(&ada, "a", "m").await;
    let all = "&features=ack,typing,read,presence,status,error";
    let mut plain = Socket::user(&ada, &id, &ada.token, "").await;
    let mut user = Socket::user(&ada, &id, &ada.token, all).await;
    assert_eq!(user.frame().await["type"], "presence");
    let mut admin = Socket::staff(world, &id, all).await;
    let there = json!({"type": "presence", "ticket_id": id, "user": true, "admin": true});
    assert_eq!((user.frame().await, admin.frame().await), (there.clone(), there));
    user.send(json!({"message": "m", "client_message_id": "c-1"})).await;
    let (one, two) = (user.frame().await, user.frame().await);
    let (ack, message) = if one["type"] == "ack" { (one, two) } else { (two, one) };
    assert_eq!((&ack["client_message_id"], &ack["duplicate"]), (&json!("c-1"), &json!(false)));
    assert_eq!((&ack["seq"], &ack["id"]), (&json!(2), &message["message"]["id"]));
    user.send(json!({"message": "m", "client_message_id": "c-1"})).await;
    let again = user.frame().await;
    assert_eq!((&again["type"], &again["duplicate"]), (&json!("ack"), &json!(true)));
    assert_eq!(admin.frame().await["type"], "message");
    admin.send(json!({"type": "typing"})).await;
    assert_eq!(
        user.frame().await,
        json!({"type": "typing", "ticket_id": id, "sender_type": "admin"})
    );
    assert_eq!(admin.frame().await["type"], "typing");
    admin.send(json!({"type": "read", "seq": 2})).await;
    let read = user.frame().await;
    assert_eq!(
        (&read["type"], &read["seq"], &read["sender_type"]),
        (&json!("read"), &json!(2), &json!("admin"))
    );
    assert_eq!(admin.frame().await["type"], "read");
    change(world, &id, json!({"status": "pending"})).await.ok();
    let status = user.frame().await;
    assert_eq!((&status["type"], &status["status"]), (&json!("status"), &json!("pending")));
    for nonsense in [json!({}), json!({"message": 5}), json!({"type": "dance"})] {
        user.send(nonsense).await;
        let error = user.frame().await;
        assert_eq!(
            (&error["type"], &error["code"]),
            (&json!("error"), &json!("validation_failed"))
        );
    }
    change(world, &id, json!({"status": "closed"})).await.ok();
    assert_eq!(user.frame().await["status"], "closed");
    user.send(json!({"message": "too late", "client_message_id": "c-2"})).await;
    let error = user.frame().await;
    assert_eq!(
        (&error["code"], &error["client_message_id"]),
        (&json!("ticket_closed"), &json!("c-2"))
    );
    assert_eq!(plain.said().await, "m");
    assert!(plain.is_quiet().await, "a plain client gets messages only");
    drop(admin);
    let gone = json!({"type": "presence", "ticket_id": id, "user": true, "admin": false});
    assert_eq!(user.frame().await, gone);
}

fn impatient(config: &mut Config) {
    config.support.ping_s = 1;
}

async fn errors_are_close_codes(world: &World) {
    let (ada, eve) = (world.account("ada").await, world.account("eve").await);
    let id = open(&ada, "a", "m").await;
    let staff_token = world.staff().await.to_owned();
    let ends = async |ada: &Tenant<'_>, token: &str, ticket: &str| {
        Socket::user(ada, ticket, token, "").await.next().await
    };
    let wrong = format!("{}x", ada.token);
    for token in ["", "nonsense", &wrong, &staff_token, &ada.key] {
        assert_eq!(ends(&ada, token, &id).await, Next::Closed(4401), "{token}");
    }
    for ticket in ["tkt_01kdv00000000000000000000z", "nonsense"] {
        assert_eq!(ends(&ada, &wrong, ticket).await, Next::Closed(4401), "who it is comes first");
    }
    for ticket in [id.as_str(), "tkt_01kdv00000000000000000000z", "nonsense"] {
        assert_eq!(ends(&eve, &eve.token, ticket).await, Next::Closed(4404));
    }
    let live = ada.on_live().await;
    assert_eq!(ends(&live, &live.token, &id).await, Next::Closed(4404), "another account");
    let path = format!("/v1/support/tickets/{id}/ws?token={}", ada.token);
    let address = world.address(ada.env);
    let with = async |origin: &str| {
        let mut socket = Socket::open(address, &path, Some(origin)).await.unwrap();
        socket.is_quiet().await
    };
    for origin in ["https://evil.example", "null", "http://127.0.0.1:1", "http://evil.example:8081"]
    {
        let mut socket = Socket::open(address, &path, Some(origin)).await.unwrap();
        assert_eq!(socket.next().await, Next::Closed(4403), "{origin}");
    }
    assert!(with(&format!("http://{address}")).await);
    assert!(with(&world.config().server.sandbox_url).await);
    let mut socket = Socket::user(&ada, &id, &ada.token, "").await;
    socket.ws.send(Message::Binary(Bytes::from_static(b"x"))).await.unwrap();
    assert_eq!(socket.next().await, Next::Closed(1003));
    for nonsense in ["", "hi", "{}", "[]", r#"{"message": 1}"#] {
        let mut socket = Socket::user(&ada, &id, &ada.token, "").await;
        socket.ws.send(Message::text(nonsense)).await.unwrap();
        assert_eq!(socket.next().await, Next::Closed(1008), "{nonsense}");
    }
    let mut socket = Socket::user(&ada, &id, &ada.token, "").await;
    socket.ws.send(Message::text("x".repeat(140_000))).await.unwrap();
    assert_eq!(socket.next().await, Next::Closed(1009));
    for query in ["&since=-1", "&since=x", "&features=magic", "&x=1"] {
        let path = format!("{path}{query}");
        let refused = Socket::open(address, &path, None).await.err().expect("no upgrade");
        assert!(refused.contains("400"), "{query}: {refused}");
    }
    ada.desk("GET", &format!("/v1/support/tickets/{id}/ws")).await.problem("invalid_request");
    // A token that ends while the socket is open ends the socket.
    let mut socket = Socket::user(&ada, &id, &ada.token, "").await;
    assert!(socket.is_quiet().await);
    assert_eq!(ada.desk("POST", "/v1/auth/logout").await.status / 100, 2);
    assert_eq!(socket.next().await, Next::Closed(4401));
}

/// A one-use token of the user's side.
pub async fn one_use(ada: &Tenant<'_>, ticket: &str) -> String {
    let path = format!("/v1/support/tickets/{ticket}/ws-token");
    ada.desk("POST", &path).await.ok().word("token").to_owned()
}

async fn a_one_use_token_opens_one_socket(world: &World) {
    let (ada, eve) = (world.account("ada").await, world.account("eve").await);
    let (id, other) = (open(&ada, "a", "m").await, open(&ada, "b", "m").await);
    let token = one_use(&ada, &id).await;
    assert_eq!(Socket::user(&ada, &other, &token, "").await.next().await, Next::Closed(4401));
    let mut socket = Socket::user(&ada, &id, &token, "&since=0").await;
    assert_eq!(socket.said().await, "m");
    assert_eq!(Socket::user(&ada, &id, &token, "").await.next().await, Next::Closed(4401), "once");
    let late = one_use(&ada, &id).await;
    world.stand_still_for(31_000).await;
    assert_eq!(Socket::user(&ada, &id, &late, "").await.next().await, Next::Closed(4401));
    let path = format!("/v1/support/tickets/{id}/ws-token");
    eve.desk("POST", &path).await.problem("not_found");
    ada.desk("POST", &path).raw("application/json", "{").await.problem("invalid_json");
    ada.desk("POST", &path).json(json!({"a": 1})).await.fault("/a", "unknown_field");
    let path = format!("/support/tickets/{id}/ws-token");
    let of_staff = staff(world, "POST", &path).await.await.ok();
    let of_staff = of_staff.word("token");
    assert_eq!(Socket::user(&ada, &id, of_staff, "").await.next().await, Next::Closed(4401));
    let path = format!("/v1/admin/support/tickets/{id}/ws?token={of_staff}&since=0");
    let mut admin = Socket::open(world.address(Env::Live), &path, None).await;
    // The token was spent on the wrong side only if it was one of that side.
    assert_eq!(admin.as_mut().unwrap().said().await, "m");
    assert!(socket.is_quiet().await);
}

async fn a_stop_tells_all_to_come_again(world: &World) {
    let ada = world.account("ada").await;
    let id = open(&ada, "a", "m").await;
    let mut sockets = vec![];
    for _ in 0..5 {
        sockets.push(Socket::user(&ada, &id, &ada.token, "").await);
    }
    world.restart().await;
    for socket in &mut sockets {
        assert_eq!(socket.next().await, Next::Closed(1012));
    }
    answer(world, &id, json!({"message": "after"})).await.ok();
    let mut again = Socket::user(&ada, &id, &ada.token, "&since=1").await;
    assert_eq!(again.said().await, "after");
}

fn few_sockets(config: &mut Config) {
    config.support.sockets_per_person = 3;
}

async fn who_sends_too_much_is_closed(world: &World) {
    let (ada, eve) = (world.account("ada").await, world.account("eve").await);
    let (id, other) = (open(&ada, "a", "m").await, open(&ada, "b", "m").await);
    let mut open_still = vec![];
    for ticket in [&id, &id, &other] {
        open_still.push(Socket::user(&ada, ticket, &ada.token, "").await);
    }
    assert!(open_still[2].is_quiet().await);
    assert_eq!(Socket::user(&ada, &id, &ada.token, "").await.next().await, Next::Closed(4429));
    let of_eve = open(&eve, "a", "m").await;
    assert!(Socket::user(&eve, &of_eve, &eve.token, "").await.is_quiet().await, "others may");
    drop(open_still);
    let mut socket = eventually(async || {
        let mut socket = Socket::user(&ada, &id, &ada.token, "").await;
        if socket.is_quiet().await { Some(socket) } else { None }
    })
    .await;
    for number in 0..40 {
        // It may be closed before all are sent.
        let _closed =
            socket.ws.send(Message::text(json!({"message": number.to_string()}).to_string())).await;
    }
    let mut seen = 0;
    let ending = loop {
        match socket.next().await {
            Next::Frame(_) => seen += 1,
            ending => break ending,
        }
    };
    assert_eq!(ending, Next::Closed(4429));
    assert!(seen <= 30, "{seen}");
    let kept = messages(&ada, &id).await.len();
    assert!((21..=35).contains(&kept), "those before the bound are kept: {kept}");
}

/// A client that does not read is ended, and what it missed is there when it comes again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_reader_is_ended_and_delays_nobody() {
    let world = World::new(Engine::Lite).await;
    let ada = world.account("ada").await;
    let id = open(&ada, "a", "m").await;
    let slow = Socket::user(&ada, &id, &ada.token, "").await;
    let mut quick = Socket::user(&ada, &id, &ada.token, "").await;
    let text = "ü".repeat(10_000);
    let count = 600;
    let writing = async {
        for _ in 0..count {
            answer(&world, &id, json!({"message": text})).await.ok();
        }
    };
    let reading = async {
        for seq in 0..count {
            assert_eq!(quick.frame().await["message"]["seq"], seq + 2);
        }
    };
    tokio::join!(writing, reading);
    let mut slow = slow;
    let mut seen = 0;
    let ending = loop {
        match slow.next().await {
            Next::Frame(_) => seen += 1,
            ending => break ending,
        }
    };
    assert!(seen < count, "it was ended before it had all");
    assert!([Next::Closed(4408), Next::Gone].contains(&ending), "{ending:?}");
    let mut again = Socket::user(&ada, &id, &ada.token, &format!("&since={}", seen + 1)).await;
    for seq in seen + 2..=count + 1 {
        assert_eq!(again.frame().await["message"]["seq"], seq);
    }
    world.finish().await;
}
