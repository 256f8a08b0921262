//! Relays that misbehave. Each story names what the tenant, the ledger and the operator see.

use std::sync::Arc;
use std::time::Duration;

use clock::{HOUR, MINUTE};
use estafette::carriers::Carriers;
use estafette::carriers::smtp::Relay;
use estafette::config::Email;
use estafette::kit::secret::Secret;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::relay::{Mx, mail};
use super::scripted::{At, Do, Script, Scripted};
use super::transcripts::{attempts, transcript};
use super::{read, send, until};
use crate::on_every_engine;
use crate::smpp::long::in_front_of;
use crate::world::tenant::Tenant;
use crate::world::{World, eventually};

on_every_engine!(
    a_relay_that_hangs_before_it_greets_is_left_and_the_mail_goes_later with shared,
    a_relay_that_hangs_at_data_has_nothing_and_gets_it_later with shared,
    a_relay_that_drops_mid_data_has_nothing_and_gets_it_later with shared,
    a_relay_that_hangs_after_the_final_dot_gets_it_once_more with shared,
    a_relay_that_offers_tls_and_goes_on_in_plain_text_gets_nothing with shared,
    a_relay_that_says_more_than_it_was_asked_is_not_believed with shared,
    a_relay_whose_answer_fits_no_command_gets_no_text_and_is_asked_again with shared,
    a_relay_that_hangs_up_on_one_mail_delays_no_other with shared,
    what_no_relay_ever_takes_is_given_back with shared,
    a_relay_of_a_private_authority_is_trusted_once_its_file_is_named with shared,
);

fn shared(config: &mut estafette::config::Config) {
    "mail.example".clone_into(&mut config.email.shared_domain);
}

/// What the ledger holds for what is on its way, and what it spent.
async fn ledger(ada: &Tenant<'_>) -> (i64, i64) {
    let balance = ada.get("/v1/balance").await.ok();
    let held = balance.number("held_credits");
    (held, 100 - balance.number("balance_credits") - held)
}

/// Waits until a mail stands so with its carrier, and answers the attempt.
async fn stands(ada: &Tenant<'_>, id: &str, state: &str) -> Value {
    eventually(async || {
        let attempt = attempts(ada, id).await.first().cloned()?;
        let is_over = attempt["state"] == state && attempt["transcript"] != json!(null);
        is_over.then_some(attempt)
    })
    .await
}

/// A relay that does this once, and takes the same mail at its next try: what everybody sees.
async fn put_off_once(world: &World, script: Script, mail: Value, why: &str, last: &str) {
    let relay = Scripted::give(world, "127.0.0.1", script).await;
    let ada = world.live_account("ada", 100).await;
    let sent = send(&ada, mail).await.ok();
    let attempt = stands(&ada, sent.word("id"), "queued").await;
    assert_eq!(read(&ada, sent.word("id")).await.ok().word("status"), "queued");
    assert_eq!(attempt["error"], why);
    let text = attempt["transcript"].as_str().unwrap();
    assert!(text.ends_with(last), "{text}");
    assert_eq!(relay.taken().len(), 0);
    assert_eq!(ledger(&ada).await, (1, 0), "held, and no more");
    world.advance(6 * MINUTE).await;
    until(&ada, sent.word("id"), "sent").await;
    assert_eq!(relay.taken().len(), 1);
    assert_eq!(ledger(&ada).await, (0, 1));
}

async fn a_relay_that_hangs_before_it_greets_is_left_and_the_mail_goes_later(world: &World) {
    fn silent(at: At, _: &str, times: u32) -> Do {
        if at == At::Banner && times == 1 { Do::Hang } else { Do::Well }
    }
    let last = "! the server did not answer in time\n";
    put_off_once(world, silent, mail("bob@example.org"), "no_connection", last).await;
}

async fn a_relay_that_hangs_at_data_has_nothing_and_gets_it_later(world: &World) {
    fn hanging(at: At, _: &str, times: u32) -> Do {
        if at == At::Data && times == 1 { Do::Hang } else { Do::Well }
    }
    let last = "> DATA\n! the server did not answer in time\n";
    put_off_once(world, hanging, mail("bob@example.org"), "connection_lost", last).await;
}

async fn a_relay_that_drops_mid_data_has_nothing_and_gets_it_later(world: &World) {
    fn dropping(at: At, _: &str, times: u32) -> Do {
        if at == At::Body && times == 1 { Do::HangUp } else { Do::Well }
    }
    let mut large = mail("bob@example.org");
    large["html"] = json!("<p>Long.</p>\n".repeat(100_000));
    let last = "bytes]\n! the connection broke\n";
    put_off_once(world, dropping, large, "connection_lost", last).await;
}

async fn a_relay_that_hangs_after_the_final_dot_gets_it_once_more(world: &World) {
    fn hanging(at: At, _: &str, times: u32) -> Do {
        if at == At::Dot && times == 1 { Do::Hang } else { Do::Well }
    }
    let relay = Scripted::give(world, "127.0.0.1", hanging).await;
    let ada = world.live_account("ada", 100).await;
    let sent = send(&ada, mail("bob@example.org")).await.ok();
    let attempt = stands(&ada, sent.word("id"), "unknown").await;
    assert_eq!(read(&ada, sent.word("id")).await.ok().word("status"), "queued");
    let text = attempt["transcript"].as_str().unwrap();
    assert!(text.ends_with("> .\n! the server did not answer in time\n"), "{text}");
    assert_eq!(ledger(&ada).await, (1, 0));
    world.advance(2 * MINUTE).await;
    until(&ada, sent.word("id"), "sent").await;
    assert_eq!(relay.times(At::Dot, "bob@example.org"), 2);
    assert_eq!(ledger(&ada).await, (0, 1), "one price for both");
}

async fn a_relay_that_offers_tls_and_goes_on_in_plain_text_gets_nothing(world: &World) {
    fn stripping(at: At, _: &str, _: u32) -> Do {
        match at {
            At::Hello => Do::Say("250-mx\r\n250 STARTTLS\r\n"),
            At::Tls => Do::Say("220 go\r\n250 mx\r\n250 ok\r\n"),
            _ => Do::Well,
        }
    }
    fn pretending(at: At, _: &str, _: u32) -> Do {
        match at {
            At::Hello => Do::Say("250-mx\r\n250 STARTTLS\r\n"),
            At::Tls => Do::Say("220 go\r\n"),
            _ => Do::Well,
        }
    }
    fn silent(_: At, _: &str, _: u32) -> Do {
        Do::Well
    }
    let cases: [(Script, &str); 3] = [
        (stripping, "< 220 go\n! the server replies out of turn\n"),
        (pretending, "< 220 go\n! no "),
        (silent, "! the server does not offer STARTTLS\n"),
    ];
    let ada = world.live_account("ada", 100).await;
    for (place, (script, said)) in cases.into_iter().enumerate() {
        // An address of this machine that does not look like one, so that TLS is required.
        let relay = Scripted::give(world, "0.0.0.0", script).await;
        let sent = send(&ada, mail(&format!("bob{place}@example.org"))).await.ok();
        let attempt = stands(&ada, sent.word("id"), "queued").await;
        let text = attempt["transcript"].as_str().unwrap();
        assert!(text.contains(said), "{text}");
        assert_eq!(attempt["error"], "no_connection");
        assert_eq!(read(&ada, sent.word("id")).await.ok().word("status"), "queued");
        assert_eq!(relay.times(At::Sender, ""), 0, "nothing of the mail went out in the clear");
        assert_eq!(ledger(&ada).await, (1 + i64::try_from(place).unwrap(), 0));
    }
}

async fn a_relay_that_says_more_than_it_was_asked_is_not_believed(world: &World) {
    fn talkative(at: At, to: &str, times: u32) -> Do {
        match (at, to.split('@').next().unwrap_or_default()) {
            // Were the second reply taken for the one to the message, nobody would send it again.
            (At::Data, "early") if times == 1 => Do::Say("354 go\r\n250 2.0.0 queued\r\n"),
            _ => Do::Well,
        }
    }
    let last = "< 354 go\n> [";
    let relay = Scripted::give(world, "127.0.0.1", talkative).await;
    let ada = world.live_account("ada", 100).await;
    let sent = send(&ada, mail("early@example.org")).await.ok();
    let attempt = stands(&ada, sent.word("id"), "queued").await;
    let text = attempt["transcript"].as_str().unwrap();
    assert!(text.contains(last) && text.ends_with("! the server replies out of turn\n"), "{text}");
    assert_eq!((relay.taken().len(), ledger(&ada).await), (0, (1, 0)));
    world.advance(6 * MINUTE).await;
    until(&ada, sent.word("id"), "sent").await;
    assert_eq!((relay.taken().len(), ledger(&ada).await), (1, (0, 1)));
}

async fn a_relay_whose_answer_fits_no_command_gets_no_text_and_is_asked_again(world: &World) {
    fn odd(at: At, to: &str, times: u32) -> Do {
        match (at, to.split('@').next().unwrap_or_default()) {
            // It waits for a command, and would take the lines of the message for such.
            (At::Data, "login") if times == 1 => Do::Say("334 \r\n"),
            (At::Data, "other") if times == 1 => Do::Say("300 go\r\n"),
            (At::Recipient, "mixed") if times == 1 => Do::Say("250-a\r\n550 5.1.1 no\r\n"),
            (At::Dot, "both") if times == 1 => Do::Say("550-no\r\n250 2.0.0 queued\r\n"),
            _ => Do::Well,
        }
    }
    let relay = Scripted::give(world, "127.0.0.1", odd).await;
    let ada = world.live_account("ada", 100).await;
    for word in ["login", "other", "mixed", "both"] {
        let sent = send(&ada, mail(&format!("{word}@example.org"))).await.ok();
        let state = if word == "both" { "unknown" } else { "queued" };
        let attempt = stands(&ada, sent.word("id"), state).await;
        let text = attempt["transcript"].as_str().unwrap();
        assert!(word == "both" || !text.contains("bytes"), "{word}: {text}");
        world.advance(6 * MINUTE).await;
        until(&ada, sent.word("id"), "sent").await;
    }
    assert_eq!((relay.taken().len(), ledger(&ada).await), (4, (0, 4)));
}

async fn a_relay_that_hangs_up_on_one_mail_delays_no_other(world: &World) {
    fn moody(at: At, to: &str, _: u32) -> Do {
        match (at, to.split('@').next().unwrap_or_default()) {
            (At::Recipient, "hangup") => Do::HangUp,
            (At::Recipient, "closing") => Do::Say("421 4.3.2 closing\r\n"),
            (At::Recipient, "hang") => Do::Hang,
            _ => Do::Well,
        }
    }
    let relay = Scripted::give(world, "127.0.0.1", moody).await;
    let ada = world.live_account("ada", 100).await;
    let eve = world.live_account("eve", 100).await;
    for _ in 0..4 {
        for word in ["hangup", "closing", "hang"] {
            let sent = send(&eve, mail(&format!("{word}@example.org"))).await.ok();
            transcript(&eve, sent.word("id")).await;
        }
        let since = Instant::now();
        let sent = send(&ada, mail("bob@example.org")).await.ok();
        until(&ada, sent.word("id"), "sent").await;
        assert!(
            since.elapsed() < Duration::from_millis(900),
            "the lane rests: {:?}",
            since.elapsed()
        );
    }
    assert_eq!(relay.taken().len(), 4);
    assert_eq!((ledger(&ada).await, ledger(&eve).await), ((0, 4), (12, 0)));
    let carriers = world.get(ada.env, "/v1/admin/carriers").bearer(world.staff().await).await.ok();
    assert!(carriers.text.contains("relay"), "{}", carriers.text);
}

async fn what_no_relay_ever_takes_is_given_back(world: &World) {
    fn hanging_up(_: At, _: &str, _: u32) -> Do {
        Do::HangUp
    }
    let relay = Scripted::give(world, "127.0.0.1", hanging_up).await;
    let ada = world.live_account("ada", 100).await;
    let sent = send(&ada, mail("bob@example.org")).await.ok();
    let text = transcript(&ada, sent.word("id")).await;
    assert_eq!(text, "! the connection broke\n");
    assert_eq!(ledger(&ada).await, (1, 0));
    let failed = eventually(async || {
        world.advance(HOUR).await;
        Some(read(&ada, sent.word("id")).await.ok()).filter(|now| now.word("status") == "failed")
    })
    .await;
    assert_eq!(failed.field("recipients")[0]["error"]["code"], "not_sent");
    assert_eq!((relay.taken().len(), ledger(&ada).await), (0, (0, 0)));
}

/// The relay that the settings name, from now on.
async fn give(world: &World, settings: Email) {
    let make = move || Relay::of(&settings, "estafette.example").unwrap().unwrap();
    world.give_live(Box::new(move |_, _| Carriers::none().with_email(Arc::new(make())))).await;
}

async fn a_relay_of_a_private_authority_is_trusted_once_its_file_is_named(world: &World) {
    let folder = tempfile::tempdir().unwrap();
    let ca_file = folder.path().join("ca.pem");
    let (mx, url) = Mx::start().await;
    let there = url.strip_prefix("smtp://").unwrap().parse().unwrap();
    let front = in_front_of(there, &ca_file).await;
    let relay_url = Secret::new(format!("smtps://localhost:{}", front.port()));
    let strange = Email { relay_url, ..world.config().email.clone() };
    give(world, strange.clone()).await;
    let ada = world.live_account("ada", 100).await;
    let sent = send(&ada, mail("bob@example.org")).await.ok();
    let text = transcript(&ada, sent.word("id")).await;
    assert!(text.contains("an authority that is not trusted; name it in email.ca_file"), "{text}");
    assert_eq!(mx.taken().len(), 0, "nothing goes to a stranger");
    let ca_file = ca_file.to_str().unwrap().to_owned();
    give(world, Email { ca_file, ..strange.clone() }).await;
    world.advance(6 * MINUTE).await;
    until(&ada, sent.word("id"), "sent").await;
    assert_eq!(mx.taken().len(), 1);
    let missing = Email { ca_file: "/nowhere.pem".to_owned(), ..strange };
    let why = Relay::of(&missing, "estafette.example").err().unwrap();
    assert!(why.starts_with("email.ca_file cannot be used: /nowhere.pem"), "{why}");
}
