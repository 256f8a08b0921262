//! Which carrier takes what, and what happens when staff says otherwise.

use estafette::app::Env;
use playground::smsc::IdStyle;
use serde_json::{Value, json};

use super::{Centre, give, sender, settings, until_up};
use crate::on_every_engine;
use crate::world::tenant::phone;
use crate::world::{Call, World, eventually};

on_every_engine!(
    staff_moves_routes_while_messages_go_out,
    of_two_changes_the_one_stored_last_is_in_force,
    a_carrier_that_is_down_is_passed_over,
    a_number_that_no_route_leads_to_costs_nothing,
    routes_that_cannot_be_meant_are_refused,
    routes_for_whom_there_is_not_are_refused,
    routes_outlive_the_carriers_that_they_name,
    the_settings_say_all_that_staff_may_say,
);

pub(super) async fn put(world: &World, body: Value) -> Call {
    world.put(Env::Live, "/v1/admin/routes").bearer(world.staff().await).json(body)
}

async fn staff_moves_routes_while_messages_go_out(world: &World) {
    let (one, two) = (Centre::new(IdStyle::Decimal).await, Centre::new(IdStyle::Decimal).await);
    give(world, settings(&[("one", one.address, ""), ("two", two.address, "")])).await;
    until_up(world, "one").await;
    until_up(world, "two").await;
    let ada = sender(world, "ada").await;
    let staff = world.staff().await;
    let shown = world.get(Env::Live, "/v1/admin/routes").bearer(staff).await.ok();
    assert_eq!(shown.list()[0]["carriers"], json!(["one", "two"]));
    let text = async |ending: &str, class: &str| {
        let body = json!({"to": phone(ending), "text": "hi", "class": class});
        let id = ada.text(body).await.ok().word("id").to_owned();
        ada.sms_until(&id, "delivered").await;
    };
    text("5678", "transactional").await;
    assert_eq!((one.came_to(&phone("5678")).len(), two.came_to(&phone("5678")).len()), (1, 0));
    let routes = json!({"routes": [
        {"prefix": "+", "carriers": ["one"]},
        {"prefix": "+336", "class": "bulk", "carriers": [
            {"name": "two", "priority": 1, "weight": 5, "price": 3},
            {"name": "one", "priority": 2, "price": 9},
        ], "max_price": 4},
    ]});
    let answer = put(world, routes.clone()).await.await.ok();
    assert_eq!(answer.list()[1]["carriers"][0]["weight"], 5);
    text("5678", "transactional").await;
    text("5679", "bulk").await;
    assert_eq!((one.came_to(&phone("5678")).len(), two.came_to(&phone("5679")).len()), (2, 1));
    // They outlive a restart, and end when staff takes them away.
    world.restart().await;
    eventually(async || {
        let shown = world.get(Env::Live, "/v1/admin/routes").bearer(staff).await.ok();
        (shown.list().len() == 2).then_some(())
    })
    .await;
    let shown = put(world, json!([])).await.await.ok();
    assert_eq!(shown.list()[0]["carriers"], json!(["one", "two"]), "as at first");
    let log =
        world.get(Env::Live, "/v1/admin/audit-log?action=routes.set").bearer(staff).await.ok();
    assert_eq!(log.list().len(), 2);
    assert_eq!(log.list()[0]["detail"]["table"], json!([]));
    assert_eq!(log.list()[1]["detail"]["table"].as_array().unwrap().len(), 2, "{}", log.text);
}

async fn of_two_changes_the_one_stored_last_is_in_force(world: &World) {
    let nowhere = "127.0.0.1:1".parse().unwrap();
    give(world, settings(&[("one", nowhere, ""), ("two", nowhere, "")])).await;
    let staff = world.staff().await;
    let to = |name: &str| json!([{"prefix": "+", "carriers": [name]}]);
    put(world, to("two")).await.await.ok();
    // The first change is stored, and its request does not know it yet.
    let held = world.faults.hold_answer("INSERT INTO sms_routes");
    let first = put(world, to("one")).await;
    let later = async {
        held.came().await;
        put(world, to("two")).await.await.ok();
        held.let_go();
    };
    let (first, ()) = tokio::join!(std::future::IntoFuture::into_future(first), later);
    assert_eq!(first.ok().list()[0]["carriers"], json!(["two"]), "it tells what is in force");
    let shown = world.get(Env::Live, "/v1/admin/routes").bearer(staff).await.ok();
    assert_eq!(shown.list()[0]["carriers"], json!(["two"]));
    // Nor does a node that looks again find anything else.
    world.restart().await;
    let shown = world.get(Env::Live, "/v1/admin/routes").bearer(staff).await.ok();
    assert_eq!(shown.list()[0]["carriers"], json!(["two"]));
}

async fn a_carrier_that_is_down_is_passed_over(world: &World) {
    let nowhere = "127.0.0.1:1".parse().unwrap();
    let two = Centre::new(IdStyle::Decimal).await;
    give(world, settings(&[("one", nowhere, ""), ("two", two.address, "")])).await;
    until_up(world, "two").await;
    let ada = sender(world, "ada").await;
    let id = ada.text(json!({"to": phone("5678"), "text": "hi"})).await.ok();
    ada.sms_until(id.word("id"), "delivered").await;
    ada.send(json!({"to": phone("5678"), "delivery_mode": "sms"})).await.ok();
    assert_eq!(two.came_to(&phone("5678")).len(), 2);
    assert_eq!(super::carrier(world, "one").await["state"], "down");
}

async fn a_number_that_no_route_leads_to_costs_nothing(world: &World) {
    let one = Centre::new(IdStyle::Decimal).await;
    give(world, settings(&[("one", one.address, "")])).await;
    until_up(world, "one").await;
    let ada = sender(world, "ada").await;
    put(
        world,
        json!([{"prefix": "+44", "carriers": ["one"]},
        {"prefix": "+336", "class": "bulk", "carriers": ["one"]}]),
    )
    .await
    .await
    .ok();
    let (to, other) = (phone("5678"), "+447400123456");
    let passcode = |to: &str, mode: &str| json!({"to": to, "delivery_mode": mode});
    for refused in [
        ada.send(passcode(&to, "sms")).await,
        ada.send(json!({"to": to})).await,
        ada.text(json!({"to": to, "text": "hi"})).await,
    ] {
        assert_eq!(refused.status, 503, "{}", refused.text);
        refused.problem("carrier_unavailable");
    }
    // Nothing has happened: no passcode, no message, no money, no event.
    assert!(ada.movements().await.is_empty());
    for list in ["/v1/otp", "/v1/messages", "/v1/events"] {
        let found = ada.get(list).await.ok();
        assert!(found.list().is_empty(), "{list}: {}", found.text);
    }
    assert!(one.came_to(&to).is_empty());
    // The operator sees the routes, and that the carrier is not why.
    assert_eq!(super::carrier(world, "one").await["state"], "up");
    ada.text(json!({"to": to, "text": "hi", "class": "bulk"})).await.ok();
    ada.send(passcode(other, "sms")).await.ok();
    assert_eq!(one.came_to(other).len(), 1);
}

async fn routes_that_cannot_be_meant_are_refused(world: &World) {
    let one = Centre::new(IdStyle::Decimal).await;
    give(world, settings(&[("one", one.address, "")])).await;
    for (routes, pointer, code) in [
        (json!(7), "/routes", "invalid_type"),
        (json!([{"prefix": "+"}]), "/routes/0/carriers", "required"),
        (json!([7]), "/routes/0", "invalid_type"),
        (json!([{"prefix": 33, "carriers": ["one"]}]), "/routes/0/prefix", "invalid_type"),
        (
            json!([{"prefix": "+", "carriers": [{"nam": "one"}]}]),
            "/routes/0/carriers/0/name",
            "required",
        ),
        (json!([{"prefix": "+", "carriers": ["one", 7]}]), "/routes/0/carriers/1", "invalid_type"),
        (json!([{"prefix": "+", "carriers": "one"}]), "/routes/0/carriers", "invalid_type"),
        (
            json!([{"prefix": "+", "class": "otp", "carriers": ["one"]}]),
            "/routes/0/class",
            "invalid_enum",
        ),
        (json!([{"prefix": "33", "carriers": ["one"]}]), "/routes/0/prefix", "out_of_range"),
        (json!([{"prefix": "+", "carriers": ["no"]}]), "/routes/0/carriers/0", "invalid_enum"),
        (json!([{"prefix": "+", "carriers": []}]), "/routes/0/carriers", "out_of_range"),
        (
            json!([{"prefix": "+", "carriers": ["one"]},
                {"prefix": "+33", "carriers": ["one", "one"]}]),
            "/routes/1/carriers/1",
            "invalid_enum",
        ),
        (
            json!([{"prefix": "+", "carriers": [{"name": "one"}, {"name": "one", "weight": 2}]}]),
            "/routes/0/carriers/1",
            "invalid_enum",
        ),
        (
            json!([{"prefix": "+", "carriers": [{"name": "one", "price": -1}]}]),
            "/routes/0/carriers/0/price",
            "out_of_range",
        ),
        (
            json!([{"prefix": "+", "carriers": [{"name": "one", "weight": 0}]}]),
            "/routes/0/carriers/0/weight",
            "out_of_range",
        ),
    ] {
        let answer = put(world, json!({"routes": routes})).await.await;
        answer.problem("validation_failed").fault(pointer, code);
    }
    let unknown = json!({"routes": [{"prefix": "+", "carriers": ["no"]}]});
    let unknown = put(world, unknown).await.await;
    assert!(unknown.text.contains("under sms.carriers; known: one"), "{}", unknown.text);
    world.put(Env::Live, "/v1/admin/routes").json(json!([])).await.problem("missing_credentials");
    let shown = world.get(Env::Live, "/v1/admin/routes").bearer(world.staff().await).await.ok();
    assert_eq!(shown.list().len(), 1, "nothing has changed");
}

/// Such a route would never be taken, and what it was meant for would go by another.
async fn routes_for_whom_there_is_not_are_refused(world: &World) {
    let one = Centre::new(IdStyle::Decimal).await;
    give(world, settings(&[("one", one.address, "")])).await;
    let (ada, eve) = (sender(world, "ada").await, world.account("eve").await);
    let of = |account: &str| json!({"prefix": "+33", "account_id": account, "carriers": ["one"]});
    let network = json!({"prefix": "+33", "network": "20815", "carriers": ["one"]});
    let nobody = "acc_01h455vb4pex5vsknk084sn02q";
    // Nobody, an account of the sandbox, and what is no id.
    for account in [nobody, &eve.account_id, "acc_1", ""] {
        let routes = json!({"routes": [of(&ada.account_id), of(account)]});
        let answer = put(world, routes).await.await.problem("validation_failed");
        assert_eq!(answer.field("errors").as_array().unwrap().len(), 1, "{}", answer.text);
        answer.fault("/routes/1/account_id", "invalid_enum");
    }
    // No number has a network where none is looked up.
    let answer = put(world, json!({"routes": [network.clone(), of(nobody)]})).await.await;
    let answer = answer.fault("/routes/0/network", "out_of_range");
    answer.fault("/routes/1/account_id", "invalid_enum");
    let staff = world.staff().await;
    let shown = world.get(Env::Live, "/v1/admin/routes").bearer(staff).await.ok();
    assert_eq!(shown.list().len(), 1, "nothing has changed: {}", shown.text);
    // The control: with the account, and with a look-up.
    put(world, json!({"routes": [of(&ada.account_id)]})).await.await.ok();
    let mut sms = settings(&[("one", one.address, "")]);
    sms.lookup = toml::from_str("url = 'http://127.0.0.1:1/{number}'").unwrap();
    give(world, sms).await;
    let shown = put(world, json!({"routes": [network]})).await.await.ok();
    assert_eq!(shown.list()[0]["network"], "20815");
}

async fn routes_outlive_the_carriers_that_they_name(world: &World) {
    let (one, two) = (Centre::new(IdStyle::Decimal).await, Centre::new(IdStyle::Decimal).await);
    give(world, settings(&[("one", one.address, ""), ("two", two.address, "")])).await;
    let ada = sender(world, "ada").await;
    // What is unknown is left out on live, as everywhere.
    let set = json!([{"prefix": "+", "carriers": ["two", {"name": "one", "cost": 7}], "note": "a"},
        {"prefix": "+33", "carriers": ["two"]}]);
    put(world, set).await.await.ok();
    give(world, settings(&[("one", one.address, "")])).await;
    until_up(world, "one").await;
    let staff = world.staff().await;
    let shown = eventually(async || {
        let shown = world.get(Env::Live, "/v1/admin/routes").bearer(staff).await.ok();
        (shown.list().len() == 2).then_some(shown)
    })
    .await;
    assert_eq!(shown.list()[1]["carriers"], json!(["two"]), "the table is as staff set it");
    let body = json!({"to": phone("5678"), "text": "hi"});
    ada.text(body).await.problem("carrier_unavailable");
    let body = json!({"to": "+447400123456", "text": "hi"});
    ada.sms_until(ada.text(body).await.ok().word("id"), "delivered").await;
    assert_eq!(one.came_to("+447400123456").len(), 1);
}

async fn the_settings_say_all_that_staff_may_say(world: &World) {
    let (one, two) = (Centre::new(IdStyle::Decimal).await, Centre::new(IdStyle::Decimal).await);
    give(world, settings(&[("one", one.address, "")])).await;
    // Settings name an account by its id, which is known once there is one.
    let (ada, eve) = (sender(world, "ada").await, sender(world, "eve").await);
    let mut sms = settings(&[("one", one.address, ""), ("two", two.address, "")]);
    let routes = format!(
        "[[routes]]\nprefix = '+'\ncarriers = ['one']\n\
         [[routes]]\nprefix = '+336'\nclass = 'bulk'\nmax_price = 4\ncarriers = [{{name = 'one', \
         price = 9}}, {{name = 'two', priority = 1, weight = 2, price = 3}}]\n\
         [[routes]]\nprefix = '+336'\naccount_id = '{}'\ncarriers = ['two', 'one']\n",
        eve.account_id
    );
    let table: toml::Table = toml::from_str(&routes).unwrap();
    sms.routes = table["routes"].clone().try_into().unwrap();
    give(world, sms).await;
    until_up(world, "one").await;
    until_up(world, "two").await;
    for (who, class, ending) in
        [(&ada, "transactional", "5611"), (&ada, "bulk", "5612"), (&eve, "transactional", "5613")]
    {
        let body = json!({"to": phone(ending), "text": "hi", "class": class});
        who.sms_until(who.text(body).await.ok().word("id"), "delivered").await;
        let is_by_two = ending != "5611";
        assert_eq!(two.came_to(&phone(ending)).len(), usize::from(is_by_two), "{ending}");
        assert_eq!(one.came_to(&phone(ending)).len(), usize::from(!is_by_two), "{ending}");
    }
    let staff = world.staff().await;
    let shown = world.get(Env::Live, "/v1/admin/routes").bearer(staff).await.ok();
    let second = json!({"name": "two", "priority": 1, "weight": 2, "price": 3});
    assert_eq!(shown.list()[1]["carriers"][1], second, "{}", shown.text);
    assert_eq!(shown.list()[2]["account_id"], json!(eve.account_id));
}
