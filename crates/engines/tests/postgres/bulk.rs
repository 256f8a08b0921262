//! Sets of the same texts run side by side; what comes of it is what one after the other would.

use futures_util::future::join_all;
use store::CommitError;
use tokio::time::{Instant, sleep_until};

use super::proxy::Hold;
use super::*;

const TABLES: Migration = Migration {
    version: 1,
    name: "orders",
    sql: "CREATE TABLE purses (id TEXT NOT NULL PRIMARY KEY, credits BIGINT NOT NULL, \
          changes BIGINT NOT NULL);
          CREATE TABLE orders (purse TEXT NOT NULL, id TEXT NOT NULL, slot TEXT, \
          state TEXT NOT NULL, note BYTEA, PRIMARY KEY (purse, id));
          CREATE UNIQUE INDEX orders_slot ON orders (purse, slot);
          CREATE TABLE news (purse TEXT NOT NULL, order_id TEXT NOT NULL, state TEXT NOT NULL);
          INSERT INTO purses VALUES ('a', 100, 0), ('b', 100, 0), ('locked', 0, 0);",
};
const IS_FREE: Sql = Sql("SELECT id FROM orders WHERE purse = $1 AND slot = $2 /*BULK*/");
const ORDER: Sql = Sql("INSERT INTO orders (purse, id, slot, state, note) \
     VALUES ($1, $2, $3, 'new', $4) ON CONFLICT DO NOTHING /*BULK*/");
/// An order that is to be made, or made again if it was lost.
const ORDER_AGAIN: Sql = Sql("INSERT INTO orders (purse, id, slot, state, note) \
     VALUES ($1, $2, $3, 'new', $4) ON CONFLICT (purse, id) DO UPDATE SET state = 'again' \
     WHERE orders.state = 'lost' /*BULK*/");
const PAY: Sql = Sql("UPDATE purses SET credits = credits - $1, changes = changes + 1 \
     WHERE id = $2 AND credits >= $1 /*BULK SUM*/ AND CAST($1 AS BIGINT) >= 0");
const MOVE: Sql = Sql("UPDATE orders SET state = $1 \
     WHERE purse = $2 AND id = $3 AND state <> $1 /*BULK*/");
const TELL: Sql = Sql("INSERT INTO news (purse, order_id, state) SELECT purse, id, state \
     FROM orders WHERE purse = $1 AND id = $2 /*BULK*/");
/// The same as [`ORDER`] without the mark.
const ORDER_ALONE: Sql = Sql("INSERT INTO orders (purse, id, slot, state, note) \
     VALUES ($1, $2, $3, 'new', $4) ON CONFLICT DO NOTHING");
const LOCKED: Sql = Sql("UPDATE purses SET changes = changes + 1 WHERE id = $1");
const CREDITS: Sql = Sql("SELECT credits, changes FROM purses WHERE id = $1");
const STATES: Sql = Sql("SELECT state FROM orders WHERE purse = $1 ORDER BY id");
const NEWS: Sql = Sql("SELECT state FROM news WHERE purse = $1 ORDER BY order_id");

const TAKEN: Reject = Reject("taken");
const POOR: Reject = Reject("poor");
const STALE: Reject = Reject("stale");

struct Shop {
    database: Database,
    db: Db,
}

impl Shop {
    async fn open() -> Self {
        let database = Database::empty().await;
        let db = open(&database.url(), |_| ());
        db.migrate(&[TABLES]).await.unwrap();
        Self { database, db }
    }

    /// One that reaches its database only through a network that can fail.
    async fn behind_a_network() -> (Self, Proxy) {
        let Self { database, db } = Self::open().await;
        db.close().await;
        let proxy = Proxy::start(&server::postgres()).await;
        let db = open(&proxy.url(&database.name), |_| ());
        (Self { database, db }, proxy)
    }

    /// All of them in one group: what comes first waits for a lock, and they wait for it.
    async fn together(&self, sets: Vec<WriteSet>) -> Vec<Result<Done, CommitError>> {
        let client = self.database.client().await;
        client
            .batch_execute("BEGIN; SELECT FROM purses WHERE id = 'locked' FOR UPDATE")
            .await
            .unwrap();
        let mut first = WriteSet::of("locked");
        first.push(LOCKED, args!["locked"]);
        let count = sets.len();
        let rest = async {
            until_a_lock_is_waited_for(&self.database).await;
            let rest = join_all(sets.into_iter().map(|set| self.db.commit(set)));
            let release = async {
                until(async || self.db.queued() == count).await;
                client.batch_execute("COMMIT").await.unwrap();
            };
            tokio::join!(rest, release).0
        };
        let (first, rest) = tokio::join!(self.db.commit(first), rest);
        first.unwrap();
        rest
    }

    /// How many statements wrote the orders of the newest transaction that wrote any.
    async fn statements(&self) -> i64 {
        let query = "SELECT COUNT(DISTINCT cmin::text) FROM orders \
                     WHERE xmin::text = (SELECT xmin::text FROM orders ORDER BY id DESC LIMIT 1)";
        self.database.client().await.query_one(query, &[]).await.unwrap().get(0)
    }

    async fn credits(&self, purse: &'static str) -> (i64, i64) {
        self.db.row(CREDITS, args![purse]).await.unwrap().unwrap()
    }

    async fn words(&self, sql: Sql) -> Vec<String> {
        let rows: Vec<(String,)> = self.db.rows(sql, args!["a"]).await.unwrap();
        rows.into_iter().map(|(word,)| word).collect()
    }
}

fn order_by(text: Sql, purse: &str, number: usize, slot: Option<&str>) -> WriteSet {
    let id = format!("o{number:04}");
    let note = number.is_multiple_of(2).then(|| vec![0, 1, 255]);
    let mut set = WriteSet::of(purse);
    set.absent(IS_FREE, args![purse, slot.unwrap_or(&id)], TAKEN);
    set.contended(PAY, args![1_i64, purse], POOR);
    set.guard(text, args![purse, &id, slot, note], TAKEN);
    set
}

fn order(purse: &str, number: usize, slot: Option<&str>) -> WriteSet {
    order_by(ORDER, purse, number, slot)
}

fn moved(number: usize, to: &str) -> WriteSet {
    let id = format!("o{number:04}");
    let mut set = WriteSet::of("a");
    set.guard(MOVE, args![to, "a", &id], STALE);
    set.push(TELL, args!["a", &id]);
    set
}

fn refusals(answers: &[Result<Done, CommitError>]) -> Vec<Option<Reject>> {
    let word = |answer: &Result<Done, CommitError>| match answer {
        Ok(_) => None,
        Err(CommitError::Rejected(word)) => Some(*word),
        Err(error) => panic!("{error}"),
    };
    answers.iter().map(word).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sets_of_the_same_texts_are_one_statement_each() {
    let shop = Shop::open().await;
    let answers = shop.together((0..40).map(|n| order("a", n, None)).collect()).await;
    assert!(refusals(&answers).iter().all(Option::is_none));
    assert_eq!(shop.statements().await, 1);
    // One change of the purse for all of them, by what they cost together.
    assert_eq!(shop.credits("a").await, (60, 1));
    // The control: without its mark one text keeps its sets one after the other.
    let singly = (40..80).map(|n| order_by(ORDER_ALONE, "b", n, None));
    let answers = shop.together(singly.collect()).await;
    assert!(refusals(&answers).iter().all(Option::is_none));
    assert_eq!(shop.statements().await, 40);
    assert_eq!(shop.credits("b").await, (60, 40));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_said_of_rows_is_said_of_each_by_its_set() {
    let shop = Shop::open().await;
    shop.together((0..20).map(|n| order("a", n, None)).collect()).await;
    let word = |n: usize| if n.is_multiple_of(3) { "sent" } else { "lost" };
    let answers = shop.together((0..20).map(|n| moved(n, word(n))).collect()).await;
    assert!(refusals(&answers).iter().all(Option::is_none));
    let expected: Vec<_> = (0..20).map(word).collect();
    assert_eq!(shop.words(STATES).await, expected);
    assert_eq!(shop.words(NEWS).await, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sum_that_is_too_much_pays_for_as_many_as_it_can() {
    let shop = Shop::open().await;
    let answers = shop.together((0..120).map(|n| order("a", n, None)).collect()).await;
    let refusals = refusals(&answers);
    assert_eq!(refusals.iter().filter(|word| word.is_none()).count(), 100);
    assert_eq!(refusals.iter().filter(|word| **word == Some(POOR)).count(), 20);
    assert_eq!(shop.credits("a").await.0, 0);
    assert_eq!(shop.words(STATES).await.len(), 100);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_for_one_slot_one_gets_it_and_the_others_nothing_less() {
    let shop = Shop::open().await;
    let slot = |n: usize| (n >= 10).then_some("the slot");
    let answers = shop.together((0..14).map(|n| order("a", n, slot(n))).collect()).await;
    let refusals = refusals(&answers);
    assert!(refusals[..10].iter().all(Option::is_none));
    assert_eq!(refusals[10..].iter().filter(|word| word.is_none()).count(), 1);
    assert_eq!(refusals[10..].iter().filter(|word| **word == Some(TAKEN)).count(), 3);
    assert_eq!(shop.credits("a").await.0, 100 - 11);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_finds_something_is_refused_and_the_others_still_run_together() {
    let shop = Shop::open().await;
    shop.db.commit(order("a", 0, Some("the slot"))).await.unwrap();
    let slot = |n: usize| (n == 7).then_some("the slot");
    let answers = shop.together((1..21).map(|n| order("a", n, slot(n))).collect()).await;
    let expected: Vec<_> = (1..21).map(|n| slot(n).map(|_| TAKEN)).collect();
    assert_eq!(refusals(&answers), expected);
    assert_eq!(shop.statements().await, 1);
    assert_eq!(shop.credits("a").await, (100 - 20, 2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_that_change_one_row_come_one_after_the_other() {
    let shop = Shop::open().await;
    shop.together((0..10).map(|n| order("a", n, None)).collect()).await;
    // The same row twice, by sets that both may: each tells what it did.
    let sets = (0..10).map(|n| moved(n.min(8), if n == 9 { "lost" } else { "sent" }));
    let answers = shop.together(sets.collect()).await;
    assert!(refusals(&answers).iter().all(Option::is_none));
    let news = shop.words(NEWS).await;
    assert_eq!(news.iter().filter(|word| *word == "sent").count(), 9);
    assert_eq!(news.iter().filter(|word| *word == "lost").count(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_set_with_one_text_many_times_runs_it_once() {
    let shop = Shop::open().await;
    let mut set = WriteSet::of("a");
    for n in 0..30 {
        let id = format!("o{n:04}");
        set.guard(ORDER, args!["a", id, None::<&str>, None::<Vec<u8>>], TAKEN);
    }
    shop.db.commit(set.clone()).await.unwrap();
    assert_eq!(shop.statements().await, 1);
    // Once more: refused as a whole.
    assert_eq!(refusals(&[shop.db.commit(set).await]), [Some(TAKEN)]);
    assert_eq!(shop.words(STATES).await.len(), 30);
}

/// What nobody asks the number of is added at once, however much of it is there already.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_set_adds_many_rows_at_once_where_some_are_there_already() {
    let shop = Shop::open().await;
    shop.together((0..8).map(|n| order("a", n, None)).collect()).await;
    shop.db.commit(moved(3, "lost")).await.unwrap();
    let rows = |ids: &mut dyn Iterator<Item = usize>| {
        let mut set = WriteSet::of("a");
        for n in ids {
            set.push(ORDER_AGAIN, args!["a", format!("o{n:04}"), None::<&str>, None::<Vec<u8>>]);
        }
        set
    };
    shop.db.commit(rows(&mut (0..30))).await.unwrap();
    assert_eq!(shop.statements().await, 1);
    let expected = |n: usize| if n == 3 { "again" } else { "new" };
    assert_eq!(shop.words(STATES).await, (0..30).map(expected).collect::<Vec<_>>());
    // The same one twice: in turn.
    shop.db.commit(rows(&mut (28..32).chain(30..34))).await.unwrap();
    assert_eq!(shop.statements().await, 4);
    assert_eq!(shop.words(STATES).await.len(), 34);
}

/// A late answer on a connection that is used on would be taken for that to another statement.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_slow_to_prepare_a_text_for_many_sets_loses_the_connection_alone() {
    let (shop, proxy) = Shop::behind_a_network().await;
    // Connected, and known what one set says.
    shop.db.commit(order_by(ORDER_ALONE, "b", 0, None)).await.unwrap();
    assert!(shop.words(STATES).await.is_empty());
    let (before, begin) = (proxy.connections(), Instant::now());
    let delay = 3 * PATIENCE;
    proxy.hold(Hold { text: "AS TEXT[]", delay });
    let answers = shop.together((0..20).map(|n| order("a", n, None)).collect()).await;
    let took = begin.elapsed();
    assert!(proxy.has_held() && took >= PATIENCE, "{took:?}");
    // Nothing more is said on it: that would have taken its own patience.
    assert!(proxy.connections() > before && took < 2 * PATIENCE, "{took:?}");
    // Each happened once, or its caller knows that it did not.
    let lost = |answer: &&Result<Done, CommitError>| {
        assert!(matches!(answer, Ok(_) | Err(CommitError::Unavailable(_))), "{answer:?}");
        answer.is_err()
    };
    let kept = answers.len() - answers.iter().filter(lost).count();
    assert_eq!(shop.words(STATES).await.len(), kept);
    let credits = i64::try_from(100 - kept).unwrap();
    assert_eq!(shop.credits("a").await.0, credits);
    // The late answer has come by now, and nobody takes it for their own.
    sleep_until(begin + delay + PATIENCE / 4).await;
    let before = proxy.connections();
    let orders = || (20..40).map(|n| order("a", n, None));
    let first: Vec<_> = shop.together(orders().collect()).await;
    assert!(refusals(&first).iter().all(Option::is_none));
    assert_eq!(shop.statements().await, 1, "they run together again");
    let again = shop.together(orders().collect()).await;
    assert!(refusals(&again).iter().all(|word| *word == Some(TAKEN)));
    assert_eq!(shop.credits("a").await.0, credits - 20);
    // The control: a server that answers in time keeps its connection.
    assert_eq!(proxy.connections(), before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_that_serve_the_same_accounts_do_not_lock_each_other_out() {
    let shop = Shop::open().await;
    let other = open(&shop.database.url(), |_| ());
    let purse = |n: usize| if n.is_multiple_of(2) { "a" } else { "b" };
    for round in 0..5 {
        let number = |n: usize, node: usize| round * 1_000 + node * 100 + n;
        let one = (0..8).map(|n| shop.db.commit(order(purse(n), number(n, 0), None)));
        let two = (0..8).map(|n| other.commit(order(purse(n + 1), number(n, 1), None)));
        let (one, two) = tokio::join!(join_all(one), join_all(two));
        let answers: Vec<_> = one.into_iter().chain(two).collect();
        assert!(refusals(&answers).iter().all(Option::is_none));
    }
    assert_eq!((shop.credits("a").await.0, shop.credits("b").await.0), (60, 60));
}
