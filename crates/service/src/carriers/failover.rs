//! The way of what a carrier did not take, or does not come to take: another carrier.

use std::sync::Arc;

use super::routes::{Class, Wanted};
use super::{Address, Carriers, Channel, Lane, Priority};

/// A message that another carrier is looked for.
#[derive(Clone, Copy, Debug)]
pub struct Untaken<'a> {
    /// The way it goes.
    pub channel: Channel,
    /// Whose message.
    pub account: &'a str,
    /// Who goes first.
    pub priority: Priority,
    /// Where it goes.
    pub to: &'a Address,
}

impl Carriers {
    /// A carrier for a message that is none of these and takes messages now, here or on another
    /// node. Only SMS have several.
    #[must_use]
    pub fn another(&self, it: Untaken<'_>, refused_by: &[String]) -> Option<Arc<Lane>> {
        let (Channel::Sms, Some(number)) = (it.channel, it.to.phone()) else { return None };
        let network = self.lookup.as_ref().and_then(|lookup| lookup.network(number.e164()));
        let (account, class, network) = (it.account, Class::of(it.priority), network.as_deref());
        self.table().another(Wanted { account, class, number: number.e164(), network }, refused_by)
    }
}
