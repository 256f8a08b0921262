//! How a lane keeps its target, and gives it back.

use store::{CommitError, WriteSet, args};

use super::{PAUSE_MS, TargetLane, TargetRow};
use crate::webhooks::held::{Engine, LEASE_MS, RENEW_MS};
use crate::webhooks::{Target, store as sql};

impl TargetLane {
    /// Ends the lease, unless there is new work. The row says when the target is needed again.
    pub(super) async fn give_back(&mut self) -> bool {
        let app = &self.engine.app;
        let (account, id, target) = (&self.target.account, &self.target.id, &self.target);
        let release = if target.active { sql::RELEASE } else { sql::RELEASE_DISABLED };
        let parked_until = target.health.parked_until;
        let mut set = WriteSet::of(account.as_str());
        let args = args![parked_until, account, id, target.epoch, target.work];
        set.guard(release, args, sql::CHANGED);
        match app.db.commit(set).await {
            Ok(_) => return true,
            Err(CommitError::Rejected(_)) => self.refresh().await,
            Err(error) => {
                tracing::warn!(%error, webhook = id.as_str(), "a target was not given back");
                app.clock.tick(PAUSE_MS).await;
            }
        }
        false
    }

    /// Reads the target anew: somebody changed it, or left work.
    pub(super) async fn refresh(&mut self) {
        let app = &self.engine.app;
        let (account, id) = (&self.target.account, &self.target.id);
        match app.db.row::<Target>(sql::BY_ID, args![account, id]).await {
            Ok(Some(row)) if row.epoch == self.target.epoch => {
                self.row = TargetRow::Read;
                self.know(row);
            }
            Ok(_) => self.is_lost = true,
            Err(_) => app.clock.tick(PAUSE_MS).await,
        }
        self.more = true;
    }

    /// Prolongs the lease. Where that fails for long, another node takes over.
    pub(super) async fn renew(&mut self) {
        let app = &self.engine.app;
        let until = app.now() + LEASE_MS;
        let (account, id) = (&self.target.account, &self.target.id);
        let mut set = WriteSet::of(account.as_str());
        set.guard(sql::RENEW, args![until, account, id, self.target.epoch], sql::LOST);
        match app.db.commit(set).await {
            Ok(_) => {}
            Err(CommitError::Rejected(_)) => self.is_lost = true,
            Err(error) => {
                tracing::warn!(%error, webhook = id.as_str(), "a lease was not prolonged");
            }
        }
        self.renew = Box::pin(sleep(&self.engine));
        // A busy target never gives its lease back, and what failed before is due meanwhile.
        self.more = true;
    }
}

/// Until the lease is to be prolonged.
pub(super) fn sleep(engine: &Engine) -> impl Future<Output = ()> + Send + 'static {
    let clock = engine.app.clock.clone();
    async move { clock.sleep(RENEW_MS).await }
}
