//! The receiving side: a session that takes messages for addresses that somebody knows, within
//! bounds of size, number and time. It relays nothing, and answers no message with another.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::time::timeout;

/// Longest command, bytes: RFC 5321 §4.5.3.1.4 says 512, and its extensions add to that.
const LONGEST_COMMAND: u64 = 2_048;
/// Bytes of a message that are read at a time: its lines may be longer.
const PIECE: u64 = 64 * 1024;
/// What a client is told last that keeps us waiting.
const TOO_SLOW: &str = "421 4.4.2 too slow";

/// How much one connection may do.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// For each command, and for each piece of a message.
    pub patience: Duration,
    /// For all of it.
    pub session: Duration,
    /// Bytes of one message.
    pub message_bytes: usize,
    /// Recipients of one message.
    pub recipients: usize,
    /// Commands, those that are refused included.
    pub commands: usize,
}

/// A message that came in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Letter {
    /// The return path; empty in reports (RFC 3464 §2).
    pub sender: String,
    /// The recipients that the desk knows.
    pub recipients: Vec<String>,
    /// The message, its dots unstuffed.
    pub message: Vec<u8>,
}

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is dealt with for good.
    Taken,
    /// Not now: the client brings it again.
    Later,
}

/// Who takes messages.
pub trait Desk: Sync {
    /// Whether it takes messages for this address; `None` when that cannot be told now.
    fn knows(&self, recipient: &str) -> impl Future<Output = Option<bool>> + Send;

    /// Takes a message; the client is answered afterwards.
    fn take(&self, letter: Letter) -> impl Future<Output = Verdict> + Send;
}

/// Serves one connection until it ends, under this name of ours.
pub async fn serve<S, D>(stream: S, name: &str, bounds: Bounds, desk: &D)
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
    D: Desk,
{
    let stream = BufReader::new(stream);
    let mut session = Session { stream, name, bounds, desk, stage: Stage::Silent };
    // Whoever is too slow is cut off; what it was told is true.
    let _ended = timeout(bounds.session, session.run()).await;
}

/// How far a client has come.
enum Stage {
    /// It has not said who it is.
    Silent,
    Greeted,
    /// It has named a sender, and recipients.
    Addressed {
        sender: String,
        recipients: Vec<String>,
    },
}

/// Why a message is not heard to its end.
enum Cut {
    TooLarge,
    TooSlow,
}

/// What is said, and whether it is the last word.
enum Say {
    On(String),
    Last(&'static str),
}

fn say(text: &str) -> Say {
    Say::On(text.to_owned())
}

struct Session<'a, S, D> {
    stream: BufReader<S>,
    name: &'a str,
    bounds: Bounds,
    desk: &'a D,
    stage: Stage,
}

impl<S, D> Session<'_, S, D>
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
    D: Desk,
{
    async fn run(&mut self) -> io::Result<()> {
        self.write(&format!("220 {} takes reports", self.name)).await?;
        for _ in 0..self.bounds.commands {
            let Some(line) = self.command().await? else { return Ok(()) };
            match self.act(&line).await? {
                Say::On(text) => self.write(&text).await?,
                Say::Last(text) => return self.write(text).await,
            }
        }
        self.write("421 4.7.0 too many commands").await
    }

    async fn write(&mut self, text: &str) -> io::Result<()> {
        let bytes = format!("{text}\r\n");
        let sent = timeout(self.bounds.patience, self.stream.write_all(bytes.as_bytes())).await;
        sent.map_err(|_elapsed| io::ErrorKind::TimedOut)??;
        self.stream.flush().await
    }

    /// The next line; `None` when there is none, or one that is no command.
    async fn command(&mut self) -> io::Result<Option<String>> {
        let mut line = Vec::new();
        let mut bounded = (&mut self.stream).take(LONGEST_COMMAND);
        let read = timeout(self.bounds.patience, bounded.read_until(b'\n', &mut line)).await;
        let Ok(read) = read else {
            self.write(TOO_SLOW).await?;
            return Ok(None);
        };
        if read? == 0 {
            return Ok(None);
        }
        if !line.ends_with(b"\r\n") {
            self.write("500 5.5.2 lines end in CR LF, and are shorter").await?;
            return Ok(None);
        }
        Ok(Some(String::from_utf8_lossy(&line).trim_end().to_owned()))
    }

    async fn act(&mut self, line: &str) -> io::Result<Say> {
        let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
        Ok(match verb.to_ascii_uppercase().as_str() {
            "EHLO" => self.greet(true),
            "HELO" => self.greet(false),
            "MAIL" => self.sender(rest),
            "RCPT" => self.recipient(rest).await,
            "DATA" => return self.data().await,
            "RSET" => {
                self.reset();
                say("250 2.0.0 ok")
            }
            "NOOP" => say("250 2.0.0 ok"),
            // RFC 5321 §3.5.3: nobody is told who is known.
            "VRFY" => say("252 2.5.2 send it and see"),
            "QUIT" => Say::Last("221 2.0.0 bye"),
            _ => say("502 5.5.1 unknown command"),
        })
    }

    fn greet(&mut self, is_extended: bool) -> Say {
        self.stage = Stage::Greeted;
        let Self { name, bounds, .. } = self;
        Say::On(if is_extended {
            let size = bounds.message_bytes;
            format!(
                "250-{name}\r\n250-SIZE {size}\r\n250-8BITMIME\r\n250-PIPELINING\r\n\
                 250 ENHANCEDSTATUSCODES"
            )
        } else {
            format!("250 {name}")
        })
    }

    fn reset(&mut self) {
        if !matches!(self.stage, Stage::Silent) {
            self.stage = Stage::Greeted;
        }
    }

    fn sender(&mut self, rest: &str) -> Say {
        match self.stage {
            Stage::Silent => return say("503 5.5.1 say EHLO first"),
            Stage::Addressed { .. } => return say("503 5.5.1 there is a sender"),
            Stage::Greeted => {}
        }
        let Some((sender, parameters)) = path(rest, "FROM:") else {
            return say("501 5.5.4 MAIL FROM:<address>");
        };
        let size = parameters.split(' ').find_map(|word| {
            let (name, value) = word.split_once('=')?;
            name.eq_ignore_ascii_case("SIZE").then(|| value.parse::<u64>().ok()).flatten()
        });
        let most = u64::try_from(self.bounds.message_bytes).unwrap_or(u64::MAX);
        if size.is_some_and(|size| size > most) {
            return say("552 5.3.4 too large");
        }
        self.stage = Stage::Addressed { sender: sender.to_owned(), recipients: Vec::new() };
        say("250 2.1.0 ok")
    }

    async fn recipient(&mut self, rest: &str) -> Say {
        let Stage::Addressed { recipients, .. } = &mut self.stage else {
            return say("503 5.5.1 name a sender first");
        };
        let Some((recipient, _)) = path(rest, "TO:") else {
            return say("501 5.5.4 RCPT TO:<address>");
        };
        if recipients.len() >= self.bounds.recipients {
            return say("452 4.5.3 too many recipients");
        }
        match self.desk.knows(recipient).await {
            Some(true) => {}
            Some(false) => return say("550 5.1.1 no such address"),
            None => return say("451 4.3.0 come back later"),
        }
        recipients.push(recipient.to_owned());
        say("250 2.1.5 ok")
    }

    async fn data(&mut self) -> io::Result<Say> {
        if !matches!(&self.stage, Stage::Addressed { recipients, .. } if !recipients.is_empty()) {
            return Ok(say("503 5.5.1 name a recipient first"));
        }
        self.write("354 go on, and end with a dot").await?;
        let message = match self.message().await? {
            Ok(message) => message,
            Err(Cut::TooLarge) => return Ok(Say::Last("552 5.3.4 too large")),
            // Not the message's fault: it comes again.
            Err(Cut::TooSlow) => return Ok(Say::Last(TOO_SLOW)),
        };
        let addressed = std::mem::replace(&mut self.stage, Stage::Greeted);
        let Stage::Addressed { sender, recipients } = addressed else {
            return Ok(say("503 5.5.1 name a recipient first"));
        };
        let verdict = self.desk.take(Letter { sender, recipients, message }).await;
        Ok(match verdict {
            Verdict::Taken => say("250 2.0.0 taken"),
            Verdict::Later => say("451 4.3.0 come back later"),
        })
    }

    /// Everything up to the final dot, which only CR LF surround (RFC 5321 §4.1.1.4).
    async fn message(&mut self) -> io::Result<Result<Vec<u8>, Cut>> {
        let mut message = Vec::new();
        let mut begins_line = true;
        loop {
            let mut piece = Vec::new();
            let mut bounded = (&mut self.stream).take(PIECE);
            let read = timeout(self.bounds.patience, bounded.read_until(b'\n', &mut piece)).await;
            let Ok(read) = read else { return Ok(Err(Cut::TooSlow)) };
            if read? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if begins_line && piece == b".\r\n" {
                return Ok(Ok(message));
            }
            let is_stuffed = begins_line && piece.first() == Some(&b'.');
            let kept = piece.get(usize::from(is_stuffed)..).unwrap_or_default();
            if message.len() + kept.len() > self.bounds.message_bytes {
                return Ok(Err(Cut::TooLarge));
            }
            message.extend_from_slice(kept);
            // Of all of it: the piece may have ended between the two.
            begins_line = message.ends_with(b"\r\n");
        }
    }
}

/// The address of `FROM:<a@b> PARAMETERS`, and the parameters.
fn path<'a>(rest: &'a str, word: &str) -> Option<(&'a str, &'a str)> {
    let (front, after) = rest.split_at_checked(word.len())?;
    let inside = after.trim_start().strip_prefix('<')?;
    let (address, parameters) = inside.split_once('>')?;
    front.eq_ignore_ascii_case(word).then_some((address, parameters.trim()))
}
