//! The demo's HTTP client: makes a call, prints it as a person would type it, and shows the
//! answer.

use anyhow::{Context, bail};
use reqwest::Method;
use serde_json::{Value, json};

use crate::cli::output::Output;

/// What a call proves about its caller.
pub(super) enum Pass<'a> {
    /// Nothing.
    Nobody,
    /// A portal token.
    Token(&'a str),
    /// An API key.
    Key(&'a str),
}

impl Pass<'_> {
    fn header(&self) -> Option<(&'static str, String)> {
        match self {
            Self::Nobody => None,
            Self::Token(token) => Some(("Authorization", format!("Bearer {token}"))),
            Self::Key(key) => Some(("X-API-Key", (*key).to_owned())),
        }
    }
}

/// One call of the story.
pub(super) struct Call<'a> {
    /// What it is for, one sentence.
    pub(super) sentence: &'a str,
    pub(super) pass: Pass<'a>,
    pub(super) path: &'a str,
    /// A POST of this; without it a GET.
    pub(super) body: Option<Value>,
}

/// Somebody who uses the API for the first time.
pub(super) struct Visitor {
    http: reqwest::Client,
    base: String,
    output: Output,
    steps: Vec<Value>,
}

impl Visitor {
    pub(super) fn new(base: &str, output: Output) -> anyhow::Result<Self> {
        let http = reqwest::Client::builder()
            .no_proxy()
            .timeout(std::time::Duration::from_secs(20))
            .build()?;
        Ok(Self { http, base: base.to_owned(), output, steps: Vec::new() })
    }

    /// Steps so far.
    pub(super) fn count(&self) -> usize {
        self.steps.len()
    }

    /// What was done, for programs.
    pub(super) fn steps(&self) -> &[Value] {
        &self.steps
    }

    /// Makes a call that must succeed, and answers the JSON.
    pub(super) async fn call(&mut self, call: Call<'_>) -> anyhow::Result<Value> {
        let curl = self.curl(&call);
        let number = self.steps.len() + 1;
        self.output.tell(&format!("\n{number}. {}\n   $ {curl}", call.sentence));
        let (status, answer) = self.answer(&call).await.context("the service did not answer")?;
        self.output.tell(&shown(&answer));
        self.steps.push(json!({
            "step": number, "title": call.sentence, "curl": curl, "status": status,
            "answer": answer,
        }));
        if !(200..300).contains(&status) {
            bail!("{} answered {status}: {answer}", call.path);
        }
        Ok(answer)
    }

    async fn answer(&self, call: &Call<'_>) -> anyhow::Result<(u16, Value)> {
        let method = if call.body.is_some() { Method::POST } else { Method::GET };
        let mut request = self.http.request(method, format!("{}{}", self.base, call.path));
        if let Some((name, value)) = call.pass.header() {
            request = request.header(name, value);
        }
        if let Some(body) = &call.body {
            request = request.json(body);
        }
        let response = request.send().await?;
        let status = response.status().as_u16();
        let bytes = response.bytes().await?;
        let text = || Value::String(String::from_utf8_lossy(&bytes).into_owned());
        Ok((status, serde_json::from_slice(&bytes).unwrap_or_else(|_| text())))
    }

    fn curl(&self, call: &Call<'_>) -> String {
        let header = call.pass.header().map(|(name, value)| format!(" -H '{name}: {value}'"));
        let body = call.body.as_ref().map(|body| format!(" --json '{body}'"));
        let (header, body) = (header.unwrap_or_default(), body.unwrap_or_default());
        format!("curl -s {}{}{header}{body}", self.base, call.path)
    }
}

/// Indented JSON; of a list only the first two items.
fn shown(answer: &Value) -> String {
    let (head, rest) = match answer {
        Value::Array(items) if items.len() > 2 => {
            (Value::Array(items.iter().take(2).cloned().collect()), items.len() - 2)
        }
        other => (other.clone(), 0),
    };
    let text = format!("{head:#}").replace('\n', "\n   ");
    let more = if rest > 0 { format!("\n   … and {rest} more") } else { String::new() };
    format!("   {text}{more}")
}

/// The text at a pointer of an answer.
pub(super) fn text(answer: &Value, pointer: &str) -> anyhow::Result<String> {
    let found = answer.pointer(pointer).and_then(Value::as_str);
    found.map(str::to_owned).with_context(|| format!("the answer has no string at {pointer}"))
}

/// An answer must say exactly this.
pub(super) fn must_be(answer: &Value, pointer: &str, right: &Value) -> anyhow::Result<()> {
    match answer.pointer(pointer) {
        Some(found) if found == right => Ok(()),
        Some(found) => bail!("{pointer} must be {right}, is {found}"),
        None => bail!("{pointer} must be {right}, is missing"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lists_are_shortened_and_say_so() {
        let text = shown(&json!([1, 2, 3, 4]));
        assert!(text.contains('2') && !text.contains('3'));
        assert!(text.contains("and 2 more"));
    }

    #[test]
    fn an_answer_that_says_something_else_is_an_error() {
        let answer = json!({ "verified": true });
        assert!(must_be(&answer, "/verified", &json!(true)).is_ok());
        assert!(must_be(&answer, "/verified", &json!(false)).is_err());
        assert!(must_be(&answer, "/missing", &json!(true)).is_err());
        assert!(text(&answer, "/verified").is_err());
    }

    #[test]
    fn the_curl_is_what_a_person_would_type() {
        let visitor = Visitor::new("http://127.0.0.1:8081", Output::new(true)).unwrap();
        let call = Call {
            sentence: "",
            pass: Pass::Key("est_test_x"),
            path: "/v1/otp/send",
            body: Some(json!({ "to": "+33612345678" })),
        };
        assert_eq!(
            visitor.curl(&call),
            "curl -s http://127.0.0.1:8081/v1/otp/send -H 'X-API-Key: est_test_x' \
             --json '{\"to\":\"+33612345678\"}'"
        );
    }
}
