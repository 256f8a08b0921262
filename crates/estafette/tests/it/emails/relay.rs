//! Live email through a relay: what it takes, puts off, refuses and loses.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use clock::{HOUR, MINUTE};
use estafette::carriers::Carriers;
use estafette::carriers::smtp::Relay;
use estafette::config::{BadRelay, Config};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use super::{read, send, until};
use crate::on_every_engine;
use crate::world::tenant::Tenant;
use crate::world::{World, eventually};

on_every_engine!(
    a_relay_gets_an_email_as_it_was_written with shared,
    what_a_relay_puts_off_goes_to_it_again with shared,
    what_a_relay_refuses_is_told_and_free with shared,
    after_the_final_dot_it_goes_once_more with shared,
    a_second_copy_that_is_refused_leaves_the_first_sent with shared,
    the_bulk_of_one_account_does_not_delay_the_mail_of_another with shared,
);

pub fn shared(config: &mut Config) {
    "mail.example".clone_into(&mut config.email.shared_domain);
}

/// A relay whose answers follow the local part of the recipient, and what it took.
#[derive(Clone)]
pub struct Mx {
    taken: Arc<Mutex<Vec<(String, String)>>>,
    tries: Arc<Mutex<HashMap<String, u32>>>,
    return_paths: Arc<Mutex<Vec<String>>>,
    hanging: Arc<Mutex<usize>>,
    /// Has a permit for each message to `slow…@` that may be answered.
    answers: Arc<Semaphore>,
}

impl Mx {
    pub async fn start() -> (Self, String) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("smtp://{}", listener.local_addr().unwrap());
        let mx = Self {
            taken: Arc::default(),
            tries: Arc::default(),
            return_paths: Arc::default(),
            hanging: Arc::default(),
            answers: Arc::new(Semaphore::new(0)),
        };
        let server = mx.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let server = server.clone();
                tokio::spawn(async move { server.serve(stream).await });
            }
        });
        (mx, url)
    }

    fn is_first(&self, to: &str) -> bool {
        let mut tries = self.tries.lock().unwrap();
        let tries = tries.entry(to.to_owned()).or_default();
        *tries += 1;
        *tries == 1
    }

    /// How often it was asked to take something for this recipient, where it counts that.
    fn tries(&self, to: &str) -> u32 {
        self.tries.lock().unwrap().get(to).copied().unwrap_or_default()
    }

    /// `None` = the connection ends.
    async fn serve(&self, stream: TcpStream) -> Option<()> {
        let mut stream = BufReader::new(stream);
        stream.write_all(b"220 mx\r\n").await.ok()?;
        let mut to = String::new();
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line).await.ok()? == 0 {
                return None;
            }
            let word = line.get(..4).unwrap_or_default().to_ascii_uppercase();
            let answer = match word.as_str() {
                "EHLO" => "250-mx\r\n250 SIZE 1000000\r\n",
                // RFC 5321 §4.1.1.2: an address and nothing else.
                "MAIL" => {
                    let path = line.trim().strip_prefix("MAIL FROM:<");
                    match path.and_then(|path| path.strip_suffix('>')) {
                        Some(path) if path.contains('@') => {
                            self.return_paths.lock().unwrap().push(path.to_owned());
                            "250 ok\r\n"
                        }
                        _ => "501 5.5.4 syntax\r\n",
                    }
                }
                "RCPT" => {
                    to = line
                        .trim()
                        .trim_start_matches("RCPT TO:<")
                        .trim_end_matches('>')
                        .to_owned();
                    match to.split('@').next().unwrap_or_default() {
                        "hangup" if self.is_first(&to) => return None,
                        "hang" if self.is_first(&to) => std::future::pending().await,
                        "endless" if self.is_first(&to) => "250-still\r\n".repeat(70).leak(),
                        "surplus" if self.is_first(&to) => "250 ok\r\n550 5.1.1 nobody\r\n",
                        "nobody" => "550 5.1.1 <nobody@example.org>: no such user\r\n",
                        "policy" => "554 5.7.1 not wanted\r\n",
                        "lost.later" if !self.is_first(&to) => "451 4.7.1 come back later\r\n",
                        "lost.never" if !self.is_first(&to) => "550 5.1.1 no such user\r\n",
                        "grey" if self.is_first(&to) => "451 4.7.1 come back later\r\n",
                        _ => "250 ok\r\n",
                    }
                }
                "DATA" => {
                    stream.write_all(b"354 go\r\n").await.ok()?;
                    let mut message = String::new();
                    if to.starts_with("cut") && self.is_first(&to) {
                        stream.read_line(&mut message).await.ok()?;
                        return None;
                    }
                    while !message.ends_with("\r\n.\r\n") {
                        if stream.read_line(&mut message).await.ok()? == 0 {
                            return None;
                        }
                    }
                    self.taken.lock().unwrap().push((to.clone(), message));
                    if to.starts_with("slow") {
                        *self.hanging.lock().unwrap() += 1;
                        self.answers.acquire().await.ok()?.forget();
                        *self.hanging.lock().unwrap() -= 1;
                    }
                    if to.starts_with("lost.") || to.starts_with("lost@") && self.is_first(&to) {
                        return None;
                    }
                    "250 2.0.0 queued\r\n"
                }
                "QUIT" => return None,
                _ => "250 ok\r\n",
            };
            stream.write_all(answer.as_bytes()).await.ok()?;
        }
    }

    /// The senders that envelopes named.
    pub fn return_paths(&self) -> Vec<String> {
        self.return_paths.lock().unwrap().clone()
    }

    pub fn taken(&self) -> Vec<(String, String)> {
        self.taken.lock().unwrap().clone()
    }
}

pub async fn with_relay(world: &World) -> (Mx, Tenant<'_>) {
    (give_relay(world).await, world.live_account("ada", 100).await)
}

pub async fn give_relay(world: &World) -> Mx {
    let (mx, url) = Mx::start().await;
    world
        .give_live(Box::new(move |_, _| {
            let relay: Result<Relay, BadRelay> = Relay::new(&url, "estafette.example");
            Carriers::none().with_email(Arc::new(relay.unwrap()))
        }))
        .await;
    mx
}

pub fn mail(to: &str) -> Value {
    json!({"to": [to], "from_email": "Shop <shop@mail.example>", "subject": "Your order",
        "text": "It arrives today.\n.\nBye"})
}

async fn a_relay_gets_an_email_as_it_was_written(world: &World) {
    let (mx, ada) = with_relay(world).await;
    let mut body = mail("ada@example.org");
    body["bcc"] = json!(["secret@example.org"]);
    // What nobody knows is passed over on live, however deep it is.
    body["attachments"] = json!([{"filename": "a.txt", "content": "aGk=", "content_id": "x"}]);
    body["colour"] = json!("red");
    let sent = send(&ada, body).await.ok();
    until(&ada, sent.word("id"), "sent").await;
    let mut taken = mx.taken();
    taken.sort();
    let to: Vec<&str> = taken.iter().map(|(to, _)| to.as_str()).collect();
    assert_eq!(to, ["ada@example.org", "secret@example.org"]);
    assert_eq!(mx.return_paths(), ["shop@mail.example"; 2], "nothing listens to reports");
    for (_, message) in &taken {
        assert!(
            message.contains("From: \"Shop\" <shop@mail.example>")
                || message.contains("From: Shop")
        );
        assert!(
            message.contains("To: <ada@example.org>") && !message.contains("secret"),
            "{message}"
        );
        assert!(message.contains("\r\n..\r\nBye"), "{message}");
    }
    assert_eq!(ada.balance().await, 98);
    let carriers = world.get(ada.env, "/v1/admin/carriers").bearer(world.staff().await).await.ok();
    assert_eq!(carriers.list()[0]["name"], "relay", "{}", carriers.text);
    // What looks like the operator's own address is nobody's, nor is the domain.
    for from in [
        "Postmaster+x@mail.example",
        "noreply@mail.example",
        "Shop <No.Reply@mail.example>",
        "post-master@mail.example",
        "_security@mail.example",
        "\"no-reply@mail.example\" <shop@mail.example>",
        "\"Help (noreply@Mail.Example)\" <shop@mail.example>",
    ] {
        let mut theirs = mail("ada@example.org");
        theirs["from_email"] = json!(from);
        let refused = send(&ada, theirs).await.problem("domain_not_verified");
        assert!(refused.word("detail").contains("the operator's own"), "{}", refused.text);
    }
    for from in ["reply@mail.example", "\"shop@mail.example\" <shop@mail.example>"] {
        let mut mine = mail("ada@example.org");
        mine["from_email"] = json!(from);
        let sent = send(&ada, mine).await.ok();
        until(&ada, sent.word("id"), "sent").await;
    }
    let shared = ada.desk("POST", "/v1/email-domains").json(json!({"domain": "Mail.example"}));
    shared.await.fault("/domain", "invalid_enum");
    // Nothing is told any more: it stays so, and paid.
    world.advance(40 * 60 * MINUTE).await;
    assert_eq!(read(&ada, sent.word("id")).await.ok().word("status"), "sent");
    assert_eq!(ada.balance().await, 96);
}

async fn what_a_relay_puts_off_goes_to_it_again(world: &World) {
    let (mx, ada) = with_relay(world).await;
    let sent = send(&ada, mail("grey@example.org")).await.ok();
    let put_off = store::Sql("SELECT error FROM attempts WHERE state = 'queued' AND next_at > $1");
    eventually(async || {
        let app = world.app(ada.env).await;
        let rows =
            app.db.rows::<(String,)>(put_off, store::args![app.now() + MINUTE]).await.unwrap();
        (rows == [("451 4.7.1 come back later".to_owned(),)]).then_some(())
    })
    .await;
    assert!(mx.taken().is_empty());
    world.advance(6 * MINUTE).await;
    until(&ada, sent.word("id"), "sent").await;
    assert_eq!(mx.taken().len(), 1);
    assert_eq!(ada.balance().await, 99);
}

async fn what_a_relay_refuses_is_told_and_free(world: &World) {
    let (mx, ada) = with_relay(world).await;
    for (to, status, code, detail) in [
        ("policy@example.org", "failed", "relay_rejected", "554 5.7.1 not wanted"),
        (
            "nobody@example.org",
            "bounced",
            "mailbox_unavailable",
            "550 5.1.1 <recipient>: no such user",
        ),
    ] {
        let sent = send(&ada, mail(to)).await.ok();
        let now = until(&ada, sent.word("id"), status).await;
        let error = json!({"code": code, "detail": detail});
        assert_eq!(now.field("recipients")[0]["error"], error);
    }
    assert!(mx.taken().is_empty());
    assert_eq!(ada.balance().await, 100);
    assert_eq!(send(&ada, mail("nobody@example.org")).await.ok().word("status"), "suppressed");
}

async fn after_the_final_dot_it_goes_once_more(world: &World) {
    let (mx, ada) = with_relay(world).await;
    let sent = send(&ada, mail("lost@example.org")).await.ok();
    let unknown = store::Sql("SELECT attempt_id FROM attempts WHERE state = 'unknown'");
    eventually(async || {
        let app = world.app(ada.env).await;
        let rows = app.db.rows::<(String,)>(unknown, store::args![]).await.unwrap();
        (rows.len() == 1).then_some(())
    })
    .await;
    world.advance(2 * MINUTE).await;
    until(&ada, sent.word("id"), "sent").await;
    let taken = mx.taken();
    assert_eq!(taken.len(), 2);
    assert_eq!(taken[0], taken[1], "the same bytes, hence the same Message-ID");
    assert_eq!(ada.balance().await, 99);
}

async fn a_second_copy_that_is_refused_leaves_the_first_sent(world: &World) {
    let (mx, ada) = with_relay(world).await;
    let all_of_it = ada.balance().await;
    let all = ["lost.later@example.org", "lost.never@example.org"];
    let unknown = store::Sql("SELECT attempt_id FROM attempts WHERE state = 'unknown'");
    let mut sent = Vec::new();
    for to in all {
        sent.push(send(&ada, mail(to)).await.ok());
    }
    let app = world.app(ada.env).await;
    let count = async || app.db.rows::<(String,)>(unknown, store::args![]).await.unwrap().len();
    eventually(async || (count().await == 2).then_some(())).await;
    world.advance(2 * MINUTE).await;
    for sent in &sent {
        until(&ada, sent.word("id"), "sent").await;
    }
    // The relay refused the second copy of both, the one for now and the other for good: neither
    // goes a third time, and nobody is told that it failed.
    for _ in 0..4 {
        world.advance(HOUR).await;
    }
    assert_eq!(mx.taken().len(), 2);
    assert_eq!(mx.tries("lost.later@example.org"), 2);
    for sent in &sent {
        until(&ada, sent.word("id"), "sent").await;
    }
    let listed = ada.get("/v1/email-suppressions").await.ok();
    assert!(!listed.text.contains("lost.never"), "{}", listed.text);
    // Nobody knows that they arrived, so they cost nothing once nobody waits for a report.
    assert_eq!(ada.balance().await, all_of_it - 2);
    world.advance(30 * HOUR).await;
    eventually(async || (ada.balance().await == all_of_it).then_some(())).await;
    for sent in &sent {
        until(&ada, sent.word("id"), "sent").await;
    }
}

async fn the_bulk_of_one_account_does_not_delay_the_mail_of_another(world: &World) {
    let (mx, ada) = with_relay(world).await;
    let eve = world.live_account("eve", 100).await;
    let slow: Vec<Value> = (0..40).map(|index| mail(&format!("slow{index}@example.org"))).collect();
    let bulk = eve.call("POST", "/v1/emails/bulk").json(json!({"messages": slow})).await.ok();
    // The relay answers none of them: bulk has half of the connections, and no more.
    eventually(async || (*mx.hanging.lock().unwrap() == 8).then_some(())).await;
    let sent = send(&ada, mail("ada@example.org")).await.ok();
    until(&ada, sent.word("id"), "sent").await;
    assert_eq!(*mx.hanging.lock().unwrap(), 8, "all of the bulk still waits");
    mx.answers.add_permits(40);
    for row in bulk.field("results").as_array().unwrap() {
        until(&eve, row["id"].as_str().unwrap(), "sent").await;
    }
    assert_eq!((eve.balance().await, ada.balance().await), (60, 99));
}
