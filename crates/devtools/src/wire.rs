//! A minimal HTTP/1.1 client: one keep-alive connection, one request at a time. It shares the
//! machine with what it measures, so it does as little as it can.

use std::{borrow::Cow, io, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

/// Longer than any honest answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// An answer, reduced to what the drivers look at.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    /// The HTTP status.
    pub(crate) status: u16,
    /// The body, with chunks joined.
    pub(crate) body: Vec<u8>,
    /// Whether it carries `Idempotent-Replayed: true`.
    pub(crate) replayed: bool,
    /// Whether the server ends the connection after it.
    pub(crate) close: bool,
    /// The header `Link`.
    pub(crate) link: Option<String>,
}

/// A connection that opens itself when needed.
#[derive(Debug)]
pub(crate) struct Conn {
    address: String,
    stream: Option<TcpStream>,
    buffer: Vec<u8>,
}

impl Conn {
    /// A connection to `host:port`, not opened yet.
    pub(crate) fn new(address: &str) -> Self {
        Self { address: address.to_owned(), stream: None, buffer: Vec::with_capacity(4096) }
    }

    /// Sends a rendered request and reads its answer, within 30 s.
    ///
    /// # Errors
    /// When the connection fails, ends early or the answer is not valid HTTP; it is reopened next
    /// time.
    pub(crate) async fn call(&mut self, request: &[u8]) -> io::Result<Reply> {
        let result = match timeout(PATIENCE, self.exchange(request)).await {
            Ok(result) => result,
            Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "no answer in 30 s")),
        };
        if !matches!(&result, Ok(reply) if !reply.close) {
            self.stream = None;
        }
        result
    }

    async fn exchange(&mut self, request: &[u8]) -> io::Result<Reply> {
        let stream = match &mut self.stream {
            Some(stream) => stream,
            empty => {
                let stream = TcpStream::connect(&self.address).await?;
                stream.set_nodelay(true)?;
                empty.insert(stream)
            }
        };
        stream.write_all(request).await?;
        self.buffer.clear();
        loop {
            if stream.read_buf(&mut self.buffer).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if let Some(reply) = parse(&self.buffer)? {
                return Ok(reply);
            }
        }
    }
}

/// Reads a whole answer; `None` while it is incomplete.
///
/// # Errors
/// `InvalidData` for what is no HTTP/1.x answer or for bytes after its end.
pub(crate) fn parse(bytes: &[u8]) -> io::Result<Option<Reply>> {
    let Some(end) = find(bytes, b"\r\n\r\n") else { return Ok(None) };
    let (head, rest) = bytes.split_at(end + 4);
    let head = std::str::from_utf8(head).map_err(|_| malformed("head is no text"))?;
    let mut lines = head.split("\r\n");
    let status = status(lines.next().unwrap_or_default())?;
    let mut reply = Reply { status, body: Vec::new(), replayed: false, close: false, link: None };
    let mut length = (status == 204 || status == 304).then_some(0);
    let mut chunked = false;
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        let value = value.trim();
        if name.eq_ignore_ascii_case("content-length") {
            let stated = value.parse().map_err(|_| malformed("content-length is no number"))?;
            length = Some(stated);
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            chunked = value.eq_ignore_ascii_case("chunked");
        } else if name.eq_ignore_ascii_case("connection") {
            reply.close = value.eq_ignore_ascii_case("close");
        } else if name.eq_ignore_ascii_case("link") {
            reply.link = Some(value.to_owned());
        } else if name.eq_ignore_ascii_case("idempotent-replayed") {
            reply.replayed = value.eq_ignore_ascii_case("true");
        }
    }
    let body = match (chunked, length) {
        (true, _) => unchunk(rest)?.map(Cow::Owned),
        (false, Some(length)) => sized(rest, length)?.map(Cow::Borrowed),
        (false, None) => return Err(malformed("neither content-length nor chunked")),
    };
    Ok(body.map(|body| Reply { body: body.into_owned(), ..reply }))
}

fn status(line: &str) -> io::Result<u16> {
    let rest = line.strip_prefix("HTTP/1.").ok_or_else(|| malformed("no HTTP/1 status line"))?;
    let status = rest.get(2..5).and_then(|digits| digits.parse().ok());
    status.ok_or_else(|| malformed("no status in the status line"))
}

fn sized(rest: &[u8], length: usize) -> io::Result<Option<&[u8]>> {
    match rest.len().cmp(&length) {
        std::cmp::Ordering::Less => Ok(None),
        std::cmp::Ordering::Equal => Ok(Some(rest)),
        std::cmp::Ordering::Greater => Err(malformed("bytes after the answer")),
    }
}

fn unchunk(mut rest: &[u8]) -> io::Result<Option<Vec<u8>>> {
    let mut body = Vec::new();
    loop {
        let Some(end) = find(rest, b"\r\n") else { return Ok(None) };
        let (line, after) = rest.split_at(end);
        let size = std::str::from_utf8(line).ok().and_then(|line| line.split(';').next());
        let size = size.and_then(|size| usize::from_str_radix(size.trim(), 16).ok());
        let size = size.ok_or_else(|| malformed("chunk size is no number"))?;
        let after = after.get(2..).unwrap_or_default();
        let Some(chunk) = after.get(..size) else { return Ok(None) };
        let Some(tail) = after.get(size..size + 2) else { return Ok(None) };
        if tail != b"\r\n" {
            return Err(malformed("chunk without its end"));
        }
        body.extend_from_slice(chunk);
        rest = after.get(size + 2..).unwrap_or_default();
        if size == 0 {
            return sized(rest, 0).map(|_| Some(body));
        }
    }
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

fn malformed(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::{Reply, parse};

    fn whole(text: &str) -> Reply {
        parse(text.as_bytes()).unwrap().unwrap()
    }

    #[test]
    fn a_sized_answer_is_read_whole_and_never_early() {
        let text = "HTTP/1.1 200 OK\r\ncontent-LENGTH: 5\r\nIdempotent-Replayed: true\r\n\r\nhello";
        for cut in 0..text.len() {
            assert_eq!(parse(&text.as_bytes()[..cut]).unwrap(), None, "at {cut}");
        }
        let reply = whole(text);
        assert_eq!((reply.status, reply.body.as_slice()), (200, b"hello".as_slice()));
        assert!(reply.replayed && !reply.close);
    }

    #[test]
    fn chunks_are_joined_and_never_early() {
        let text = "HTTP/1.1 422 X\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n\
                    4\r\nabcd\r\nA;x=1\r\n0123456789\r\n0\r\n\r\n";
        for cut in 0..text.len() {
            assert_eq!(parse(&text.as_bytes()[..cut]).unwrap(), None, "at {cut}");
        }
        let reply = whole(text);
        assert_eq!((reply.status, reply.close), (422, true));
        assert_eq!(reply.body, b"abcd0123456789");
    }

    #[test]
    fn an_answer_without_content_has_an_empty_body() {
        assert_eq!(whole("HTTP/1.1 204 No Content\r\n\r\n").body, b"");
        assert_eq!(whole("HTTP/1.1 500 X\r\ncontent-length: 0\r\n\r\n").status, 500);
    }

    #[test]
    fn what_is_no_answer_is_refused() {
        for text in [
            "SMTP ready\r\n\r\n",
            "HTTP/1.1 abc\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 200 OK\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nab",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nabc\r\n",
        ] {
            assert!(parse(text.as_bytes()).is_err(), "{text}");
        }
    }
}
