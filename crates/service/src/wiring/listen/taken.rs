//! Addresses that cannot be listened on: why, and what to do about it.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;

/// Why there is no listener.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address} ({setting}): {}", told(why))]
pub(crate) struct CannotListen {
    pub(super) address: SocketAddr,
    /// The setting to look at.
    pub(super) setting: String,
    pub(super) why: io::Error,
}

impl CannotListen {
    /// What the operator can do.
    pub(crate) fn remedy(&self) -> String {
        remedy(self.why.kind(), &self.setting)
    }
}

/// What the operator can do about an address that cannot be listened on.
pub(crate) fn remedy(why: ErrorKind, setting: &str) -> String {
    match why {
        ErrorKind::AddrInUse => {
            format!("end what listens there, or choose another address ({setting})")
        }
        ErrorKind::PermissionDenied => "a port below 1024 needs CAP_NET_BIND_SERVICE, which the \
                                        packaged unit does not give: choose a port above 1023, and \
                                        forward to it"
            .to_owned(),
        _ => format!("choose an address of this machine ({setting})"),
    }
}

fn told(why: &io::Error) -> String {
    match why.kind() {
        ErrorKind::AddrInUse => "another process does".to_owned(),
        _ => why.to_string(),
    }
}
