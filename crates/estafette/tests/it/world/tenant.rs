//! An account in a story: its user, its tokens, its key and what its programs do.

use estafette::access::idempotency::Claim;
use estafette::access::{self, By, Credentials};
use estafette::app::Env;
use estafette::kit::secret::Secret;
use serde_json::{Value, json};

use super::{Answer, Call, World, eventually};

/// The scopes that the contract names.
pub const SCOPES: [&str; 7] = [
    "otp:send",
    "otp:verify",
    "sms:send",
    "chatapp:send",
    "chatapp:receive",
    "email:send",
    "account:read",
];

/// The password of every user in a story.
pub const PASSWORD: &str = "correct horse battery 42";

/// An account of one environment.
#[derive(Clone)]
pub struct Tenant<'w> {
    pub world: &'w World,
    pub env: Env,
    pub email: String,
    pub user_id: String,
    pub account_id: String,
    pub token: String,
    pub key: String,
    pub key_id: String,
}

impl<'w> Tenant<'w> {
    pub async fn sign_up(world: &'w World, name: &str) -> Self {
        let email = format!("{name}@example.com");
        let body = json!({"email": email, "password": PASSWORD});
        let answer = world.post(Env::Sandbox, "/v1/auth/signup").json(body).await.ok();
        let mut tenant = Self {
            world,
            env: Env::Sandbox,
            email,
            user_id: answer.field("user")["id"].as_str().unwrap().to_owned(),
            account_id: String::new(),
            token: answer.word("token").to_owned(),
            key: String::new(),
            key_id: String::new(),
        };
        tenant.move_in().await;
        tenant
    }

    /// The same user's account on the live address, which staff makes active.
    pub async fn on_live(&self) -> Self {
        let mut tenant = Self { env: Env::Live, ..self.clone() };
        tenant.me().await.word("id").clone_into(&mut tenant.account_id);
        self.world.set(&tenant, json!({"status": "active"})).await.ok();
        tenant.move_in().await;
        tenant
    }

    async fn move_in(&mut self) {
        self.me().await.word("id").clone_into(&mut self.account_id);
        let answer = self.new_key("all", &SCOPES).await;
        answer.word("api_key").clone_into(&mut self.key);
        answer.field("key")["id"].as_str().unwrap().clone_into(&mut self.key_id);
    }

    /// A new key with these scopes.
    pub async fn new_key(&self, name: &str, scopes: &[&str]) -> Answer {
        let body = json!({"name": name, "scopes": scopes});
        self.desk("POST", "/v1/api-keys").json(body).await.ok()
    }

    /// A request of the account's program.
    pub fn call(&self, method: &str, path: &str) -> Call {
        self.world.call(method, self.env, path).key(&self.key)
    }

    /// A request of the account's owner.
    pub fn desk(&self, method: &str, path: &str) -> Call {
        self.world.call(method, self.env, path).bearer(&self.token)
    }

    pub fn get(&self, path: &str) -> Call {
        self.call("GET", path)
    }

    /// All rows that a list leads to, page after page.
    pub async fn pages(&self, path: &str) -> Vec<Value> {
        let mut path = path.to_owned();
        let mut rows = vec![];
        loop {
            let page = self.get(&path).await.ok();
            rows.extend_from_slice(page.list());
            let link = page.head("link");
            let Some((next, _)) = link.strip_prefix('<').and_then(|rest| rest.split_once('>'))
            else {
                return rows;
            };
            next.clone_into(&mut path);
        }
    }

    pub async fn me(&self) -> Answer {
        self.desk("GET", "/v1/me").await.ok()
    }

    pub async fn balance(&self) -> i64 {
        self.me().await.number("balance_credits")
    }

    /// Sends a passcode. Nobody is asked for consent afterwards, unless the body says so.
    pub fn send(&self, body: impl std::borrow::Borrow<Value>) -> Call {
        let mut body = body.borrow().clone();
        if let Some(fields) = body.as_object_mut() {
            fields.entry("request_messaging_consent").or_insert(json!(false));
        }
        self.call("POST", "/v1/otp/send").json(body)
    }

    /// Sends a passcode to this number.
    pub fn send_to(&self, to: &str) -> Call {
        self.send(json!({"to": to}))
    }

    /// Verifies a passcode.
    pub fn verify(&self, body: impl std::borrow::Borrow<Value>) -> Call {
        self.call("POST", "/v1/otp/verify").json(body)
    }

    /// Guesses the code of a challenge.
    pub fn guess(&self, id: &str, code: &str) -> Call {
        self.verify(json!({"challenge_id": id, "code": code}))
    }

    /// Reads a challenge.
    pub fn challenge(&self, id: &str) -> Call {
        self.get(&format!("/v1/otp/{id}"))
    }

    /// Sends an SMS.
    pub fn text(&self, body: impl std::borrow::Borrow<Value>) -> Call {
        self.call("POST", "/v1/messages").json(body)
    }

    /// Reads an SMS.
    pub fn sms(&self, id: &str) -> Call {
        self.get(&format!("/v1/messages/{id}"))
    }

    /// Waits until an SMS stands so, and answers how it reads then.
    #[track_caller]
    pub fn sms_until(&self, id: &str, status: &str) -> impl Future<Output = Answer> {
        eventually(move || async move {
            Some(self.sms(id).await.ok()).filter(|now| now.word("status") == status)
        })
    }

    /// What a virtual handset shows, newest first.
    pub async fn handset(&self, phone: &str) -> Vec<Value> {
        let path = format!("/v1/sandbox/handsets/{phone}/messages");
        self.get(&path).await.ok().list().to_vec()
    }

    /// The newest code on a virtual handset, as soon as there is a message: the challenge reads as
    /// sent by a channel a moment before the carrier has it.
    #[track_caller]
    pub fn code_on(&self, phone: &str) -> impl Future<Output = String> {
        let place = std::panic::Location::caller();
        let newest = eventually(async || self.handset(phone).await.into_iter().next());
        async move {
            newest.await["code"].as_str().unwrap_or_else(|| panic!("no code: {place}")).to_owned()
        }
    }

    /// Waits until a challenge reads so, and answers how it reads then.
    #[track_caller]
    pub fn until(&self, id: &str, good: impl Fn(&Value) -> bool) -> impl Future<Output = Answer> {
        let good = std::sync::Arc::new(good);
        eventually(move || {
            let good = good.clone();
            async move { Some(self.challenge(id).await.ok()).filter(|now| good(&now.body)) }
        })
    }

    /// Transfers of the ledger, oldest first.
    pub async fn ledger(&self) -> Vec<Value> {
        let answer = self.desk("GET", "/v1/ledger?limit=200").await.ok();
        assert_eq!(answer.head("link"), "", "more transfers than a story looks at");
        answer.list().iter().rev().cloned().collect()
    }

    /// Kinds and amounts of the ledger without the first grant, oldest first.
    pub async fn movements(&self) -> Vec<(String, i64)> {
        let kind = |row: &Value| row["kind"].as_str().expect("a kind").to_owned();
        let amount = |row: &Value| row["amount"].as_i64().expect("an amount");
        let all = self.ledger().await;
        all.iter().map(|row| (kind(row), amount(row))).filter(|(kind, _)| kind != "topup").collect()
    }
}

/// A number in France whose last four digits script its sandbox ending.
pub fn phone(ending: &str) -> String {
    format!("+3361234{ending}")
}

/// A wrong code of the same length.
pub fn other_than(code: &str) -> String {
    let last = if code.ends_with('7') { '8' } else { '7' };
    format!("{}{last}", &code[..code.len() - 1])
}

/// Makes a member of staff, as the command line does, and logs in.
pub async fn staff_token(world: &World) -> String {
    let (email, password) = ("staff@example.com", Secret::new(PASSWORD.to_owned()));
    let app = world.app(Env::Live).await;
    let credentials = Credentials { email, password: &password };
    access::add_staff(&app, credentials, By::CLI, &Claim::default(), false)
        .await
        .expect("a member of staff");
    let body = json!({"email": email, "password": PASSWORD});
    let answer = world.post(Env::Live, "/v1/admin/auth/login").json(body).await.ok();
    answer.word("token").to_owned()
}
