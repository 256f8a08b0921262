//! The story that the demo tells, step by step. Every step says what its answer must hold.

use anyhow::Context;
use serde_json::{Value, json};

use super::visitor::{Call, Pass, Visitor, must_be, text};
use crate::access::key;

/// Any number works on the sandbox.
const PHONE: &str = "+33612345678";
/// The last four digits script an outcome: this one is not on the chat-app.
const PHONE_WITHOUT_CHATAPP: &str = "+33612340001";
const EMAIL: &str = "demo@example.com";

/// What the story leaves behind.
pub(super) struct Tour {
    pub(super) email: String,
    pub(super) password: String,
    pub(super) token: String,
    pub(super) account_id: String,
    pub(super) api_key: String,
    pub(super) balance_credits: i64,
}

/// The whole story.
pub(super) async fn all(visitor: &mut Visitor) -> anyhow::Result<Tour> {
    let password = key::made_up_password(&clock::Clock::system()).expose().to_owned();
    let token = sign_up(visitor, &password).await?;
    let api_key = make_key(visitor, &token).await?;
    chatapp_passcode(visitor, &api_key).await?;
    fallback_to_sms(visitor, &api_key).await?;
    let (account_id, balance_credits) = money(visitor, &token).await?;
    let email = EMAIL.to_owned();
    Ok(Tour { email, password, token, account_id, api_key, balance_credits })
}

async fn sign_up(visitor: &mut Visitor, password: &str) -> anyhow::Result<String> {
    let login = json!({ "email": EMAIL, "password": password });
    let answer = visitor
        .call(Call {
            sentence: "Sign up on the sandbox: a user and an account with 1,000,000 credits.",
            pass: Pass::Nobody,
            path: "/v1/auth/signup",
            body: Some(login),
        })
        .await?;
    text(&answer, "/token")
}

async fn make_key(visitor: &mut Visitor, token: &str) -> anyhow::Result<String> {
    let answer = visitor
        .call(Call {
            sentence: "Make an API key; the raw key is shown this once.",
            pass: Pass::Token(token),
            path: "/v1/api-keys",
            body: Some(json!({ "name": "demo" })),
        })
        .await?;
    text(&answer, "/api_key")
}

async fn chatapp_passcode(visitor: &mut Visitor, key: &str) -> anyhow::Result<()> {
    let answer = visitor
        .call(Call {
            sentence: "Send a passcode. The chat-app is tried first.",
            pass: Pass::Key(key),
            path: "/v1/otp/send",
            body: Some(json!({ "to": PHONE, "reference": "login-1" })),
        })
        .await?;
    must_be(&answer, "/channel", &json!("chatapp"))?;
    must_be(&answer, "/fallback_used", &json!(false))?;
    let challenge_id = text(&answer, "/challenge_id")?;
    let code = code_on(visitor, key, PHONE, "chatapp").await?;
    let answer = visitor
        .call(Call {
            sentence: "Verify the code that the person typed.",
            pass: Pass::Key(key),
            path: "/v1/otp/verify",
            body: Some(json!({ "challenge_id": challenge_id, "code": code })),
        })
        .await?;
    must_be(&answer, "/verified", &json!(true))?;
    must_be(&answer, "/status", &json!("verified"))
}

async fn fallback_to_sms(visitor: &mut Visitor, key: &str) -> anyhow::Result<()> {
    let answer = visitor
        .call(Call {
            sentence: "Send to somebody who is not on the chat-app: SMS takes over in the same \
                       answer, and only the SMS is charged.",
            pass: Pass::Key(key),
            path: "/v1/otp/send",
            body: Some(json!({ "to": PHONE_WITHOUT_CHATAPP, "reference": "login-2" })),
        })
        .await?;
    must_be(&answer, "/channel", &json!("sms"))?;
    must_be(&answer, "/fallback_used", &json!(true))?;
    must_be(&answer, "/chatapp_available", &json!(false))?;
    code_on(visitor, key, PHONE_WITHOUT_CHATAPP, "sms").await.map(drop)
}

/// The newest code on a virtual handset, which must have come by `channel`.
async fn code_on(
    visitor: &mut Visitor,
    key: &str,
    phone: &str,
    channel: &str,
) -> anyhow::Result<String> {
    let sentence = format!("Look at the virtual handset {phone}: what came by {channel}?");
    let messages = visitor
        .call(Call {
            sentence: &sentence,
            pass: Pass::Key(key),
            path: &format!("/v1/sandbox/handsets/{phone}/messages"),
            body: None,
        })
        .await?;
    let newest = messages
        .as_array()
        .into_iter()
        .flatten()
        .find(|message| message.pointer("/code").is_some_and(Value::is_string))
        .context("no message with a code is on the handset")?;
    must_be(newest, "/channel", &json!(channel))?;
    text(newest, "/code")
}

async fn money(visitor: &mut Visitor, token: &str) -> anyhow::Result<(String, i64)> {
    let me = visitor
        .call(Call {
            sentence: "See what is left of the credits.",
            pass: Pass::Token(token),
            path: "/v1/me",
            body: None,
        })
        .await?;
    let balance = me.pointer("/balance_credits").and_then(Value::as_i64);
    let balance = balance.context("the profile has no balance_credits")?;
    let ledger = visitor
        .call(Call {
            sentence: "And where they went: every hold, charge and release, newest first.",
            pass: Pass::Token(token),
            path: "/v1/ledger",
            body: None,
        })
        .await?;
    let lines = ledger.as_array().map_or(0, Vec::len);
    anyhow::ensure!(lines >= 3, "the ledger has {lines} lines after two sends");
    Ok((text(&me, "/id")?, balance))
}
