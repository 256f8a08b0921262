//! Figures of passcodes by country: how many are sent and verified, and what the guard against
//! pumping does.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CountryLabels {
    env: &'static str,
    country: String,
    outcome: &'static str,
}

/// The figures. Clones share them.
#[derive(Clone, Default)]
pub(super) struct Fraud {
    conversion: Family<CountryLabels, Counter>,
    guarded: Family<CountryLabels, Counter>,
}

impl Fraud {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "otp_conversion",
            "Passcodes sent and verified, by country",
            self.conversion.clone(),
        );
        registry.register(
            "otp_fraud",
            "Passcodes beyond a budget of the guard against pumping, by country and what it did",
            self.guarded.clone(),
        );
    }

    pub(super) fn converted(&self, env: &'static str, country: &str, outcome: &'static str) {
        let labels = CountryLabels { env, country: country.to_owned(), outcome };
        self.conversion.get_or_create(&labels).inc();
    }

    pub(super) fn guarded(&self, country: &str, outcome: &'static str) {
        let labels = CountryLabels { env: "live", country: country.to_owned(), outcome };
        self.guarded.get_or_create(&labels).inc();
    }
}
