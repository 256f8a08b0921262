//! The service under test, one account of it, and what is asked of both over HTTP.

use std::{
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::{
    api::{self, Api, Send},
    crash::server::Server,
    numbers::Numbers,
    stopwatch,
    wire::Conn,
};

/// Who is who in a run.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// Starts a service whose webhooks may go to this machine.
///
/// # Errors
/// When it does not start.
pub(crate) async fn serve(binary: &Path, database: Option<&str>) -> Result<Server> {
    let key = "5a".repeat(32);
    let mut settings = vec![
        ("ESTAFETTE__WEBHOOKS__ALLOW_HTTP", "true"),
        ("ESTAFETTE__WEBHOOKS__ALLOW_NETWORKS", "[\"127.0.0.0/8\"]"),
        ("ESTAFETTE__LIMITS__GUEST_PER_MIN", "1000000"),
    ];
    if let Some(database) = database {
        settings.push(("ESTAFETTE__DATABASE__URL", database));
        settings.push(("ESTAFETTE__MASTER_KEY", &key));
    }
    let mut server = Server::new(binary, &[])?.with(&settings);
    server.start().await?;
    Ok(server)
}

/// An account: what its people and its programs do.
#[derive(Debug, Clone)]
pub(crate) struct Tenant {
    pub(crate) api: Api,
    token: String,
    numbers: Numbers,
    next: Arc<AtomicU64>,
}

/// What was sent, and when the answer was there.
pub(crate) type Acks = Arc<Mutex<Vec<(String, Instant)>>>;

impl Tenant {
    /// Signs up at the sandbox.
    ///
    /// # Errors
    /// When the service answers anything else than 200.
    pub(crate) async fn sign_up(url: &str, seed: u64) -> Result<Self> {
        let who = NEXT.fetch_add(1, Ordering::Relaxed);
        let email = format!("webhooks-{seed}-{who}@example.com");
        let api = Api::new(url, vec![String::new()])?;
        let mut tenant = Self {
            api,
            token: String::new(),
            numbers: Numbers::new(seed.wrapping_add(who)),
            next: Arc::default(),
        };
        let body = json!({"email": email, "password": "correct horse battery"});
        let made = tenant.desk("POST", "/v1/auth/signup", Some(body)).await?;
        tenant.token = text(&made, "token")?;
        let made = tenant.desk("POST", "/v1/api-keys", Some(json!({"name": "load"}))).await?;
        tenant.api = Api::new(url, vec![text(&made, "api_key")?])?;
        Ok(tenant)
    }

    /// Names a target for passcodes; its id.
    ///
    /// # Errors
    /// When the service refuses it.
    pub(crate) async fn hook(&self, url: &str) -> Result<String> {
        let body = json!({"url": url, "events": ["otp.status"]});
        text(&self.desk("POST", "/v1/webhooks", Some(body)).await?, "id")
    }

    /// A request of the account's owner that must be answered with 200.
    ///
    /// # Errors
    /// When it is not.
    pub(crate) async fn desk(
        &self,
        method: &str,
        path: &str,
        body: Option<Value>,
    ) -> Result<Value> {
        let (reply, _) = self.page(method, path, body).await?;
        Ok(reply)
    }

    async fn page(
        &self,
        method: &str,
        path: &str,
        body: Option<Value>,
    ) -> Result<(Value, Option<String>)> {
        let body = body.map(|body| body.to_string()).unwrap_or_default();
        let address = &self.api.address;
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            self.token,
            body.len()
        );
        let reply = Conn::new(address).call(request.as_bytes()).await?;
        let said = String::from_utf8_lossy(&reply.body).into_owned();
        ensure!(reply.status == 200, "{method} {path}: {} {said}", reply.status);
        let link = reply.link.clone();
        Ok((serde_json::from_str(&said)?, link))
    }

    /// The ids of all events of the account.
    ///
    /// # Errors
    /// When they cannot be read.
    pub(crate) async fn events(&self) -> Result<Vec<String>> {
        let mut path = "/v1/events?limit=200".to_owned();
        let mut ids = Vec::new();
        loop {
            let (page, link) = self.page("GET", &path, None).await?;
            for event in page.as_array().context("no array")? {
                ids.push(text(event, "id")?);
            }
            let next = link.as_deref().and_then(|link| link.strip_prefix('<'));
            let Some((next, _)) = next.and_then(|link| link.split_once('>')) else {
                return Ok(ids);
            };
            next.clone_into(&mut path);
        }
    }

    /// When an event happened.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(crate) async fn time_of(&self, event: &str) -> Result<String> {
        text(&self.desk("GET", &format!("/v1/events/{event}"), None).await?, "timestamp")
    }

    /// Sends `count` passcodes over `clients` connections, as fast as they are answered.
    ///
    /// # Errors
    /// When one is refused.
    pub(crate) async fn send_all(&self, count: u64, clients: u64) -> Result<Acks> {
        let (acks, left) = (Acks::default(), Arc::new(AtomicU64::new(count)));
        let tasks: Vec<_> = (0..clients)
            .map(|_| {
                let (tenant, acks, left) = (self.clone(), Arc::clone(&acks), Arc::clone(&left));
                tokio::spawn(async move {
                    let mut conn = Conn::new(&tenant.api.address);
                    while left
                        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1))
                        .is_ok()
                    {
                        tenant.send(&mut conn, &acks).await?;
                    }
                    anyhow::Ok(())
                })
            })
            .collect();
        for task in tasks {
            task.await??;
        }
        Ok(acks)
    }

    /// Sends at a steady rate for some time; a send that is late does not delay the next.
    ///
    /// # Errors
    /// When one is refused.
    pub(crate) async fn send_at(&self, per_s: u64, seconds: f64) -> Result<Acks> {
        let acks = Acks::default();
        let begin = stopwatch::now();
        let end = begin + Duration::from_secs_f64(seconds);
        let pause = Duration::from_secs(1) / u32::try_from(per_s.max(1))?;
        let clients = per_s.clamp(1, 256);
        let turn = Arc::new(AtomicU64::new(0));
        let tasks: Vec<_> = (0..clients)
            .map(|_| {
                let (tenant, acks, turn) = (self.clone(), Arc::clone(&acks), Arc::clone(&turn));
                tokio::spawn(async move {
                    let mut conn = Conn::new(&tenant.api.address);
                    loop {
                        let mine = u32::try_from(turn.fetch_add(1, Ordering::Relaxed))?;
                        let at = begin + pause * mine;
                        if at >= end {
                            return anyhow::Ok(());
                        }
                        tokio::time::sleep_until(at.into()).await;
                        tenant.send(&mut conn, &acks).await?;
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await??;
        }
        Ok(acks)
    }

    /// One passcode; noted if it was answered with 200.
    ///
    /// # Errors
    /// When it was answered with anything else.
    pub(crate) async fn send(&self, conn: &mut Conn, acks: &Acks) -> Result<()> {
        let index = self.next.fetch_add(1, Ordering::Relaxed);
        // Its events would be counted, and are not what the target listens for.
        let request_messaging_consent = Some(false);
        let to = self.numbers.plain(index);
        let send = Send { to, request_messaging_consent, ..Send::default() };
        let mut out = Vec::with_capacity(512);
        self.api.send(&mut out, index, &send, None)?;
        let reply = conn.call(&out).await?;
        let at = stopwatch::now();
        let said = || String::from_utf8_lossy(&reply.body).into_owned();
        ensure!(reply.status == 200, "a send was answered with {}: {}", reply.status, said());
        let challenge = api::challenge(&reply.body).context("a send without a challenge")?;
        acks.lock().unwrap_or_else(PoisonError::into_inner).push((challenge.id, at));
        Ok(())
    }
}

fn text(value: &Value, name: &str) -> Result<String> {
    let found = value.get(name).and_then(Value::as_str);
    Ok(found.with_context(|| format!("no {name} in {value}"))?.to_owned())
}
