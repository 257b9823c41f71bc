//! Metrics of bounded resources.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

/// The metrics of all resources with fair shares.
#[derive(Clone, Debug, Default)]
pub(crate) struct ShareMetrics {
    places: Family<Resource, Gauge>,
    held: Family<Resource, Gauge>,
    refused: Family<Resource, Counter>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Resource {
    resource: &'static str,
}

/// The metrics of one resource.
#[derive(Clone, Debug)]
pub(crate) struct ShareCounts {
    held: Gauge,
    refused: Counter,
}

impl ShareMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register("places", "Slots of a resource", self.places.clone());
        registry.register("held", "Slots in use", self.held.clone());
        registry.register(
            "refused",
            "Requests that got no slot in time, and requests and connections ended in favor of others",
            self.refused.clone(),
        );
    }

    /// Creates the metrics of a resource with this many slots.
    pub(crate) fn resource(&self, resource: &'static str, places: usize) -> ShareCounts {
        let label = Resource { resource };
        self.places.get_or_create(&label).set(i64::try_from(places).unwrap_or(i64::MAX));
        let (held, refused) =
            (self.held.get_or_create_owned(&label), self.refused.get_or_create_owned(&label));
        ShareCounts { held, refused }
    }
}

impl ShareCounts {
    /// Counts a taken slot.
    pub(crate) fn took(&self) {
        self.held.inc();
    }

    /// Counts a released slot.
    pub(crate) fn returned(&self) {
        self.held.dec();
    }

    /// Counts a rejected request for a slot.
    pub(crate) fn refused(&self) {
        self.refused.inc();
    }
}
