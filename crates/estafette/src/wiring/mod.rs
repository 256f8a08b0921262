//! Rank 9: where everything is put together and started. The only place that knows all rooms.

mod edge;
mod pages;
mod routes;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use clock::Clock;
use futures_util::future::BoxFuture;
use store::{Db, Lite, LiteOptions, Migration};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;

use crate::app::{App, Env, Memo, News, Shared};
use crate::carriers::{Carriers, Door};
use crate::config::Config;
use crate::credits;
use crate::kit::outgoing::{Network, Outgoing, Rules};
use crate::kit::seal::Vault;
use crate::kit::throttle::Throttle;
use crate::metrics::Metrics;
use crate::otp::{self, ReceiptDoor};
use crate::webhooks;

pub use routes::openapi;

/// The schema, one file after the other.
const MIGRATIONS: &[Migration] = &[
    Migration {
        version: 1,
        name: "foundation",
        sql: include_str!("../../../../migrations/0001_foundation.sql"),
    },
    Migration {
        version: 3,
        name: "events_and_webhooks",
        sql: include_str!("../../../../migrations/0003_events_and_webhooks.sql"),
    },
];

/// The two environments, ready to be migrated and served.
pub struct Service {
    /// Real carriers.
    pub live: App,
    /// Simulated carriers.
    pub sandbox: App,
    doors: [Arc<ReceiptDoor>; 2],
}

/// Where a running service listens.
#[derive(Clone, Copy, Debug)]
pub struct Addresses {
    /// The live API.
    pub live: SocketAddr,
    /// The sandbox API.
    pub sandbox: SocketAddr,
    /// Prometheus metrics.
    pub metrics: SocketAddr,
}

/// A running service. [`Running::stop`] ends it gracefully.
pub struct Running {
    /// Where it listens.
    pub addresses: Addresses,
    service: Service,
    stop: watch::Sender<bool>,
    tasks: Vec<JoinHandle<()>>,
}

/// Opens storage and puts the parts together. Nothing is listened to yet.
///
/// # Errors
/// When the database or the master key cannot be opened.
pub fn open(config: Config, clock: Clock) -> anyhow::Result<Service> {
    let db = open_database(&config)?;
    let vault = open_vault(&config, &clock)?;
    let doors = [Arc::new(ReceiptDoor::default()), Arc::new(ReceiptDoor::default())];
    let shared = Arc::new(Shared {
        // Above 0, and so many that two processes do not share one.
        node: i64::try_from(1 + clock.below(u64::MAX / 4)).unwrap_or(1),
        outgoing: way_out(&config)?,
        tell,
        throttle: Throttle::new(config.limits.send_per_s, config.limits.read_per_s),
        hashers: Semaphore::new(config.access.password_hashers.max(1)),
        memo: Memo::default(),
        metrics: Metrics::default(),
        draining: AtomicBool::new(false),
        db,
        vault,
        config,
        clock,
    });
    let [live_door, sandbox_door] = &doors;
    let door: Arc<dyn Door> = Arc::<ReceiptDoor>::clone(sandbox_door);
    let simulated = Carriers::simulated(&shared.clock, &door);
    let live = App::new(Env::Live, Carriers::none(), Arc::clone(&shared));
    let sandbox = App::new(Env::Sandbox, simulated, shared);
    live_door.lead_to(Some(live.clone()));
    sandbox_door.lead_to(Some(sandbox.clone()));
    Ok(Service { live, sandbox, doors })
}

fn open_database(config: &Config) -> anyhow::Result<Db> {
    let url = config.database.url.expose();
    let path = match url.strip_prefix("sqlite:") {
        _ if url.is_empty() => config.data_dir.join("estafette.db"),
        Some(path) => path.into(),
        None => anyhow::bail!(
            "[database] url must be empty (SQLite in data_dir) or sqlite:PATH; \
             PostgreSQL comes with a later version"
        ),
    };
    let options = LiteOptions { queue: config.database.queue, ..LiteOptions::default() };
    let lite = Lite::open(&path, options);
    Ok(Db::new(lite.with_context(|| format!("cannot open the database {}", path.display()))?))
}

fn open_vault(config: &Config, clock: &Clock) -> anyhow::Result<Vault> {
    if config.master_key.is_empty() {
        Ok(Vault::from_file(&config.data_dir.join("master.key"), clock.clone())?)
    } else {
        Ok(Vault::from_hex(config.master_key.expose(), clock.clone())?)
    }
}

/// The way out to URLs of tenants, by the settings.
fn way_out(config: &Config) -> anyhow::Result<Outgoing> {
    let webhooks = &config.webhooks;
    let networks = webhooks.allow_networks.iter();
    let rules = Rules {
        allow_http: webhooks.allow_http,
        allow_networks: networks.filter_map(|network| Network::parse(network)).collect(),
        dns_server: webhooks.dns_server.parse().ok(),
        connect_timeout: Duration::from_millis(webhooks.connect_timeout_ms),
        timeout: Duration::from_millis(webhooks.timeout_ms),
    };
    let ca_file = (!webhooks.ca_file.is_empty()).then(|| Path::new(&webhooks.ca_file));
    Outgoing::new(rules, ca_file)
        .map_err(|error| anyhow::anyhow!("webhooks.ca_file cannot be used: {error}"))
}

/// Which room shows the object of an event.
fn tell<'a>(_app: &'a App, news: News<'a>) -> BoxFuture<'a, Result<Option<String>, store::Error>> {
    tracing::warn!(kind = news.kind, "no room shows the objects of these events");
    Box::pin(std::future::ready(Ok(None)))
}

impl Service {
    /// Brings the schema up to date and answers its version.
    ///
    /// # Errors
    /// When the database refuses or is newer than this program.
    pub async fn migrate(&self) -> anyhow::Result<u32> {
        let version = self.live.db.migrate(MIGRATIONS).await?;
        credits::seed_prices(&self.live).await?;
        Ok(version)
    }

    /// Closes storage without ever having served.
    pub async fn close(self) {
        for door in &self.doors {
            door.lead_to(None);
        }
        self.live.db.close().await;
    }
}

/// Migrates, listens on all addresses and starts the due work.
///
/// # Errors
/// When the schema cannot be brought up to date or an address is taken.
pub async fn start(service: Service) -> anyhow::Result<Running> {
    service.migrate().await?;
    let server = &service.live.config.server;
    let live = listen(server.live, "server.live").await?;
    let sandbox = listen(server.sandbox, "server.sandbox").await?;
    let metrics = listen(server.metrics, "server.metrics").await?;
    let addresses = Addresses {
        live: live.local_addr()?,
        sandbox: sandbox.local_addr()?,
        metrics: metrics.local_addr()?,
    };
    let (stop, stopped) = watch::channel(false);
    let tasks = vec![
        serve(live, routes::router(&service.live), stopped.clone()),
        serve(sandbox, routes::router(&service.sandbox), stopped.clone()),
        serve(metrics, pages::metrics_router(&service.live), stopped.clone()),
        tokio::spawn(otp::run(service.live.clone())),
        tokio::spawn(otp::run(service.sandbox.clone())),
        tokio::spawn(webhooks::run(service.live.clone())),
        tokio::spawn(sweep(service.live.clone(), stopped)),
    ];
    Ok(Running { addresses, service, stop, tasks })
}

impl Running {
    /// The apps that run.
    #[must_use]
    pub fn service(&self) -> &Service {
        &self.service
    }

    /// Stops: readiness off, no new connections, running requests finish, storage closes.
    pub async fn stop(self) {
        let app = &self.service.live;
        app.draining.store(true, Ordering::SeqCst);
        self.stop.send_replace(true);
        let limit = Duration::from_millis(app.config.server.drain_timeout_ms);
        let finish = async {
            for task in self.tasks {
                // A task that panicked has nothing left to finish.
                let _ended = task.await;
            }
        };
        if tokio::time::timeout(limit, finish).await.is_err() {
            tracing::warn!("some requests did not finish in time; they count as unknown");
        }
        self.service.close().await;
    }
}

async fn listen(address: SocketAddr, key: &str) -> anyhow::Result<TcpListener> {
    let bound = TcpListener::bind(address).await;
    bound.with_context(|| format!("cannot listen on {address} ({key}); is it in use?"))
}

fn serve(
    listener: TcpListener,
    router: axum::Router,
    mut stopped: watch::Receiver<bool>,
) -> JoinHandle<()> {
    tokio::spawn(async move {
        let listener = axum::serve::ListenerExt::tap_io(listener, |stream| {
            // Small answers must not wait for more bytes.
            let _best_effort = stream.set_nodelay(true);
        });
        let stop = async move {
            // An error means that the sender is gone: stop as well.
            let _stopped = stopped.wait_for(|stop| *stop).await;
        };
        let served = axum::serve(listener, router).with_graceful_shutdown(stop).await;
        if let Err(error) = served {
            tracing::error!(%error, "listener ended");
        }
    })
}

/// Once a minute: forget what is over. Once an hour: what is old.
async fn sweep(app: App, mut stopped: watch::Receiver<bool>) {
    let mut minutes = 0_u32;
    while !app.is_draining() {
        if minutes.is_multiple_of(60)
            && let Err(error) = webhooks::forget_old(&app).await
        {
            tracing::warn!(%error, "old events and deliveries not removed");
        }
        minutes = minutes.wrapping_add(1);
        app.throttle.forget_idle();
        let cleaned = crate::access::forget_expired(&app).await;
        if let Err(error) = cleaned {
            tracing::warn!(%error, "expired tokens and keys not removed");
        }
        tokio::select! {
            () = tokio::time::sleep(Duration::from_mins(1)) => {}
            // An error means that the sender is gone: stop as well.
            _ = stopped.wait_for(|stop| *stop) => return,
        }
    }
}
