//! The forgeries: what somebody with the database, but without the master key, can do to it. All of
//! them mend the counters afterwards, as a careful forger does.

/// What a forgery is to be met with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expect {
    /// `estafette audit` notices.
    Noticed,
    /// It notices with a seal that was kept elsewhere, and not without.
    NoticedSince,
    /// Nothing is forged.
    Sound,
    /// It cannot be noticed: docs/credits.md says why.
    Unnoticed,
}

/// One forgery.
pub(super) struct Forgery {
    pub(super) name: &'static str,
    pub(super) expect: Expect,
    /// SQL, with `:ada`, `:ben` and `:zoe` for accounts.
    pub(super) sql: &'static str,
    /// Counters are made to fit the transfers afterwards.
    pub(super) is_balanced: bool,
}

/// Makes the counters of all accounts what their transfers say.
pub(super) const BALANCE: &str = "
    UPDATE accounts SET posted = COALESCE((SELECT SUM(CASE kind WHEN 'topup' THEN amount
        WHEN 'refund' THEN amount WHEN 'post' THEN -amount WHEN 'correction' THEN -amount
        ELSE 0 END) FROM transfers t WHERE t.account_id = accounts.account_id), 0),
      held = COALESCE((SELECT SUM(CASE kind WHEN 'hold' THEN amount WHEN 'post' THEN -amount
        WHEN 'void' THEN -amount ELSE 0 END)
        FROM transfers t WHERE t.account_id = accounts.account_id), 0);";

const fn noticed(name: &'static str, sql: &'static str) -> Forgery {
    Forgery { name, sql, expect: Expect::Noticed, is_balanced: true }
}

/// One that is not about credits.
const fn beside(name: &'static str, sql: &'static str) -> Forgery {
    Forgery { name, sql, expect: Expect::Noticed, is_balanced: false }
}

const fn other(name: &'static str, expect: Expect, sql: &'static str) -> Forgery {
    Forgery { name, sql, expect, is_balanced: true }
}

/// All of them; the old copy is tried beside them.
pub(super) const ALL: &[Forgery] = &[
    Forgery { name: "nothing (control)", expect: Expect::Sound, is_balanced: false, sql: "" },
    other("counters computed anew (control)", Expect::Sound, ""),
    // Rows made up.
    beside("balance raised", "UPDATE accounts SET posted = posted + 1000 WHERE account_id = :ada"),
    noticed(
        "top-up with a malformed id",
        "INSERT INTO transfers SELECT account_id, 'zzz', kind,
        999, of_transfer, reason, object_id, created_at, mac FROM transfers
        WHERE account_id = :ada AND kind = 'topup' LIMIT 1",
    ),
    noticed(
        "top-up with an empty id",
        "INSERT INTO transfers SELECT account_id, '', kind, 999,
        of_transfer, reason, object_id, created_at, mac FROM transfers
        WHERE account_id = :ada AND kind = 'topup' LIMIT 1",
    ),
    noticed(
        "top-up with an id of bytes",
        "INSERT INTO transfers SELECT account_id, x'FF00', kind,
        999, of_transfer, reason, object_id, created_at, mac FROM transfers
        WHERE account_id = :ada AND kind = 'topup' LIMIT 1",
    ),
    noticed(
        "top-up with an id that is no UTF-8",
        "INSERT INTO transfers SELECT account_id,
        CAST(x'74786EFF' AS TEXT), kind, 999, of_transfer, reason, object_id, created_at, mac
        FROM transfers WHERE account_id = :ada AND kind = 'topup' LIMIT 1",
    ),
    noticed(
        "top-up made up",
        "INSERT INTO transfers SELECT account_id,
        'txn_01kdvk2r00e009g2g0g0g0g0g0', kind, 999, of_transfer, reason, object_id, created_at,
        randomblob(32) FROM transfers WHERE account_id = :ada AND kind = 'topup' LIMIT 1",
    ),
    noticed(
        "top-up copied under another id",
        "INSERT INTO transfers SELECT account_id,
        'txn_01kdvk2r00e009g2g0g0g0g0g0', kind, amount, of_transfer, reason, object_id, created_at,
        mac FROM transfers WHERE account_id = :ada AND kind = 'topup' LIMIT 1",
    ),
    noticed(
        "top-up copied from another account",
        "INSERT INTO transfers SELECT :ada, transfer_id,
        kind, amount, of_transfer, reason, object_id, created_at, mac FROM transfers
        WHERE account_id = :ben AND kind = 'topup'",
    ),
    noticed(
        "transfers moved to another account",
        "UPDATE transfers SET account_id = :ada
        WHERE account_id = :ben AND kind = 'topup'",
    ),
    // Rows changed.
    noticed(
        "top-up raised",
        "UPDATE transfers SET amount = amount + 1
        WHERE account_id = :ada AND kind = 'topup'",
    ),
    noticed(
        "amount that is no integer",
        "UPDATE transfers SET amount = 1.5
        WHERE account_id = :ada AND kind = 'correction'",
    ),
    noticed(
        "two prices swapped",
        "UPDATE transfers SET amount = 12 - amount
        WHERE account_id = :ada AND kind IN ('hold', 'post', 'refund', 'void')",
    ),
    noticed(
        "post turned into a void",
        "UPDATE transfers SET kind = 'void' WHERE account_id = :ada
        AND transfer_id = (SELECT MIN(transfer_id) FROM transfers WHERE account_id = :ada
        AND kind = 'post')",
    ),
    beside(
        "reason reworded",
        "UPDATE transfers SET reason = 'x' WHERE account_id = :ada
        AND kind = 'topup'",
    ),
    beside(
        "date changed",
        "UPDATE transfers SET created_at = created_at + 1 WHERE account_id = :ada
        AND kind = 'topup'",
    ),
    beside(
        "object changed",
        "UPDATE transfers SET object_id = 'otp_1' WHERE account_id = :ada
        AND kind = 'hold'",
    ),
    // Rows removed.
    noticed("send removed with its attempt", SEND_REMOVED),
    noticed("send removed with attempt and challenge", SEND_AND_CHALLENGE_REMOVED),
    noticed(
        "all sends of a day removed",
        "DELETE FROM challenges WHERE account_id = :ada;
        DELETE FROM attempts WHERE account_id = :ada; DELETE FROM late_transfers;
        DELETE FROM transfers WHERE account_id = :ada AND kind NOT IN ('topup', 'correction')",
    ),
    noticed(
        "top-up removed",
        "DELETE FROM transfers WHERE account_id = :ada AND kind = 'topup'
        AND amount = 500",
    ),
    noticed(
        "correction removed",
        "DELETE FROM transfers WHERE account_id = :ada
        AND kind = 'correction'",
    ),
    noticed(
        "refund removed, attempt turned",
        "UPDATE attempts SET state = 'delivered'
        WHERE account_id = :ada AND state = 'lapsed';
        DELETE FROM transfers WHERE account_id = :ada AND kind = 'refund'",
    ),
    noticed(
        "late refund removed with its mark",
        "UPDATE attempts SET state = 'delivered'
        WHERE account_id = :ada AND EXISTS (SELECT 1 FROM late_transfers l WHERE
        substr(l.transfer_id, 5, 25) = substr(attempts.attempt_id, 5, 25));
        DELETE FROM transfers WHERE transfer_id IN (SELECT transfer_id FROM late_transfers);
        DELETE FROM late_transfers",
    ),
    beside("mark of a late refund removed", "DELETE FROM late_transfers"),
    noticed(
        "removed row called late",
        "INSERT INTO late_transfers SELECT account_id, transfer_id, 0
        FROM transfers WHERE account_id = :ada AND kind = 'correction';
        DELETE FROM transfers WHERE account_id = :ada AND kind = 'correction'",
    ),
    beside(
        "post whose attempt is gone",
        "DELETE FROM attempts WHERE account_id = :ada
        AND state = 'delivered'",
    ),
    beside(
        "attempts called forgotten by retention",
        "INSERT INTO seals SELECT MAX(seal_no) + 1,
        'forgot_attempts_sandbox', '', '', 'att_7zzzzzzzzzzzzzzzzzzzzzzzzz', 0, 0, digest, '',
        sealed_at, hash, randomblob(32), randomblob(32) FROM seals;
        DELETE FROM attempts WHERE account_id = :ada",
    ),
    // Accounts.
    beside("account row removed", "DELETE FROM accounts WHERE account_id = :ben"),
    noticed(
        "account removed with its rows",
        "DELETE FROM accounts WHERE account_id = :ben;
        DELETE FROM transfers WHERE account_id = :ben; DELETE FROM attempts WHERE account_id = :ben;
        DELETE FROM challenges WHERE account_id = :ben",
    ),
    noticed(
        "account removed with its rows and seals",
        "DELETE FROM accounts
        WHERE account_id = :ben;
        DELETE FROM transfers WHERE account_id = :ben; DELETE FROM attempts WHERE account_id = :ben;
        DELETE FROM challenges WHERE account_id = :ben; DELETE FROM seals WHERE account_id = :ben",
    ),
    beside(
        "credit limit raised",
        "UPDATE accounts SET credit_limit = 5000
        WHERE account_id = :ada",
    ),
    beside(
        "credit limit and mode changed",
        "UPDATE accounts SET credit_limit = 9,
        billing_mode = 'postpaid' WHERE account_id = :ben",
    ),
    beside(
        "counter that is no number",
        "UPDATE accounts SET posted = x'00'
        WHERE account_id = :ben",
    ),
    // Both accounts of the user change places: each environment has one of them.
    beside(
        "play money made real",
        "UPDATE accounts SET env = 'x' WHERE env = 'live' AND user_id =
        (SELECT user_id FROM accounts WHERE account_id = :ben);
        UPDATE accounts SET env = 'live' WHERE account_id = :ben;
        UPDATE accounts SET env = 'sandbox' WHERE env = 'x'",
    ),
    beside(
        "account given to another user",
        "UPDATE accounts SET user_id = 'usr_1'
        WHERE account_id = :ben",
    ),
    // The audit log.
    beside(
        "limit raised, line made up",
        "UPDATE accounts SET credit_limit = 5000
        WHERE account_id = :ada; INSERT INTO audit_log SELECT 'aud_7zzzzzzzzzzzzzzzzzzzzzzzzz', at,
        actor_kind, actor_id, action, object_id, account_id, request_id,
        replace(detail, ':50', ':5000'), mac, seal_no FROM audit_log WHERE action = 'account.update'
        ORDER BY entry_id DESC LIMIT 1",
    ),
    beside(
        "limit raised, line without a hash",
        "UPDATE accounts SET credit_limit = 5000
        WHERE account_id = :ada; INSERT INTO audit_log SELECT 'aud_7zzzzzzzzzzzzzzzzzzzzzzzzz', at,
        actor_kind, actor_id, action, object_id, account_id, request_id,
        replace(detail, ':50', ':5000'), NULL, seal_no FROM audit_log
        WHERE action = 'account.update'
        ORDER BY entry_id DESC LIMIT 1",
    ),
    beside(
        "limit of before, newest line removed",
        "UPDATE accounts SET credit_limit = 900
        WHERE account_id = :ada; DELETE FROM audit_log WHERE entry_id = (SELECT MAX(entry_id)
        FROM audit_log WHERE action = 'account.update')",
    ),
    beside(
        "limit of before, lines and seals of it removed",
        "UPDATE accounts SET credit_limit = 900
        WHERE account_id = :ada; DELETE FROM seals WHERE account_id = :ada AND kind = 'terms';
        DELETE FROM audit_log WHERE entry_id = (SELECT MAX(entry_id)
        FROM audit_log WHERE action = 'account.update')",
    ),
    beside(
        "old line of the audit log removed",
        "DELETE FROM audit_log WHERE entry_id =
        (SELECT MIN(entry_id) FROM audit_log)",
    ),
    beside(
        "line of the audit log reworded",
        "UPDATE audit_log SET actor_id = 'stf_1'
        WHERE entry_id = (SELECT MIN(entry_id) FROM audit_log)",
    ),
    beside(
        "line of the audit log stripped of its hash",
        "UPDATE audit_log SET mac = NULL,
        entry_id = 'aud_7zzzzzzzzzzzzzzzzzzzzzzzzz' WHERE entry_id = (SELECT MAX(entry_id)
        FROM audit_log)",
    ),
    // The seals.
    beside("seal removed", "DELETE FROM seals WHERE seal_no = 4"),
    beside(
        "seal removed, others renumbered",
        "DELETE FROM seals WHERE seal_no = 4;
        UPDATE seals SET seal_no = -seal_no WHERE seal_no > 4;
        UPDATE seals SET seal_no = -seal_no - 1 WHERE seal_no < 0",
    ),
    beside(
        "seal changed",
        "UPDATE seals SET row_count = row_count - 1 WHERE seal_no =
        (SELECT MIN(seal_no) FROM seals WHERE account_id = :ada AND kind = 'transfers')",
    ),
    beside("seal made unreadable", "UPDATE seals SET digest = 'x' WHERE seal_no = 5"),
    beside(
        "seals of two accounts swapped",
        "UPDATE seals SET account_id =
        CASE account_id WHEN :ada THEN :ben ELSE :ada END WHERE account_id IN (:ada, :ben)",
    ),
    beside(
        "fence moved on",
        "UPDATE seals SET until_id = 'txn_7zzzzzzzzzzzzzzzzzzzzzzzzz'
        WHERE seal_no = (SELECT MAX(seal_no) FROM seals WHERE kind = 'fence')",
    ),
    beside("first seals removed", "DELETE FROM seals WHERE seal_no <= 10"),
    noticed("seals of more than a day removed", "DELETE FROM seals WHERE seal_no > 3"),
    // What no seal covers yet.
    beside("environments of a new user swapped", NEW_SWAPPED),
    beside(
        "new account moved to another user",
        "UPDATE accounts SET user_id = 'usr_x' WHERE account_id = :zoe",
    ),
    beside(
        "new account suspended",
        "UPDATE accounts SET status = 'suspended'
        WHERE account_id = :zoe",
    ),
    beside(
        "limit of a new account raised",
        "UPDATE accounts SET credit_limit = 9
        WHERE account_id = :zoe",
    ),
    beside(
        "new account removed",
        "DELETE FROM transfers WHERE account_id = :zoe;
        DELETE FROM accounts WHERE account_id = :zoe",
    ),
    beside(
        "account with an id of bytes",
        "INSERT INTO accounts SELECT x'FF00', 'usr_x', env, status, billing_mode, credit_limit, 0,
        0, settings, created_at FROM accounts WHERE account_id = :ada",
    ),
    beside(
        "account with an empty id",
        "INSERT INTO accounts SELECT '', 'usr_x', env, status, 'postpaid', 99999, 0, 0, settings,
        created_at FROM accounts WHERE account_id = :ada",
    ),
    beside(
        "account without an id",
        "INSERT INTO accounts SELECT NULL, 'usr_x', env, status, 'postpaid', 99999, 0, 0, settings,
        created_at FROM accounts WHERE account_id = :ada",
    ),
    beside(
        "transfer without an account",
        "INSERT INTO transfers SELECT '', transfer_id, kind, amount, of_transfer, reason,
        object_id, created_at, mac FROM transfers WHERE account_id = :ada LIMIT 1",
    ),
    beside(
        "line of the audit log without an id",
        "INSERT INTO audit_log SELECT NULL, at, actor_kind, actor_id, action, object_id,
        account_id, request_id, detail, NULL, seal_no FROM audit_log LIMIT 1",
    ),
    noticed(
        "all seals removed, with a correction and its line",
        "DELETE FROM seals; DELETE FROM late_transfers; DELETE FROM audit_log
        WHERE action = 'credits.add'; DELETE FROM transfers
        WHERE account_id = :ada AND kind = 'correction'",
    ),
    beside("newest seals removed, lines kept", "DELETE FROM seals WHERE seal_no > 20"),
    noticed(
        "all seals and hashes of lines removed",
        "DELETE FROM seals;
        DELETE FROM late_transfers; UPDATE audit_log SET mac = NULL; DELETE FROM transfers
        WHERE account_id = :ada AND kind = 'correction'",
    ),
    // What only a seal that was kept elsewhere shows.
    other("newest seals removed with their rows", Expect::NoticedSince, NEWEST_REMOVED),
    // What nothing shows.
    other("unsealed send removed with all its rows", Expect::Unnoticed, UNSEALED_REMOVED),
    Forgery {
        name: "price lowered",
        expect: Expect::Unnoticed,
        is_balanced: false,
        sql: "UPDATE prices SET credits = 0",
    },
];

const SEND_REMOVED: &str = "CREATE TEMP TABLE gone AS SELECT attempt_id, object_id FROM attempts
    WHERE account_id = :ada AND attempt_id = (SELECT MIN(attempt_id) FROM attempts
    WHERE account_id = :ada AND state = 'delivered');
    DELETE FROM attempts WHERE attempt_id IN (SELECT attempt_id FROM gone);
    DELETE FROM transfers WHERE account_id = :ada
    AND object_id IN (SELECT object_id FROM gone)";

const SEND_AND_CHALLENGE_REMOVED: &str = "CREATE TEMP TABLE gone AS SELECT attempt_id, object_id
    FROM attempts WHERE account_id = :ada AND attempt_id = (SELECT MIN(attempt_id) FROM attempts
    WHERE account_id = :ada AND state = 'delivered');
    DELETE FROM attempts WHERE attempt_id IN (SELECT attempt_id FROM gone);
    DELETE FROM challenges WHERE challenge_id IN (SELECT object_id FROM gone);
    DELETE FROM transfers WHERE account_id = :ada
    AND object_id IN (SELECT object_id FROM gone)";

/// Play money becomes real.
const NEW_SWAPPED: &str = "UPDATE accounts SET env = 'x' WHERE env = 'live' AND user_id =
    (SELECT user_id FROM accounts WHERE account_id = :zoe);
    UPDATE accounts SET env = 'live' WHERE account_id = :zoe;
    UPDATE accounts SET env = 'sandbox' WHERE env = 'x'";

/// The last send of all, which is younger than the fence.
const UNSEALED_REMOVED: &str = "CREATE TEMP TABLE gone AS SELECT challenge_id FROM challenges
    WHERE challenge_id = (SELECT MAX(challenge_id) FROM challenges WHERE account_id = :ada);
    DELETE FROM attempts WHERE object_id IN (SELECT challenge_id FROM gone);
    DELETE FROM challenges WHERE challenge_id IN (SELECT challenge_id FROM gone);
    DELETE FROM transfers WHERE object_id IN (SELECT challenge_id FROM gone)";

/// Everything of the account's last day, and the seals that were made since.
const NEWEST_REMOVED: &str = "CREATE TEMP TABLE ends AS SELECT seal_no, until_id AS id FROM seals
    WHERE seal_no = (SELECT MAX(seal_no) FROM seals WHERE kind = 'fence'
    AND sealed_at < (SELECT MAX(sealed_at) FROM seals) - 86400000);
    DELETE FROM seals WHERE seal_no > (SELECT seal_no FROM ends);
    DELETE FROM late_transfers WHERE transfer_id > (SELECT id FROM ends);
    DELETE FROM transfers WHERE transfer_id > (SELECT id FROM ends);
    DELETE FROM attempts WHERE substr(attempt_id, 5) > (SELECT substr(id, 5) FROM ends);
    DELETE FROM challenges WHERE substr(challenge_id, 5) > (SELECT substr(id, 5) FROM ends);
    DELETE FROM accounts WHERE substr(account_id, 5) > (SELECT substr(id, 5) FROM ends);
    DELETE FROM audit_log WHERE substr(entry_id, 5) > (SELECT substr(id, 5) FROM ends)";
