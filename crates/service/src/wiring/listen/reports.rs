//! The listener for reports of emails: SMTP, with places of its own, so that no flood of mail takes
//! any from the API.

use std::time::Duration;

use smtp::server::{Bounds, serve};
use tokio::sync::watch::Receiver;
use tokio::task::{JoinHandle, JoinSet};

use super::gate::Gate;
use super::{Accepted, Accepting, Listener};
use crate::app::App;
use crate::emails::reports::Intake;
use crate::kit::alarm::Alarm;
use crate::kit::task;

/// Connections at a time, and from one address: usually the operator's own relay.
const PLACES: usize = 64;
const PLACES_PER_ADDRESS: usize = 32;
/// What one connection may do. Reports quote the message they are about, or its head.
const BOUNDS: Bounds = Bounds {
    patience: Duration::from_secs(30),
    session: Duration::from_mins(5),
    message_bytes: 1024 * 1024,
    recipients: 10,
    commands: 500,
};

/// Serves the listener until the stop. Who is cut off then brings its report again.
pub(in crate::wiring) fn serve_reports(
    listener: Listener,
    app: &App,
    intake: Intake,
    mut stopped: Receiver<bool>,
) -> JoinHandle<()> {
    let gate = Gate::with_shares(PLACES, PLACES_PER_ADDRESS);
    let metrics = app.metrics.clone();
    let mut accepting =
        Accepting { listener, gate, metrics, waiting: None, alarm: Alarm::default() };
    let name = app.config.mail_name();
    task::spawn(async move {
        let mut connections = JoinSet::new();
        loop {
            let (Accepted { tcp, share, .. }, place) = tokio::select! {
                biased;
                _ = stopped.wait_for(|stop| *stop) => break,
                Some(_ended) = connections.join_next() => continue,
                next = accepting.next() => next,
            };
            let (name, intake) = (name.clone(), intake.clone());
            let counted = accepting.metrics.connection_opened(accepting.listener.name);
            connections.spawn(async move {
                serve(tcp, &name, BOUNDS, &intake).await;
                drop((share, place, counted));
            });
        }
    })
}
