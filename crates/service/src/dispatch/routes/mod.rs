//! The routes of SMS that staff put in force: stored, so that every node and the next start have
//! them, and swapped as a whole. Without any those of the settings hold.

mod store;

use ::store::{CommitError, Db, Error, Reject, WriteSet, args};

use self::store as sql;
use crate::app::{App, Env};
use crate::carriers::routes::Route;

/// How often a node looks for routes that another one took, milliseconds.
const LOOK_MS: u64 = 2_000;
/// Another change was faster.
pub const CHANGED: Reject = Reject("routes_changed");

/// Puts stored routes in force before anything is sent.
///
/// # Errors
/// When the database cannot be read.
pub async fn refresh(app: &App) -> Result<(), Error> {
    match newest(app).await {
        Ok((0, _)) => Ok(()),
        Ok((version, routes)) => {
            use_routes(app, version, routes);
            Ok(())
        }
        Err(error @ Error::Corrupt { .. }) => {
            tracing::error!(%error, "the stored routes cannot be read; those of the settings hold");
            Ok(())
        }
        Err(error) => Err(error),
    }
}

/// Puts stored routes in force when they change, until the process drains.
pub async fn follow(app: App) {
    let mut version = 0;
    while !app.is_draining() {
        match newest(&app).await {
            Ok((found, routes)) if found != version => {
                version = found;
                use_routes(&app, version, routes);
            }
            Ok(_) => {}
            Err(error) => tracing::debug!(%error, "routes not read; the last ones hold"),
        }
        app.rest(LOOK_MS).await;
    }
}

/// Two changes are put in force in the order in which they were stored, whoever comes first here.
fn use_routes(app: &App, version: i64, routes: Vec<Route>) {
    if routes.is_empty() {
        app.carriers.reset_routes(version);
        return;
    }
    match app.carriers.set_routes(version, routes) {
        Ok(unknown) if unknown.is_empty() => {}
        Ok(unknown) => {
            let carriers = Vec::from_iter(unknown).join(", ");
            tracing::error!(
                carriers,
                "the stored routes name carriers that are not in the settings"
            );
        }
        Err(fault) => {
            tracing::error!(%fault, route = fault.at, "the stored routes cannot be used here");
        }
    }
}

/// The version of the stored routes, and the routes; 0 = there are none.
///
/// # Errors
/// When the database cannot be read.
pub async fn newest(app: &App) -> Result<(i64, Vec<Route>), Error> {
    newest_of(&app.db, app.env).await
}

/// The same of a database that nobody serves from yet.
///
/// # Errors
/// When the database cannot be read.
pub async fn newest_of(db: &Db, env: Env) -> Result<(i64, Vec<Route>), Error> {
    let row: Option<(i64, String)> = db.row(sql::NEWEST, args![env.as_str()]).await?;
    let Some((version, text)) = row else { return Ok((0, Vec::new())) };
    let routes = serde_json::from_str(&text).map_err(|_| Error::Corrupt { column: 1 })?;
    Ok((version, routes))
}

/// A change of the routes.
pub struct Change {
    /// The version that it follows.
    pub after: i64,
    /// What is to be in force.
    pub routes: Vec<Route>,
}

impl Change {
    /// The version that it makes.
    #[must_use]
    pub const fn version(&self) -> i64 {
        self.after + 1
    }

    /// Adds it to a set; refused if another change was faster.
    pub fn store(&self, app: &App, set: &mut WriteSet) {
        let text = serde_json::to_string(&self.routes).unwrap_or_default();
        let args = args![app.env.as_str(), self.version(), text, app.now(), self.after];
        set.guard(sql::STORE, args, CHANGED);
    }

    /// Puts the routes in force on this node once they are stored; the others follow.
    ///
    /// # Errors
    /// Nothing has changed.
    pub async fn commit(self, app: &App, set: WriteSet) -> Result<(), CommitError> {
        app.db.commit(set).await?;
        use_routes(app, self.version(), self.routes);
        Ok(())
    }
}
