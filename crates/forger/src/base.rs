//! The database that is forged: real traffic of three accounts over HTTP, sealed, with a clock that
//! is held so that hours take no time.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use clock::{Clock, HOUR, MINUTE, Millis};
use estafette::{
    access::{self, By, Credentials, MadeBy, NewKey, NewUser, Scope, idempotency::Claim},
    app::{App, BillingMode},
    config::{self, Config, Flags},
    credits::{self, audit::Report, audit::Scope as AuditScope, seals},
    kit::{id::AccountId, sealing::SealHead, secret::Secret},
    operator::accounts::{self, Patch},
    otp, wiring,
};
use store::WriteSet;

/// Where the held clock starts: 2026-01-01T00:00:00Z.
const START: Millis = Millis(1_767_225_600_000);
/// The key of the service, which the forger does not have.
const MASTER_KEY: &str = "5a";
/// Recipients whose last digits make the simulated carriers do something.
const ENDINGS: [&str; 12] = [
    "5671", "0001", "0002", "0004", "5672", "0005", "0006", "0008", "5673", "5674", "5675", "5676",
];

/// The database, and what is known of it elsewhere.
pub(super) struct Base {
    /// As it is now.
    pub(super) file: PathBuf,
    /// As it was before the last day.
    pub(super) old_file: PathBuf,
    /// The account with most of the traffic.
    pub(super) ada: String,
    /// Another one.
    pub(super) ben: String,
    /// One that was made a moment ago.
    pub(super) zoe: String,
    /// The newest seal, as the operator kept it elsewhere.
    pub(super) head: SealHead,
    /// When the traffic ended.
    pub(super) now: Millis,
}

/// One account of the sandbox and how to reach it.
struct Tenant {
    id: AccountId,
    key: Secret,
    /// Where it sends passcodes.
    url: String,
    http: reqwest::Client,
}

/// Makes the database in `folder`.
///
/// # Errors
/// When the service cannot do its part.
pub(super) async fn build(folder: &Path) -> Result<Base> {
    let clock = Clock::held(START, 2026);
    let config = settings(folder, "sqlite:base.db")?;
    let service = wiring::open(config, clock.clone())?;
    let app = service.sandbox.clone();
    let running = wiring::start(service).await?;
    let address = running.addresses.sandbox;
    let mut tenants = Vec::new();
    for name in ["ada", "ben", "eve"] {
        tenants.push(sign_up(&app, name, address).await?);
    }
    let [ada, ben, _] = tenants.as_slice() else { anyhow::bail!("three accounts") };
    for tenant in &tenants {
        traffic(&app, tenant, "111").await?;
    }
    by_hand(&app, &ada.id).await?;
    seal(&app, 2).await?;
    late(&app, ada).await?;
    seal(&app, 3).await?;
    let old_file = folder.join("old.db");
    app.db.backup(&old_file).await?;
    clock.advance(26 * HOUR);
    traffic(&app, ada, "222").await?;
    seal(&app, 5).await?;
    let head = seals::newest(&app.db).await?.context("nothing was sealed")?.head();
    // The end that no seal covers yet.
    clock.advance(MINUTE);
    traffic(&app, ada, "333").await?;
    let zoe = sign_up(&app, "zoe", address).await?;
    let file = folder.join("copy.db");
    app.db.backup(&file).await?;
    let (ada, ben, zoe) = (ada.id.to_string(), ben.id.to_string(), zoe.id.to_string());
    let now = clock.now();
    running.stop().await;
    Ok(Base { file, old_file, ada, ben, zoe, head, now })
}

/// Audits a database as the operator would.
///
/// # Errors
/// When it cannot be opened or read to the end.
pub(super) async fn audit(
    folder: &Path,
    file: &str,
    now: Millis,
    since: Option<SealHead>,
) -> Result<Report> {
    let service = wiring::open(settings(folder, file)?, Clock::held(now, 1))?;
    service.migrate().await?;
    let scope = AuditScope {
        horizon_ms: credits::audit::HORIZON_MS,
        unsealed_ms: Some(credits::audit::UNSEALED_MS),
        since,
        ..AuditScope::default()
    };
    let report = credits::audit::read_all(&service.live, &scope).await;
    service.close().await;
    Ok(report?.unwrap_or_default())
}

fn settings(folder: &Path, file: &str) -> Result<Config> {
    let flags = Flags { engines: engines::ALL, ..Flags::default() };
    let mut config = config::load(None, std::iter::empty(), flags)?;
    folder.clone_into(&mut config.data_dir);
    let path = folder.join(file.trim_start_matches("sqlite:"));
    config.database.url = Secret::new(format!("sqlite:{}", path.display()));
    config.master_key = Secret::new(MASTER_KEY.repeat(32));
    let anywhere = SocketAddr::from(([127, 0, 0, 1], 0));
    config.server.live = anywhere;
    config.server.sandbox = anywhere;
    config.server.metrics = anywhere;
    config.otp.receipt_wait_ms = 50;
    // So long that a round of sealing fits between a send and its fallback.
    config.otp.fallback_after_s = 120;
    Ok(config)
}

async fn sign_up(app: &App, name: &str, address: SocketAddr) -> Result<Tenant> {
    let email = format!("{name}@example.com");
    let password = Secret::new("correct horse battery 42".to_owned());
    let credentials = Credentials { email: &email, password: &password };
    let grant = |set: &mut WriteSet, new: &NewUser| credits::sandbox_grant(app, set, &new.sandbox);
    let (user, ()) = access::signup(app, credentials, MadeBy::Operator, grant).await?;
    let account = access::account(app, &user.sandbox).await?.context("no account")?;
    let wanted = NewKey { name: name.to_owned(), scopes: Scope::set(Scope::ALL) };
    let (key, _) = access::create_key(app, &account, &wanted, By::CLI, &Claim::default()).await?;
    let http = reqwest::Client::builder().no_proxy().build()?;
    Ok(Tenant { id: user.sandbox, key, url: format!("http://{address}/v1/otp/send"), http })
}

/// One send to each ending.
async fn traffic(app: &App, tenant: &Tenant, block: &str) -> Result<()> {
    for ending in ENDINGS {
        send(app, tenant, &format!("+33612{}{ending}", &block[..2])).await?;
    }
    app.clock.advance(10 * MINUTE);
    settle(app).await
}

async fn send(app: &App, tenant: &Tenant, to: &str) -> Result<()> {
    app.clock.advance(1);
    let call = tenant.http.post(&tenant.url).json(&serde_json::json!({"to": to}));
    let status = call.bearer_auth(tenant.key.expose()).send().await?.status();
    let is_refusal = to.ends_with("0004") && status.as_u16() == 422;
    ensure!(status.is_success() || is_refusal, "a send to {to} answers {status}");
    Ok(())
}

/// Runs due work until there is none.
async fn settle(app: &App) -> Result<()> {
    for _ in 0..100 {
        tokio::time::sleep(Duration::from_millis(10)).await;
        if otp::run_due(app).await? == 0 {
            break;
        }
    }
    tokio::time::sleep(Duration::from_millis(50)).await;
    Ok(())
}

/// What staff does: a top-up, a correction, a credit limit.
async fn by_hand(app: &App, account: &AccountId) -> Result<()> {
    let mut set = WriteSet::of(account.as_str());
    credits::grant(app, &mut set, account, 500, "invoice 1");
    credits::correct(app, &mut set, account, 200, "slip");
    app.db.commit(set).await?;
    for limit in [900, 50] {
        let patch = Patch {
            billing_mode: Some(BillingMode::Postpaid),
            credit_limit: Some(limit),
            ..Patch::default()
        };
        app.clock.advance(1);
        accounts::change(app, account, &patch, By::CLI).await?;
    }
    Ok(())
}

/// A refund of a hold that lies behind the fence by then.
async fn late(app: &App, tenant: &Tenant) -> Result<()> {
    send(app, tenant, "+33612340003").await?;
    app.clock.advance(100_000);
    round(app).await?;
    app.clock.advance(30_000);
    settle(app).await
}

/// Half an hour and a round of sealing, so many times.
async fn seal(app: &App, rounds: u32) -> Result<()> {
    for _ in 0..rounds {
        app.clock.advance(31 * MINUTE);
        settle(app).await?;
        round(app).await?;
    }
    Ok(())
}

/// The service's own chore may be at it, too: who comes second tries again.
async fn round(app: &App) -> Result<()> {
    for _ in 0..50 {
        match seals::round(app, None).await {
            Ok(_) => return Ok(()),
            Err(credits::Error::Commit(_)) => tokio::time::sleep(Duration::from_millis(20)).await,
            Err(error) => return Err(error.into()),
        }
    }
    anyhow::bail!("no round of sealing came to its end")
}
