//! What a request may weigh, and its body: read as a whole, at a bounded pace, before a handler
//! begins. So no handler ever waits for a client, and the time limit of a request is its own.
//!
//! Uploads are the exception: their handler knows who sends before it reads, and gets the body as
//! it comes. It is bounded by the same pace and by a size, which the stream keeps by itself.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::LazyLock;
use std::task::Poll;
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Version, header};
use futures_util::poll;
use hyper::body::Frame;
use tokio::time::{Instant, Sleep, sleep_until, timeout};

use super::pace::Pace;
use super::shares::{Share, Shares};
use crate::kit::client_address::ClientAddress;
use crate::kit::problem::Problem;
use crate::kit::problem_code::Code;
use crate::kit::task;
use crate::kit::upload::{Cut, MOST_BYTES};

/// Largest body, bytes.
pub(super) const BODY_LIMIT: usize = 256 * 1024;
/// Largest body of a callback, bytes: what the chat-app's upstream says of its own.
pub(super) const CALLBACK_LIMIT: usize = 3 * 1024 * 1024;
/// Largest head without its URL: names and values of all headers, bytes.
const HEADERS_LIMIT: usize = 16 * 1024;
/// Bytes of a refused body that are still read, and thrown away, after the answer: many a client
/// reads no answer before it has sent all.
pub(super) const LINGER_BYTES: usize = 64 * 1024 * 1024;
/// How long that goes on.
pub(super) const LINGER: Duration = Duration::from_secs(5);
/// Longest URL, bytes.
const URL_LIMIT: usize = 8 * 1024;

/// What is too large about a head.
pub(super) fn oversize(request: &Request) -> Option<Problem> {
    let uri = request.uri();
    let url = uri.path_and_query().map_or(0, |path| path.as_str().len());
    if url > URL_LIMIT {
        let detail = format!("The URL has {url} bytes; at most {URL_LIMIT} are read.");
        return Some(Problem::new(Code::InvalidRequest).detail(detail));
    }
    let size = |(name, value): (&HeaderName, &HeaderValue)| name.as_str().len() + value.len();
    let total: usize = request.headers().iter().map(size).sum();
    (total > HEADERS_LIMIT).then(|| {
        let largest = largest(request.headers());
        let detail = format!(
            "is the largest; all headers together have {total} bytes, and at most \
                 {HEADERS_LIMIT} are read"
        );
        Problem::bad_request(&format!("header:{largest}"), "too_long", detail)
    })
}

/// What is wrong with the name that the client gives the service. HTTP/1.1 needs exactly one `Host`
/// (RFC 9112 §3.2); HTTP/2 has `:authority` in its place, or one `Host` (RFC 9113 §8.3.1).
pub(super) fn misnamed(request: &Request) -> Option<Problem> {
    let mut hosts = request.headers().get_all(header::HOST).iter();
    let (code, detail) = match (hosts.next(), hosts.next()) {
        (Some(_), Some(_)) => ("invalid_type", "must be given once"),
        (None, _) if is_host_needed(request) => ("required", "is required"),
        (Some(host), None) if !is_host(host) => {
            ("invalid_type", "must be a host, and a port where it is not the usual one")
        }
        (host, _) if is_twofold(request, host) => {
            ("invalid_type", "must name what `:authority` names, without a user")
        }
        _ => return None,
    };
    Some(closing(Problem::bad_request("header:Host", code, detail), request.version()))
}

/// Whether HTTP/2's own name of the service is not the one in `Host`, or has a user in it (RFC 9113
/// §8.3.1): a proxy in front may go by the other one. Ports may differ: some leave the usual one
/// out.
fn is_twofold(request: &Request, host: Option<&HeaderValue>) -> bool {
    let authority = request.uri().authority().filter(|_| request.version() == Version::HTTP_2);
    authority.is_some_and(|authority| {
        let is_other = |host: &str| {
            let named: Option<Authority> = host.parse().ok();
            named.is_none_or(|named| !named.host().eq_ignore_ascii_case(authority.host()))
        };
        authority.as_str().contains('@')
            || host.is_some_and(|host| host.to_str().is_ok_and(is_other))
    })
}

/// An empty one is allowed (RFC 9112 §3.2).
fn is_host(value: &HeaderValue) -> bool {
    let is_authority = |text: &str| text.parse::<Authority>().is_ok() && !text.contains('@');
    is_plain_host(value.as_bytes()) || value.to_str().is_ok_and(is_authority)
}

/// Whether it is nothing but letters, digits, dots and hyphens, and perhaps a port, as nearly
/// always: parsing an authority copies it.
pub(super) fn is_plain_host(value: &[u8]) -> bool {
    let mut parts = value.split(|byte| *byte == b':');
    let is_name = |name: &[u8]| {
        name.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-'))
    };
    let is_port = |port: &[u8]| port.len() < 6 && port.iter().all(u8::is_ascii_digit);
    parts.next().is_none_or(is_name) && parts.next().is_none_or(is_port) && parts.next().is_none()
}

/// A body in a form that only a proxy in front might read: we read `chunked` alone, and who reads
/// a request otherwise sees another one (RFC 9112 §6.1).
pub(super) fn encoded(request: &Request) -> Option<Problem> {
    let mut codings = request.headers().get_all(header::TRANSFER_ENCODING).iter();
    let is_chunked = |coding: &HeaderValue| coding.as_bytes().eq_ignore_ascii_case(b"chunked");
    let is_odd = match (codings.next(), codings.next()) {
        (None, _) => false,
        (Some(only), None) => {
            !is_chunked(only) || request.headers().contains_key(header::CONTENT_LENGTH)
        }
        (Some(_), Some(_)) => true,
    };
    is_odd.then(|| {
        let detail = "must be chunked and nothing else, without a Content-Length header";
        let problem = Problem::bad_request("header:Transfer-Encoding", "invalid_enum", detail);
        closing(problem, request.version())
    })
}

fn is_host_needed(request: &Request) -> bool {
    match request.version() {
        Version::HTTP_09 | Version::HTTP_10 => false,
        Version::HTTP_11 => true,
        _ => request.uri().authority().is_none(),
    }
}

fn largest(headers: &HeaderMap) -> &str {
    let largest = headers.iter().max_by_key(|(_, value)| value.len());
    largest.map_or("", |(name, _)| name.as_str())
}

/// Who sends a body, and how much at most.
pub(super) struct Sender {
    pub(super) client: Option<ClientAddress>,
    /// The most bytes.
    pub(super) most: usize,
}

/// Reads the whole body of a request into memory. `started` is when the request began.
///
/// # Errors
/// 413 for a body that is too large, 408 for one that does not come in time, 400 for one that
/// breaks off, 503 when too many of them are half there.
pub(super) async fn read(
    request: &mut Request,
    pace: Pace,
    started: Instant,
    from: Sender,
) -> Result<(), Problem> {
    if request.body().is_end_stream() {
        return Ok(());
    }
    let body = std::mem::take(request.body_mut());
    let mut intake = Intake { body, late: None, share: HELD.of(from.client) };
    match intake.read(pace, started, from.most).await {
        Ok(bytes) => {
            *request.body_mut() = Body::from(bytes);
            Ok(())
        }
        Err(problem) => {
            *request.body_mut() = std::mem::take(&mut intake.body);
            Err(closing(problem, request.version()))
        }
    }
}

/// Refuses a request before its body is read. With HTTP/1 the connection goes on where all of the
/// body has come already; else it ends, and the answer says so (RFC 9112 §9.6), or the client's
/// next request would be lost with it.
pub(super) async fn refuse(problem: Problem, request: &mut Request) -> Problem {
    let version = request.version();
    let is_over = version >= Version::HTTP_2 || has_all_come(request).await;
    if is_over { problem } else { closing(problem, version) }
}

/// Throws away what has come of a body. Nobody is asked to send the rest (RFC 9110 §10.1.1).
async fn has_all_come(request: &mut Request) -> bool {
    if request.headers().contains_key(header::EXPECT) {
        return request.body().is_end_stream();
    }
    let body = request.body_mut();
    while !body.is_end_stream() {
        let next = poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx));
        match poll!(pin!(next)) {
            Poll::Ready(Some(Ok(_frame))) => {}
            Poll::Ready(None) => return true,
            Poll::Ready(Some(Err(_))) | Poll::Pending => return false,
        }
    }
    true
}

/// Gives a body up that nobody reads any more. On HTTP/2 its stream would be reset at once, and
/// some clients, such as curl 7, then throw away the answer that says why: some of it is read, and
/// thrown away, as on HTTP/1.
pub(super) fn let_go(mut body: Body, version: Version) {
    if version != Version::HTTP_2 || body.is_end_stream() {
        return;
    }
    let rest = async move {
        let mut left = LINGER_BYTES;
        while let Some(Ok(frame)) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
            let length = frame.data_ref().map_or(0, Bytes::len);
            let Some(now) = left.checked_sub(length) else { return };
            left = now;
        }
    };
    task::spawn(async {
        let _given_up = timeout(LINGER, rest).await;
    });
}

/// Makes the body of a request come at a bounded pace and end in a [`Cut`] when it is too slow or
/// too large.
pub(super) fn stream(request: &mut Request, pace: Pace, started: Instant) {
    let body = std::mem::take(request.body_mut());
    let due = started + pace.pause;
    let sleep = Box::pin(sleep_until(due));
    let left = MOST_BYTES;
    let intake = Intake { body, late: Some(sleep), share: HELD.of(None) };
    let paced = Paced { intake, pace, due, left, version: request.version() };
    let frames = futures_util::stream::unfold(Some(paced), |paced| async move {
        let mut paced = paced?;
        match paced.next().await {
            Ok(None) => None,
            Ok(Some(data)) => Some((Ok(data), Some(paced))),
            Err(cut) => Some((Err(cut), None)),
        }
    });
    *request.body_mut() = Body::from_stream(frames);
}

/// A body that is read by a handler.
struct Paced {
    intake: Intake,
    pace: Pace,
    due: Instant,
    /// Bytes that may still come.
    left: usize,
    version: Version,
}

impl Drop for Paced {
    fn drop(&mut self) {
        let_go(std::mem::take(&mut self.intake.body), self.version);
    }
}

impl Paced {
    async fn next(&mut self) -> Result<Option<Bytes>, Cut> {
        let Some(data) = self.intake.frame(self.due).await.map_err(Cut::from)? else {
            return Ok(None);
        };
        self.left = self.left.checked_sub(data.len()).ok_or(Cut::TooLarge)?;
        self.due = self.pace.after(self.due, data.len(), Instant::now());
        Ok(Some(data))
    }
}

/// With HTTP/1, the last answer of its connection: what is left of the body is not read, or no more
/// is given.
pub(super) fn closing(problem: Problem, version: Version) -> Problem {
    if version >= Version::HTTP_2 {
        return problem;
    }
    problem.header("connection", HeaderValue::from_static("close"))
}

fn too_late() -> Problem {
    let detail = "The request body did not arrive in time. Repeat the request.";
    Problem::new(Code::RequestTimeout).detail(detail)
}

/// Bodies of this process that are not there to their end. Those that come in one piece, as nearly
/// all do, do not count.
static HELD: LazyLock<Shares> = LazyLock::new(Shares::default);

/// A body that is being read.
struct Intake {
    body: Body,
    /// Made only for a body that does not come along with its head.
    late: Option<Pin<Box<Sleep>>>,
    share: Share,
}

impl Intake {
    async fn read(&mut self, pace: Pace, started: Instant, most: usize) -> Result<Bytes, Problem> {
        if self.body.size_hint().lower() > most as u64 {
            return Err(Code::PayloadTooLarge.into());
        }
        let mut due = started + pace.pause;
        let Some(first) = self.frame(due).await? else { return Ok(Bytes::new()) };
        // Nearly every body is one frame, which is handed on as it is.
        if self.body.is_end_stream() {
            return Ok(first);
        }
        self.hold(first.len())?;
        let mut all = Vec::from(first);
        let mut came = all.len();
        loop {
            due = pace.after(due, came, Instant::now());
            let Some(data) = self.frame(due).await? else { return Ok(all.into()) };
            came = data.len();
            if all.len() + data.len() > most {
                return Err(Code::PayloadTooLarge.into());
            }
            self.hold(data.len())?;
            all.extend_from_slice(&data);
        }
    }

    /// Notes bytes that are kept while the client takes its time for the others.
    fn hold(&mut self, bytes: usize) -> Result<(), Problem> {
        if self.share.take(bytes) { Ok(()) } else { Err(Code::Overloaded.into()) }
    }

    /// The next bytes, `None` at the end.
    async fn frame(&mut self, due: Instant) -> Result<Option<Bytes>, Problem> {
        if let Some(late) = &mut self.late {
            late.as_mut().reset(due);
        }
        loop {
            match self.event(due).await {
                None => return Err(too_late()),
                Some(None) => return Ok(None),
                Some(Some(Err(_broken))) => {
                    let detail = "The body ended before it was complete. Repeat the request.";
                    return Err(Problem::new(Code::InvalidRequest).detail(detail));
                }
                Some(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) if !data.is_empty() => return Ok(Some(data)),
                    // Frames that move nothing must not keep the timer from being asked.
                    _ if Instant::now() >= due => return Err(too_late()),
                    _ => {}
                },
            }
        }
    }

    /// What the body does next; `None` when it is too late.
    async fn event(&mut self, due: Instant) -> Option<Option<Result<Frame<Bytes>, axum::Error>>> {
        poll_fn(|cx| {
            if let Poll::Ready(event) = Pin::new(&mut self.body).poll_frame(cx) {
                return Poll::Ready(Some(event));
            }
            let late = self.late.get_or_insert_with(|| Box::pin(sleep_until(due)));
            late.as_mut().poll(cx).map(|()| None)
        })
        .await
    }
}
