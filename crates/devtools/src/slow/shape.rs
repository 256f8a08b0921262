//! What slow clients look like on the wire.

use clap::ValueEnum;

/// What an HTTP/2 connection begins with (RFC 9113, section 3.4), and empty settings.
const HTTP2: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
/// The same with `SETTINGS_INITIAL_WINDOW_SIZE` = 0: no byte of an answer's body may come.
const NO_ROOM: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\x06\x04\0\0\0\0\0\0\x04\0\0\0\0";

/// One way to hold a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shape {
    /// Sends nothing.
    Silent,
    /// Sends `P`, which may become anything.
    OneByte,
    /// Sends the beginning of an HTTP/2 connection but its last byte.
    HalfPreface,
    /// Sends half a head.
    HalfHead,
    /// Sends a header every second, and never the last.
    DripHead,
    /// Sends half a body.
    HalfBody,
    /// Sends a byte of a body every second.
    DripBody,
    /// Asks once and then says nothing.
    Idle,
    /// Asks for much and reads nothing.
    Deaf,
    /// Begins HTTP/2 and asks nothing.
    Http2Silent,
    /// Begins HTTP/2 and sends half a head.
    Http2HalfHead,
    /// Opens 1,000 HTTP/2 streams that wait for their bodies.
    Http2Streams,
    /// Asks over HTTP/2 and gives the answer no room. Takes long to end: name it to see it.
    Http2NoRoom,
}

/// The paths that the shapes ask for.
#[derive(Debug, Clone)]
pub(crate) struct Paths {
    /// Any answer.
    pub(crate) small: String,
    /// More than sockets hold.
    pub(crate) large: String,
}

impl Shape {
    /// All but the one that takes minutes.
    pub(crate) const USUAL: [Self; 12] = [
        Self::Silent,
        Self::OneByte,
        Self::HalfPreface,
        Self::HalfHead,
        Self::DripHead,
        Self::HalfBody,
        Self::DripBody,
        Self::Idle,
        Self::Deaf,
        Self::Http2Silent,
        Self::Http2HalfHead,
        Self::Http2Streams,
    ];

    /// Its name, as on the command line.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// What it says at first.
    pub(crate) fn opening(self, paths: &Paths) -> Vec<u8> {
        let Paths { small, large } = paths;
        let get = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: x\r\n").into_bytes();
        let post = "POST /v1/auth/login HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n\
                    Content-Length: 4096\r\n\r\n{\"email\"";
        match self {
            Self::Silent => Vec::new(),
            Self::OneByte => b"P".to_vec(),
            Self::HalfPreface => HTTP2.get(..23).unwrap_or_default().to_vec(),
            Self::HalfHead | Self::DripHead => get(small),
            Self::HalfBody | Self::DripBody => post.into(),
            Self::Idle => [&get(small)[..], b"\r\n"].concat(),
            Self::Deaf => [&get(large)[..], b"\r\n"].concat().repeat(20),
            Self::Http2Silent => HTTP2.to_vec(),
            Self::Http2HalfHead => [HTTP2, &head(1, END_STREAM, false, small)].concat(),
            Self::Http2Streams => {
                let login = |number: u32| head(number * 2 + 1, END_HEADERS, true, "/v1/auth/login");
                let streams: Vec<u8> = (0..1000).flat_map(login).collect();
                [HTTP2, &streams].concat()
            }
            Self::Http2NoRoom => {
                [NO_ROOM, &head(1, END_STREAM | END_HEADERS, false, large)].concat()
            }
        }
    }

    /// What it says every second after that.
    pub(crate) const fn drip(self) -> &'static [u8] {
        match self {
            Self::DripHead => b"x: y\r\n",
            Self::DripBody => b" ",
            _ => b"",
        }
    }

    /// Whether it reads what comes.
    pub(crate) const fn reads(self) -> bool {
        !matches!(self, Self::Deaf)
    }
}

const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// A HEADERS frame whose block (RFC 7541) has method and scheme from the static table, the path
/// and the authority spelled out.
fn head(stream: u32, flags: u8, post: bool, path: &str) -> Vec<u8> {
    let mut block = vec![if post { 0x83 } else { 0x82 }, 0x86, 0x04];
    block.push(u8::try_from(path.len().min(126)).unwrap_or_default());
    block.extend(path.bytes().take(126));
    block.extend([0x01, 0x01, b'x']);
    if post {
        block.extend([0x0f, 0x10, 16]);
        block.extend(b"application/json");
    }
    let length = u32::try_from(block.len()).unwrap_or_default().to_be_bytes();
    let mut frame = length.get(1..).unwrap_or_default().to_vec();
    frame.extend([1, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(block);
    frame
}
