//! Looking through old events again for one target, some at a time. How far it has come is in the
//! target's row, so a restart goes on where it was.

use store::{WriteSet, args};

use super::loans::Loans;
use super::{Error, Target, delivery_id, store as sql};
use crate::app::App;
use crate::events;

/// Events looked at in one step.
const STEP: i64 = 200;

/// Makes deliveries of the next events that the target asked for and does not have, and of those
/// that were given up; what it was lent is on its way. Refused when the wish changed meanwhile or
/// the lease is lost.
pub(super) async fn step(app: &App, target: &mut Target, loans: &Loans) -> Result<(), Error> {
    let (Some(after), Some(until)) = (&target.recover_after, &target.recover_until) else {
        return Ok(());
    };
    let (account, id, now) = (&target.account, &target.id, app.now());
    let found = events::between(app, account, after, until, STEP).await?;
    let is_last = i64::try_from(found.len()).unwrap_or(0) < STEP;
    let reached = found.last().filter(|_| !is_last).map(|event| event.id.as_str().to_owned());
    let goal = reached.as_ref().map(|_| until.clone());
    let mut set = WriteSet::of(account.as_str());
    let row = args![reached.clone(), goal.clone(), account, id, target.epoch, after, until];
    set.guard(sql::RECOVERED, row, sql::WISHED_ANEW);
    for event in found.iter().filter(|event| target.patterns.matches(&event.kind)) {
        let delivery = delivery_id(&event.id, id);
        if loans.of(&delivery).is_some() {
            continue;
        }
        let row = args![account, id, &delivery, &event.id, event.kind.as_str(), now];
        set.push(sql::DELIVER_AGAIN, row);
    }
    app.db.commit(set).await?;
    (target.recover_after, target.recover_until) = (reached, goal);
    Ok(())
}
