//! Metrics of GraphQL operations, for all transports.

use std::time::Instant;

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, histogram::Histogram},
    registry::Registry,
};

use super::seconds;

/// The metrics of operations.
#[derive(Clone, Debug)]
pub(crate) struct GraphQlMetrics {
    operations: Family<OutcomeLabels, Counter>,
    durations: Family<OperationLabels, Histogram>,
    cost: Counter,
}

/// The type of an operation.
#[derive(Clone, Copy, Debug)]
pub(crate) enum OperationKind {
    Query,
    Mutation,
    Subscription,
    /// The operation was rejected before its type was known.
    Unknown,
}

impl OperationKind {
    fn name(self) -> &'static str {
        match self {
            Self::Query => "query",
            Self::Mutation => "mutation",
            Self::Subscription => "subscription",
            Self::Unknown => "unknown",
        }
    }
}

/// The outcome of an operation.
#[derive(Clone, Copy, Debug)]
pub(crate) enum OperationOutcome {
    /// The response has no errors, or the subscription has started.
    Ok,
    /// The response has errors that the client can correct.
    Errors,
    /// The document, the variables or the request were invalid.
    Refused,
    /// The client exceeded a rate limit.
    RateLimited,
    /// The operation exceeded the timeout.
    Timeout,
    /// The database was not available.
    Unavailable,
    /// An internal error.
    Failed,
    /// The client disconnected before the response.
    Cancelled,
}

impl OperationOutcome {
    fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Errors => "errors",
            Self::Refused => "refused",
            Self::RateLimited => "rate_limited",
            Self::Timeout => "timeout",
            Self::Unavailable => "unavailable",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabels {
    r#type: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OperationLabels {
    r#type: &'static str,
}

impl GraphQlMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            operations: Family::default(),
            durations: Family::new_with_constructor(seconds),
            cost: Counter::default(),
        };
        registry.register(
            "operations",
            "Authenticated operations by type and outcome; subscriptions count when they start",
            metrics.operations.clone(),
        );
        registry.register(
            "operation_duration_seconds",
            "Time from the authentication of an operation to its result; for subscriptions, to their start",
            metrics.durations.clone(),
        );
        registry.register("cost", "Cost of operations in points", metrics.cost.clone());
        metrics
    }

    /// Starts the measurement of an operation.
    pub(crate) fn start_operation(&self) -> Operation {
        let (kind, outcome) = (OperationKind::Unknown, OperationOutcome::Cancelled);
        Operation { metrics: self.clone(), kind, outcome, started_at: Instant::now() }
    }
}

/// The measurement of an operation. It is recorded on drop.
#[derive(Debug)]
pub(crate) struct Operation {
    metrics: GraphQlMetrics,
    kind: OperationKind,
    outcome: OperationOutcome,
    started_at: Instant,
}

impl Operation {
    /// Sets the type.
    pub(crate) fn set_kind(&mut self, kind: OperationKind) {
        self.kind = kind;
    }

    /// Counts the points charged for the operation.
    pub(crate) fn add_cost(&self, points: u64) {
        self.metrics.cost.inc_by(points);
    }

    /// Sets the outcome and ends the measurement.
    pub(crate) fn finish(mut self, outcome: OperationOutcome) {
        self.outcome = outcome;
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        let (kind, outcome) = (self.kind.name(), self.outcome.name());
        self.metrics.operations.get_or_create(&OutcomeLabels { r#type: kind, outcome }).inc();
        let durations = self.metrics.durations.get_or_create(&OperationLabels { r#type: kind });
        durations.observe(self.started_at.elapsed().as_secs_f64());
    }
}
