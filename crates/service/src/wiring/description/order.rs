//! The order in which the description is written. It is read from the top: what comes first in the
//! life of an account comes first, and what only staff do comes last.

use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

const ROOT: [&str; 6] = ["openapi", "info", "servers", "tags", "paths", "webhooks"];
/// Paths that begin so stand together; the longest that fits counts.
const PATHS: [&str; 47] = [
    "/v1/auth/signup",
    "/v1/auth/login",
    "/v1/api-keys",
    "/v1/me",
    "/v1/auth/verify-email",
    "/v1/auth/password",
    "/v1/auth/sessions",
    "/v1/auth/logout",
    "/v1/auth",
    "/v1/otp/send",
    "/v1/otp/verify",
    "/v1/otp/{challenge_id}",
    "/v1/otp",
    "/v1/otp/conversion",
    "/v1/chatapp/otp/send",
    "/v1/chatapp/messages",
    "/v1/chatapp/templates",
    "/v1/chatapp/sessions",
    "/v1/messages",
    "/v1/senders",
    "/v1/emails",
    "/v1/email-domains",
    "/v1/email-suppressions",
    "/v1/inbound-notifications",
    "/v1/webhooks",
    "/v1/webhook-deliveries",
    "/v1/events",
    "/v1/balance",
    "/v1/ledger",
    "/v1/support/tickets",
    "/v1/support-ticket-files",
    "/v1/sandbox",
    "/v1/admin/auth",
    "/v1/admin/staff",
    "/v1/admin/accounts",
    "/v1/admin/senders",
    "/v1/admin/prices",
    "/v1/admin/carriers",
    "/v1/admin/routes",
    "/v1/admin/inbound-notifications",
    "/v1/admin/support/tickets",
    "/v1/admin/support-ticket-files",
    "/v1/admin/canned-replies",
    "/v1/admin/erasures",
    "/v1/admin/audit-log",
    "/v1/admin",
    "/v1/upstream",
];
/// What belongs to a ticket: what one does first comes first. Names that are not here come later.
const NESTED: [&str; 7] = ["messages", "files", "read", "rating", "history", "merge", "ws-token"];
/// What makes something comes before what reads it, and what ends it comes last.
const METHODS: [&str; 5] = ["post", "get", "put", "patch", "delete"];

/// A description as bytes.
pub(super) fn written(document: &Value) -> Vec<u8> {
    serde_json::to_vec(&Part::Document(document)).unwrap_or_default()
}

/// A description for people to read.
#[cfg(feature = "describe")]
pub(super) fn pretty(document: &Value) -> String {
    serde_json::to_string_pretty(&Part::Document(document)).unwrap_or_default()
}

/// A part of a description, which knows the order of its members.
enum Part<'d> {
    Document(&'d Value),
    Paths(&'d Value),
    Operations(&'d Value),
    Other(&'d Value),
}

impl Serialize for Part<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Other(value) => value.serialize(serializer),
            Self::Document(value) => {
                let part = |name: &str, value| {
                    if name == "paths" { Part::Paths(value) } else { Part::Other(value) }
                };
                let members = sorted(value, |name| place(&ROOT, name));
                serializer.collect_map(members.iter().map(|(name, of)| (name, part(name, of))))
            }
            Self::Paths(value) => {
                let members = sorted(value, rank);
                let operations = members.iter().map(|(path, of)| (path, Part::Operations(of)));
                serializer.collect_map(operations)
            }
            Self::Operations(value) => {
                let members = sorted(value, |name| place(&METHODS, name));
                serializer.collect_map(members)
            }
        }
    }
}

fn sorted<K: Ord>(value: &Value, key: impl Fn(&str) -> K) -> Vec<(&String, &Value)> {
    let mut members: Vec<_> = value.as_object().into_iter().flat_map(Map::iter).collect();
    members.sort_by_key(|(name, _)| key(name));
    members
}

fn place(list: &[&str], name: &str) -> usize {
    list.iter().position(|known| *known == name).unwrap_or(list.len())
}

/// Where a path stands: by its group, then by what it is below, so that a list is followed by what
/// is done with one of it.
fn rank(path: &str) -> (usize, Vec<(usize, String)>) {
    let step = |name: &str| (place(&NESTED, name), name.to_owned());
    (group(path).unwrap_or(PATHS.len()), path.split('/').map(step).collect())
}

fn group(path: &str) -> Option<usize> {
    let fits = |known: &&&str| {
        path.strip_prefix(**known).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let longest = PATHS.iter().filter(fits).max_by_key(|known| known.len())?;
    PATHS.iter().position(|known| known == longest)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::openapi;
    use super::{group, written};

    #[test]
    fn every_path_belongs_to_a_group() {
        let document = openapi();
        for path in document["paths"].as_object().unwrap().keys() {
            assert!(group(path).is_some(), "{path} has no place");
        }
    }

    #[test]
    fn what_comes_first_is_written_first() {
        let operations = json!({"delete": 1, "get": 2, "post": 3});
        let document = json!({"components": {}, "openapi": "3.1.0", "paths": {
            "/v1/admin/accounts": {}, "/v1/auth/signup": {}, "/v1/otp": {}, "/v1/otp/send": {},
            "/v1/otp/{challenge_id}": operations, "/v1/otp/{challenge_id}/verified": {},
            "/v1/admin/accounts/{account_id}": {}, "/v1/admin/accounts/{account_id}/a": {},
            "/v1/admin/accounts/{account_id}/a/{id}": {}, "/v1/admin/accounts/{account_id}/b": {},
            "/v1/admin/accounts/{account_id}/messages": {},
        }});
        let expected = "{\"openapi\":\"3.1.0\",\"paths\":{\"/v1/auth/signup\":{},\
            \"/v1/otp/send\":{},\
            \"/v1/otp/{challenge_id}\":{\"post\":3,\"get\":2,\"delete\":1},\
            \"/v1/otp/{challenge_id}/verified\":{},\"/v1/otp\":{},\"/v1/admin/accounts\":{},\
            \"/v1/admin/accounts/{account_id}\":{},\
            \"/v1/admin/accounts/{account_id}/messages\":{},\
            \"/v1/admin/accounts/{account_id}/a\":{},\
            \"/v1/admin/accounts/{account_id}/a/{id}\":{},\
            \"/v1/admin/accounts/{account_id}/b\":{}},\
            \"components\":{}}";
        assert_eq!(String::from_utf8(written(&document)).unwrap(), expected);
    }
}
