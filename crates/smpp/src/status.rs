//! `command_status` (SMPP 3.4 §5.1.3): what became of a request, and what to do about it.

use std::fmt;

/// A `command_status`. Carriers use values of their own (0x400 to 0x4FF and others), so any is one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Status(pub u32);

/// What to do about a status, unless the carrier is known to mean something else by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StatusClass {
    /// It was done.
    Success,
    /// Too fast: the whole session pauses, the message keeps its place.
    Throttled,
    /// The centre cannot now: the same message may go again.
    Temporary,
    /// This destination does not take it, whoever carries it.
    BadRecipient,
    /// The source address is not allowed on this session.
    BadSender,
    /// Something in the request or the configuration that this carrier does not take.
    BadRequest,
    /// The session itself is at fault: close it and bind again.
    Session,
}

macro_rules! statuses {
    ($($name:ident = $value:literal, $class:ident;)*) => {
        impl Status {
            $(
                #[doc = concat!("`ESME_", stringify!($name), "`")]
                pub const $name: Self = Self($value);
            )*

            /// The name of the specification; `None` for a carrier's own.
            #[must_use]
            pub const fn name(self) -> Option<&'static str> {
                match self {
                    $(Self::$name => Some(concat!("ESME_", stringify!($name))),)*
                    _ => None,
                }
            }

            /// What to do about it.
            #[must_use]
            pub const fn class(self) -> StatusClass {
                match self {
                    $(Self::$name => StatusClass::$class,)*
                    Self(0x400..=0x4FF) => StatusClass::Temporary,
                    _ => StatusClass::BadRequest,
                }
            }
        }
    };
}

// SMPP 3.4 §5.1.3, table 5-2.
statuses! {
    ROK = 0x00, Success;
    RINVMSGLEN = 0x01, BadRequest;
    RINVCMDLEN = 0x02, BadRequest;
    RINVCMDID = 0x03, BadRequest;
    RINVBNDSTS = 0x04, Session;
    RALYBND = 0x05, Session;
    RINVPRTFLG = 0x06, BadRequest;
    RINVREGDLVFLG = 0x07, BadRequest;
    RSYSERR = 0x08, Temporary;
    RINVSRCADR = 0x0A, BadSender;
    RINVDSTADR = 0x0B, BadRecipient;
    RINVMSGID = 0x0C, BadRequest;
    RBINDFAIL = 0x0D, Session;
    RINVPASWD = 0x0E, Session;
    RINVSYSID = 0x0F, Session;
    RCANCELFAIL = 0x11, BadRequest;
    RREPLACEFAIL = 0x13, BadRequest;
    RMSGQFUL = 0x14, Throttled;
    RINVSERTYP = 0x15, BadRequest;
    RINVNUMDESTS = 0x33, BadRequest;
    RINVDLNAME = 0x34, BadRequest;
    RINVDESTFLAG = 0x40, BadRequest;
    RINVSUBREP = 0x42, BadRequest;
    RINVESMCLASS = 0x43, BadRequest;
    RCNTSUBDL = 0x44, BadRequest;
    RSUBMITFAIL = 0x45, Temporary;
    RINVSRCTON = 0x48, BadSender;
    RINVSRCNPI = 0x49, BadSender;
    RINVDSTTON = 0x50, BadRequest;
    RINVDSTNPI = 0x51, BadRequest;
    RINVSYSTYP = 0x53, Session;
    RINVREPFLAG = 0x54, BadRequest;
    RINVNUMMSGS = 0x55, BadRequest;
    RTHROTTLED = 0x58, Throttled;
    RINVSCHED = 0x61, BadRequest;
    RINVEXPIRY = 0x62, BadRequest;
    RINVDFTMSGID = 0x63, BadRequest;
    RX_T_APPN = 0x64, Temporary;
    RX_P_APPN = 0x65, BadRecipient;
    RX_R_APPN = 0x66, BadRecipient;
    RQUERYFAIL = 0x67, BadRequest;
    RINVOPTPARSTREAM = 0xC0, BadRequest;
    ROPTPARNOTALLWD = 0xC1, BadRequest;
    RINVPARLEN = 0xC2, BadRequest;
    RMISSINGOPTPARAM = 0xC3, BadRequest;
    RINVOPTPARAMVAL = 0xC4, BadRequest;
    RDELIVERYFAILURE = 0xFE, Temporary;
    RUNKNOWNERR = 0xFF, Temporary;
}

impl Status {
    /// Whether the request was carried out.
    #[must_use]
    pub const fn is_ok(self) -> bool {
        self.0 == 0
    }

    /// Whether the bind was refused for something that waiting does not mend. Trying again soon
    /// gets accounts locked.
    #[must_use]
    pub const fn is_refused_login(self) -> bool {
        matches!(self, Self::RBINDFAIL) || self.is_unknown_login()
    }

    /// Whether the login itself is refused, from wherever it comes.
    #[must_use]
    pub const fn is_unknown_login(self) -> bool {
        matches!(self, Self::RINVPASWD | Self::RINVSYSID | Self::RINVSYSTYP)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "{name} ({:#04x})", self.0),
            None => write!(f, "{:#04x}", self.0),
        }
    }
}

impl fmt::Debug for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::{Status, StatusClass};

    #[test]
    fn a_status_is_shown_by_its_name_and_a_carriers_own_by_its_number() {
        assert_eq!(Status::RTHROTTLED.to_string(), "ESME_RTHROTTLED (0x58)");
        assert_eq!(Status(0x405).to_string(), "0x405");
        assert_eq!(Status(0x405).class(), StatusClass::Temporary);
        assert_eq!(Status(0x500).class(), StatusClass::BadRequest);
    }
}
