//! Queries for a single number: the mapping from queries in the notation of the `coiled` client to
//! metrics, and the aggregation of a period to one value.

use std::str::FromStr;

use super::{metric::Metric, quantile::quantile, series::Buckets};

/// The supported queries about the one scheduler, each with the closest metric. White space and the
/// aggregation over processes are omitted.
const SCHEDULER_QUERIES: [(&str, Metric); 4] = [
    ("scheduler:(host_memory_total-host_memory_available)&scheduler", Metric::SchedulerMemory),
    ("scheduler:cpu_rate&scheduler", Metric::SchedulerCpu),
    ("scheduler_max_tick", Metric::SchedulerEventLoop),
    ("scheduler_tick_duration", Metric::SchedulerEventLoop),
];

/// The supported queries about workers, each with the closest metric. The aggregation over workers is
/// part of the query.
const WORKER_QUERIES: [(&str, Metric); 8] = [
    ("worker_max_tick|max", Metric::EventLoopMax),
    ("worker_max_tick|min", Metric::EventLoopMin),
    ("worker_max_tick|median", Metric::EventLoop),
    ("worker:(host_memory_total-host_memory_available)&worker|sum", Metric::MemoryProcess),
    ("worker:cpu_rate&worker|sum", Metric::Cpu),
    ("worker_memory|sum", Metric::MemoryProcess),
    ("worker_threads|sum", Metric::Threads),
    ("worker_gil_contention|max", Metric::GilContentionMax),
];

/// The aggregations over processes.
const PROCESS_AGGREGATIONS: [&str; 5] = ["sum", "max", "min", "avg", "mean"];

/// Returns the metric of a query: a metric by its name in reports, or the closest one for a supported
/// query. Returns `None` for all other queries.
#[must_use]
pub fn metric(query: &str) -> Option<Metric> {
    let query: String = query.chars().filter(|character| !character.is_whitespace()).collect();
    let find_metric = |queries: &[(&str, Metric)], query: &str| {
        queries.iter().find(|(known_query, _)| *known_query == query).map(|(_, metric)| *metric)
    };
    let bare_query = match query.rsplit_once('|') {
        Some((bare_query, aggregation)) if PROCESS_AGGREGATIONS.contains(&aggregation) => bare_query,
        _ => &query,
    };
    Metric::from_name(&query)
        .or_else(|| find_metric(&WORKER_QUERIES, &query))
        .or_else(|| find_metric(&SCHEDULER_QUERIES, bare_query))
}

/// Iterates over the supported queries, apart from names of metrics.
pub fn supported_queries() -> impl Iterator<Item = &'static str> {
    SCHEDULER_QUERIES.iter().chain(&WORKER_QUERIES).map(|(query, _)| *query)
}

/// An aggregation over time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TimeAggregation {
    /// The largest value.
    Max,
    /// The smallest value.
    Min,
    /// The mean.
    Mean,
    /// The quantile for this share, interpolated between two values.
    Quantile(f64),
}

/// The error for a text that is not an aggregation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be 'max', 'min', 'avg' or 'quantile(Q)' with Q from 0 to 1")]
pub struct ParseAggregationError;

impl FromStr for TimeAggregation {
    type Err = ParseAggregationError;

    fn from_str(text: &str) -> Result<Self, ParseAggregationError> {
        match text.trim() {
            "max" => Ok(Self::Max),
            "min" => Ok(Self::Min),
            "avg" | "mean" => Ok(Self::Mean),
            text => {
                let share = text.strip_prefix("quantile(").and_then(|remainder| remainder.strip_suffix(')'));
                let share = share.and_then(|share| share.trim().parse().ok());
                share
                    .filter(|share| (0.0..=1.0).contains(share))
                    .map(Self::Quantile)
                    .ok_or(ParseAggregationError)
            }
        }
    }
}

impl TimeAggregation {
    /// Aggregates the values of a metric. Returns `None` if there are none. Quantiles are those of the
    /// means of the buckets.
    #[must_use]
    pub fn of(self, buckets: &Buckets, metric: Metric) -> Option<f64> {
        let aggregate = || buckets.aggregate_all(metric);
        match self {
            Self::Max => aggregate().map(|bucket| bucket.max),
            Self::Min => aggregate().map(|bucket| bucket.min),
            Self::Mean => aggregate().map(|bucket| bucket.mean()),
            Self::Quantile(share) => {
                let mut means: Vec<f64> = buckets.of(metric).map(|(_, bucket)| bucket.mean()).collect();
                means.sort_by(f64::total_cmp);
                quantile(&means, share)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{sample_chunk::Samples, series::Window};

    #[test]
    fn queries_mean_what_comes_nearest() {
        for (query, expected) in [
            ("scheduler:(host_memory_total-host_memory_available)&scheduler", Some(Metric::SchedulerMemory)),
            ("scheduler:cpu_rate&scheduler | sum", Some(Metric::SchedulerCpu)),
            ("worker_max_tick|max", Some(Metric::EventLoopMax)),
            ("scheduler_max_tick|max", Some(Metric::SchedulerEventLoop)),
            ("memory_process_bytes", Some(Metric::MemoryProcess)),
            // A sum of delays has no meaning.
            ("worker_max_tick|sum", None),
            ("worker_max_tick", None),
            ("scheduler_max_tick|first", None),
            ("", None),
            ("up", None),
        ] {
            assert_eq!(metric(query), expected, "{query}");
        }
        assert!(supported_queries().all(|query| metric(query).is_some()));
    }

    #[test]
    fn values_over_a_time_become_one() {
        let mut samples = Samples::default();
        for (offset, value) in [(0, 4.0), (1_000, 1.0), (2_000, 3.0), (3_000, 2.0)] {
            samples.add(offset, [(Metric::Cpu, value)]);
        }
        let mut buckets = Buckets::new(Window::of_seconds(0, 10_000), &[Metric::Cpu, Metric::Threads]);
        buckets.add(0, &samples);
        for (text, expected) in [
            ("max", Some(4.0)),
            ("min", Some(1.0)),
            ("avg", Some(2.5)),
            ("quantile(0.5)", Some(2.5)),
            ("quantile( 0.80 )", Some(3.4)),
            ("quantile(0)", Some(1.0)),
            ("quantile(1)", Some(4.0)),
        ] {
            let way: TimeAggregation = text.parse().expect(text);
            let value = way.of(&buckets, Metric::Cpu).map(|value| (value * 1e9).round() / 1e9);
            assert_eq!(value, expected, "{text}");
            assert_eq!(way.of(&buckets, Metric::Threads), None, "{text}");
        }
        for text in ["", "sum", "quantile", "quantile(2)", "quantile(NaN)", "quantile(0.5", "last"] {
            assert_eq!(text.parse::<TimeAggregation>(), Err(ParseAggregationError), "{text}");
        }
    }
}
