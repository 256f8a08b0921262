//! What a lane lets through, and when.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::time::Instant;

use super::{Lane, Pace, Permit, Priority, Subject, Waits};
use crate::carriers::{Carrier, Outbound, Outcome, Refusal};

const NOW: Priority = Priority::Transactional;
const SOON: Duration = Duration::from_secs(5);

struct Nobody(Pace);

impl Carrier for Nobody {
    fn name(&self) -> &'static str {
        "nobody"
    }

    fn pace(&self) -> Pace {
        self.0
    }

    fn submit<'a>(&'a self, _: &'a Outbound) -> BoxFuture<'a, Outcome> {
        Box::pin(std::future::ready(Outcome::Unknown))
    }
}

fn lane(window: usize, per_s: Option<u32>) -> Arc<Lane> {
    Lane::of(Arc::new(Nobody(Pace { window, per_s, backs_off: true })))
}

fn all_of(lane: &Arc<Lane>, account: &str, priority: Priority) -> Vec<Permit> {
    std::iter::from_fn(|| lane.try_take(account, priority)).collect()
}

const THROTTLED: Refusal = Refusal::Throttled { after_ms: 1 };

/// The answer to a message of an account to a number: `ada 1`.
fn note(lane: &Lane, outcome: &Outcome, subject: &str) {
    let account = subject.split(' ').next().unwrap();
    lane.note(outcome, Subject { account, to: subject }, Duration::from_millis(1));
}

fn taken() -> Outcome {
    Outcome::Accepted { provider_id: String::new() }
}

fn refused(class: Refusal) -> Outcome {
    Outcome::Refused { class, code: String::new() }
}

#[test]
fn no_account_and_no_class_has_all_of_a_lane() {
    let lane = lane(16, None);
    let bulk = all_of(&lane, "ada", Priority::Bulk);
    assert_eq!(bulk.len(), 8);
    let his = all_of(&lane, "ben", Priority::Bulk);
    assert_eq!(his.len(), 1, "one place is for who has none");
    assert_eq!(all_of(&lane, "cleo", Priority::Bulk).len(), 0);
    drop(his);
    let urgent = all_of(&lane, "ada", NOW);
    assert_eq!(urgent.len(), 4, "twelve of sixteen");
    assert_eq!(all_of(&lane, "ben", NOW).len(), 1);
    let passcodes = all_of(&lane, "ada", Priority::Passcode);
    assert_eq!(passcodes.len(), 2, "her own messages do not keep her passcodes out");
    assert_eq!(all_of(&lane, "ben", Priority::Passcode).len(), 2);
    drop((bulk, urgent, passcodes));
    assert_eq!(all_of(&lane, "ada", Priority::Passcode).len(), 14, "and nothing was lost");
    assert_eq!(lane.taken(), 0);
}

#[test]
fn a_window_of_one_is_enough_for_everybody() {
    let lane = lane(1, None);
    for priority in Priority::ALL {
        assert_eq!(all_of(&lane, "ada", priority).len(), 1, "{priority:?}");
    }
}

#[test]
fn nobody_overtakes_those_who_wait_in_the_database() {
    let lane = lane(4, None);
    let taken: Vec<_> = std::iter::from_fn(|| lane.enter("ada", NOW)).collect();
    assert_eq!(taken.len(), 3);
    drop(taken);
    assert!(lane.enter("ada", NOW).is_none() && lane.enter("ben", Priority::Bulk).is_none());
    assert!(lane.enter("ben", Priority::Passcode).is_some());
    lane.set_backlog(None);
    assert!(lane.enter("ben", Priority::Bulk).is_some());
}

#[tokio::test(start_paused = true)]
async fn a_free_turn_goes_to_whoever_is_most_urgent_and_has_least() {
    let lane = lane(4, None);
    let mut ada = all_of(&lane, "ada", Priority::Passcode);
    ada.extend(lane.try_take("ben", Priority::Passcode));
    assert_eq!(ada.len(), 4);
    let patient = lane.take("cleo", NOW, SOON);
    let much = lane.take("ada", Priority::Passcode, SOON);
    let little = lane.take("dora", Priority::Passcode, SOON);
    tokio::pin!(patient, much, little);
    for waiting in [&mut patient, &mut much] {
        assert!(futures_util::poll!(waiting).is_pending());
    }
    assert!(futures_util::poll!(&mut little).is_pending());
    drop(ada.pop());
    let _of_dora = little.await.expect("she has none");
    assert!(futures_util::poll!(&mut much).is_pending());
    drop(ada.pop());
    let _of_ada = much.await.expect("the next");
    assert!(patient.await.is_none(), "passcodes have all, so its patience ends");
}

#[tokio::test(start_paused = true)]
async fn a_rate_is_kept_however_many_ask() {
    let lane = lane(1_000, Some(20));
    let (begin, mut count) = (Instant::now(), 0);
    while begin.elapsed() < Duration::from_secs(10) {
        count += all_of(&lane, "ada", NOW).len();
        tokio::time::advance(Duration::from_millis(7)).await;
    }
    assert!((195..=203).contains(&count), "{count}");
    // Parts count, too: an SMS of five leaves nothing for a quarter of a second.
    tokio::time::advance(Duration::from_secs(1)).await;
    lane.try_take("ada", NOW).expect("a pause").weigh(5);
    tokio::time::advance(Duration::from_millis(150)).await;
    assert!(lane.try_take("ada", NOW).is_none());
    let waited = Instant::now();
    let _turn = lane.take("ada", Priority::Passcode, SOON).await.expect("time gives it");
    assert!(waited.elapsed() < Duration::from_millis(100), "{:?}", waited.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_carrier_that_is_down_is_asked_again_by_one_at_a_time() {
    let lane = lane(16, None);
    note(&lane, &refused(Refusal::Down), "ada 1");
    assert!(lane.try_take("ada", NOW).is_none() && lane.is_resting());
    assert!(lane.try_take("ada", Priority::Passcode).is_some(), "passcodes cannot wait");
    tokio::time::advance(Duration::from_millis(1_100)).await;
    let probe = lane.try_take("ada", NOW).expect("one asks");
    assert!(lane.try_take("ben", NOW).is_none(), "only one");
    note(&lane, &refused(Refusal::Down), "ada 1");
    drop(probe);
    tokio::time::advance(Duration::from_millis(1_100)).await;
    assert!(lane.try_take("ada", NOW).is_none(), "it rests for longer");
    tokio::time::advance(Duration::from_secs(30)).await;
    let probe = lane.try_take("ada", NOW).expect("never for longer than half a minute");
    note(&lane, &taken(), "ada 1");
    drop(probe);
    assert_eq!(all_of(&lane, "ada", NOW).len(), 12, "it is back");
}

#[tokio::test(start_paused = true)]
async fn lost_answers_in_a_row_count_as_down_and_a_bad_recipient_does_not() {
    let lane = lane(16, None);
    for _ in 0..20 {
        note(&lane, &refused(Refusal::BadRecipient), "ada 1");
    }
    // The same number says no more by being asked again.
    for number in ["ada 1", "ada 2", "ada 2", "ada 1"] {
        note(&lane, &Outcome::Unknown, number);
    }
    assert!(lane.try_take("ada", NOW).is_some());
    note(&lane, &Outcome::Unknown, "ada 3");
    assert!(lane.try_take("ada", NOW).is_none() && lane.is_resting());
}

#[tokio::test(start_paused = true)]
async fn a_window_that_is_lost_at_once_is_one_failure() {
    let lane = lane(16, None);
    let lose_a_window = || {
        for number in ["ada 1", "ada 2", "ada 3", "ada 4", "ada 5", "ada 6", "ada 7"] {
            note(&lane, &Outcome::Unknown, number);
        }
    };
    lose_a_window();
    assert!(lane.try_take("ada", NOW).is_none());
    tokio::time::advance(Duration::from_millis(1_100)).await;
    assert!(lane.try_take("ada", NOW).is_some(), "one asks after a second");
    // The next one is the second in a row.
    lose_a_window();
    tokio::time::advance(Duration::from_millis(1_100)).await;
    assert!(lane.try_take("ada", NOW).is_none(), "it rests for longer");
    // Whoever asks for more time gets it, even then.
    let patient = Refusal::Throttled { after_ms: 9_000 };
    note(&lane, &refused(patient), "ada 8");
    tokio::time::advance(Duration::from_millis(8_900)).await;
    assert!(lane.try_take("ada", NOW).is_none());
    tokio::time::advance(Duration::from_millis(200)).await;
    assert!(lane.try_take("ada", NOW).is_some());
}

#[tokio::test(start_paused = true)]
async fn one_accounts_bad_answers_rest_the_carrier_for_nobody_else() {
    let lane = lane(16, None);
    for number in ["ada 1", "ada 2", "ada 3", "ada 4"] {
        note(&lane, &Outcome::Unknown, number);
    }
    note(&lane, &refused(THROTTLED), "ada 5");
    assert!(lane.try_take("ada", NOW).is_none() && lane.is_resting_for("ada"));
    assert_eq!(all_of(&lane, "ben", NOW).len(), 12, "he has all that he may");
    // A good answer to him says nothing new of hers.
    note(&lane, &taken(), "ben 1");
    assert!(lane.try_take("ada", NOW).is_none());
    // Both have bad ones: now it is the carrier.
    note(&lane, &refused(THROTTLED), "ada 6");
    note(&lane, &refused(THROTTLED), "ben 1");
    assert!(lane.try_take("ben", NOW).is_none() && lane.try_take("cleo", NOW).is_none());
    tokio::time::advance(Duration::from_secs(31)).await;
    let probe = lane.try_take("cleo", NOW).expect("one asks");
    assert!(lane.try_take("ben", NOW).is_none(), "only one");
    note(&lane, &taken(), "cleo 1");
    drop(probe);
    assert_eq!(all_of(&lane, "ben", NOW).len(), 12, "it is back");
}

#[tokio::test(start_paused = true)]
async fn a_number_that_always_gets_bad_answers_is_no_longer_counted() {
    let lane = lane(16, None);
    for round in 0..5 {
        note(&lane, &refused(THROTTLED), "ada 1");
        let is_counted = lane.try_take("ada", NOW).is_none();
        assert_eq!(is_counted, round < 3, "{round}");
        tokio::time::advance(Duration::from_secs(2)).await;
        note(&lane, &taken(), "ada 2");
        assert_eq!(all_of(&lane, "ada", NOW).len(), 12, "{round}");
    }
    // Others are, and so is this one after its own good answer.
    note(&lane, &refused(THROTTLED), "ada 3");
    assert!(lane.try_take("ada", NOW).is_none());
    note(&lane, &taken(), "ada 1");
    note(&lane, &refused(THROTTLED), "ada 1");
    assert!(lane.try_take("ada", NOW).is_none());
}

#[tokio::test(start_paused = true)]
async fn whoever_stops_waiting_keeps_nobody_waiting() {
    let lane = lane(1, None);
    let first = lane.try_take("ada", Priority::Passcode).expect("room");
    drop(lane.take("ben", Priority::Passcode, SOON));
    let gone = lane.take("ben", Priority::Passcode, Duration::from_millis(1)).await;
    assert!(gone.is_none());
    let next = lane.take("cleo", Priority::Passcode, SOON);
    drop(first);
    drop(next.await.expect("nobody else waits"));
    assert_eq!(lane.taken(), 0);
}

#[tokio::test(start_paused = true)]
async fn who_rests_alone_keeps_nobody_out() {
    let lane = lane(16, None);
    for number in ["ada 1", "ada 2", "ada 3"] {
        note(&lane, &Outcome::Unknown, number);
    }
    assert!(lane.enter("ada", NOW).is_none());
    assert_eq!(lane.waits("ada", NOW), Waits::Alone);
    tokio::time::advance(Duration::from_millis(10)).await;
    assert!(lane.enter("ben", Priority::Bulk).is_some());
    assert_eq!(lane.wait(), Duration::from_millis(10), "hers waits all the same");
    // Who waits for room does, for those behind.
    lane.set_backlog(Some(Waits::ForRoom(NOW)));
    assert!(lane.enter("ben", Priority::Bulk).is_none());
}

#[tokio::test(start_paused = true)]
async fn who_is_served_already_waits_behind_those_in_the_database() {
    let lane = lane(4, None);
    let hers = lane.try_take("ada", Priority::Passcode).expect("a permit");
    lane.set_backlog(Some(Waits::ForRoom(Priority::Passcode)));
    assert!(lane.take("ada", Priority::Passcode, SOON).await.is_none());
    assert!(lane.take("ben", Priority::Passcode, SOON).await.is_some());
    lane.set_backlog(None);
    assert!(lane.take("ada", Priority::Passcode, SOON).await.is_some());
    drop(hers);
}

#[tokio::test(start_paused = true)]
async fn only_what_the_rate_withholds_comes_back_with_time() {
    let lane = lane(4, Some(40));
    let taken = all_of(&lane, "ada", Priority::Passcode);
    assert!(!taken.is_empty());
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(lane.refills_in(), None, "there is no room, whatever the rate says");
    drop(taken);
    drop(all_of(&lane, "ada", Priority::Passcode));
    let refills_in = lane.refills_in().expect("the rate");
    tokio::time::advance(refills_in).await;
    assert!(lane.try_take("ada", Priority::Passcode).is_some());
}
