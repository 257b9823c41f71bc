//! Operational metrics for Prometheus: throughput, durations and outcomes.
//!
//! Recording is an addition in memory. Metrics are not stored, and collecting them does not query the
//! database. Label values come from the program itself: route templates, kinds and outcomes. Their
//! number is therefore small for any number of clients, and no label identifies a tenant.

mod bus;
mod graphql;
mod http;
mod job;
mod live;
mod process;
mod report;
mod share;
mod store;

use std::{fmt, sync::Arc};

use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::{family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};

use self::process::Process;
pub(crate) use self::{
    bus::BusMetrics,
    graphql::{GraphQlMetrics, Operation, OperationKind, OperationOutcome},
    http::HttpMetrics,
    job::JobMetrics,
    live::LiveMetrics,
    report::ReportMetrics,
    share::{ResourceMetrics, ShareMetrics},
    store::{Connections, StoreMetrics, TransactionOutcome},
};

/// The buckets of duration histograms, in seconds: from a tenth of a millisecond, because most
/// operations are fast, to the longest timeout.
const SECONDS: [f64; 14] =
    [0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0];

/// All metrics of a server. They are not global: two servers in one process count separately.
pub(crate) struct Metrics {
    registry: Registry,
    pub(crate) http: HttpMetrics,
    pub(crate) graphql: GraphQlMetrics,
    pub(crate) reports: ReportMetrics,
    pub(crate) store: Arc<StoreMetrics>,
    pub(crate) bus: BusMetrics,
    pub(crate) live: LiveMetrics,
    pub(crate) jobs: JobMetrics,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}

impl Metrics {
    /// Returns the metrics of a server. The store and the shares have been counting since they were
    /// opened.
    pub(crate) fn new(store: Arc<StoreMetrics>, shares: &ShareMetrics) -> Self {
        let mut registry = Registry::default();
        // These have the names used by all Prometheus client libraries, so that generic dashboards work.
        registry.register_collector(Box::new(Process));
        let galvo = registry.sub_registry_with_prefix("galvo");
        let build = Family::<Build, Gauge>::default();
        build.get_or_create(&Build { version: env!("CARGO_PKG_VERSION") }).set(1);
        galvo.register("build_info", "The running version; always 1", build);
        let http = HttpMetrics::register(galvo.sub_registry_with_prefix("http"));
        let graphql = GraphQlMetrics::register(galvo.sub_registry_with_prefix("graphql"));
        let reports = ReportMetrics::register(galvo);
        store.register(galvo.sub_registry_with_prefix("store"));
        let bus = BusMetrics::register(galvo.sub_registry_with_prefix("bus"));
        let live = LiveMetrics::register(galvo.sub_registry_with_prefix("live"));
        let jobs = JobMetrics::register(galvo.sub_registry_with_prefix("job"));
        shares.register(galvo.sub_registry_with_prefix("share"));
        Self { registry, http, graphql, reports, store, bus, live, jobs }
    }

    /// Returns all metrics in the text format of OpenMetrics 1.0.
    pub(crate) fn open_metrics(&self) -> String {
        let mut text = String::with_capacity(32 << 10);
        encode(&mut text, &self.registry).expect("writing to memory does not fail");
        text
    }

    /// Returns all metrics in the older text format of Prometheus, in which counters are described by
    /// their full names.
    pub(crate) fn text(&self) -> String {
        let open_metrics = self.open_metrics();
        let mut text = String::with_capacity(open_metrics.len());
        // The description precedes the type, and only the type determines the suffix of the name.
        let mut help = None;
        for line in open_metrics.lines() {
            if line.starts_with("# HELP ") {
                help = line.strip_prefix("# HELP ").and_then(|help| help.split_once(' '));
            } else if let Some((name, kind)) =
                line.strip_prefix("# TYPE ").and_then(|declaration| declaration.split_once(' '))
            {
                let suffix = if kind == "counter" { "_total" } else { "" };
                if let Some((_, help)) = help.take() {
                    text.extend(["# HELP ", name, suffix, " ", help, "\n"]);
                }
                text.extend(["# TYPE ", name, suffix, " ", kind, "\n"]);
            } else if !line.starts_with('#') {
                text.extend([line, "\n"]);
            }
        }
        text
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Build {
    version: &'static str,
}

/// Returns a histogram of durations, in seconds.
fn seconds() -> Histogram {
    Histogram::new(SECONDS)
}

/// A guard that counts in a gauge while it exists.
#[derive(Debug)]
pub(crate) struct GaugeGuard(Gauge);

impl GaugeGuard {
    fn new(gauge: &Gauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for GaugeGuard {
    fn drop(&mut self) {
        self.0.dec();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_older_format_describes_the_same_by_the_names_of_its_samples() {
        let metrics = Metrics::new(Arc::default(), &ShareMetrics::default());
        metrics.bus.count_received();
        let (open, text) = (metrics.open_metrics(), metrics.text());
        assert!(open.contains("\n# TYPE galvo_bus_received counter\ngalvo_bus_received_total 1\n"), "{open}");
        assert!(open.ends_with("\n# EOF\n"), "{open}");
        let expected = "\n# TYPE galvo_bus_received_total counter\ngalvo_bus_received_total 1\n";
        assert!(text.contains(expected), "{text}");
        assert!(text.contains("\n# HELP galvo_bus_received_total "), "{text}");
        assert!(!text.contains("# EOF") && !text.contains("# UNIT"), "{text}");
        let samples = |text: &str| text.lines().filter(|line| !line.starts_with('#')).count();
        assert_eq!(samples(&open), samples(&text));
    }
}
