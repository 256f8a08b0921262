//! A relay that plays a script, faults and all.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use estafette::carriers::Carriers;
use estafette::carriers::smtp::Relay;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::world::World;

/// Where in a dialogue the relay is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum At {
    /// It is about to greet.
    Banner,
    /// It heard EHLO, STARTTLS, AUTH or an answer to that.
    Hello,
    Tls,
    Auth,
    Sender,
    Recipient,
    Data,
    /// The first line of a message came.
    Body,
    /// The message came, and its final dot.
    Dot,
}

/// What it does.
#[derive(Clone, Copy, Debug)]
pub enum Do {
    Say(&'static str),
    Hang,
    HangUp,
    /// What a good relay says.
    Well,
}

/// What it does at a place, for the recipient of the moment, and the how manieth time, from 1.
pub type Script = fn(At, &str, u32) -> Do;

/// A relay that does not answer for longer than this has hung. A busy machine takes its time with
/// the large mail of one story: a shorter patience would take that for a fault.
pub const PATIENCE: Duration = Duration::from_secs(1);

#[derive(Clone)]
pub struct Scripted {
    script: Script,
    times: Arc<Mutex<HashMap<(At, String), u32>>>,
    taken: Arc<Mutex<Vec<(String, String)>>>,
}

impl Scripted {
    /// A relay under this user and host, which all live email goes to.
    pub async fn give(world: &World, host: &'static str, script: Script) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let scripted = Self { script, times: Arc::default(), taken: Arc::default() };
        let server = scripted.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let server = server.clone();
                tokio::spawn(async move { server.serve(stream).await });
            }
        });
        let url = format!("smtp://{host}:{port}");
        let relay = move || Relay::new(&url, "estafette.example").unwrap().with_patience(PATIENCE);
        world.give_live(Box::new(move |_, _| Carriers::none().with_email(Arc::new(relay())))).await;
        scripted
    }

    /// The messages that it answered well, and whom they were for.
    pub fn taken(&self) -> Vec<(String, String)> {
        self.taken.lock().unwrap().clone()
    }

    /// How often it came to this place for a recipient.
    pub fn times(&self, at: At, to: &str) -> u32 {
        self.times.lock().unwrap().get(&(at, to.to_owned())).copied().unwrap_or_default()
    }

    fn plan(&self, at: At, to: &str) -> Do {
        let mut times = self.times.lock().unwrap();
        let times = times.entry((at, to.to_owned())).or_default();
        *times += 1;
        (self.script)(at, to, *times)
    }

    /// Does what the script says; `None` = the connection ends. Answers whether all went well.
    async fn act(
        &self,
        stream: &mut BufReader<TcpStream>,
        at: At,
        to: &str,
        well: &str,
    ) -> Option<bool> {
        let plan = self.plan(at, to);
        let words = match plan {
            Do::Say(words) => words,
            Do::Well => well,
            Do::HangUp => return None,
            Do::Hang => std::future::pending().await,
        };
        stream.write_all(words.as_bytes()).await.ok()?;
        Some(matches!(plan, Do::Well))
    }

    async fn serve(&self, stream: TcpStream) -> Option<()> {
        let mut stream = BufReader::new(stream);
        let mut to = String::new();
        self.act(&mut stream, At::Banner, "", "220 mx\r\n").await?;
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line).await.ok()? == 0 {
                return None;
            }
            let (at, well) = match line.get(..4).unwrap_or_default() {
                "EHLO" => (At::Hello, "250-mx\r\n250 SIZE 10000000\r\n"),
                "STAR" => (At::Tls, "454 no\r\n"),
                "AUTH" => (At::Auth, "235 ok\r\n"),
                "MAIL" => (At::Sender, "250 ok\r\n"),
                "RCPT" => {
                    let path = line.trim().strip_prefix("RCPT TO:<")?;
                    path.strip_suffix('>')?.clone_into(&mut to);
                    (At::Recipient, "250 ok\r\n")
                }
                "DATA" => (At::Data, "354 go\r\n"),
                "QUIT" => return None,
                _ => {
                    stream.write_all(b"250 ok\r\n").await.ok()?;
                    continue;
                }
            };
            let whom = if at == At::Recipient || at == At::Data { to.as_str() } else { "" };
            if self.act(&mut stream, at, whom, well).await? && at == At::Data {
                self.message(&mut stream, &to).await?;
            }
        }
    }

    async fn message(&self, stream: &mut BufReader<TcpStream>, to: &str) -> Option<()> {
        let mut message = Vec::new();
        stream.read_until(b'\n', &mut message).await.ok()?;
        self.act(stream, At::Body, to, "").await?;
        while !message.ends_with(b"\r\n.\r\n") {
            if stream.read_buf(&mut message).await.ok()? == 0 {
                return None;
            }
        }
        let message = String::from_utf8(message).ok()?;
        if self.act(stream, At::Dot, to, "250 2.0.0 queued\r\n").await? {
            self.taken.lock().unwrap().push((to.to_owned(), message));
        }
        Some(())
    }
}
