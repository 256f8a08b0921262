//! What the crash driver does, decided by the seed alone: when to kill and what to send.

use std::time::Duration;

use crate::{
    api::Send,
    chance::{self, Chance},
    numbers::Numbers,
};

/// Scripted endings that the send of a passcode must survive.
const ENDINGS: [u16; 7] = [1, 2, 3, 5, 6, 8, YES];
/// Their people answer the consent prompt with Yes.
const YES: u16 = 11;
/// The same of an SMS.
const SMS_ENDINGS: [u16; 7] = [1, 4, 5, 6, 7, 21, 8];
/// Scripts nothing, in the sandbox or at a message centre.
const PLAIN: u16 = 5678;
/// The same of an email, without those that put it off for minutes.
const EMAIL_ENDINGS: [&str; 5] = ["bounced", "full", "rejected", "failed", "complained"];
/// Uptime before a kill, in ms.
const UPTIME_MS: (u64, u64) = (50, 600);

/// The plan of one seed.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    seed: u64,
    numbers: Numbers,
    /// Whether all are SMS, to numbers that script nothing.
    is_plain: bool,
}

/// A request that may be repeated word for word.
#[derive(Debug, Clone)]
pub(crate) struct Planned {
    /// The body.
    pub(crate) send: Send,
    /// The supplied code, also in the body.
    pub(crate) code: String,
    /// The `Idempotency-Key`, on every third request.
    pub(crate) key: Option<String>,
}

impl Planned {
    /// Whether its person says Yes to the prompt that follows.
    pub(crate) fn is_answered(&self) -> bool {
        self.send.text.is_none() && self.send.to.ends_with("0011")
    }
}

impl Plan {
    /// The plan that belongs to `seed`.
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed, numbers: Numbers::new(seed), is_plain: false }
    }

    /// A plan of SMS alone, of which each simply arrives.
    pub(crate) fn of_sms(seed: u64) -> Self {
        Self { is_plain: true, ..Self::new(seed) }
    }

    /// How long the service runs before kill number `kill`.
    pub(crate) fn uptime(&self, kill: u64) -> Duration {
        let ms = Chance::new(self.seed ^ 0x6b69_6c6c, kill).between(UPTIME_MS.0, UPTIME_MS.1);
        Duration::from_millis(ms)
    }

    /// Request number `index` of the run.
    pub(crate) fn request(&self, index: u64) -> Planned {
        let mut chance = Chance::new(self.seed ^ 0x7365_6e64, index);
        let is_sms = chance.below(3) == 0 || self.is_plain;
        let is_email = !is_sms && chance.below(3) == 0;
        let endings = if is_sms { SMS_ENDINGS } else { ENDINGS };
        // A third is scripted; each request has its own reference, so no two share a challenge.
        let at = usize::try_from(chance.below(18)).unwrap_or_default();
        let scripted = endings.get(at);
        let to = match scripted {
            _ if is_email => self.mailbox(index, EMAIL_ENDINGS.get(at).copied()),
            // No ending of a message centre's.
            _ if self.is_plain => self.numbers.scripted(index, PLAIN),
            Some(ending) => self.numbers.scripted(index, *ending),
            None => self.numbers.plain(index),
        };
        let key = (chance.below(3) == 0).then(|| format!("crash-{}-{index}", self.seed));
        let code = chance::code(self.seed, index);
        let reference = Some(format!("r-{}-{index}", self.seed));
        let send = if is_sms || is_email {
            let text = Some(format!("Message {code} of request {index}."));
            let subject = is_email.then(|| format!("Request {index}"));
            Send { to, subject, text, reference, ..Send::default() }
        } else {
            Send { to, code: Some(code.clone()), reference, ..Send::default() }
        };
        Planned { send, code, key }
    }

    /// An address of its own for each request; what is scripted depends on the part before its
    /// label.
    fn mailbox(&self, index: u64, scripted: Option<&str>) -> String {
        let seed = self.seed;
        match scripted {
            Some(ending) => format!("{ending}+{seed}-{index}@sandbox.estafette.test"),
            None => format!("ada+{seed}-{index}@example.com"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::Plan;
    use crate::api::Object;

    #[test]
    fn the_same_seed_plans_the_same() {
        let text = |seed| {
            let plan = Plan::new(seed);
            let requests: Vec<_> = (0..50).map(|i| format!("{:?}", plan.request(i))).collect();
            let uptimes: Vec<_> = (0..50).map(|kill| plan.uptime(kill)).collect();
            (requests, uptimes)
        };
        assert_eq!(text(5), text(5));
        assert_ne!(text(5), text(6));
    }

    #[test]
    fn all_endings_keys_and_uptimes_occur_within_their_bounds() {
        let plan = Plan::new(1);
        let requests: Vec<_> = (0..2000).map(|i| plan.request(i)).collect();
        let endings: HashSet<_> =
            requests.iter().map(|r| r.send.to[r.send.to.len() - 4..].to_owned()).collect();
        for ending in
            ["0001", "0002", "0003", "0004", "0005", "0006", "0007", "0008", "0011", "0021"]
        {
            assert!(endings.contains(ending), "{ending}");
        }
        let refused = requests.iter().filter(|r| r.send.to.ends_with("0004"));
        assert!(refused.clone().all(|r| r.send.text.is_some()), "a passcode would be refused");
        let count = |object| requests.iter().filter(|r| r.send.object() == object).count();
        let (sms, emails) = (count(Object::Sms), count(Object::Email));
        assert!((500..850).contains(&sms) && (300..600).contains(&emails), "{sms}, {emails}");
        let scripted = |ending: &str| requests.iter().any(|r| r.send.to.starts_with(ending));
        assert!(super::EMAIL_ENDINGS.iter().all(|ending| scripted(ending)));
        let keyed = requests.iter().filter(|r| r.key.is_some()).count();
        assert!((500..850).contains(&keyed), "{keyed}");
        assert!((0..500).all(|k| (50..=600).contains(&plan.uptime(k).as_millis())));
    }
}
