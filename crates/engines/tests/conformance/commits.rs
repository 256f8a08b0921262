//! What a commit promises.

use super::*;

pub(super) async fn text_numbers_bytes_and_null_come_back_as_they_went_in(kind: Kind) {
    const PUT: Sql = Sql("INSERT INTO things (id, note, seal) VALUES ($1, $2, $3)");
    const GET: Sql = Sql("SELECT id, note, seal FROM things WHERE id = $1");
    type Thing = (i64, Option<String>, Option<Vec<u8>>);
    let bench = Bench::new(kind, &Wish::default(), 0).await;
    let things: [Thing; 4] = [
        (i64::MAX, Some("Grüße \u{1F44B} 'quoted'".to_owned()), Some(vec![0, 255, 10])),
        (i64::MIN, None, None),
        (0, Some(String::new()), Some(Vec::new())),
        (7, Some("x".repeat(100_000)), Some(vec![1; 100_000])),
    ];
    for (id, note, seal) in things {
        let args = args![id, note.clone(), seal.clone()];
        bench.db.commit(set("a", &[(PUT, args, Expect::Any)])).await.unwrap();
        let found: Option<Thing> = bench.db.row(GET, args![id]).await.unwrap();
        assert_eq!(found, Some((id, note, seal)));
    }
}

pub(super) async fn a_guard_refuses_exactly_its_own_set(kind: Kind) {
    let bench = Bench::new(kind, &Wish::default(), 1_000).await;
    bench.db.commit(debit("taken", 1)).await.unwrap();
    let sets = (0..300).map(|index| {
        let id = format!("l{index}");
        let entry = (ENTRY, args!["a", &id, 1], Expect::Any);
        match index % 5 {
            // Refused by its first statement.
            1 => debit(&id, 5_000),
            // Refused by a later one, after something was written.
            2 => set("a", &[entry, (DEBIT, args![5_000, "a"], Expect::One(BROKE))]),
            // Violates the primary key, after something was written.
            3 => {
                let taken = (ENTRY, args!["a", "taken", 1], Expect::Any);
                set("a", &[entry, taken])
            }
            // Violates a CHECK with its first statement.
            4 => set("a", &[(OVERDRAW, args![5_000, "a"], Expect::One(BROKE)), entry]),
            _ => debit(&id, 1),
        }
    });
    let answers = at_once(&bench.db, sets.collect()).await;
    for (index, answer) in answers.into_iter().enumerate() {
        match index % 5 {
            1 | 2 => assert!(matches!(answer, Err(CommitError::Rejected(BROKE))), "{index}"),
            3 | 4 => assert!(matches!(answer, Err(CommitError::Unavailable(_))), "{index}"),
            _ => assert!(answer.is_ok(), "{index}"),
        }
    }
    assert_eq!(bench.balance().await, 1_000 - 1 - 60);
    assert_eq!(bench.entries().await, (61, 61));
}

pub(super) async fn returned_rows_reach_the_caller_that_asked(kind: Kind) {
    let bench = Bench::new(kind, &Wish::default(), 0).await;
    let opened = (0..200).map(|index| {
        let id = format!("b{index}");
        set(&id, &[(OPEN, args![&id, 5], Expect::Any)])
    });
    assert!(at_once(&bench.db, opened.collect()).await.iter().all(Result::is_ok));
    let bumps = (0..200).map(|index| {
        let id = format!("b{index}");
        let bump = || (BUMP, args![&id], Expect::Row(NOBODY));
        let none = (BUMP, args!["nobody"], Expect::Rows);
        set(&id, &[bump(), none, (DEBIT, args![1, &id], Expect::One(BROKE)), bump()])
    });
    let answers = at_once(&bench.db, bumps.collect()).await;
    for (index, answer) in answers.into_iter().enumerate() {
        let mut rows = answer.unwrap().rows;
        assert_eq!(rows.len(), 3, "one list for each returning statement");
        assert!(rows[1].is_empty());
        for (list, version) in [(0, 1), (2, 2)] {
            let row = &mut rows[list][0];
            assert_eq!(row.take::<String>(0).unwrap(), format!("b{index}"));
            assert_eq!(row.take::<i64>(1).unwrap(), version);
        }
    }
}

pub(super) async fn what_must_be_absent_refuses_when_it_is_there(kind: Kind) {
    const ENTRY_OF: Sql = Sql("SELECT id FROM ledger WHERE account_id = $1 AND id = $2");
    const TAKEN: Reject = Reject("taken");
    let bench = Bench::new(kind, &Wish::default(), 1_000).await;
    let once = |id: &str, rest: &[(Sql, store::Args, Expect)]| {
        let mut stmts = vec![(ENTRY_OF, args!["a", id], Expect::None(TAKEN))];
        stmts.extend_from_slice(rest);
        set("a", &stmts)
    };
    let enter = |id: &str| {
        let (guard, entry) = (args![1, "a"], args!["a", id, 1]);
        [(DEBIT, guard, Expect::One(BROKE)), (ENTRY, entry, Expect::Any)]
    };
    // Each id is entered by two callers at once: one of the two must find the other's entry,
    // whether the guard stands in front of everything or behind a write.
    let sets = (0..200).map(|index| {
        let id = format!("e{}", index / 2);
        if index % 4 < 2 {
            return once(&id, &enter(&id));
        }
        let mut late = enter(&id).to_vec();
        late.insert(1, (ENTRY_OF, args!["a", &id], Expect::None(TAKEN)));
        set("a", &late)
    });
    let answers = at_once(&bench.db, sets.collect()).await;
    for (pair, answers) in answers.chunks(2).enumerate() {
        let refused =
            answers.iter().filter(|answer| matches!(answer, Err(CommitError::Rejected(TAKEN))));
        assert_eq!(refused.count(), 1, "pair {pair}: {answers:?}");
        assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1, "pair {pair}");
    }
    let done = bench.db.commit(once("new", &enter("new"))).await.unwrap();
    assert!(done.rows.is_empty(), "a guard returns nothing");
    assert_eq!(bench.balance().await, 1_000 - 101);
    assert_eq!(bench.entries().await, (101, 101));
}

pub(super) async fn a_returning_guard_refuses_what_does_not_exist(kind: Kind) {
    let bench = Bench::new(kind, &Wish::default(), 5).await;
    let missing = || (BUMP, args!["nobody"], Expect::Row(NOBODY));
    let paid = (DEBIT, args![1, "a"], Expect::One(BROKE));
    let first = bench.db.commit(set("a", &[missing(), paid.clone()])).await;
    assert!(matches!(first, Err(CommitError::Rejected(NOBODY))));
    let later = bench.db.commit(set("a", &[paid, missing()])).await;
    assert!(matches!(later, Err(CommitError::Rejected(NOBODY))));
    assert_eq!(bench.balance().await, 5);
    let done = bench.db.commit(set("a", &[(BUMP, args!["a"], Expect::Row(NOBODY))])).await;
    assert_eq!(done.unwrap().only::<(String, i64)>().unwrap(), ("a".to_owned(), 1));
}

pub(super) async fn racing_debits_never_spend_more_than_there_is(kind: Kind) {
    for later in [false, true] {
        let bench = Bench::new(kind, &Wish::default(), 17).await;
        let sets = (0..64).map(|index| {
            let id = format!("l{index}");
            let entry = (ENTRY, args!["a", &id, 1], Expect::Any);
            let debit = (DEBIT, args![1, "a"], Expect::One(BROKE));
            if later { set("a", &[entry, debit]) } else { set("a", &[debit, entry]) }
        });
        let answers = at_once(&bench.db, sets.collect()).await;
        assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 17);
        let refused = |answer: &&_| matches!(answer, Err(CommitError::Rejected(BROKE)));
        assert_eq!(answers.iter().filter(refused).count(), 64 - 17);
        assert_eq!(bench.balance().await, 0);
        assert_eq!(bench.entries().await, (17, 17));
    }
}

pub(super) async fn sets_of_one_caller_happen_in_order(kind: Kind) {
    let bench = Bench::new(kind, &Wish::default(), 0).await;
    let bump = || set("a", &[(BUMP, args!["a"], Expect::Row(NOBODY))]);
    // Submitted without waiting for each other, from one task.
    let answers = join_all((0..200).map(|_| bench.db.commit(bump()))).await;
    for (index, answer) in (1..).zip(answers) {
        let (_, version): (String, i64) = answer.unwrap().only().unwrap();
        assert_eq!(version, index);
    }
}

pub(super) async fn what_was_committed_together_is_counted(kind: Kind) {
    let bench = Bench::new(kind, &Wish::default(), 0).await;
    let before = bench.db.groups();
    let bump = || set("a", &[(BUMP, args!["a"], Expect::Row(NOBODY))]);
    let answers = join_all((0..200).map(|_| bench.db.commit(bump()))).await;
    assert!(answers.iter().all(Result::is_ok));
    let after = bench.db.groups();
    assert_eq!(after.sets - before.sets, 200);
    let count = |groups: store::Groups| groups.by_size.iter().sum::<u64>();
    let groups = count(after) - count(before);
    assert!((1..200).contains(&groups), "{groups} groups for 200 sets that came at once");
}

pub(super) async fn a_full_queue_answers_overloaded_at_once(kind: Kind) {
    let (held, seen) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let (waits, count) = (Arc::clone(&held), Arc::clone(&seen));
    let fault: Fault = Arc::new(move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        while waits.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
    });
    let wish = Wish { queue: Some(4), fault: Some(fault) };
    let bench = Bench::new(kind, &wish, 100).await;
    let before = seen.load(Ordering::SeqCst);
    held.store(true, Ordering::SeqCst);
    let db = bench.db.clone();
    let running = tokio::spawn(async move { db.commit(debit("running", 1)).await });
    while seen.load(Ordering::SeqCst) == before {
        tokio::task::yield_now().await;
    }
    let waiting: Vec<_> = (0..4)
        .map(|index| {
            let db = bench.db.clone();
            tokio::spawn(async move { db.commit(debit(&format!("w{index}"), 1)).await })
        })
        .collect();
    while bench.db.queued() < 4 {
        tokio::task::yield_now().await;
    }
    let refused = bench.db.commit(debit("refused", 1)).await;
    assert!(matches!(refused, Err(CommitError::Overloaded)));
    held.store(false, Ordering::SeqCst);
    running.await.unwrap().unwrap();
    for waiter in waiting {
        waiter.await.unwrap().unwrap();
    }
    assert_eq!(bench.balance().await, 95);
    assert_eq!(bench.db.queued(), 0);
}

pub(super) async fn a_panic_costs_only_its_own_set(kind: Kind) {
    let fault: Fault = Arc::new(|stmt| {
        let poisoned = stmt.sql == ENTRY && stmt.args[1] == store::Val::from("poison");
        assert!(!poisoned, "injected: the panic of a test");
    });
    let bench = Bench::new(kind, &Wish { queue: None, fault: Some(fault) }, 1_000).await;
    for round in 0..3 {
        let sets = (0..100).map(|index| {
            if index % 25 == 24 {
                debit("poison", 1)
            } else {
                debit(&format!("{round}.{index}"), 1)
            }
        });
        for (index, answer) in at_once(&bench.db, sets.collect()).await.iter().enumerate() {
            if index % 25 == 24 {
                assert!(matches!(answer, Err(CommitError::Unavailable(_))), "{answer:?}");
            } else {
                assert!(answer.is_ok(), "{answer:?}");
            }
        }
    }
    assert_eq!(bench.balance().await, 1_000 - 3 * 96);
    assert_eq!(bench.entries().await, (3 * 96, 3 * 96));
}

pub(super) async fn an_empty_set_is_nothing_to_do(kind: Kind) {
    let bench = Bench::new(kind, &Wish::default(), 0).await;
    let done = bench.db.commit(WriteSet::of("a")).await.unwrap();
    assert!(done.rows.is_empty());
}

pub(super) async fn refusals_in_one_group_do_not_depend_on_each_other(kind: Kind) {
    let bench = Bench::new(kind, &Wish::default(), 100).await;
    // Every other set takes all there is and then fails: those between them must not notice.
    let sets = (0..120).map(|index| {
        let id = format!("l{index}");
        let entry = (ENTRY, args!["a", &id, 1], Expect::Any);
        let all = (DEBIT, args![100, "a"], Expect::One(BROKE));
        let missing = (BUMP, args!["nobody"], Expect::Row(NOBODY));
        if index % 2 == 0 { set("a", &[entry, all, missing]) } else { debit(&id, 1) }
    });
    let answers = at_once(&bench.db, sets.collect()).await;
    for (index, answer) in answers.into_iter().enumerate() {
        if index % 2 == 0 {
            // The debit may be refused as well, once the others have taken something.
            assert!(matches!(answer, Err(CommitError::Rejected(NOBODY | BROKE))), "{index}");
        } else {
            assert!(answer.is_ok(), "{index}: {answer:?}");
        }
    }
    assert_eq!(bench.balance().await, 40);
    assert_eq!(bench.entries().await, (60, 60));
}

/// A debit that may come last, with its ledger row.
fn contended(id: &str, amount: i64) -> WriteSet {
    let mut set = WriteSet::of("a");
    set.contended(DEBIT, args![amount, "a"], BROKE);
    set.push(ENTRY, args!["a", id, amount]);
    set
}

pub(super) async fn a_contended_guard_runs_once_and_refuses_its_own_set(kind: Kind) {
    let bench = Bench::new(kind, &Wish::default(), 50).await;
    let sets = (0..120).map(|index| {
        let id = format!("l{index}");
        if index % 3 == 0 { contended(&id, 1_000) } else { contended(&id, 1) }
    });
    let answers = at_once(&bench.db, sets.collect()).await;
    let paid = answers.iter().filter(|answer| answer.is_ok()).count();
    assert_eq!(paid, 50);
    for (index, answer) in answers.iter().enumerate().filter(|(index, _)| index % 3 == 0) {
        assert!(matches!(answer, Err(CommitError::Rejected(BROKE))), "{index}: {answer:?}");
    }
    assert_eq!(bench.balance().await, 0);
    assert_eq!(bench.entries().await, (50, 50));
}

pub(super) async fn nodes_that_race_never_spend_more_than_there_is(kind: Kind) {
    let bench = Bench::new(kind, &Wish::default(), 37).await;
    let nodes: Vec<Db> = (0..3).map(|_| bench.place.open(&Wish::default())).collect();
    let tasks = (0..120).map(|index| {
        let db = nodes[index % 3].clone();
        let id = format!("l{index}");
        tokio::spawn(async move { db.commit(contended(&id, 1)).await })
    });
    let answers = join_all(tasks).await;
    let paid = answers.iter().filter(|answer| matches!(answer, Ok(Ok(_)))).count();
    assert_eq!(paid, 37);
    assert_eq!(bench.balance().await, 0);
    assert_eq!(bench.entries().await, (37, 37));
}

pub(super) async fn reads_at_once_get_their_own_rows(kind: Kind) {
    let bench = Bench::new(kind, &Wish::default(), 0).await;
    let opened = (0..100).map(|index| {
        let id = format!("b{index}");
        set(&id, &[(OPEN, args![&id, index], Expect::Any)])
    });
    assert!(at_once(&bench.db, opened.collect()).await.iter().all(Result::is_ok));
    let reads = (0..2_000_i64).map(|read| {
        let db = bench.db.clone();
        tokio::spawn(async move {
            let found: Option<(i64,)> =
                db.row(BALANCE, args![format!("b{}", read % 100)]).await.unwrap();
            (found, read % 100)
        })
    });
    for read in join_all(reads).await {
        let (found, expected) = read.unwrap();
        assert_eq!(found, Some((expected,)));
    }
}

pub(super) async fn a_text_is_the_same_wherever_it_is_in_the_program(kind: Kind) {
    let bench = Bench::new(kind, &Wish::default(), 10).await;
    for index in 0..3 {
        // A copy at another place, as the compiler may make of a constant.
        let entry = Sql(ENTRY.0.to_owned().leak());
        let args = args!["a", format!("l{index}"), 1];
        bench.db.commit(set("a", &[(entry, args, Expect::Any)])).await.unwrap();
        let balance = Sql(BALANCE.0.to_owned().leak());
        let found: Option<(i64,)> = bench.db.row(balance, args!["a"]).await.unwrap();
        assert_eq!(found, Some((10,)));
    }
    assert_eq!(bench.entries().await, (3, 3));
}
