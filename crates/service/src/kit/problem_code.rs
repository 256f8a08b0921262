//! Every error that the API can answer, in one list: its code, status, title and what to do. The
//! error pages, `docs/errors.md` and the OpenAPI document are made from it.

use std::str::FromStr;

use serde::{Serialize, Serializer};

use super::described::described;
use super::words::UnknownWord;

macro_rules! codes {
    ($($status:literal $name:ident $code:literal $title:literal: $advice:literal;)*) => {
        /// A stable error code: the contract for programs.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code { $(#[doc = $title] $name,)* }

        impl Code {
            /// All of them, by status.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The word in `code`.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $code,)* }
            }

            /// The HTTP status.
            #[must_use]
            pub const fn status(self) -> u16 {
                match self { $(Self::$name => $status,)* }
            }

            /// The sentence in `title`.
            #[must_use]
            pub const fn title(self) -> &'static str {
                match self { $(Self::$name => $title,)* }
            }

            /// What it means and what to do, for its page.
            #[must_use]
            pub const fn advice(self) -> &'static str {
                match self { $(Self::$name => $advice,)* }
            }
        }

        impl FromStr for Code {
            type Err = UnknownWord;

            fn from_str(word: &str) -> Result<Self, UnknownWord> {
                Self::ALL.iter().copied().find(|code| code.as_str() == word).ok_or(UnknownWord)
            }
        }
    };
}

codes! {
    400 InvalidJson "invalid_json" "The body is not JSON":
        "The body could not be parsed (`detail` names line and column), or a member is given twice \
         (`errors` names it). Send one JSON object in UTF-8.";
    400 InvalidRequest "invalid_request" "The request is malformed":
        "A query parameter is unknown or out of range, a part of the path is not UTF-8, or the \
         head of the request is too large or not HTTP. `errors` or `detail` names what it is, \
         where that is known.";
    400 InvalidCursor "invalid_cursor" "The cursor is not valid":
        "Cursors are opaque and belong to one list. Follow the `Link` header as it is, or start \
         without a cursor.";
    400 InvalidIdempotencyKey "invalid_idempotency_key" "The Idempotency-Key is malformed":
        "Send 1 to 255 printable ASCII characters, such as a UUID of your own.";
    401 MissingCredentials "missing_credentials" "Credentials are missing":
        "Send an API key in `X-API-Key` or `Authorization: Bearer`, or a token in `Authorization: \
         Bearer`, whichever this endpoint takes.";
    401 InvalidApiKey "invalid_api_key" "The API key is not valid":
        "The key is mistyped, unknown or disabled. Make one with `POST /v1/api-keys`, or ask \
         the operator.";
    401 InvalidToken "invalid_token" "The token is not valid":
        "The token is mistyped, revoked, or of another kind (a token of the portal opens no \
         staff route, and a staff token none of the portal). Log in again.";
    401 TokenExpired "token_expired" "The token has expired":
        "Log in again.";
    401 InvalidLogin "invalid_login" "Email or password is wrong":
        "Check the email and the password; an account's user can reset the password, a member of \
         staff gets a new one from the operator. The answer is the same for an unknown email \
         and a wrong password. From the fifth failure on, each one makes this address wait \
         longer before its next attempt.";
    402 InsufficientCredits "insufficient_credits" "Not enough credits":
        "This message costs more credits than the account has left. Nothing was charged. Top up, \
         then send it again; a repeat under the same `Idempotency-Key` repeats this answer.";
    403 InsufficientScope "insufficient_scope" "The API key lacks the scope":
        "`detail` names the scopes that this endpoint accepts. Use or create a key with one of \
         them.";
    403 WrongEnvironment "wrong_environment" "The key belongs to the other environment":
        "Keys that start with `est_test_` work on the sandbox address, `est_live_` on the live \
         one.";
    403 AccountSuspended "account_suspended" "The account is suspended":
        "The operator has suspended this account. Its owner can still read it with a portal \
         token; its API keys no longer work. Ask the operator.";
    403 AccountPending "account_pending" "The account is not active yet":
        "The operator reviews new accounts before they can send. Until then this one is read-only. \
         Ask the operator, and use the sandbox meanwhile.";
    403 SignupDisabled "signup_disabled" "Sign-up is disabled here":
        "The operator makes the accounts of this address: ask for one. `detail` names the sandbox \
         where one may sign up there.";
    403 CountryNotAllowed "country_not_allowed" "Sending to this country is not allowed":
        "The recipient's country is not on the account's list. Ask the operator to add it.";
    403 FraudBlocked "fraud_blocked" "Too few passcodes to these numbers are verified":
        "The guard against fraud compares what an account sends to a country or a range of numbers \
         with what is verified there. Report codes that you check yourself with \
         POST /v1/otp/{challenge_id}/verified, or ask the operator to exempt the country.";
    403 SenderNotApproved "sender_not_approved" "The sender is not approved":
        "Only senders that the operator approved may be used. Ask for one with \
         POST /v1/senders, or leave the field out where the account has a default one.";
    403 DomainNotVerified "domain_not_verified" "The sending domain is not verified":
        "Verify the domain first, or send from a shared domain of the service.";
    403 RecipientOptedOut "recipient_opted_out" "The recipient has opted out":
        "This person answered STOP. Only passcodes still reach them, until they answer START.";
    404 NotFound "not_found" "There is no such object":
        "The id is unknown, or belongs to another account. Check the id, and that the key or token \
         may see it, at this address: live and sandbox share no objects.";
    404 RouteNotFound "route_not_found" "There is no such path":
        "Check the path and its spelling against the reference at `/docs`. All API paths start \
         with `/v1`, none ends with a slash, and those of `/v1/sandbox` are at the sandbox \
         address only.";
    405 MethodNotAllowed "method_not_allowed" "The method is not allowed here":
        "The `Allow` header lists the methods of this path. Use one of those methods, or check the \
         path.";
    406 NotAcceptable "not_acceptable" "The answer is not available in an accepted format":
        "Answers are JSON. Send `Accept: application/json` or leave the header out.";
    408 RequestTimeout "request_timeout" "The request took too long to arrive":
        "The whole request must arrive within the time limit. Repeat it.";
    409 TemplateNotApproved "template_not_approved" "The template is not approved":
        "Only templates with status APPROVED can be sent. Sync its status, or use another one.";
    409 TemplateExists "template_exists" "The template already exists":
        "A template of this name and language exists. Choose a new name or language.";
    409 NoActiveSession "no_active_session" "There is no active session":
        "`billing_mode: session` needs an active 24-hour session with this recipient. Use \
         `direct` instead, and a template unless they wrote within the last 24 hours.";
    409 MessagingWindowClosed "messaging_window_closed" "The messaging window is closed":
        "Free text needs a message from the recipient within the last 24 hours. Send a template \
         instead.";
    409 OtpAlreadyVerified "otp_already_verified" "The passcode has already been verified":
        "A passcode works once. Treat the earlier verification as the one that counts, or send a \
         new passcode.";
    409 TicketClosed "ticket_closed" "The ticket is closed":
        "Open a new ticket.";
    409 IdempotencyInProgress "idempotency_in_progress" "The first request is still running":
        "A request with this Idempotency-Key is still being carried out. Repeat it in a second.";
    409 LimitReached "limit_reached" "A limit or rule stands in the way":
        "`detail` names it. Where it is a limit, remove what is no longer needed, or ask the \
         operator.";
    410 OtpExpired "otp_expired" "The passcode has expired":
        "Send a new passcode.";
    410 OtpAttemptsExhausted "otp_attempts_exhausted" "All attempts are used up":
        "No more guesses are accepted. Send a new passcode.";
    410 FileExpired "file_expired" "The file has expired":
        "Attachments are kept for a limited time only. Ask in the ticket for the file again.";
    413 PayloadTooLarge "payload_too_large" "The body is too large":
        "JSON bodies may be up to 256 KiB, those of emails 10 MiB, callbacks of carriers 3 MiB.";
    413 FileTooLarge "file_too_large" "The file is too large":
        "Attachments may be up to 10 MiB.";
    415 UnsupportedMediaType "unsupported_media_type" "The content type is not supported":
        "Send `Content-Type: application/json`, once, and for files `multipart/form-data`; no \
         `Content-Encoding`.";
    415 UnsupportedFileType "unsupported_file_type" "The file type is not supported":
        "Send a PDF, JPG, PNG, GIF or WEBP file whose name and content agree.";
    422 ValidationFailed "validation_failed" "The request has invalid fields":
        "`errors` lists the fields at fault, the first 20 of them, each with a pointer, a code \
         and a sentence.";
    422 OtpCodeInvalid "otp_code_invalid" "The code is wrong":
        "`attempts_remaining` says how many guesses are left. Ask the person to type the code \
         again.";
    422 RecipientUnreachable "recipient_unreachable" "The recipient cannot be reached":
        "All requested channels refused this recipient. Nothing was charged.";
    422 WebhookUrlNotAllowed "webhook_url_not_allowed" "The webhook URL is not allowed":
        "Webhook URLs must be https and lead to a public address.";
    422 IdempotencyKeyReused "idempotency_key_reused" "This Idempotency-Key was used before":
        "A key stands for one request with one body. Use a new key for a new request.";
    429 RateLimited "rate_limited" "Too many requests":
        "Wait as long as `Retry-After` says. `RateLimit` shows what is left.";
    429 ResendTooSoon "resend_too_soon" "Too soon after the last send":
        "Wait as long as `Retry-After` says before sending to this recipient on this channel \
         again.";
    429 TooManyLogins "too_many_logins" "Too many failed logins":
        "Wait as long as `Retry-After` says before trying again.";
    500 InternalError "internal_error" "Something went wrong on our side":
        "Nothing was stored, unless you sent an Idempotency-Key: repeat the request to find out. \
         Quote the `request_id`.";
    502 CarrierError "carrier_error" "The carrier failed":
        "The carrier answered with an error that is not about this recipient. Nothing was \
         charged. Try again later.";
    503 CarrierUnavailable "carrier_unavailable" "No carrier is available":
        "No carrier for this channel is configured or reachable. Nothing was sent or charged. Ask \
         the operator to configure one.";
    503 Overloaded "overloaded" "The service is busy":
        "Nothing happened. Wait as long as `Retry-After` says and repeat.";
    503 StorageUnavailable "storage_unavailable" "The storage is unavailable":
        "Nothing happened. Repeat the request a little later.";
    503 Draining "draining" "This node is shutting down":
        "Nothing happened. Repeat it after `Retry-After`; another node, or this one after its \
         restart, takes it.";
    504 DeadlineExceeded "deadline_exceeded" "The request took too long":
        "Nothing was stored, unless you sent an Idempotency-Key: repeat the request to find out.";
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

described!(
    Code as "ProblemCode": "What went wrong: stable, the contract for programs. Each has a page \
        at `/errors/{code}`.",
    Self::ALL.iter().map(|code| code.as_str())
);
