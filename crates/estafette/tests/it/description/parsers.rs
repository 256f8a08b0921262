//! The schemas of request bodies and the parsers are two texts; this compares them. The sandbox
//! names what a parser knows when it is asked for a field that it does not know.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::{Operation, Things, document, operations, resolved};
use crate::on_every_engine;
use crate::world::{Answer, World};

on_every_engine!(schemas_of_requests_are_what_the_parsers_take);

/// No parser knows it.
const UNKNOWN: &str = "zzz";
/// Fields that are required in some requests only, which a schema cannot say.
const CONDITIONAL: &[(&str, &str)] = &[
    // Or a canned reply, or a button.
    ("/v1/admin/support/tickets/{ticket_id}/messages", "/message"),
    ("/v1/sandbox/handsets/{phone}/replies", "/text"),
    // Or an email address.
    ("/v1/admin/erasures", "/phone"),
    // Or HTML.
    ("/v1/emails", "/text"),
    // Or another address of the challenge.
    ("/v1/otp/verify", "/challenge_id"),
];
/// Parsed into the very types that are described: one truth. Or a list of what is described and
/// parsed elsewhere, whose faults are in the answer 200.
const BY_TYPE: &[&str] = &["/v1/admin/routes", "/v1/emails/bulk"];
/// What a parser may say of a text that is too long or too short for what it means.
const MEANT: [&str; 2] = ["invalid_code", "invalid_email"];

struct Compared<'a> {
    things: &'a Things<'a>,
    document: &'a Value,
    operation: &'a Operation,
    faults: Vec<String>,
}

async fn schemas_of_requests_are_what_the_parsers_take(world: &World) {
    let (document, things) = (document(), Things::of(world).await);
    let (mut faults, mut count) = (vec![], 0);
    for operation in &operations(&document) {
        let Some(body) = operation.json_body() else { continue };
        if BY_TYPE.contains(&operation.path.as_str()) {
            continue;
        }
        let mut compared =
            Compared { things: &things, document: &document, operation, faults: vec![] };
        compared.object(&body["schema"], &[]).await;
        faults.extend(compared.faults.iter().map(|fault| format!("{}: {fault}", operation.name())));
        count += 1;
    }
    assert!(count > 25, "only {count} bodies were compared");
    assert!(faults.is_empty(), "{} differences:\n{}", faults.len(), faults.join("\n"));
}

impl Compared<'_> {
    /// Compares the object at these steps into the body, and those within.
    async fn object(&mut self, schema: &Value, steps: &[String]) {
        let schema = resolved(self.document, schema);
        let empty = Map::new();
        let fields = schema["properties"].as_object().unwrap_or(&empty);
        let answer = self.ask(steps, json!({UNKNOWN: 1})).await;
        let described: BTreeSet<&str> = fields.keys().map(String::as_str).collect();
        let pointer = pointer(steps);
        match known(&answer, &format!("{pointer}/{UNKNOWN}")) {
            Some(known) if known != described => {
                self.differ(&pointer, &format!("parser {known:?}, schema {described:?}"));
            }
            Some(_) => {}
            None => self.differ(&pointer, &format!("is not parsed strictly: {}", answer.text)),
        }
        let listed = schema["required"].as_array().into_iter().flatten();
        let required: BTreeSet<String> =
            listed.map(|name| format!("{pointer}/{}", name.as_str().unwrap())).collect();
        let missed = missed(&answer, &pointer);
        let is_odd = |place: &&String| {
            !CONDITIONAL.iter().any(|(path, at)| *path == self.operation.path && at == place)
        };
        let odd: Vec<_> = required.symmetric_difference(&missed).filter(is_odd).collect();
        if !odd.is_empty() {
            self.differ(
                &pointer,
                &format!("parser and schema differ in what is required: {odd:?}"),
            );
        }
        for (name, field) in fields {
            let steps = [steps, std::slice::from_ref(name)].concat();
            Box::pin(self.field(field, &steps)).await;
        }
    }

    async fn field(&mut self, field: &Value, steps: &[String]) {
        let schema = resolved(self.document, field);
        if schema["properties"].is_object() {
            return self.object(schema, steps).await;
        }
        let items = resolved(self.document, &schema["items"]);
        let first = [steps, &["0".to_owned()]].concat();
        if items["properties"].is_object() {
            return self.object(items, &first).await;
        }
        if items["enum"].is_array() {
            self.words(items, &first).await;
        }
        if schema["enum"].is_array() {
            self.words(schema, steps).await;
        }
        self.bounds(schema, steps).await;
    }

    /// Every word of the schema is taken, and another one is not.
    async fn words(&mut self, schema: &Value, steps: &[String]) {
        let place = pointer(steps);
        let words = schema["enum"].as_array().unwrap();
        for word in words {
            let item = self.ask(steps, word.clone()).await.item(&place);
            if item.is_some() {
                self.differ(&place, &format!("{word} is not taken: {item:?}"));
            }
        }
        let answer = self.ask(steps, json!(UNKNOWN)).await;
        if answer.item(&place).as_deref() != Some("invalid_enum") {
            self.differ(&place, &format!("takes any word: {}", answer.text));
        }
        let said = detail(&answer, &place);
        if let Some(taken) = said.trim_end_matches('.').strip_prefix("Must be one of ") {
            let taken: BTreeSet<&str> = taken.split(", ").collect();
            let described: BTreeSet<&str> =
                words.iter().map(|word| word.as_str().unwrap()).collect();
            if taken != described {
                self.differ(&place, &format!("parser {taken:?}, schema {described:?}"));
            }
        }
    }

    /// What is just above or below a bound of the schema is refused.
    async fn bounds(&mut self, schema: &Value, steps: &[String]) {
        let number = |name: &str| schema[name].as_i64();
        let text = |length: i64| json!("5".repeat(usize::try_from(length).unwrap()));
        let mut beyond = vec![];
        beyond.extend(number("minimum").map(|least| (json!(least - 1), "out_of_range")));
        beyond.extend(number("maximum").map(|most| (json!(most + 1), "out_of_range")));
        beyond.extend(number("maxLength").map(|most| (text(most + 1), "too_long")));
        beyond.extend(number("minLength").map(|least| (text(least - 1), "too_short")));
        let place = pointer(steps);
        for (value, code) in beyond {
            let answer = self.ask(steps, value.clone()).await;
            let item = answer.item(&place);
            if !item.as_deref().is_some_and(|item| item == code || MEANT.contains(&item)) {
                self.differ(&place, &format!("takes what is {code}: {item:?}"));
            }
        }
    }

    /// Sends a body with this value at these steps, which is always refused.
    async fn ask(&self, steps: &[String], value: Value) -> Answer {
        let mut body = value;
        for step in steps.iter().rev() {
            body = if step == "0" { json!([body]) } else { json!({step: body}) };
        }
        if let Some(fields) = body.as_object_mut() {
            fields.insert(UNKNOWN.to_owned(), json!(1));
        }
        let path = self.things.path(&self.operation.path);
        self.things.call(self.operation, &path).json(body).await
    }

    fn differ(&mut self, place: &str, how: &str) {
        self.faults.push(format!("{place} {how}"));
    }
}

fn pointer(steps: &[String]) -> String {
    steps.iter().flat_map(|step| ["/", step.as_str()]).collect()
}

fn items(answer: &Answer) -> impl Iterator<Item = &Value> {
    answer.body["errors"].as_array().into_iter().flatten()
}

fn detail<'a>(answer: &'a Answer, pointer: &str) -> &'a str {
    let item = items(answer).find(|item| item["pointer"] == pointer);
    item.and_then(|item| item["detail"].as_str()).unwrap_or("")
}

/// The fields that a parser knows, as it says when it is asked for another.
fn known<'a>(answer: &'a Answer, pointer: &str) -> Option<BTreeSet<&'a str>> {
    let detail = detail(answer, pointer).trim_end_matches('.');
    if detail.ends_with("which has none") {
        return Some(BTreeSet::new());
    }
    let (_, names) = detail.split_once("known: ")?;
    Some(names.split(", ").filter(|name| !name.is_empty()).collect())
}

/// The fields right within an object that were missed.
fn missed(answer: &Answer, within: &str) -> BTreeSet<String> {
    let missed = items(answer).filter(|item| item["code"] == "required");
    let places = missed.map(|item| item["pointer"].as_str().unwrap().to_owned());
    let is_own = |place: &String| {
        place.strip_prefix(within).is_some_and(|rest| rest.matches('/').count() == 1)
    };
    places.filter(is_own).collect()
}
