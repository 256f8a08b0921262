//! The POSTs of webhooks and support.

use serde_json::{Value, json};

use super::{Body, By, Row};
use crate::support::{change, open};
use crate::webhooks::hook;
use crate::world::tenant::Tenant;

pub(super) async fn of_webhooks(ada: &Tenant<'_>) -> Vec<Row> {
    // Nobody listens there: what is delivered fails, and is kept. And only tests are delivered, so
    // that nothing happens by itself.
    let made = hook(ada, "http://127.0.0.1:9999/", &["chatapp.consent"]).await;
    let id = made.word("id").to_owned();
    let tested = ada.desk("POST", &format!("/v1/webhooks/{id}/test")).await.ok();
    let delivery = tested.word("id").to_owned();
    let row = |route: &'static str, same, body| {
        let path = route.replace("{webhook_id}", &id).replace("{delivery_id}", &delivery);
        Row { route, path, by: By::Bearer(ada.token.clone()), body, same }
    };
    let url = |port: u16| -> Value {
        json!({"url": format!("http://127.0.0.1:{port}/"), "events": ["chatapp.consent"]})
    };
    let now = ada.world.now();
    let [earlier, later] = [now - 60_000, now - 30_000].map(|at| json!({"since": at.to_string()}));
    vec![
        row("/v1/webhooks", "secret", super::json(url(9_998), url(9_997))),
        row(
            "/v1/webhooks/{webhook_id}/test",
            "id",
            super::json(json!({"type": "otp.status"}), json!({"type": "sms.delivery"})),
        ),
        row("/v1/webhooks/{webhook_id}/rotate-secret", "secret", Body::Empty),
        row("/v1/webhooks/{webhook_id}/recover", "since", super::json(earlier, later)),
        row("/v1/webhook-deliveries/{delivery_id}/retry", "id", Body::Empty),
    ]
}

pub(super) async fn of_support(ada: &Tenant<'_>) -> Vec<Row> {
    let world = ada.world;
    let [ticket, rated, merged] =
        [open(ada, "a", "m").await, open(ada, "b", "m").await, open(ada, "c", "m").await];
    change(world, &rated, json!({"status": "resolved"})).await.ok();
    let desk = By::Bearer(ada.token.clone());
    // The password of the first member of staff is another one by now, their token is good.
    let staff = By::Bearer(world.staff().await.to_owned());
    let row = |route: &'static str, same, body| {
        let about = match route {
            _ if route.ends_with("/rating") => &rated,
            _ if route.ends_with("/merge") => &merged,
            _ => &ticket,
        };
        let by = if route.starts_with("/v1/admin") { staff.clone() } else { desk.clone() };
        Row { route, path: route.replace("{ticket_id}", about), by, body, same }
    };
    let said = || super::json(json!({"message": "one"}), json!({"message": "two"}));
    let read = || super::json(json!({"seq": 1}), json!({"seq": 2}));
    let opened = |subject: &str| {
        json!({
            "subject": subject, "category": "delivery", "priority": "normal", "message": "m",
        })
    };
    let canned = |title: &str| json!({"title": title, "body": "text"});
    vec![
        row("/v1/support/tickets", "id", super::json(opened("d"), opened("e"))),
        row("/v1/support/tickets/{ticket_id}/messages", "id", said()),
        row("/v1/support/tickets/{ticket_id}/files", "id", Body::File),
        row("/v1/support/tickets/{ticket_id}/read", "id", read()),
        row("/v1/support/tickets/{ticket_id}/ws-token", "token", Body::Empty),
        row(
            "/v1/support/tickets/{ticket_id}/rating",
            "id",
            super::json(json!({"score": 5}), json!({"score": 4})),
        ),
        row("/v1/admin/support/tickets/{ticket_id}/messages", "id", said()),
        row("/v1/admin/support/tickets/{ticket_id}/files", "id", Body::File),
        row("/v1/admin/support/tickets/{ticket_id}/read", "id", read()),
        row("/v1/admin/support/tickets/{ticket_id}/ws-token", "token", Body::Empty),
        row(
            "/v1/admin/support/tickets/{ticket_id}/merge",
            "id",
            super::json(json!({"into": ticket}), json!({"into": rated})),
        ),
        row("/v1/admin/canned-replies", "id", super::json(canned("a"), canned("b"))),
    ]
}
