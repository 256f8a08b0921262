//! The words of support: status, priority and side, as types.

use crate::kit::described::described;

/// An enum whose members have one word each, as stored and shown.
macro_rules! words {
    ($(
        $(#[$doc:meta])*
        $name:ident as $shown:literal, $about:literal {
            $($(#[$of:meta])* $member:ident = $word:literal,)+
        }
    )+) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[$of])* $member,)+ }

        impl $name {
            /// All words, in their order.
            pub const WORDS: &'static [&'static str] = &[$($word),+];

            /// As stored and shown.
            #[must_use]
            pub const fn word(self) -> &'static str {
                match self { $(Self::$member => $word,)+ }
            }

            /// The one of a word.
            #[must_use]
            pub fn of(word: &str) -> Option<Self> {
                match word { $($word => Some(Self::$member),)+ _ => None }
            }
        }

        impl ::store::FromVal for $name {
            fn from_val(value: ::store::Val) -> Option<Self> {
                Self::of(&String::from_val(value)?)
            }
        }

        described!($name as $about, $shown, Self::WORDS.iter().copied());
    )+ };
}

words! {
    /// Where a ticket stands.
    Status as "TicketStatus", "Where a ticket stands." {
        /// Staff is to act.
        Open = "open",
        /// The user is to answer.
        Pending = "pending",
        /// Somebody else is waited for.
        OnHold = "on_hold",
        /// Done; an answer of the user opens it again.
        Resolved = "resolved",
        /// Over for good.
        Closed = "closed",
    }
    /// How urgent a ticket is.
    Priority as "TicketPriority", "How urgent a ticket is." {
        /// Can wait.
        Low = "low",
        /// As most are.
        Normal = "normal",
        /// Before others.
        High = "high",
    }
    /// The side that a message comes from.
    Side as "TicketSide", "The side that a message comes from." {
        /// The account's owner.
        User = "user",
        /// The operator's staff.
        Admin = "admin",
    }
}

impl Status {
    /// Whether nobody waits for staff, so that targets stand still.
    #[must_use]
    pub const fn is_paused(self) -> bool {
        !matches!(self, Self::Open)
    }
}
