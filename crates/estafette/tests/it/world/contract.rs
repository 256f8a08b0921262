//! What the contract says of errors, written down a second time: the product's own list is
//! compared with this one.

/// Every code and its status.
pub const CODES: &[(u16, &[&str])] = &[
    (400, &["invalid_json", "invalid_request", "invalid_cursor", "invalid_idempotency_key"]),
    (
        401,
        &[
            "missing_credentials",
            "invalid_api_key",
            "invalid_token",
            "token_expired",
            "invalid_login",
        ],
    ),
    (402, &["insufficient_credits"]),
    (
        403,
        &[
            "insufficient_scope",
            "wrong_environment",
            "account_suspended",
            "country_not_allowed",
            "fraud_blocked",
            "sender_not_approved",
            "domain_not_verified",
            "recipient_opted_out",
            "account_pending",
            "signup_disabled",
        ],
    ),
    (404, &["not_found", "route_not_found"]),
    (405, &["method_not_allowed"]),
    (406, &["not_acceptable"]),
    (408, &["request_timeout"]),
    (
        409,
        &[
            "template_not_approved",
            "template_exists",
            "no_active_session",
            "messaging_window_closed",
            "otp_already_verified",
            "ticket_closed",
            "idempotency_in_progress",
            "limit_reached",
        ],
    ),
    (410, &["otp_expired", "otp_attempts_exhausted", "file_expired"]),
    (413, &["payload_too_large", "file_too_large"]),
    (415, &["unsupported_media_type", "unsupported_file_type"]),
    (
        422,
        &[
            "validation_failed",
            "otp_code_invalid",
            "recipient_unreachable",
            "webhook_url_not_allowed",
            "idempotency_key_reused",
        ],
    ),
    (429, &["rate_limited", "resend_too_soon", "too_many_logins"]),
    (500, &["internal_error"]),
    (502, &["carrier_error"]),
    (503, &["carrier_unavailable", "overloaded", "storage_unavailable", "draining"]),
    (504, &["deadline_exceeded"]),
];

/// What can be wrong with one field.
pub const ITEM_CODES: [&str; 13] = [
    "required",
    "invalid_type",
    "invalid_phone_number",
    "invalid_code",
    "invalid_enum",
    "invalid_url",
    "invalid_email",
    "too_short",
    "too_long",
    "out_of_range",
    "unknown_field",
    "invalid_template_params",
    "text_or_template_required",
];

/// The status that a code must have.
#[track_caller]
pub fn status_of(code: &str) -> u16 {
    let row = CODES.iter().find(|(_, codes)| codes.contains(&code));
    row.unwrap_or_else(|| panic!("the contract has no code {code}")).0
}

/// Whether a text is an instant as the contract writes them: UTC, `Z`, three decimals.
pub fn is_instant(text: &str) -> bool {
    text.len() == 24
        && text.ends_with('Z')
        && text.as_bytes().get(19) == Some(&b'.')
        && clock::Millis::parse(text).is_some()
}

/// Whether a text is an id with this prefix.
pub fn is_id(prefix: &str, text: &str) -> bool {
    text.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('_')).is_some_and(|rest| {
        rest.len() == 26 && rest.bytes().all(|b| b"0123456789abcdefghjkmnpqrstvwxyz".contains(&b))
    })
}
