//! Rank 9: where everything is put together and started. The only place that knows all rooms.

mod checks;
pub mod description;
mod edge;
mod guides;
mod intake;
mod listen;
mod listeners;
mod opening;
mod outgo;
mod pace;
mod pages;
mod reference;
mod routes;
mod shape;
mod shared_clock;
mod shares;
#[cfg(test)]
mod upgrades;
mod upkeep;
mod ways;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::bail;
use clock::Clock;
use futures_util::future::BoxFuture;
use store::{Db, PostgresOptions, SqliteOptions};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::{Instant, timeout, timeout_at};

use crate::app::{App, Correspondence, Env, EventRef, Heard, Memo, Reaction, Shared};
use crate::carriers::door::{Arrivals, Door, door};
use crate::carriers::handsets::MemoryShelf;
use crate::carriers::simulated::SimulatedMail;
use crate::carriers::smtp::Relay;
use crate::carriers::{Carriers, Handsets, Mailboxes};
use crate::chatapp::{self, Chatapp, Prompt};
use crate::config::{Config, Limits};
use crate::credits::seals::{self, adopt};
use crate::dispatch::{self, Desk, Entry};
use crate::emails::notices::Notices;
use crate::emails::reports::Intake;
use crate::emails::{self, Email};
use crate::kit::conversion::Conversion;
use crate::kit::dns::Dns;
use crate::kit::folder;
use crate::kit::hashers::Hashers;
use crate::kit::seal::Vault;
use crate::kit::sealing::Sealing;
use crate::kit::task;
use crate::kit::throttle::Throttle;
use crate::metrics::Metrics;
use crate::otp::{self, Otp};
use crate::sandbox::{StoredRack, StoredShelf};
use crate::schema::MIGRATIONS;
use crate::sms::{self, Sms};
use crate::sockets::Hub;
use crate::{chores, credits, events, inbound, rotation, senders, support, webhooks};

pub use checks::{can_listen, certificate_ends, check_carriers, check_tls, trusted};
pub(crate) use listen::{CannotListen, remedy_of_listener};
use listen::{Entrance, Listener};
pub(crate) use listeners::Listeners;
pub use opening::{OpenError, must_exist};
pub(crate) use opening::{place_of, vault};
pub(crate) use shared_clock::follow as follow_clock;

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
    /// Reports of emails, by SMTP, where the service listens to them.
    pub reports: Option<SocketAddr>,
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
    let (vault, db) = opening::storage(&config, &clock)?;
    let db = through(db);
    let (live_door, live_arrivals) = door();
    let (sandbox_door, sandbox_arrivals) = door();
    let handsets = handsets(&config, &db, &vault);
    let shared = Arc::new(Shared {
        // Above 0, so many that two processes do not share one, and the highest bits free.
        node: i64::try_from(1 + clock.below(u64::MAX / 8)).unwrap_or(1),
        outgoing: ways::ways_out(&config.webhooks)?,
        dns: Dns::new(&config.email.dns_server),
        storage: support::files::storage::open(&config)?,
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
        drains: tokio::sync::Notify::new(),
        given_up: tokio::sync::SetOnce::new(),
        db,
        vault,
        config,
        clock,
    });
    let carriers = real_carriers(&shared.config, &shared.clock, &live_door)?;
    let live = App::new(Env::Live, carriers, Arc::clone(&shared));
    let sandbox = App::new(Env::Sandbox, simulated_carriers(&shared, &sandbox_door), shared);
    let arrivals = Some([live_arrivals, sandbox_arrivals]);
    Ok(Service { live, sandbox, live_door, owners: OWNERS, arrivals })
}

fn real_carriers(config: &Config, clock: &Clock, door: &Door) -> anyhow::Result<Carriers> {
    let carriers = Carriers::none().with_sms(&config.sms, clock, &config.server.live_url, door);
    let carriers = carriers.map_err(|fault| anyhow::anyhow!("sms.carriers: {fault}"))?;
    let carriers = carriers.with_chatapp(&config.chatapp, door);
    let carriers = carriers.map_err(|fault| anyhow::anyhow!("chatapp.{fault}"))?;
    let relay = Relay::of(&config.email, &config.mail_name()).map_err(anyhow::Error::msg)?;
    Ok(match relay {
        Some(relay) => carriers.with_email(Arc::new(relay)),
        None => carriers,
    })
}

fn simulated_carriers(shared: &Shared, door: &Door) -> Carriers {
    let carriers = Carriers::simulated(&shared.clock, door, shared.handsets.clone());
    let rack = StoredRack::new(shared.db.clone(), shared.vault.clone());
    let mailboxes = Mailboxes::on(Arc::new(rack));
    carriers.with_email(Arc::new(SimulatedMail::new(shared.clock.clone(), door.clone(), mailboxes)))
}

fn throttle(limits: &Limits) -> Throttle {
    let Limits { send_per_s, read_per_s, guest_per_min, signup_per_min, .. } = *limits;
    let replies_per_hour = limits.handset_replies_per_hour;
    Throttle::new(send_per_s, read_per_s, guest_per_min, signup_per_min, replies_per_hour)
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
        let options = PostgresOptions {
            batchers: settings.batchers,
            readers: settings.readers,
            queue: settings.queue,
            prepared_statements: settings.prepared_statements,
            patience_ms: settings.patience_ms,
            ..PostgresOptions::default()
        };
        return Ok((settings.engines.postgres)(url, &options)?);
    }
    let Some(path) = database_file(config) else {
        bail!("database.url names an unknown kind of database")
    };
    let options = SqliteOptions { queue: settings.queue, ..SqliteOptions::default() };
    (settings.engines.sqlite)(&path, options).map_err(|error| {
        let is_of_folder = matches!(error, store::Error::Unavailable(_));
        let at = folder::shown(&path);
        let error = anyhow::Error::from(error);
        let error = error.context(format!("cannot open the database {}", at.display()));
        // What is there was opened or not for reasons of its own.
        if is_of_folder && !at.exists() {
            return opening::blamed(config, error, at.parent().unwrap_or(&config.data_dir));
        }
        error
    })
}

/// Handsets in memory are quickest; several nodes need them where all can see them.
fn handsets(config: &Config, db: &Db, vault: &Vault) -> Handsets {
    Handsets::on(if config.keeps_handsets_in_memory() {
        Arc::new(MemoryShelf::default())
    } else {
        Arc::new(StoredShelf::new(db.clone(), vault.clone()))
    })
}

/// The rooms that know who writes to whom. A room that sends adds its own.
const CORRESPONDENCE: Correspondence = Correspondence {
    owners_of: senders::owners_of,
    sent_to: &[otp::sent_to, sms::sent_to, chatapp::sent_to],
    hear,
};

/// What follows from what a person wrote: a passcode that they did not ask for, or a session.
fn hear<'a>(app: &'a App, heard: Heard<'a>) -> BoxFuture<'a, Result<Reaction, store::Error>> {
    Box::pin(async move {
        match otp::report(app, &heard).await? {
            Some(reaction) => Ok(reaction),
            None => chatapp::hear(app, heard).await,
        }
    })
}

/// The channels.
static OWNERS: &[Entry] = &[
    Entry::of::<Otp>(),
    Entry::of::<Sms>(),
    Entry::of::<Email>(),
    Entry::of::<Notices>(),
    Entry::of::<Chatapp>(),
    Entry::of::<Prompt>(),
];

/// Asks the room of an event's object to show it. Rooms that write down the data itself are not
/// asked.
fn tell<'a>(
    app: &'a App,
    news: EventRef<'a>,
) -> BoxFuture<'a, Result<Option<String>, store::Error>> {
    match news.kind.parse().ok() {
        Some(events::Kind::OtpStatus) => otp::show(app, news),
        Some(events::Kind::SmsDelivery) => sms::show(app, news),
        Some(events::Kind::EmailDelivery) => emails::show(app, news),
        Some(events::Kind::ChatappStatus) => chatapp::show_message(app, news),
        Some(events::Kind::ChatappConsent) => chatapp::show_session(app, news),
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
        // Before anything is written that bears a time.
        let _standing = shared_clock::follow(&self.live.db, &self.live.clock).await?;
        let before = self.live.db.version().await?;
        let version = self.live.db.migrate(MIGRATIONS).await?;
        let place = || opening::place_of_key(&self.live.config);
        // New, or from before the seals, or its first run ended before this.
        let is_new = before < adopt::SINCE || seals::is_bare(&self.live).await?;
        if is_new {
            rotation::begin(&self.live).await.map_err(|error| OpenError::Key(error, place()))?;
        }
        let followed = rotation::follow(&self.live).await;
        if let Some(strange) = followed.map_err(|error| OpenError::Key(error, place()))? {
            tracing::error!(error = strange, "the master keys are not as they should be");
        }
        if before < adopt::SINCE {
            adopt::adopt(&self.live).await?;
        }
        if is_new {
            seals::begin(&self.live).await?;
        }
        credits::seed_prices(&self.live).await?;
        seals::refresh(&self.live).await?;
        chatapp::links::refresh(&self.live).await?;
        dispatch::refresh_routes(&self.live).await?;
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
pub async fn start(service: Service) -> anyhow::Result<Running> {
    service.live.db.reserve().await?;
    let listeners = Listeners::bind(&service.live.config)?;
    begin(service, listeners).await
}

/// The same on addresses that are taken already.
///
/// # Errors
/// As [`start`].
pub(crate) async fn start_on(service: Service, on: Listeners) -> anyhow::Result<Running> {
    service.live.db.reserve().await?;
    begin(service, on).await
}

async fn begin(mut service: Service, on: Listeners) -> anyhow::Result<Running> {
    let (stop, stopped) = watch::channel(false);
    let addresses = on.addresses()?;
    let mut tasks = serve_everywhere(&service, on, &stopped)?;
    if let Err(error) = opening::wait(&service).await {
        tasks.iter().for_each(JoinHandle::abort);
        service.close().await;
        return Err(error.into());
    }
    let arrivals = service.arrivals.take();
    let (live_app, sandbox_app) = (&service.live, &service.sandbox);
    let witness = chores::Witness::call(live_app.db.clone(), live_app.clock.clone()).await?;
    if !live_app.config.database.is_shared() {
        webhooks::free(live_app).await?;
    }
    live_app.open.store(true, Ordering::SeqCst);
    let apps = [live_app.clone(), sandbox_app.clone()];
    let behind_doors = apps.into_iter().zip(arrivals.into_iter().flatten());
    let owners = service.owners;
    let desk = Desk {
        owners,
        inbound: |app, messages| Box::pin(inbound::take_in(app, messages)),
        part: |app, part| Box::pin(inbound::take_part(app, part)),
    };
    let desks = behind_doors.map(|(app, news)| task::spawn(dispatch::run(app, news, desk)));
    // Binds and leases are kept until what they carry is settled.
    let desks = desks.chain([
        task::spawn(dispatch::keep_binds(live_app.clone())),
        task::spawn(dispatch::keep_leases(live_app.clone())),
        task::spawn(dispatch::keep_leases(sandbox_app.clone())),
    ]);
    let desks = desks.collect();
    tasks.extend([
        task::spawn(otp::run(live_app.clone())),
        task::spawn(otp::run(sandbox_app.clone())),
        task::spawn(chatapp::upstream::run(live_app.clone(), service.live_door.clone())),
        task::spawn(chatapp::links::run(live_app.clone())),
        task::spawn(chatapp::templates::own::keep(live_app.clone())),
        task::spawn(chatapp::run(live_app.clone())),
        task::spawn(chatapp::run(sandbox_app.clone())),
        task::spawn(otp::fraud::run(live_app.clone())),
        task::spawn(dispatch::watch(live_app.clone(), owners)),
        task::spawn(dispatch::watch(sandbox_app.clone(), owners)),
        task::spawn(dispatch::serve(live_app.clone(), owners)),
        task::spawn(dispatch::serve(sandbox_app.clone(), owners)),
        task::spawn(dispatch::follow_routes(live_app.clone())),
        task::spawn(webhooks::run(live_app.clone())),
        task::spawn(emails::notices::run(live_app.clone())),
        task::spawn(rotation::run(live_app.clone(), stopped.clone())),
        task::spawn(shared_clock::keep(live_app.clone())),
        task::spawn(support::run(live_app.clone())),
        task::spawn(support::chat::run(live_app.clone(), stopped.clone())),
    ]);
    tasks.extend(upkeep::start(live_app, witness, &stopped));
    Ok(Running { addresses, service, stop, tasks, desks })
}

fn serve_everywhere(
    service: &Service,
    on: Listeners,
    stopped: &watch::Receiver<bool>,
) -> anyhow::Result<Vec<JoinHandle<()>>> {
    let (live_app, sandbox_app) = (&service.live, &service.sandbox);
    let entrance = Entrance::open(&live_app.config.server)?;
    let Listeners { live, sandbox, metrics, reports } = on;
    let stop = || stopped.clone();
    let mut tasks = vec![
        entrance.serve(live, live_app, routes::router(live_app), stop()),
        entrance.serve(sandbox, sandbox_app, routes::router(sandbox_app), stop()),
        listen::serve_metrics(metrics, live_app, pages::metrics_router(live_app), stop()),
    ];
    let intake = Intake::new(live_app, &service.live_door);
    tasks.extend(reports.map(|listener| listen::serve_reports(listener, live_app, intake, stop())));
    tasks.extend(entrance.keep_fresh(stop()));
    Ok(tasks)
}

/// What a stop has at least for what requests left behind.
const SETTLE: Duration = Duration::from_secs(8);
/// How long of it carriers have to take and answer what they were given.
const ANSWERS: Duration = Duration::from_secs(5);

/// What requests left with carriers is settled before storage closes. What a bind has not written
/// by then goes back into its queue as the bind is closed.
async fn settle_last(service: &Service) {
    let (live, sandbox) = (&service.live, &service.sandbox);
    let drained = async || tokio::join!(dispatch::drained(live), dispatch::drained(sandbox));
    // What is lost of the figures is lost to a guess at what is fraud.
    let _late = tokio::join!(timeout(ANSWERS, drained()), otp::fraud::flush(live));
    tokio::join!(dispatch::close_binds(live), drained());
    let _lost = otp::fraud::flush(live).await;
}

impl Running {
    /// The apps that run.
    #[must_use]
    pub fn service(&self) -> &Service {
        &self.service
    }

    /// Returns when this process must not go on, with the reason. It takes no work from then on,
    /// and is to be stopped.
    pub async fn gave_up(&self) -> String {
        self.service.live.given_up.wait().await.clone()
    }

    /// Does the work of an environment that is due now, and says how much there was.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn run_due(&self, app: &App) -> anyhow::Result<usize> {
        if app.env == Env::Live {
            chatapp::upstream::run_due(app, &self.service.live_door).await?;
        }
        let sessions = chatapp::run_due(app).await?;
        let attempts = dispatch::run_due(app, self.service.owners).await?;
        Ok(otp::run_due(app).await? + sessions + attempts)
    }

    /// Stops: readiness off, and requests are refused while load balancers take notice; then no
    /// connection is accepted, running requests finish, storage closes.
    pub async fn stop(self) {
        let app = &self.service.live;
        app.drain();
        tokio::time::sleep(Duration::from_millis(app.config.server.drain_accept_ms)).await;
        self.stop.send_replace(true);
        let until = Instant::now() + Duration::from_millis(app.config.server.drain_timeout_ms);
        let aborts: Vec<_> = self.tasks.iter().map(JoinHandle::abort_handle).collect();
        let finish = async {
            for task in self.tasks {
                // A task that panicked has nothing left to finish.
                let _ended = task.await;
            }
        };
        let are_done = timeout_at(until, finish).await.is_ok();
        // Ends their connections, too: nobody may go on with a storage that is closed.
        aborts.iter().for_each(AbortHandle::abort);
        // One client that reads slowly takes nothing of this time.
        let settle = settle_last(&self.service);
        if timeout_at(until.max(Instant::now() + SETTLE), settle).await.is_err() || !are_done {
            tracing::warn!("some requests did not finish in time; they count as unknown");
        }
        self.desks.iter().for_each(JoinHandle::abort);
        self.service.close().await;
    }
}
