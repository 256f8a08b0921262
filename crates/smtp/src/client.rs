//! One connection to a server.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tokio::io::{AsyncBufRead, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::time::timeout;

use crate::Reply;
use crate::transcript::{Transcript, size_of};

/// Why there is no connection, or no more.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The connection broke.
    #[error("the connection broke")]
    Broken,
    /// The server did not answer in time.
    #[error("the server did not answer in time")]
    TooLate,
    /// What it said is not SMTP.
    #[error("the server does not speak SMTP")]
    Nonsense,
    /// It said something that nobody asked for, so no reply of its can be trusted any more.
    #[error("the server replies out of turn")]
    OutOfTurn,
    /// It said no.
    #[error("the server says {} {}", .0.code, .0.text)]
    Refused(Reply),
    /// It does not offer what is needed.
    #[error("the server does not offer {0}")]
    Missing(&'static str),
}

/// What a server offers (RFC 5321 §4.1.1.1).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extensions {
    /// TLS on this connection (RFC 3207).
    pub start_tls: bool,
    /// Ways to log in (RFC 4954).
    pub auth_plain: bool,
    /// The older one.
    pub auth_login: bool,
    /// Largest message, bytes (RFC 1870); 0 = it does not say.
    pub size: usize,
}

/// Whom a message is from and for, as the server is told, and the message.
#[derive(Clone, Copy, Debug)]
pub struct Envelope<'a> {
    /// Where reports go.
    pub from: &'a str,
    /// The recipient.
    pub to: &'a str,
    /// The message in parts, lines ending in CR LF.
    pub parts: &'a [&'a [u8]],
}

/// What a server refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The sender.
    Sender,
    /// The recipient.
    Recipient,
    /// The message.
    Message,
}

/// What became of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sent {
    /// The server has it.
    Taken(Reply),
    /// The server does not have it, and says so. The connection may be used again.
    Refused(Stage, Reply),
    /// The same, and the connection is of no use any more.
    Last(Stage, Reply),
    /// The server does not have it: the connection broke before the final dot.
    NotTaken(Error),
    /// Nobody knows: the connection broke after the final dot.
    Unknown(Error),
}

/// A connection.
#[derive(Debug)]
pub struct Client<S> {
    stream: BufReader<S>,
    patience: Duration,
    transcript: Transcript,
    /// The server takes wishes about reports of failure (RFC 3461).
    takes_wishes: bool,
}

/// A command, and what of it may be told.
#[derive(Clone, Copy)]
struct Command<'a> {
    line: &'a str,
    told: &'a str,
    /// What the reply may repeat, and must not be told.
    secrets: &'a [&'a str],
}

impl<'a> Command<'a> {
    const fn open(line: &'a str) -> Self {
        Self { line, told: line, secrets: &[] }
    }
}

/// Whether a server says no. 503 says that it lost count of the commands (RFC 5321 §4.2.3).
const fn is_refusal(reply: &Reply) -> bool {
    matches!(reply.code / 100, 4 | 5) && reply.code != 503
}

/// Whether a server is ready for what follows a command. Only after a 354 does it take the message:
/// after any other answer it would take its lines for commands (RFC 5321 §4.1.1.4).
const fn goes_on(stage: Stage, reply: &Reply) -> bool {
    match stage {
        Stage::Sender | Stage::Recipient => reply.is_good(),
        Stage::Message => reply.code == 354,
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Client<S> {
    /// Waits for the server's greeting. `patience` is for each answer; the one to a message may
    /// take five times as long (RFC 5321 §4.5.3.2.6). What is said goes to the transcript.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn greet(
        stream: S,
        patience: Duration,
        transcript: Transcript,
    ) -> Result<Self, Error> {
        let mut client = Self::resume(stream, patience, transcript);
        let reply = client.reply(patience, &[]).await?;
        if reply.code == 220 { Ok(client) } else { Err(Error::Refused(reply)) }
    }

    /// Goes on with a connection that is encrypted by now: the server does not greet again.
    #[must_use]
    pub fn resume(stream: S, patience: Duration, transcript: Transcript) -> Self {
        Self { stream: BufReader::new(stream), patience, transcript, takes_wishes: false }
    }

    /// What is said from now on goes to this transcript.
    pub fn record(&mut self, transcript: Transcript) {
        self.transcript = transcript;
    }

    /// Introduces itself and hears what the server offers.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn hello(&mut self, name: &str) -> Result<Extensions, Error> {
        let line = format!("EHLO {name}");
        let reply = self.command(Command::open(&line)).await?;
        if !reply.is_good() {
            return Err(Error::Refused(reply));
        }
        let (mut offered, mut takes_wishes) = (Extensions::default(), false);
        for line in reply.lines.iter().skip(1) {
            let upper = line.to_ascii_uppercase();
            let mut words = upper.split([' ', '=']);
            match words.next() {
                Some("STARTTLS") => offered.start_tls = true,
                Some("DSN") => takes_wishes = true,
                Some("SIZE") => {
                    offered.size = words.next().and_then(|size| size.parse().ok()).unwrap_or(0);
                }
                Some("AUTH") => words.for_each(|way| match way {
                    "PLAIN" => offered.auth_plain = true,
                    "LOGIN" => offered.auth_login = true,
                    _ => {}
                }),
                _ => {}
            }
        }
        self.takes_wishes = takes_wishes;
        Ok(offered)
    }

    /// Asks for TLS, and hands the connection back for it. What the server sent beyond its answer
    /// was not protected, and somebody else may have sent it (RFC 3207 §4.2, CVE-2011-0411).
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn start_tls(mut self) -> Result<S, Error> {
        let reply = self.command(Command::open("STARTTLS")).await?;
        if reply.code != 220 {
            return Err(Error::Refused(reply));
        }
        if let Err(error) = self.quiet().await {
            self.transcript.note(&error.to_string());
            return Err(error);
        }
        Ok(self.stream.into_inner())
    }

    /// Logs in. Only ever on an encrypted connection, which is the caller's to see to.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn login(
        &mut self,
        offered: &Extensions,
        user: &str,
        password: &str,
    ) -> Result<(), Error> {
        let reply = if offered.auth_plain {
            let words = STANDARD.encode(format!("\0{user}\0{password}"));
            let line = format!("AUTH PLAIN {words}");
            let secrets = [words.as_str(), password];
            self.command(Command { line: &line, told: "AUTH PLAIN ***", secrets: &secrets }).await?
        } else if offered.auth_login {
            let words = [STANDARD.encode(user), STANDARD.encode(password)];
            let secrets = [words[0].as_str(), words[1].as_str(), password];
            let mut asked = self.command(Command::open("AUTH LOGIN")).await?;
            for word in &words {
                if asked.code != 334 {
                    return Err(Error::Refused(asked));
                }
                let answer = Command { line: word, told: "***", secrets: &secrets };
                asked = self.command(answer).await?;
            }
            asked
        } else {
            return Err(Error::Missing("AUTH PLAIN or LOGIN"));
        };
        if reply.code == 235 { Ok(()) } else { Err(Error::Refused(reply)) }
    }

    /// Sends a message to one recipient. Only after [`Sent::Taken`] and
    /// [`Sent::Refused`] the connection is of use.
    pub async fn send(&mut self, envelope: Envelope<'_>) -> Sent {
        let Envelope { from, to, parts } = envelope;
        // RFC 3461 §4.3: a report of failure need not have all of a large message in it.
        let wish = if self.takes_wishes { " RET=HDRS" } else { "" };
        let (from, to) = (format!("MAIL FROM:<{from}>{wish}"), format!("RCPT TO:<{to}>"));
        let commands = [
            (from.as_str(), "MAIL FROM:<return path>", Stage::Sender),
            (to.as_str(), "RCPT TO:<recipient>", Stage::Recipient),
            ("DATA", "DATA", Stage::Message),
        ];
        for (line, told, stage) in commands {
            match self.command(Command { line, told, secrets: &[] }).await {
                Ok(reply) if goes_on(stage, &reply) => {}
                Ok(reply) if is_refusal(&reply) => return self.reset(stage, reply).await,
                // An answer to something else: who answers what is lost, not the message.
                Ok(_) => return Sent::NotTaken(Error::Nonsense),
                Err(error) => return Sent::NotTaken(error),
            }
        }
        // Without its last line the server throws it away (RFC 5321 §4.1.1.4).
        if let Err(error) = self.body(parts).await {
            self.transcript.note(&error.to_string());
            return Sent::NotTaken(error);
        }
        self.transcript.ours(".");
        if timeout(self.patience, self.write(b".\r\n")).await.is_err() {
            self.transcript.note(&Error::TooLate.to_string());
            return Sent::Unknown(Error::TooLate);
        }
        match self.verdict().await {
            Ok(reply) if reply.is_good() => Sent::Taken(reply),
            Ok(reply) if is_refusal(&reply) => Sent::Refused(Stage::Message, reply),
            Ok(_) => Sent::Unknown(Error::Nonsense),
            Err(error) => Sent::Unknown(error),
        }
    }

    /// All but the final dot. What was said before it is no answer to it.
    async fn body(&mut self, parts: &[&[u8]]) -> Result<(), Error> {
        self.transcript.ours(&size_of(parts));
        let written = timeout(self.patience * 5, self.write_message(parts)).await;
        written.map_err(|_elapsed| Error::TooLate)??;
        self.quiet().await
    }

    /// The answer to the final dot. With a second one behind it nobody knows which one it is.
    async fn verdict(&mut self) -> Result<Reply, Error> {
        let reply = self.reply(self.patience * 5, &[]).await?;
        match self.quiet().await {
            Err(Error::OutOfTurn) => {
                self.transcript.note(&Error::OutOfTurn.to_string());
                Err(Error::OutOfTurn)
            }
            // A server may hang up once it has answered.
            _ => Ok(reply),
        }
    }

    /// Whether the connection still lives: asked before it is used again.
    pub async fn is_alive(&mut self) -> bool {
        self.command(Command::open("RSET")).await.is_ok_and(|reply| reply.is_good())
    }

    /// Ends the connection.
    pub async fn quit(mut self) {
        // Whether the server answers does not matter any more.
        drop(self.command(Command::open("QUIT")).await);
    }

    async fn reset(&mut self, stage: Stage, refusal: Reply) -> Sent {
        // The server closes after a 421 (RFC 5321 §3.8).
        if refusal.code == 421 {
            return Sent::NotTaken(Error::Refused(refusal));
        }
        match self.command(Command::open("RSET")).await {
            Ok(reply) if reply.is_good() => Sent::Refused(stage, refusal),
            // That it hangs up or falls silent changes nothing about what it said.
            Err(Error::Broken | Error::TooLate) => Sent::Last(stage, refusal),
            Ok(reply) if reply.code == 421 => Sent::Last(stage, refusal),
            // It says more than it is asked: who knows what the refusal was about.
            _ => Sent::NotTaken(Error::Refused(refusal)),
        }
    }

    async fn command(&mut self, command: Command<'_>) -> Result<Reply, Error> {
        self.transcript.ours(command.told);
        // Nobody's text may end a command and begin another one.
        let said = if command.line.contains(['\r', '\n', '\0']) {
            Err(Error::Nonsense)
        } else {
            self.say(command.line).await
        };
        if let Err(error) = said {
            self.transcript.note(&error.to_string());
            return Err(error);
        }
        self.reply(self.patience, command.secrets).await
    }

    async fn say(&mut self, line: &str) -> Result<(), Error> {
        self.quiet().await?;
        let line = format!("{line}\r\n");
        let written = timeout(self.patience, self.write(line.as_bytes())).await;
        written.map_err(|_elapsed| Error::TooLate)?
    }

    async fn reply(&mut self, patience: Duration, secrets: &[&str]) -> Result<Reply, Error> {
        let read = timeout(patience, Reply::read(&mut self.stream)).await;
        let reply = read.map_err(|_elapsed| Error::TooLate).flatten();
        let reply = reply.map(|reply| reply.without(secrets));
        match &reply {
            Ok(reply) => self.transcript.theirs(reply.code, &reply.text),
            Err(error) => self.transcript.note(&error.to_string()),
        }
        reply
    }

    /// Looks, without waiting, whether the server said something that is no answer: there is one
    /// reply to each command, in their order (RFC 5321 §4.3.1), and one more would be taken for the
    /// answer to the next.
    async fn quiet(&mut self) -> Result<(), Error> {
        let stream = &mut self.stream;
        poll_fn(|context| {
            Poll::Ready(match Pin::new(&mut *stream).poll_fill_buf(context) {
                Poll::Pending => Ok(()),
                Poll::Ready(Ok(waiting)) if !waiting.is_empty() => Err(Error::OutOfTurn),
                Poll::Ready(_) => Err(Error::Broken),
            })
        })
        .await
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let stream = self.stream.get_mut();
        stream.write_all(bytes).await.map_err(|_| Error::Broken)?;
        stream.flush().await.map_err(|_| Error::Broken)
    }

    /// All but the final dot. A line that begins with a dot gets another one (RFC 5321 §4.5.2).
    async fn write_message(&mut self, parts: &[&[u8]]) -> Result<(), Error> {
        let mut is_line_start = true;
        for part in parts {
            for line in part.split_inclusive(|byte| *byte == b'\n') {
                let stream = self.stream.get_mut();
                if is_line_start && line.first() == Some(&b'.') {
                    stream.write_all(b".").await.map_err(|_| Error::Broken)?;
                }
                stream.write_all(line).await.map_err(|_| Error::Broken)?;
                is_line_start = line.last() == Some(&b'\n');
            }
        }
        if is_line_start { self.write(b"").await } else { self.write(b"\r\n").await }
    }
}
