//! What an open socket still shows: nothing to whoever is out, nothing of notes to a user.

use estafette::app::Env;
use serde_json::{Value, json};

use super::chat::{Next, Socket};
use super::{all_messages, answer, change, each, open, seen_by_staff, staff, ticket};
use crate::on_every_engine;
use crate::world::World;
use crate::world::tenant::PASSWORD;

on_every_engine!(
    who_is_out_neither_reads_nor_writes,
    staff_who_logged_out_read_no_note,
    a_new_password_of_staff_closes_the_sockets_of_other_logins,
    a_user_who_logged_out_reads_nothing_more,
    notes_move_nothing_that_a_user_sees,
    an_answer_is_not_lost_under_the_id_of_a_note,
    an_open_matter_that_is_merged_stays_open,
    who_finds_a_ticket_closed_is_told_what_they_can_do,
    a_page_of_another_site_opens_no_socket,
);

/// Long before the token is looked at again in any case.
async fn who_is_out_neither_reads_nor_writes(world: &World) {
    let ada = world.account("ada").await;
    let id = open(&ada, "a", "first").await;
    let person = json!({"email": "mole@example.com", "password": "correct horse battery 42"});
    let mole = staff(world, "POST", "/staff").await.json(person.clone()).await.ok();
    let login = world.call("POST", Env::Live, "/v1/admin/auth/login").json(person).await.ok();
    let path = |token: &str| format!("/v1/admin/support/tickets/{id}/ws?token={token}");
    let path = path(login.word("token"));
    let mut reader = Socket::open(world.address(Env::Live), &path, None).await.unwrap();
    let mut writer = Socket::open(world.address(Env::Live), &path, None).await.unwrap();
    writer.send(json!({"message": "one of us"})).await;
    assert_eq!(reader.said().await, "one of us");
    assert_eq!(writer.said().await, "one of us");
    staff(world, "DELETE", &format!("/staff/{}", mole.word("id"))).await.await.ok();
    writer.send(json!({"message": "still here?"})).await;
    assert_eq!(writer.next().await, Next::Closed(4401));
    answer(world, &id, json!({"message": "about the mole", "internal": true})).await.ok();
    assert_eq!(reader.next().await, Next::Closed(4401));

    let mut user = Socket::user(&ada, &id, &ada.token, "").await;
    user.send(json!({"message": "hello"})).await;
    assert_eq!(user.said().await, "hello");
    world.set(&ada, json!({"status": "suspended"})).await.ok();
    user.send(json!({"message": "let me in"})).await;
    assert_eq!(user.next().await, Next::Closed(4403));
    let texts = all_messages(world, &id).await;
    assert_eq!(each(&texts, "message"), ["first", "one of us", "about the mole", "hello"]);
}

const MOLE: &str = "mole@example.com";

/// One more login of a member of staff: their token.
async fn log_in(world: &World) -> String {
    let person = json!({"email": MOLE, "password": PASSWORD});
    let login = world.call("POST", Env::Live, "/v1/admin/auth/login").json(person).await.ok();
    login.word("token").to_owned()
}

/// A ticket, and two logins of a member of staff with a socket each that heard a note a moment ago,
/// so that each of their tokens was looked at within the second.
async fn two_who_listen(world: &World) -> (String, [(String, Socket); 2]) {
    let id = open(&world.account("ada").await, "a", "first").await;
    let person = json!({"email": MOLE, "password": PASSWORD});
    staff(world, "POST", "/staff").await.json(person).await.ok();
    let mut both = vec![];
    for _ in 0..2 {
        let token = log_in(world).await;
        let path = format!("/v1/admin/support/tickets/{id}/ws?token={token}");
        both.push((token, Socket::open(world.address(Env::Live), &path, None).await.unwrap()));
    }
    note(world, &id, "for both").await;
    for (_, socket) in &mut both {
        assert_eq!(socket.said().await, "for both");
    }
    (id, both.try_into().ok().unwrap())
}

async fn note(world: &World, ticket: &str, text: &str) {
    answer(world, ticket, json!({"message": text, "internal": true})).await.ok();
}

async fn staff_who_logged_out_read_no_note(world: &World) {
    let (id, [(token, mut out), (_, mut stays)]) = two_who_listen(world).await;
    world.post(Env::Live, "/v1/admin/auth/logout").bearer(&token).await.ok();
    note(world, &id, "after it").await;
    assert_eq!(out.next().await, Next::Closed(4401));
    assert_eq!(stays.said().await, "after it", "another login of the same person goes on");
}

async fn a_new_password_of_staff_closes_the_sockets_of_other_logins(world: &World) {
    let (id, [(token, mut stays), (_, mut out)]) = two_who_listen(world).await;
    let body = json!({"current": PASSWORD, "new": "another horse battery 43"});
    world.post(Env::Live, "/v1/admin/auth/password").bearer(&token).json(body).await.ok();
    note(world, &id, "after it").await;
    assert_eq!(out.next().await, Next::Closed(4401));
    assert_eq!(stays.said().await, "after it", "the login that changed it goes on");
}

async fn a_user_who_logged_out_reads_nothing_more(world: &World) {
    let ada = world.account("ada").await;
    let id = open(&ada, "a", "first").await;
    for way in ["logout", "one session", "password", "all sessions"] {
        let body = json!({"email": ada.email, "password": PASSWORD});
        let login = || world.post(ada.env, "/v1/auth/login").json(&body);
        let (phone, desk) = (login().await.ok(), login().await.ok());
        let [phone, desk] = [&phone, &desk].map(|login| login.word("token"));
        let mut out = Socket::user(&ada, &id, phone, "").await;
        let mut stays = Socket::user(&ada, &id, desk, "").await;
        answer(world, &id, json!({"message": way})).await.ok();
        assert_eq!((out.said().await, stays.said().await), (way.into(), way.into()));
        let by = |token: &str, method: &str, path: &str| {
            world.call(method, ada.env, &format!("/v1/auth/{path}")).bearer(token)
        };
        match way {
            "logout" => by(phone, "POST", "logout").await.ok(),
            "one session" => {
                let all = by(phone, "GET", "sessions").await.ok();
                let mine = all.list().iter().find(|one| one["current"] == true).unwrap();
                let path = format!("sessions/{}", mine["id"].as_str().unwrap());
                by(desk, "DELETE", &path).await.ok()
            }
            "password" => {
                let new = "another horse battery 43";
                let there = json!({"current": PASSWORD, "new": new});
                by(desk, "POST", "password").json(there).await.ok();
                let back = json!({"current": new, "new": PASSWORD});
                by(desk, "POST", "password").json(back).await.ok()
            }
            _ => by(desk, "DELETE", "sessions").await.ok(),
        };
        answer(world, &id, json!({"message": "after it"})).await.ok();
        assert_eq!(out.next().await, Next::Closed(4401), "{way}");
        let next = stays.next().await;
        if way == "all sessions" {
            assert_eq!(next, Next::Closed(4401));
        } else {
            assert!(matches!(next, Next::Frame(_)), "{way}: {next:?}");
        }
    }
}

async fn notes_move_nothing_that_a_user_sees(world: &World) {
    let ada = world.account("ada").await;
    let id = open(&ada, "a", "first").await;
    let mut user = Socket::user(&ada, &id, &ada.token, "&features=read,typing").await;
    let mut admin = Socket::staff(world, &id, "&features=read,typing").await;
    let before = ticket(&ada, &id).await;
    world.advance(1_000).await;
    answer(world, &id, json!({"message": "note", "internal": true})).await.ok();
    assert_eq!(admin.said().await, "note");
    admin.send(json!({"type": "typing", "internal": true})).await;
    assert_eq!(admin.frame().await["type"], "typing");
    admin.send(json!({"type": "read", "seq": 2})).await;
    assert_eq!(admin.frame().await["seq"], 2);
    // As far as the user sees, staff have read the first message.
    assert_eq!(user.frame().await["seq"], 1);
    assert!(user.is_quiet().await);
    let after = ticket(&ada, &id).await;
    for member in ["last_seq", "updated_at"] {
        assert_eq!(after.field(member), before.field(member), "{member}");
    }
    assert_eq!(seen_by_staff(world, &id).await.field("last_seq"), &json!(2));
    // How far they say they have read tells them nothing either.
    user.send(json!({"type": "read", "seq": 2})).await;
    assert_eq!(user.frame().await["seq"], 1);
    assert_eq!(ticket(&ada, &id).await.field("read_seq"), &json!(1));
    // A number from beyond the end waits for the next message, not for that many.
    let mut eager = Socket::user(&ada, &id, &ada.token, "&since=1000000").await;
    answer(world, &id, json!({"message": "for you"})).await.ok();
    assert_eq!((eager.said().await, user.said().await), ("for you".into(), "for you".into()));
    change(world, &id, json!({"status": "closed"})).await.ok();
    eager.send(json!({"message": "too late"})).await;
    assert_eq!(eager.next().await, Next::Closed(1008));
}

async fn an_answer_is_not_lost_under_the_id_of_a_note(world: &World) {
    let ada = world.account("ada").await;
    let id = open(&ada, "a", "first").await;
    let said = |text: &str, internal: bool| -> Value {
        json!({"message": text, "internal": internal, "client_message_id": "one"})
    };
    answer(world, &id, said("never pays", true)).await.ok();
    answer(world, &id, said("never pays", true)).await.ok();
    answer(world, &id, said("Hello", false)).await.fault("/client_message_id", "invalid_enum");
    answer(world, &id, said("never pays", false)).await.fault("/client_message_id", "invalid_enum");
    assert_eq!(all_messages(world, &id).await.len(), 2);
}

async fn who_finds_a_ticket_closed_is_told_what_they_can_do(world: &World) {
    let ada = world.account("ada").await;
    let id = open(&ada, "a", "m").await;
    change(world, &id, json!({"status": "closed"})).await.ok();
    let write = ada.desk("POST", &format!("/v1/support/tickets/{id}/messages"));
    let user = write.json(json!({"message": "too late"})).await.problem("ticket_closed");
    assert!(user.word("detail").starts_with("You can open a new ticket"), "{}", user.text);
    let again = change(world, &id, json!({"status": "open"})).await.problem("ticket_closed");
    assert!(again.word("detail").starts_with("Its user can open"), "{}", again.text);
}

async fn an_open_matter_that_is_merged_stays_open(world: &World) {
    let ada = world.account("ada").await;
    let (again, before) = (open(&ada, "again", "m").await, open(&ada, "before", "m").await);
    change(world, &before, json!({"status": "resolved"})).await.ok();
    let path = format!("/support/tickets/{again}/merge");
    staff(world, "POST", &path).await.json(json!({"into": before})).await.ok();
    assert_eq!(ticket(&ada, &before).await.field("status"), &json!("open"));
    let rate = ada.desk("POST", &format!("/v1/support/tickets/{again}/rating"));
    let merged = rate.json(json!({"score": 5})).await.problem("ticket_closed");
    assert!(merged.word("detail").contains(&before), "{}", merged.text);
}

/// A name that leads here is no proof: it may be the other site's own (DNS rebinding).
async fn a_page_of_another_site_opens_no_socket(world: &World) {
    let ada = world.account("ada").await;
    let id = open(&ada, "a", "first").await;
    let address = world.address(ada.env);
    let path = format!("/v1/support/tickets/{id}/ws?token={}&since=0", ada.token);
    let own = format!("http://{address}");
    let mut socket = Socket::open(address, &path, Some(&own)).await.unwrap();
    assert_eq!(socket.said().await, "first");
    let port = address.port();
    for (host, origin) in [
        (own.trim_start_matches("http://").to_owned(), "http://evil.example".to_owned()),
        (format!("evil.example:{port}"), format!("http://evil.example:{port}")),
    ] {
        let mut socket =
            Socket::open_as(address, &path, &[("host", &host), ("origin", &origin)]).await.unwrap();
        assert_eq!(socket.next().await, Next::Closed(4403), "{origin}");
    }
}
