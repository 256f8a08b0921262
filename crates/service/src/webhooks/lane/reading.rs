//! How a lane reads what is due at its target, when nothing waits in memory any more.

use std::collections::HashSet;

use futures_util::future::try_join_all;
use store::{WriteSet, args};

use super::{SUSPECT_WAITING, TargetLane, WAITING};
use crate::events;
use crate::webhooks::due::Due;
use crate::webhooks::tries::Job;
use crate::webhooks::{Error, Target, store as sql};

impl TargetLane {
    /// Reads the target, and what is due at it.
    pub(super) async fn load(&mut self) -> Result<(), Error> {
        let app = &self.engine.app;
        let (account, id) = (&self.target.account, &self.target.id);
        // The target first: work that is left after this is seen by the guard of giving back.
        let row: Option<Target> = app.db.row(sql::BY_ID, args![account, id]).await?;
        let Some(row) = row.filter(|row| row.epoch == self.target.epoch) else {
            self.is_lost = true;
            return Ok(());
        };
        // Of a target that may not work at all, no more is held than is tried soon.
        let most = if self.target.health.is_suspect() { SUSPECT_WAITING } else { WAITING };
        let limit = i64::try_from(most + self.known.len()).unwrap_or(i64::MAX);
        let due = async |sql| app.db.rows(sql, args![account, id, app.now(), limit]).await;
        // Where one at a time is tried, what somebody asked for does not wait for the rest.
        let is_slow = !row.active || row.health.is_probing();
        let mut rows: Vec<Due> = if is_slow { due(sql::DUE_MANUAL).await? } else { Vec::new() };
        let mut found = rows.len();
        if row.active {
            let rest: Vec<Due> = due(sql::DUE).await?;
            found = rest.len();
            rows.extend(rest);
        }
        self.know(row);
        // What somebody asked for is due as well.
        let mut seen = HashSet::new();
        rows.retain(|due| {
            let delivery = &due.job.delivery;
            let is_known = self.known.contains(delivery);
            if is_known && due.job.is_asked_for {
                self.wished.insert(delivery.clone());
            }
            !is_known && seen.insert(delivery.clone())
        });
        self.line_up(rows).await?;
        self.more = i64::try_from(found).unwrap_or(0) == limit;
        Ok(())
    }

    /// Puts what is due into the queue, each with its JSON. What has no event is given up.
    async fn line_up(&mut self, rows: Vec<Due>) -> Result<(), Error> {
        let app = &self.engine.app;
        let (account, id) = (&self.target.account, &self.target.id);
        let bodies = try_join_all(rows.iter().map(|due| due.body(&self.engine))).await?;
        let mut set = WriteSet::of(account.as_str());
        for (due, body) in rows.iter().zip(&bodies) {
            match (&due.event, body) {
                (Some(event), Some(body)) if due.is_to_keep() => {
                    events::keep_body(&mut set, event, &String::from_utf8_lossy(body));
                }
                (Some(_), Some(_)) => {}
                _ => {
                    set.push(sql::GIVE_UP, args![app.now(), account, id, &due.job.delivery]);
                }
            }
        }
        if !set.is_empty() {
            app.db.commit(set).await?;
        }
        for (Due { job, .. }, body) in rows.into_iter().zip(bodies) {
            if let Some(body) = body {
                self.known.insert(job.delivery.clone());
                self.queue.push_back(Job { body, ..job });
            }
        }
        Ok(())
    }
}
