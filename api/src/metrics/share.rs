//! Metrics of bounded resources.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

/// The metrics of all resources with fair shares.
#[derive(Clone, Debug, Default)]
pub(crate) struct ShareMetrics {
    slots: Family<ResourceLabels, Gauge>,
    held: Family<ResourceLabels, Gauge>,
    refused: Family<ResourceLabels, Counter>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResourceLabels {
    resource: &'static str,
}

/// The metrics of one resource.
#[derive(Clone, Debug)]
pub(crate) struct ResourceMetrics {
    held: Gauge,
    refused: Counter,
}

impl ShareMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register("places", "Slots of a resource", self.slots.clone());
        registry.register("held", "Slots in use", self.held.clone());
        registry.register(
            "refused",
            "Requests that got no slot in time, and requests and connections ended in favor of others",
            self.refused.clone(),
        );
    }

    /// Registers a resource with this many slots, and returns its metrics.
    pub(crate) fn register_resource(&self, resource: &'static str, slots: usize) -> ResourceMetrics {
        let labels = ResourceLabels { resource };
        self.slots.get_or_create(&labels).set(i64::try_from(slots).unwrap_or(i64::MAX));
        let (held, refused) =
            (self.held.get_or_create_owned(&labels), self.refused.get_or_create_owned(&labels));
        ResourceMetrics { held, refused }
    }
}

impl ResourceMetrics {
    /// Counts a taken slot.
    pub(crate) fn count_taken(&self) {
        self.held.inc();
    }

    /// Counts a released slot.
    pub(crate) fn count_released(&self) {
        self.held.dec();
    }

    /// Counts a rejected request for a slot.
    pub(crate) fn count_refused(&self) {
        self.refused.inc();
    }
}
