//! Plans that the server made while a table was small must not stay.

use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::sleep;

use super::*;

const LEGS: Migration = Migration {
    version: 1,
    name: "legs",
    sql: "CREATE TABLE legs (account_id TEXT NOT NULL, leg_id TEXT NOT NULL, \
          state BIGINT NOT NULL, PRIMARY KEY (account_id, leg_id));",
};
const ADD: Sql = Sql("INSERT INTO legs (account_id, leg_id, state) VALUES ($1, $2, 0)");
const MOVE: Sql = Sql("UPDATE legs SET state = state + 1 WHERE account_id = $1 AND leg_id = $2");
const NO_LEG: Reject = Reject("no_leg");
const ROWS: usize = 6_000;

/// How often the table was read as a whole, and how often by its key.
async fn scans(client: &tokio_postgres::Client) -> (i64, i64) {
    let query = "SELECT seq_scan, idx_scan FROM pg_stat_user_tables WHERE relname = 'legs'";
    let row = client.query_one(query, &[]).await.unwrap();
    (row.get(0), row.get(1))
}

async fn add_and_move(db: &Db, from: usize, to: usize) {
    let one = |index: usize| {
        let leg = format!("leg{index:06}");
        let mut set = WriteSet::of("a");
        set.push(ADD, args!["a", leg.as_str()]);
        set.guard(MOVE, args!["a", leg], NO_LEG);
        set
    };
    for chunk in (from..to).collect::<Vec<_>>().chunks(20) {
        for done in join_all(chunk.iter().map(|index| db.commit(one(*index)))).await {
            done.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_from_a_small_table_does_not_read_the_large_one_for_ever() {
    let database = Database::empty().await;
    let db = open(&database.url(), |_| ());
    db.migrate(&[LEGS]).await.unwrap();
    // On the only page of a table that is known to be small, reading all of it is best.
    let client = database.client().await;
    let setup = "INSERT INTO legs SELECT 'b', 'leg' || n, 0 FROM generate_series(1, 20) n;
        ALTER TABLE legs SET (autovacuum_enabled = false); ANALYZE legs";
    client.batch_execute(setup).await.unwrap();
    add_and_move(&db, 0, ROWS).await;
    for more in 0.. {
        // The server's figures come with a later transaction, a second behind.
        add_and_move(&db, ROWS + more, ROWS + more + 1).await;
        let (whole, by_key) = scans(&client).await;
        if whole + by_key >= i64::try_from(ROWS).unwrap() {
            // With the first plan kept it is all of them.
            assert!(whole < by_key / 2, "{whole} of {by_key} changes read the whole table");
            return;
        }
        assert!(more < 50, "the server's figures do not come");
        sleep(Duration::from_millis(300)).await;
    }
}
