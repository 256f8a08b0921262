//! The service under test: started on one data directory again and again, and killed.

use std::{
    fs::{self, File},
    net::TcpListener,
    path::{Path, PathBuf},
    process::Stdio,
    sync::atomic::{AtomicU16, Ordering},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use tempfile::TempDir;
use tokio::{
    io::AsyncWriteExt,
    process::{Child, Command},
};

use crate::{api::Api, stopwatch, wire::Conn};

/// How long a start may take before it counts as failed.
const START: Duration = Duration::from_secs(30);
/// How long an orderly stop may take.
const STOP: Duration = Duration::from_secs(30);
/// More than any run spends.
const CREDITS: &str = "1000000000";

/// The service's binary, data and ports.
#[derive(Debug)]
pub(crate) struct Server {
    binary: PathBuf,
    arguments: Vec<String>,
    settings: Vec<(String, String)>,
    data: TempDir,
    ports: [u16; 3],
    child: Option<Child>,
}

impl Server {
    /// Prepares an empty data directory and free ports; starts nothing.
    ///
    /// # Errors
    /// When the binary is missing or there is no room.
    pub(crate) fn new(binary: &Path, arguments: &[String]) -> Result<Self> {
        let binary = fs::canonicalize(binary)
            .with_context(|| format!("no service at {}: build it first", binary.display()))?;
        let arguments =
            if arguments.is_empty() { vec!["serve".to_owned()] } else { arguments.to_vec() };
        let data = tempfile::Builder::new().prefix("estafette-crash-").tempdir()?;
        let (settings, ports) = (Vec::new(), free_ports()?);
        Ok(Self { binary, arguments, settings, data, ports, child: None })
    }

    /// The same with settings of its own: names of environment variables and their values.
    pub(crate) fn with(mut self, settings: &[(&str, &str)]) -> Self {
        let owned = settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        self.settings.extend(owned);
        self
    }

    /// Base address of the sandbox.
    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.ports[1])
    }

    /// The same of live.
    pub(crate) fn live_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.ports[0])
    }

    /// Starts the service and waits until it is ready; how long that took.
    ///
    /// # Errors
    /// When it ends or is not ready in 30 s; the end of its log is in the error.
    pub(crate) async fn start(&mut self) -> Result<Duration> {
        let log = File::options().create(true).append(true).open(self.log())?;
        let begin = stopwatch::now();
        let mut command = self.command();
        command.args(&self.arguments).stdout(log.try_clone()?).stderr(log).kill_on_drop(true);
        let mut child = command.spawn().context("cannot start the service")?;
        let api = Api::new(&self.url(), vec![String::new()])?;
        let ready = await_ready(&mut child, &api, begin).await;
        self.child = Some(child);
        match ready {
            Ok(()) => Ok(begin.elapsed()),
            Err(error) => Err(error.context(format!("its log ends: {}", self.log_end()))),
        }
    }

    /// SIGKILL, and the process is gone when this returns.
    ///
    /// # Errors
    /// When there was none to kill.
    pub(crate) async fn kill(&mut self) -> Result<()> {
        let mut child = self.child.take().context("the service is not running")?;
        if let Some(status) = child.try_wait()? {
            bail!("the service had ended by itself ({status}); its log ends: {}", self.log_end());
        }
        child.kill().await.context("cannot kill the service")
    }

    /// Sends a signal such as `STOP` or `CONT`.
    ///
    /// # Errors
    /// When the service does not run.
    pub(crate) async fn signal(&self, signal: &str) -> Result<()> {
        let pid = self.child.as_ref().and_then(Child::id).context("the service is not running")?;
        let told = Command::new("sh").args(["-c", &format!("kill -{signal} {pid}")]).status();
        ensure!(told.await?.success(), "cannot send SIG{signal}");
        Ok(())
    }

    /// SIGTERM; whether it ended in an orderly way in time.
    ///
    /// # Errors
    /// When no signal can be sent.
    pub(crate) async fn stop(&mut self) -> Result<bool> {
        self.signal("TERM").await?;
        let mut child = self.child.take().context("the service is not running")?;
        if let Ok(status) = tokio::time::timeout(STOP, child.wait()).await {
            return Ok(status?.success());
        }
        child.kill().await?;
        Ok(false)
    }

    /// The process that runs now.
    ///
    /// # Errors
    /// When none does.
    pub(crate) fn pid(&self) -> Result<u32> {
        self.child.as_ref().and_then(Child::id).context("the service is not running")
    }

    /// Makes an account with credits through the command line; its sandbox API key.
    ///
    /// # Errors
    /// When a command fails or answers something else.
    pub(crate) async fn make_account(&self) -> Result<String> {
        let account = self.json(&["account", "add", "--email", "crash@example.com", "--json"]);
        let account = account.await?;
        let id = account.pointer("/accounts/sandbox").and_then(Value::as_str);
        self.fund(id.context("account add: no accounts.sandbox")?).await
    }

    /// Gives an account credits; an API key of it.
    ///
    /// # Errors
    /// When a command fails or answers something else.
    pub(crate) async fn fund(&self, id: &str) -> Result<String> {
        self.json(&["credits", "add", "--account", id, "--amount", CREDITS, "--json"]).await?;
        let key = self.json(&["key", "add", "--account", id, "--name", "crash", "--json"]).await?;
        let key = key.get("api_key").and_then(Value::as_str);
        Ok(key.context("key add: no api_key")?.to_owned())
    }

    /// `audit --json`: whether it exits with 0, and what it says.
    ///
    /// # Errors
    /// When it cannot be run.
    pub(crate) async fn audit(&self) -> Result<(bool, Value)> {
        let output = self.command().args(["audit", "--json"]).output().await?;
        let says = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| {
            Value::String(String::from_utf8_lossy(&output.stderr).trim().to_owned())
        });
        Ok((output.status.success(), says))
    }

    /// Keeps the data directory for a look afterwards.
    pub(crate) fn keep(&mut self) -> PathBuf {
        self.data.disable_cleanup(true);
        self.data.path().to_owned()
    }

    fn log(&self) -> PathBuf {
        self.data.path().join("service.log")
    }

    fn log_end(&self) -> String {
        let log = fs::read_to_string(self.log()).unwrap_or_default();
        let lines: Vec<_> = log.lines().rev().take(5).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join(" | ")
    }

    async fn json(&self, arguments: &[&str]) -> Result<Value> {
        self.json_said(arguments, "").await
    }

    /// A command that reads what is said; what it answers.
    ///
    /// # Errors
    /// When it fails or answers something else.
    pub(crate) async fn json_said(&self, arguments: &[&str], said: &str) -> Result<Value> {
        let mut command = self.command();
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::piped()).spawn()?;
        // Dropped at once: that is the end of what is said.
        let mut stdin = child.stdin.take().context("no stdin")?;
        stdin.write_all(said.as_bytes()).await?;
        drop(stdin);
        let output = child.wait_with_output().await?;
        let what = arguments.iter().take(2).copied().collect::<Vec<_>>().join(" ");
        let says = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "`{what}` failed: {}", says.trim());
        serde_json::from_slice(&output.stdout).with_context(|| format!("`{what}`: no JSON"))
    }

    fn command(&self) -> Command {
        let [live, sandbox, metrics] = self.ports.map(|port| format!("127.0.0.1:{port}"));
        let mut command = Command::new(&self.binary);
        command
            .current_dir(self.data.path())
            .env("ESTAFETTE__DATA_DIR", self.data.path().join("data"))
            .env("ESTAFETTE__SERVER__LIVE", live)
            .env("ESTAFETTE__SERVER__SANDBOX", sandbox)
            .env("ESTAFETTE__SERVER__METRICS", metrics)
            .env("ESTAFETTE__OTP__RECEIPT_WAIT_MS", "50")
            .env("ESTAFETTE__LIMITS__SEND_PER_S", "1000000")
            .env("ESTAFETTE__LIMITS__READ_PER_S", "1000000")
            .envs(self.settings.iter().map(|(name, value)| (name, value)))
            .env("ESTAFETTE__SERVER__MAX_CONNECTIONS_PER_ADDRESS", "100000")
            .stdin(Stdio::null());
        command
    }
}

async fn await_ready(child: &mut Child, api: &Api, begin: Instant) -> Result<()> {
    let mut out = Vec::new();
    api.get(&mut out, 0, "/readyz")?;
    let mut conn = Conn::new(&api.address);
    while begin.elapsed() < START {
        if matches!(conn.call(&out).await, Ok(reply) if reply.status == 200) {
            return Ok(());
        }
        if let Some(status) = child.try_wait()? {
            bail!("the service ended before it was ready ({status})");
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    bail!("the service was not ready in {} s", START.as_secs())
}

/// Three free ports below the range that outgoing connections take theirs from: while the
/// service is dead, nothing else may move in.
fn free_ports() -> Result<[u16; 3]> {
    // Each call looks behind what the calls before it took but do not listen on yet.
    static TAKEN: AtomicU16 = AtomicU16::new(0);
    let first = 20_000 + u16::try_from(std::process::id() % 10_000)?;
    let first = first + TAKEN.fetch_add(20, Ordering::Relaxed);
    let mut free =
        (first..first + 2_000).filter(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok());
    let mut take = || free.next().context("no free port");
    Ok([take()?, take()?, take()?])
}
