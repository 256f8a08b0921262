//! Which account a person's message is for. Never two, and never by a guess: what fits nobody is
//! parked.

use crate::app::LastSent;
use crate::kit::id::AccountId;

/// A reply is for whoever wrote to the person within this, milliseconds.
pub(super) const MEMORY_MS: i64 = 72 * clock::HOUR;

/// The account that the message is for. `owners` may send as the number that was written to;
/// `senders` wrote to the person lately.
///
/// A number that several accounts may use is decided among them by who wrote last.
pub(super) fn choose(owners: &[AccountId], senders: &[LastSent]) -> Option<AccountId> {
    if let [owner] = owners {
        return Some(owner.clone());
    }
    let may_be_meant = |sent: &&LastSent| owners.is_empty() || owners.contains(&sent.account);
    // The id decides between two of the same millisecond, so that it does not depend on the order.
    let newest = senders.iter().filter(may_be_meant).max_by_key(|sent| (sent.at, &sent.account));
    newest.map(|sent| sent.account.clone())
}

#[cfg(test)]
mod tests {
    use clock::Millis;

    use super::choose;
    use crate::app::LastSent;
    use crate::kit::id::AccountId;

    fn account(name: &str) -> AccountId {
        AccountId::stored(name.to_owned())
    }

    fn accounts(names: &[&str]) -> Vec<AccountId> {
        names.iter().map(|name| account(name)).collect()
    }

    fn sent(name: &str, at: i64) -> LastSent {
        LastSent { account: account(name), at: Millis(at) }
    }

    #[test]
    fn the_owner_of_the_number_comes_before_who_wrote_last() {
        let senders = [sent("eve", 9)];
        assert_eq!(choose(&accounts(&["ada"]), &senders), Some(account("ada")));
        assert_eq!(choose(&[], &senders), Some(account("eve")));
    }

    #[test]
    fn of_several_the_newest_sender_is_meant() {
        let senders = [sent("ada", 5), sent("eve", 9), sent("bob", 7)];
        assert_eq!(choose(&[], &senders), Some(account("eve")));
        assert_eq!(choose(&accounts(&["ada", "bob"]), &senders), Some(account("bob")));
        let ties = [sent("ada", 5), sent("eve", 5)];
        let turned = [sent("eve", 5), sent("ada", 5)];
        assert_eq!(choose(&[], &ties), choose(&[], &turned));
    }

    #[test]
    fn nobody_is_guessed() {
        assert_eq!(choose(&[], &[]), None);
        assert_eq!(choose(&accounts(&["ada", "bob"]), &[]), None);
        assert_eq!(choose(&accounts(&["ada", "bob"]), &[sent("eve", 9)]), None);
    }
}
