//! What was said with the relay, as staff see it: enough to know what went wrong, and no secret,
//! nobody's address, nothing of the content.

use clock::{DAY, MINUTE};
use serde_json::{Value, json};

use super::relay::mail;
use super::scripted::{At, Do, Scripted};
use super::{read, send, until};
use crate::on_every_engine;
use crate::world::tenant::Tenant;
use crate::world::{Answer, World, eventually};

on_every_engine!(
    a_refusal_is_kept_with_what_led_to_it with shared,
    a_login_that_fails_is_told_without_its_secret with shared,
    greylisting_is_remembered_and_a_mail_that_is_taken_at_once_keeps_nothing with shared,
    an_erasure_takes_the_dialogue_along with shared,
    an_old_dialogue_is_forgotten_with_its_recipient with shared,
    only_staff_read_attempts with shared,
);

fn shared(config: &mut estafette::config::Config) {
    "mail.example".clone_into(&mut config.email.shared_domain);
}

pub async fn attempts(ada: &Tenant<'_>, id: &str) -> Vec<Value> {
    let path = format!("/v1/admin/accounts/{}/emails/{id}/attempts", ada.account_id);
    let answer = ada.world.get(ada.env, &path).bearer(ada.world.staff().await).await.ok();
    answer.list().to_vec()
}

/// The transcript of the first copy, once there is one.
pub async fn transcript(ada: &Tenant<'_>, id: &str) -> String {
    eventually(async || {
        let attempts = attempts(ada, id).await;
        attempts.first()?["transcript"].as_str().map(str::to_owned)
    })
    .await
}

fn refusing(at: At, to: &str, times: u32) -> Do {
    match (at, to.split('@').next().unwrap_or_default()) {
        (At::Recipient, "ghost") => {
            Do::Say("550 5.1.1 <ghost@example.org>, alias of real@example.net: no such user\r\n")
        }
        (At::Recipient, "grey") if times == 1 => Do::Say("450 4.2.0 greylisted\r\n"),
        (At::Dot, "spam") => Do::Say("554 5.7.1 looks like spam\r\n"),
        _ => Do::Well,
    }
}

async fn a_refusal_is_kept_with_what_led_to_it(world: &World) {
    Scripted::give(world, "127.0.0.1", refusing).await;
    let ada = world.live_account("ada", 100).await;
    let sent = send(&ada, mail("ghost@example.org")).await.ok();
    until(&ada, sent.word("id"), "bounced").await;
    assert_eq!(
        transcript(&ada, sent.word("id")).await,
        "< 220 mx\n> EHLO estafette.example\n< 250 mx SIZE 10000000\n\
         > MAIL FROM:<return path>\n< 250 ok\n> RCPT TO:<recipient>\n\
         < 550 5.1.1 <recipient>, alias of address: no such user\n> RSET\n< 250 ok\n"
    );
    let sent = send(&ada, mail("spam@example.org")).await.ok();
    until(&ada, sent.word("id"), "failed").await;
    let attempts = attempts(&ada, sent.word("id")).await;
    let [attempt] = attempts.as_slice() else { panic!("{attempts:?}") };
    assert_eq!((&attempt["state"], &attempt["tries"]), (&json!("refused"), &json!(1)));
    assert_eq!(attempt["error"], "554 5.7.1 looks like spam");
    let text = attempt["transcript"].as_str().unwrap();
    assert!(text.ends_with("> .\n< 554 5.7.1 looks like spam\n"), "{text}");
    assert!(!text.contains("order") && !text.contains('@'), "{text}");
    assert_eq!(ada.balance().await, 100);
}

fn locked(at: At, _: &str, _: u32) -> Do {
    match at {
        At::Hello => Do::Say("250-mx\r\n250 AUTH PLAIN\r\n"),
        // \0robot\0tr0ub4dor, as a relay may quote it.
        At::Auth => Do::Say("535 5.7.8 AHJvYm90AHRyMHViNGRvcg== is wrong\r\n"),
        _ => Do::Well,
    }
}

async fn a_login_that_fails_is_told_without_its_secret(world: &World) {
    Scripted::give(world, "robot:tr0ub4dor@127.0.0.1", locked).await;
    let ada = world.live_account("ada", 100).await;
    let sent = send(&ada, mail("bob@example.org")).await.ok();
    let text = transcript(&ada, sent.word("id")).await;
    assert!(text.ends_with("> AUTH PLAIN ***\n< 535 5.7.8 *** is wrong\n"), "{text}");
    for secret in ["tr0ub4dor", "AHJvYm90"] {
        assert!(!text.contains(secret), "{text}");
    }
    assert_eq!(read(&ada, sent.word("id")).await.ok().word("status"), "queued");
}

async fn greylisting_is_remembered_and_a_mail_that_is_taken_at_once_keeps_nothing(world: &World) {
    let relay = Scripted::give(world, "127.0.0.1", refusing).await;
    let ada = world.live_account("ada", 100).await;
    let grey = send(&ada, mail("grey@example.org")).await.ok();
    let text = transcript(&ada, grey.word("id")).await;
    world.advance(6 * MINUTE).await;
    until(&ada, grey.word("id"), "sent").await;
    assert!(text.contains("< 450 4.2.0 greylisted\n"), "{text}");
    assert_eq!(transcript(&ada, grey.word("id")).await, text, "why it was late");
    assert_eq!(attempts(&ada, grey.word("id")).await[0]["tries"], 2);
    let plain = send(&ada, mail("bob@example.org")).await.ok();
    until(&ada, plain.word("id"), "sent").await;
    let attempt = &attempts(&ada, plain.word("id")).await[0];
    assert_eq!((&attempt["state"], &attempt["transcript"]), (&json!("accepted"), &json!(null)));
    assert_eq!(relay.taken().len(), 2);
}

async fn erase(world: &World, email: &str) -> Answer {
    let path = "/v1/admin/erasures";
    let call = world.post(estafette::app::Env::Live, path).bearer(world.staff().await);
    call.json(json!({"email": email})).await.ok()
}

async fn an_erasure_takes_the_dialogue_along(world: &World) {
    Scripted::give(world, "127.0.0.1", refusing).await;
    let ada = world.live_account("ada", 100).await;
    let mut body = mail("ghost@example.org");
    body["cc"] = json!(["spam@example.org"]);
    let sent = send(&ada, body).await.ok();
    until(&ada, sent.word("id"), "bounced").await;
    assert!(transcript(&ada, sent.word("id")).await.contains("no such user"));
    erase(world, "ghost@example.org").await;
    let attempts = attempts(&ada, sent.word("id")).await;
    let kept = (&attempts[0]["transcript"], &attempts[0]["error"]);
    assert_eq!(kept, (&json!(null), &json!(null)));
    assert_eq!(attempts[1]["error"], "554 5.7.1 looks like spam");
    let other = attempts[1]["transcript"].as_str().unwrap();
    assert!(other.contains("looks like spam"), "the other person's stays: {other}");
}

async fn an_old_dialogue_is_forgotten_with_its_recipient(world: &World) {
    Scripted::give(world, "127.0.0.1", refusing).await;
    let ada = world.live_account("ada", 100).await;
    let sent = send(&ada, mail("ghost@example.org")).await.ok();
    until(&ada, sent.word("id"), "bounced").await;
    let kept = async || {
        let sql = store::Sql("SELECT COUNT(*) FROM attempts WHERE transcript IS NOT NULL");
        let app = world.app(ada.env).await;
        app.db.row::<(i64,)>(sql, store::args![]).await.unwrap().unwrap().0
    };
    world.advance((world.config().retention.recipients_d - 1) * DAY).await;
    world.housekeep().await;
    assert_eq!(kept().await, 1);
    world.advance(2 * DAY).await;
    world.housekeep().await;
    assert_eq!(kept().await, 0);
}

async fn only_staff_read_attempts(world: &World) {
    Scripted::give(world, "127.0.0.1", refusing).await;
    let ada = world.live_account("ada", 100).await;
    let eve = world.live_account("eve", 100).await;
    let sent = send(&ada, mail("bob@example.org")).await.ok();
    let path = |account: &str, email: &str| {
        format!("/v1/admin/accounts/{account}/emails/{email}/attempts")
    };
    let own = path(&ada.account_id, sent.word("id"));
    ada.desk("GET", &own).await.problem("invalid_token");
    let staff = world.staff().await;
    for wrong in
        [path(&eve.account_id, sent.word("id")), path(&ada.account_id, "eml_x"), path("x", "y")]
    {
        world.get(ada.env, &wrong).bearer(staff).await.problem("not_found");
    }
    assert_eq!(attempts(&ada, sent.word("id")).await.len(), 1);
}
