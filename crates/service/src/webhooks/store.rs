//! SQL of the webhooks: targets, their leases, deliveries, tries.

use clock::Millis;
use store::{Error, FromRow, Reject, Row, Sql};

use super::outcome::Health;
use super::pattern::Patterns;
use super::{Attempt, Delivery, Target};

/// The target is not there, or not as it was read.
pub(super) const CHANGED: Reject = Reject("webhook_changed");
/// Another node has the target now.
pub(super) const LOST: Reject = Reject("webhook_lost");
/// The target is at another URL by now, or is active no longer.
pub(super) const MOVED: Reject = Reject("webhook_moved");
/// The wish to look through old events is not as it was read, or the target is gone.
pub(super) const WISHED_ANEW: Reject = Reject("webhook_wished_anew");
/// The account has as many targets as it may.
pub(super) const FULL: Reject = Reject("webhooks_full");

/// The target that stands for all that an account may have, if there are so many.
pub(super) const LAST_OF_ALL: Sql = Sql("SELECT webhook_id FROM webhooks \
     WHERE account_id = $1 AND deleted = 0 ORDER BY webhook_id LIMIT 1 OFFSET $2");

/// A new target.
pub(super) const INSERT: Sql = Sql("INSERT INTO webhooks (account_id, webhook_id, url, patterns, \
     secrets, active, deleted, event_count, created_at, failures, streak, probes, parked_until, \
     work, epoch, lease_until, env) \
     VALUES ($1, $2, $3, $4, $5, 1, 0, 0, $6, 0, 0, 0, 0, 0, 0, 0, $7)");

/// One target.
pub(super) const BY_ID: Sql =
    Sql("SELECT account_id, webhook_id, url, patterns, secrets, active, \
     disabled_reason, disabled_at, event_count, created_at, failures, failing_since, streak, \
     probes, parked_until, last_success_at, recover_after, recover_until, work, holder, epoch, \
     pace_ms, env \
     FROM webhooks WHERE account_id = $1 AND webhook_id = $2 AND deleted = 0");

/// One page of an account's targets, newest first.
pub(super) const LIST: Sql = Sql("SELECT account_id, webhook_id, url, patterns, secrets, active, \
     disabled_reason, disabled_at, event_count, created_at, failures, failing_since, streak, \
     probes, parked_until, last_success_at, recover_after, recover_until, work, holder, epoch, \
     pace_ms, env \
     FROM webhooks WHERE account_id = $1 AND webhook_id < $2 AND deleted = 0 \
     ORDER BY webhook_id DESC LIMIT $3");

/// The targets that an account's events may go to.
pub(super) const ACTIVE: Sql =
    Sql("SELECT account_id, webhook_id, url, patterns, secrets, active, \
     disabled_reason, disabled_at, event_count, created_at, failures, failing_since, streak, \
     probes, parked_until, last_success_at, recover_after, recover_until, work, holder, epoch, \
     pace_ms, env \
     FROM webhooks WHERE account_id = $1 AND active = 1 AND deleted = 0");

/// Another URL or other events; what is NULL stays. What the receiver at the old URL asked for, and
/// that it failed, does not hold for the new one.
pub(super) const CHANGE: Sql = Sql("UPDATE webhooks SET url = COALESCE($1, url), \
     patterns = COALESCE($2, patterns), work = work + 1, \
     parked_until = CASE WHEN $1 IS NULL THEN parked_until ELSE 0 END, \
     failures = CASE WHEN COALESCE($1, url) = url THEN failures ELSE 0 END, \
     failing_since = CASE WHEN COALESCE($1, url) = url THEN failing_since ELSE NULL END, \
     streak = CASE WHEN COALESCE($1, url) = url THEN streak ELSE 0 END, \
     probes = CASE WHEN COALESCE($1, url) = url THEN probes ELSE 0 END, \
     next_at = CASE WHEN $1 IS NULL OR lease_until > $3 THEN next_at ELSE CAST($3 AS BIGINT) END \
     WHERE account_id = $4 AND webhook_id = $5 AND deleted = 0");

/// A fresh start for a target that was disabled, or fails.
pub(super) const ENABLE: Sql = Sql("UPDATE webhooks SET active = 1, disabled_reason = NULL, \
     disabled_at = NULL, failures = 0, failing_since = NULL, streak = 0, probes = 0, \
     parked_until = 0, work = work + 1, \
     recover_until = CASE WHEN active = 0 AND recover_after IS NOT NULL THEN $1 \
       ELSE recover_until END, \
     next_at = CASE WHEN lease_until > $2 THEN next_at ELSE CAST($2 AS BIGINT) END \
     WHERE account_id = $3 AND webhook_id = $4 AND deleted = 0");

/// The end of automatic deliveries; with a URL, if the target is still there.
pub(super) const DISABLE: Sql = Sql("UPDATE webhooks SET active = 0, disabled_reason = $1, \
     disabled_at = $2, event_count = event_count + 1, work = work + 1 \
     WHERE account_id = $3 AND webhook_id = $4 AND url = COALESCE($5, url) AND active = 1 \
     AND deleted = 0");

/// The end of a target. Its row goes when its deliveries are gone.
pub(super) const DELETE: Sql = Sql("UPDATE webhooks SET deleted = 1, active = 0, url = '', \
     secrets = $1, next_at = NULL, work = work + 1, epoch = epoch + 1 \
     WHERE account_id = $2 AND webhook_id = $3 AND deleted = 0");

/// Other secrets, if they are still those that were read.
pub(super) const ROTATE: Sql = Sql("UPDATE webhooks SET secrets = $1, work = work + 1 \
     WHERE account_id = $2 AND webhook_id = $3 AND secrets = $4 AND deleted = 0");

/// Events to be looked through again, with those of an earlier wish that is not done yet.
pub(super) const RECOVER: Sql = Sql("UPDATE webhooks SET \
     recover_after = CASE WHEN recover_after < $1 THEN recover_after ELSE $1 END, \
     recover_until = $2, work = work + 1, \
     next_at = CASE WHEN lease_until > $3 THEN next_at ELSE CAST($3 AS BIGINT) END \
     WHERE account_id = $4 AND webhook_id = $5 AND deleted = 0");

/// How far the looking through has come.
pub(super) const RECOVERED: Sql = Sql("UPDATE webhooks SET recover_after = $1, \
     recover_until = $2 WHERE account_id = $3 AND webhook_id = $4 AND epoch = $5 \
     AND recover_after = $6 AND recover_until = $7");

/// Somebody wants a try now: an end to waiting, and work.
pub(super) const HURRY: Sql = Sql("UPDATE webhooks SET parked_until = 0, work = work + 1, \
     event_count = event_count + 1, \
     next_at = CASE WHEN lease_until > $1 THEN next_at ELSE CAST($1 AS BIGINT) END \
     WHERE account_id = $2 AND webhook_id = $3 AND deleted = 0");

/// New deliveries: a free target becomes this node's, at once.
pub(super) const WAKE: Sql = Sql("UPDATE webhooks SET work = work + 1, \
     holder = CASE WHEN lease_until <= $1 AND parked_until <= $1 THEN CAST($2 AS BIGINT) \
       ELSE holder END, \
     epoch = CASE WHEN lease_until <= $1 AND parked_until <= $1 THEN epoch + 1 ELSE epoch END, \
     next_at = CASE WHEN lease_until > $1 THEN next_at WHEN parked_until > $1 THEN parked_until \
       ELSE CAST($3 AS BIGINT) END, \
     lease_until = CASE WHEN lease_until <= $1 AND parked_until <= $1 THEN CAST($3 AS BIGINT) \
       ELSE lease_until END \
     WHERE account_id = $4 AND webhook_id = $5 AND deleted = 0 \
     RETURNING account_id, webhook_id, url, patterns, secrets, active, disabled_reason, \
     disabled_at, event_count, created_at, failures, failing_since, streak, probes, parked_until, \
     last_success_at, recover_after, recover_until, work, holder, epoch, \
     pace_ms, env");

/// Targets with due work that nobody has; only those of an environment where $4 names one.
pub(super) const CLAIM: Sql = Sql("UPDATE webhooks SET holder = $1, epoch = epoch + 1, \
     lease_until = $2, next_at = $2 WHERE (account_id, webhook_id) IN \
     (SELECT account_id, webhook_id FROM webhooks WHERE next_at <= $3 \
     AND (CAST($4 AS TEXT) = '' OR env = $4) ORDER BY next_at LIMIT $5 /*SKIP LOCKED*/) \
     AND next_at <= $3 \
     RETURNING account_id, webhook_id, url, patterns, secrets, active, disabled_reason, \
     disabled_at, event_count, created_at, failures, failing_since, streak, probes, parked_until, \
     last_success_at, recover_after, recover_until, work, holder, epoch, \
     pace_ms, env");

/// Whether there is anything to claim.
pub(super) const CLAIMABLE: Sql = Sql("SELECT webhook_id FROM webhooks WHERE next_at <= $1 \
     AND (CAST($2 AS TEXT) = '' OR env = $2) ORDER BY next_at LIMIT 1");

/// The leases of a process that is no more, where there can be no other. A leased target is due
/// when its lease ends.
pub(super) const FREE: Sql = Sql("UPDATE webhooks SET holder = NULL, epoch = epoch + 1, \
     lease_until = 0, next_at = $1 \
     WHERE next_at > $1 AND lease_until > $1 AND lease_until = next_at");

/// What this node has, and how much work was left for each.
pub(super) const HELD: Sql =
    Sql("SELECT webhook_id, work FROM webhooks WHERE holder = $1 AND lease_until > 0");

/// The lease goes on.
pub(super) const RENEW: Sql = Sql("UPDATE webhooks SET lease_until = $1, next_at = $1 \
     WHERE account_id = $2 AND webhook_id = $3 AND epoch = $4");

/// The lease ends, unless somebody left work meanwhile. Old events that are still to be looked
/// through, or else the first due delivery, say when any node is needed again, but not before the
/// target may be tried.
pub(super) const RELEASE: Sql = Sql("UPDATE webhooks SET holder = NULL, lease_until = 0, \
     parked_until = $1, next_at = CASE WHEN recover_after IS NOT NULL THEN CAST($1 AS BIGINT) \
       ELSE (SELECT CASE WHEN d.due_at < $1 THEN CAST($1 AS BIGINT) \
       ELSE d.due_at END FROM webhook_deliveries d WHERE d.account_id = $2 \
       AND d.webhook_id = $3 AND d.due_at IS NOT NULL ORDER BY d.due_at LIMIT 1) END \
     WHERE account_id = $2 AND webhook_id = $3 AND epoch = $4 AND work = $5 AND active = 1");
/// The same for a disabled target: only what somebody asked for counts.
pub(super) const RELEASE_DISABLED: Sql = Sql("UPDATE webhooks SET holder = NULL, \
     lease_until = 0, parked_until = $1, \
     next_at = (SELECT CASE WHEN d.due_at < $1 THEN CAST($1 AS BIGINT) ELSE d.due_at END \
       FROM webhook_deliveries d WHERE d.account_id = $2 AND d.webhook_id = $3 \
       AND d.manual = 1 ORDER BY d.due_at LIMIT 1) \
     WHERE account_id = $2 AND webhook_id = $3 AND epoch = $4 AND work = $5 AND active = 0");

/// How the target fares at a URL, unless it has moved meanwhile; refused when another node has it.
pub(super) const FARE: Sql = Sql("UPDATE webhooks SET \
     failures = CASE WHEN url = $1 THEN CAST($2 AS BIGINT) ELSE failures END, \
     failing_since = CASE WHEN url = $1 THEN CAST($3 AS BIGINT) ELSE failing_since END, \
     streak = CASE WHEN url = $1 THEN CAST($4 AS BIGINT) ELSE streak END, \
     probes = CASE WHEN url = $1 THEN CAST($5 AS BIGINT) ELSE probes END, \
     parked_until = CASE WHEN url = $1 THEN CAST($6 AS BIGINT) ELSE parked_until END, \
     last_success_at = CASE WHEN url = $1 THEN CAST($7 AS BIGINT) ELSE last_success_at END, \
     pace_ms = CASE WHEN url = $1 THEN CAST($8 AS BIGINT) ELSE pace_ms END \
     WHERE account_id = $9 AND webhook_id = $10 AND epoch = $11");

/// An event on its way to a target, once.
pub(super) const DELIVER: Sql = Sql("INSERT INTO webhook_deliveries (account_id, webhook_id, \
     delivery_id, event_id, kind, state, manual, step, attempts, due_at) \
     VALUES ($1, $2, $3, $4, $5, 'pending', $6, 0, 0, $7) ON CONFLICT DO NOTHING /*BULK*/");

/// An event that reached a target, or did not, at the first try.
pub(super) const SETTLED: Sql = Sql("INSERT INTO webhook_deliveries (account_id, webhook_id, \
     delivery_id, event_id, kind, state, manual, step, attempts, due_at, settled_at, first_at, \
     first_status, first_error, first_detail, first_latency_ms, first_body) \
     VALUES ($1, $2, $3, $4, $5, $6, 0, $7, 1, $8, $9, $10, $11, $12, $13, $14, $15) \
     ON CONFLICT DO NOTHING /*BULK*/");

/// An event that is to go to a target, or once more if it was given up.
pub(super) const DELIVER_AGAIN: Sql = Sql("INSERT INTO webhook_deliveries (account_id, \
     webhook_id, delivery_id, event_id, kind, state, manual, step, attempts, due_at) \
     VALUES ($1, $2, $3, $4, $5, 'pending', 0, 0, 0, $6) \
     ON CONFLICT (account_id, webhook_id, delivery_id) DO UPDATE SET state = 'pending', \
     step = 0, due_at = excluded.due_at, settled_at = NULL \
     WHERE webhook_deliveries.state IN ('failed', 'exhausted') /*BULK*/");

/// A delivery that somebody wants to be tried now, whatever became of it. A wish differs from the
/// one before it by its time, also within a millisecond: the try of that one may be under way.
pub(super) const RETRY: Sql = Sql("UPDATE webhook_deliveries SET state = 'pending', \
     due_at = CASE WHEN manual = 1 AND due_at <= $1 THEN due_at - 1 ELSE CAST($1 AS BIGINT) END, \
     manual = 1, step = 0, settled_at = NULL \
     WHERE account_id = $2 AND webhook_id = $3 AND delivery_id = $4");

/// What is due for a target, oldest first, with the event.
pub(super) const DUE: Sql = Sql("SELECT d.delivery_id, d.event_id, d.step, d.attempts, d.due_at, \
     d.manual, e.account_id, e.kind, e.object_id, e.sequence, e.state, e.body \
     FROM webhook_deliveries d \
     LEFT JOIN events e ON e.account_id = d.account_id AND e.event_id = d.event_id \
     WHERE d.account_id = $1 AND d.webhook_id = $2 AND d.due_at <= $3 \
     ORDER BY d.due_at LIMIT $4");
/// What somebody asked for, of a disabled target.
pub(super) const DUE_MANUAL: Sql = Sql("SELECT d.delivery_id, d.event_id, d.step, d.attempts, \
     d.due_at, d.manual, e.account_id, e.kind, e.object_id, e.sequence, e.state, e.body \
     FROM webhook_deliveries d \
     LEFT JOIN events e ON e.account_id = d.account_id AND e.event_id = d.event_id \
     WHERE d.account_id = $1 AND d.webhook_id = $2 AND d.due_at <= $3 AND d.manual = 1 \
     ORDER BY d.due_at LIMIT $4");

/// The end of a delivery whose event is gone.
pub(super) const GIVE_UP: Sql = Sql("UPDATE webhook_deliveries SET state = 'exhausted', \
     due_at = NULL, manual = 0, settled_at = $1 \
     WHERE account_id = $2 AND webhook_id = $3 AND delivery_id = $4");

/// What the first try came to, and the try itself. Where somebody asked for another one meanwhile,
/// which is any wish but that of $1, that stands.
pub(super) const SETTLE_FIRST: Sql = Sql("UPDATE webhook_deliveries SET \
     state = CASE WHEN manual = 1 AND due_at <> $1 THEN state ELSE CAST($2 AS TEXT) END, \
     step = CASE WHEN manual = 1 AND due_at <> $1 THEN step ELSE CAST($3 AS BIGINT) END, \
     due_at = CASE WHEN manual = 1 AND due_at <> $1 THEN due_at ELSE CAST($4 AS BIGINT) END, \
     settled_at = CASE WHEN manual = 1 AND due_at <> $1 THEN settled_at \
       ELSE CAST($5 AS BIGINT) END, \
     manual = CASE WHEN manual = 1 AND due_at <> $1 THEN 1 ELSE 0 END, \
     attempts = 1, first_at = $6, first_status = $7, first_error = $8, first_detail = $9, \
     first_latency_ms = $10, first_body = $11 \
     WHERE account_id = $12 AND webhook_id = $13 AND delivery_id = $14 /*BULK*/");
/// What a later try came to, as above.
pub(super) const SETTLE: Sql = Sql("UPDATE webhook_deliveries SET \
     state = CASE WHEN manual = 1 AND due_at <> $1 THEN state ELSE CAST($2 AS TEXT) END, \
     step = CASE WHEN manual = 1 AND due_at <> $1 THEN step ELSE CAST($3 AS BIGINT) END, \
     due_at = CASE WHEN manual = 1 AND due_at <> $1 THEN due_at ELSE CAST($4 AS BIGINT) END, \
     settled_at = CASE WHEN manual = 1 AND due_at <> $1 THEN settled_at \
       ELSE CAST($5 AS BIGINT) END, \
     manual = CASE WHEN manual = 1 AND due_at <> $1 THEN 1 ELSE 0 END, attempts = $6 \
     WHERE account_id = $7 AND webhook_id = $8 AND delivery_id = $9 /*BULK*/");
/// The later try itself.
pub(super) const TRIED: Sql = Sql("INSERT INTO webhook_attempts (account_id, webhook_id, \
     delivery_id, number, at, status, error, detail, latency_ms, body) \
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT DO NOTHING /*BULK*/");

/// A stretch of a target's deliveries, newest first. None is tried while the target is parked, and
/// of a disabled target only what somebody asked for.
pub(super) const LOG: Sql =
    Sql("SELECT d.delivery_id, d.webhook_id, d.event_id, d.kind, d.state, \
     d.attempts, CASE WHEN w.active = 0 AND d.manual = 0 THEN NULL \
       WHEN d.due_at < w.parked_until THEN w.parked_until ELSE d.due_at END, d.settled_at \
     FROM webhooks w \
     JOIN webhook_deliveries d ON d.account_id = w.account_id AND d.webhook_id = w.webhook_id \
     WHERE w.account_id = $1 AND w.webhook_id = $2 AND d.delivery_id < $3 \
     ORDER BY d.delivery_id DESC LIMIT $4");
/// One delivery, of whichever target of the account, as above.
pub(super) const DELIVERY: Sql = Sql("SELECT d.delivery_id, d.webhook_id, d.event_id, d.kind, \
     d.state, d.attempts, CASE WHEN w.active = 0 AND d.manual = 0 THEN NULL \
       WHEN d.due_at < w.parked_until THEN w.parked_until ELSE d.due_at END, d.settled_at \
     FROM webhooks w \
     JOIN webhook_deliveries d ON d.account_id = w.account_id AND d.webhook_id = w.webhook_id \
     WHERE w.account_id = $1 AND w.deleted = 0 AND d.delivery_id = $2");
/// The first try of a delivery.
pub(super) const FIRST_TRY: Sql = Sql("SELECT CAST(1 AS BIGINT), first_at, first_status, \
     first_error, first_detail, first_latency_ms, first_body FROM webhook_deliveries \
     WHERE account_id = $1 AND webhook_id = $2 AND delivery_id = $3 AND first_at IS NOT NULL");
/// The same without what the receiver answered.
pub(super) const FIRST_TRY_IN_SHORT: Sql = Sql("SELECT CAST(1 AS BIGINT), first_at, \
     first_status, first_error, first_detail, first_latency_ms, CAST(NULL AS BYTEA) \
     FROM webhook_deliveries \
     WHERE account_id = $1 AND webhook_id = $2 AND delivery_id = $3 AND first_at IS NOT NULL");
/// The other tries of a delivery, newest first.
pub(super) const TRIES: Sql = Sql("SELECT number, at, status, error, detail, latency_ms, body \
     FROM webhook_attempts WHERE account_id = $1 AND webhook_id = $2 AND delivery_id = $3 \
     ORDER BY number DESC LIMIT $4");
/// The same without what the receiver answered.
pub(super) const TRIES_IN_SHORT: Sql = Sql("SELECT number, at, status, error, detail, \
     latency_ms, CAST(NULL AS BYTEA) FROM webhook_attempts \
     WHERE account_id = $1 AND webhook_id = $2 AND delivery_id = $3 \
     ORDER BY number DESC LIMIT $4");

/// Retention: targets, some at a time.
pub(super) const TARGETS: Sql = Sql("SELECT account_id, webhook_id, deleted, \
     (SELECT a.env FROM accounts a WHERE a.account_id = webhooks.account_id) FROM webhooks \
     WHERE (account_id, webhook_id) > ($1, $2) ORDER BY account_id, webhook_id LIMIT $3");
/// Retention: deliveries from before an id that ended, or were due, before an instant.
pub(super) const FORGET: Sql = Sql("DELETE FROM webhook_deliveries WHERE account_id = $1 \
     AND webhook_id = $2 AND delivery_id IN (SELECT delivery_id FROM webhook_deliveries \
     WHERE account_id = $1 AND webhook_id = $2 AND delivery_id < $3 \
     AND COALESCE(settled_at, due_at, 0) < $4 ORDER BY delivery_id LIMIT $5) \
     RETURNING delivery_id");
/// Retention: tries from before an instant of deliveries from before an id.
pub(super) const FORGET_TRIES: Sql = Sql("DELETE FROM webhook_attempts WHERE account_id = $1 \
     AND webhook_id = $2 AND (delivery_id, number) IN (SELECT delivery_id, number \
     FROM webhook_attempts WHERE account_id = $1 AND webhook_id = $2 AND delivery_id < $3 \
     AND at < $4 ORDER BY delivery_id, number LIMIT $5) RETURNING number");
/// Erasure: all targets of an account.
pub(super) const TARGETS_OF: Sql =
    Sql("SELECT webhook_id FROM webhooks WHERE account_id = $1 ORDER BY webhook_id");
/// Erasure: what a receiver answered at first.
pub(super) const ERASE_FIRST: Sql = Sql("UPDATE webhook_deliveries SET first_body = NULL \
     WHERE account_id = $1 AND webhook_id = $2 AND delivery_id = $3");
/// Erasure: what it answered later.
pub(super) const ERASE: Sql = Sql("UPDATE webhook_attempts SET body = NULL \
     WHERE account_id = $1 AND webhook_id = $2 AND delivery_id = $3");
/// Erasure: whoever has a target with a delivery that may be under way does not have it any more,
/// so that what is answered later cannot be written down. It is tried again.
pub(super) const TAKE_AWAY: Sql = Sql("UPDATE webhooks SET epoch = epoch + 1, holder = NULL, \
     lease_until = 0, work = work + 1, next_at = $1 \
     WHERE account_id = $2 AND webhook_id = $3 AND lease_until > 0 AND deleted = 0 \
     AND EXISTS (SELECT d.delivery_id FROM webhook_deliveries d WHERE d.account_id = $2 \
       AND d.webhook_id = $3 AND d.delivery_id = $4 AND d.due_at IS NOT NULL)");
/// How long the longest waiting target has waited.
pub(super) const OLDEST_DUE: Sql =
    Sql("SELECT next_at FROM webhooks WHERE next_at <= $1 ORDER BY next_at LIMIT 1");
/// Retention: a deleted target of which nothing is left.
pub(super) const BURY: Sql =
    Sql("DELETE FROM webhooks WHERE account_id = $1 AND webhook_id = $2 AND deleted = 1");

impl FromRow for Target {
    fn from_row(mut row: Row) -> Result<Self, Error> {
        let patterns: String = row.take(3)?;
        Ok(Self {
            account: row.take(0)?,
            id: row.take(1)?,
            url: row.take(2)?,
            patterns: Patterns::stored(&patterns),
            sealed: row.take(4)?,
            active: row.take(5)?,
            disabled_reason: row.take(6)?,
            disabled_at: row.take(7)?,
            event_count: row.take(8)?,
            created_at: row.take(9)?,
            health: Health {
                failures: row.take(10)?,
                failing_since: row.take(11)?,
                streak: row.take(12)?,
                probes: row.take(13)?,
                parked_until: row.take(14)?,
                last_success_at: row.take(15)?,
                pace_ms: row.take(21)?,
            },
            recover_after: row.take(16)?,
            recover_until: row.take(17)?,
            work: row.take(18)?,
            holder: row.take(19)?,
            epoch: row.take(20)?,
            env: row.take(22)?,
        })
    }
}

impl FromRow for Delivery {
    fn from_row(mut row: Row) -> Result<Self, Error> {
        Ok(Self {
            id: row.take(0)?,
            webhook: row.take(1)?,
            event: row.take(2)?,
            kind: row.take(3)?,
            state: row.take(4)?,
            attempts: row.take(5)?,
            due_at: row.take(6)?,
            settled_at: row.take(7)?,
        })
    }
}

impl FromRow for Attempt {
    fn from_row(mut row: Row) -> Result<Self, Error> {
        let status: Option<i64> = row.take(2)?;
        let body: Option<Vec<u8>> = row.take(6)?;
        Ok(Self {
            number: row.take(0)?,
            at: row.take::<Millis>(1)?,
            status: status.and_then(|status| u16::try_from(status).ok()),
            error: row.take(3)?,
            detail: row.take(4)?,
            latency_ms: row.take(5)?,
            body,
        })
    }
}
