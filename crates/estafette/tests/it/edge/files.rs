//! A process that may open few files: it cannot accept everybody, and says so without panting.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use tokio::net::TcpStream;

use super::wire::Raw;
use crate::world::eventually;

/// The program itself, with few files and places for more connections than that.
struct Poor {
    child: Child,
    sandbox: SocketAddr,
    metrics: SocketAddr,
}

impl Poor {
    fn start(folder: &Path) -> Self {
        let mut child = Command::new("sh")
            .args(["-c", "ulimit -n 80; exec \"$0\" serve --json", env!("CARGO_BIN_EXE_estafette")])
            .env("ESTAFETTE__DATA_DIR", folder)
            .env("ESTAFETTE__SERVER__LIVE", "127.0.0.1:0")
            .env("ESTAFETTE__SERVER__SANDBOX", "127.0.0.1:0")
            .env("ESTAFETTE__SERVER__METRICS", "127.0.0.1:0")
            .env("ESTAFETTE__SERVER__MAX_CONNECTIONS", "1000")
            .env("ESTAFETTE__SERVER__MAX_CONNECTIONS_PER_ADDRESS", "1000")
            .env("ESTAFETTE__SERVER__HEADER_TIMEOUT_MS", "1500")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let stdout = child.stdout.take().unwrap();
        let mut told = serde_json::Deserializer::from_reader(stdout).into_iter::<Value>();
        let told = told.next().expect("it tells where it listens").unwrap();
        let address = |name: &str| {
            let url = told[name].as_str().unwrap().trim_start_matches("http://");
            url.trim_end_matches("/metrics").parse().unwrap()
        };
        Self { child, sandbox: address("sandbox"), metrics: address("metrics") }
    }

    /// CPU time so far, in hundredths of a second (proc(5), "stat").
    fn ticks(&self) -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        let (_, rest) = stat.rsplit_once(')').unwrap();
        let fields: Vec<&str> = rest.split_whitespace().collect();
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    }

    async fn get(address: SocketAddr, path: &str) -> Option<String> {
        let mut raw = Raw::over(TcpStream::connect(address).await.ok()?);
        raw.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")).await;
        let (bytes, _) = raw.rest().await;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }
}

impl Drop for Poor {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_files_it_waits_quietly_and_serves_when_there_are_some_again() {
    let folder = tempfile::tempdir().unwrap();
    let poor = Poor::start(folder.path());
    let mut silent = vec![];
    for _ in 0..150 {
        silent.push(TcpStream::connect(poor.sandbox).await.unwrap());
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    let before = poor.ticks();
    tokio::time::sleep(Duration::from_millis(800)).await;
    let spent = poor.ticks() - before;
    assert!(spent < 20, "{spent} hundredths of a second of CPU in 0.8 s of waiting");
    drop(silent);
    eventually(async || {
        let answer = Poor::get(poor.sandbox, "/livez").await?;
        answer.starts_with("HTTP/1.1 200").then_some(())
    })
    .await;
    let page = Poor::get(poor.metrics, "/metrics").await.unwrap();
    let refused = "estafette_connections_refused_total{reason=\"accept_error\"}";
    assert!(page.contains(refused), "{page}");
}
