//! Stories of the operator's staff and of the sandbox's virtual handsets.

use estafette::app::Env;
use futures_util::future::join_all;
use serde_json::json;

use crate::on_every_engine;
use crate::world::World;
use crate::world::contract::{is_id, is_instant};
use crate::world::tenant::phone;

on_every_engine!(
    a_suspended_account_is_refused,
    staff_see_accounts_carriers_and_the_audit_log,
    settings_are_checked,
    a_rejected_sender_gives_way_when_all_places_are_taken,
    asking_for_a_sender_is_noted_once_and_a_keyword_is_none,
    handsets_show_exactly_the_fields_of_the_contract,
    handsets_are_of_the_sandbox_only,
    changes_of_an_account_at_the_same_time_all_succeed,
);

async fn asking_for_a_sender_is_noted_once_and_a_keyword_is_none(world: &World) {
    let ada = world.account("ada").await;
    let ask =
        async |value: &str| ada.desk("POST", "/v1/senders").json(json!({"value": value})).await;
    let asked = ask("Relay").await.ok();
    assert_eq!(ask("Relay").await.ok().field("id"), asked.field("id"));
    for keyword in ["STOP", "Stop.", "start", "UNSUBSCRIBE", "opt-out"] {
        let refused = ask(keyword).await;
        assert!(refused.text.contains("keyword"), "{}", refused.text);
        refused.fault("/value", "invalid_type");
    }
    let settings = json!({"settings": {"default_sender": "STOP"}});
    world.set(&ada, settings).await.fault("/settings/default_sender", "invalid_type");
    let path = "/v1/admin/audit-log?action=sender.request";
    let noted = world.get(Env::Live, path).bearer(world.staff().await).await.ok();
    let [line] = noted.list() else { panic!("not one line: {}", noted.text) };
    assert_eq!(&line["object_id"], asked.field("id"));
    assert_eq!(line["account_id"], ada.account_id);
    assert_eq!(line["detail"]["value"], "Relay");
}

async fn a_suspended_account_is_refused(world: &World) {
    let ada = world.account("ada").await;
    ada.send_to(&phone("5678")).await.ok();
    world.set(&ada, json!({"status": "suspended"})).await.ok();
    ada.send_to(&phone("5679")).await.problem("account_suspended");
    ada.guess("otp_01kdv00000000000000000000z", "1234").await.problem("account_suspended");
    world.set(&ada, json!({"status": "active"})).await.ok();
    ada.send_to(&phone("5679")).await.ok();
    world.set(&ada, json!({"status": "sleepy"})).await.fault("/status", "invalid_enum");
}

async fn staff_see_accounts_carriers_and_the_audit_log(world: &World) {
    let ada = world.account("ada").await;
    world.credit(&ada, 5).await.ok();
    let staff = world.staff().await;
    let get = |path: &str| world.get(Env::Sandbox, path).bearer(staff);
    let accounts = get("/v1/admin/accounts").await.ok();
    assert!(accounts.list().iter().any(|row| row["id"] == ada.account_id.as_str()));
    let one = get(&format!("/v1/admin/accounts/{}", ada.account_id)).await.ok();
    assert_eq!(one.word("id"), ada.account_id);
    assert_eq!(one.word("email"), ada.email);
    assert_eq!(one.number("balance_credits"), 1_000_005);
    get("/v1/admin/accounts/acc_01kdv00000000000000000000z").await.problem("not_found");
    assert_eq!(get("/v1/admin/carriers").await.ok().list().len(), 3);
    let log = get("/v1/admin/audit-log").await.ok();
    assert!(!log.list().is_empty());
    assert!(log.text.contains(&ada.account_id), "{}", log.text);
    let page = get("/v1/admin/audit-log?limit=1").await.ok();
    assert_eq!(page.list().len(), 1);
}

async fn a_rejected_sender_gives_way_when_all_places_are_taken(world: &World) {
    let ada = world.account("ada").await;
    let ask = async |n: u32| {
        ada.desk("POST", "/v1/senders").json(json!({"value": format!("Sender {n}")})).await
    };
    let first = ask(0).await.ok();
    let second = ask(1).await.ok();
    for n in 2..50 {
        ask(n).await.ok();
    }
    ask(50).await.problem("limit_reached");
    let path = format!("/v1/admin/senders/{}", second.word("id"));
    let decision = json!({"status": "rejected", "reason": "not yours"});
    let staff = world.staff().await;
    world.patch(Env::Sandbox, &path).bearer(staff).json(decision).await.ok();
    ask(51).await.ok();
    ask(52).await.problem("limit_reached");
    let kept = ada.desk("GET", "/v1/senders?limit=200").await.ok();
    let has = |id: &str| kept.list().iter().any(|sender| sender["id"] == id);
    assert!(has(first.word("id")) && !has(second.word("id")));
}

async fn settings_are_checked(world: &World) {
    let ada = world.account("ada").await;
    for (name, low, high) in [("otp_validity_s", 60, 600), ("otp_fallback_after_s", 5, 120)] {
        let mut settings = json!({});
        for good in [low, high] {
            settings[name] = json!(good);
            world.set(&ada, json!({"settings": settings})).await.ok();
        }
        for bad in [json!(low - 1), json!(high + 1), json!("60")] {
            settings[name] = bad;
            let answer = world.set(&ada, json!({"settings": settings})).await;
            let answer = answer.problem("validation_failed");
            let pointer = format!("/settings/{name}");
            assert!(answer.item(&pointer).is_some(), "{}", answer.text);
        }
    }
    let unknown = world.set(&ada, json!({"settings": {"colour": "red"}})).await;
    unknown.problem("validation_failed");
    let staff = world.staff().await;
    let foreign = world.patch(Env::Live, &format!("/v1/admin/accounts/{}", ada.account_id));
    let answer = foreign.bearer(staff).json(json!({"status": "suspended"})).await;
    answer.ok();
}

async fn handsets_show_exactly_the_fields_of_the_contract(world: &World) {
    let ada = world.account("ada").await;
    let to = phone("5678");
    ada.send(json!({"to": to, "code": "4821"})).await.ok();
    ada.send(json!({"to": to, "delivery_mode": "sms"})).await.ok();
    let path = format!("/v1/sandbox/handsets/{to}/messages");
    let by_key = ada.get(&path).await.ok();
    let by_desk = ada.desk("GET", &path).await.ok();
    assert_eq!(by_key.body, by_desk.body);
    let encoded = ada.get(&path.replace('+', "%2B")).await.ok();
    assert_eq!(encoded.body, by_key.body);
    assert_eq!(by_key.list().len(), 2);
    assert_eq!(by_key.list()[0]["channel"], "sms", "newest first");
    for message in by_key.list() {
        let mut names: Vec<&String> = message.as_object().unwrap().keys().collect();
        names.sort();
        let expected = ["buttons", "channel", "code", "id", "received_at", "sender", "text"];
        assert_eq!(names, expected);
        assert!(is_instant(message["received_at"].as_str().unwrap()));
        let id = message["id"].as_str().unwrap();
        assert!(is_id(id.split('_').next().unwrap(), id), "{id}");
        assert!(message["buttons"].is_array());
    }
    assert!(ada.handset(&phone("5670")).await.is_empty());
    world.get(Env::Sandbox, &path).await.problem("missing_credentials");
    let limited = ada.new_key("narrow", &["email:send"]).await;
    world.get(Env::Sandbox, &path).key(limited.word("api_key")).await.ok();
}

async fn handsets_are_of_the_sandbox_only(world: &World) {
    let ada = world.account("ada").await.on_live().await;
    let path = format!("/v1/sandbox/handsets/{}/messages", phone("5678"));
    let answer = ada.get(&path).await;
    assert_eq!(answer.status, 404, "{}", answer.text);
}

async fn changes_of_an_account_at_the_same_time_all_succeed(world: &World) {
    let ada = world.account("ada").await;
    let change = |n: usize| world.set(&ada, json!({"settings": {"otp_validity_s": 60 + n}}));
    let changes = join_all((0..15).map(|n| async move { change(n).await })).await;
    for change in changes {
        change.ok();
    }
}
