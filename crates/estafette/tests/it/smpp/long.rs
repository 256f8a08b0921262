//! Ways to a centre: a pair of binds, TLS, and long texts cut as the carrier wants them.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use ::smpp::Status;
use estafette::app::Env;
use playground::smsc::IdStyle;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use serde_json::json;
use store::{Sql, args};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use super::rude::{Manners, Rude};
use super::{Centre, PRICE, START, carrier, give, sender, settings, until_up};
use crate::on_every_engine;
use crate::world::tenant::phone;
use crate::world::{World, eventually};

on_every_engine!(
    a_long_text_arrives_in_every_way_of_cutting_it,
    a_pair_of_binds_sends_by_one_and_hears_by_the_other,
    a_connection_is_tls_where_the_settings_want_it,
    a_long_text_of_which_a_part_is_not_answered_goes_out_once_more,
    a_long_text_of_which_a_part_is_refused_is_never_delivered,
);

/// Whatever the receipt of the other part says, and whenever it comes.
async fn a_long_text_of_which_a_part_is_refused_is_never_delivered(world: &World) {
    let rude = Rude::open(Manners::RefusesRest(Status::RINVDSTADR)).await;
    give(world, settings(&[("main", rude.address, "")])).await;
    until_up(world, "main").await;
    let ada = sender(world, "ada").await;
    let body = json!({"to": phone("5678"), "text": "a1".repeat(150)});
    let sent = ada.text(&body).await.ok();
    ada.sms_until(sent.word("id"), "undelivered").await;
    let db = world.app(Env::Live).await.db.clone();
    let parts = Sql("SELECT part, parts FROM submissions WHERE carrier = $1");
    let known: Vec<(i64, i64)> = db.rows(parts, args!["main"]).await.unwrap();
    assert_eq!(known, [(1, 2)], "one of two: it alone is not all");
}

/// The phone shows only what comes whole, so all of it goes again.
async fn a_long_text_of_which_a_part_is_not_answered_goes_out_once_more(world: &World) {
    let rude = Rude::open(Manners::AnswersOnce).await;
    give(world, settings(&[("main", rude.address, "response_s = 5")])).await;
    until_up(world, "main").await;
    let ada = sender(world, "ada").await;
    let body = json!({"to": phone("5678"), "text": "a1".repeat(150)});
    let sent = ada.text(&body).await.ok();
    assert_eq!(sent.field("segments"), &json!(2));
    eventually(async || (rude.submissions() == 2).then_some(())).await;
    rude.behave(Manners::Good);
    eventually(async || {
        world.advance(1_000).await;
        (rude.submissions() == 4).then_some(())
    })
    .await;
    // Control: what is answered goes out once.
    ada.text(&body).await.ok();
    eventually(async || (rude.submissions() == 6).then_some(())).await;
    ada.sms_until(sent.word("id"), "submitted").await;
    world.advance(30_000).await;
    assert_eq!(rude.submissions(), 6);
    assert_eq!(ada.balance().await, START - 4 * PRICE);
}

async fn a_long_text_arrives_in_every_way_of_cutting_it(world: &World) {
    let ada = sender(world, "ada").await;
    let mut spent = 0;
    for (round, long) in ["udh8", "udh16", "sar", "payload"].into_iter().enumerate() {
        let centre = Centre::new(IdStyle::Decimal).await;
        let more = format!("long = '{long}'");
        give(world, settings(&[("main", centre.address(), &more)])).await;
        until_up(world, "main").await;
        let texts = [
            ("gsm7", "a1".repeat(200), 3),
            ("ucs2", "я".repeat(150), 3),
            // A longer reference would make it three.
            ("gsm7, full", "a1".repeat(153), 2),
        ];
        for (place, (way, text, parts)) in texts.into_iter().enumerate() {
            let to = phone(&format!("{}{round}78", place + 4));
            let sent = ada.text(json!({"to": to, "text": text})).await.ok();
            assert_eq!(sent.field("segments"), &json!(parts), "{long} {way}");
            ada.sms_until(sent.word("id"), "delivered").await;
            let mut came = centre.came_to(&to);
            came.sort_by_key(|carried| carried.part);
            let whole: String = came.iter().map(|carried| carried.text.as_str()).collect();
            assert_eq!(whole, text, "{long} {way}");
            let count = if long == "payload" { 1 } else { parts };
            assert_eq!(came.len(), usize::try_from(count).unwrap(), "{long} {way}");
            assert_eq!(i64::from(came[0].part.1), count, "{long} {way}");
            spent += parts * PRICE;
        }
    }
    assert_eq!(ada.balance().await, START - spent, "each is paid by the segment");
}

async fn a_pair_of_binds_sends_by_one_and_hears_by_the_other(world: &World) {
    let centre = Centre::new(IdStyle::Decimal).await;
    let mut behaviour = centre.handsets.options();
    behaviour.pairs_only = true;
    centre.handsets.behave(behaviour);
    // A carrier that takes no transceiver.
    give(world, settings(&[("main", centre.address(), "")])).await;
    eventually(async || (centre.handsets.stats().bind_fail > 0).then_some(())).await;
    assert_eq!(carrier(world, "main").await["state"], "down");
    give(world, settings(&[("main", centre.address(), "bind = 'pair'")])).await;
    until_up(world, "main").await;
    let ada = sender(world, "ada").await;
    let id = ada.text(json!({"to": phone("5678"), "text": "hi"})).await.ok();
    ada.sms_until(id.word("id"), "delivered").await;
    let stats = centre.handsets.stats();
    assert_eq!((stats.binds, stats.sessions), (2, 2), "{stats:?}");
    eventually(async || (centre.handsets.stats().acked == 1).then_some(())).await;
    let seen = carrier(world, "main").await;
    // By the other connection it may come before the answer does.
    let count = |what: &str| seen["receipts"][what].as_u64().unwrap();
    assert_eq!((&seen["binds"], count("matched") + count("early")), (&json!(1), 1), "{seen}");
}

/// Speaks TLS in front of a centre; its certificate is in this file.
pub async fn in_front_of(centre: SocketAddr, ca_file: &Path) -> SocketAddr {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    std::fs::write(ca_file, cert.pem()).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let server = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(server));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (near, _) = listener.accept().await.unwrap();
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(mut near) = acceptor.accept(near).await else { return };
                let mut far = TcpStream::connect(centre).await.unwrap();
                let _ended = tokio::io::copy_bidirectional(&mut near, &mut far).await;
            });
        }
    });
    address
}

async fn a_connection_is_tls_where_the_settings_want_it(world: &World) {
    let folder = tempfile::tempdir().unwrap();
    let ca_file = folder.path().join("ca.pem");
    let centre = Centre::new(IdStyle::Decimal).await;
    let front = in_front_of(centre.address(), &ca_file).await;
    let ca_file = ca_file.display();
    let trusting = format!("host = 'localhost'\ntls = true\nca_file = '{ca_file}'");
    give(world, settings(&[("main", front, &trusting)])).await;
    until_up(world, "main").await;
    let ada = sender(world, "ada").await;
    let id = ada.text(json!({"to": phone("5678"), "text": "hi"})).await.ok();
    ada.sms_until(id.word("id"), "delivered").await;
    // In the clear, and to a centre that nobody vouches for, there is no bind.
    let binds = centre.handsets.stats().binds;
    for more in ["host = 'localhost'", "host = 'localhost'\ntls = true"] {
        give(world, settings(&[("main", front, more)])).await;
        world.advance(3_000).await;
        assert_eq!(carrier(world, "main").await["state"], "down", "{more}");
    }
    assert_eq!(centre.handsets.stats().binds, binds);
}
