//! What operators watch: how much the server does, how long it takes and what becomes of it, as Prometheus reads it.
//!
//! Counting is an addition in memory, where something is done anyway; nothing of it is stored, and nothing is asked of the store.
//! Labels are words of the program itself: templates of routes, kinds and outcomes. So there are few of them, however many
//! callers there are, and nothing here tells of whom something is.

mod bus;
mod graphql;
mod http;
mod job;
mod live;
mod process;
mod report;
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
    store::{Connections, StoreMetrics, TransactionOutcome},
};

/// Seconds that requests, statements and the like take: from a tenth of a millisecond on, because most are fast, and as far as
/// the longest that is waited for.
const SECONDS: [f64; 14] =
    [0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0];

/// All that is counted of a server. Nothing outside it: two servers in one process count apart.
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
    /// What is counted of a server whose store is open, and has begun to count.
    pub(crate) fn new(store: Arc<StoreMetrics>) -> Self {
        let mut registry = Registry::default();
        // As all libraries for Prometheus call them, so that what is made for any program fits this one.
        registry.register_collector(Box::new(Process));
        let galvo = registry.sub_registry_with_prefix("galvo");
        let build = Family::<Build, Gauge>::default();
        build.get_or_create(&Build { version: env!("CARGO_PKG_VERSION") }).set(1);
        galvo.register("build_info", "Which version runs; always 1", build);
        let http = HttpMetrics::register(galvo.sub_registry_with_prefix("http"));
        let graphql = GraphQlMetrics::register(galvo.sub_registry_with_prefix("graphql"));
        let reports = ReportMetrics::register(galvo);
        store.register(galvo.sub_registry_with_prefix("store"));
        let bus = BusMetrics::register(galvo.sub_registry_with_prefix("bus"));
        let live = LiveMetrics::register(galvo.sub_registry_with_prefix("live"));
        let jobs = JobMetrics::register(galvo.sub_registry_with_prefix("job"));
        Self { registry, http, graphql, reports, store, bus, live, jobs }
    }

    /// All of it, in the text format of OpenMetrics 1.0.
    pub(crate) fn open_metrics(&self) -> String {
        let mut text = String::with_capacity(32 << 10);
        encode(&mut text, &self.registry).expect("writing to memory does not fail");
        text
    }

    /// All of it, in the text format that Prometheus had before: there a counter is described by its whole name.
    pub(crate) fn text(&self) -> String {
        let open_metrics = self.open_metrics();
        let mut text = String::with_capacity(open_metrics.len());
        // The description comes before the type, and only the type tells whether there is more to the name.
        let mut help = None;
        for line in open_metrics.lines() {
            if line.starts_with("# HELP ") {
                help = line.strip_prefix("# HELP ").and_then(|help| help.split_once(' '));
            } else if let Some((name, kind)) =
                line.strip_prefix("# TYPE ").and_then(|described| described.split_once(' '))
            {
                let more = if kind == "counter" { "_total" } else { "" };
                if let Some((_, help)) = help.take() {
                    text.extend(["# HELP ", name, more, " ", help, "\n"]);
                }
                text.extend(["# TYPE ", name, more, " ", kind, "\n"]);
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

/// Seconds, in a histogram.
fn seconds() -> Histogram {
    Histogram::new(SECONDS)
}

/// One of those that a gauge counts, as long as it lives.
#[derive(Debug)]
pub(crate) struct Counted(Gauge);

impl Counted {
    fn by(gauge: &Gauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.dec();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_older_format_describes_the_same_by_the_names_of_its_samples() {
        let metrics = Metrics::new(Arc::default());
        metrics.bus.received();
        let (open, text) = (metrics.open_metrics(), metrics.text());
        assert!(open.contains("\n# TYPE galvo_bus_received counter\ngalvo_bus_received_total 1\n"), "{open}");
        assert!(open.ends_with("\n# EOF\n"), "{open}");
        let described = "\n# TYPE galvo_bus_received_total counter\ngalvo_bus_received_total 1\n";
        assert!(text.contains(described), "{text}");
        assert!(text.contains("\n# HELP galvo_bus_received_total "), "{text}");
        assert!(!text.contains("# EOF") && !text.contains("# UNIT"), "{text}");
        let samples = |text: &str| text.lines().filter(|line| !line.starts_with('#')).count();
        assert_eq!(samples(&open), samples(&text));
    }
}
