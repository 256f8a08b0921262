//! The ledger against a model of it in memory: random movements and repetitions of earlier ones,
//! on a real database, with the audit after every few steps.

mod store;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use ::store::{CommitError, Db, Reject, Sql, SqliteOptions, WriteSet, args};
use clock::{Clock, Millis};
use engines::Lite;

use super::audit::audit;
use super::seals;
use super::{Charge, balance, correct, grant, hold, new_hold, post, refund, void};
use crate::access::{By, Entry, record};
use crate::app::{App, Correspondence, Env, Memo, Reaction, Shared, WaysOut};
use crate::carriers::Carriers;
use crate::carriers::Handsets;
use crate::carriers::handsets::MemoryShelf;
use crate::config::{self, Flags};
use crate::kit::id::{AccountId, AttemptId, TransferId};
use crate::kit::outgoing::{Outgoing, Rules};
use crate::kit::page::Page;
use crate::kit::seal::Vault;
use crate::kit::sealing::Sealing;
use crate::kit::throttle::Throttle;
use crate::metrics::Metrics;
use crate::schema::MIGRATIONS;
use crate::sockets::Hub;

/// An app on a database of its own, which lives as long as the folder.
async fn app() -> (tempfile::TempDir, App) {
    let folder = tempfile::tempdir().unwrap();
    let clock = Clock::held(Millis(1_700_000_000_000), 7);
    let lite = Lite::open(&folder.path().join("ledger.db"), SqliteOptions::default()).unwrap();
    let db = Db::new(lite);
    db.migrate(MIGRATIONS).await.unwrap();
    let shared = Shared {
        node: 1,
        outgoing: WaysOut {
            live: Outgoing::new(Rules::default(), None).unwrap(),
            sandbox: Outgoing::new(Rules::default(), None).unwrap(),
        },
        dns: crate::kit::dns::Dns::new(""),
        storage: Arc::new(object_store::memory::InMemory::new()),
        sockets: Hub::default(),
        tell: |_, _| Box::pin(std::future::ready(Ok(None))),
        correspondence: Correspondence {
            owners_of: |_, _| Box::pin(std::future::ready(Ok(vec![]))),
            sent_to: &[],
            hear: |_, heard| {
                Box::pin(std::future::ready(Ok(Reaction::none(heard.account.as_str()))))
            },
        },
        db,
        config: config::load(None, std::iter::empty(), Flags::default()).unwrap(),
        vault: Vault::from_hex(&"07".repeat(32), clock.clone()).unwrap(),
        memo: Memo::default(),
        throttle: Throttle::new(100, 100, 100, 100, 100),
        metrics: Metrics::default(),
        hashers: crate::kit::hashers::Hashers::new(1),
        open: AtomicBool::new(true),
        sealing: Sealing::default(),
        handsets: Handsets::on(Arc::new(MemoryShelf::default())),
        draining: AtomicBool::new(false),
        drains: tokio::sync::Notify::new(),
        given_up: tokio::sync::SetOnce::new(),
        clock,
        conversion: crate::kit::conversion::Conversion::default(),
    };
    let app = App::new(Env::Live, Carriers::none(), Arc::new(shared));
    seals::begin(&app).await.unwrap();
    (folder, app)
}

async fn account(app: &App) -> AccountId {
    let account = AccountId::new(&app.clock);
    let mut set = WriteSet::of(account.as_str());
    set.push(store::ACCOUNT, args![&account]);
    let entry = Entry {
        actor: By::CLI.who,
        action: "account.create",
        object_id: account.as_str(),
        account: Some(&account),
        request_id: "",
        detail: serde_json::json!({
            "env": "live", "user_id": account.as_str(), "status": "active",
            "billing_mode": "postpaid", "credit_limit": 20,
        }),
    };
    record(app, &mut set, &entry);
    app.db.commit(set).await.unwrap();
    account
}

async fn write(app: &App, sql: Sql, args: ::store::Args) {
    let mut set = WriteSet::of("test");
    set.guard(sql, args, Reject("test"));
    app.db.commit(set).await.unwrap();
}

async fn commit(app: &App, account: &AccountId, fill: impl FnOnce(&mut WriteSet)) -> bool {
    let mut set = WriteSet::of(account.as_str());
    fill(&mut set);
    match app.db.commit(set).await {
        Ok(_) => true,
        Err(CommitError::Rejected(_)) => false,
        Err(error) => panic!("{error}"),
    }
}

fn charge_of(app: &App, amount: i64) -> Charge {
    let hold = TransferId::of(new_hold(app));
    Charge { hold, amount, reason: "test", object_id: "otp_1".to_owned() }
}

/// Holds the price of a new attempt.
fn open(app: &App, set: &mut WriteSet, account: &AccountId, charge: &Charge) {
    hold(app, set, account, charge);
    let attempt = AttemptId::of(charge.hold.uuid());
    set.push(store::ATTEMPT, args![account, &attempt, "sending", charge.amount]);
}

/// Ends what is held, or gives it back, together with the attempt.
fn end(app: &App, set: &mut WriteSet, account: &AccountId, charge: &Charge, fate: HoldState) {
    let state = match fate {
        HoldState::Held => "sending",
        HoldState::Posted => "accepted",
        HoldState::Voided => "refused",
        HoldState::Refunded => "failed",
    };
    match fate {
        HoldState::Held => {}
        HoldState::Posted => post(app, set, account, charge),
        HoldState::Voided => void(app, set, account, charge),
        HoldState::Refunded => refund(app, set, account, charge),
    }
    set.push(store::MOVE, args![state, account, &AttemptId::of(charge.hold.uuid())]);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HoldState {
    Held,
    Posted,
    Voided,
    Refunded,
}

/// The whole ledger of one account, as simply as it can be said.
struct Model {
    posted: i64,
    held: i64,
    limit: i64,
    holds: BTreeMap<String, (i64, HoldState)>,
}

impl Model {
    fn available(&self) -> i64 {
        self.posted - self.held + self.limit
    }

    fn hold(&mut self, charge: &Charge) -> bool {
        let key = charge.hold.to_string();
        let is_good = charge.amount <= self.available() && !self.holds.contains_key(&key);
        if is_good {
            self.held += charge.amount;
            self.holds.insert(key, (charge.amount, HoldState::Held));
        }
        is_good
    }

    fn turn(&mut self, charge: &Charge, from: HoldState, to: HoldState) -> bool {
        let found = self.holds.get_mut(charge.hold.as_str());
        let Some((amount, fate)) =
            found.filter(|(amount, fate)| *fate == from && *amount == charge.amount)
        else {
            return false;
        };
        *fate = to;
        match to {
            HoldState::Posted => {
                (self.held, self.posted) = (self.held - *amount, self.posted - *amount);
            }
            HoldState::Voided => self.held -= *amount,
            HoldState::Refunded => self.posted += *amount,
            HoldState::Held => {}
        }
        true
    }
}

/// One random movement, in the database and in the model: both must say the same.
async fn step(app: &App, account: &AccountId, model: &mut Model, known: &mut Vec<Charge>) {
    let amount = i64::try_from(app.clock.below(30)).unwrap();
    let pick = |known: &[Charge]| {
        let count = u64::try_from(known.len()).unwrap();
        let index = usize::try_from(app.clock.below(count.max(1))).unwrap();
        known.get(index).cloned().unwrap_or_else(|| charge_of(app, amount))
    };
    let mut charge = pick(known);
    if app.clock.below(20) == 0 {
        charge.amount += 1;
    }
    let (done, expected, what) = match app.clock.below(12) {
        0 => {
            let done =
                commit(app, account, |set| drop(grant(app, set, account, amount, "t"))).await;
            model.posted += amount;
            (done, true, "topup")
        }
        1 => {
            let done = commit(app, account, |set| drop(correct(app, set, account, amount, "t")));
            let expected = model.posted - model.held >= amount;
            model.posted -= if expected { amount } else { 0 };
            (done.await, expected, "correction")
        }
        2..=5 => {
            let fresh = charge_of(app, amount);
            known.push(fresh.clone());
            let done = commit(app, account, |set| open(app, set, account, &fresh)).await;
            (done, model.hold(&fresh), "hold")
        }
        6 => {
            let done = commit(app, account, |set| open(app, set, account, &charge)).await;
            (done, model.hold(&charge), "hold again")
        }
        7 | 8 => {
            let fate = HoldState::Posted;
            let done = commit(app, account, |set| end(app, set, account, &charge, fate)).await;
            (done, model.turn(&charge, HoldState::Held, HoldState::Posted), "post")
        }
        9 => {
            let fate = HoldState::Voided;
            let done = commit(app, account, |set| end(app, set, account, &charge, fate)).await;
            (done, model.turn(&charge, HoldState::Held, HoldState::Voided), "void")
        }
        _ => {
            let fate = HoldState::Refunded;
            let done = commit(app, account, |set| end(app, set, account, &charge, fate)).await;
            (done, model.turn(&charge, HoldState::Posted, HoldState::Refunded), "refund")
        }
    };
    assert_eq!(done, expected, "{what} of {charge:?}");
    let now = balance(app, account).await.unwrap();
    assert_eq!((now.posted, now.held), (model.posted, model.held), "{what} of {charge:?}");
    assert_eq!(now.available, model.available());
    assert!(now.available >= 0 && now.held >= 0, "{now:?}");
}

#[tokio::test]
async fn the_ledger_does_what_its_model_does() {
    let (_folder, app) = app().await;
    let account = account(&app).await;
    let mut model = Model { posted: 0, held: 0, limit: 20, holds: BTreeMap::new() };
    let mut known = Vec::new();
    for round in 0..600 {
        app.clock.advance(1);
        step(&app, &account, &mut model, &mut known).await;
        if round % 50 == 0 {
            let report = audit(&app, clock::DAY).await.unwrap();
            assert!(report.is_ok(), "{report:?}");
        }
    }
    let report = audit(&app, clock::DAY).await.unwrap();
    let open = model.holds.values().filter(|(_, fate)| *fate == HoldState::Held).count();
    assert!(report.is_ok(), "{report:?}");
    assert_eq!(report.holds_open, u64::try_from(open).unwrap());
    for fate in [HoldState::Posted, HoldState::Voided, HoldState::Refunded] {
        assert!(model.holds.values().any(|(_, seen)| *seen == fate), "{fate:?} never happened");
    }
    let page = Page::first(100_000);
    let rows = super::ledger(&app, &account, &page).await.unwrap();
    let sum: i64 = rows.iter().map(super::Transfer::effect).sum();
    assert_eq!(sum, model.posted - model.held, "the effects add up to the balance");
}

/// A topped-up account with a hold that was posted, and its attempt in a state.
async fn posted(app: &App, state: &str) -> (AccountId, Charge) {
    let account = account(app).await;
    let charge = charge_of(app, 10);
    assert!(commit(app, &account, |set| drop(grant(app, set, &account, 50, "t"))).await);
    assert!(commit(app, &account, |set| hold(app, set, &account, &charge)).await);
    assert!(commit(app, &account, |set| post(app, set, &account, &charge)).await);
    let attempt = AttemptId::of(charge.hold.uuid());
    write(app, store::ATTEMPT, args![&account, &attempt, state, 10_i64]).await;
    (account, charge)
}

async fn broken(app: &App) -> Vec<&'static str> {
    let report = audit(app, clock::DAY).await.unwrap();
    let mut found: Vec<_> = report.violations.iter().map(|found| found.invariant).collect();
    found.dedup();
    found
}

#[tokio::test]
async fn the_audit_accepts_what_is_right() {
    let (_folder, app) = app().await;
    posted(&app, "delivered").await;
    let (account, charge) = posted(&app, "failed").await;
    assert_eq!(broken(&app).await, ["I6"], "failed, but still paid for");
    assert!(commit(&app, &account, |set| refund(&app, set, &account, &charge)).await);
    assert!(broken(&app).await.is_empty());
}

#[tokio::test]
async fn the_audit_sees_changed_and_lost_rows() {
    for (sql, expected) in [
        (store::RAISE_BALANCE, &["I2", "I1"][..]),
        (store::REWORD, &["I9"]),
        (store::FORGET_FATE, &["I5"]),
        (store::REFUSE, &["I6"]),
        (store::LOSE_POST, &["I2", "I5", "I1"]),
        (store::LOSE_HOLD, &["I2", "I4", "I5", "I1"]),
    ] {
        let (_folder, app) = app().await;
        let (account, _) = posted(&app, "delivered").await;
        write(&app, sql, args![&account]).await;
        assert_eq!(broken(&app).await, expected, "{sql:?}");
    }
}

#[tokio::test]
async fn an_old_open_hold_dangles() {
    let (_folder, app) = app().await;
    let account = account(&app).await;
    let charge = charge_of(&app, 10);
    assert!(commit(&app, &account, |set| open(&app, set, &account, &charge)).await);
    app.clock.advance(1_000);
    assert!(audit(&app, 1_000).await.unwrap().is_ok());
    app.clock.advance(1);
    let report = audit(&app, 1_000).await.unwrap();
    assert!(!report.is_ok() && report.violations.is_empty(), "{report:?}");
    assert_eq!(report.dangling.first().map(|hold| hold.amount), Some(10));
}

#[tokio::test]
async fn a_hold_may_be_open_until_its_message_ends() {
    let (_folder, app) = app().await;
    let account = account(&app).await;
    let charge = charge_of(&app, 10);
    assert!(commit(&app, &account, |set| open(&app, set, &account, &charge)).await);
    write(&app, store::GIVE_UP, args![app.now() + 60_000, &account]).await;
    app.clock.advance(61_000);
    assert!(audit(&app, 1_000).await.unwrap().is_ok());
    app.clock.advance(1);
    assert_eq!(audit(&app, 1_000).await.unwrap().dangling_found, 1);
    // No row can say that it never ends.
    write(&app, store::GIVE_UP, args![i64::MAX, &account]).await;
    app.clock.advance(8 * clock::DAY);
    assert_eq!(audit(&app, 1_000).await.unwrap().dangling_found, 1);
}

#[tokio::test]
async fn an_attempt_without_a_hold_is_found_wherever_it_stands() {
    let (_folder, app) = app().await;
    let account = account(&app).await;
    let attempt = AttemptId::of(new_hold(&app));
    write(&app, store::ATTEMPT, args![&account, &attempt, "sending", 10_i64]).await;
    let (_, _) = posted(&app, "accepted").await;
    assert_eq!(broken(&app).await, ["I5"]);
}

/// Two rounds of sealing: what lies before is sealed then.
async fn seal(app: &App) {
    for _ in 0..2 {
        app.clock.advance(clock::HOUR);
        seals::round(app, None).await.unwrap();
    }
}

#[tokio::test]
async fn a_send_pays_nothing_for_the_seals_and_a_late_void_one_statement() {
    let (_folder, app) = app().await;
    let account = account(&app).await;
    assert!(commit(&app, &account, |set| drop(grant(&app, set, &account, 50, "t"))).await);
    let charge = charge_of(&app, 10);
    let count = |fill: &dyn Fn(&mut WriteSet)| {
        let mut set = WriteSet::of("test");
        fill(&mut set);
        set.stmts().len()
    };
    let counts = || {
        [
            count(&|set| hold(&app, set, &account, &charge)),
            count(&|set| post(&app, set, &account, &charge)),
            count(&|set| void(&app, set, &account, &charge)),
            count(&|set| refund(&app, set, &account, &charge)),
        ]
    };
    assert_eq!(counts(), [2; 4]);
    assert!(commit(&app, &account, |set| open(&app, set, &account, &charge)).await);
    seal(&app).await;
    assert_eq!(counts(), [3; 4], "the hold is two hours old: what ends it now is late");
    let fresh = charge_of(&app, 10);
    assert_eq!(count(&|set| hold(&app, set, &account, &fresh)), 2);
}

#[tokio::test]
async fn the_late_end_of_a_hold_is_sealed_like_all_others() {
    let (_folder, app) = app().await;
    let account = account(&app).await;
    let charge = charge_of(&app, 10);
    assert!(commit(&app, &account, |set| drop(grant(&app, set, &account, 50, "t"))).await);
    assert!(commit(&app, &account, |set| open(&app, set, &account, &charge)).await);
    seal(&app).await;
    let voided = HoldState::Voided;
    assert!(commit(&app, &account, |set| end(&app, set, &account, &charge, voided)).await);
    let late: Vec<(String,)> = app.db.rows(store::LATE, args![&account]).await.unwrap();
    assert_eq!(late.len(), 1);
    assert!(broken(&app).await.is_empty(), "late and not sealed yet");
    seal(&app).await;
    assert!(broken(&app).await.is_empty(), "late and sealed");
    for sql in [store::LOSE_LATE, store::UNHOLD, store::REVIVE] {
        write(&app, sql, args![&account]).await;
    }
    assert_eq!(broken(&app).await, ["S2"], "gone, with all the rest mended");
    write(&app, store::FORGET_LATE, args![&account]).await;
    assert_eq!(broken(&app).await, ["S2"], "and the mark, too");
}

#[tokio::test(start_paused = true)]
async fn what_ends_old_holds_while_the_audit_reads_is_no_forgery() {
    let (_folder, app) = app().await;
    let account = account(&app).await;
    // More than are read at a time.
    let charges: Vec<Charge> = (0..2_200).map(|_| charge_of(&app, 0)).collect();
    let fill = |set: &mut WriteSet| {
        for charge in &charges {
            open(&app, set, &account, charge);
        }
    };
    assert!(commit(&app, &account, fill).await);
    seal(&app).await;
    for (low, high) in charges.chunks(100).zip(charges.rchunks(100)).take(11) {
        let ends = async {
            for charge in low.iter().zip(high).flat_map(<[&Charge; 2]>::from) {
                let voided = HoldState::Voided;
                let fill = |set: &mut WriteSet| end(&app, set, &account, charge, voided);
                assert!(commit(&app, &account, fill).await);
            }
        };
        let (report, ()) = tokio::join!(audit(&app, clock::DAY), ends);
        let report = report.unwrap();
        assert!(report.violations.is_empty(), "{:?}", report.violations.first());
    }
    seal(&app).await;
    assert!(broken(&app).await.is_empty(), "late and sealed");
}

#[tokio::test]
async fn a_process_seals_no_other_chain_than_the_one_it_knows() {
    let (folder, app) = app().await;
    account(&app).await;
    seal(&app).await;
    let before = seals::newest(&app.db).await.unwrap().unwrap();
    write(&app, store::LOSE_SEAL, args![before.number]).await;
    let refused = seals::round(&app, None).await;
    assert!(matches!(refused, Err(super::Error::SealsGone { .. })), "{refused:?}");
    assert_eq!(broken(&app).await, ["S6"], "its memory is a head kept elsewhere");
    drop(folder);
}

#[tokio::test]
async fn a_clock_that_goes_back_makes_new_rows_late_and_nothing_wrong() {
    let (_folder, app) = app().await;
    let account = account(&app).await;
    seal(&app).await;
    app.sealing.raise_fence(app.now() + clock::DAY);
    let charge = charge_of(&app, 10);
    assert!(commit(&app, &account, |set| drop(grant(&app, set, &account, 50, "t"))).await);
    assert!(commit(&app, &account, |set| open(&app, set, &account, &charge)).await);
    let posted = HoldState::Posted;
    assert!(commit(&app, &account, |set| end(&app, set, &account, &charge, posted)).await);
    let late: Vec<(String,)> = app.db.rows(store::LATE, args![&account]).await.unwrap();
    assert_eq!(late.len(), 3);
    seal(&app).await;
    assert!(broken(&app).await.is_empty());
}
