//! Templates of the business account: declared, listed, changed, deleted, and judged a moment
//! later, which a callback tells. Names that end in `_rejected` are rejected, as in the sandbox.

use std::time::Duration;

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, Query, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Chaos, CloudApi, check, is_known, lock};

/// How long it takes to judge.
const JUDGED_AFTER: Duration = Duration::from_millis(300);
/// Longest name, characters.
const LONGEST_NAME: usize = 512;
/// A template of the name and language is there.
const EXISTS: i64 = 2_388_024;

/// What a list may be narrowed to.
#[derive(Deserialize)]
pub(super) struct Filter {
    name: Option<String>,
    hsm_id: Option<String>,
    language: Option<String>,
    status: Option<String>,
    limit: Option<usize>,
    after: Option<usize>,
    #[serde(default)]
    summary: String,
}

/// `POST /{waba_id}/message_templates`.
pub(super) async fn declare(
    State(server): State<CloudApi>,
    Path((_version, waba_id)): Path<(String, String)>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    if let Err(refusal) = admit(&server, &headers, &waba_id) {
        return refusal;
    }
    let Ok(mut template) = serde_json::from_slice::<Value>(&body) else {
        return check::error(400, 100, "Invalid parameter: the body is not JSON");
    };
    let name = template["name"].as_str().unwrap_or_default().to_owned();
    let language = template["language"].as_str().unwrap_or_default().to_owned();
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    let is_name = !name.is_empty() && name.len() <= LONGEST_NAME && name.bytes().all(is_letter);
    if !is_name || language.is_empty() || !template["components"].is_array() {
        return check::error(400, 100, "Invalid parameter: name, language or components");
    }
    let id = server.next_number();
    let category = template["category"].as_str().unwrap_or_default().to_ascii_uppercase();
    template["category"] = category.clone().into();
    template["id"] = id.clone().into();
    // Whose it is; a client of the real one never sees it.
    template["waba_id"] = waba_id.clone().into();
    template["status"] = "PENDING".into();
    template["parameter_format"] = "POSITIONAL".into();
    {
        let mut templates = lock(&server.shared.templates);
        let is_same = |it: &Value| {
            it["waba_id"] == waba_id && it["name"] == name.as_str() && it["language"] == language
        };
        if templates.iter().any(is_same) {
            return check::error_with(400, 100, EXISTS, "Content in this language already exists");
        }
        templates.push(template);
    }
    judge(server, id.clone());
    Json(json!({ "id": id, "status": "PENDING", "category": category })).into_response()
}

/// `POST /{template_id}`: other contents, which are judged anew.
pub(super) async fn edit(
    State(server): State<CloudApi>,
    Path((_version, id)): Path<(String, String)>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    if !is_known(&headers) {
        return check::error(401, 190, "Invalid OAuth access token");
    }
    let Ok(Value::Object(changes)) = serde_json::from_slice::<Value>(&body) else {
        return check::error(400, 100, "Invalid parameter: the body is not JSON");
    };
    {
        let mut templates = lock(&server.shared.templates);
        let Some(template) = templates.iter_mut().find(|it| it["id"] == id.as_str()) else {
            return check::error(400, 33, "Object with this ID does not exist");
        };
        if template["status"] == "PENDING" {
            return check::error(400, 100, "This template is being reviewed");
        }
        for member in ["components", "category", "message_send_ttl_seconds"] {
            if let Some(value) = changes.get(member) {
                template[member] = value.clone();
            }
        }
        template["status"] = "PENDING".into();
    }
    judge(server, id);
    Json(json!({ "success": true })).into_response()
}

/// Judges a template in the background, and tells it.
fn judge(server: CloudApi, id: String) {
    tokio::spawn(async move {
        tokio::time::sleep(JUDGED_AFTER).await;
        let (waba_id, told) = {
            let mut templates = lock(&server.shared.templates);
            let Some(template) = templates.iter_mut().find(|it| it["id"] == id.as_str()) else {
                return;
            };
            let name = template["name"].as_str().unwrap_or_default();
            let is_rejected = name.ends_with("_rejected");
            let status = if is_rejected { "REJECTED" } else { "APPROVED" };
            template["status"] = status.into();
            template["rejected_reason"] =
                if is_rejected { "INVALID_FORMAT" } else { "NONE" }.into();
            let waba_id = template["waba_id"].clone();
            let told = json!({
                "event": status, "message_template_id": id.parse::<u64>().unwrap_or_default(),
                "message_template_name": template["name"],
                "message_template_language": template["language"],
                "message_template_category": template["category"],
                "reason": template["rejected_reason"],
            });
            (waba_id, told)
        };
        let change = json!({ "field": "message_template_status_update", "value": told });
        let body = json!({ "object": "whatsapp_business_account", "entry": [
            { "id": waba_id, "time": super::callbacks::now_s(), "changes": [change] },
        ] });
        for _ in 0..20 {
            if server.tell(&body).await.is_ok() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    });
}

/// `GET /{waba_id}/message_templates`.
pub(super) async fn list(
    State(server): State<CloudApi>,
    Path((_version, waba_id)): Path<(String, String)>,
    Query(filter): Query<Filter>,
    headers: HeaderMap,
) -> Response {
    if let Err(refusal) = admit(&server, &headers, &waba_id) {
        return refusal;
    }
    let mut all = lock(&server.shared.templates).clone();
    all.retain(|it| it["waba_id"] == waba_id);
    let is = |wanted: &Option<String>, value: &Value| {
        wanted.as_ref().is_none_or(|wanted| {
            value.as_str().is_some_and(|value| value.eq_ignore_ascii_case(wanted))
        })
    };
    let kept = all.iter().filter(|it| {
        is(&filter.name, &it["name"])
            && is(&filter.language, &it["language"])
            && is(&filter.status, &it["status"])
    });
    let kept: Vec<&Value> = kept.collect();
    let (begin, limit) = (filter.after.unwrap_or(0), filter.limit.unwrap_or(25).max(1));
    let mut page: Vec<Value> = kept.iter().skip(begin).take(limit).copied().cloned().collect();
    for template in page.iter_mut().filter_map(Value::as_object_mut) {
        template.remove("waba_id");
    }
    let end = begin + page.len();
    let mut answer = json!({ "data": page, "paging": { "cursors": {
        "before": begin.to_string(), "after": end.to_string(),
    } } });
    if end < kept.len() {
        answer["paging"]["next"] = format!("message_templates?after={end}").into();
    }
    if !filter.summary.is_empty() {
        answer["summary"] = json!({
            "total_count": kept.len(), "message_template_count": all.len(),
            "message_template_limit": 250, "are_translations_complete": true,
        });
    }
    Json(answer).into_response()
}

/// `DELETE /{waba_id}/message_templates`: one by its id and name, or all of a name.
pub(super) async fn delete(
    State(server): State<CloudApi>,
    Path((_version, waba_id)): Path<(String, String)>,
    Query(filter): Query<Filter>,
    headers: HeaderMap,
) -> Response {
    if let Err(refusal) = admit(&server, &headers, &waba_id) {
        return refusal;
    }
    let Some(name) = filter.name else {
        return check::error(400, 100, "Invalid parameter: name");
    };
    let mut templates = lock(&server.shared.templates);
    let before = templates.len();
    templates.retain(|it| {
        let is_other = filter.hsm_id.as_ref().is_some_and(|id| it["id"] != id.as_str());
        it["name"] != name.as_str() || is_other || it["waba_id"] != waba_id
    });
    if templates.len() == before {
        let what = "Message template not found";
        return check::error_with(400, 100, cloud_api::business::NOT_FOUND, what);
    }
    Json(json!({ "success": true })).into_response()
}

/// Whoever has the token, about the business account that there is.
#[expect(clippy::result_large_err, reason = "an answer is what a test server fails with")]
fn admit(server: &CloudApi, headers: &HeaderMap, waba_id: &str) -> Result<(), Response> {
    // Other faults are those of messages.
    let chaos = lock(&server.shared.chaos).filter(|chaos| *chaos == Chaos::Down);
    if let Some(refusal) = chaos.and_then(Chaos::refusal) {
        return Err(refusal);
    }
    if !is_known(headers) {
        return Err(check::error(401, 190, "Invalid OAuth access token"));
    }
    if server.knows_account(waba_id) {
        return Ok(());
    }
    Err(check::error(400, 33, "Object with this ID does not exist"))
}
