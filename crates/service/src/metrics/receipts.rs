//! What carriers and mail servers tell of messages, and the networks of numbers.

use prometheus_client::registry::Registry;

use super::{CarrierLabels, Metrics};

impl Metrics {
    pub(super) fn register_receipts(&self, registry: &mut Registry) {
        registry.register(
            "receipts_parked",
            "Receipts that led to no message when they came, by carrier",
            self.receipts_parked.clone(),
        );
        registry.register("email_reports", "Reports of emails", self.email_reports.clone());
        registry.register(
            "sms_lookups",
            "Questions for the network of a number, by what came of them",
            self.sms_lookups.clone(),
        );
    }

    /// Counts a receipt that led to no message when it came.
    pub fn receipt_parked(&self, carrier: &str) {
        let labels = CarrierLabels { carrier: carrier.to_owned() };
        self.receipts_parked.get_or_create(&labels).inc();
    }

    /// Counts a message to the listener for reports of emails.
    pub fn email_report(&self, outcome: &'static str) {
        self.email_reports.get_or_create(&[("outcome", outcome)]).inc();
    }

    /// Counts a question for the network of a number.
    pub fn sms_lookup(&self, outcome: &'static str) {
        self.sms_lookups.get_or_create(&[("outcome", outcome)]).inc();
    }
}
