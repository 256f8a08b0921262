//! Stories of money: the ledger, balances, prices, pages.

use estafette::app::Env;
use serde_json::{Value, json};

use crate::on_every_engine;
use crate::world::World;
use crate::world::contract::{is_id, is_instant};
use crate::world::tenant::{Tenant, phone};

on_every_engine!(
    a_send_is_held_and_posted,
    a_refusal_is_held_and_voided,
    the_balance_is_the_sum_of_the_ledger,
    staff_give_and_take_credits,
    credits_that_were_moved_are_answered_whatever_fails_behind_them,
    postpaid_accounts_have_a_limit,
    prices_follow_the_country_and_their_validity,
    a_promotion_leaves_the_price_before_it_standing,
    a_new_base_price_ends_a_promotion,
    a_scheduled_base_price_ends_what_was_set_after_it,
    a_promotion_and_a_base_price_may_begin_together,
    the_ledger_pages_to_its_end_without_gaps_or_doubles,
    a_tampered_cursor_is_refused,
);

fn word<'a>(row: &'a Value, name: &str) -> &'a str {
    row[name].as_str().unwrap_or_else(|| panic!("{name} in {row}"))
}

async fn a_send_is_held_and_posted(world: &World) {
    let ada = world.account("ada").await;
    let sent = ada.send_to(&phone("5678")).await.ok();
    ada.until(sent.word("challenge_id"), |now| now["status"] == "delivered").await;
    let price = world.price("chatapp", "FR");
    let rows = ada.ledger().await;
    let kinds: Vec<&str> = rows.iter().map(|row| word(row, "kind")).collect();
    assert_eq!(kinds, ["topup", "hold", "post"]);
    for row in &rows {
        assert!(is_id("txn", word(row, "id")), "{row}");
        assert!(is_instant(word(row, "created_at")), "{row}");
    }
    let amounts: Vec<i64> = rows.iter().filter_map(|row| row["amount"].as_i64()).collect();
    assert_eq!(amounts.iter().sum::<i64>(), 1_000_000 - price, "{amounts:?}");
    assert_eq!(ada.balance().await, 1_000_000 - price);
}

async fn a_refusal_is_held_and_voided(world: &World) {
    let ada = world.account("ada").await;
    let body = json!({"to": phone("0004"), "delivery_mode": "sms"});
    ada.send(body).await.problem("recipient_unreachable");
    let kinds: Vec<String> = ada.movements().await.into_iter().map(|(kind, _)| kind).collect();
    assert_eq!(kinds, ["hold", "void"]);
    assert_eq!(ada.balance().await, 1_000_000);
}

/// What the ledger's rows add up to.
async fn sum(ada: &Tenant<'_>) -> i64 {
    ada.ledger().await.iter().map(|row| row["amount"].as_i64().unwrap()).sum()
}

async fn the_balance_is_the_sum_of_the_ledger(world: &World) {
    let ada = world.account("ada").await;
    for ending in ["5678", "0001", "0002", "0003", "0005", "0006", "0007", "0008"] {
        ada.send_to(&phone(ending)).await.ok();
    }
    ada.send_to(&phone("0004")).await.problem("recipient_unreachable");
    ada.send(json!({"to": phone("0021"), "delivery_mode": "sms"})).await.ok();
    world.credit(&ada, -1_000).await.ok();
    world.credit(&ada, 250).await.ok();
    for _ in 0..8 {
        world.advance(5_000).await;
    }
    world.advance(400_000).await;
    let balance = ada.balance().await;
    assert_eq!(balance, sum(&ada).await);
    let (chatapp, sms) = (world.price("chatapp", "FR"), world.price("sms", "FR"));
    // By chat-app: 5678, 0005, 0006, 0007. By SMS: 0001, 0002, 0003, 0008.
    assert_eq!(balance, 1_000_000 - 750 - 4 * chatapp - 4 * sms);
}

async fn staff_give_and_take_credits(world: &World) {
    let ada = world.live_account("ada", 0).await;
    let answer = world.credit(&ada, 500).await.ok();
    assert_eq!(answer.number("balance_credits"), 500);
    assert_eq!(answer.word("account_id"), ada.account_id);
    world.credit(&ada, -200).await.ok();
    assert_eq!(ada.balance().await, 300);
    world.credit(&ada, -301).await.fault("/amount", "out_of_range");
    world.credit(&ada, 0).await.problem("validation_failed");
    assert_eq!(ada.balance().await, 300);
    world.credit(&ada, -300).await.ok();
    assert_eq!(ada.balance().await, 0);
    let rows = ada.ledger().await;
    let seen: Vec<(&str, i64)> =
        rows.iter().map(|row| (word(row, "kind"), row["amount"].as_i64().unwrap())).collect();
    assert_eq!(seen, [("topup", 500), ("correction", -200), ("correction", -300)]);
    let path = format!("/v1/admin/accounts/{}/ledger", ada.account_id);
    let staff = world.get(ada.env, &path).bearer(world.staff().await).await.ok();
    assert_eq!(staff.list().len(), 3);
}

async fn credits_that_were_moved_are_answered_whatever_fails_behind_them(world: &World) {
    let ada = world.live_account("ada", 0).await;
    for (amount, own) in [(500, 500), (-200, 300)] {
        let held = world.faults.hold("INSERT INTO transfers");
        let fail = async {
            held.came().await;
            world.faults.plan_reads("SELECT billing_mode, status, posted", 1);
            held.let_go();
        };
        let (answer, ()) = tokio::join!(world.credit(&ada, amount), fail);
        assert_eq!(answer.ok().number("balance_credits"), own);
        assert_eq!(world.faults.reads_left(), 1, "nothing is read behind the commit");
        world.get(ada.env, "/v1/balance").key(&ada.key).await;
        assert_eq!(world.faults.reads_left(), 0);
    }
    assert_eq!(ada.ledger().await.len(), 2);
}

async fn postpaid_accounts_have_a_limit(world: &World) {
    let ada = world.account("ada").await;
    world.credit(&ada, -1_000_000).await.ok();
    let price = world.price("chatapp", "FR");
    let change = json!({"billing_mode": "postpaid", "credit_limit": 2 * price});
    world.set(&ada, change).await.ok();
    assert_eq!(ada.me().await.word("billing_mode"), "postpaid");
    ada.send_to(&phone("5671")).await.ok();
    ada.send_to(&phone("5672")).await.ok();
    ada.send_to(&phone("5673")).await.problem("insufficient_credits");
    // What was spent on credit is a debt, and shown as one: neither mode nor limit may hide it.
    assert_eq!(ada.balance().await, -2 * price);
    let back = world.set(&ada, json!({"credit_limit": price})).await;
    assert_eq!(back.status, 422, "{}", back.text);
    let back = world.set(&ada, json!({"billing_mode": "prepaid"})).await;
    assert_eq!(back.status, 422, "{}", back.text);
    world.credit(&ada, 2 * price).await.ok();
    world.set(&ada, json!({"billing_mode": "prepaid", "credit_limit": 0})).await.ok();
    ada.send_to(&phone("5673")).await.problem("insufficient_credits");
}

async fn prices_follow_the_country_and_their_validity(world: &World) {
    let ada = world.account("ada").await;
    let staff = world.staff().await;
    let put = |country: &str, credits: i64, from: clock::Millis| {
        let body = json!({
            "channel": "sms", "category": "authentication", "country": country,
            "credits": credits, "valid_from": from.to_string(),
        });
        let body = json!({"prices": [body]});
        world.put(ada.env, "/v1/admin/prices").bearer(staff).json(body)
    };
    put("FR", 31, world.now()).await.ok();
    put("FR", 77, world.now() + 3_600_000).await.ok();
    let cost = async |to: &str, reference: &str| {
        let before = ada.balance().await;
        ada.send(json!({"to": to, "delivery_mode": "sms", "reference": reference})).await.ok();
        before - ada.balance().await
    };
    // Prices are remembered for five seconds of real time at most.
    world.restart().await;
    assert_eq!(cost("+33612345678", "a").await, 31);
    assert_eq!(cost("+22890112345", "a").await, world.price("sms", "*"));
    world.advance(3_600_001).await;
    world.restart().await;
    assert_eq!(cost("+33612345678", "b").await, 77);
    for env in [Env::Live, Env::Sandbox] {
        let list = world.get(env, "/v1/admin/prices").bearer(staff).await.ok();
        let is_it = |row: &Value| row["credits"] == 77 && row["country"] == "FR";
        assert!(list.list().iter().any(is_it), "one table for both");
    }
    for (channel, category) in [("sms", "utility"), ("email", "session"), ("chatapp", "message")] {
        let price = json!({"channel": channel, "category": category, "country": "*", "credits": 1});
        let put = world.put(ada.env, "/v1/admin/prices").bearer(staff);
        let put = put.json(json!({"prices": [price]})).await;
        put.fault("/prices/0/category", "invalid_enum");
    }
}

/// Sets the price of a passcode by SMS to France.
async fn set_price(world: &World, credits: i64, until: Option<clock::Millis>) -> Value {
    let price = json!({
        "channel": "sms", "category": "authentication", "country": "FR", "credits": credits,
        "valid_until": until.map(|at| at.to_string()),
    });
    let call = world.put(Env::Sandbox, "/v1/admin/prices").bearer(world.staff().await);
    call.json(json!({"prices": [price]})).await.ok().body
}

/// What a passcode by SMS to France costs now.
async fn cost(ada: &Tenant<'_>) -> i64 {
    let before = ada.balance().await;
    let body = json!({"to": phone("5678"), "delivery_mode": "sms"});
    ada.send(body).await.ok();
    before - ada.balance().await
}

async fn a_promotion_leaves_the_price_before_it_standing(world: &World) {
    let ada = world.account("ada").await;
    set_price(world, 31, None).await;
    assert_eq!(cost(&ada).await, 31);
    let end = world.now() + 3_600_000;
    let all = set_price(world, 5, Some(end)).await;
    let shown = |credits: i64| {
        let rows = all.as_array().unwrap();
        let is_it = |row: &&Value| row["country"] == "FR" && row["credits"] == credits;
        rows.iter().find(is_it).unwrap()["valid_until"].clone()
    };
    assert_eq!((shown(5), shown(31)), (json!(end.to_string()), Value::Null));
    assert_eq!(cost(&ada).await, 5);
    world.advance(end - world.now() - 1_000).await;
    assert_eq!(cost(&ada).await, 5);
    // What a node remembers of prices ends with the promotion.
    world.advance(1_000).await;
    assert_eq!(cost(&ada).await, 31, "when it ends, the price before it holds again");
    // One that ended does not come back, and the country's price is not lost with a second one.
    set_price(world, 6, Some(world.now() + 60_000)).await;
    assert_eq!(cost(&ada).await, 6);
    world.advance(60_000).await;
    assert_eq!(cost(&ada).await, 31);
}

async fn a_new_base_price_ends_a_promotion(world: &World) {
    let ada = world.account("ada").await;
    set_price(world, 5, Some(world.now() + 3_600_000)).await;
    assert_eq!(cost(&ada).await, 5);
    set_price(world, 40, None).await;
    assert_eq!(cost(&ada).await, 40);
    world.advance(3_700_000).await;
    assert_eq!(cost(&ada).await, 40);
}

async fn a_scheduled_base_price_ends_what_was_set_after_it(world: &World) {
    let ada = world.account("ada").await;
    let begin = world.now() + 3_600_000;
    let instant = |at: clock::Millis| json!(at.to_string());
    let later = |credits: i64, from: clock::Millis| {
        json!({
            "channel": "sms", "category": "authentication", "country": "FR",
            "credits": credits, "valid_from": instant(from),
        })
    };
    let put = world.put(Env::Sandbox, "/v1/admin/prices").bearer(world.staff().await);
    let prices = json!({"prices": [later(88, begin + 3_600_000), later(77, begin)]});
    put.json(prices).await.ok();
    set_price(world, 31, None).await;
    let promotion_end = begin + 1_800_000;
    set_price(world, 9, Some(begin - 1_800_000)).await;
    let all = set_price(world, 5, Some(promotion_end)).await;
    let rows = all.as_array().unwrap();
    let shown = |credits: i64| {
        let is_it = |row: &&Value| row["country"] == "FR" && row["credits"] == credits;
        rows.iter().find(is_it).unwrap()["valid_until"].clone()
    };
    assert_eq!(shown(9), instant(begin - 1_800_000), "it ends before");
    assert_eq!((shown(5), shown(31)), (instant(begin), instant(begin)));
    assert_eq!((shown(77), shown(88)), (instant(begin + 3_600_000), Value::Null));
    assert_eq!(cost(&ada).await, 5);
    world.advance(begin - world.now()).await;
    assert_eq!(cost(&ada).await, 77, "the promotion is over with the price that it was made for");
    let list = world.get(Env::Sandbox, "/v1/admin/prices").bearer(world.staff().await).await.ok();
    let left = list.list().iter().filter(|row| row["country"] == "FR");
    let mut left: Vec<_> = left.filter(|row| row["category"] == "authentication").collect();
    left.retain(|row| row["channel"] == "sms");
    let mut left: Vec<i64> = left.iter().filter_map(|row| row["credits"].as_i64()).collect();
    left.sort_unstable();
    assert_eq!(left, [77, 88], "what ended is not listed");
}

async fn a_promotion_and_a_base_price_may_begin_together(world: &World) {
    let ada = world.account("ada").await;
    let put = async |prices: &[Value]| {
        let call = world.put(Env::Sandbox, "/v1/admin/prices").bearer(world.staff().await);
        call.json(json!({"prices": prices})).await.ok()
    };
    let hour = 3_600_000;
    let price = |credits: i64, from: clock::Millis, until: Option<clock::Millis>| {
        json!({
            "channel": "sms", "category": "authentication", "country": "FR", "credits": credits,
            "valid_from": from.to_string(), "valid_until": until.map(|at| at.to_string()),
        })
    };
    set_price(world, 31, None).await;
    for (round, is_one_request) in [false, false, true, true].into_iter().enumerate() {
        let begin = world.now() + hour;
        let base = price(40, begin, None);
        let mut both = [price(5, begin, Some(begin + hour)), base.clone()];
        if round % 2 == 1 {
            both.reverse();
        }
        if is_one_request {
            put(&both).await;
        } else {
            put(&both[..1]).await;
            put(&both[1..]).await;
        }
        world.advance(hour).await;
        assert_eq!(cost(&ada).await, 5, "round {round}");
        world.advance(hour).await;
        assert_eq!(cost(&ada).await, 40, "round {round}");
    }
    // What begins at once, too, if it comes with the base price, and not after it.
    put(&[price(6, world.now(), Some(world.now() + hour)), price(41, world.now(), None)]).await;
    assert_eq!(cost(&ada).await, 6);
    set_price(world, 42, None).await;
    assert_eq!(cost(&ada).await, 42);
}

async fn the_ledger_pages_to_its_end_without_gaps_or_doubles(world: &World) {
    let ada = world.account("ada").await;
    for amount in 1..=23 {
        world.credit(&ada, amount).await.ok();
    }
    let all = ada.desk("GET", "/v1/ledger?limit=200").await.ok();
    assert_eq!(all.list().len(), 24);
    let mut path = "/v1/ledger?limit=5".to_owned();
    let mut seen: Vec<Value> = vec![];
    for page in 0..5 {
        let answer = ada.desk("GET", &path).await.ok();
        assert_eq!(answer.list().len(), if page < 4 { 5 } else { 4 });
        seen.extend(answer.list().iter().cloned());
        // A new row while somebody turns pages is neither shown twice nor shifts the others.
        world.credit(&ada, 1_000 + page).await.ok();
        let link = answer.head("link");
        if page == 4 {
            assert_eq!(link, "");
            break;
        }
        let target = link.strip_prefix('<').and_then(|rest| rest.split_once('>')).expect("a link");
        assert!(target.1.contains("rel=\"next\""), "{link}");
        let start = target.0.find("/v1/").expect("a path");
        target.0[start..].clone_into(&mut path);
    }
    assert_eq!(seen, all.list());
}

async fn a_tampered_cursor_is_refused(world: &World) {
    let ada = world.account("ada").await;
    world.credit(&ada, 1).await.ok();
    let answer = ada.desk("GET", "/v1/ledger?limit=1").await.ok();
    let link = answer.head("link");
    let (_, rest) = link.split_once("cursor=").expect("a cursor");
    let cursor: String = rest.chars().take_while(|letter| !">&".contains(*letter)).collect();
    let first = if cursor.starts_with('A') { "B" } else { "A" };
    let tampered = format!("{first}{}", &cursor[1..]);
    for bad in [tampered.as_str(), "x", "", "AAAAAAAAAAAAAAAAAAAAAAAA"] {
        let answer = ada.desk("GET", &format!("/v1/ledger?cursor={bad}")).await;
        answer.problem("invalid_cursor");
    }
    let other = ada.desk("GET", &format!("/v1/api-keys?cursor={cursor}")).await;
    other.problem("invalid_cursor");
    ada.desk("GET", &format!("/v1/ledger?cursor={cursor}&limit=1")).await.ok();
    for limit in ["0", "201", "x", "-1"] {
        let answer = ada.desk("GET", &format!("/v1/ledger?limit={limit}")).await;
        assert_eq!(
            answer.problem("invalid_request").item("?limit").as_deref(),
            Some("out_of_range")
        );
    }
}
