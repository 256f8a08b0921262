//! Links whose centre throttles, with a held clock: pauses, who asks in them, and whose messages
//! alone are throttled.

use smpp::{Lane, Outcome, Status, Submission};
use tokio::task::JoinHandle;

use crate::links::{Centre, Line, accepted, eventually};

/// The centre throttles the first message that comes.
async fn throttle(line: &Line, centre: &mut Centre<tokio::net::TcpStream>) {
    let (ticket, _) = centre.message().await;
    centre.answer(ticket, Status::RTHROTTLED).await;
    eventually(|| line.link.load().throttled == 1).await;
}

#[tokio::test]
async fn throttling_pauses_the_link_and_keeps_the_order() {
    let line = Line::new(|_| ()).await;
    let mut centre = line.bound().await;
    let first = line.send(1);
    throttle(&line, &mut centre).await;
    let second = line.send(2);
    assert!(centre.is_quiet().await);
    line.clock.advance(999);
    assert!(centre.is_quiet().await);
    line.clock.advance(1);
    for key in [1, 2] {
        let (ticket, came) = centre.message().await;
        assert_eq!(came, key);
        centre.connection.session.answer(line.clock.now(), ticket, Status::ROK, "id".into());
    }
    centre.flush().await;
    assert_eq!((first.await.unwrap(), second.await.unwrap()), (accepted(), accepted()));
}

#[tokio::test]
async fn a_window_that_is_throttled_goes_again_in_its_order() {
    let line = Line::new(|_| ()).await;
    let mut centre = line.bound().await;
    let mut tickets = vec![];
    for key in 1..=3 {
        drop(line.send(key));
        tickets.push(centre.message().await.0);
    }
    for ticket in [tickets[2], tickets[0], tickets[1]] {
        centre.answer(ticket, Status::RMSGQFUL).await;
    }
    eventually(|| line.link.load().throttled == 3).await;
    line.clock.advance(1_000);
    // One asks, then the others follow.
    let (ticket, first) = centre.message().await;
    assert!(first == 1 && centre.is_quiet().await);
    centre.connection.session.answer(line.clock.now(), ticket, Status::ROK, "id".into());
    for key in 2..=3 {
        assert_eq!(centre.message().await.1, key);
    }
}

/// Ada's window is throttled, and then hers time and again, right after ben's was taken.
async fn until_she_is_to_blame(
    line: &Line,
    centre: &mut Centre<tokio::net::TcpStream>,
) -> Vec<JoinHandle<Outcome>> {
    let (mut hers, mut tickets) = (vec![], vec![]);
    for key in 1..=3 {
        hers.push(line.send(key));
        tickets.push(centre.message().await.0);
    }
    for round in 1..=2 {
        let throttled = line.link.load().throttled;
        for ticket in tickets.drain(..) {
            centre.answer(ticket, Status::RMSGQFUL).await;
        }
        eventually(|| line.link.load().throttled == throttled + 3).await;
        let his = line.submit_of("ben", 70 + round, Lane::Normal, 60_000);
        line.clock.advance(999);
        assert!(centre.is_quiet().await);
        line.clock.advance(1);
        // After a second his may ask. Then hers go again.
        let (ticket, asks) = centre.message().await;
        assert_eq!(asks, 70 + round);
        centre.connection.session.answer(line.clock.now(), ticket, Status::ROK, "id".into());
        for key in 1..=3 {
            let (ticket, next) = centre.message().await;
            assert_eq!(next, key);
            tickets.push(ticket);
        }
        assert_eq!(his.await.unwrap(), accepted());
    }
    for ticket in tickets {
        centre.answer(ticket, Status::RMSGQFUL).await;
    }
    hers
}

#[tokio::test]
async fn one_whose_messages_alone_are_throttled_holds_up_nobody() {
    let line = Line::new(|settings| settings.session.window = 4).await;
    let mut centre = line.bound().await;
    let throttled = Outcome::Refused { status: Status::RMSGQFUL };
    for outcome in until_she_is_to_blame(&line, &mut centre).await {
        assert_eq!(outcome.await.unwrap(), throttled, "it goes back to its sender");
    }
    // From now on hers pause nothing, for as long as they are throttled, and rest for longer and
    // longer: what comes before is not even written.
    for (key, rest_ms) in (10..).zip([1_000, 2_000, 4_000, 8_000]) {
        assert_eq!(line.send(key).await.unwrap(), throttled);
        let his = line.submit_of("ben", key + 100, Lane::Normal, 60_000);
        let (ticket, came) = centre.message().await;
        assert_eq!(came, key + 100);
        centre.answer(ticket, Status::ROK).await;
        assert_eq!(his.await.unwrap(), accepted());
        line.clock.advance(rest_ms);
        let hers = line.send(key + 200);
        let (ticket, came) = centre.message().await;
        assert_eq!(came, key + 200);
        centre.answer(ticket, Status::RMSGQFUL).await;
        assert_eq!(hers.await.unwrap(), throttled);
    }
    // A minute later the centre is believed again.
    for _ in 0..3 {
        line.clock.advance(20_000);
        assert!(centre.is_quiet().await, "it only asks whether the connection stands");
    }
    let _hers = line.send(20);
    let (ticket, _) = centre.message().await;
    centre.answer(ticket, Status::RTHROTTLED).await;
    let _his = line.submit_of("ben", 21, Lane::Normal, 60_000);
    assert!(centre.is_quiet().await);
}

#[tokio::test]
async fn what_follows_of_one_to_blame_waits_in_the_link_and_pauses_nobody() {
    let line = Line::new(|settings| settings.session.window = 4).await;
    let mut centre = line.bound().await;
    until_she_is_to_blame(&line, &mut centre).await;
    let rest = Submission { follows: true, ..line.submission("ada", 10, Lane::Normal, 60_000) };
    let rest = line.go(rest);
    for (round, rest_ms) in (20..).zip([1_000, 2_000]) {
        let his = line.submit_of("ben", round, Lane::Normal, 60_000);
        let (ticket, came) = centre.message().await;
        assert_eq!(came, round, "hers rests");
        centre.answer(ticket, Status::ROK).await;
        assert_eq!(his.await.unwrap(), accepted());
        line.clock.advance(rest_ms);
        let (ticket, came) = centre.message().await;
        assert_eq!(came, 10);
        let status = if round == 20 { Status::RMSGQFUL } else { Status::ROK };
        centre.answer(ticket, status).await;
    }
    assert_eq!(rest.await.unwrap(), accepted());
}

#[tokio::test]
async fn a_refusal_for_another_reason_does_not_end_a_pause() {
    let line = Line::new(|_| ()).await;
    let mut centre = line.bound().await;
    let _hers = (line.send(1), line.send(2));
    let tickets = [centre.message().await.0, centre.message().await.0];
    for ticket in tickets {
        centre.answer(ticket, Status::RTHROTTLED).await;
    }
    eventually(|| line.link.load().throttled == 2).await;
    let his = line.submit_of("ben", 7, Lane::Normal, 60_000);
    line.clock.advance(1_000);
    let (ticket, asks) = centre.message().await;
    assert_eq!(asks, 7);
    let now = line.clock.now();
    centre.connection.session.answer(now, ticket, Status::RINVDSTADR, "".into());
    // The next one asks, and no other beside it.
    assert_eq!(centre.message().await.1, 1);
    assert!(centre.is_quiet().await);
    assert_eq!(his.await.unwrap(), Outcome::Refused { status: Status::RINVDSTADR });
    // It has no answer for two seconds: another one asks.
    line.clock.advance(2_000);
    assert_eq!(centre.message().await.1, 2);
}

#[tokio::test]
async fn what_waits_behind_a_throttled_message_until_it_expires_is_throttled_as_well() {
    let line = Line::new(|_| ()).await;
    let mut centre = line.bound().await;
    let first = line.send(1);
    throttle(&line, &mut centre).await;
    let second = line.submit(2, Lane::Normal, 500);
    eventually(|| line.link.load().waiting == 2).await;
    line.clock.advance(500);
    assert_eq!(second.await.unwrap(), Outcome::Refused { status: Status::RTHROTTLED });
    // With nothing left to ask, nothing is done.
    first.abort();
    line.clock.advance(600);
    assert!(centre.is_quiet().await);
    let third = line.send(3);
    let (ticket, asks) = centre.message().await;
    assert_eq!(asks, 3);
    centre.answer(ticket, Status::ROK).await;
    assert_eq!(third.await.unwrap(), accepted());
}

#[tokio::test]
async fn a_passcode_asks_again_each_second_of_a_long_pause() {
    let line = Line::new(|_| ()).await;
    let mut centre = line.bound().await;
    let patient = line.send(1);
    for pause_ms in [1_000, 2_000, 4_000] {
        let (ticket, _) = centre.message().await;
        centre.answer(ticket, Status::RTHROTTLED).await;
        line.clock.advance(pause_ms);
    }
    let (ticket, _) = centre.message().await;
    centre.answer(ticket, Status::RTHROTTLED).await;
    let code = line.submit(9, Lane::Urgent, 5_000);
    for _ in 0..2 {
        assert!(centre.is_quiet().await);
        line.clock.advance(1_000);
        let (ticket, asks) = centre.message().await;
        assert_eq!(asks, 9);
        centre.answer(ticket, Status::RTHROTTLED).await;
    }
    line.clock.advance(1_000);
    let (ticket, asks) = centre.message().await;
    assert_eq!(asks, 9);
    centre.connection.session.answer(line.clock.now(), ticket, Status::ROK, "id".into());
    // The centre takes messages again: nobody waits for the end of the pause.
    let (ticket, next) = centre.message().await;
    assert_eq!((next, code.await.unwrap()), (1, accepted()));
    centre.answer(ticket, Status::ROK).await;
    assert_eq!(patient.await.unwrap(), accepted());
}

#[tokio::test]
async fn one_that_was_throttled_until_it_expired_is_refused() {
    let line = Line::new(|_| ()).await;
    let mut centre = line.bound().await;
    let outcome = line.submit(1, Lane::Normal, 500);
    throttle(&line, &mut centre).await;
    line.clock.advance(500);
    assert_eq!(outcome.await.unwrap(), Outcome::Refused { status: Status::RTHROTTLED });
}
