//! The program as operators start it: which directory it uses, who may serve from it, and what it
//! does while its database is away. Real processes, killed with SIGKILL.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::world::{Answer, Call, Database, eventually, postgres};

/// The program with settings that touch nothing of this machine.
pub fn estafette(data_dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_estafette"));
    command.env_clear().arg("--data-dir").arg(data_dir);
    command
}

/// Runs a command to its end.
pub fn run(data_dir: &Path, arguments: &[&str]) -> Output {
    estafette(data_dir).args(arguments).output().unwrap()
}

/// What a command answered with `--json`.
pub fn answer(data_dir: &Path, arguments: &[&str]) -> Value {
    let done = estafette(data_dir).args(arguments).arg("--json").output().unwrap();
    assert!(done.status.success(), "{arguments:?}: {}", told(&done));
    serde_json::from_slice(&done.stdout).unwrap()
}

/// What a command said on the error output.
pub fn told(done: &Output) -> String {
    String::from_utf8_lossy(&done.stderr).into_owned()
}

/// A `serve` on free ports, killed when it is dropped.
pub struct Serving {
    child: Child,
    pub at: Value,
    http: reqwest::Client,
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

impl Serving {
    /// Starts it and waits until it says where it answers.
    pub fn on(data_dir: &Path) -> Self {
        Self::of(estafette(data_dir))
    }

    /// The same with a command that has settings of its own.
    pub fn of(mut command: Command) -> Self {
        command.args(["serve", "--json", "--live", "127.0.0.1:0", "--sandbox", "127.0.0.1:0"]);
        command.args(["--metrics", "127.0.0.1:0"]).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        if line.is_empty() {
            let done = child.wait_with_output().unwrap();
            panic!("serve ended: {}", told(&done));
        }
        Self { child, at: serde_json::from_str(&line).unwrap(), http: reqwest::Client::new() }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// A request to the sandbox on a connection of its own; `None` when none is accepted.
    pub async fn ask(&self, path: &str) -> Option<(u16, String)> {
        let url = format!("{}{path}", self.at["sandbox"].as_str().unwrap());
        let answer = reqwest::Client::new().get(url).send().await.ok()?;
        Some((answer.status().as_u16(), answer.text().await.ok()?))
    }

    /// Tells it to stop, as a supervisor does.
    pub fn terminate(&self) {
        let told = Command::new("kill").arg(self.id().to_string()).status().unwrap();
        assert!(told.success());
    }

    /// Its exit code and what it said on the error output, once it has ended.
    pub fn end(mut self) -> (Option<i32>, String) {
        let mut said = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        (self.child.wait().unwrap().code(), said)
    }

    /// A request to the sandbox.
    pub async fn get(&self, path: &str) -> Answer {
        let url = format!("{}{path}", self.at["sandbox"].as_str().unwrap());
        Call::new(self.http.get(url)).await
    }
}

#[test]
fn the_dry_run_of_a_gateway_sends_nothing_and_tells_no_password() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("estafette.toml");
    for (preset, wanted) in [("twilio", "Body=hello"), ("kannel", "text=hello")] {
        // Nobody listens there: whoever sent something would fail.
        let text = format!(
            "[sms.carriers.main]\nkind = 'http'\npreset = '{preset}'\nusername = 'AC1'\n\
             password = 'hunter two'\nbase_url = 'http://127.0.0.1:1'\n\
             callback_token = 'hunter three'\n"
        );
        std::fs::write(&config, text).unwrap();
        let check = ["carriers", "check", "main", "--config"];
        let done = estafette(folder.path()).args(check).arg(&config).output().unwrap();
        let said = String::from_utf8_lossy(&done.stdout).into_owned();
        assert!(done.status.success(), "{preset}: {}", told(&done));
        assert!(said.contains(wanted) && said.contains("Nothing was sent."), "{said}");
        let login = STANDARD.encode("AC1:hunter two");
        assert!(said.contains("token%3D***") || said.contains("token%3D%2A%2A%2A"), "{said}");
        let is_told = |text: &str| text.contains("hunter") || text.contains(&login);
        assert!(!is_told(&said) && !is_told(&told(&done)), "{said}");
        let long = "long ".repeat(1_000);
        for wrong in [["--to", "12345"], ["--to", ""], ["--text", " "], ["--text", &long]] {
            let done = estafette(folder.path()).args(check).arg(&config).args(wrong).output();
            let done = done.unwrap();
            assert_eq!(done.status.code(), Some(1), "{wrong:?}");
            assert!(told(&done).contains(wrong[0]), "{}", told(&done));
        }
    }
}

#[test]
fn with_json_an_error_is_an_object_on_the_error_output() {
    let folder = tempfile::tempdir().unwrap();
    for (arguments, code, said) in [
        (&["audit", "--json"][..], 1, "there is no database"),
        (&["--json", "serve", "--config", "/nowhere.toml"], 1, "/nowhere.toml"),
        (&["audit", "--json", "--sent"], 2, "--sent"),
        (&["account", "add", "--json"], 2, "--email"),
    ] {
        let done = run(folder.path(), arguments);
        assert_eq!(done.status.code(), Some(code), "{arguments:?}");
        let error: Value =
            serde_json::from_slice(&done.stderr).unwrap_or_else(|_| panic!("{}", told(&done)));
        let text = error["error"].as_str().unwrap();
        assert!(text.contains(said) && !text.starts_with("error"), "{arguments:?}: {text}");
        assert!(done.stdout.is_empty(), "{arguments:?}");
    }
    let help = run(folder.path(), &["audit", "--json", "--help"]);
    assert!(help.status.success() && help.stderr.is_empty() && !help.stdout.is_empty());
}

#[test]
fn with_json_nothing_is_logged_beside_the_error() {
    let folder = tempfile::tempdir().unwrap();
    let audit = |more: &[&str]| {
        let mut command = estafette(folder.path());
        command.args(["audit", "--database-url", "postgres://estafette@127.0.0.1:1/none"]);
        command.args(more).env("ESTAFETTE__MASTER_KEY", "6e".repeat(32)).output().unwrap()
    };
    // A command may end before the connection that failed beside it is logged.
    let is_logged = |_| told(&audit(&[])).contains("the database cannot be reached");
    assert!((0..20).any(is_logged), "without --json it is logged");
    let done = audit(&["--json"]);
    let error: Value =
        serde_json::from_slice(&done.stderr).unwrap_or_else(|_| panic!("{}", told(&done)));
    assert!(error["error"].as_str().unwrap().contains("estafette doctor"), "{error}");
    assert_eq!((done.status.code(), done.stdout.len()), (Some(1), 0));
}

#[test]
fn commands_without_a_database_say_where_they_looked_and_make_none() {
    let folder = tempfile::tempdir().unwrap();
    let nowhere = folder.path().join("mistyped");
    let account = "acc_01h455vb4pex5vsknk084sn02q";
    let copy = folder.path().join("copy.db");
    for arguments in [
        &["audit"][..],
        &["backup", copy.to_str().unwrap()],
        &["compact"],
        &["erase", "--recipient", "+33612345678"],
        &["staff", "add", "--email", "ops@example.com"],
        &["account", "add", "--email", "ada@example.com"],
        &["credits", "add", "--account", account, "--amount", "5"],
        &["key", "add", "--account", account, "--name", "shop"],
    ] {
        for is_there in [false, true] {
            let place = if is_there { folder.path() } else { nowhere.as_path() };
            let done = run(place, arguments);
            assert_eq!(done.status.code(), Some(1), "{arguments:?}");
            let file = place.join("estafette.db");
            assert!(told(&done).contains(file.to_str().unwrap()), "{arguments:?}: {}", told(&done));
            assert!(told(&done).contains("--data-dir"), "{arguments:?}: {}", told(&done));
            assert!(done.stdout.is_empty(), "{arguments:?}");
            let left: Vec<_> = folder.path().read_dir().unwrap().collect();
            assert!(left.is_empty(), "{arguments:?} made {left:?}");
        }
    }
    // The control: where there is one, it is used.
    answer(folder.path(), &["migrate"]);
    assert_eq!(answer(folder.path(), &["audit"])["ok"], true);
}

#[test]
fn a_taken_address_is_named_and_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("new");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let free = "127.0.0.1:0";
    let done = run(&place, &["serve", "--live", &address, "--sandbox", free, "--metrics", free]);
    assert_eq!(done.status.code(), Some(1));
    for word in [address.as_str(), "server.live", "estafette doctor"] {
        assert!(told(&done).contains(word), "{}", told(&done));
    }
    assert!(!place.exists());
    drop(taken);
    let _serves = Serving::on(&place);
    assert!(place.join("estafette.db").exists());
}

#[test]
fn a_malformed_master_key_is_named_with_its_file() {
    let folder = tempfile::tempdir().unwrap();
    answer(folder.path(), &["migrate"]);
    let file = folder.path().join("master.key");
    std::fs::write(&file, "not a key").unwrap();
    for arguments in [&["serve"][..], &["account", "list"]] {
        let done = run(folder.path(), arguments);
        assert_eq!(done.status.code(), Some(1));
        assert!(told(&done).contains(file.to_str().unwrap()), "{}", told(&done));
        assert!(told(&done).contains("64 hexadecimal digits"), "{}", told(&done));
    }
}

#[test]
fn whoever_prepares_an_account_that_cannot_send_is_told() {
    let folder = tempfile::tempdir().unwrap();
    answer(folder.path(), &["migrate"]);
    let added = answer(folder.path(), &["account", "add", "--email", "ada@example.com"]);
    let account = added["accounts"]["live"].as_str().unwrap();
    let prepare = || {
        let key = run(folder.path(), &["key", "add", "--account", account, "--name", "shop"]);
        let grant = ["credits", "add", "--account", account, "--amount", "5"];
        [key, run(folder.path(), &grant)].map(|done| String::from_utf8(done.stdout).unwrap())
    };
    answer(folder.path(), &["account", "suspend", "--account", account]);
    let place = folder.path().display();
    let remedy = format!("estafette account activate --data-dir {place} --account {account}");
    for said in prepare() {
        assert!(said.contains("is suspended") && said.contains(&remedy), "{said}");
    }
    answer(folder.path(), &["account", "activate", "--account", account]);
    for said in prepare() {
        assert!(!said.contains("activate"), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_on_an_empty_server_say_where_they_looked() {
    let database = Database::empty().await;
    let folder = tempfile::tempdir().unwrap();
    let url = format!("{}/{}", postgres(), database.name);
    let on_server = |arguments: &[&str]| {
        estafette(folder.path())
            .args(arguments)
            .env("ESTAFETTE__DATABASE__URL", &url)
            .env("ESTAFETTE__MASTER_KEY", "5a".repeat(32))
            .output()
            .unwrap()
    };
    let refused = on_server(&["audit"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(told(&refused).contains(&database.name), "{}", told(&refused));
    assert!(on_server(&["migrate"]).status.success());
    assert!(on_server(&["audit"]).status.success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_serve_names_the_first_which_a_kill_lets_go() {
    let folder = tempfile::tempdir().unwrap();
    let first = Serving::on(folder.path());
    let refused = run(folder.path(), &["serve", "--live", "127.0.0.1:0"]);
    assert_eq!(refused.status.code(), Some(1));
    let holder = format!("process id {}", first.id());
    assert!(told(&refused).contains(&holder), "{}", told(&refused));
    let place = folder.path().join("estafette.db");
    assert!(told(&refused).contains(place.to_str().unwrap()), "{}", told(&refused));
    // Every other command works beside it.
    let added = answer(folder.path(), &["account", "add", "--email", "ada@example.com"]);
    let account = added["accounts"]["live"].as_str().unwrap();
    let credits = answer(folder.path(), &["credits", "add", "--account", account, "--amount", "7"]);
    assert_eq!(credits["balance_credits"], 7);
    assert_eq!(answer(folder.path(), &["audit"])["ok"], true);
    let copy = folder.path().join("copy.db");
    answer(folder.path(), &["backup", copy.to_str().unwrap()]);
    assert_eq!(first.get("/readyz").await.status, 200);
    drop(first);
    let second = Serving::on(folder.path());
    assert_eq!(second.get("/readyz").await.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_is_announced_before_connections_are_refused() {
    for format in ["text", "json"] {
        let folder = tempfile::tempdir().unwrap();
        let mut command = estafette(folder.path());
        command.env("ESTAFETTE__LOG__FORMAT", format);
        command.env("ESTAFETTE__SERVER__DRAIN_ACCEPT_MS", "4000");
        command.env("ESTAFETTE_OTP_VALIDTY", "300");
        let serving = Serving::of(command);
        assert_eq!(serving.ask("/readyz").await, Some((200, "ready\n".to_owned())));
        serving.terminate();
        let draining = async |path: &str| {
            let (status, said) = serving.ask(path).await?;
            (status == 503 && said.contains("\"draining\"")).then_some(())
        };
        eventually(async || draining("/readyz").await).await;
        assert!(draining("/v1/me").await.is_some(), "accepted, and refused in words");
        eventually(async || serving.ask("/livez").await.is_none().then_some(())).await;
        let (code, said) = serving.end();
        assert_eq!(code, Some(0), "{said}");
        // A log of JSON lines has nothing else.
        let is_json = |line: &str| serde_json::from_str::<Value>(line).is_ok();
        assert!(format == "text" || said.lines().all(is_json), "{said}");
        let named = said.matches("ESTAFETTE_OTP_VALIDTY is not read").count();
        assert_eq!(named, 1, "{said}");
        let mut lines = said.lines();
        for word in ["serving", "not set up for live", "stopping", "stopped"] {
            let line = lines.find(|line| line.contains(word));
            let line = line.unwrap_or_else(|| panic!("no `{word}` in its place: {said}"));
            assert!(line.contains("INFO"), "{line}");
            if format == "json" {
                let line: Value = serde_json::from_str(line).unwrap();
                assert_eq!(line["message"], word, "{line}");
                assert_eq!(line["version"].is_string(), word == "serving", "{line}");
            }
        }
    }
}

/// At a terminal, who starts it reads first what it is, where, and how to begin.
#[test]
fn the_first_words_say_what_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = estafette(folder.path());
    for listener in ["LIVE", "SANDBOX", "METRICS"] {
        command.env(format!("ESTAFETTE__SERVER__{listener}"), "127.0.0.1:0");
    }
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let said: Vec<String> =
        lines.map(Result::unwrap).take_while(|line| !line.contains("serving")).collect();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(said[0].ends_with("one-time passcodes and messages, self-hosted"), "{said:?}");
    assert!(said[1].contains("sandbox") && said[1].contains("http://127.0.0.1:"), "{said:?}");
    assert!(said.iter().any(|line| line.starts_with("Start at http://")), "{said:?}");
}

#[test]
fn a_variable_that_looks_like_a_setting_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let config = |name: &str| estafette(folder.path()).arg("config").env(name, "300").output();
    let misspelt = ["ESTAFETTE_OTP_VALIDITY_S", "ESTAFETTEOTP_VALIDITY_S"];
    for name in misspelt.into_iter().chain(["estafette__otp__validity_s"]) {
        let refused = config(name).unwrap();
        assert_eq!(refused.status.code(), Some(1), "{name}");
        let said = told(&refused);
        let meant = format!("{name} is not read; did you mean ESTAFETTE__OTP__VALIDITY_S?");
        assert!(said.contains(&meant), "{said}");
        assert_eq!(said.lines().count(), 1, "it is told once: {said}");
    }
    let warned = config("ESTAFETTE_OTP_VALIDTY").unwrap();
    assert!(warned.status.success());
    assert!(told(&warned).contains("ESTAFETTE_OTP_VALIDTY is not read"), "{}", told(&warned));
    // Kubernetes gives these to every container beside a service called `estafette`.
    for name in ["ESTAFETTE__OTP__VALIDITY_S", "ESTAFETTE_SERVICE_HOST", "ESTAFETTE_PORT_80_TCP"] {
        assert_eq!(told(&config(name).unwrap()), "", "{name}");
    }
}

/// Leads a port of this machine to a server, and can cut all that goes through it.
struct Wire {
    task: JoinHandle<()>,
}

impl Wire {
    async fn on(port: u16, server: SocketAddr) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", port)).await.unwrap();
        let task = tokio::spawn(async move {
            let mut open = tokio::task::JoinSet::new();
            while let Ok((mut here, _)) = listener.accept().await {
                open.spawn(async move {
                    let mut there = TcpStream::connect(server).await.unwrap();
                    let _ended = tokio::io::copy_bidirectional(&mut here, &mut there).await;
                });
            }
        });
        Self { task }
    }

    async fn cut(self) {
        self.task.abort();
        let _ended = self.task.await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_waits_for_postgresql_and_says_so() {
    let database = Database::empty().await;
    let server = postgres();
    let (user, address) = server.trim_start_matches("postgres://").split_once('@').unwrap();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let own = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let sandbox = own.local_addr().unwrap();
    drop(own);
    let folder = tempfile::tempdir().unwrap();
    let log = std::fs::File::create(folder.path().join("log")).unwrap();
    let mut child = estafette(folder.path())
        .args(["serve", "--live", "127.0.0.1:0", "--metrics", "127.0.0.1:0", "--sandbox"])
        .arg(sandbox.to_string())
        .env(
            "ESTAFETTE__DATABASE__URL",
            format!("postgres://{user}@127.0.0.1:{port}/{}", database.name),
        )
        .env("ESTAFETTE__MASTER_KEY", "5a".repeat(32))
        .stderr(log)
        .spawn()
        .unwrap();
    let http = reqwest::Client::new();
    let ask = async |path: &str| http.get(format!("http://{sandbox}{path}")).send().await.ok();
    let status = async |path: &str| Some(ask(path).await?.status().as_u16());
    let says = |words: &str| {
        let log = std::fs::read_to_string(folder.path().join("log")).unwrap();
        log.contains(words).then_some(())
    };
    eventually(async || status("/livez").await.filter(|status| *status == 200)).await;
    assert_eq!(status("/readyz").await, Some(503));
    let refused = ask("/v1/me").await.unwrap();
    assert_eq!(refused.status(), 503);
    assert_eq!(refused.json::<Value>().await.unwrap()["code"], "storage_unavailable");
    eventually(async || says("waiting for the database")).await;
    assert!(child.try_wait().unwrap().is_none(), "it goes on waiting");
    // The server comes: nobody has to restart anything.
    let wire = Wire::on(port, address.parse().unwrap()).await;
    eventually(async || status("/readyz").await.filter(|status| *status == 200)).await;
    assert_eq!(ask("/v1/me").await.unwrap().status(), 401);
    // It goes and comes again.
    wire.cut().await;
    eventually(async || status("/readyz").await.filter(|status| *status == 503)).await;
    let wire = Wire::on(port, address.parse().unwrap()).await;
    eventually(async || status("/readyz").await.filter(|status| *status == 200)).await;
    assert!(child.try_wait().unwrap().is_none());
    child.kill().unwrap();
    child.wait().unwrap();
    wire.cut().await;
    tokio::time::sleep(Duration::from_millis(50)).await;
}

fn packaged(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging").join(name);
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn the_documented_install_has_one_data_directory() {
    let unit = packaged("estafette.service");
    let setting = |key: &str| {
        let lines = unit.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        lines.collect::<Vec<_>>()
    };
    let settings = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/estafette.toml");
    let config = estafette::config::load(
        Some(&settings),
        std::iter::empty(),
        estafette::config::Flags::default(),
    );
    let data_dir = config.unwrap().data_dir;
    let state = format!("/var/lib/{}", setting("StateDirectory")[0]);
    assert_eq!(data_dir, Path::new(&state), "the settings name the directory that the unit has");
    // What only the service knows, the commands beside it would not.
    assert!(setting("Environment").is_empty(), "{unit}");
    let start = setting("ExecStart")[0];
    assert_eq!(start, "/usr/bin/estafette --config /etc/estafette/estafette.toml serve");
    let operations = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operations.md");
    let operations = std::fs::read_to_string(operations).unwrap();
    assert!(operations.contains("estafette.toml /etc/estafette/estafette.toml"));
    assert_eq!(setting("StartLimitIntervalSec"), ["0"], "no count of restarts ends the service");
    assert_eq!(setting("Restart"), ["on-failure"]);
}
