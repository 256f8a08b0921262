//! Links against a centre on this machine, with a held clock: cuts, silence, closing, TLS.

use std::sync::Arc;
use std::time::Duration;

use clock::{Clock, Millis};
use smpp::{
    Address, Bind, BindKind, Connection, Delivery, Ended, Event, Lane, Link, LinkSettings, Message,
    News, NotSent, Operation, Outcome, Phase, Place, Session, SessionSettings, Status, Stream,
    Submission, Ticket, Tls,
};
use tokio::net::TcpListener;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinHandle;

const NOW: Millis = Millis(1_800_000_000_000);

/// A centre, and a link to it.
pub(crate) struct Line {
    pub(crate) clock: Clock,
    listener: TcpListener,
    pub(crate) link: Link<u32>,
    news: UnboundedReceiver<News<u32>>,
    runner: JoinHandle<()>,
}

/// The centre's side of one session.
pub(crate) struct Centre<S> {
    clock: Clock,
    pub(crate) connection: Connection<S>,
}

impl Line {
    pub(crate) async fn new(change: impl FnOnce(&mut LinkSettings)) -> Self {
        let clock = Clock::held(NOW, 7);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let place = Place { host: "127.0.0.1".into(), port };
        let bind = Bind::new("login", "secret");
        let mut settings = LinkSettings::new(place, BindKind::Transceiver, bind);
        change(&mut settings);
        let (link, news, runner) = Link::open(settings, clock.clone());
        Self { clock, listener, link, news, runner: tokio::spawn(runner.run()) }
    }

    /// The next connection, with its bind not yet answered.
    async fn called(&self) -> Centre<tokio::net::TcpStream> {
        let (stream, _) = self.listener.accept().await.unwrap();
        Centre::new(stream, &self.clock).await
    }

    pub(crate) async fn bound(&self) -> Centre<tokio::net::TcpStream> {
        let mut centre = self.called().await;
        centre.connection.session.accept_bind("centre");
        centre.flush().await;
        eventually(|| matches!(*self.link.phase().borrow(), Phase::Bound { .. })).await;
        centre
    }

    pub(crate) fn submit(&self, key: u32, lane: Lane, expires_in_ms: i64) -> JoinHandle<Outcome> {
        self.submit_of("ada", key, lane, expires_in_ms)
    }

    pub(crate) fn submit_of(
        &self,
        owner: &str,
        key: u32,
        lane: Lane,
        expires_in_ms: i64,
    ) -> JoinHandle<Outcome> {
        self.go(self.submission(owner, key, lane, expires_in_ms))
    }

    pub(crate) fn go(&self, submission: Submission<u32>) -> JoinHandle<Outcome> {
        let link = self.link.clone();
        tokio::spawn(async move { link.submit(submission).await })
    }

    pub(crate) fn submission(
        &self,
        owner: &str,
        key: u32,
        lane: Lane,
        for_ms: i64,
    ) -> Submission<u32> {
        let destination = Address::international(&format!("336{key:08}"));
        Submission {
            key,
            owner: owner.to_owned(),
            operation: Operation::Submit,
            message: Message { destination, ..Message::default() },
            segments: 1,
            lane,
            follows: false,
            expires_at: self.clock.now() + for_ms,
            valid_until: None,
        }
    }

    pub(crate) fn send(&self, key: u32) -> JoinHandle<Outcome> {
        self.submit(key, Lane::Normal, 60_000)
    }

    async fn delivery(&mut self) -> Delivery {
        let news = self.news.recv().await.unwrap();
        let News::Delivery(delivery) = news else { panic!("{news:?}") };
        delivery
    }

    async fn late_answer(&mut self) -> (u32, Outcome) {
        let news = self.news.recv().await.unwrap();
        let News::AnsweredLate { key, outcome } = news else { panic!("{news:?}") };
        (key, outcome)
    }

    /// Lets the wait for the next connection pass.
    async fn reconnects(&self) {
        eventually(|| matches!(*self.link.phase().borrow(), Phase::Waiting { .. })).await;
        self.clock.advance(90_000);
    }
}

impl<S: Stream> Centre<S> {
    async fn new(stream: S, clock: &Clock) -> Self {
        let session = Session::centre(SessionSettings::default(), clock.now());
        let mut connection = Connection::new(session, stream, clock.clone());
        let Event::BindRequested(_, bind) = connection.next().await else { panic!() };
        assert_eq!(bind.system_id.to_string(), "login");
        Self { clock: clock.clone(), connection }
    }

    /// The next message: whom it is for.
    pub(crate) async fn message(&mut self) -> (Ticket, u32) {
        match self.connection.next().await {
            Event::Message(ticket, _, message) => {
                let number = message.destination.value.to_string();
                (ticket, number["336".len()..].parse().unwrap())
            }
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn answer(&mut self, ticket: Ticket, status: Status) {
        self.connection.session.answer(self.clock.now(), ticket, status, "id".into());
        self.flush().await;
    }

    /// Whether nothing comes for a while; writes what is to be written.
    pub(crate) async fn is_quiet(&mut self) -> bool {
        let wait = Duration::from_millis(60);
        tokio::time::timeout(wait, self.connection.next()).await.is_err()
    }

    pub(crate) async fn flush(&mut self) {
        assert!(self.is_quiet().await);
    }
}

pub(crate) async fn eventually(mut holds: impl FnMut() -> bool) {
    for _ in 0..2_000 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("it did not come about in ten seconds");
}

pub(crate) fn accepted() -> Outcome {
    Outcome::Accepted { message_id: "id".into() }
}

#[tokio::test]
async fn a_message_is_taken_and_its_receipt_acknowledged_when_the_caller_says_so() {
    let mut line = Line::new(|_| ()).await;
    let mut centre = line.bound().await;
    let outcome = line.send(1);
    let (ticket, key) = centre.message().await;
    assert_eq!(key, 1);
    centre.answer(ticket, Status::ROK).await;
    assert_eq!(outcome.await.unwrap(), accepted());

    for key in 0..2 {
        let now = line.clock.now();
        centre.connection.session.send(now, key, Operation::Deliver, Message::default()).unwrap();
    }
    centre.flush().await;
    let (first, second) = (line.delivery().await, line.delivery().await);
    assert!(centre.is_quiet().await);
    first.acknowledge();
    // One that the caller lets fall is to come again.
    drop(second);
    for (key, status) in [(0, Status::ROK), (1, Status::RX_T_APPN)] {
        match centre.connection.next().await {
            Event::Answered(answer) => assert_eq!((answer.key, answer.status), (key, status)),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn urgent_ones_go_first() {
    let line = Line::new(|settings| settings.session.window = 1).await;
    let mut centre = line.bound().await;
    let _first = line.send(1);
    let (mut ticket, _) = centre.message().await;
    let _bulk = (line.send(2), line.send(3), line.send(4));
    eventually(|| line.link.load().waiting == 1).await;
    let _code = line.submit(9, Lane::Urgent, 60_000);
    eventually(|| line.link.load().waiting == 2).await;
    for expected in [9, 2] {
        centre.connection.session.answer(line.clock.now(), ticket, Status::ROK, "id".into());
        let next = centre.message().await;
        assert_eq!(next.1, expected);
        ticket = next.0;
    }
}

#[tokio::test]
async fn the_pace_is_kept() {
    let line = Line::new(|settings| settings.segments_per_second = 2).await;
    let mut centre = line.bound().await;
    let _outcomes = (line.send(1), line.send(2));
    centre.message().await;
    assert!(centre.is_quiet().await);
    line.clock.advance(499);
    assert!(centre.is_quiet().await);
    line.clock.advance(1);
    centre.message().await;
}

#[tokio::test]
async fn a_cut_leaves_what_was_written_unknown_and_the_rest_waiting() {
    let line = Line::new(|settings| settings.session.window = 1).await;
    let mut centre = line.bound().await;
    let written = line.send(1);
    centre.message().await;
    let next = line.send(2);
    eventually(|| line.link.load().waiting == 1).await;
    drop(centre);
    assert_eq!(written.await.unwrap(), Outcome::Unknown);
    line.reconnects().await;
    // Its time came while there was no link: it can go another way.
    assert_eq!(next.await.unwrap(), Outcome::NotSent(NotSent::Expired));
    let mut centre = line.bound().await;
    let _outcome = line.send(3);
    assert_eq!(centre.message().await.1, 3);
}

#[tokio::test]
async fn without_an_answer_the_outcome_is_unknown_and_a_late_one_is_news() {
    let mut line = Line::new(|_| ()).await;
    let mut centre = line.bound().await;
    let outcome = line.send(1);
    let (ticket, _) = centre.message().await;
    line.clock.advance(10_000);
    assert_eq!(outcome.await.unwrap(), Outcome::Unknown);
    centre.answer(ticket, Status::ROK).await;
    assert_eq!(line.late_answer().await, (1, accepted()));
}

#[tokio::test]
async fn a_caller_who_leaves_takes_back_what_is_not_written_and_is_told_of_the_rest() {
    let mut line = Line::new(|settings| settings.session.window = 1).await;
    let mut centre = line.bound().await;
    let first = line.send(1);
    let (ticket, _) = centre.message().await;
    let second = line.send(2);
    eventually(|| line.link.load().waiting == 1).await;
    first.abort();
    second.abort();
    assert!(first.await.unwrap_err().is_cancelled() && second.await.unwrap_err().is_cancelled());
    let _third = line.send(3);
    centre.connection.session.answer(line.clock.now(), ticket, Status::ROK, "id".into());
    assert_eq!(centre.message().await.1, 3);
    assert_eq!(line.late_answer().await, (1, accepted()));
}

#[tokio::test]
async fn an_answer_to_a_message_of_an_earlier_session_is_not_written_on_the_next() {
    let mut line = Line::new(|_| ()).await;
    let mut centre = line.bound().await;
    centre.connection.session.send(NOW, 0, Operation::Deliver, Message::default()).unwrap();
    centre.flush().await;
    let old = line.delivery().await;
    drop(centre);
    line.reconnects().await;
    let mut centre = line.bound().await;
    let now = line.clock.now();
    centre.connection.session.send(now, 1, Operation::Deliver, Message::default()).unwrap();
    centre.flush().await;
    let new = line.delivery().await;
    old.acknowledge();
    assert!(centre.is_quiet().await);
    new.acknowledge();
    assert!(matches!(centre.connection.next().await, Event::Answered(answer) if answer.key == 1));
}

#[tokio::test]
async fn a_refused_login_is_left_alone_for_a_minute() {
    let line = Line::new(|_| ()).await;
    let mut centre = line.called().await;
    centre.connection.session.refuse_bind(Status::RINVPASWD);
    let Event::Ended(_) = centre.connection.next().await else { panic!() };
    eventually(|| matches!(*line.link.phase().borrow(), Phase::Waiting { .. })).await;
    let Phase::Waiting { until, why } = *line.link.phase().borrow() else { panic!() };
    assert_eq!(why, Ended::BindRefused(Status::RINVPASWD));
    assert!(until - line.clock.now() >= 60_000);
}

#[tokio::test]
async fn a_centre_that_hangs_at_the_bind_is_left_and_called_again() {
    let line = Line::new(|_| ()).await;
    let silent = line.called().await;
    line.clock.advance(10_000);
    eventually(|| {
        let phase = *line.link.phase().borrow();
        matches!(phase, Phase::Waiting { why: Ended::BindTimeout, .. })
    })
    .await;
    line.clock.advance(1_000);
    line.bound().await;
    drop(silent);
}

#[tokio::test]
async fn closing_waits_for_answers_then_unbinds() {
    let line = Line::new(|settings| settings.session.window = 1).await;
    let mut centre = line.bound().await;
    let first = line.send(1);
    let (ticket, _) = centre.message().await;
    let waiting = line.send(2);
    eventually(|| line.link.load().waiting == 1).await;
    let closing = tokio::spawn({
        let link = line.link.clone();
        async move { link.close().await }
    });
    assert_eq!(waiting.await.unwrap(), Outcome::NotSent(NotSent::Closed));
    assert!(!closing.is_finished());
    centre.connection.session.answer(line.clock.now(), ticket, Status::ROK, "id".into());
    let ended = Event::Ended(Ended::UnboundByPeer);
    assert_eq!(centre.connection.next().await, ended);
    assert_eq!(first.await.unwrap(), accepted());
    closing.await.unwrap();
    line.runner.await.unwrap();
    let late = Submission {
        key: 3,
        owner: String::new(),
        operation: Operation::Submit,
        message: Message::default(),
        segments: 1,
        lane: Lane::Normal,
        follows: false,
        expires_at: NOW + 60_000,
        valid_until: None,
    };
    assert_eq!(line.link.submit(late).await, Outcome::NotSent(NotSent::Closed));
}

#[tokio::test]
async fn a_status_that_blames_the_session_ends_it_and_another_is_bound() {
    let line = Line::new(|settings| settings.session.window = 2).await;
    let mut centre = line.bound().await;
    let (first, second) = (line.send(1), line.send(2));
    let tickets = [centre.message().await, centre.message().await];
    let third = line.send(3);
    eventually(|| line.link.load().waiting == 1).await;
    // Whoever of the two came first is refused, the other may still be answered.
    let [blamed, other] = tickets;
    centre.answer(blamed.0, Status::RINVBNDSTS).await;
    assert!(!matches!(*line.link.phase().borrow(), Phase::Bound { .. }), "nothing new goes out");
    centre.connection.session.answer(line.clock.now(), other.0, Status::ROK, "id".into());
    assert_eq!(centre.connection.next().await, Event::Ended(Ended::UnboundByPeer));
    let refused = Outcome::Refused { status: Status::RINVBNDSTS };
    let outcomes = [first.await.unwrap(), second.await.unwrap()];
    assert_eq!(outcomes.iter().filter(|outcome| **outcome == refused).count(), 1);
    assert_eq!(outcomes.iter().filter(|outcome| **outcome == accepted()).count(), 1);
    eventually(|| {
        let phase = *line.link.phase().borrow();
        matches!(phase, Phase::Waiting { why: Ended::Blamed(Status::RINVBNDSTS), .. })
    })
    .await;
    line.clock.advance(1_000);
    let mut centre = line.called().await;
    centre.connection.session.accept_bind("centre");
    let (ticket, key) = centre.message().await;
    assert_eq!(key, 3);
    centre.answer(ticket, Status::ROK).await;
    assert_eq!(third.await.unwrap(), accepted());
}

#[tokio::test]
async fn a_link_that_is_cut_is_gone_at_once_whatever_is_open() {
    let mut line = Line::new(|settings| settings.session.window = 1).await;
    let mut centre = line.bound().await;
    let in_flight = line.send(1);
    centre.message().await;
    let waiting = line.send(2);
    eventually(|| line.link.load().waiting == 1).await;
    centre.connection.session.send(NOW, 0, Operation::Deliver, Message::default()).unwrap();
    centre.flush().await;
    let _unstored = line.delivery().await;
    line.link.cut();
    assert_eq!(in_flight.await.unwrap(), Outcome::Unknown);
    assert_eq!(waiting.await.unwrap(), Outcome::NotSent(NotSent::Closed));
    line.runner.await.unwrap();
    // The clock is held: nothing of this waited for anything.
    let ended = loop {
        match centre.connection.next().await {
            Event::Ended(why) => break why,
            Event::Unanswered(_) => {}
            other => panic!("{other:?}"),
        }
    };
    assert!(matches!(ended, Ended::Disconnected(_)), "{ended:?}");
}

#[tokio::test]
async fn a_bind_for_receiving_takes_no_messages() {
    let line = Line::new(|settings| settings.kind = BindKind::Receiver).await;
    let _centre = line.bound().await;
    assert_eq!(line.send(1).await.unwrap(), Outcome::NotSent(NotSent::WrongWay));
}

#[tokio::test]
async fn tls_is_spoken_and_an_unknown_certificate_refused() {
    let pair = rcgen::generate_simple_self_signed(vec!["centre.example".to_owned()]).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let key = rustls::pki_types::PrivateKeyDer::try_from(pair.signing_key.serialize_der()).unwrap();
    let server = rustls::ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![pair.cert.der().clone()], key)
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(server));
    for is_trusted in [true, false] {
        let mut roots = rustls::RootCertStore::empty();
        if is_trusted {
            roots.add(pair.cert.der().clone()).unwrap();
        }
        let client = rustls::ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = Some("centre.example".try_into().unwrap());
        let tls = Tls { config: Arc::new(client), name };
        let line = Line::new(|settings| settings.tls = Some(tls)).await;
        let (tcp, _) = line.listener.accept().await.unwrap();
        let accepted_tls = acceptor.accept(tcp).await;
        if !is_trusted {
            eventually(|| matches!(*line.link.phase().borrow(), Phase::Waiting { .. })).await;
            continue;
        }
        let mut centre = Centre::new(accepted_tls.unwrap(), &line.clock).await;
        centre.connection.session.accept_bind("centre");
        centre.flush().await;
        let outcome = line.send(1);
        let (ticket, _) = centre.message().await;
        centre.answer(ticket, Status::ROK).await;
        assert_eq!(outcome.await.unwrap(), accepted());
    }
}
