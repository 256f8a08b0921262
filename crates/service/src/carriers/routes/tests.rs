//! Which route a message takes.

use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::{Choice, Class, Field, Route, Table, Wanted, in_order};
use crate::carriers::binds::Presence::{self, Elsewhere, Here, Nowhere};
use crate::carriers::{Carrier, Lane, Outbound, Outcome};

struct Way(&'static str, Presence);

impl Carrier for Way {
    fn name(&self) -> &str {
        self.0
    }

    fn presence(&self) -> Presence {
        self.1
    }

    fn submit<'a>(&'a self, _: &'a Outbound) -> BoxFuture<'a, Outcome> {
        Box::pin(std::future::ready(Outcome::Unknown))
    }
}

fn lanes(ways: &[(&'static str, Presence)]) -> Vec<Arc<Lane>> {
    ways.iter().map(|(name, presence)| Lane::of(Arc::new(Way(name, *presence)))).collect()
}

fn up() -> Vec<Arc<Lane>> {
    ["a", "b", "c", "d"].map(|name| (name, Presence::Here)).map(|way| lanes(&[way])).concat()
}

fn route(prefix: &str, carriers: &[&str]) -> Route {
    let names = carriers.iter().map(|name| (*name).to_owned());
    Route { prefix: prefix.to_owned(), carriers: in_order(names), ..Route::default() }
}

fn chosen(table: &Table, account: &str, class: Class, number: &str) -> String {
    let lane = table.choose(Wanted { account, class, number, network: None });
    lane.map_or("-".to_owned(), |lane| lane.carrier().name().to_owned())
}

#[test]
fn the_longest_prefix_wins_then_the_account_then_the_class() {
    let routes = vec![
        route("+", &["a"]),
        route("+336", &["b"]),
        Route { account_id: Some("ada".into()), ..route("+33", &["c"]) },
        Route { class: Some(Class::Bulk), ..route("+33", &["d"]) },
        Route { account_id: Some("eve".into()), class: Some(Class::Bulk), ..route("+336", &["c"]) },
    ];
    let table = Table::of(routes, &up()).unwrap();
    for (account, class, number, name) in [
        ("ada", Class::Passcode, "+4479", "a"),
        ("ada", Class::Passcode, "+33700000000", "c"),
        ("bob", Class::Passcode, "+33700000000", "a"),
        ("bob", Class::Bulk, "+33700000000", "d"),
        ("ada", Class::Bulk, "+33700000000", "c"),
        ("ada", Class::Bulk, "+33612345678", "b"),
        ("eve", Class::Bulk, "+33612345678", "c"),
        ("eve", Class::Transactional, "+33612345678", "b"),
    ] {
        assert_eq!(chosen(&table, account, class, number), name, "{account} {class:?} {number}");
    }
    let only = Table::of(vec![route("+33", &["a"])], &up()).unwrap();
    assert_eq!(chosen(&only, "ada", Class::Bulk, "+4479"), "-");
}

#[test]
fn weights_share_and_priorities_stand_in() {
    let choice = |name: &str, priority, weight| Choice {
        name: name.to_owned(),
        priority,
        weight,
        price: None,
    };
    let carriers = vec![choice("a", 1, 3), choice("b", 1, 1), choice("c", 2, 1)];
    let shared = Route { prefix: "+".into(), carriers, ..Route::default() };
    let table = Table::of(vec![shared.clone()], &up()).unwrap();
    let taken: Vec<_> = (0..8).map(|_| chosen(&table, "", Class::Bulk, "+1")).collect();
    assert_eq!(taken.concat(), "aaabaaab");
    for (a, b, c, name) in [
        (Nowhere, Here, Here, "b"),
        (Nowhere, Nowhere, Here, "c"),
        (Nowhere, Elsewhere, Nowhere, "b"),
        (Nowhere, Nowhere, Nowhere, "a"),
        (Elsewhere, Nowhere, Here, "c"),
    ] {
        let table = Table::of(vec![shared.clone()], &lanes(&[("a", a), ("b", b), ("c", c)]));
        assert_eq!(chosen(&table.unwrap(), "", Class::Bulk, "+1"), name);
    }
}

#[test]
fn another_carrier_is_one_that_takes_messages_and_did_not_have_this_one() {
    let mut carriers = in_order(["a", "b", "c"].map(str::to_owned));
    carriers[1].priority = 1;
    let route = Route { prefix: "+".into(), carriers, ..Route::default() };
    for (refused_by, b, c, name) in [
        (&["a"][..], Here, Here, "b"),
        (&["a", "b"], Here, Here, "c"),
        (&["a", "b", "c"], Here, Here, "-"),
        (&["a"], Nowhere, Here, "c"),
        (&["a"], Elsewhere, Nowhere, "b"),
        (&["a"], Nowhere, Nowhere, "-"),
    ] {
        let table = Table::of(vec![route.clone()], &lanes(&[("a", Here), ("b", b), ("c", c)]));
        let wanted = Wanted { account: "", class: Class::Bulk, number: "+1", network: None };
        let refused_by: Vec<_> = refused_by.iter().map(|name| (*name).to_owned()).collect();
        let lane = table.unwrap().another(wanted, &refused_by);
        let found = lane.map_or("-".to_owned(), |lane| lane.carrier().name().to_owned());
        assert_eq!(found, name, "{refused_by:?}");
    }
}

#[test]
fn what_costs_too_much_is_no_choice() {
    let priced = |name: &str, price| Choice {
        name: name.to_owned(),
        priority: 1,
        weight: 1,
        price: Some(price),
    };
    let carriers = vec![priced("a", 9), priced("b", 4)];
    let mut dear = Route { prefix: "+".into(), carriers, max_price: Some(5), ..Route::default() };
    let table = Table::of(vec![dear.clone()], &up()).unwrap();
    assert_eq!(chosen(&table, "", Class::Bulk, "+1"), "b");
    dear.max_price = Some(3);
    assert_eq!(Table::of(vec![dear], &up()).err().unwrap().field, Field::MaxPrice);
}

#[test]
fn tables_that_cannot_be_meant_are_refused() {
    for (wrong, field) in [
        (vec![route("33", &["a"])], Field::Prefix),
        (vec![route("+3a", &["a"])], Field::Prefix),
        (vec![route("+33", &[])], Field::Carriers),
        (vec![route("+33", &["a", "nobody"])], Field::Name(1)),
        (vec![route("+33", &["a", "b", "a"])], Field::Name(2)),
        (vec![route("+33", &["a"]), route("+33", &["b"])], Field::Prefix),
    ] {
        assert_eq!(Table::of(wrong, &up()).err().unwrap().field, field);
    }
}

#[test]
fn carriers_that_are_gone_are_passed_over_and_lead_nowhere_else() {
    let routes = vec![route("+", &["gone", "a"]), route("+33", &["gone"])];
    assert!(Table::of(routes.clone(), &up()).is_err());
    let table = Table::stored(routes.clone(), &up()).unwrap();
    assert_eq!(chosen(&table, "", Class::Bulk, "+44712345678"), "a");
    let wanted = Wanted { account: "", class: Class::Bulk, number: "+33612345678", network: None };
    assert!(!table.leads(wanted) && table.choose(wanted).is_none());
    assert_eq!(table.routes(), routes, "as they were written");
    assert_eq!(Vec::from_iter(table.unknown(&up())), ["gone"]);
}

#[test]
fn the_network_of_a_number_goes_before_its_prefix() {
    let network = |name: &str, route: Route| Route { network: Some(name.to_owned()), ..route };
    let routes = vec![
        route("+", &["a"]),
        route("+3361", &["b"]),
        network("20815", route("+33", &["c"])),
        network("Orange F", route("+", &["d"])),
    ];
    let table = Table::of(routes.clone(), &up()).unwrap();
    let chosen = |number, network| {
        let wanted = Wanted { account: "ada", class: Class::Passcode, number, network };
        table.choose(wanted).unwrap().carrier().name().to_owned()
    };
    for (number, known, carrier) in [
        ("+33612345678", None, "b"),
        ("+33612345678", Some("20815"), "c"),
        ("+33612345678", Some("20801"), "b"),
        ("+33612345678", Some("orange f"), "d"),
        ("+44712345678", Some("20815"), "a"),
    ] {
        assert_eq!(chosen(number, known), carrier, "{number} {known:?}");
    }
    assert!(table.asks("+33612345678"), "for the route of +33");
    let few = Table::of(routes[..3].to_vec(), &up()).unwrap();
    assert!(few.asks("+33612345678") && !few.asks("+44712345678"));
    let twice =
        vec![network("20815", route("+33", &["a"])), network("20815", route("+33", &["b"]))];
    assert_eq!(Table::of(twice, &up()).err().unwrap().field, Field::Prefix);
    assert_eq!(Table::of(vec![network(" ", route("+", &["a"]))], &up()).err().unwrap().at, 0);
}
