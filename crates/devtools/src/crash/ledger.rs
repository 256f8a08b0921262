//! Looks through the account's whole ledger for messages that were paid more than once.

use std::collections::HashMap;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::check::Findings;
use crate::{api::Api, wire::Conn};

/// A line of the ledger.
#[derive(Deserialize)]
struct Line {
    kind: String,
    object_id: String,
}

/// Holds and posts of one SMS. A passcode that is resent or falls back has several.
#[derive(Default)]
struct Paid {
    holds: u64,
    posts: u64,
}

/// Reads all of it.
///
/// # Errors
/// When the service does not answer.
pub(crate) async fn sweep(api: &Api) -> Result<Findings> {
    let mut conn = Conn::new(&api.address);
    let (mut out, mut paid) = (Vec::new(), HashMap::<String, Paid>::new());
    let mut path = "/v1/ledger?limit=200".to_owned();
    loop {
        api.get(&mut out, 0, &path)?;
        let reply = conn.call(&out).await.context("the ledger is not answered")?;
        let lines: Vec<Line> = serde_json::from_slice(&reply.body).context("no ledger")?;
        for line in &lines {
            count(&mut paid, line);
        }
        match reply.link.as_deref().and_then(next) {
            Some(next) => path = next,
            None => return Ok(judge(&paid)),
        }
    }
}

fn count(paid: &mut HashMap<String, Paid>, line: &Line) {
    if line.object_id.starts_with("sms_") {
        let paid = paid.entry(line.object_id.clone()).or_default();
        paid.holds += u64::from(line.kind == "hold");
        paid.posts += u64::from(line.kind == "post");
    }
}

fn judge(paid: &HashMap<String, Paid>) -> Findings {
    let mut findings = Findings { checks: paid.len() as u64, ..Findings::default() };
    for (id, Paid { holds, posts }) in paid {
        if *holds > 1 || *posts > 1 {
            findings.charged_twice += 1;
            findings.name(format!("{id} has {holds} holds and {posts} posts"));
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

    use super::{Line, count, judge, next};

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
        assert!(judge(&paid).clean());
        count(&mut paid, &Line { kind: "hold".to_owned(), object_id: "sms_2".to_owned() });
        assert_eq!(judge(&paid).charged_twice, 1);
    }

    #[test]
    fn a_link_leads_on() {
        let link = "</v1/ledger?limit=200&cursor=abc>; rel=\"next\"";
        assert_eq!(next(link).as_deref(), Some("/v1/ledger?limit=200&cursor=abc"));
    }
}
