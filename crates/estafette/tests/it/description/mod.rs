//! The API description is true: what it says of requests is what the parsers take, its examples
//! work as they are, its words are short, and the problems of every kind of route are given.

mod examples;
mod kinds;
mod parsers;
mod said;
mod words;

use serde_json::{Value, json};

use crate::world::tenant::{PASSWORD, Tenant};
use crate::world::{Call, World};

/// An operation of the description.
struct Operation {
    method: String,
    path: String,
    described: Value,
}

impl Operation {
    fn name(&self) -> String {
        format!("{} {}", self.method, self.path)
    }

    /// Whether this scheme opens it.
    fn opens(&self, scheme: &str) -> bool {
        let all = self.described["security"].as_array().expect("says who may call");
        all.iter().any(|one| one.get(scheme).is_some())
    }

    fn has_code(&self, document: &Value, code: &str) -> bool {
        self.example(document, code).is_some()
    }

    /// What a problem with this code looks like here.
    fn example<'v>(&'v self, document: &'v Value, code: &str) -> Option<&'v Value> {
        let answers = self.described["responses"].as_object().unwrap();
        let shown = answers.values().find_map(|answer| {
            let answer = resolved(document, answer);
            answer["content"]["application/problem+json"]["examples"].get(code)
        });
        Some(&resolved(document, shown?)["value"])
    }

    /// The schema and the example of its JSON body.
    fn json_body(&self) -> Option<&Value> {
        self.described["requestBody"]["content"].get("application/json")
    }
}

fn document() -> Value {
    estafette::wiring::description::openapi()
}

fn operations(document: &Value) -> Vec<Operation> {
    let mut all = vec![];
    for (path, item) in document["paths"].as_object().unwrap() {
        for method in ["get", "put", "post", "patch", "delete"] {
            if let Some(described) = item.get(method) {
                let (method, path) = (method.to_uppercase(), path.clone());
                all.push(Operation { method, path, described: described.clone() });
            }
        }
    }
    assert!(all.len() > 80, "only {} operations", all.len());
    all
}

/// What a reference, or the part of a choice that is not null, leads to.
fn resolved<'v>(document: &'v Value, value: &'v Value) -> &'v Value {
    if let Some(reference) = value["$ref"].as_str() {
        return resolved(document, document.pointer(&reference[1..]).expect("a schema"));
    }
    let choice = value["oneOf"].as_array().into_iter().flatten();
    let mut something = choice.filter(|part| part["type"] != "null");
    match (something.next(), something.next()) {
        (Some(one), None) => resolved(document, one),
        _ => value,
    }
}

/// Keys of an account that are no good at most operations.
struct WrongKeys {
    /// Two, of which one lacks the scopes of any operation.
    weak: [String; 2],
    live: String,
}

impl WrongKeys {
    async fn of(things: &Things<'_>) -> Self {
        let weak = async |name: &str, scope: &str| {
            things.ada.new_key(name, &[scope]).await.word("api_key").to_owned()
        };
        let weak = [weak("weak", "email:send").await, weak("weaker", "otp:verify").await];
        Self { weak, live: things.ada.on_live().await.key }
    }

    /// One that lacks the scopes of an operation.
    fn weak_at(&self, operation: &Operation) -> &str {
        let told = operation.described["description"].as_str().unwrap();
        let [weak, weaker] = &self.weak;
        if told.contains("`email:send`") { weaker } else { weak }
    }
}

/// An account and one of everything that a path or a body can name.
struct Things<'w> {
    ada: Tenant<'w>,
    staff: String,
    /// What is for live accounts only.
    live_account: String,
    ids: Vec<(&'static str, String)>,
}

impl<'w> Things<'w> {
    async fn of(world: &'w World) -> Self {
        let ada = world.account("ada").await;
        let staff = world.staff().await.to_owned();
        let made = async |path: &str, body: Value| {
            let answer = ada.desk("POST", path).json(body).await.ok();
            answer.word("id").to_owned()
        };
        let ticket = json!({"subject": "s", "category": "c", "priority": "low", "message": "m"});
        let hook = json!({"url": "http://127.0.0.1:9009/", "events": ["otp.status"]});
        let mut ids = vec![
            ("account_id", ada.account_id.clone()),
            ("webhook_id", made("/v1/webhooks", hook).await),
            ("ticket_id", made("/v1/support/tickets", ticket.clone()).await),
            ("into", made("/v1/support/tickets", ticket).await),
            ("sender_id", made("/v1/senders", json!({"value": "ACME"})).await),
            ("phone", "+33612345678".to_owned()),
            ("domain_id", made("/v1/email-domains", json!({"domain": "two.example"})).await),
            ("address", "ada@example.com".to_owned()),
        ];
        let hook = ids[1].1.clone();
        ids.push(("delivery_id", made(&format!("/v1/webhooks/{hook}/test"), json!({})).await));
        let sent = ada.call("POST", "/v1/otp/send").json(json!({"to": "+33612340000"})).await.ok();
        ids.push(("challenge_id", sent.word("challenge_id").to_owned()));
        // A draft, so that it can be declared.
        let template = json!({"name": "order_update", "body": "b", "submit": false});
        ada.call("POST", "/v1/chatapp/templates").json(template).await.ok();
        ids.push(("name", "order_update".to_owned()));
        let reply = json!({"title": "t", "body": "b"});
        let reply = world.post(ada.env, "/v1/admin/canned-replies").bearer(&staff).json(reply);
        ids.push(("reply_id", reply.await.ok().word("id").to_owned()));
        let live_account = ada.on_live().await.account_id;
        Self { ada, staff, live_account, ids }
    }

    /// The path with real ids; those of other things are well-formed and unknown.
    fn path(&self, template: &str) -> String {
        let segments = template.split('/').map(|segment| {
            let name = segment.trim_matches(['{', '}']);
            if name == "account_id" && template.ends_with("/chatapp") {
                return self.live_account.clone();
            }
            match self.ids.iter().find(|(known, _)| segment.starts_with('{') && *known == name) {
                Some((_, id)) => id.clone(),
                None if segment.starts_with('{') => "xyz_01kdv00000000000000000000z".to_owned(),
                None => segment.to_owned(),
            }
        });
        segments.collect::<Vec<_>>().join("/")
    }

    /// A request of somebody who may make it, without a body.
    fn call(&self, operation: &Operation, path: &str) -> Call {
        let call = self.ada.world.call(&operation.method, self.ada.env, path);
        if operation.opens("staff_token") {
            call.bearer(&self.staff)
        } else if operation.opens("portal_token") {
            call.bearer(&self.ada.token)
        } else if operation.opens("api_key") {
            call.key(&self.ada.key)
        } else {
            call
        }
    }
}

/// Who logs in in the examples: a user of the sandbox or a member of staff.
fn login() -> Value {
    json!({"email": "ana@example.com", "password": PASSWORD})
}
