//! Receivers of webhooks as one meets them: some answer, some hang, drip, never end, reset or lead
//! elsewhere. The first part of the path says which; every request is remembered.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};

/// Longest request that is taken.
const MOST_BYTES: usize = 256 * 1024;
/// Pause between two bytes of an answer that drips.
const DRIP: Duration = Duration::from_millis(20);

/// A request as it came in.
#[derive(Clone, Debug)]
pub struct Visit {
    /// Path and query.
    pub path: String,
    /// Headers; names in lower case.
    pub headers: HashMap<String, String>,
    /// The body, byte for byte.
    pub body: Vec<u8>,
}

#[derive(Default)]
struct Book {
    visits: Mutex<Vec<Visit>>,
    connections: AtomicUsize,
    sent: AtomicUsize,
    hanging: AtomicUsize,
    most_hanging: AtomicUsize,
    answers: Mutex<HashMap<String, Vec<u16>>>,
}

impl Book {
    fn visits(&self) -> MutexGuard<'_, Vec<Visit>> {
        self.visits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next status that a path was told to answer.
    fn told(&self, path: &str) -> Option<u16> {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let queue = answers.get_mut(path)?;
        if queue.is_empty() { None } else { Some(queue.remove(0)) }
    }
}

/// A server with all these receivers. It runs until it is dropped.
///
/// | path begins with | what happens |
/// |---|---|
/// | `/ok` | 200 (or what [`ReceiverZoo::tell`] says), connection kept |
/// | `/status/503` | that status |
/// | `/later/503/7` | that status with `Retry-After: 7` |
/// | `/redirect/http://…` | 302 to there |
/// | `/hang` | takes the request and never answers |
/// | `/drip` | 200, then a byte from time to time, for ever |
/// | `/endless` | 200, then as many bytes as are taken |
/// | `/head` | a head that never ends |
/// | `/half` | 200 with less than it promised |
/// | `/close` | closes without an answer |
/// | `/reset` | resets the connection |
/// | `/garbage` | something that is no HTTP |
/// | `/body/9000` | 200 with so many bytes |
/// | `/echo` | 200 with the body that it got |
/// | `/echo/700` | the same, so many milliseconds later |
pub struct ReceiverZoo {
    address: SocketAddr,
    book: Arc<Book>,
    task: JoinHandle<()>,
}

impl Drop for ReceiverZoo {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl ReceiverZoo {
    /// Starts on a free port of the loopback address.
    ///
    /// # Errors
    /// When no port can be had.
    pub async fn start() -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let book = Arc::new(Book::default());
        let task = tokio::spawn(accept(listener, Arc::clone(&book)));
        Ok(Self { address, book, task })
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL of a receiver; `path` begins with a slash.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// All requests so far, oldest first.
    #[must_use]
    pub fn visits(&self) -> Vec<Visit> {
        self.book.visits().clone()
    }

    /// The requests to one path, oldest first.
    #[must_use]
    pub fn visits_to(&self, path: &str) -> Vec<Visit> {
        self.book.visits().iter().filter(|visit| visit.path == path).cloned().collect()
    }

    /// How many connections were opened.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.book.connections.load(Ordering::SeqCst)
    }

    /// How many bytes of endless bodies were taken by the other side.
    #[must_use]
    pub fn endless_bytes(&self) -> usize {
        self.book.sent.load(Ordering::SeqCst)
    }

    /// How many requests hang now, and how many did at most.
    #[must_use]
    pub fn hanging(&self) -> (usize, usize) {
        let (now, most) = (&self.book.hanging, &self.book.most_hanging);
        (now.load(Ordering::SeqCst), most.load(Ordering::SeqCst))
    }

    /// What a path answers next, once each; afterwards it answers as ever.
    pub fn tell(&self, path: &str, statuses: &[u16]) {
        let mut answers = self.book.answers.lock().unwrap_or_else(PoisonError::into_inner);
        answers.insert(path.to_owned(), statuses.to_vec());
    }

    /// Serves one connection that somebody else accepted, such as one with TLS around it.
    ///
    /// # Errors
    /// When the connection fails.
    pub async fn serve<T: AsyncRead + AsyncWrite + Unpin>(&self, stream: T) -> io::Result<()> {
        self.book.connections.fetch_add(1, Ordering::SeqCst);
        converse(stream, &self.book).await.map(drop)
    }
}

async fn accept(listener: TcpListener, book: Arc<Book>) {
    // They end with the zoo.
    let mut conversations = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        while conversations.try_join_next().is_some() {}
        book.connections.fetch_add(1, Ordering::SeqCst);
        let book = Arc::clone(&book);
        conversations.spawn(async move {
            let _best_effort = stream.set_nodelay(true);
            // The other side ends connections as it likes.
            if let Ok((stream, true)) = converse(stream, &book).await {
                // Closing then sends RST instead of FIN.
                let _best_effort = stream.set_zero_linger();
            }
        });
    }
}

/// Answers requests until the connection ends. The flag says that it is to end with a reset.
async fn converse<T: AsyncRead + AsyncWrite + Unpin>(
    mut stream: T,
    book: &Book,
) -> io::Result<(T, bool)> {
    let mut buffer = Vec::new();
    while let Some(visit) = request(&mut stream, &mut buffer).await? {
        let (path, body) = (visit.path.clone(), visit.body.clone());
        book.visits().push(visit);
        if let Some(after_ms) = path.strip_prefix("/echo") {
            let after_ms = after_ms.trim_start_matches('/').parse().unwrap_or(0);
            tokio::time::sleep(Duration::from_millis(after_ms)).await;
            echo(&mut stream, &body).await?;
            continue;
        }
        match behave(&mut stream, book, &path).await? {
            Next::Keep => {}
            Next::Close => break,
            Next::Reset => return Ok((stream, true)),
        }
    }
    Ok((stream, false))
}

enum Next {
    Keep,
    Close,
    Reset,
}

async fn behave<T: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut T,
    book: &Book,
    path: &str,
) -> io::Result<Next> {
    let mut parts = path.trim_start_matches('/').split(['/', '?']);
    let kind = parts.next().unwrap_or_default();
    let argument = parts.next().unwrap_or_default();
    match kind {
        "status" => plain(stream, argument.parse().unwrap_or(500), "").await?,
        "later" => {
            let after = format!("Retry-After: {}\r\n", parts.next().unwrap_or("1"));
            plain(stream, argument.parse().unwrap_or(429), &after).await?;
        }
        "redirect" => {
            let to = path.trim_start_matches("/redirect/");
            plain(stream, 302, &format!("Location: {to}\r\n")).await?;
        }
        "body" => {
            let size = argument.parse().unwrap_or(0);
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\n");
            stream.write_all(head.as_bytes()).await?;
            stream.write_all(&vec![b'x'; size]).await?;
        }
        "hang" => {
            let now = book.hanging.fetch_add(1, Ordering::SeqCst) + 1;
            book.most_hanging.fetch_max(now, Ordering::SeqCst);
            // Until the other side gives up.
            let ended = stream.read_u8().await;
            book.hanging.fetch_sub(1, Ordering::SeqCst);
            ended?;
        }
        "drip" => drip(stream).await?,
        "endless" => endless(stream, book).await?,
        "head" => loop {
            stream.write_all(b"HTTP/1.1 200 OK\r\n").await?;
            for line in 0_u64.. {
                stream.write_all(format!("X-Line-{line}: {line}\r\n").as_bytes()).await?;
            }
        },
        "half" => {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nten bytes.").await?;
            return Ok(Next::Close);
        }
        "close" => return Ok(Next::Close),
        "reset" => return Ok(Next::Reset),
        "garbage" => {
            stream.write_all(b"220 mail.example.com ESMTP ready\r\n\r\n").await?;
            return Ok(Next::Close);
        }
        _ => plain(stream, book.told(path).unwrap_or(200), "").await?,
    }
    Ok(Next::Keep)
}

async fn plain<T: AsyncWrite + Unpin>(
    stream: &mut T,
    status: u16,
    headers: &str,
) -> io::Result<()> {
    let body = format!("this is {status}");
    let size = body.len();
    let (size, body) = if status == 204 { (0, "") } else { (size, body.as_str()) };
    let length = if status == 204 { String::new() } else { format!("Content-Length: {size}\r\n") };
    let answer = format!("HTTP/1.1 {status} Status\r\n{length}{headers}\r\n{body}");
    stream.write_all(answer.as_bytes()).await
}

async fn echo<T: AsyncWrite + Unpin>(stream: &mut T, body: &[u8]) -> io::Result<()> {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
    stream.write_all(&[head.as_bytes(), body].concat()).await
}

async fn drip<T: AsyncWrite + Unpin>(stream: &mut T) -> io::Result<()> {
    stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").await?;
    loop {
        stream.write_all(b"1\r\nx\r\n").await?;
        tokio::time::sleep(DRIP).await;
    }
}

async fn endless<T: AsyncWrite + Unpin>(stream: &mut T, book: &Book) -> io::Result<()> {
    stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").await?;
    let mut chunk = b"4000\r\n".to_vec();
    chunk.extend([b'x'; 0x4000]);
    chunk.extend(b"\r\n");
    loop {
        stream.write_all(&chunk).await?;
        book.sent.fetch_add(0x4000, Ordering::SeqCst);
    }
}

/// The next request on a connection; none when it has ended.
async fn request<T: AsyncRead + Unpin>(
    stream: &mut T,
    buffer: &mut Vec<u8>,
) -> io::Result<Option<Visit>> {
    loop {
        if let Some((visit, size)) = parse(buffer) {
            buffer.drain(..size);
            return Ok(Some(visit));
        }
        // A TLS handshake (RFC 8446 §5.1) is no HTTP: a plain server ends it.
        let is_tls = buffer.first() == Some(&22);
        if is_tls || buffer.len() > MOST_BYTES || stream.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    }
}

/// A whole request at the start of the buffer, and its size.
fn parse(buffer: &[u8]) -> Option<(Visit, usize)> {
    let end = buffer.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let head = String::from_utf8_lossy(buffer.get(..end)?).into_owned();
    let mut lines = head.split("\r\n");
    let path = lines.next()?.split(' ').nth(1)?.to_owned();
    let pair = |line: &str| -> Option<(String, String)> {
        let (name, value) = line.split_once(':')?;
        Some((name.trim().to_ascii_lowercase(), value.trim().to_owned()))
    };
    let headers: HashMap<String, String> = lines.filter_map(pair).collect();
    let length = headers.get("content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
    let body = buffer.get(end..end + length)?.to_vec();
    Some((Visit { path, headers, body }, end + length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn each_receiver_behaves_as_its_path_says() {
        let zoo = ReceiverZoo::start().await.unwrap();
        let http = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .timeout(Duration::from_millis(300))
            .build()
            .unwrap();
        let post = |path: &str| http.post(zoo.url(path)).body("{}").send();
        for (path, status) in [
            ("/ok", 200),
            ("/status/410", 410),
            ("/later/429/7", 429),
            ("/redirect/http://169.254.169.254/", 302),
            ("/body/9", 200),
        ] {
            assert_eq!(post(path).await.unwrap().status(), status, "{path}");
        }
        assert_eq!(post("/later/429/7").await.unwrap().headers()["retry-after"], "7");
        for path in ["/hang", "/close", "/reset", "/garbage", "/head"] {
            assert!(post(path).await.is_err(), "{path}");
        }
        for path in ["/drip", "/half", "/endless"] {
            let answer = post(path).await.unwrap();
            assert!(answer.bytes().await.is_err(), "{path}");
        }
        assert!(zoo.endless_bytes() > 100_000);
        zoo.tell("/ok", &[500, 204]);
        let mut seen = vec![];
        for _ in 0..3 {
            seen.push(post("/ok").await.unwrap().status().as_u16());
        }
        assert_eq!(seen, [500, 204, 200]);
        assert_eq!(zoo.visits_to("/ok").len(), 4);
        assert_eq!(zoo.visits()[0].body, b"{}");
    }
}
