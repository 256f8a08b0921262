//! Figures of passcodes by country: how many are sent and verified, by which carrier, and what the
//! guard against pumping does.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ConversionLabels {
    env: &'static str,
    country: String,
    carrier: String,
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CountryLabels {
    env: &'static str,
    country: String,
    outcome: &'static str,
}

/// The figures. Clones share them.
#[derive(Clone, Default)]
pub(super) struct Fraud {
    conversion: Family<ConversionLabels, Counter>,
    guarded: Family<CountryLabels, Counter>,
}

impl Fraud {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "otp_conversion",
            "Passcodes sent, taken by a carrier and verified, by country and carrier",
            self.conversion.clone(),
        );
        registry.register(
            "otp_fraud",
            "Passcodes beyond a budget of the guard against pumping, by country and what it did",
            self.guarded.clone(),
        );
    }

    pub(super) fn converted(
        &self,
        env: &'static str,
        country: &str,
        carrier: &str,
        outcome: &'static str,
    ) {
        let (country, carrier) = (country.to_owned(), carrier.to_owned());
        let labels = ConversionLabels { env, country, carrier, outcome };
        self.conversion.get_or_create(&labels).inc();
    }

    pub(super) fn guarded(&self, country: &str, outcome: &'static str) {
        let labels = CountryLabels { env: "live", country: country.to_owned(), outcome };
        self.guarded.get_or_create(&labels).inc();
    }
}
