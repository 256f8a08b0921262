//! The SQL of what is remembered of recipients.

use store::{Error, FromRow, Row, Sql};

use super::Sends;

pub(super) const UNREACHABLE: Sql =
    Sql("SELECT unreachable_until FROM recipients WHERE account_id = $1 AND recipient = $2");
pub(super) const LIMITS: Sql =
    Sql("SELECT chatapp_sent_at, sms_sent_at, sent_1, sent_2, sent_3, sent_4, \
     sent_5, sent_6, sent_7, sent_8, sent_9, sent_10, wrong_at FROM recipients \
     WHERE account_id = $1 AND recipient = $2");
/// Counts a guess at the recipient's codes, after it was judged wrong.
pub(super) const COUNT_WRONG_GUESS: Sql = Sql("UPDATE recipients SET \
     wrong_at = SUBSTR(CAST(CAST($1 AS BIGINT) AS TEXT) || wrong_at, 1, 260) \
     WHERE account_id = $2 AND recipient = (SELECT recipient FROM challenges \
     WHERE account_id = $2 AND challenge_id = $3 AND status <> 'verified')");
pub(super) const REMEMBER_UNREACHABLE: Sql = Sql("INSERT INTO recipients (account_id, recipient, \
     unreachable_until, chatapp_sent_at, sms_sent_at, sent_1, sent_2, sent_3, sent_4, sent_5, \
     sent_6, sent_7, sent_8, sent_9, sent_10) VALUES ($1, $2, $3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, \
     0, 0) \
     ON CONFLICT (account_id, recipient) DO UPDATE SET unreachable_until = $3");
/// Counts a fallback in the log of sends. It belongs to a send that was let through.
pub(super) const COUNT_FALLBACK: Sql = Sql("UPDATE recipients SET sms_sent_at = $1, sent_1 = $1, \
     sent_2 = sent_1, sent_3 = sent_2, sent_4 = sent_3, sent_5 = sent_4, sent_6 = sent_5, \
     sent_7 = sent_6, sent_8 = sent_7, sent_9 = sent_8, sent_10 = sent_9 \
     WHERE account_id = $2 AND recipient = $3");
/// Counts one send in a sliding log of ten, if no limit is reached. Of the wrong guesses, the one
/// that fills a day's budget decides: while it is younger than a day, sends are an hour apart.
pub(super) const COUNT_SEND: Sql =
    Sql("INSERT INTO recipients (account_id, recipient, unreachable_until, \
     chatapp_sent_at, sms_sent_at, sent_1, sent_2, sent_3, sent_4, sent_5, sent_6, sent_7, sent_8, \
     sent_9, sent_10) VALUES ($1, $2, 0, $3, $4, $5, 0, 0, 0, 0, 0, 0, 0, 0, 0) \
     ON CONFLICT (account_id, recipient) DO UPDATE SET \
     chatapp_sent_at = CASE WHEN $3 > 0 THEN $3 ELSE recipients.chatapp_sent_at END, \
     sms_sent_at = CASE WHEN $4 > 0 THEN $4 ELSE recipients.sms_sent_at END, \
     sent_1 = $5, sent_2 = recipients.sent_1, sent_3 = recipients.sent_2, \
     sent_4 = recipients.sent_3, sent_5 = recipients.sent_4, sent_6 = recipients.sent_5, \
     sent_7 = recipients.sent_6, sent_8 = recipients.sent_7, sent_9 = recipients.sent_8, \
     sent_10 = recipients.sent_9 \
     WHERE (CASE CAST($6 AS BIGINT) WHEN 1 THEN recipients.sent_1 WHEN 2 THEN recipients.sent_2 \
       WHEN 3 THEN recipients.sent_3 WHEN 4 THEN recipients.sent_4 WHEN 5 THEN recipients.sent_5 \
       WHEN 6 THEN recipients.sent_6 WHEN 7 THEN recipients.sent_7 WHEN 8 THEN recipients.sent_8 \
       WHEN 9 THEN recipients.sent_9 ELSE recipients.sent_10 END) <= $7 \
     AND (CASE CAST($8 AS BIGINT) WHEN 1 THEN recipients.sent_1 WHEN 2 THEN recipients.sent_2 \
       WHEN 3 THEN recipients.sent_3 WHEN 4 THEN recipients.sent_4 WHEN 5 THEN recipients.sent_5 \
       WHEN 6 THEN recipients.sent_6 WHEN 7 THEN recipients.sent_7 WHEN 8 THEN recipients.sent_8 \
       WHEN 9 THEN recipients.sent_9 ELSE recipients.sent_10 END) <= $9 \
     AND (CASE WHEN $3 > 0 THEN recipients.chatapp_sent_at ELSE recipients.sms_sent_at END) <= \
     $10 AND (recipients.sent_1 <= $11 OR \
     CAST(COALESCE(NULLIF(SUBSTR(recipients.wrong_at, \
     CAST(CAST($12 AS BIGINT) AS INTEGER), 13), ''), '0') AS BIGINT) <= $9) /*BULK*/");

impl FromRow for Sends {
    fn from_row(mut row: Row) -> Result<Self, Error> {
        let mut last = [0; 10];
        for (index, sent) in last.iter_mut().enumerate() {
            *sent = row.take(2 + index)?;
        }
        Ok(Self { by_chatapp: row.take(0)?, by_sms: row.take(1)?, last, wrong: row.take(12)? })
    }
}
