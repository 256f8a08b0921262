//! The SQL of legs that arrived late.

use store::{Sql, WriteSet, args};

use crate::dispatch::{Attempt, STALE};
use crate::otp::Challenge;

/// Another leg than the newest arrived, of which the challenge knew nothing yet: under the id that
/// the carrier has said, now or when it took it.
const ARRIVED: Sql = Sql("UPDATE challenges SET status = 'delivered', delivered_channel = $1, \
     delivered_id = COALESCE(CAST($2 AS TEXT), (SELECT MIN(s.provider_id) FROM submissions s \
       WHERE s.attempt_id = $3 AND s.account_id = $4 AND s.provider_id NOT LIKE ' %'), $3), \
     event_count = event_count + 1 \
     WHERE account_id = $4 AND challenge_id = $5 AND attempt_id = $6 AND status = 'sent'");
/// Where the newest has failed, it shows the one that arrived.
const SHOW_ARRIVED: Sql = Sql("UPDATE challenges SET channel = delivered_channel, \
     provider_message_id = delivered_id WHERE account_id = $1 AND challenge_id = $2 \
     AND attempt_id = $3 AND status = 'delivered' AND EXISTS (SELECT 1 FROM attempts \
       WHERE account_id = $1 AND attempt_id = $3 \
       AND state IN ('refused', 'failed', 'lapsed', 'expired'))");

/// An earlier leg arrived, under this id if it is said; refused if the challenge does not wait for
/// news any more.
pub(super) fn arrived(
    set: &mut WriteSet,
    challenge: &Challenge,
    leg: &Attempt,
    provider_id: Option<&str>,
) {
    let (account, id, newest) = (&challenge.account, &challenge.id, &challenge.attempt);
    let args = args![leg.channel.as_str(), provider_id, &leg.id, account, id, newest];
    set.guard(ARRIVED, args, STALE);
    set.push(SHOW_ARRIVED, args![account, id, newest]);
}
