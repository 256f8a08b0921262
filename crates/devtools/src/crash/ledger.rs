//! Looks through the account's whole ledger for messages that were paid more than once.

use std::collections::HashMap;

use anyhow::{Context, Result};
use serde::{Deserialize, de::DeserializeOwned};

use super::check::Findings;
use crate::{api::Api, wire::Conn};

/// A line of the ledger.
#[derive(Deserialize)]
struct Line {
    kind: String,
    object_id: String,
}

/// Holds and posts of one SMS, email or session. A passcode that is resent has several.
#[derive(Default)]
struct Paid {
    holds: u64,
    posts: u64,
}

/// A consent session.
#[derive(Deserialize)]
struct Session {
    id: String,
    consent_status: String,
    status: String,
    billed_credits: i64,
}

/// Reads all of it.
///
/// # Errors
/// When the service does not answer.
pub(crate) async fn sweep(api: &Api) -> Result<Findings> {
    let mut paid = HashMap::<String, Paid>::new();
    for line in all::<Line>(api, "/v1/ledger?limit=200").await? {
        count(&mut paid, &line);
    }
    let sessions = all::<Session>(api, "/v1/chatapp/sessions?limit=200").await?;
    Ok(judge(&paid, &sessions))
}

/// All pages of a list.
async fn all<T: DeserializeOwned>(api: &Api, path: &str) -> Result<Vec<T>> {
    let mut conn = Conn::new(&api.address);
    let (mut out, mut all, mut path) = (Vec::new(), Vec::new(), path.to_owned());
    loop {
        api.get(&mut out, 0, &path)?;
        let reply = conn.call(&out).await.with_context(|| format!("{path} is not answered"))?;
        let page: Vec<T> = serde_json::from_slice(&reply.body).context("no list")?;
        all.extend(page);
        match reply.link.as_deref().and_then(next) {
            Some(next) => path = next,
            None => return Ok(all),
        }
    }
}

fn count(paid: &mut HashMap<String, Paid>, line: &Line) {
    if ["sms_", "ses_", "eml_"].iter().any(|kind| line.object_id.starts_with(kind)) {
        let paid = paid.entry(line.object_id.clone()).or_default();
        paid.holds += u64::from(line.kind == "hold");
        paid.posts += u64::from(line.kind == "post");
    }
}

fn judge(paid: &HashMap<String, Paid>, sessions: &[Session]) -> Findings {
    let checks = (paid.len() + sessions.len()) as u64;
    let mut findings = Findings { checks, ..Findings::default() };
    for (id, Paid { holds, posts }) in paid {
        if *holds > 1 || *posts > 1 {
            findings.charged_twice += 1;
            findings.name(format!("{id} has {holds} holds and {posts} posts"));
        }
    }
    for Session { id, consent_status, status, billed_credits } in sessions {
        let is_open = status == "active";
        let posts = paid.get(id).map_or(0, |paid| paid.posts);
        findings.sessions += u64::from(is_open);
        let is_paid = posts > 0 && *billed_credits > 0 && consent_status == "yes";
        let is_free = posts == 0 && *billed_credits == 0;
        if !is_paid && (is_open || !is_free) {
            findings.unpaid += 1;
            findings.name(format!("{id} is {status}, billed {billed_credits}, {posts} posts"));
        }
    }
    findings
}

/// The path in a `Link` header.
fn next(link: &str) -> Option<String> {
    Some(link.strip_prefix('<')?.split('>').next()?.to_owned())
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::{Line, Session, count, judge, next};

    #[test]
    fn an_sms_that_is_paid_twice_is_found() {
        let mut paid = HashMap::new();
        for (kind, id) in [
            ("hold", "sms_1"),
            ("post", "sms_1"),
            ("hold", "otp_1"),
            ("hold", "otp_1"),
            ("hold", "sms_2"),
        ] {
            count(&mut paid, &Line { kind: kind.to_owned(), object_id: id.to_owned() });
        }
        assert!(judge(&paid, &[]).clean());
        count(&mut paid, &Line { kind: "hold".to_owned(), object_id: "sms_2".to_owned() });
        assert_eq!(judge(&paid, &[]).charged_twice, 1);
    }

    #[test]
    fn a_session_that_is_open_and_not_paid_is_found() {
        let mut paid = HashMap::new();
        count(&mut paid, &Line { kind: "post".to_owned(), object_id: "ses_1".to_owned() });
        let session = |id: &str, status: &str, billed_credits| Session {
            id: id.to_owned(),
            consent_status: "yes".to_owned(),
            status: status.to_owned(),
            billed_credits,
        };
        let paid_for = [session("ses_1", "active", 10), session("ses_2", "failed", 0)];
        let found = judge(&paid, &paid_for);
        assert!(found.clean() && found.sessions == 1);
        for wrong in [session("ses_2", "active", 10), session("ses_1", "pending", 0)] {
            assert_eq!(judge(&paid, &[wrong]).unpaid, 1);
        }
    }

    #[test]
    fn a_link_leads_on() {
        let link = "</v1/ledger?limit=200&cursor=abc>; rel=\"next\"";
        assert_eq!(next(link).as_deref(), Some("/v1/ledger?limit=200&cursor=abc"));
    }
}
