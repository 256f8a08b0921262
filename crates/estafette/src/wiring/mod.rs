//! Rank 9: where everything is put together and started. The only place that knows all rooms.

mod edge;
mod intake;
mod listen;
mod opening;
mod outgo;
mod pace;
mod pages;
mod routes;
#[cfg(test)]
mod upgrades;
mod upkeep;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, bail};
use clock::Clock;
use futures_util::future::BoxFuture;
use store::{Db, Lite, LiteOptions, Migration, Pg, PgOptions};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinHandle};

use crate::app::{App, Correspondence, Env, Memo, News, Shared};
use crate::carriers::door::{Arrivals, Door, door};
use crate::carriers::handsets::MemoryShelf;
use crate::carriers::{Carriers, Handsets};
use crate::config::{Config, Limits, Webhooks};
use crate::credits::seals::{self, adopt};
use crate::dispatch::{self, Desk, Entry};
use crate::kit::conversion::Conversion;
use crate::kit::hashers::Hashers;
use crate::kit::outgoing::{Outgoing, Rules};
use crate::kit::seal::Vault;
use crate::kit::sealing::Sealing;
use crate::kit::throttle::Throttle;
use crate::metrics::Metrics;
use crate::otp::{self, Otp};
use crate::sandbox::StoredShelf;
use crate::sms::{self, Sms};
use crate::sockets::Hub;
use crate::{credits, events, inbound, jobs, rotation, senders, support, webhooks};

use listen::{Entrance, Listener};
pub use opening::{OpenError, must_exist};
pub use routes::openapi;

/// The schema, one file after the other.
const MIGRATIONS: &[Migration] = &[
    Migration {
        version: 1,
        name: "foundation",
        sql: include_str!("../../../../migrations/0001_foundation.sql"),
    },
    Migration {
        version: 2,
        name: "retention",
        sql: include_str!("../../../../migrations/0002_retention.sql"),
    },
    Migration {
        version: 3,
        name: "events_and_webhooks",
        sql: include_str!("../../../../migrations/0003_events_and_webhooks.sql"),
    },
    Migration {
        version: 4,
        name: "handsets",
        sql: include_str!("../../../../migrations/0004_handsets.sql"),
    },
    Migration {
        version: 5,
        name: "index order",
        sql: include_str!("../../../../migrations/0005_index_order.sql"),
    },
    Migration {
        version: 6,
        name: "seals",
        sql: include_str!("../../../../migrations/0006_seals.sql"),
    },
    Migration {
        version: 7,
        name: "promises",
        sql: include_str!("../../../../migrations/0007_promises.sql"),
    },
    Migration {
        version: 8,
        name: "people",
        sql: include_str!("../../../../migrations/0008_people.sql"),
    },
    Migration {
        version: 9,
        name: "limits",
        sql: include_str!("../../../../migrations/0009_limits.sql"),
    },
    Migration {
        version: 10,
        name: "operations",
        sql: include_str!("../../../../migrations/0010_operations.sql"),
    },
    Migration {
        version: 11,
        name: "support",
        sql: include_str!("../../../../migrations/0011_support.sql"),
    },
    Migration {
        version: 12,
        name: "inbound",
        sql: include_str!("../../../../migrations/0012_inbound.sql"),
    },
    Migration {
        version: 21,
        name: "master keys",
        sql: include_str!("../../../../migrations/0021_master_keys.sql"),
    },
    Migration {
        version: 22,
        name: "dispatch",
        sql: include_str!("../../../../migrations/0022_dispatch.sql"),
    },
    Migration {
        version: 23,
        name: "sms messages",
        sql: include_str!("../../../../migrations/0023_sms_messages.sql"),
    },
    Migration {
        version: 24,
        name: "log and seals",
        sql: include_str!("../../../../migrations/0024_log_and_seals.sql"),
    },
    Migration {
        version: 31,
        name: "smpp",
        sql: include_str!("../../../../migrations/0031_smpp.sql"),
    },
    Migration {
        version: 32,
        name: "conversion",
        sql: include_str!("../../../../migrations/0032_conversion.sql"),
    },
];

/// The two environments, ready to be migrated and served.
pub struct Service {
    /// Real carriers.
    pub live: App,
    /// Simulated carriers.
    pub sandbox: App,
    /// Where carriers of live bring their news.
    pub live_door: Door,
    /// The channels, for what is known of an attempt only by what is stored.
    pub owners: &'static [Entry],
    arrivals: Option<[Arrivals; 2]>,
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
    /// Behind the doors of carriers: they are stopped last, for requests wait for receipts.
    desks: Vec<JoinHandle<()>>,
}

/// Opens storage and puts the parts together. Nothing is listened to yet.
///
/// # Errors
/// When the database or the master key cannot be opened.
pub fn open(config: Config, clock: Clock) -> anyhow::Result<Service> {
    open_through(config, clock, |db| db)
}

/// The same with something between the service and its storage.
///
/// # Errors
/// As [`open`].
pub fn open_through(
    config: Config,
    clock: Clock,
    through: impl FnOnce(Db) -> Db,
) -> anyhow::Result<Service> {
    let vault = opening::vault(&config, &clock)?;
    let db = through(open_database(&config)?);
    let (live_door, live_arrivals) = door();
    let (sandbox_door, sandbox_arrivals) = door();
    let handsets = handsets(&config, &db, &vault);
    let shared = Arc::new(Shared {
        // Above 0, and so many that two processes do not share one.
        node: i64::try_from(1 + clock.below(u64::MAX / 4)).unwrap_or(1),
        outgoing: way_out(&config.webhooks)?,
        storage: support::files::storage::open(&config).context("the file storage (support.*)")?,
        sockets: Hub::default(),
        tell,
        correspondence: CORRESPONDENCE,
        throttle: throttle(&config.limits),
        hashers: Hashers::new(config.access.password_hashers),
        memo: Memo::default(),
        metrics: Metrics::default(),
        conversion: Conversion::default(),
        open: AtomicBool::new(false),
        sealing: Sealing::default(),
        handsets,
        draining: AtomicBool::new(false),
        db,
        vault,
        config,
        clock,
    });
    let handsets = shared.handsets.clone();
    let simulated = Carriers::simulated(&shared.clock, &sandbox_door, handsets);
    let of_live = {
        let place = (&shared.clock, shared.config.server.live_url.as_str());
        Carriers::none().with_sms(&shared.config.sms, place, &live_door)
    };
    let of_live = of_live.map_err(|fault| anyhow::anyhow!("sms.carriers: {fault}"))?;
    let live = App::new(Env::Live, of_live, Arc::clone(&shared));
    let sandbox = App::new(Env::Sandbox, simulated, shared);
    let arrivals = Some([live_arrivals, sandbox_arrivals]);
    Ok(Service { live, sandbox, live_door, owners: OWNERS, arrivals })
}

fn throttle(limits: &Limits) -> Throttle {
    Throttle::new(limits.send_per_s, limits.read_per_s, limits.guest_per_min)
}

/// The file of the embedded database; `None` = a server has the data.
#[must_use]
pub fn database_file(config: &Config) -> Option<PathBuf> {
    let url = config.database.url.expose();
    match url.strip_prefix("sqlite:") {
        Some(path) => Some(path.into()),
        None => url.is_empty().then(|| config.data_dir.join("estafette.db")),
    }
}

/// Opens the storage that the settings say.
///
/// # Errors
/// When it cannot be opened.
pub fn open_database(config: &Config) -> anyhow::Result<Db> {
    let (url, settings) = (config.database.url.expose(), &config.database);
    if settings.is_shared() {
        let options = PgOptions {
            batchers: settings.batchers,
            readers: settings.readers,
            queue: settings.queue,
            prepared_statements: settings.prepared_statements,
            patience_ms: settings.patience_ms,
            ..PgOptions::default()
        };
        return Ok(Db::new(Pg::open(url, &options)?));
    }
    let Some(path) = database_file(config) else { bail!("database.url is of no known kind") };
    let options = LiteOptions { queue: settings.queue, ..LiteOptions::default() };
    let lite = Lite::open(&path, options);
    Ok(Db::new(lite.with_context(|| format!("cannot open the database {}", path.display()))?))
}

/// Handsets in memory are quickest; several nodes need them where all can see them.
fn handsets(config: &Config, db: &Db, vault: &Vault) -> Handsets {
    let is_stored = match config.sandbox.handsets.as_str() {
        "auto" => config.database.is_shared(),
        word => word == "database",
    };
    Handsets::on(if is_stored {
        Arc::new(StoredShelf::new(db.clone(), vault.clone()))
    } else {
        Arc::new(MemoryShelf::default())
    })
}

/// The way out to URLs of tenants, by the settings.
fn way_out(webhooks: &Webhooks) -> anyhow::Result<Outgoing> {
    let networks = webhooks.allow_networks.iter();
    let rules = Rules {
        allow_http: webhooks.allow_http,
        allow_networks: networks.filter_map(|network| network.parse().ok()).collect(),
        dns_server: webhooks.dns_server.parse().ok(),
        connect_timeout: Duration::from_millis(webhooks.connect_timeout_ms),
        timeout: Duration::from_millis(webhooks.timeout_ms),
    };
    let ca_file = (!webhooks.ca_file.is_empty()).then(|| Path::new(&webhooks.ca_file));
    Outgoing::new(rules, ca_file)
        .map_err(|error| anyhow::anyhow!("webhooks.ca_file cannot be used: {error}"))
}

/// The rooms that know who writes to whom. A room that sends adds its own.
const CORRESPONDENCE: Correspondence =
    Correspondence { owners_of: senders::owners_of, sent_to: &[otp::sent_to, sms::sent_to] };

/// The channels.
static OWNERS: &[Entry] = &[Entry::of::<Otp>(), Entry::of::<Sms>()];

/// Asks the room of an event's object to show it. Rooms that write down the data itself are not
/// asked.
fn tell<'a>(app: &'a App, news: News<'a>) -> BoxFuture<'a, Result<Option<String>, store::Error>> {
    match events::Kind::of(news.kind) {
        Some(events::Kind::OtpStatus) => otp::show(app, news),
        Some(events::Kind::SmsDelivery) => sms::show(app, news),
        Some(events::Kind::SmsInbound | events::Kind::ChatappInbound) => inbound::show(app, news),
        Some(events::Kind::SupportMessage | events::Kind::SupportTicket) => {
            support::show(app, news)
        }
        _ => Box::pin(std::future::ready(Ok(None))),
    }
}

impl Service {
    /// Brings the schema up to date and answers its version.
    ///
    /// # Errors
    /// [`OpenError`].
    pub async fn migrate(&self) -> Result<u32, OpenError> {
        let before = self.live.db.version().await?;
        let version = self.live.db.migrate(MIGRATIONS).await?;
        let followed = rotation::follow(&self.live).await;
        followed
            .map_err(|error| OpenError::Key(error, opening::place_of_key(&self.live.config)))?;
        if before < adopt::SINCE {
            adopt::adopt(&self.live).await?;
        }
        // A database that is new, or whose first run ended before this.
        if before < adopt::SINCE || seals::is_bare(&self.live).await? {
            seals::begin(&self.live).await?;
        }
        credits::seed_prices(&self.live).await?;
        seals::refresh(&self.live).await?;
        Ok(version)
    }

    /// Closes storage without ever having served.
    pub async fn close(self) {
        self.live.db.close().await;
    }
}

/// Listens on all addresses, waits for a database that is away, brings it up to date and starts the
/// due work. Until then `/readyz` and the API answer 503.
///
/// # Errors
/// When another process serves from the same file, an address is taken, or the database can never
/// be used as it is.
pub async fn start(mut service: Service) -> anyhow::Result<Running> {
    service.live.db.reserve().await?;
    let (stop, stopped) = watch::channel(false);
    let (addresses, mut tasks) = listen_everywhere(&service, &stopped)?;
    if let Err(error) = opening::wait(&service).await {
        tasks.iter().for_each(JoinHandle::abort);
        service.close().await;
        return Err(error.into());
    }
    let arrivals = service.arrivals.take();
    let (live_app, sandbox_app) = (&service.live, &service.sandbox);
    let witness = jobs::Witness::call(live_app.db.clone(), live_app.clock.clone()).await?;
    live_app.open.store(true, Ordering::SeqCst);
    let apps = [live_app.clone(), sandbox_app.clone()];
    let behind_doors = apps.into_iter().zip(arrivals.into_iter().flatten());
    let owners = service.owners;
    let desk = Desk {
        owners,
        inbound: |app, messages| Box::pin(inbound::take_in(app, messages)),
        part: |app, part| Box::pin(inbound::take_part(app, part)),
    };
    let desks = behind_doors.map(|(app, news)| tokio::spawn(dispatch::run(app, news, desk)));
    // Binds are kept until what they carry is settled.
    let desks = desks.chain([tokio::spawn(dispatch::keep_binds(live_app.clone()))]).collect();
    tasks.extend([
        tokio::spawn(otp::run(live_app.clone())),
        tokio::spawn(otp::run(sandbox_app.clone())),
        tokio::spawn(otp::fraud::run(live_app.clone())),
        tokio::spawn(dispatch::watch(live_app.clone(), owners)),
        tokio::spawn(dispatch::watch(sandbox_app.clone(), owners)),
        tokio::spawn(dispatch::serve(live_app.clone(), owners)),
        tokio::spawn(dispatch::serve(sandbox_app.clone(), owners)),
        tokio::spawn(dispatch::follow_routes(live_app.clone())),
        tokio::spawn(webhooks::run(live_app.clone())),
        tokio::spawn(rotation::run(live_app.clone(), stopped.clone())),
        tokio::spawn(support::run(live_app.clone())),
        tokio::spawn(support::chat::run(live_app.clone(), stopped.clone())),
    ]);
    tasks.extend(upkeep::start(live_app, witness, &stopped));
    Ok(Running { addresses, service, stop, tasks, desks })
}

fn listen_everywhere(
    service: &Service,
    stopped: &watch::Receiver<bool>,
) -> anyhow::Result<(Addresses, Vec<JoinHandle<()>>)> {
    let (live_app, sandbox_app) = (&service.live, &service.sandbox);
    let server = &live_app.config.server;
    let entrance = Entrance::open(server)?;
    let live = Listener::bind(server.live, "server.live", "live")?;
    let sandbox = Listener::bind(server.sandbox, "server.sandbox", "sandbox")?;
    let metrics = Listener::bind(server.metrics, "server.metrics", "metrics")?;
    let addresses = Addresses {
        live: live.address()?,
        sandbox: sandbox.address()?,
        metrics: metrics.address()?,
    };
    let stop = || stopped.clone();
    let mut tasks = vec![
        entrance.serve(live, live_app, routes::router(live_app), stop()),
        entrance.serve(sandbox, sandbox_app, routes::router(sandbox_app), stop()),
        listen::serve_metrics(metrics, live_app, pages::metrics_router(live_app), stop()),
    ];
    tasks.extend(entrance.keep_fresh(stop()));
    Ok((addresses, tasks))
}

impl Running {
    /// The apps that run.
    #[must_use]
    pub fn service(&self) -> &Service {
        &self.service
    }

    /// Does the work of an environment that is due now, and says how much there was.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn run_due(&self, app: &App) -> anyhow::Result<usize> {
        Ok(otp::run_due(app).await? + dispatch::run_due(app, self.service.owners).await?)
    }

    /// Stops: readiness off, no new connections, running requests finish, storage closes.
    pub async fn stop(self) {
        let app = &self.service.live;
        app.draining.store(true, Ordering::SeqCst);
        self.stop.send_replace(true);
        let limit = Duration::from_millis(app.config.server.drain_timeout_ms);
        let aborts: Vec<_> = self.tasks.iter().map(JoinHandle::abort_handle).collect();
        let finish = async {
            for task in self.tasks {
                // A task that panicked has nothing left to finish.
                let _ended = task.await;
            }
            // What those requests left with carriers is settled before storage closes.
            dispatch::drained(&self.service.live).await;
            dispatch::drained(&self.service.sandbox).await;
            dispatch::close_binds(&self.service.live).await;
            // What is lost of it is lost to a guess at what is fraud.
            let _lost = otp::fraud::flush(&self.service.live).await;
        };
        if tokio::time::timeout(limit, finish).await.is_err() {
            tracing::warn!("some requests did not finish in time; they count as unknown");
            // Ends their connections, too: nobody may go on with a storage that is closed.
            aborts.iter().for_each(AbortHandle::abort);
        }
        self.desks.iter().for_each(JoinHandle::abort);
        self.service.close().await;
    }
}
