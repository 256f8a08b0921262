//! The receiver of webhooks under load: it answers at once and notes which event came when. It
//! shares the machine with what it measures, so it reads no more than it needs.

use std::{
    collections::HashMap,
    io,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::Result;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use crate::stopwatch;

const DAY_MS: u64 = 86_400_000;
/// Just before a try is given up.
const SLOW: Duration = Duration::from_secs(13);
const OK: &[u8] = b"HTTP/1.1 204 No Content\r\n\r\n";
const ENDLESS: &[u8] = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

/// What came in.
#[derive(Debug, Default)]
pub(crate) struct Book {
    /// By event, how often it came.
    pub(crate) events: HashMap<String, u64>,
    /// By challenge, when its delivery was told.
    pub(crate) delivered: HashMap<String, Instant>,
    /// When each event came, and how old it was then, milliseconds.
    pub(crate) ages_ms: Vec<(Instant, u64)>,
    /// When the first and the last came.
    pub(crate) span: Option<(Instant, Instant)>,
}

/// The receiver. `/ok…` answers, `/slow` late, `/hang` never, `/endless` never ends.
#[derive(Debug)]
pub(crate) struct Sink {
    /// `http://127.0.0.1:port`.
    pub(crate) url: String,
    book: Arc<Mutex<Book>>,
    count: Arc<AtomicU64>,
}

impl Sink {
    /// Starts on a free port.
    ///
    /// # Errors
    /// When there is none.
    pub(crate) async fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let (book, count) = (Arc::<Mutex<Book>>::default(), Arc::<AtomicU64>::default());
        let (shared, counted) = (Arc::clone(&book), Arc::clone(&count));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let _best_effort = stream.set_nodelay(true);
                tokio::spawn(converse(stream, Arc::clone(&shared), Arc::clone(&counted)));
            }
        });
        Ok(Self { url, book, count })
    }

    /// How many requests came so far.
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// What came so far.
    pub(crate) fn book(&self) -> MutexGuard<'_, Book> {
        lock(&self.book)
    }

    /// Forgets what came so far.
    pub(crate) fn clear(&self) {
        *self.book() = Book::default();
        self.count.store(0, Ordering::Relaxed);
    }
}

fn lock(book: &Mutex<Book>) -> MutexGuard<'_, Book> {
    book.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn converse(mut stream: TcpStream, book: Arc<Mutex<Book>>, count: Arc<AtomicU64>) {
    let mut buffer = Vec::with_capacity(4096);
    // The other side ends connections as it likes.
    let _ended = answer(&mut stream, &mut buffer, &book, &count).await;
}

async fn answer(
    stream: &mut TcpStream,
    buffer: &mut Vec<u8>,
    book: &Mutex<Book>,
    count: &AtomicU64,
) -> io::Result<()> {
    loop {
        let Some(size) = whole(buffer) else {
            if stream.read_buf(buffer).await? == 0 {
                return Ok(());
            }
            continue;
        };
        let text = String::from_utf8_lossy(buffer.get(..size).unwrap_or_default()).into_owned();
        buffer.drain(..size);
        count.fetch_add(1, Ordering::Relaxed);
        match text.split(' ').nth(1).unwrap_or_default() {
            "/hang" => std::future::pending::<()>().await,
            "/slow" => {
                tokio::time::sleep(SLOW).await;
                stream.write_all(OK).await?;
            }
            "/endless" => endless(stream).await?,
            _ => {
                note(book, &text);
                stream.write_all(OK).await?;
            }
        }
    }
}

fn note(book: &Mutex<Book>, request: &str) {
    let now = stopwatch::now();
    let id = between(request, "webhook-id: ", "\r").unwrap_or_default().to_owned();
    let challenge = between(request, "\"challenge_id\":\"", "\"").map(str::to_owned);
    let happened = between(request, "\"timestamp\":\"", "\"").and_then(ms_of_day);
    let is_delivered = request.contains("\"status\":\"delivered\"");
    let mut book = lock(book);
    *book.events.entry(id).or_default() += 1;
    if let Some(challenge) = challenge.filter(|_| is_delivered) {
        book.delivered.entry(challenge).or_insert(now);
    }
    if let Some(happened) = happened {
        let age_ms = (stopwatch::ms_of_day() + DAY_MS - happened) % DAY_MS;
        book.ages_ms.push((now, age_ms));
    }
    let first = book.span.map_or(now, |(first, _)| first);
    book.span = Some((first, now));
}

/// The time of the day of `2026-01-01T00:00:01.750Z`, milliseconds.
fn ms_of_day(timestamp: &str) -> Option<u64> {
    let part = |range: std::ops::Range<usize>| timestamp.get(range)?.parse::<u64>().ok();
    let minutes = part(11..13)? * 60 + part(14..16)?;
    Some((minutes * 60 + part(17..19)?) * 1_000 + part(20..23)?)
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(before)?;
    rest.split_once(after).map(|(found, _)| found)
}

/// The size of the whole request at the start of the buffer.
fn whole(buffer: &[u8]) -> Option<usize> {
    let end = buffer.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let head = std::str::from_utf8(buffer.get(..end)?).ok()?;
    let length = between(head, "content-length: ", "\r").and_then(|text| text.parse().ok());
    let size = end + length.unwrap_or(0);
    (buffer.len() >= size).then_some(size)
}

async fn endless(stream: &mut TcpStream) -> io::Result<()> {
    stream.write_all(ENDLESS).await?;
    let mut chunk = b"4000\r\n".to_vec();
    chunk.extend([b'x'; 0x4000]);
    chunk.extend(b"\r\n");
    loop {
        stream.write_all(&chunk).await?;
    }
}

#[cfg(test)]
mod tests {
    use super::{between, ms_of_day, whole};

    #[test]
    fn the_time_of_the_day_is_read() {
        assert_eq!(ms_of_day("2026-01-01T00:00:01.750Z"), Some(1_750));
        assert_eq!(ms_of_day("2026-01-01T23:59:59.999Z"), Some(super::DAY_MS - 1));
        assert_eq!(ms_of_day("yesterday"), None);
    }

    #[test]
    fn a_request_is_whole_with_its_body_and_not_before() {
        let text = b"POST /ok HTTP/1.1\r\nwebhook-id: evt_1\r\ncontent-length: 2\r\n\r\n{}POST";
        for cut in 0..text.len() - 4 {
            assert_eq!(whole(&text[..cut]), None, "at {cut}");
        }
        assert_eq!(whole(text), Some(text.len() - 4));
        let text = std::str::from_utf8(text).unwrap();
        assert_eq!(between(text, "webhook-id: ", "\r"), Some("evt_1"));
    }
}
