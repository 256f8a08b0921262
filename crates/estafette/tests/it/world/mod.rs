//! The world of a story: one service on a folder of its own, with a held clock and seeded chance,
//! spoken to over HTTP only. A story that ends leaves a ledger that adds up.

pub mod contract;
mod documented;
pub mod faults;
pub mod http;
#[path = "../../../../engines/tests/server/mod.rs"]
mod server;
mod template;
pub mod tenant;

use std::future::Future;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use clock::{Clock, HOUR, MINUTE, Millis};
use estafette::app::{App, Env};
use estafette::carriers::handsets::MemoryShelf;
use estafette::carriers::{Carriers, Door, Handsets};
use estafette::config::{Config, Flags};
use estafette::dispatch::Entry;
use estafette::kit::secret::Secret;
use estafette::wiring;
use tempfile::TempDir;

use faults::Faults;
pub use http::{Answer, Call};
pub use server::{Database, authority, postgres};
pub use tenant::Tenant;

/// 2026-01-01T00:00:00.000Z: where every held clock starts.
pub const NEW_YEAR_2026: Millis = Millis(1_767_225_600_000);

/// The storage engines that every story runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// SQLite in the data folder.
    Lite,
    /// A database of the story's own on the PostgreSQL of the tests.
    Postgres,
    /// The same through PgBouncer in transaction mode.
    Pgbouncer,
}

/// Makes one test per story and engine; `story with change` runs it with other settings.
#[macro_export]
macro_rules! on_every_engine {
    (@change) => { |_| () };
    (@change $change:ident) => { super::$change };
    ($($story:ident $(with $change:ident)?),+ $(,)?) => { $(
        mod $story {
            use $crate::world::{Engine, World};

            async fn run(engine: Engine) {
                let world = World::with(engine, $crate::on_every_engine!(@change $($change)?));
                let world = world.await;
                super::$story(&world).await;
                world.finish().await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn lite() {
                run(Engine::Lite).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn postgres() {
                run(Engine::Postgres).await;
            }
        }
    )+ };
}

/// A service that runs, and what it runs on.
struct Node {
    running: wiring::Running,
    live: App,
    sandbox: App,
}

/// Makes the carriers of live, which bring what they have to this door.
pub type MakeCarriers = Box<dyn Fn(&Clock, &Door) -> Carriers + Send + Sync>;

/// One service and its clock.
pub struct World {
    folder: TempDir,
    database: Option<Database>,
    config: Config,
    clock: Clock,
    http: reqwest::Client,
    node: tokio::sync::Mutex<Option<Node>>,
    addresses: Mutex<[SocketAddr; 3]>,
    reports: Mutex<Option<SocketAddr>>,
    staff: tokio::sync::OnceCell<String>,
    live_carriers: Mutex<Option<MakeCarriers>>,
    owners: Mutex<Option<&'static [Entry]>>,
    /// What is to fail in storage.
    pub faults: Faults,
}

impl World {
    /// A fresh one.
    pub async fn new(engine: Engine) -> Self {
        Self::with(engine, |_| ()).await
    }

    /// A fresh one with other settings.
    pub async fn with(engine: Engine, change: impl FnOnce(&mut Config)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut config = settings(&folder);
        let database = settle_in(engine, &mut config).await;
        change(&mut config);
        let nowhere = SocketAddr::from(([127, 0, 0, 1], 0));
        let http = reqwest::Client::builder()
            .no_proxy()
            .timeout(Duration::from_secs(30))
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .unwrap();
        let world = Self {
            folder,
            database,
            config,
            clock: Clock::held(NEW_YEAR_2026, 2026),
            http,
            node: tokio::sync::Mutex::new(None),
            addresses: Mutex::new([nowhere; 3]),
            reports: Mutex::default(),
            staff: tokio::sync::OnceCell::new(),
            live_carriers: Mutex::new(None),
            owners: Mutex::new(None),
            faults: Faults::default(),
        };
        world.start().await;
        world
    }

    async fn start(&self) {
        let through = |db: store::Db| db.through(|engine| self.faults.around(engine));
        let opened = wiring::open_through(self.config.clone(), self.clock.clone(), through);
        let mut service = opened.unwrap();
        if let Some(make) = &*self.live_carriers.lock().unwrap() {
            service.live.carriers = make(&self.clock, &service.live_door).into();
        }
        if let Some(owners) = *self.owners.lock().unwrap() {
            service.owners = owners;
        }
        let (live, sandbox) = (service.live.clone(), service.sandbox.clone());
        let running = wiring::start(service).await.unwrap();
        let found = &running.addresses;
        *self.addresses.lock().unwrap() = [found.live, found.sandbox, found.metrics];
        *self.reports.lock().unwrap() = found.reports;
        *self.node.lock().await = Some(Node { running, live, sandbox });
    }

    async fn stop(&self) {
        if let Some(node) = self.node.lock().await.take() {
            node.running.stop().await;
        }
    }

    /// Gives live the simulated carriers of the sandbox, with their endings, from now on.
    pub async fn give_live_carriers(&self) {
        self.give_live(Box::new(|clock, door| {
            let handsets = Handsets::on(Arc::new(MemoryShelf::default()));
            Carriers::simulated(clock, door, handsets)
        }))
        .await;
    }

    /// Gives live carriers of a story's own, from now on.
    pub async fn give_live(&self, make: MakeCarriers) {
        *self.live_carriers.lock().unwrap() = Some(make);
        self.restart().await;
    }

    /// Gives the service channels of a story's own and live carriers for them, from now on.
    pub async fn give_channels(&self, owners: &'static [Entry], make: MakeCarriers) {
        *self.owners.lock().unwrap() = Some(owners);
        self.give_live(make).await;
    }

    /// Stops the service and starts it on the same data folder.
    pub async fn restart(&self) {
        self.stop().await;
        self.start().await;
    }

    /// Lets the clock stand still for a while with the service off, then starts it again.
    pub async fn restart_after(&self, ms: i64) {
        self.stop().await;
        self.clock.advance(ms);
        self.start().await;
        self.settle().await;
    }

    /// The part of the service that serves one environment.
    pub async fn app(&self, env: Env) -> App {
        let node = self.node.lock().await;
        let node = node.as_ref().expect("the service runs");
        match env {
            Env::Live => node.live.clone(),
            Env::Sandbox => node.sandbox.clone(),
        }
    }

    /// The settings that the service runs with.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// A connection of the story's own to the server's database.
    pub async fn database(&self) -> tokio_postgres::Client {
        self.database.as_ref().expect("an engine with a server").client().await
    }

    /// The clock that the service runs by.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The folder that the service keeps its data in.
    pub fn folder(&self) -> &std::path::Path {
        self.folder.path()
    }

    /// The instant now, as answers write it.
    pub fn now(&self) -> Millis {
        self.clock.now()
    }

    /// The default price of a passcode.
    pub fn price(&self, channel: &str, country: &str) -> i64 {
        let prices = &self.config.credits.prices;
        let find = |country: &str| {
            prices.iter().find(|price| {
                price.channel == channel
                    && price.category == "authentication"
                    && price.country == country
            })
        };
        find(country).or_else(|| find("*")).expect("a default price").credits
    }

    /// Moves the clock and waits until due work is done.
    pub async fn advance(&self, ms: i64) {
        self.clock.advance(ms);
        self.settle().await;
    }

    /// Moves the clock without asking for due work; the service's own jobs may still notice.
    pub async fn stand_still_for(&self, ms: i64) {
        self.clock.advance(ms);
        tokio::task::yield_now().await;
    }

    /// Runs due work until there is none.
    pub async fn settle(&self) {
        for env in [Env::Sandbox, Env::Live] {
            let app = self.app(env).await;
            for _ in 0..100 {
                tokio::time::sleep(Duration::from_millis(5)).await;
                let node = self.node.lock().await;
                let running = &node.as_ref().expect("the service runs").running;
                if running.run_due(&app).await.expect("due work") == 0 {
                    break;
                }
            }
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }

    /// Lets the chores do what is due. A lane looks once in a minute of the clock: what became due
    /// while it was at work, it sees a minute later.
    pub async fn housekeep(&self) {
        const CHORES: usize = 29;
        let app = self.app(Env::Live).await;
        let is_done = store::Sql("SELECT chore FROM chores WHERE next_at > $1 ORDER BY chore");
        for _ in 0..6 {
            self.advance(61_000).await;
            for _ in 0..250 {
                let done = app.db.rows::<(String,)>(is_done, store::args![app.now()]).await;
                if done.unwrap().len() == CHORES {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        panic!("the chores were not done within six minutes");
    }

    pub fn address(&self, env: Env) -> SocketAddr {
        self.addresses.lock().unwrap()[usize::from(env == Env::Sandbox)]
    }

    /// Where reports of emails come in.
    pub fn reports(&self) -> SocketAddr {
        self.reports.lock().unwrap().unwrap()
    }

    /// A request. Each moves the clock by a millisecond, so that ids are in the order of requests.
    pub fn call(&self, method: &str, env: Env, path: &str) -> Call {
        self.clock.advance(1);
        let method = reqwest::Method::from_bytes(method.as_bytes()).unwrap();
        let url = format!("http://{}{path}", self.address(env));
        Call::new(self.http.request(method, url))
    }

    pub fn get(&self, env: Env, path: &str) -> Call {
        self.call("GET", env, path)
    }

    pub fn post(&self, env: Env, path: &str) -> Call {
        self.call("POST", env, path)
    }

    pub fn patch(&self, env: Env, path: &str) -> Call {
        self.call("PATCH", env, path)
    }

    pub fn put(&self, env: Env, path: &str) -> Call {
        self.call("PUT", env, path)
    }

    pub fn delete(&self, env: Env, path: &str) -> Call {
        self.call("DELETE", env, path)
    }

    /// The page of the metrics listener.
    pub async fn metrics(&self) -> Answer {
        let address = self.addresses.lock().unwrap()[2];
        Call::new(self.http.get(format!("http://{address}/metrics"))).await
    }

    /// A new user with a sandbox account and a key that has all scopes.
    pub async fn account(&self, name: &str) -> Tenant<'_> {
        Tenant::sign_up(self, name).await
    }

    /// The live account of a new user, with credits and a key that has all scopes.
    pub async fn live_account(&self, name: &str, credits: i64) -> Tenant<'_> {
        let tenant = Tenant::sign_up(self, name).await.on_live().await;
        if credits > 0 {
            self.credit(&tenant, credits).await.ok();
        }
        tenant
    }

    /// The same, whose SMS are of ACME, which staff have approved.
    pub async fn live_sender(&self, name: &str, credits: i64) -> Tenant<'_> {
        let tenant = self.live_account(name, credits).await;
        self.let_send_as_acme(&tenant).await;
        tenant
    }

    /// An account of the sandbox whose SMS are of ACME.
    pub async fn sender(&self, name: &str) -> Tenant<'_> {
        let tenant = self.account(name).await;
        self.let_send_as_acme(&tenant).await;
        tenant
    }

    async fn let_send_as_acme(&self, tenant: &Tenant<'_>) {
        let asked = serde_json::json!({"value": "ACME"});
        let asked = tenant.desk("POST", "/v1/senders").json(asked).await.ok();
        let path = format!("/v1/admin/senders/{}", asked.word("id"));
        let decided = self.patch(tenant.env, &path).bearer(self.staff().await);
        decided.json(serde_json::json!({"status": "approved"})).await.ok();
        let settings = serde_json::json!({"settings": {"default_sender": "ACME"}});
        self.set(tenant, settings).await.ok();
    }

    /// The token of a member of staff.
    pub async fn staff(&self) -> &str {
        self.staff.get_or_init(|| tenant::staff_token(self)).await
    }

    /// Credits given or taken by staff.
    pub async fn credit(&self, tenant: &Tenant<'_>, amount: i64) -> Answer {
        let path = format!("/v1/admin/accounts/{}/credits", tenant.account_id);
        let body = serde_json::json!({"amount": amount, "reason": "a story"});
        self.post(tenant.env, &path).bearer(self.staff().await).json(body).await
    }

    /// A change of an account by staff.
    pub async fn set(&self, tenant: &Tenant<'_>, change: serde_json::Value) -> Answer {
        let path = format!("/v1/admin/accounts/{}", tenant.account_id);
        self.patch(tenant.env, &path).bearer(self.staff().await).json(change).await
    }

    /// Ends the story: whatever was on its way has ended, no credits are left held, the ledger adds
    /// up, the service stops.
    pub async fn finish(self) {
        self.settle().await;
        self.advance(HOUR).await;
        for env in [Env::Sandbox, Env::Live] {
            let app = self.app(env).await;
            let audit =
                async || estafette::credits::audit::audit(&app, MINUTE).await.expect("an audit");
            let mut report = audit().await;
            // A visit of the service's own may be under way still.
            for _ in 0..250 {
                if report.is_ok() {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
                report = audit().await;
            }
            assert!(report.is_ok(), "the ledger does not add up: {report:?}");
        }
        self.stop().await;
    }
}

/// Makes the database of an engine that has a server.
async fn settle_in(engine: Engine, config: &mut Config) -> Option<Database> {
    if engine == Engine::Lite {
        return None;
    }
    let database = template::copy(config).await;
    let through_pooler = engine == Engine::Pgbouncer;
    let server = if through_pooler { server::pgbouncer() } else { server::postgres() };
    config.database.url = Secret::new(format!("{server}/{}", database.name));
    // Debian's PgBouncer does not follow prepared statements.
    config.database.prepared_statements = !through_pooler;
    config.database.readers = 2;
    // The machine that runs the stories may be busy with others of them.
    config.database.patience_ms = 20_000;
    config.master_key = Secret::new("5a".repeat(32));
    Some(database)
}

fn settings(folder: &TempDir) -> Config {
    let flags = Flags { engines: engines::ALL, ..Flags::default() };
    let mut config = estafette::config::load(None, std::iter::empty(), flags).unwrap();
    folder.path().clone_into(&mut config.data_dir);
    let anywhere = SocketAddr::from(([127, 0, 0, 1], 0));
    config.server.live = anywhere;
    config.server.sandbox = anywhere;
    config.server.metrics = anywhere;
    config.server.drain_accept_ms = 0;
    config.otp.receipt_wait_ms = 300;
    config.limits.send_per_s = 1_000_000;
    config.limits.read_per_s = 1_000_000;
    config.limits.guest_per_min = 1_000_000;
    config.limits.signup_per_min = 1_000_000;
    config.server.max_connections_per_address = 10_000;
    config.access.password_hashers = 2;
    // Receivers of webhooks are on this machine, and no story asks its name servers.
    config.webhooks.allow_http = true;
    config.webhooks.allow_networks = vec!["127.0.0.0/8".to_owned()];
    "127.0.0.1:1".clone_into(&mut config.webhooks.dns_server);
    config.webhooks.timeout_ms = 3_000;
    config.webhooks.connect_timeout_ms = 2_000;
    config.support.drain_spread_ms = 100;
    config.retention.chunk = 2;
    config.retention.pause_ms = 0;
    config
}

/// Waits until `look` answers something, at most half a minute: tests share the machine, and chores
/// rest nine times as long as they work.
#[track_caller]
pub fn eventually<T, F: Future<Output = Option<T>>>(
    look: impl FnMut() -> F,
) -> impl Future<Output = T> {
    let place = std::panic::Location::caller();
    wait_for(look, place)
}

async fn wait_for<T, F: Future<Output = Option<T>>>(
    mut look: impl FnMut() -> F,
    place: &'static std::panic::Location<'static>,
) -> T {
    for _ in 0..1_500 {
        if let Some(found) = look().await {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("it did not happen within half a minute: {place}")
}
