//! How long a link waits before it calls a centre again, and how a session parts from one.

use std::time::Duration;

use clock::Clock;
use smpp::{Connection, Event, Outcome, Phase, Status};
use tokio::io::AsyncWriteExt;
use tokio::time::timeout;

use crate::links::{Line, eventually};
use crate::sessions::{NOW, bound, send};

/// The longest wait of six, each after a cut.
async fn longest_wait_ms(takes_one: bool) -> i64 {
    let line = Line::new(|_| ()).await;
    let mut longest = 0;
    for key in 0..6 {
        let mut centre = line.bound().await;
        if takes_one {
            let sent = line.send(key);
            let (ticket, _) = centre.message().await;
            centre.answer(ticket, Status::ROK).await;
            assert!(matches!(sent.await.unwrap(), Outcome::Accepted { .. }));
        }
        drop(centre);
        let mut until = line.clock.now();
        eventually(|| match *line.link.phase().borrow() {
            Phase::Waiting { until: at, .. } => {
                until = at;
                true
            }
            _ => false,
        })
        .await;
        longest = longest.max(until - line.clock.now());
        line.clock.advance(90_000);
    }
    longest
}

#[tokio::test]
async fn a_centre_that_takes_messages_is_called_again_soon_however_often_it_cuts() {
    assert!(longest_wait_ms(true).await <= 1_000);
    assert!(longest_wait_ms(false).await > 1_000, "one that takes nothing is left alone");
}

#[tokio::test]
async fn an_end_is_told_although_nobody_waited_for_the_farewell() {
    let (near, mut far) = tokio::io::duplex(16);
    let mut connection = Connection::new(bound(), near, Clock::held(NOW, 7));
    send(&mut connection.session, 1).unwrap();
    // The centre says no more and reads nothing, so the last octets wait to be written.
    far.shutdown().await.unwrap();
    while let Ok(event) = timeout(Duration::from_millis(100), connection.next()).await {
        assert!(!matches!(event, Event::Ended(_)), "the farewell is not over");
    }
    drop(far);
    let told = timeout(Duration::from_secs(5), connection.next()).await;
    assert!(matches!(told, Ok(Event::Ended(_))), "{told:?}");
}
