//! The SQL of the guard against pumping.

use store::Sql;

pub(super) const ADD: Sql = Sql("INSERT INTO otp_conversion (account_id, span, bucket, place, \
     sent, verified) VALUES ($1, $2, $3, $4, $5, $6) \
     ON CONFLICT (account_id, span, bucket, place) DO UPDATE SET \
     sent = otp_conversion.sent + excluded.sent, \
     verified = otp_conversion.verified + excluded.verified");
/// Marks a stretch of time of a place as told of.
pub(super) const TELL: Sql = Sql("UPDATE otp_conversion SET told = 1 WHERE account_id = $1 \
     AND span = $2 AND bucket = $3 AND place = $4 AND told = 0");
/// What budgets go by, the newest first: of what is over, only what was verified.
pub(super) const SINCE: Sql = Sql("SELECT bucket, place, sent, verified FROM otp_conversion \
     WHERE account_id = $1 AND span = $2 AND bucket >= $3 AND (bucket = $4 OR verified > 0) \
     ORDER BY bucket DESC, place DESC LIMIT $5");
/// Countries are before ranges, which begin with a plus.
pub(super) const BY_DAY: Sql = Sql("SELECT bucket, place, sent, verified FROM otp_conversion \
     WHERE account_id = $1 AND span = 'd' AND bucket >= $2 AND bucket <= $3 \
     AND place NOT LIKE '+%' ORDER BY bucket DESC, place DESC LIMIT $4");
pub(super) const VERIFIED_ELSEWHERE: Sql = Sql("UPDATE challenges SET status = 'verified', \
     verified_at = $1, code_sealed = NULL, slot = NULL, event_count = event_count + 1, \
     next_at = CASE WHEN settled = 1 THEN NULL ELSE next_at END \
     WHERE account_id = $2 AND challenge_id = $3 AND status IN ('sent', 'delivered') \
     AND expires_at > $1 RETURNING recipient, \
     COALESCE((SELECT a.carrier FROM attempts a WHERE a.account_id = challenges.account_id \
     AND a.attempt_id = challenges.attempt_id), '')");
pub(super) const FORGET: Sql = Sql("DELETE FROM otp_conversion \
     WHERE (account_id, span, bucket, place) IN (SELECT account_id, span, bucket, place \
     FROM otp_conversion WHERE span = $1 AND bucket < $2 ORDER BY bucket LIMIT $3 \
     /*SKIP LOCKED*/) RETURNING bucket");
