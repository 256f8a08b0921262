//! Messages: their fields, windows and prices, the endings that numbers script, and what is told.

use serde_json::{Value, json};

use super::{declare, events, open_window, read_as, reply, text, told, write};
use crate::on_every_engine;
use crate::webhooks::like_its_example;
use crate::world::tenant::{Tenant, phone};
use crate::world::{Answer, World, contract, eventually};

on_every_engine!(
    a_text_needs_an_open_window_and_arrives,
    a_window_closes_after_a_day,
    a_template_needs_no_window_and_costs_its_category,
    a_template_wins_over_a_text,
    the_endings_of_numbers_are_told_and_paid_right,
    receipts_in_disorder_never_move_a_message_down,
    what_is_not_approved_is_refused_before_it_is_charged,
    faults_are_named,
    what_does_not_fit_a_template_is_named,
    a_repeat_sends_once,
    who_said_stop_is_not_written_to,
    lists_are_filtered_and_another_account_sees_nothing,
    a_session_that_is_not_there_is_said_before_the_window,
);

const GRANT: i64 = 1_000_000;
/// The default prices of service, utility and marketing.
const SERVICE: i64 = 1;
const UTILITY: i64 = 3;

fn order_update() -> Value {
    json!({"name": "order_update", "category": "UTILITY", "footer": "Estafette",
        "body": "Bonjour {{1}}, votre commande {{2}} est prête.",
        "buttons": [{"type": "QUICK_REPLY", "text": "Merci"}]})
}

async fn a_text_needs_an_open_window_and_arrives(world: &World) {
    let ada = world.account("ada").await;
    text(&ada, "5678").await.problem("messaging_window_closed");
    assert_eq!(ada.balance().await, GRANT);
    // By SMS no window of the chat-app opens.
    reply(&ada, "5678", &json!({"text": "hi", "channel": "sms"})).await.ok();
    let keyed = || text(&ada, "5678").header("idempotency-key", "one");
    keyed().await.problem("messaging_window_closed");
    open_window(&ada, "5678").await;
    // What was refused under a key stays refused, and the key is that request's.
    let again = keyed().await.problem("messaging_window_closed");
    assert_eq!(again.head("idempotent-replayed"), "true");
    let other = text(&ada, "5679").header("idempotency-key", "one").await;
    other.problem("idempotency_key_reused");
    assert_eq!(ada.balance().await, GRANT);
    let sent = text(&ada, "5678").await.ok();
    let names = [
        "billing_kind",
        "billing_mode",
        "channel",
        "charged_credits",
        "country",
        "created_at",
        "id",
        "language",
        "provider",
        "session_id",
        "status",
        "template",
        "to",
    ];
    assert_eq!(sent.names(), names);
    assert!(contract::is_id("msg", sent.word("id")));
    assert_eq!((sent.word("status"), sent.word("provider")), ("submitted", "svc"));
    assert_eq!(sent.word("to"), phone("5678").trim_start_matches('+'));
    assert_eq!((sent.word("country"), sent.word("billing_kind")), ("FR", "service"));
    assert_eq!(sent.field("template"), &json!(null));
    let read = read_as(&ada, sent.word("id"), "delivered").await;
    assert_eq!(read.number("charged_credits"), SERVICE);
    assert_eq!(ada.balance().await, GRANT - SERVICE);
    let shown = ada.handset(&phone("5678")).await;
    assert_eq!((&shown[0]["text"], &shown[0]["code"]), (&json!("Bonjour"), &json!(null)));
    let events = told(&ada, "chatapp.status").await;
    let seen: Vec<&Value> = events.iter().map(|data| &data["status"]).collect();
    assert_eq!(seen, ["sent", "delivered"]);
}

async fn a_window_closes_after_a_day(world: &World) {
    let ada = world.account("ada").await;
    open_window(&ada, "5678").await;
    world.advance(clock::DAY - 1_000).await;
    text(&ada, "5678").await.ok();
    world.advance(2_000).await;
    text(&ada, "5678").await.problem("messaging_window_closed");
}

async fn a_template_needs_no_window_and_costs_its_category(world: &World) {
    let ada = world.account("ada").await;
    declare(world, &ada, &order_update()).await;
    let body = json!({"to": phone("5678"), "template_name": "order_update",
        "template_params": ["Ana", "12"], "billing_mode": "direct"});
    let sent = write(&ada, &body).await.ok();
    assert_eq!((sent.word("template"), sent.word("language")), ("order_update", "fr"));
    assert_eq!((sent.word("billing_kind"), sent.number("charged_credits")), ("utility", UTILITY));
    read_as(&ada, sent.word("id"), "delivered").await;
    let shown = ada.handset(&phone("5678")).await;
    let text = "Bonjour Ana, votre commande 12 est prête.\n\nEstafette";
    assert_eq!((&shown[0]["text"], &shown[0]["buttons"]), (&json!(text), &json!(["Merci"])));
    assert_eq!(ada.balance().await, GRANT - UTILITY);
    like_its_example(events(&ada, "chatapp.status").await.last().unwrap());
    // The language without its region, and parts in the provider's own form.
    let body = json!({"to": phone("5678"), "template_name": "order_update",
        "template_language": "fr-FR", "billing_mode": "direct", "components": [
            {"type": "BODY", "parameters": [
                {"type": "text", "text": "Bo"}, {"type": "text", "text": "7"}]}]});
    let sent = write(&ada, &body).await.ok();
    read_as(&ada, sent.word("id"), "delivered").await;
    let shown = ada.handset(&phone("5678")).await;
    assert!(shown[0]["text"].as_str().unwrap().starts_with("Bonjour Bo, votre commande 7"));
}

async fn a_template_wins_over_a_text(world: &World) {
    let ada = world.account("ada").await;
    let body = json!({"name": "hello", "body": "Bonjour", "category": "MARKETING"});
    declare(world, &ada, &body).await;
    for text in ["x", ""] {
        let body = json!({"to": phone("5678"), "template_name": "hello", "text": text,
            "billing_mode": "direct"});
        let sent = write(&ada, &body).await.ok();
        assert_eq!((sent.word("template"), sent.word("billing_kind")), ("hello", "marketing"));
    }
}

/// A message once it stands so, on a clock that goes on until then.
async fn as_time_passes(world: &World, ada: &Tenant<'_>, id: &str, status: &str) -> Answer {
    eventually(async || {
        world.advance(1_000).await;
        let path = format!("/v1/chatapp/messages/{id}");
        Some(ada.get(&path).await.ok()).filter(|now| now.word("status") == status)
    })
    .await
}

async fn the_endings_of_numbers_are_told_and_paid_right(world: &World) {
    let ada = world.account("ada").await;
    for ending in ["0001", "0002", "0004", "0006", "0008"] {
        open_window(&ada, ending).await;
    }
    for ending in ["0001", "0002", "0004", "0008"] {
        let sent = text(&ada, ending).await.ok();
        let read = as_time_passes(world, &ada, sent.word("id"), "failed").await;
        let error = read.field("error");
        let code = (&error["code"], &error["carrier_code"]);
        assert_eq!(code, (&json!("recipient_unreachable"), &json!("131026")), "{ending}");
        assert_eq!(read.number("charged_credits"), 0);
    }
    assert_eq!(ada.balance().await, GRANT, "what does not arrive costs nothing");
    let sent = text(&ada, "0006").await.ok();
    as_time_passes(world, &ada, sent.word("id"), "delivered").await;
    assert_eq!(ada.balance().await, GRANT - SERVICE);
    for (ending, code) in [("0031", "insufficient_credits"), ("0032", "country_not_allowed")] {
        open_window(&ada, ending).await;
        text(&ada, ending).await.problem(code);
    }
}

async fn receipts_in_disorder_never_move_a_message_down(world: &World) {
    let ada = world.account("ada").await;
    for ending in ["0003", "0005", "0007"] {
        open_window(&ada, ending).await;
    }
    let silent = text(&ada, "0003").await.ok();
    let lost = text(&ada, "0005").await.ok();
    let disorderly = text(&ada, "0007").await.ok();
    read_as(&ada, silent.word("id"), "sent").await;
    read_as(&ada, lost.word("id"), "delivered").await;
    read_as(&ada, disorderly.word("id"), "sent").await;
    world.advance(3_100).await;
    read_as(&ada, disorderly.word("id"), "delivered").await;
    world.advance(clock::MINUTE).await;
    read_as(&ada, disorderly.word("id"), "delivered").await;
    let mut seen = std::collections::BTreeMap::<String, Vec<String>>::new();
    for data in told(&ada, "chatapp.status").await {
        let word = |name: &str| data[name].as_str().unwrap().to_owned();
        seen.entry(word("id")).or_default().push(word("status"));
    }
    assert_eq!(seen[silent.word("id")], ["sent"]);
    assert_eq!(seen[lost.word("id")], ["sent", "delivered"]);
    assert_eq!(seen[disorderly.word("id")], ["sent", "delivered"]);
    // Nobody ever says what became of it: the chat-app has it, so it stays charged.
    world.advance(clock::DAY + clock::MINUTE).await;
    read_as(&ada, silent.word("id"), "sent").await;
    assert_eq!(ada.balance().await, GRANT - 3 * SERVICE);
}

async fn what_is_not_approved_is_refused_before_it_is_charged(world: &World) {
    let ada = world.account("ada").await;
    let body = json!({"to": phone("5678"), "template_name": "order_update",
        "template_params": ["a", "b"], "billing_mode": "direct"});
    write(&ada, &body).await.problem("template_not_approved");
    ada.call("POST", "/v1/chatapp/templates").json(order_update()).await.ok();
    write(&ada, &body).await.problem("template_not_approved");
    world.advance(1_000).await;
    let mut wrong = body.clone();
    wrong["template_params"] = json!(["a"]);
    write(&ada, &wrong).await.fault("/template_params", "invalid_template_params");
    let mut other = body.clone();
    other["template_language"] = json!("en");
    write(&ada, &other).await.problem("template_not_approved");
    other["template_language"] = json!("fr");
    other["template_id"] = json!("17");
    write(&ada, &other).await.problem("template_not_approved");
    assert_eq!(ada.balance().await, GRANT);
    write(&ada, &body).await.ok();
    let eve = world.account("eve").await;
    write(&eve, &body).await.problem("template_not_approved");
}

async fn faults_are_named(world: &World) {
    let ada = world.account("ada").await;
    let good = json!({"to": phone("5678"), "text": "x", "billing_mode": "direct"});
    for (name, value, code) in [
        ("to", json!("12"), "invalid_phone_number"),
        ("to", json!(null), "required"),
        ("text", json!(null), "text_or_template_required"),
        ("text", json!("x".repeat(4_097)), "too_long"),
        ("text", json!(" \n "), "too_short"),
        ("text", json!(""), "too_short"),
        ("billing_mode", json!(null), "required"),
        ("billing_mode", json!("credit"), "invalid_enum"),
        ("template_params", json!("x"), "invalid_type"),
        ("template_language", json!("French"), "invalid_enum"),
        ("components", json!([1]), "invalid_type"),
        ("country", json!("DE"), "invalid_enum"),
        ("colour", json!(1), "unknown_field"),
    ] {
        let mut body = good.clone();
        body[name] = value.clone();
        let answer = write(&ada, &body).await.problem("validation_failed");
        let found = answer.item(&format!("/{name}")).or(answer.item(&format!("/{name}/0")));
        assert_eq!(found.as_deref(), Some(code), "{name} {value}");
    }
    let without = json!({"to": phone("5678"), "text": "x"});
    let answer = write(&ada, &without).await.problem("validation_failed");
    let said = answer.field("errors")[0]["detail"].as_str().unwrap();
    assert!(said.contains("direct") && said.contains("session"), "the words are there: {said}");
    let few = ada.new_key("few", &["account:read"]).await;
    let path = "/v1/chatapp/messages";
    let by = world.post(ada.env, path).key(few.word("api_key")).json(&good).await;
    by.problem("insufficient_scope");
    ada.desk("POST", path).json(&good).await.problem("missing_credentials");
}

/// What the upstream would refuse is refused before it is charged, in the sandbox as on live.
async fn what_does_not_fit_a_template_is_named(world: &World) {
    let ada = world.account("ada").await;
    let declared = json!({"name": "track", "body": "Bonjour {{1}}, merci.", "buttons": [
        {"type": "URL", "text": "Voir", "url": "https://example.com/{{1}}"},
        {"type": "QUICK_REPLY", "text": "Merci"}]});
    declare(world, &ada, &declared).await;
    declare(world, &ada, &json!({"name": "code", "body": "x", "category": "AUTHENTICATION"})).await;
    let text = |text: &str| json!([{"type": "text", "text": text}]);
    let url = |index: usize| {
        let values = text("12");
        json!({"type": "button", "sub_type": "url", "index": index, "parameters": values})
    };
    let send = async |params: Value, components: Value| {
        let body = json!({"to": phone("5678"), "template_name": "track", "billing_mode": "direct",
            "template_params": params, "components": components});
        write(&ada, &body).await
    };
    for (params, components, pointer) in [
        (json!([" "]), json!([url(0)]), "/components"),
        (json!(["a\nb"]), json!([]), "/template_params"),
        (json!(["a     b"]), json!([]), "/template_params"),
        (json!(["Ana"]), json!([]), "/components"),
        (json!(["Ana"]), json!([url(1)]), "/components"),
        (json!(["Ana"]), json!([url(0), url(7)]), "/components"),
        (json!(["Ana"]), json!([{"type": "footer"}, url(0)]), "/components"),
        (json!(["Ana"]), json!([{"type": "button", "parameters": []}]), "/components"),
        (json!([]), json!([url(0), {"type": "body", "parameters": text("")}]), "/components"),
    ] {
        let refused = send(params, components.clone()).await;
        refused.fault(pointer, "invalid_template_params");
    }
    assert_eq!(ada.balance().await, GRANT);
    let sent = send(json!(["Ana"]), json!([url(0)])).await.ok();
    read_as(&ada, sent.word("id"), "delivered").await;
    // The code goes behind the button by itself.
    let body = json!({"to": phone("5678"), "template_name": "code", "template_params": ["1234"],
        "billing_mode": "direct"});
    let sent = write(&ada, &body).await.ok();
    read_as(&ada, sent.word("id"), "delivered").await;
}

async fn a_repeat_sends_once(world: &World) {
    let ada = world.account("ada").await;
    open_window(&ada, "5678").await;
    let first = text(&ada, "5678").header("idempotency-key", "one").await.ok();
    read_as(&ada, first.word("id"), "delivered").await;
    let again = text(&ada, "5678").header("idempotency-key", "one").await.ok();
    assert_eq!(again.head("idempotent-replayed"), "true");
    assert_eq!((again.word("id"), again.word("status")), (first.word("id"), "delivered"));
    assert_eq!(ada.balance().await, GRANT - SERVICE);
}

async fn who_said_stop_is_not_written_to(world: &World) {
    let ada = world.account("ada").await;
    open_window(&ada, "5678").await;
    reply(&ada, "5678", &json!({"text": "STOP"})).await.ok();
    text(&ada, "5678").await.problem("recipient_opted_out");
    let by_session = json!({"to": phone("5678"), "text": "x", "billing_mode": "session"});
    write(&ada, &by_session).await.problem("recipient_opted_out");
    reply(&ada, "5678", &json!({"text": "START"})).await.ok();
    write(&ada, &by_session).await.problem("no_active_session");
    text(&ada, "5678").await.ok();
}

async fn lists_are_filtered_and_another_account_sees_nothing(world: &World) {
    let (ada, eve) = (world.account("ada").await, world.account("eve").await);
    for ending in ["5678", "5679"] {
        open_window(&ada, ending).await;
        let sent = text(&ada, ending).await.ok();
        read_as(&ada, sent.word("id"), "delivered").await;
        let path = format!("/v1/chatapp/messages/{}", sent.word("id"));
        eve.get(&path).await.problem("not_found");
    }
    let count = async |query: &str| {
        let path = format!("/v1/chatapp/messages{query}");
        ada.desk("GET", &path).await.ok().list().len()
    };
    assert_eq!(count("").await, 2);
    assert_eq!(count(&format!("?to={}", phone("5679").replace('+', "%2B"))).await, 1);
    assert_eq!((count("?status=delivered").await, count("?status=failed").await), (2, 0));
    assert_eq!(count("?limit=1").await, 1);
    let body =
        json!({"to": phone("5678"), "text": "x", "billing_mode": "direct", "reference": "r-1"});
    write(&ada, &body).await.ok();
    assert_eq!((count("?reference=r-1").await, count("?reference=r-2").await), (1, 0));
    assert!(eve.get("/v1/chatapp/messages").await.ok().list().is_empty());
    ada.get("/v1/chatapp/messages?status=x").await.problem("invalid_request");
}

async fn a_session_that_is_not_there_is_said_before_the_window(world: &World) {
    let ada = world.account("ada").await;
    let body = json!({"to": phone("5678"), "text": "x", "billing_mode": "session"});
    write(&ada, &body).await.problem("no_active_session");
    open_window(&ada, "5678").await;
    write(&ada, &body).await.problem("no_active_session");
}
