//! What problems of passcodes say, and what they tell beside their usual members.

use endpoints::ToSchema;

use super::{Error, Reason, Status};
use crate::kit::id::ChallengeId;
use crate::kit::problem::Problem;
use crate::kit::problem_code::Code;

/// What a problem tells of a wrong code, beside its usual members.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it is written as members of a problem; this describes them")]
pub(super) struct WrongCode {
    /// Always false.
    verified: bool,
    /// The challenge that was guessed at.
    #[schema(example = "otp_01kdvqh6m4e5s8w2t9zb3y7n1f")]
    challenge_id: String,
    /// Its status now.
    challenge_status: Status,
    /// Guesses so far, this one included.
    #[schema(example = 1)]
    attempts: i64,
    /// Guesses allowed.
    #[schema(example = 5)]
    max_attempts: i64,
    /// Guesses left.
    #[schema(example = 4)]
    attempts_remaining: i64,
}

/// What a problem tells of a challenge that is over before it was verified, beside its usual
/// members.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it is written as members of a problem; this describes them")]
pub(super) struct Gone {
    /// Always false.
    verified: bool,
    /// The challenge.
    #[schema(example = "otp_01kdvqh6m4e5s8w2t9zb3y7n1f")]
    challenge_id: String,
    /// `expired`; or `failed`, where it failed before that.
    challenge_status: Status,
    /// Why it failed, where it did.
    #[schema(nullable = false)]
    failure_reason: Option<Reason>,
}

/// What a problem tells of a passcode that did not go out, beside its usual members.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it is written as a member of a problem; this describes it")]
pub(super) struct NotSent {
    /// The challenge, which has failed; left out where none was made.
    #[schema(example = "otp_01kdvqh6m4e5s8w2t9zb3y7n1f")]
    challenge_id: Option<String>,
}

/// How a challenge stands after a wrong guess.
struct Guessed {
    status: Status,
    attempts: i64,
    max_attempts: i64,
}

impl Guessed {
    /// Adds the members of [`WrongCode`].
    fn tell(self, problem: Problem, challenge: &ChallengeId) -> Problem {
        problem
            .with("verified", false)
            .with("challenge_id", challenge.as_str())
            .with("challenge_status", self.status.as_str())
            .with("attempts", self.attempts)
            .with("max_attempts", self.max_attempts)
            .with("attempts_remaining", (self.max_attempts - self.attempts).max(0))
    }
}

/// Adds the members of [`Gone`].
fn gone(problem: Problem, challenge: &ChallengeId, status: Status) -> Problem {
    problem
        .with("verified", false)
        .with("challenge_id", challenge.as_str())
        .with("challenge_status", status.as_str())
}

/// When it is worth asking again for a carrier that was out of reach, seconds.
const RECONNECT_S: i64 = 5;

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let detail = error.to_string();
        let told = |code| Self::new(code).detail(detail.clone());
        match error {
            Error::CountryNotAllowed(_) => told(Code::CountryNotAllowed),
            Error::FraudBlocked(_) => told(Code::FraudBlocked),
            Error::SenderNotApproved(_) => told(Code::SenderNotApproved),
            Error::ResendTooSoon { wait_s } => told(Code::ResendTooSoon).retry_after_s(wait_s),
            Error::RecipientLimit { wait_s } | Error::GuessLimit { wait_s } => {
                told(Code::RateLimited).retry_after_s(wait_s)
            }
            Error::Unreachable => told(Code::RecipientUnreachable),
            Error::CarrierFailed => told(Code::CarrierError),
            Error::NoCarrier(_) => told(Code::CarrierUnavailable),
            Error::OutOfReach => told(Code::CarrierUnavailable).retry_after_s(RECONNECT_S),
            Error::CreditsRanOut => told(Code::InsufficientCredits),
            Error::Unknown => told(Code::NotFound),
            Error::Expired { challenge } => {
                gone(told(Code::OtpExpired), &challenge, Status::Expired)
            }
            // Gone as an expired one is, and the members say why.
            Error::Failed { challenge, reason } => {
                gone(told(Code::OtpExpired), &challenge, Status::Failed)
                    .with("failure_reason", reason.as_str())
            }
            Error::Exhausted { challenge, attempts, max_attempts } => {
                let guessed = Guessed { status: Status::Failed, attempts, max_attempts };
                guessed.tell(told(Code::OtpAttemptsExhausted), &challenge)
            }
            Error::AlreadyVerified => told(Code::OtpAlreadyVerified),
            Error::InProgress => told(Code::IdempotencyInProgress),
            Error::WrongCode { challenge, status, attempts, max_attempts } => {
                let guessed = Guessed { status, attempts, max_attempts };
                guessed.tell(told(Code::OtpCodeInvalid), &challenge)
            }
            Error::Credits(error) => error.into(),
            Error::Db(error) => error.into(),
            Error::Commit(error) => error.into(),
        }
    }
}
