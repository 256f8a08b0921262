//! Reports of other mail servers, by SMTP: bounces, complaints, and what pretends to be one.

use clock::DAY;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use super::relay::{Mx, mail, with_relay};
use super::{read, send, until};
use crate::on_every_engine;
use crate::world::tenant::Tenant;
use crate::world::{World, eventually};

on_every_engine!(
    a_bounce_comes_back_and_suppresses_the_address with listening,
    whom_the_server_says_to_be_nobody_is_not_written_to_again with listening,
    what_is_full_or_unwelcome_bounces_and_may_be_written_to_again with listening,
    a_bounce_of_somebody_it_was_passed_on_to_suppresses_nobody with listening,
    a_bounce_is_a_bounce_also_when_the_address_is_suppressed_since with listening,
    a_complaint_comes_back_and_suppresses_the_person with listening,
    a_complaint_of_who_was_erased_meanwhile_still_counts with listening,
    a_server_that_gives_up_after_days_is_still_heard with listening,
    reports_of_what_nobody_sent_change_nothing with listening,
    hostile_clients_of_the_listener_are_cut_off with listening,
    the_listener_takes_mail_for_its_own_addresses_only with listening,
    only_what_a_person_calls_unwanted_is_a_complaint with listening,
    mail_to_the_listener_itself_ends_there with listening,
);

fn listening(config: &mut estafette::config::Config) {
    "mail.example".clone_into(&mut config.email.shared_domain);
    "127.0.0.1:0".clone_into(&mut config.email.reports);
}

/// A report as Postfix writes it.
fn bounce(recipient: &str, status: &str, said: &str) -> String {
    format!(
        "From: MAILER-DAEMON@mx.example.org\r\nSubject: Undelivered\r\nMIME-Version: 1.0\r\n\
         Content-Type: multipart/report; report-type=delivery-status; boundary=\"b\"\r\n\r\n\
         --b\r\nContent-Type: text/plain\r\n\r\nSorry.\r\n\
         --b\r\nContent-Type: message/delivery-status\r\n\r\n\
         Reporting-MTA: dns; mx.example.org\r\n\r\nFinal-Recipient: rfc822; {recipient}\r\n\
         Action: failed\r\nStatus: {status}\r\nDiagnostic-Code: smtp; {said}\r\n\r\n--b--\r\n"
    )
}

fn complaint(kind: &str, return_path: &str) -> String {
    format!(
        "From: fbl@example.org\r\nMIME-Version: 1.0\r\n\
         Content-Type: multipart/report; report-type=feedback-report; boundary=\"b\"\r\n\r\n\
         --b\r\nContent-Type: message/feedback-report\r\n\r\nFeedback-Type: {kind}\r\n\
         User-Agent: Loop/1.0\r\nVersion: 1\r\nOriginal-Mail-From: <{return_path}>\r\n\r\n--b--\r\n"
    )
}

/// Says these lines to the listener, one after the other, and answers the last reply.
async fn talk(world: &World, lines: &[&str]) -> String {
    let mut stream = BufReader::new(TcpStream::connect(world.reports()).await.unwrap());
    let mut reply = heard(&mut stream).await;
    assert!(reply.starts_with("220 mail.example"), "{reply}");
    for line in std::iter::once(&"EHLO mx.example.org\r\n").chain(lines) {
        stream.write_all(line.as_bytes()).await.unwrap();
        reply = heard(&mut stream).await;
    }
    reply
}

/// A reply, whose last line has no hyphen; empty = the connection ended.
async fn heard(stream: &mut BufReader<TcpStream>) -> String {
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await.unwrap_or(0) == 0 || line.get(3..4) != Some("-") {
            return line;
        }
    }
}

/// Brings a message to an address of ours, as a server does that reports: without a sender.
async fn bring(world: &World, to: &str, message: &str) -> String {
    let (to, message) = (format!("RCPT TO:<{to}>\r\n"), format!("{message}.\r\n"));
    talk(world, &["MAIL FROM:<>\r\n", &to, "DATA\r\n", &message]).await
}

/// Sends an email over the relay, and answers its id and its return path.
async fn sent(ada: &Tenant<'_>, mx: &Mx, to: &str) -> (String, String) {
    let sent = send(ada, mail(to)).await.ok();
    until(ada, sent.word("id"), "sent").await;
    (sent.word("id").to_owned(), mx.return_paths().pop().unwrap())
}

async fn error_of(ada: &Tenant<'_>, id: &str, status: &str) -> Value {
    until(ada, id, status).await.field("recipients")[0]["error"].clone()
}

async fn a_bounce_comes_back_and_suppresses_the_address(world: &World) {
    let (mx, ada) = with_relay(world).await;
    let (id, path) = sent(&ada, &mx, "bob@example.org").await;
    assert!(path.starts_with("bounce+") && path.ends_with("@rp.mail.example"), "{path}");
    let report = bounce("bob@example.org", "5.1.1", "550 5.1.1 <bob@example.org>: no such user");
    // Local parts come back in any case.
    let path = path.to_ascii_uppercase();
    for _ in 0..2 {
        assert_eq!(bring(world, &path, &report).await, "250 2.0.0 taken\r\n");
    }
    let error = error_of(&ada, &id, "bounced").await;
    let detail = "550 5.1.1 <address>: no such user";
    assert_eq!(error, json!({"code": "mailbox_unavailable", "detail": detail}));
    let list = ada.get("/v1/email-suppressions").await.ok();
    let [listed] = list.list() else { panic!("{}", list.text) };
    assert_eq!(listed["address"], "bob@example.org");
    assert_eq!(listed["reason"], "bounced");
    assert_eq!(send(&ada, mail("bob@example.org")).await.ok().word("status"), "suppressed");
    assert_eq!(ada.balance().await, 99, "the relay did its work");
    let told = eventually(async || {
        let events = ada.get("/v1/events?type=email.delivery").await.ok();
        let is_it = |event: &&Value| event["data"]["status"] == "bounced";
        let bounced = events.list().iter().filter(is_it).count();
        (bounced > 0).then_some(bounced)
    });
    assert_eq!(told.await, 1, "told once");
}

async fn a_bounce_of_somebody_it_was_passed_on_to_suppresses_nobody(world: &World) {
    let (mx, ada) = with_relay(world).await;
    let (id, path) = sent(&ada, &mx, "team@example.org").await;
    let report = bounce("gone@old.example", "5.1.1", "550 5.1.1 no such user");
    assert_eq!(bring(world, &path, &report).await, "250 2.0.0 taken\r\n");
    let error = error_of(&ada, &id, "bounced").await;
    assert_eq!(error["code"], "undeliverable");
    assert!(ada.get("/v1/email-suppressions").await.ok().list().is_empty());
}

async fn a_bounce_is_a_bounce_also_when_the_address_is_suppressed_since(world: &World) {
    let (mx, ada) = with_relay(world).await;
    let to = "bob@example.org";
    let (first, first_path) = sent(&ada, &mx, to).await;
    let (second, second_path) = sent(&ada, &mx, to).await;
    let report = bounce(to, "5.1.1", "550 5.1.1 no such user");
    for (id, path) in [(first, first_path), (second, second_path)] {
        assert_eq!(bring(world, &path, &report).await, "250 2.0.0 taken\r\n");
        let error = error_of(&ada, &id, "bounced").await;
        assert_eq!(error["code"], "mailbox_unavailable");
    }
    // Control: the next one is not sent.
    assert_eq!(send(&ada, mail(to)).await.ok().word("status"), "suppressed");
    assert_eq!(ada.balance().await, 98);
}

async fn whom_the_server_says_to_be_nobody_is_not_written_to_again(world: &World) {
    let (mx, ada) = with_relay(world).await;
    // A report that says no more than "failed" quotes what does.
    for (to, said) in [
        ("one@example.org", "550-5.1.1 The account that you tried to reach does not exist"),
        ("two@example.org", "550 no such user"),
    ] {
        let (id, path) = sent(&ada, &mx, to).await;
        assert_eq!(bring(world, &path, &bounce(to, "5.0.0", said)).await, "250 2.0.0 taken\r\n");
        let error = error_of(&ada, &id, "bounced").await;
        assert_eq!(error["code"], "mailbox_unavailable", "{said}");
        assert_eq!(send(&ada, mail(to)).await.ok().word("status"), "suppressed");
    }
}

async fn what_is_full_or_unwelcome_bounces_and_may_be_written_to_again(world: &World) {
    let (mx, ada) = with_relay(world).await;
    for (to, status, said) in [
        ("full@example.org", "5.2.2", "552 5.2.2 mailbox full"),
        ("spam@example.org", "5.7.1", "550 5.7.1 blocked"),
        ("vague@example.org", "5.0.0", "554 5.7.1 rejected"),
        ("ours@example.org", "5.0.0", "550 relay not permitted"),
    ] {
        let (id, path) = sent(&ada, &mx, to).await;
        assert_eq!(bring(world, &path, &bounce(to, status, said)).await, "250 2.0.0 taken\r\n");
        let error = error_of(&ada, &id, "bounced").await;
        assert_eq!(error, json!({"code": "undeliverable", "detail": said}));
    }
    assert!(ada.get("/v1/email-suppressions").await.ok().list().is_empty());
}

async fn a_complaint_comes_back_and_suppresses_the_person(world: &World) {
    let (mx, ada) = with_relay(world).await;
    let (id, path) = sent(&ada, &mx, "bob@example.org").await;
    let taken = "250 2.0.0 taken\r\n";
    for kind in ["not-spam", "auth-failure", "virus", "other"] {
        assert_eq!(bring(world, "fbl@rp.mail.example", &complaint(kind, &path)).await, taken);
        assert_eq!(read(&ada, &id).await.ok().word("status"), "sent", "no person says {kind}");
    }
    // Only where return paths lead, whatever stands before the @.
    let local = path.split('@').next().unwrap();
    for elsewhere in ["fbl@mail.example".to_owned(), format!("{local}@victim.example")] {
        let to = format!("RCPT TO:<{elsewhere}>\r\n");
        let reply = talk(world, &["MAIL FROM:<>\r\n", &to]).await;
        assert!(reply.starts_with("550 5.1.1"), "{elsewhere}: {reply}");
    }
    for _ in 0..2 {
        assert_eq!(bring(world, "fbl@rp.mail.example", &complaint("abuse", &path)).await, taken);
    }
    let error = error_of(&ada, &id, "delivered").await;
    assert_eq!(error["code"], "complained");
    let list = ada.get("/v1/email-suppressions").await.ok();
    let [listed] = list.list() else { panic!("{}", list.text) };
    assert_eq!(listed["reason"], "complained");
}

async fn a_complaint_of_who_was_erased_meanwhile_still_counts(world: &World) {
    let (mx, ada) = with_relay(world).await;
    let to = "bob@example.org";
    let (id, path) = sent(&ada, &mx, to).await;
    let erase = world.post(ada.env, "/v1/admin/erasures").bearer(world.staff().await);
    erase.json(json!({"email": to})).await.ok();
    let report = complaint("abuse", &path);
    assert_eq!(bring(world, "fbl@rp.mail.example", &report).await, "250 2.0.0 taken\r\n");
    let error = error_of(&ada, &id, "delivered").await;
    assert_eq!(error["code"], "complained");
    assert_eq!(send(&ada, mail(to)).await.ok().word("status"), "suppressed");
    let list = ada.get("/v1/email-suppressions").await.ok();
    assert!(!list.text.contains("bob"), "only a hash is known: {}", list.text);
    assert_eq!(list.list().len(), 1);
}

async fn a_server_that_gives_up_after_days_is_still_heard(world: &World) {
    let (mx, ada) = with_relay(world).await;
    let (id, path) = sent(&ada, &mx, "bob@example.org").await;
    let (other, other_path) = sent(&ada, &mx, "carl@example.org").await;
    let (_, old_path) = sent(&ada, &mx, "dan@example.org").await;
    world.advance(5 * DAY).await;
    let report = bounce("bob@example.org", "4.4.7", "delivery time expired");
    bring(world, &path, &report).await;
    assert_eq!(error_of(&ada, &id, "bounced").await["code"], "undeliverable");
    bring(world, &other_path, &complaint("abuse", &other_path)).await;
    assert_eq!(error_of(&ada, &other, "delivered").await["code"], "complained");
    assert_eq!(ada.balance().await, 97, "a relay had them");
    world.advance(26 * DAY).await;
    assert_eq!(bring_only_to(world, &old_path).await, "550 5.1.1 no such address\r\n");
}

/// What is said to a recipient.
async fn bring_only_to(world: &World, to: &str) -> String {
    talk(world, &["MAIL FROM:<>\r\n", &format!("RCPT TO:<{to}>\r\n")]).await
}

async fn reports_of_what_nobody_sent_change_nothing(world: &World) {
    let (mx, ada) = with_relay(world).await;
    let (id, path) = sent(&ada, &mx, "bob@example.org").await;
    let (local, host) = path.split_once('@').unwrap();
    let other_position = local.replacen(".0.", ".1.", 1);
    let last = if local.ends_with('0') { 'z' } else { '0' };
    let guess = format!("{}{last}", &local[..local.len() - 1]);
    for forged in [&other_position, &guess, "bounce+x", "bob", "postmaster", ""] {
        let reply = bring_only_to(world, &format!("{forged}@{host}")).await;
        assert_eq!(reply, "550 5.1.1 no such address\r\n", "{forged}");
    }
    // Who does not know the return path says nothing with a report to the address of complaints.
    let taken = "250 2.0.0 taken\r\n";
    for report in [
        complaint("abuse", &format!("{guess}@{host}")),
        complaint("abuse", ""),
        bounce("bob@example.org", "5.1.1", "550 5.1.1 no such user"),
    ] {
        assert_eq!(bring(world, "fbl@rp.mail.example", &report).await, taken);
    }
    // No report: an answer of a person who is away, our own mail that comes back, garbage.
    let own = mx.taken().pop().unwrap().1;
    let own = own.strip_suffix(".\r\n").unwrap();
    let delayed = bounce("bob@example.org", "4.4.1", "slow").replace("failed", "delayed");
    for message in ["Subject: Away\r\n\r\nBack on Monday.\r\n", own, "\u{0}\r\n", "", &delayed] {
        assert_eq!(bring(world, &path, message).await, taken);
    }
    assert_eq!(read(&ada, &id).await.ok().word("status"), "sent");
    assert!(ada.get("/v1/email-suppressions").await.ok().list().is_empty());
    assert_eq!(mx.taken().len(), 1, "nothing was answered");
    // The same report to where it belongs counts.
    let report = bounce("bob@example.org", "5.1.1", "550 5.1.1 no such user");
    assert_eq!(bring(world, &path, &report).await, taken);
    until(&ada, &id, "bounced").await;
}

async fn hostile_clients_of_the_listener_are_cut_off(world: &World) {
    let (mx, ada) = with_relay(world).await;
    let (id, path) = sent(&ada, &mx, "bob@example.org").await;
    let to = format!("RCPT TO:<{path}>\r\n");
    let large = "MAIL FROM:<> SIZE=99999999\r\n";
    assert_eq!(talk(world, &[large]).await, "552 5.3.4 too large\r\n");
    let big = format!("{}\r\n", "x".repeat(998)).repeat(1_100);
    let cut = talk(world, &["MAIL FROM:<>\r\n", &to, "DATA\r\n", &big]).await;
    assert!(cut.is_empty() || cut.starts_with("552"), "{cut}");
    let endless = talk(world, &[&"x".repeat(3_000)]).await;
    assert!(endless.starts_with("500") || endless.is_empty(), "{endless}");
    let mut many = vec!["MAIL FROM:<>\r\n"];
    many.extend([to.as_str(); 11]);
    assert_eq!(talk(world, &many).await, "452 4.5.3 too many recipients\r\n");
    let chatty = talk(world, &["NOOP\r\n"; 500]).await;
    assert!(chatty.is_empty() || chatty.starts_with("421"), "{chatty}");
    for (lines, code) in [
        (&["RCPT TO:<x@y.z>\r\n"][..], "503"),
        (&["DATA\r\n"], "503"),
        (&["MAIL FROM:<>\r\n", "DATA\r\n"], "503"),
        (&["MAIL FROM:\r\n"], "501"),
        (&["BDAT 10 LAST\r\n"], "502"),
        (&["VRFY bob\r\n"], "252"),
        (&["NOOP\n"], "500"),
    ] {
        assert!(talk(world, lines).await.starts_with(code), "{lines:?}");
    }
    // Only CR LF make a line of a dot the end, and nobody smuggles another message in.
    let report = bounce("b@c.d", "5.1.1", "550 no");
    let smuggled = format!("x\r\n\n.\n\r\n.\nMAIL FROM:<>\r\n{report}\r\n.\r\n");
    let taken = talk(world, &["MAIL FROM:<>\r\n", &to, "DATA\r\n", &smuggled]).await;
    assert_eq!(taken, "250 2.0.0 taken\r\n");
    // Whoever takes all places of an address keeps nobody else out once they go.
    let mut idle = Vec::new();
    for _ in 0..33 {
        idle.push(TcpStream::connect(world.reports()).await.unwrap());
    }
    let mut last = idle.pop().unwrap();
    let mut said = Vec::new();
    let _closed = last.read_to_end(&mut said).await;
    assert!(said.is_empty(), "closed without a word");
    drop(idle);
    assert_eq!(read(&ada, &id).await.ok().word("status"), "sent");
    let report = bounce("bob@example.org", "5.1.1", "550 5.1.1 no such user");
    eventually(async || {
        let stream = TcpStream::connect(world.reports()).await.ok()?;
        let mut stream = BufReader::new(stream);
        heard(&mut stream).await.starts_with("220").then_some(())
    })
    .await;
    assert_eq!(bring(world, &path, &report).await, "250 2.0.0 taken\r\n");
    until(&ada, &id, "bounced").await;
}

async fn the_listener_takes_mail_for_its_own_addresses_only(world: &World) {
    let (mx, ada) = with_relay(world).await;
    let (id, path) = sent(&ada, &mx, "bob@example.org").await;
    let (local, _) = path.split_once('@').unwrap();
    for other in [
        format!("{local}@example.org"),
        format!("{local}@mail.example"),
        format!("{local}@rp.example.org"),
        "fbl@example.org".to_owned(),
        "fbl@mail.example".to_owned(),
        "fbl@rp.example.org".to_owned(),
        "fbl".to_owned(),
        "postmaster@rp.mail.example".to_owned(),
    ] {
        let reply = bring_only_to(world, &other).await;
        assert_eq!(reply, "550 5.1.1 no such address\r\n", "{other}");
    }
    for own in [path.as_str(), "fbl@rp.mail.example", "FBL@RP.Mail.Example"] {
        assert_eq!(bring_only_to(world, own).await, "250 2.1.5 ok\r\n", "{own}");
    }
    // A domain of an account has an address of complaints once it is verified.
    let verify = store::Sql("UPDATE email_domains SET status = 'verified' WHERE domain = $1");
    ada.desk("POST", "/v1/email-domains").json(json!({"domain": "shop.example"})).await.ok();
    assert!(bring_only_to(world, "fbl@rp.shop.example").await.starts_with("550"));
    let mut set = store::WriteSet::of(&ada.account_id);
    set.push(verify, store::args!["shop.example"]);
    world.app(ada.env).await.db.commit(set).await.unwrap();
    assert!(bring_only_to(world, "fbl@rp.shop.example").await.starts_with("250"));
    assert_eq!(read(&ada, &id).await.ok().word("status"), "sent");
}

async fn only_what_a_person_calls_unwanted_is_a_complaint(world: &World) {
    let (mx, ada) = with_relay(world).await;
    let (id, path) = sent(&ada, &mx, "bob@example.org").await;
    let taken = "250 2.0.0 taken\r\n";
    for kind in ["auth-failure", "virus", "other", "not-spam", "dmarc"] {
        assert_eq!(bring(world, &path, &complaint(kind, &path)).await, taken);
    }
    assert_eq!(read(&ada, &id).await.ok().word("status"), "sent");
    assert!(ada.get("/v1/email-suppressions").await.ok().list().is_empty());
    assert_eq!(bring(world, &path, &complaint("fraud", &path)).await, taken);
    assert_eq!(error_of(&ada, &id, "delivered").await["code"], "complained");
    assert_eq!(ada.balance().await, 99, "it arrived");
}

/// An account that writes to our own addresses: the relay brings it back to us, and that is all.
async fn mail_to_the_listener_itself_ends_there(world: &World) {
    let (mx, ada) = with_relay(world).await;
    let (first, path) = sent(&ada, &mx, "bob@example.org").await;
    for to in ["fbl@rp.mail.example", path.as_str()] {
        let (id, return_path) = sent(&ada, &mx, to).await;
        let message = mx.taken().pop().unwrap().1;
        let message = message.strip_suffix(".\r\n").unwrap();
        let from = format!("MAIL FROM:<{return_path}>\r\n");
        let rcpt = format!("RCPT TO:<{to}>\r\n");
        for _ in 0..3 {
            let whole = format!("{message}.\r\n");
            let reply = talk(world, &[&from, &rcpt, "DATA\r\n", &whole]).await;
            assert_eq!(reply, "250 2.0.0 taken\r\n");
        }
        assert_eq!(read(&ada, &id).await.ok().word("status"), "sent");
    }
    world.advance(DAY).await;
    world.settle().await;
    assert_eq!(mx.taken().len(), 3, "nothing was answered, nothing went round");
    assert_eq!(read(&ada, &first).await.ok().word("status"), "sent");
    assert_eq!(ada.balance().await, 97);
    let ignored = "estafette_email_reports_total{outcome=\"ignored\"} 6";
    let metrics = world.metrics().await.text;
    assert!(metrics.contains(ignored), "{metrics}");
}
