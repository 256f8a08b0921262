//! Answers on their way out. Until a client has taken its answer, the answer is in memory, and some
//! clients ask for much and take nothing. So the bytes of all answers together are bounded, and
//! those of one client.

use std::sync::{Arc, LazyLock};

use axum::body::{Bytes, HttpBody};
use axum::http::Method;
use axum::response::Response;

use super::shares::{Share, Shares};
use crate::kit::client_address::ClientAddress;

/// An answer of so many bytes costs no more than its request did; it is not counted.
const SMALL: usize = 2 * 1024;

/// All answers of this process that were not taken yet.
static ANSWERS: LazyLock<Shares> = LazyLock::new(Shares::default);

/// Notes an answer, or answers `false` where it is one too many and may still be withheld. What
/// changed something is told in any case.
pub(super) fn note(
    method: &Method,
    client: Option<ClientAddress>,
    response: &mut Response,
) -> bool {
    let hint = response.body().size_hint();
    let bytes = usize::try_from(hint.upper().unwrap_or_else(|| hint.lower())).unwrap_or(usize::MAX);
    if bytes <= SMALL {
        return true;
    }
    let mut share = ANSWERS.of(client);
    if !share.take(bytes) && method.is_safe() {
        return false;
    }
    response.extensions_mut().insert(Arc::new(share));
    true
}

/// The bytes of an answer, with their share for as long as any of them are needed.
pub(super) fn held(bytes: Bytes, share: Arc<Share>) -> Bytes {
    struct Held(Bytes, #[expect(dead_code, reason = "held, not read")] Arc<Share>);
    impl AsRef<[u8]> for Held {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }
    Bytes::from_owner(Held(bytes, share))
}
