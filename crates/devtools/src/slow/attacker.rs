//! One slow client: connects, says what its shape says, and waits to be thrown out.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    time::{Duration, Instant},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, Interest},
    net::{TcpSocket, TcpStream},
    time::{interval, sleep, sleep_until},
};

use super::shape::{Paths, Shape};
use crate::stopwatch;

/// How often a socket that is not read is looked at.
const LOOK: Duration = Duration::from_millis(20);
/// Who is thrown out sooner, without a word, was not let in.
const NOT_LET_IN: Duration = Duration::from_millis(200);

/// What became of a slow client.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Fate {
    /// It was not let in.
    Refused,
    /// It was thrown out, so many seconds after it began to be slow; perhaps with a 408 before.
    Closed {
        /// Seconds.
        after_s: f64,
        /// Whether an answer 408 came.
        told: bool,
    },
    /// It was still there when the run ended.
    StillOpen,
}

/// Where all of them go, and until when.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    /// The service.
    pub(crate) address: SocketAddr,
    /// What is asked for.
    pub(crate) paths: Paths,
    /// Slow clients that share an address of the loopback network; none share one otherwise.
    pub(crate) per_address: usize,
    /// The end of the run.
    pub(crate) until: Instant,
}

/// Lives the life of the slow client of this number.
pub(crate) async fn live(target: Target, shape: Shape, number: usize) -> Fate {
    let Ok(mut stream) = connect(&target, number).await else { return Fate::Refused };
    let since = stopwatch::now();
    let opening = shape.opening(&target.paths);
    if shape.reads() {
        // Whoever is closed meanwhile finds out below.
        let _said = stream.write_all(&opening).await;
        return read(stream, shape, target.until, since).await;
    }
    // What does not fit into the sockets is not said, and nothing is read.
    let _said = stream.try_write(&opening);
    tokio::select! {
        () = gone(&stream) => closed(since, false, false),
        () = sleep_until(target.until.into()) => Fate::StillOpen,
    }
}

/// Until the other side has ended the connection. Who reads nothing is told by the state of the
/// socket alone.
async fn gone(stream: &TcpStream) {
    loop {
        match stream.ready(Interest::READABLE | Interest::ERROR).await {
            Ok(ready) if !ready.is_read_closed() && !ready.is_error() => sleep(LOOK).await,
            _ => return,
        }
    }
}

async fn read(mut stream: TcpStream, shape: Shape, until: Instant, mut since: Instant) -> Fate {
    let mut seconds = interval(Duration::from_secs(1));
    let (mut buffer, mut told, mut answered) = ([0; 4096], false, false);
    loop {
        tokio::select! {
            read = stream.read(&mut buffer) => match read {
                Ok(count) if count > 0 => {
                    let text = buffer.get(..count).unwrap_or_default();
                    told |= text.starts_with(b"HTTP/1.1 408");
                    if shape == Shape::Idle && !answered {
                        since = stopwatch::now();
                    }
                    answered = true;
                }
                _ => return closed(since, told, answered),
            },
            _ = seconds.tick(), if !shape.drip().is_empty() => {
                // Whoever is closed meanwhile finds out by reading.
                let _dripped = stream.write_all(shape.drip()).await;
            }
            () = sleep_until(until.into()) => return Fate::StillOpen,
        }
    }
}

fn closed(since: Instant, told: bool, answered: bool) -> Fate {
    let after = since.elapsed();
    if after < NOT_LET_IN && !answered {
        return Fate::Refused;
    }
    Fate::Closed { after_s: after.as_secs_f64(), told }
}

async fn connect(target: &Target, number: usize) -> io::Result<TcpStream> {
    let socket = if target.address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    if let IpAddr::V4(ip) = target.address.ip()
        && ip.is_loopback()
    {
        socket.bind(SocketAddr::new(source(number / target.per_address).into(), 0))?;
    }
    socket.connect(target.address).await
}

/// An address of the loopback network that nobody else uses: 127.1.0.1 and upwards.
fn source(number: usize) -> Ipv4Addr {
    let first = Ipv4Addr::new(127, 1, 0, 1).to_bits();
    Ipv4Addr::from_bits(first.saturating_add(u32::try_from(number).unwrap_or(0)))
}
