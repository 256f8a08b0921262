//! Stories of people: who may log in, what a stranger can spoil, who operates the service, and what
//! an account may do before and after the operator has looked at it.

mod accounts;
pub mod command_line;
mod logins;
mod staff;

use estafette::app::Env;
use estafette::config::Config;
use serde_json::{Value, json};

use crate::world::{Answer, World};

/// Addresses are what a proxy on this machine says.
fn behind_a_proxy(config: &mut Config) {
    config.server.trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()];
}

/// A login at `path`, from an address.
async fn login_from(
    world: &World,
    path: &str,
    email: &str,
    (password, from): (&str, &str),
) -> Answer {
    let body = json!({"email": email, "password": password});
    let call = world.post(Env::Sandbox, path).json(body);
    if from.is_empty() { call.await } else { call.header("x-forwarded-for", from).await }
}

/// The lines of the audit log with an action, newest first.
async fn noted(world: &World, action: &str) -> Vec<Value> {
    let path = format!("/v1/admin/audit-log?action={action}&limit=200");
    let lines = world.get(Env::Live, &path).bearer(world.staff().await).await.ok();
    lines.list().to_vec()
}
