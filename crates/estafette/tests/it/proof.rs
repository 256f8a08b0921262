//! Stories of the ledger's proof: what is removed, made up or changed behind the service's back is
//! found; what retention deletes is not taken for that; and finding it disturbs nobody.

use std::collections::BTreeSet;
use std::time::Duration;

use clock::{DAY, MINUTE};
use estafette::app::{App, Env};
use estafette::credits::audit::{MOST, Report, Scope, audit, read_all};
use estafette::credits::seals::{self, Kind};
use estafette::kit::id::AuditId;
use serde_json::json;
use store::{Args, Sql, WriteSet, args};
use tokio::time::Instant;

use crate::on_every_engine;
use crate::world::World;
use crate::world::tenant::{Tenant, phone};

on_every_engine!(
    what_is_removed_made_up_or_changed_is_found,
    what_is_not_sealed_yet_is_held_against_the_audit_log,
    lines_of_the_audit_log_without_a_hash_are_believed_no_more,
    accounts_that_cannot_be_read_stop_no_audit_and_no_seal,
    an_old_copy_is_found_by_a_seal_that_was_kept_elsewhere,
    what_retention_deleted_is_no_forgery,
    a_correction_takes_no_credit_limit,
    a_badly_damaged_ledger_is_audited_beside_sends,
);

/// Tables that a forger writes to.
const TABLES: [&str; 7] =
    ["accounts", "transfers", "attempts", "challenges", "seals", "late_transfers", "audit_log"];

async fn run(app: &App, sql: &str, args: Args) {
    let mut set = WriteSet::of("forger");
    set.push(Sql(sql.to_owned().leak()), args);
    app.db.commit(set).await.unwrap();
}

/// Two rounds of sealing: what was there before is sealed then. The service's own chore may be at
/// it, too: who comes second tries again.
async fn seal(world: &World, app: &App) {
    for _ in 0..2 {
        world.advance(31 * MINUTE).await;
        let mut tries = 0;
        while let Err(error) = seals::round(app, None).await {
            assert!(tries < 100, "{error}");
            tokio::time::sleep(Duration::from_millis(20)).await;
            tries += 1;
        }
    }
}

async fn found(app: &App) -> BTreeSet<&'static str> {
    let report = audit(app, DAY).await.unwrap();
    report.violations.iter().map(|found| found.invariant).collect()
}

/// Counters that fit the transfers, as a careful forger leaves them.
const BALANCE: &str = "UPDATE accounts SET \
    posted = CAST(COALESCE((SELECT SUM(CASE kind WHEN 'topup' THEN amount \
      WHEN 'refund' THEN amount WHEN 'post' THEN -amount WHEN 'correction' THEN -amount \
      ELSE 0 END) FROM transfers t WHERE t.account_id = accounts.account_id), 0) AS BIGINT), \
    held = CAST(COALESCE((SELECT SUM(CASE kind WHEN 'hold' THEN amount WHEN 'post' THEN -amount \
      WHEN 'void' THEN -amount ELSE 0 END) \
      FROM transfers t WHERE t.account_id = accounts.account_id), 0) AS BIGINT) \
    WHERE account_id = $1";

/// What is done, with the account as `$1`, and what must be found.
const FORGERIES: [(&[&str], &str); 13] = [
    (
        &[
            "INSERT INTO transfers SELECT account_id, 'zzz', kind, 999, of_transfer, reason, \
             object_id, created_at, mac FROM transfers WHERE account_id = $1 AND kind = 'topup'",
            BALANCE,
        ],
        "I9",
    ),
    (
        &[
            "DELETE FROM transfers WHERE account_id = $1 AND kind <> 'topup'",
            "DELETE FROM attempts WHERE account_id = $1",
            "DELETE FROM challenges WHERE account_id = $1",
            BALANCE,
        ],
        "S2",
    ),
    (&["DELETE FROM transfers WHERE account_id = $1 AND kind = 'topup'"], "S2"),
    (&["DELETE FROM attempts WHERE account_id = $1 AND state = 'delivered'"], "I5"),
    (&["DELETE FROM accounts WHERE account_id = $1"], "S5"),
    (
        &[
            "DELETE FROM accounts WHERE account_id = $1",
            "DELETE FROM transfers WHERE account_id = $1",
            "DELETE FROM attempts WHERE account_id = $1",
            "DELETE FROM challenges WHERE account_id = $1",
            "DELETE FROM seals WHERE account_id = $1",
        ],
        "S1",
    ),
    (&["UPDATE accounts SET credit_limit = 77 WHERE account_id = $1"], "S4"),
    // Both accounts of the user change places: each environment has one of them.
    (
        &[
            "UPDATE accounts SET env = 'x' WHERE env = 'live' AND user_id = \
             (SELECT user_id FROM accounts WHERE account_id = $1)",
            "UPDATE accounts SET env = 'live' WHERE account_id = $1",
            "UPDATE accounts SET env = 'sandbox' WHERE env = 'x' AND account_id <> $1",
        ],
        "S4",
    ),
    (&["DELETE FROM audit_log WHERE account_id = $1"], "S3"),
    (&["UPDATE audit_log SET actor_id = 'stf_1' WHERE account_id = $1"], "S3"),
    (&["DELETE FROM seals WHERE account_id = $1 AND kind = 'transfers'"], "S1"),
    (&["UPDATE seals SET credits = credits + 1 WHERE account_id = $1"], "S1"),
    (&["DELETE FROM seals WHERE seal_no > 0 AND $1 <> ''"], "S1"),
];

async fn what_is_removed_made_up_or_changed_is_found(world: &World) {
    let ada = world.account("ada").await;
    for ending in ["5678", "0001", "0002", "0004", "0005"] {
        ada.send_to(&phone(ending)).await;
    }
    world.advance(10 * MINUTE).await;
    let app = world.app(Env::Sandbox).await;
    seal(world, &app).await;
    // No chore adds a seal to what is kept here.
    world.housekeep().await;
    assert!(found(&app).await.is_empty(), "nothing is forged yet");
    for table in TABLES {
        run(&app, &format!("CREATE TABLE kept_{table} AS SELECT * FROM {table}"), args![]).await;
    }
    for (statements, invariant) in FORGERIES {
        for sql in statements {
            run(&app, sql, args![&ada.account_id]).await;
        }
        let found = found(&app).await;
        assert!(found.contains(invariant), "{statements:?}: {found:?}");
        for table in TABLES {
            run(&app, &format!("DELETE FROM {table}"), args![]).await;
            let back = format!("INSERT INTO {table} SELECT * FROM kept_{table}");
            run(&app, &back, args![]).await;
        }
        assert!(self::found(&app).await.is_empty(), "as it was before {statements:?}");
    }
}

/// The same for an account that was made, and paid, a moment ago.
const EARLY_FORGERIES: [(&[&str], &str); 6] = [
    // The sandbox's play money becomes real.
    (
        &[
            "UPDATE accounts SET env = 'x' WHERE env = 'live' AND user_id = \
             (SELECT user_id FROM accounts WHERE account_id = $1)",
            "UPDATE accounts SET env = 'live' WHERE account_id = $1",
            "UPDATE accounts SET env = 'sandbox' WHERE env = 'x' AND account_id <> $1",
        ],
        "S4",
    ),
    (&["UPDATE accounts SET user_id = 'usr_x' WHERE account_id = $1"], "S4"),
    (&["UPDATE accounts SET status = 'suspended' WHERE account_id = $1"], "S4"),
    (&["UPDATE accounts SET credit_limit = 77 WHERE account_id = $1"], "S4"),
    (&["DELETE FROM transfers WHERE account_id = $1 AND amount = 5000", BALANCE], "S3"),
    (
        &[
            "DELETE FROM transfers WHERE account_id = $1",
            "DELETE FROM accounts WHERE account_id = $1",
        ],
        "S3",
    ),
];

async fn what_is_not_sealed_yet_is_held_against_the_audit_log(world: &World) {
    let ada = world.account("ada").await;
    let app = world.app(Env::Sandbox).await;
    world.credit(&ada, 5_000).await.ok();
    assert!(found(&app).await.is_empty(), "nothing is forged yet");
    for table in TABLES {
        run(&app, &format!("CREATE TABLE early_{table} AS SELECT * FROM {table}"), args![]).await;
    }
    for (statements, invariant) in EARLY_FORGERIES {
        for sql in statements {
            run(&app, sql, args![&ada.account_id]).await;
        }
        let found = found(&app).await;
        assert!(found.contains(invariant), "{statements:?}: {found:?}");
        for table in TABLES {
            run(&app, &format!("DELETE FROM {table}"), args![]).await;
            let back = format!("INSERT INTO {table} SELECT * FROM early_{table}");
            run(&app, &back, args![]).await;
        }
        assert!(self::found(&app).await.is_empty(), "as it was before {statements:?}");
    }
    // Sealing what was forged does not make it good.
    let raise = "UPDATE accounts SET credit_limit = $1 WHERE account_id = $2";
    run(&app, raise, args![77, &ada.account_id]).await;
    seal(world, &app).await;
    assert_eq!(found(&app).await, BTreeSet::from(["S4"]));
    run(&app, raise, args![0, &ada.account_id]).await;
    assert!(found(&app).await.is_empty());
}

async fn lines_of_the_audit_log_without_a_hash_are_believed_no_more(world: &World) {
    let ada = world.account("ada").await;
    let app = world.app(Env::Sandbox).await;
    let raise = "UPDATE accounts SET billing_mode = 'postpaid', credit_limit = 900 \
        WHERE account_id = $1";
    run(&app, raise, args![&ada.account_id]).await;
    let line = "INSERT INTO audit_log (entry_id, at, actor_kind, actor_id, action, object_id, \
        account_id, request_id, detail, mac) VALUES ($1, 0, 'cli', '', 'account.update', $2, $2, \
        '', '{\"billing_mode\":\"postpaid\",\"credit_limit\":900}', NULL)";
    let id = String::from(AuditId::new(world.clock()));
    run(&app, line, args![&id, &ada.account_id]).await;
    seal(world, &app).await;
    assert_eq!(found(&app).await, BTreeSet::from(["S3", "S4"]));
    run(&app, "DELETE FROM audit_log WHERE entry_id = $1", args![&id]).await;
    let back = "UPDATE accounts SET billing_mode = 'prepaid', credit_limit = 0 \
        WHERE account_id = $1";
    run(&app, back, args![&ada.account_id]).await;
    assert!(found(&app).await.is_empty());
}

/// Ids before and behind all others, and such that are no text: SQLite takes bytes for text.
const UNREADABLE: [&str; 4] = ["''", "'zzz'", "CAST(x'FF01' AS TEXT)", "x'FF02'"];

fn is_lite(world: &World) -> bool {
    !world.config().database.is_shared()
}

async fn accounts_that_cannot_be_read_stop_no_audit_and_no_seal(world: &World) {
    let ada = world.account("ada").await;
    ada.send_to(&phone("5678")).await.ok();
    let app = world.app(Env::Sandbox).await;
    let ids = if is_lite(world) { &UNREADABLE[..] } else { &UNREADABLE[..2] };
    for (user, id) in ids.iter().enumerate() {
        let copy = format!(
            "INSERT INTO accounts (account_id, user_id, env, status, billing_mode, credit_limit, \
             posted, held, settings, created_at) SELECT {id}, 'usr_{user}', 'x' || env, status, \
             billing_mode, credit_limit, posted, held, settings, created_at \
             FROM accounts WHERE account_id = $1"
        );
        run(&app, &copy, args![&ada.account_id]).await;
    }
    seal(world, &app).await;
    let sealed = seals::newest_of(&app, &ada.account_id, Kind::Transfers).await.unwrap();
    assert!(sealed.is_some(), "the others are sealed");
    let report = audit(&app, DAY).await.unwrap();
    assert!(report.accounts >= 2, "the others are read: {report:?}");
    let found: BTreeSet<_> = report.violations.iter().map(|found| found.invariant).collect();
    assert!(found.contains("S5") && found.contains("S4"), "{report:?}");
    run(&app, "DELETE FROM accounts WHERE env LIKE 'x%'", args![]).await;
    assert!(self::found(&app).await.is_empty());
}

async fn an_old_copy_is_found_by_a_seal_that_was_kept_elsewhere(world: &World) {
    let ada = world.account("ada").await;
    ada.send_to(&phone("5678")).await.ok();
    let app = world.app(Env::Sandbox).await;
    seal(world, &app).await;
    let kept = seals::newest(&app.db).await.unwrap().unwrap().head();
    world.restart().await;
    let app = world.app(Env::Sandbox).await;
    let since = async |since| {
        let scope = Scope { horizon_ms: DAY, since: Some(since), ..Scope::default() };
        read_all(&app, &scope).await.unwrap().unwrap()
    };
    assert!(since(kept).await.is_ok());
    assert_eq!(seals::head_of(&seals::head_text(&kept)), Some(kept), "as people keep it");
    // What an old copy lacks, or has of another hand.
    for later in [(kept.number + 1_000, kept.hash), (kept.number, [7; 32])] {
        let (number, hash) = later;
        let report = since(estafette::kit::sealing::SealHead { number, hash }).await;
        let found: Vec<_> = report.violations.iter().map(|found| found.invariant).collect();
        assert_eq!(found, ["S6"], "{report:?}");
    }
}

async fn what_retention_deleted_is_no_forgery(world: &World) {
    let ada = world.account("ada").await;
    for ending in ["5678", "0001", "0004"] {
        ada.send_to(&phone(ending)).await;
    }
    world.advance(10 * MINUTE).await;
    let app = world.app(Env::Sandbox).await;
    seal(world, &app).await;
    let count = async |sql| app.db.row::<(i64,)>(Sql(sql), args![]).await.unwrap().unwrap().0;
    let lines = count("SELECT COUNT(*) FROM audit_log").await;
    // No chore is at work while the time jumps.
    world.housekeep().await;
    world.advance(401 * DAY).await;
    world.housekeep().await;
    assert_eq!(count("SELECT COUNT(*) FROM attempts").await, 0);
    assert!(count("SELECT COUNT(*) FROM audit_log").await < lines, "old lines are gone");
    assert!(found(&app).await.is_empty());
    // Younger ones that are gone have no such excuse.
    ada.send_to(&phone("5679")).await.ok();
    run(&app, "UPDATE attempts SET attempt_id = 'x' || attempt_id", args![]).await;
    assert!(found(&app).await.contains("I5"));
    run(&app, "UPDATE attempts SET attempt_id = substr(attempt_id, 2)", args![]).await;
}

async fn a_correction_takes_no_credit_limit(world: &World) {
    let ada = world.account("ada").await;
    world.credit(&ada, -999_000).await.ok();
    let change = json!({"billing_mode": "postpaid", "credit_limit": 500});
    world.set(&ada, change).await.ok();
    assert_eq!(ada.balance().await, 1_000, "its own: a limit is no balance");
    world.credit(&ada, -1_001).await.fault("/amount", "out_of_range");
    let price = world.price("chatapp", "FR");
    ada.send_to(&phone("5678")).await.ok();
    world.credit(&ada, -1_000).await.fault("/amount", "out_of_range");
    world.credit(&ada, price - 1_000).await.ok();
    world.credit(&ada, -1).await.fault("/amount", "out_of_range");
    ada.send_to(&phone("5679")).await.ok();
}

/// Transfers that nobody made, each with an id of the usual form.
const DAMAGE: &str = "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n \
    WHERE i < 49999) INSERT INTO transfers (account_id, transfer_id, kind, amount, of_transfer, \
    reason, object_id, created_at, mac) SELECT $1, \
    'txn_0100000' || CAST(100000000000000000 + i AS TEXT) || '0', 'hold', 0, NULL, 'damage', \
    'otp_1', 0, $2 FROM n";

async fn a_badly_damaged_ledger_is_audited_beside_sends(world: &World) {
    let ada = world.account("ada").await;
    let app = world.app(Env::Sandbox).await;
    run(&app, DAMAGE, args![&ada.account_id, vec![0_u8; 32]]).await;
    let auditing = app.clone();
    let audit = tokio::spawn(async move { audit(&auditing, DAY).await.unwrap() });
    let (sends, slowest) = send_until(&ada, || audit.is_finished()).await;
    let report: Report = audit.await.unwrap();
    assert!(sends >= 3, "only {sends} sends while the audit was at work");
    assert!(slowest < Duration::from_secs(5), "a send took {slowest:?}");
    assert_eq!((report.violations.len(), report.dangling.len()), (MOST, MOST));
    assert!(report.violations_found >= 100_000, "changed, and of no attempt: {report:?}");
    assert_eq!(report.dangling_found, 50_000);
    let undo = "DELETE FROM transfers WHERE account_id = $1 AND reason = 'damage'";
    run(&app, undo, args![&ada.account_id]).await;
}

async fn send_until(ada: &Tenant<'_>, is_over: impl Fn() -> bool) -> (u32, Duration) {
    let (mut sends, mut slowest) = (0, Duration::ZERO);
    while !is_over() {
        let since = Instant::now();
        ada.send_to(&phone(&format!("7{sends:03}"))).await.ok();
        slowest = slowest.max(since.elapsed());
        sends += 1;
    }
    (sends, slowest)
}
