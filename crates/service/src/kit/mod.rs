//! Rank 0: what every room may use and what knows none of them. Problems, phone numbers, secrets,
//! sealing, request bodies, pages, rate limits, lines, the way out to URLs of tenants.

pub mod alarm;
pub mod body;
pub mod client_address;
pub mod conversion;
pub(crate) mod described;
pub mod digits;
pub mod dns;
pub(crate) mod folder;
pub mod hashers;
pub mod heavy;
pub mod id;
pub mod item_code;
pub mod json;
pub mod keywords;
pub mod large_body;
pub mod msisdn;
pub mod outgoing;
pub mod page;
pub mod portions;
pub mod posted;
pub mod problem;
pub mod problem_code;
pub mod seal;
pub mod sealing;
pub mod secret;
pub mod shelf;
pub mod signature;
pub mod takeover;
pub mod task;
pub mod throttle;
pub mod upload;
pub mod walk;
pub(crate) mod wipe;
pub mod words;
