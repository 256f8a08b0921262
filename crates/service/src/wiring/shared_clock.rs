//! One clock for all nodes: that of the database they share. What one node writes down for later,
//! the others read: a node whose own clock is an hour ahead would end their passcodes, and leave
//! leases behind that nobody may take for an hour. So no node goes by its own.

use clock::{Clock, Reading, Standing};
use store::{Db, Error};

use crate::app::App;

/// How often the database is asked, milliseconds. In between, the time that passes is counted.
const PAUSE_MS: u64 = 10_000;
/// An answer as quick as this is taken, milliseconds; of slower ones the quickest.
const QUICK_MS: i64 = 20;
/// How often it is asked for a quick one.
const READINGS: usize = 3;
/// What is worth a word, milliseconds: certificates and the times of the log go by the machine's.
const NOTICED_MS: i64 = 2_000;

/// What of the clocks the log was told.
#[derive(Debug, Default, PartialEq, Eq)]
enum Told {
    #[default]
    Agree,
    Apart,
}

/// Sets a clock by the database's. `None` = there is none to go by: an embedded database, or a
/// clock that is held.
///
/// # Errors
/// When the database does not answer.
pub(crate) async fn follow(db: &Db, clock: &Clock) -> Result<Option<Standing>, Error> {
    Ok(read(db, clock).await?.and_then(|reading| clock.follow(&reading)))
}

async fn read(db: &Db, clock: &Clock) -> Result<Option<Reading>, Error> {
    let mut best: Option<Reading> = None;
    for _ in 0..READINGS {
        let asked_ms = clock.monotonic_ms();
        let Some(said) = db.clock().await? else { return Ok(None) };
        let reading = Reading { said, asked_ms, answered_ms: clock.monotonic_ms() };
        if best.is_none_or(|best| reading.took_ms() < best.took_ms()) {
            best = Some(reading);
        }
        if reading.took_ms() <= QUICK_MS {
            break;
        }
    }
    Ok(best)
}

/// Keeps the app's clock by the database's until the process drains.
pub(super) async fn keep(app: App) {
    let mut told = Told::default();
    while !app.is_draining() {
        match follow(&app.db, &app.clock).await {
            Ok(None) => return,
            Ok(Some(standing)) => told = tell(&app, standing, &told),
            // Until it is back, the time that passes is counted.
            Err(error) => tracing::debug!(%error, "the database's clock was not read"),
        }
        app.rest(PAUSE_MS).await;
    }
}

fn tell(app: &App, standing: Standing, told: &Told) -> Told {
    let Standing { machine_ahead_ms, moved_ms } = standing;
    app.metrics.clocks().ahead_of_database(machine_ahead_ms);
    if moved_ms.abs() > NOTICED_MS {
        tracing::warn!(moved_ms, "the database's clock was set; all nodes go by it");
    }
    let stands = if machine_ahead_ms.abs() > NOTICED_MS { Told::Apart } else { Told::Agree };
    match (told, &stands) {
        (Told::Agree, Told::Apart) => tracing::warn!(
            machine_ahead_ms,
            "this machine's clock and the database's differ; the service goes by the database's. \
             Run an NTP client on both machines"
        ),
        (Told::Apart, Told::Agree) => {
            tracing::info!("this machine's clock agrees with the database's again");
        }
        _ => {}
    }
    stands
}
