//! A link of ours against the centre: every magic destination, held receipts, long messages.

use std::net::SocketAddr;

use clock::Clock;
use smpp::{
    Address, Bind, BindKind, Delivery, Lane, Link, LinkSettings, Message, MessageState, News,
    Operation, Outcome, Place, Receipt, Status, Submission,
};
use tokio::sync::mpsc::UnboundedReceiver;

use super::{Handsets, IdStyle, Mobile, Smsc, SmscOptions};

struct Line {
    clock: Clock,
    link: Link<u32>,
    news: UnboundedReceiver<News<u32>>,
    handsets: Handsets,
    address: SocketAddr,
}

impl Line {
    async fn new(ids: IdStyle) -> Self {
        let clock = Clock::system();
        let options = SmscOptions { ids, receipt_ms: 20, ..SmscOptions::default() };
        let local = "127.0.0.1:0".parse().unwrap();
        let smsc = Smsc::bind(local, options, clock.clone()).await.unwrap();
        let (address, handsets) = (smsc.address().unwrap(), smsc.handsets());
        tokio::spawn(smsc.serve());
        let (link, news) = Self::open(address, &clock);
        Self { clock, link, news, handsets, address }
    }

    fn open(address: SocketAddr, clock: &Clock) -> (Link<u32>, UnboundedReceiver<News<u32>>) {
        let place = Place { host: address.ip().to_string(), port: address.port() };
        let bind = Bind::new("login", "secret");
        let mut settings = LinkSettings::new(place, BindKind::Transceiver, bind);
        settings.session.response_ms = 300;
        let (link, news, runner) = Link::open(settings, clock.clone());
        tokio::spawn(runner.run());
        (link, news)
    }

    async fn send(&self, to: &str) -> Outcome {
        let message = Message {
            source: Address::alphanumeric("ACME"),
            destination: Address::international(to),
            registered_delivery: 1,
            short_message: "hi".into(),
            ..Message::default()
        };
        let expires_at = self.clock.now() + 10_000;
        let (operation, lane) = (Operation::Submit, Lane::Normal);
        let submission = Submission {
            key: 1,
            owner: String::new(),
            follows: false,
            operation,
            message,
            segments: 1,
            lane,
            expires_at,
            valid_until: None,
        };
        self.link.submit(submission).await
    }

    async fn delivery(&mut self) -> Delivery {
        loop {
            if let News::Delivery(delivery) = self.news.recv().await.unwrap() {
                return delivery;
            }
        }
    }

    async fn receipt(&mut self) -> (String, MessageState) {
        let delivery = self.delivery().await;
        let receipt = Receipt::of(delivery.message()).unwrap();
        delivery.acknowledge();
        (receipt.message_id.unwrap().to_string(), receipt.state)
    }
}

fn taken(outcome: Outcome) -> String {
    match outcome {
        Outcome::Accepted { message_id } => message_id.to_string(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn every_magic_destination_does_what_the_table_says() {
    use MessageState::{Deleted, Delivered, Enroute, Expired, Rejected, Undeliverable, Unknown};
    let mut line = Line::new(IdStyle::Decimal).await;
    for (to, states) in [
        ("33600000001", vec![Delivered]),
        ("33600009011", vec![Undeliverable]),
        ("33600009012", vec![Expired]),
        ("33600009013", vec![Rejected]),
        ("33600009014", vec![Deleted]),
        ("33600009015", vec![Unknown]),
        ("33600009016", vec![Enroute, Delivered]),
        ("33600009017", vec![Delivered]),
        ("33600009018", vec![Delivered, Delivered]),
        ("33600009019", vec![Delivered, Undeliverable]),
    ] {
        let id = taken(line.send(to).await);
        for state in states {
            assert_eq!(line.receipt().await, (id.clone(), state), "{to}");
        }
    }
    for (to, status) in [("33600009002", Status::RINVDSTADR), ("33600009003", Status::RSYSERR)] {
        assert_eq!(line.send(to).await, Outcome::Refused { status });
    }
    assert_eq!(line.send("33600009004").await, Outcome::Unknown);
    assert_eq!(line.receipt().await.1, Delivered);
    taken(line.send("33600009006").await);
    // Throttled twice: 1 s, then 2 s.
    taken(line.send("33600009001").await);
    assert_eq!(line.link.load().throttled, 2);
}

#[tokio::test]
async fn a_receipt_that_nobody_takes_is_held_for_the_next_session() {
    let mut line = Line::new(IdStyle::Mixed).await;
    assert_eq!(line.send("33600009005").await, Outcome::Unknown);
    let (id, state) = line.receipt().await;
    assert_eq!(state, MessageState::Delivered);
    // Ids of receipts are decimal here, those of answers are not.
    let answered = &line.handsets.messages()[0].id;
    assert_eq!(u64::from_str_radix(answered, 16).unwrap(), id.parse::<u64>().unwrap());
    taken(line.send("33600000001").await);
    // Neither stored nor refused for good: it comes again.
    drop(line.delivery().await);
    assert_eq!(line.receipt().await.1, MessageState::Delivered);
}

#[tokio::test]
async fn a_handset_writes_in_parts_and_an_unbound_one_to_nobody() {
    let mut line = Line::new(IdStyle::Decimal).await;
    taken(line.send("33600009006").await);
    let text = "я".repeat(100);
    let mobile = Mobile { from: "+33612345678".into(), to: "38000".into(), text: text.clone() };
    assert!(line.handsets.write(&mobile));
    let mut units = 0;
    for _ in 0..2 {
        let delivery = line.delivery().await;
        assert!(delivery.message().esm_class.has_header());
        units += (delivery.message().body().len() - 6) / 2;
        delivery.acknowledge();
    }
    assert_eq!(units, 100);
    line.link.close().await;
    while line.handsets.0.is_anyone_bound() {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    assert!(!line.handsets.write(&mobile));
    let again = Line::open(line.address, &line.clock);
    (line.link, line.news) = again;
    taken(line.send("33600009006").await);
    assert!(line.handsets.write(&mobile));
}

#[tokio::test]
async fn it_can_be_told_to_behave_otherwise() {
    let mut line = Line::new(IdStyle::Decimal).await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(Smsc::serve_control(line.handsets.clone(), listener));
    let http = reqwest::Client::new();
    let tell = async |path: &str, body: serde_json::Value| {
        let body = serde_json::to_vec(&body).unwrap();
        let call = http.post(format!("{url}{path}")).header("content-type", "application/json");
        call.body(body).send().await.unwrap().status().as_u16()
    };
    let other = serde_json::json!({"idFormat": "dechex", "dlr": "tlv"});
    assert_eq!(tell("/behaviour", other).await, 200);
    for wrong in [
        serde_json::json!({"dlrs": "tlv"}),
        serde_json::json!({"idFormat": "roman"}),
        serde_json::json!({"throttleRate": 5}),
        serde_json::json!({"respDelay": -1}),
    ] {
        assert_eq!(tell("/behaviour", wrong.clone()).await, 400, "{wrong}");
    }
    let id = taken(line.send("33600000001").await);
    let hexadecimal = format!("{:X}", id.parse::<u64>().unwrap());
    assert_eq!(line.receipt().await, (hexadecimal.clone(), MessageState::Delivered));
    let again = serde_json::json!({"id": id, "stat": "UNDELIV", "err": "099"});
    assert_eq!(tell("/dlr", again).await, 200);
    assert_eq!(line.receipt().await, (hexadecimal, MessageState::Undeliverable));
    assert_eq!(tell("/dlr", serde_json::json!({"id": "1"})).await, 404);
    assert_eq!(tell("/dlr", serde_json::json!({"id": id, "stat": "LOST"})).await, 400);
    tell("/behaviour", serde_json::json!({"sysfailRate": 1.0})).await;
    let status = Status::RSYSERR;
    assert_eq!(line.send("33600000001").await, Outcome::Refused { status });
    tell("/behaviour", serde_json::json!({"sysfailRate": 0.0, "maxBinds": 1, "pairsOnly": true}))
        .await;
    // The session that is bound stays so; no other one comes in, nor this one once it is cut.
    let count = line.handsets.stats();
    assert_eq!((count.submits, count.accepted, count.refused, count.sessions), (2, 1, 1, 1));
    let (_other, _news) = Line::open(line.address, &line.clock);
    while line.handsets.stats().bind_fail == 0 {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    assert_eq!(tell("/kick", serde_json::json!({})).await, 200);
    while line.handsets.stats().sessions == 1 || line.handsets.stats().bind_fail < 2 {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

#[test]
fn a_session_above_the_rate_is_throttled() {
    let mut meter = super::behaviour::Meter::new(clock::Millis(0));
    let mut full = |at| meter.is_full(100, clock::Millis(at));
    assert!(!full(0), "one goes at once");
    assert!(full(5) && !full(10) && full(10));
    // A tenth of a second's worth after a pause.
    assert_eq!((0..20).filter(|_| !full(60_000)).count(), 10);
}
