//! What one socket gets, and what it does not.

use tokio_tungstenite::tungstenite::Utf8Bytes;

use super::{Frame, Hub, Listener, Out, Present, Seat, features};

fn listener(is_staff: bool, features: u8) -> Listener {
    let person = if is_staff { "stf" } else { "usr" }.to_owned();
    Listener { person, is_staff, features, doubts: 0 }
}

fn frame(seq: i64, feature: u8) -> Frame {
    let text = |side: &str| Some(Utf8Bytes::from(format!("{side} {seq}")));
    Frame { seq, feature, user: text("user"), staff: text("staff") }
}

fn join(hub: &Hub, is_staff: bool, features: u8) -> Seat {
    let seat = hub.join("t", "a", &listener(is_staff, features), 100).unwrap();
    let _pushed = hub.begin("t", 0, String::new());
    assert!(seat.outbox.go_live(0));
    seat
}

fn texts(seat: &Seat) -> Vec<String> {
    let next = || match seat.outbox.pop() {
        Out::Frame(_, text) => Some(text.to_string()),
        _ => None,
    };
    std::iter::from_fn(next).collect()
}

#[test]
fn each_side_gets_its_own_view_and_a_note_only_staff() {
    let hub = Hub::default();
    let (user, staff) = (join(&hub, false, 0), join(&hub, true, 0));
    hub.push("t", &[frame(1, 0), Frame { user: None, ..frame(2, 0) }], None);
    assert_eq!(texts(&user), ["user 1"]);
    assert_eq!(texts(&staff), ["staff 1", "staff 2"]);
}

#[test]
fn a_doubt_comes_out_before_what_waits_and_only_to_its_person() {
    let hub = Hub::default();
    let (user, staff) = (join(&hub, false, 0), join(&hub, true, 0));
    hub.push("t", &[frame(1, 0)], None);
    hub.doubt("stf");
    assert_eq!(staff.outbox.pop(), Out::Doubt);
    assert_eq!((texts(&staff), texts(&user)), (vec!["staff 1".into()], vec!["user 1".into()]));
}

#[test]
fn who_was_let_in_before_a_login_ended_and_sits_down_after_it_is_doubted() {
    let hub = Hub::default();
    let early = listener(true, 0);
    hub.doubt("stf");
    let seat = hub.join("t", "a", &early, 100).unwrap();
    assert_eq!(seat.outbox.pop(), Out::Doubt);
    let late = Listener { doubts: hub.doubts(), ..early };
    let seat = hub.join("t", "a", &late, 100).unwrap();
    assert_eq!(seat.outbox.pop(), Out::Empty);
}

#[test]
fn frames_of_a_feature_go_to_those_who_asked() {
    let hub = Hub::default();
    let (plain, more) = (join(&hub, false, 0), join(&hub, false, features::TYPING));
    hub.push("t", &[frame(0, features::TYPING), frame(0, features::READ)], None);
    assert!(texts(&plain).is_empty());
    assert_eq!(texts(&more), ["user 0"]);
}

#[test]
fn who_does_not_empty_its_queue_is_ended_and_the_others_are_not() {
    let hub = Hub::default();
    let (slow, quick) = (join(&hub, false, 0), join(&hub, false, 0));
    for seq in 1..=65 {
        hub.push("t", &[frame(seq, 0)], None);
        assert_eq!(texts(&quick).len(), 1);
    }
    assert_eq!(slow.outbox.pop(), Out::Overflow);
}

#[test]
fn what_comes_while_a_socket_catches_up_is_read_not_queued() {
    let hub = Hub::default();
    let seat = hub.join("t", "a", &listener(false, 0), 100).unwrap();
    assert_eq!(hub.begin("t", 7, String::new()), 7);
    assert_eq!(hub.begin("t", 9, String::new()), 7, "the first word counts");
    hub.push("t", &[frame(8, 0)], None);
    assert!(!seat.outbox.go_live(7), "8 is still to be read");
    assert!(seat.outbox.go_live(8));
    hub.push("t", &[frame(9, 0)], None);
    assert_eq!(texts(&seat), ["user 9"]);
}

#[test]
fn a_person_has_a_bound_and_leaving_makes_room() {
    let hub = Hub::default();
    let seats: Vec<Seat> = (0..3).map(|_| join(&hub, false, 0)).collect();
    assert!(hub.join("t", "a", &listener(false, 0), 3).is_none());
    assert!(hub.join("u", "a", &listener(true, 0), 3).is_some(), "another person");
    assert_eq!(hub.take_left(), [("u".to_owned(), "a".to_owned())]);
    drop(seats);
    assert!(hub.is_empty() && hub.join("t", "a", &listener(false, 0), 1).is_some());
}

#[test]
fn news_are_of_topics_with_sockets_and_told_once() {
    let hub = Hub::default();
    hub.news("t");
    assert!(hub.take_news().is_empty());
    let _seat = join(&hub, false, 0);
    hub.news("t");
    hub.news("t");
    let news = hub.take_news();
    assert_eq!((news.len(), news[0].pushed, news[0].account.as_str()), (1, 0, "a"));
    assert!(hub.take_news().is_empty());
}

#[test]
fn news_of_a_topic_that_is_not_begun_waits() {
    let hub = Hub::default();
    let _seat = hub.join("t", "a", &listener(false, 0), 100).unwrap();
    hub.news("t");
    assert!(hub.take_news().is_empty());
    assert_eq!(hub.begin("t", 7, "note".to_owned()), 7);
    let news = hub.take_news();
    assert_eq!((news.len(), news[0].pushed, news[0].note.as_str()), (1, 7, "note"));
}

#[test]
fn who_comes_and_goes_is_news_and_is_said_once() {
    let hub = Hub::default();
    let user = join(&hub, false, features::PRESENCE);
    assert!(hub.take_news().is_empty(), "nobody else is there to be told");
    let staff = join(&hub, true, 0);
    let second = join(&hub, true, 0);
    assert_eq!(hub.take_news().len(), 1);
    assert_eq!(hub.present("t"), Present { user: true, staff: true });
    for _ in 0..2 {
        hub.push("t", &[frame(0, features::PRESENCE)], None);
    }
    assert_eq!(texts(&user), ["user 0"]);
    drop(staff);
    assert!(hub.take_news().is_empty(), "the second is still there");
    drop(second);
    assert_eq!(hub.take_news().len(), 1);
    assert_eq!(hub.present("t"), Present { user: true, staff: false });
}

#[test]
fn who_listens_elsewhere_is_present_too() {
    let hub = Hub::default();
    let _user = join(&hub, false, features::PRESENCE);
    hub.set_elsewhere("t", Present { user: false, staff: true });
    assert_eq!(hub.present("t"), Present { user: true, staff: true });
    hub.news_for(features::TYPING);
    assert!(hub.take_news().is_empty(), "nobody asked for that");
    hub.news_for(features::PRESENCE);
    let news = hub.take_news();
    assert_eq!(news[0].here, Present { user: true, staff: false });
    assert_eq!((news[0].told, news[0].wants_presence), (Present::default(), true));
    hub.set_told("t", news[0].here);
    hub.news("t");
    assert_eq!(hub.take_news()[0].told, news[0].here);
}
