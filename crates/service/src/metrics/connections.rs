//! Figures of connections: how many are open, and how many were not let in or were ended. The same
//! of those that became sockets of live chat.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ListenerLabels {
    listener: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabels {
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SideLabels {
    side: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CodeLabels {
    code: u16,
}

/// A connection that counts as open while this lives.
#[derive(Debug)]
pub struct OpenConnection(Gauge);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// The figures. Clones share them.
#[derive(Clone, Default)]
pub(super) struct Connections {
    open: Family<ListenerLabels, Gauge>,
    refused: Family<ReasonLabels, Counter>,
    cut: Family<ReasonLabels, Counter>,
    sockets: Family<SideLabels, Gauge>,
    sockets_closed: Family<CodeLabels, Counter>,
}

impl Connections {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register("connections_open", "Connections that are open", self.open.clone());
        registry.register(
            "connections_refused",
            "Connections that were not let in, by reason",
            self.refused.clone(),
        );
        registry.register(
            "connections_cut",
            "Connections that were ended at a deadline, by what was due",
            self.cut.clone(),
        );
        registry.register(
            "chat_sockets_open",
            "Sockets of live chat that are open, by side",
            self.sockets.clone(),
        );
        registry.register(
            "chat_sockets_closed",
            "Sockets of live chat that the service closed, by the code that it gave",
            self.sockets_closed.clone(),
        );
    }

    pub(super) fn socket_opened(&self, side: &'static str) -> OpenConnection {
        let open = self.sockets.get_or_create(&SideLabels { side }).clone();
        open.inc();
        OpenConnection(open)
    }

    pub(super) fn socket_closed(&self, code: u16) {
        self.sockets_closed.get_or_create(&CodeLabels { code }).inc();
    }

    pub(super) fn opened(&self, listener: &'static str) -> OpenConnection {
        let open = self.open.get_or_create(&ListenerLabels { listener }).clone();
        open.inc();
        OpenConnection(open)
    }

    pub(super) fn refused(&self, reason: &'static str) {
        self.refused.get_or_create(&ReasonLabels { reason }).inc();
    }

    pub(super) fn cut(&self, due: &'static str) {
        self.cut.get_or_create(&ReasonLabels { reason: due }).inc();
    }
}
