//! A stand-in for the service: just enough of its contract to prove that the drivers measure and
//! catch what they should. State is a journal file, written before every answer.
//! `FAKE_FAULT=lose` forgets every 7th send at a restart, `double` forgets idempotency keys,
//! `guess` counts guesses wrongly, `limit` refuses every 50th send, `hasty` (no fault, but what the
//! service does, too) gives each client a second for its next bytes.
#![expect(clippy::print_stdout, reason = "the commands answer on stdout")]

use std::{
    collections::HashMap,
    env,
    fs::{self, File},
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};

#[derive(Default)]
struct Otp {
    to: String,
    code: String,
    attempts: u64,
    verified: bool,
}

struct Fake {
    otps: HashMap<String, Otp>,
    keys: HashMap<String, String>,
    journal: File,
    count: u64,
    fault: String,
}

type Answer = (u16, Value, bool);

fn var(name: &str) -> String {
    env::var_os(name).map(|value| value.to_string_lossy().into_owned()).unwrap_or_default()
}

fn main() -> Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.first().map_or("", String::as_str) {
        "account" => println!("{}", json!({"accounts": {"live": "acc_l", "sandbox": "acc_s"}})),
        "credits" => println!("{}", json!({"account_id": "acc_s", "balance_credits": 1})),
        "key" => println!("{}", json!({"api_key": "est_test_fake"})),
        "audit" => println!("{}", json!({"ok": true})),
        _ => return serve(),
    }
    Ok(())
}

fn serve() -> Result<()> {
    thread::spawn(stop_in_order);
    let listener = TcpListener::bind(var("ESTAFETTE__SERVER__SANDBOX"))?;
    let fake = Arc::new(Mutex::new(Fake::open()?));
    loop {
        let (stream, _) = listener.accept()?;
        let fake = Arc::clone(&fake);
        thread::spawn(move || talk(&fake, &stream));
    }
}

/// Ends with success at SIGTERM, as the service does.
fn stop_in_order() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        signal(SignalKind::terminate())?.recv().await;
        std::process::exit(0)
    })
}

fn talk(fake: &Mutex<Fake>, stream: &TcpStream) -> Result<()> {
    stream.set_nodelay(true)?;
    if var("FAKE_FAULT") == "hasty" {
        stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    }
    let (mut reader, mut writer) = (BufReader::new(stream.try_clone()?), stream.try_clone()?);
    loop {
        let (mut first, mut length, mut key) = (String::new(), 0, None);
        reader.read_line(&mut first)?;
        loop {
            let mut line = String::new();
            anyhow::ensure!(reader.read_line(&mut line)? > 0, "gone");
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            match name {
                "Content-Length" => length = value.parse()?,
                "Idempotency-Key" => key = Some(value.to_owned()),
                _ => {}
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
        let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
        let mut fake = fake.lock().map_err(|_| anyhow::anyhow!("poisoned"))?;
        let (status, answer, replayed) = fake.answer(&path, &body, key)?;
        drop(fake);
        let answer = answer.to_string();
        let head = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n", answer.len());
        let head = format!("{head}idempotent-replayed: {replayed}\r\n\r\n{answer}");
        writer.write_all(head.as_bytes())?;
    }
}

fn text(body: &Value, name: &str) -> String {
    body.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn problem(status: u16, code: &str) -> Answer {
    (status, json!({"code": code, "status": status}), false)
}

impl Fake {
    fn open() -> Result<Self> {
        let data = var("ESTAFETTE__DATA_DIR");
        fs::create_dir_all(&data)?;
        let path = format!("{data}/journal");
        let old = fs::read_to_string(&path).unwrap_or_default();
        let journal = File::options().create(true).append(true).open(path)?;
        let fault = var("FAKE_FAULT");
        let (otps, keys) = (HashMap::new(), HashMap::new());
        let mut fake = Self { otps, keys, journal, count: 0, fault };
        for line in old.lines().filter(|line| line.ends_with('.')) {
            let mut words = line.trim_end_matches('.').split(' ').map(str::to_owned);
            let mut word = || words.next().unwrap_or_default();
            let (id, to, code, key, verified) = (word(), word(), word(), word(), word());
            fake.count += 1;
            if fake.fault == "lose" && fake.count.is_multiple_of(7) {
                continue;
            }
            if fake.fault != "double" {
                fake.keys.insert(key, id.clone());
            }
            let verified = verified == "v";
            fake.otps.insert(id, Otp { to, code, attempts: 0, verified });
        }
        Ok(fake)
    }

    fn answer(&mut self, path: &str, body: &Value, key: Option<String>) -> Result<Answer> {
        match path {
            "/readyz" | "/livez" => Ok((200, json!({}), false)),
            "/v1/otp/send" => self.send("otp", body, key),
            "/v1/messages" => self.send("sms", body, key),
            "/v1/emails" => self.send("eml", body, key),
            "/v1/otp/verify" => self.verify(body),
            _ if path.starts_with("/v1/sandbox/") => Ok((200, json!([]), false)),
            _ if path.starts_with("/v1/ledger") || path.starts_with("/v1/chatapp/sessions") => {
                Ok((200, json!([]), false))
            }
            _ => {
                let id = path.rsplit('/').next().unwrap_or_default();
                let Some(otp) = self.otps.get(id) else { return Ok(problem(404, "not_found")) };
                let to = &otp.to;
                let member = if id.starts_with("otp_") { "challenge_id" } else { "id" };
                let read = json!({
                    member: id, "to": to, "attempts": otp.attempts, "status": "delivered",
                });
                Ok((200, read, false))
            }
        }
    }

    fn send(&mut self, kind: &str, body: &Value, key: Option<String>) -> Result<Answer> {
        let member = if kind == "otp" { "challenge_id" } else { "id" };
        if let Some(id) = key.as_ref().and_then(|key| self.keys.get(key)) {
            return Ok((200, json!({ member: id }), true));
        }
        self.count += 1;
        if self.fault == "limit" && self.count.is_multiple_of(50) {
            return Ok(problem(429, "rate_limited"));
        }
        let id = format!("{kind}_{:026}", self.count);
        // An email goes to a list.
        let one = body.pointer("/to/0").and_then(Value::as_str).map(str::to_owned);
        let (to, code) = (one.unwrap_or_else(|| text(body, "to")), text(body, "code"));
        let key = key.unwrap_or_else(|| format!("none-{id}"));
        // One write, so that a kill leaves a whole line or none.
        self.journal.write_all(format!("{id} {to} {code} {key} -.\n").as_bytes())?;
        self.keys.insert(key, id.clone());
        self.otps.insert(id.clone(), Otp { to, code, ..Otp::default() });
        Ok((200, json!({ member: id }), false))
    }

    fn verify(&mut self, body: &Value) -> Result<Answer> {
        let (id, code) = (text(body, "challenge_id"), text(body, "code"));
        let most = if self.fault == "guess" { 6 } else { 5 };
        let Some(otp) = self.otps.get_mut(&id) else { return Ok(problem(404, "not_found")) };
        if otp.verified {
            return Ok(problem(409, "otp_already_verified"));
        }
        if otp.attempts == most {
            return Ok(problem(410, "otp_attempts_exhausted"));
        }
        otp.attempts += 1;
        otp.verified = otp.code == code;
        match (otp.verified, otp.attempts == most) {
            (true, _) => {
                let line = format!("{id} {} {code} none-{id} v.\n", otp.to);
                self.journal.write_all(line.as_bytes()).context("journal")?;
                Ok((200, json!({"challenge_id": id, "verified": true}), false))
            }
            (false, true) => Ok(problem(410, "otp_attempts_exhausted")),
            (false, false) => Ok(problem(422, "otp_code_invalid")),
        }
    }
}
