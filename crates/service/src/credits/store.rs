//! SQL of the ledger and of the prices.

use clock::Millis;
use store::{Error, FromRow, Row, Sql};

use super::{Balance, Transfer};
use crate::kit::id::TransferId;

/// Takes from what is available; refuses when it is not enough.
pub(super) const HOLD: Sql = Sql("UPDATE accounts SET held = held + $1 \
     WHERE account_id = $2 AND posted - held + credit_limit >= $1 \
     /*BULK SUM*/ AND CAST($1 AS BIGINT) >= 0");

/// A held amount becomes a spent one, if a hold of just this amount exists.
pub(super) const POST: Sql = Sql("UPDATE accounts SET held = held - $1, posted = posted - $1 \
     WHERE account_id = $2 /*BULK SUM*/ AND EXISTS (SELECT 1 FROM transfers WHERE account_id = $2 \
     AND transfer_id = $3 AND kind = 'hold' AND amount = $1)");

/// A held amount is free again, if a hold of just this amount exists.
pub(super) const VOID: Sql = Sql("UPDATE accounts SET held = held - $1 \
     WHERE account_id = $2 /*BULK SUM*/ AND EXISTS (SELECT 1 FROM transfers WHERE account_id = $2 \
     AND transfer_id = $3 AND kind = 'hold' AND amount = $1)");

/// A spent amount comes back, if it was posted in just this amount.
pub(super) const REFUND: Sql = Sql("UPDATE accounts SET posted = posted + $1 \
     WHERE account_id = $2 /*BULK SUM*/ AND EXISTS (SELECT 1 FROM transfers WHERE account_id = $2 \
     AND transfer_id = $3 AND kind = 'post' AND amount = $1)");

/// Adds credits, far below where 64 bits end, and answers what is the account's own then.
pub(super) const GRANT: Sql = Sql("UPDATE accounts SET posted = posted + $1 \
     WHERE account_id = $2 AND posted <= 1000000000000000000 - $1 RETURNING posted - held");

/// Takes credits back that were added: neither what is held or spent, nor a credit limit. Answers
/// the same.
pub(super) const CORRECT: Sql = Sql("UPDATE accounts SET posted = posted - $1 \
     WHERE account_id = $2 AND CAST($1 AS BIGINT) >= 0 AND posted - held >= $1 \
     RETURNING posted - held");

/// Says that a transfer came after the block that its id belongs to was, or is about to be, sealed.
pub(super) const LATE: Sql = Sql("INSERT INTO late_transfers (account_id, transfer_id, seal_no) \
     VALUES ($1, $2, 0) ON CONFLICT DO NOTHING");

/// One transfer; the primary key refuses a second one of the same id.
pub(super) const INSERT: Sql =
    Sql("INSERT INTO transfers (account_id, transfer_id, kind, amount, \
     of_transfer, reason, object_id, created_at, mac) \
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT DO NOTHING /*BULK*/");

/// The counters of one account.
pub(super) const BALANCE: Sql = Sql("SELECT billing_mode, status, posted, held, credit_limit \
     FROM accounts WHERE account_id = $1");

/// One page of an account's transfers, newest first.
pub(super) const LEDGER: Sql = Sql("SELECT transfer_id, kind, amount, of_transfer, reason, \
     object_id, created_at, mac FROM transfers \
     WHERE account_id = $1 AND transfer_id < $2 ORDER BY transfer_id DESC LIMIT $3");

/// The price of one country at one instant: a promotion before the base price, and of several the
/// one that began last.
pub(super) const PRICE: Sql = Sql("SELECT credits FROM (SELECT COALESCE(\
     (SELECT credits FROM prices WHERE channel = $1 AND category = $2 AND country = $3 \
     AND valid_from <= $4 AND valid_until > $4 AND (replaced_at IS NULL OR replaced_at > $4) \
     ORDER BY valid_from DESC, price_id DESC LIMIT 1), \
     (SELECT credits FROM prices WHERE channel = $1 AND category = $2 AND country = $3 \
     AND valid_from <= $4 AND valid_until IS NULL AND (replaced_at IS NULL OR replaced_at > $4) \
     ORDER BY valid_from DESC, price_id DESC LIMIT 1)) AS credits) AS price \
     WHERE credits IS NOT NULL");

/// When the next price of the kind begins.
pub(super) const PRICE_BEGINS: Sql = Sql("SELECT valid_from FROM prices WHERE channel = $1 \
     AND category = $2 AND country = $3 AND valid_from > $4 \
     ORDER BY valid_from, price_id LIMIT 1");
/// When the next promotion of the kind ends.
pub(super) const PRICE_ENDS: Sql = Sql("SELECT valid_until FROM (SELECT MIN(valid_until) \
     AS valid_until FROM prices WHERE channel = $1 AND category = $2 AND country = $3 \
     AND valid_until > $4) AS ends WHERE valid_until IS NOT NULL");

/// Whether there is any price.
pub(super) const ANY_PRICE: Sql = Sql("SELECT price_id FROM prices WHERE price_id > $1 LIMIT 1");

/// One price. It ends where the next base price begins, if that is known: for a promotion, before
/// its own end.
pub(super) const ADD_PRICE: Sql = Sql("INSERT INTO prices (price_id, channel, category, country, \
     credits, valid_from, valid_until, replaced_at) VALUES ($1, $2, $3, $4, $5, $6, $7, \
     (SELECT MIN(valid_from) FROM prices WHERE channel = $2 AND category = $3 AND country = $4 \
     AND valid_until IS NULL AND valid_from > $6 \
     AND (CAST($7 AS BIGINT) IS NULL OR valid_from < CAST($7 AS BIGINT)))) \
     ON CONFLICT DO NOTHING");

/// Ends what a new base price replaces: what holds when it begins, promotions too if they began
/// before $5.
pub(super) const CLOSE_PRICE: Sql = Sql("UPDATE prices SET replaced_at = $1 \
     WHERE channel = $2 AND category = $3 AND country = $4 AND valid_from <= $1 \
     AND (valid_until IS NULL OR (valid_until > $1 AND valid_from < $5)) \
     AND (replaced_at IS NULL OR replaced_at > $1)");

/// One page of the prices that have not ended; empty texts do not filter.
pub(super) const PRICES: Sql = Sql("SELECT price_id, channel, category, country, credits, \
     valid_from, valid_until, replaced_at FROM prices WHERE price_id < $1 \
     AND (valid_until IS NULL OR valid_until > $2) AND (replaced_at IS NULL OR replaced_at > $2) \
     AND ($3 = '' OR channel = $3) AND ($4 = '' OR category = $4) AND ($5 = '' OR country = $5) \
     ORDER BY price_id DESC LIMIT $6");

impl FromRow for Balance {
    fn from_row(mut row: Row) -> Result<Self, Error> {
        let (posted, held, credit_limit): (i64, i64, i64) =
            (row.take(2)?, row.take(3)?, row.take(4)?);
        Ok(Self {
            billing_mode: row.take(0)?,
            status: row.take(1)?,
            available: posted.saturating_sub(held).saturating_add(credit_limit),
            posted,
            held,
            credit_limit,
        })
    }
}

impl FromRow for Transfer {
    fn from_row(mut row: Row) -> Result<Self, Error> {
        Ok(Self {
            id: row.take(0)?,
            kind: row.take(1)?,
            amount: row.take(2)?,
            of: row.take::<Option<TransferId>>(3)?,
            reason: row.take(4)?,
            object_id: row.take(5)?,
            created_at: row.take::<Millis>(6)?,
            mac: row.take(7)?,
        })
    }
}
