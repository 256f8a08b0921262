//! The networks of ported numbers, looked up before a message is routed. Routing itself waits for
//! nobody: it takes what is known by then.

use crate::app::App;
use crate::kit::msisdn::Msisdn;
use crate::kit::task;

/// Finds out in which network a number is, if a route depends on it; waits at most as long as the
/// settings say.
pub async fn look_up(app: &App, to: &Msisdn) {
    let Some(lookup) = app.carriers.lookup_for(to) else { return };
    let asked = lookup.ask(to.e164()).await;
    app.metrics.sms_lookup(asked.as_str());
}

/// The same without waiting, for a message that may go by SMS later.
pub fn look_up_meanwhile(app: &App, to: &Msisdn) {
    if app.carriers.lookup_for(to).is_some() {
        let (app, to) = (app.clone(), to.clone());
        task::spawn(async move { look_up(&app, &to).await });
    }
}
