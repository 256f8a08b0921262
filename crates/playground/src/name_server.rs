//! A name server that answers what it is told to: for names that lead to private addresses, or to
//! another address at the second question, and for what domains publish. UDP only, questions for A,
//! AAAA, TXT and CNAME (RFC 1035 §4).

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use tokio::net::UdpSocket;

/// Size of the fixed head of a message.
const HEAD: usize = 12;
const A: u16 = 1;
const CNAME: u16 = 5;
const TXT: u16 = 16;
const AAAA: u16 = 28;
/// No such name (RFC 1035 §4.1.1).
const NXDOMAIN: u8 = 3;

/// What is at a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// An address.
    Address(IpAddr),
    /// A text, sent in strings of at most 255 bytes.
    Text(String),
    /// Another name that it is an alias of.
    Alias(String),
}

/// What is at a name; none = there is no such name.
type Zone = dyn Fn(&str) -> Option<Vec<Record>> + Send + Sync;

/// A name server that runs until it is dropped.
pub struct NameServer {
    address: SocketAddr,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for NameServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl NameServer {
    /// Starts on a free port of the loopback address. `zone` is asked for each question, so it may
    /// answer differently each time; names are in lower case, without the last dot.
    ///
    /// # Errors
    /// When no port can be had.
    pub async fn start(
        zone: impl Fn(&str) -> Option<Vec<IpAddr>> + Send + Sync + 'static,
    ) -> std::io::Result<Self> {
        let addresses = move |name: &str| {
            let found = zone(name)?;
            Some(found.into_iter().map(Record::Address).collect())
        };
        Self::publish(addresses).await
    }

    /// The same with records of every kind.
    ///
    /// # Errors
    /// When no port can be had.
    pub async fn publish(
        zone: impl Fn(&str) -> Option<Vec<Record>> + Send + Sync + 'static,
    ) -> std::io::Result<Self> {
        let socket = UdpSocket::bind("127.0.0.1:0").await?;
        let address = socket.local_addr()?;
        let task = tokio::spawn(serve(socket, Arc::new(zone)));
        Ok(Self { address, task })
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }
}

async fn serve(socket: UdpSocket, zone: Arc<Zone>) {
    let mut buffer = [0_u8; 1024];
    while let Ok((size, from)) = socket.recv_from(&mut buffer).await {
        let question = buffer.get(..size).unwrap_or_default();
        if let Some(answer) = answer(question, &*zone) {
            // A lost answer is asked for again.
            let _lossy = socket.send_to(&answer, from).await;
        }
    }
}

fn answer(question: &[u8], zone: &Zone) -> Option<Vec<u8>> {
    let (name, end) = name(question)?;
    let kind = u16::from_be_bytes([*question.get(end)?, *question.get(end + 1)?]);
    let known = zone(&name);
    let records: Vec<Vec<u8>> = known.iter().flatten().filter_map(|it| rdata(kind, it)).collect();
    let mut reply = question.get(..2)?.to_vec();
    // A response, recursion desired and available.
    reply.extend([0x81, 0x80 | if known.is_some() { 0 } else { NXDOMAIN }]);
    reply.extend([0, 1]);
    reply.extend(u16::try_from(records.len()).ok()?.to_be_bytes());
    reply.extend([0; 4]);
    reply.extend(question.get(HEAD..end + 4)?);
    for data in records {
        // The name of the question (a pointer to byte 12), class IN, time to live 0.
        reply.extend([0xc0, 0x0c]);
        reply.extend(kind.to_be_bytes());
        reply.extend([0, 1, 0, 0, 0, 0]);
        reply.extend(u16::try_from(data.len()).ok()?.to_be_bytes());
        reply.extend(data);
    }
    Some(reply)
}

/// The name in a question, and where it ends.
fn name(question: &[u8]) -> Option<(String, usize)> {
    let mut labels = Vec::new();
    let mut at = HEAD;
    loop {
        let length = usize::from(*question.get(at)?);
        at += 1;
        if length == 0 {
            return Some((labels.join("."), at));
        }
        let label = question.get(at..at + length)?;
        labels.push(String::from_utf8_lossy(label).to_ascii_lowercase());
        at += length;
    }
}

fn rdata(kind: u16, record: &Record) -> Option<Vec<u8>> {
    match (kind, record) {
        (A, Record::Address(IpAddr::V4(ip))) => Some(ip.octets().to_vec()),
        (AAAA, Record::Address(IpAddr::V6(ip))) => Some(ip.octets().to_vec()),
        (TXT, Record::Text(text)) => strings(text.as_bytes().chunks(255)),
        (CNAME, Record::Alias(name)) => {
            let mut data = strings(name.split('.').map(str::as_bytes))?;
            data.push(0);
            Some(data)
        }
        _ => None,
    }
}

/// Each with its length in front of it.
fn strings<'a>(parts: impl Iterator<Item = &'a [u8]>) -> Option<Vec<u8>> {
    let mut data = Vec::new();
    for part in parts {
        data.push(u8::try_from(part.len()).ok()?);
        data.extend_from_slice(part);
    }
    Some(data)
}

#[cfg(test)]
mod tests {
    use super::{NXDOMAIN, Record, answer};

    /// `hook.test`, class IN.
    fn question(kind: u8) -> Vec<u8> {
        let mut question = vec![0xab, 0xcd, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        question.extend(b"\x04Hook\x04test\x00");
        question.extend([0, kind, 0, 1]);
        question
    }

    #[test]
    fn a_known_name_is_answered_with_the_addresses_of_the_kind_that_was_asked_for() {
        let zone = |name: &str| {
            assert_eq!(name, "hook.test");
            Some(["10.1.2.3", "::1"].map(|ip| Record::Address(ip.parse().unwrap())).to_vec())
        };
        let reply = answer(&question(1), &zone).unwrap();
        assert_eq!(&reply[..8], [0xab, 0xcd, 0x81, 0x80, 0, 1, 0, 1]);
        assert!(reply.ends_with(&[0, 4, 10, 1, 2, 3]));
        let reply = answer(&question(28), &zone).unwrap();
        assert!(reply.ends_with(&[0, 0, 0, 0, 0, 0, 0, 1]));
    }

    #[test]
    fn a_long_text_is_sent_in_several_strings() {
        let zone = |_: &str| Some(vec![Record::Text("x".repeat(300))]);
        let reply = answer(&question(16), &zone).unwrap();
        assert_eq!(reply[reply.len() - 302], 255);
        assert_eq!(reply[reply.len() - 46], 45);
    }

    #[test]
    fn an_unknown_name_does_not_exist_and_rubbish_is_not_answered() {
        let reply = answer(&question(1), &|_| None).unwrap();
        assert_eq!(reply[3] & 0x0f, NXDOMAIN);
        assert_eq!(answer(&[1, 2, 3], &|_| None), None);
    }
}
