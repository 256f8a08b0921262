//! What routes are for: accounts and networks. A route for one that there is not would never be
//! taken, and what it was meant for would go by another.

use std::collections::BTreeSet;

use futures_util::{StreamExt, TryStreamExt, stream};

use crate::access;
use crate::app::App;
use crate::carriers::routes::Route;
use crate::kit::id::AccountId;
use crate::kit::problem::Item;

/// Accounts that are read at the same time.
const AT_ONCE: usize = 16;

/// What is wrong with the subjects of routes, each with its pointer.
///
/// # Errors
/// When the database cannot be read.
pub(super) async fn faults(app: &App, routes: &[Route]) -> Result<Vec<Item>, store::Error> {
    let unknown = unknown(app, routes).await?;
    let is_unknown =
        |route: &Route| route.account_id.as_ref().is_some_and(|id| unknown.contains(id));
    let mut faults = Vec::new();
    for (at, route) in routes.iter().enumerate() {
        if is_unknown(route) {
            let detail = "must be an account of this environment";
            faults.push(Item::at(&format!("/routes/{at}/account_id"), "invalid_enum", detail));
        }
        if route.network.is_some() && !app.carriers.knows_networks() {
            let detail = "needs sms.lookup.url in the settings: without it no number has a network";
            faults.push(Item::at(&format!("/routes/{at}/network"), "out_of_range", detail));
        }
    }
    Ok(faults)
}

/// The accounts of routes that this environment does not have.
async fn unknown(app: &App, routes: &[Route]) -> Result<BTreeSet<String>, store::Error> {
    let named = routes.iter().filter_map(|route| route.account_id.clone()).collect::<BTreeSet<_>>();
    let missing = |named: String| async move {
        let found = match AccountId::parse(&named) {
            Some(id) => access::account(app, &id).await?,
            None => None,
        };
        let is_here = found.is_some_and(|account| account.env == app.env);
        Ok::<_, store::Error>((!is_here).then_some(named))
    };
    let asked = stream::iter(named).map(missing).buffer_unordered(AT_ONCE);
    let missing: Vec<Option<String>> = asked.try_collect().await?;
    Ok(missing.into_iter().flatten().collect())
}
