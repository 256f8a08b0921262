//! The way out against hostile URLs, hostile names and hostile receivers. That nothing is connected
//! to is shown with a dialler that writes down whom it was asked for; that it would have been, with
//! the judge switched off.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hyper::body::Bytes;
use hyper::header::HeaderMap;
use ipnet::IpNet;
use playground::{NameServer, ReceiverZoo};

use super::address::Verdict;
use super::{NoAnswer, Outgoing, Rules, address, connect};

/// One URL a line; what begins with `# ` is a heading.
const FORBIDDEN: &str = include_str!("forbidden_urls.txt");
const PUBLIC: &str = "93.184.216.34";

type Dialled = Arc<Mutex<Vec<SocketAddr>>>;

fn rules(names: &NameServer) -> Rules {
    Rules {
        dns_server: Some(names.address()),
        connect_timeout: Duration::from_secs(5),
        timeout: Duration::from_secs(15),
        ..Rules::default()
    }
}

/// A way out that connects to nothing and writes down where it would have.
fn recording(rules: Rules, judge: fn(IpAddr, &[IpNet]) -> Verdict) -> (Outgoing, Dialled) {
    let dialled = Dialled::default();
    let book = Arc::clone(&dialled);
    let dial: connect::Dial = Arc::new(move |address| {
        book.lock().unwrap().push(address);
        Box::pin(async { Err(std::io::ErrorKind::ConnectionRefused.into()) })
    });
    (Outgoing::with(rules, connect::tls(None).unwrap(), judge, dial), dialled)
}

/// `10-0-0-1.leads.test` is 10.0.0.1, `6-…` is IPv6; `mixed` has a public address besides.
fn zone(name: &str) -> Option<Vec<IpAddr>> {
    let public = PUBLIC.parse().unwrap();
    if name == "public.test" {
        return Some(vec![public]);
    }
    let (label, rest) = name.split_once('.')?;
    let ip = match label.strip_prefix("6-") {
        Some(groups) => groups.replace('-', ":").parse().ok()?,
        None => label.replace('-', ".").parse().ok()?,
    };
    Some(if rest == "mixed.test" { vec![public, ip] } else { vec![ip] })
}

fn forbidden() -> Vec<&'static str> {
    FORBIDDEN.lines().filter(|line| !line.starts_with("# ")).collect()
}

async fn visit(outgoing: &Outgoing, url: &str) -> Option<Result<u16, NoAnswer>> {
    let destination = outgoing.destination(url).ok()?;
    let answer = outgoing.post(&destination, HeaderMap::new(), Bytes::from_static(b"{}")).await;
    Some(answer.map(|answer| answer.status))
}

#[tokio::test]
async fn no_forbidden_url_is_connected_to() {
    let names = NameServer::start(zone).await.unwrap();
    let (outgoing, dialled) = recording(rules(&names), address::judge);
    let urls = forbidden();
    assert!(urls.len() >= 300, "only {} URLs", urls.len());
    for url in &urls {
        match visit(&outgoing, url).await {
            None | Some(Err(NoAnswer::NotAllowed(_))) => {}
            other => panic!("{url}: {other:?}"),
        }
    }
    assert_eq!(*dialled.lock().unwrap(), []);
    // The same way out does reach what is public.
    assert!(visit(&outgoing, "https://public.test/").await.unwrap().is_err());
    assert_eq!(*dialled.lock().unwrap(), [SocketAddr::new(PUBLIC.parse().unwrap(), 443)]);
}

#[tokio::test]
async fn without_the_judge_they_would_be() {
    let names = NameServer::start(zone).await.unwrap();
    let (outgoing, dialled) = recording(rules(&names), |_, _| Verdict::Open);
    for url in forbidden() {
        visit(&outgoing, url).await;
    }
    let dialled = dialled.lock().unwrap();
    assert!(dialled.len() > 300, "only {} connections", dialled.len());
    let is_forbidden = |at: &&SocketAddr| address::judge(at.ip(), &[]) != Verdict::Open;
    assert!(dialled.iter().filter(is_forbidden).count() > 300);
}

#[tokio::test]
async fn development_networks_leave_metadata_and_link_local_closed() {
    let names = NameServer::start(zone).await.unwrap();
    let networks = ["0.0.0.0/0", "::/0"].map(|text| text.parse::<IpNet>().unwrap());
    let open = Rules { allow_networks: networks.to_vec(), allow_http: true, ..rules(&names) };
    let (outgoing, dialled) = recording(open, address::judge);
    for url in forbidden() {
        visit(&outgoing, url).await;
    }
    let dialled = dialled.lock().unwrap();
    assert!(dialled.len() > 100, "only {} connections", dialled.len());
    for at in &*dialled {
        let verdict = address::judge(at.ip(), &[]);
        assert!(!matches!(verdict, Verdict::Never(_)), "{at}");
    }
}

#[tokio::test]
async fn a_name_that_changes_its_mind_is_asked_each_time_and_believed_never() {
    let asked = AtomicUsize::new(0);
    let names = NameServer::start(move |_| {
        // Each look-up asks for A and for AAAA.
        let is_first = asked.fetch_add(1, Ordering::SeqCst) < 2;
        Some(vec![if is_first { PUBLIC } else { "127.0.0.1" }.parse().unwrap()])
    })
    .await
    .unwrap();
    let (outgoing, dialled) = recording(rules(&names), address::judge);
    let url = "https://rebinding.test/";
    let first = visit(&outgoing, url).await.unwrap();
    assert_eq!(first, Err(NoAnswer::Connect(std::io::ErrorKind::ConnectionRefused)));
    for _ in 0..3 {
        let again = visit(&outgoing, url).await.unwrap();
        assert!(matches!(again, Err(NoAnswer::NotAllowed(_))), "{again:?}");
    }
    assert_eq!(*dialled.lock().unwrap(), [SocketAddr::new(PUBLIC.parse().unwrap(), 443)]);
}

#[tokio::test]
async fn names_without_an_address_say_so() {
    let names = NameServer::start(|name| (name == "empty.test").then(Vec::new)).await.unwrap();
    let (outgoing, dialled) = recording(rules(&names), address::judge);
    for (url, why) in
        [("https://nowhere.test/", "does not exist"), ("https://empty.test/", "has no address")]
    {
        let failure = visit(&outgoing, url).await.unwrap().unwrap_err();
        assert_eq!(failure, NoAnswer::Name(why.to_owned()));
    }
    assert!(dialled.lock().unwrap().is_empty());
}

/// A way out to the loopback address, in a hurry.
fn local() -> Outgoing {
    Outgoing::new(local_rules(), None).unwrap()
}

fn local_rules() -> Rules {
    Rules {
        allow_http: true,
        allow_networks: vec!["127.0.0.0/8".parse().unwrap()],
        dns_server: None,
        connect_timeout: Duration::from_millis(300),
        timeout: Duration::from_millis(500),
        keeps_bodies: false,
    }
}

#[tokio::test]
async fn every_animal_of_the_zoo_is_survived() {
    let zoo = ReceiverZoo::start().await.unwrap();
    let outgoing = local();
    for (path, outcome) in [
        ("/ok", Ok(200)),
        ("/status/204", Ok(204)),
        ("/status/500", Ok(500)),
        ("/later/429/9", Ok(429)),
        ("/endless", Ok(200)),
        ("/hang", Err(NoAnswer::Timeout)),
        ("/drip", Err(NoAnswer::Timeout)),
        ("/half", Err(NoAnswer::Reset)),
        ("/close", Err(NoAnswer::Reset)),
        ("/reset", Err(NoAnswer::Reset)),
        ("/garbage", Err(NoAnswer::Protocol)),
        ("/head", Err(NoAnswer::Protocol)),
    ] {
        assert_eq!(visit(&outgoing, &zoo.url(path)).await.unwrap(), outcome, "{path}");
    }
}

#[tokio::test]
async fn a_redirect_is_an_answer_and_nobody_follows_it() {
    let zoo = ReceiverZoo::start().await.unwrap();
    let outgoing = local();
    let url = zoo.url("/redirect/http://169.254.169.254/latest/meta-data/");
    assert_eq!(visit(&outgoing, &url).await.unwrap(), Ok(302));
    let home = zoo.url(&format!("/redirect/{}", zoo.url("/ok")));
    assert_eq!(visit(&outgoing, &home).await.unwrap(), Ok(302));
    assert!(zoo.visits_to("/ok").is_empty());
}

#[tokio::test]
async fn an_endless_answer_is_read_no_further_than_its_bound() {
    let zoo = ReceiverZoo::start().await.unwrap();
    let outgoing = local();
    let destination = outgoing.destination(&zoo.url("/endless")).unwrap();
    let answer = outgoing.post(&destination, HeaderMap::new(), Bytes::new()).await.unwrap();
    assert_eq!(answer.body.len(), super::KEPT);
    let rules = Rules { keeps_bodies: true, ..local_rules() };
    let outgoing = Outgoing::new(rules, None).unwrap();
    let answer = outgoing.get(&destination, HeaderMap::new()).await.unwrap();
    assert_eq!(answer.body.len(), super::READ);
    tokio::time::sleep(Duration::from_millis(200)).await;
    let before = zoo.endless_bytes();
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(zoo.endless_bytes(), before, "the connection is still open");
    // What fits into the buffers of the kernel was taken besides.
    assert!(before < 16 << 20, "{before} bytes");
}

#[tokio::test]
async fn connections_are_used_again_unless_the_answer_was_not_read_to_its_end() {
    let zoo = ReceiverZoo::start().await.unwrap();
    let outgoing = local();
    for _ in 0..5 {
        assert_eq!(visit(&outgoing, &zoo.url("/ok")).await.unwrap(), Ok(200));
    }
    assert_eq!(zoo.connections(), 1);
    assert_eq!(visit(&outgoing, &zoo.url("/body/100000")).await.unwrap(), Ok(200));
    assert_eq!(visit(&outgoing, &zoo.url("/ok")).await.unwrap(), Ok(200));
    assert_eq!(zoo.connections(), 2);
    // A connection that ends while it is idle costs nothing.
    assert_eq!(visit(&outgoing, &zoo.url("/half")).await.unwrap(), Err(NoAnswer::Reset));
    assert_eq!(visit(&outgoing, &zoo.url("/ok")).await.unwrap(), Ok(200));
}

#[tokio::test]
async fn nobody_there_and_a_handshake_that_never_comes_are_told_apart() {
    let outgoing = local();
    let closed = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = closed.local_addr().unwrap();
    let url = format!("https://{address}/");
    // It is accepted by the kernel, and then nothing is said.
    let slow = visit(&outgoing, &url).await.unwrap();
    assert_eq!(slow, Err(NoAnswer::ConnectTimeout));
    drop(closed);
    let refused = visit(&outgoing, &url).await.unwrap();
    assert_eq!(refused, Err(NoAnswer::Connect(std::io::ErrorKind::ConnectionRefused)));
}
