//! Relays that break off, hang, or lose their place in the conversation.

use clock::MINUTE;

use super::relay::{mail, shared, with_relay};
use super::{read, send, until};
use crate::on_every_engine;
use crate::world::{World, eventually};

on_every_engine!(
    a_relay_that_breaks_off_at_one_mail_delays_no_other with shared,
    a_relay_that_hangs_at_one_mail_delays_no_other with shared,
);

/// What an operator finds in the attempts that wait for another try.
const WAITING: store::Sql = store::Sql(
    "SELECT error FROM attempts WHERE state = 'queued' AND next_at > $1 ORDER BY attempt_id",
);

/// Waits until the attempts that wait for another try say this.
async fn wait_for(world: &World, errors: &[&str]) {
    let app = world.app(estafette::app::Env::Live).await;
    eventually(async || {
        let after = store::args![app.now() + MINUTE];
        let rows: Vec<(String,)> = app.db.rows(WAITING, after).await.unwrap();
        let said: Vec<&str> = rows.iter().map(|(error,)| error.as_str()).collect();
        (said == errors).then_some(())
    })
    .await;
}

async fn a_relay_that_breaks_off_at_one_mail_delays_no_other(world: &World) {
    let (mx, ada) = with_relay(world).await;
    let rude = ["hangup", "cut", "endless", "surplus"].map(|local| format!("{local}@example.org"));
    let mut broken = Vec::new();
    for to in &rude {
        let mut email = mail(to);
        // Too long to be on its way as a whole, final dot and all, when the relay breaks off.
        if to.starts_with("cut") {
            email["text"] = "A line of a long email.\n".repeat(40_000).into();
        }
        broken.push(send(&ada, email).await.ok());
    }
    let mut others = Vec::new();
    for index in 0..10 {
        others.push(send(&ada, mail(&format!("ada{index}@example.org"))).await.ok());
    }
    for sent in &others {
        until(&ada, sent.word("id"), "sent").await;
    }
    // The tenant sees that they wait, the ledger that they are held, the operator why.
    wait_for(world, &["connection_lost"; 4]).await;
    for sent in &broken {
        assert_eq!(read(&ada, sent.word("id")).await.ok().word("status"), "queued");
    }
    assert_eq!(ada.balance().await, 100 - 14);
    assert_eq!(mx.taken().len(), 10);
    world.advance(6 * MINUTE).await;
    for sent in &broken {
        until(&ada, sent.word("id"), "sent").await;
    }
    assert_eq!(ada.balance().await, 100 - 14);
    let listed = ada.get("/v1/email-suppressions").await.ok();
    assert!(listed.list().is_empty(), "a surplus 550 is about nobody");
    for to in &rude {
        let times = mx.taken().iter().filter(|(taken, _)| taken == to).count();
        assert_eq!(times, 1, "{to}");
    }
}

async fn a_relay_that_hangs_at_one_mail_delays_no_other(world: &World) {
    let (mx, ada) = with_relay(world).await;
    let hanging = send(&ada, mail("hang@example.org")).await.ok();
    for index in 0..3 {
        let sent = send(&ada, mail(&format!("ada{index}@example.org"))).await.ok();
        until(&ada, sent.word("id"), "sent").await;
    }
    assert_eq!(read(&ada, hanging.word("id")).await.ok().word("status"), "queued");
    // It is waited for twenty seconds.
    wait_for(world, &["connection_lost"]).await;
    world.advance(6 * MINUTE).await;
    until(&ada, hanging.word("id"), "sent").await;
    assert_eq!((mx.taken().len(), ada.balance().await), (4, 96));
}
